"""Runs the stories of one adapter, and prints a line for each: ``python run.py langchain``. Exits with 1 on a fault."""

import sys
import unittest

import stories


class Result(unittest.TextTestResult):
    """Result that keeps the state of each story."""

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)  # type: ignore[arg-type]
        self.states: dict[str, str] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        # A driver may have several classes with the same stories.
        self.states.setdefault(test._testMethodName, "ok")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.states[test._testMethodName] = "-"

    def addFailure(self, test: unittest.TestCase, error: object) -> None:
        super().addFailure(test, error)  # type: ignore[arg-type]
        self.states[test._testMethodName] = "FAULT"

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, error: object) -> None:
        super().addSubTest(test, subtest, error)  # type: ignore[arg-type]
        if error is not None:
            self.states[test._testMethodName] = "FAULT"

    def addError(self, test: unittest.TestCase, error: object) -> None:
        super().addError(test, error)  # type: ignore[arg-type]
        self.states[getattr(test, "_testMethodName", "start")] = "FAULT"


def main() -> int:
    name, *wanted = sys.argv[1:]
    tests = unittest.defaultTestLoader
    tests.testNamePatterns = [f"*{one}*" for one in wanted] or None
    suite = tests.loadTestsFromName(f"test_{name}")
    stories.start()
    try:
        result = unittest.TextTestRunner(resultclass=Result, verbosity=2).run(suite)
    finally:
        stories.stop()
    for story, state in result.states.items():
        print(f"{name}\t{story.removeprefix('test_')}\t{state}")
    return 0 if result.wasSuccessful() and result.states else 1


if __name__ == "__main__":
    sys.exit(main())
