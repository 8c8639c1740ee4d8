"""Tests of the queue by which adapters post events in the background."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import support
from support import PATIENT, Server, setUpModule

from umbra_shadow import Umbra
from umbra_shadow._requests import NoAnswer, Request, Response
from umbra_shadow._sync import io
from umbra_shadow.adapters._posting import EventQueue

__all__ = ["setUpModule"]


class Queue(unittest.TestCase):
    def setUp(self) -> None:
        self.agent = f"desk-{uuid.uuid4().hex[:8]}"
        self.umbra = self.client(support.URL)

    def client(self, url: str, api_key: str | None = None) -> Umbra:
        umbra = Umbra(url, api_key, self.agent, timeout=PATIENT)
        self.addCleanup(umbra.close)
        return umbra

    def queue(self, umbra: Umbra, most: int = 1_000) -> EventQueue:
        queue = EventQueue(umbra, most)
        self.addCleanup(queue.close, 0.0)
        return queue

    def outputs(self, umbra: Umbra | None = None) -> list[str | None]:
        return [event.output for event in (umbra or self.umbra).events.list(agent=self.agent)]

    @contextlib.contextmanager
    def held(self) -> Iterator[threading.Event]:
        """Holds back the posts of the block until the event is set; tells by ``began`` that one waits."""
        go, original = threading.Event(), io.Http.request
        self.began = threading.Event()

        def wait(http: io.Http, request: Request, seconds: float) -> Response:
            if request.method == "POST":
                self.began.set()
                self.assertTrue(go.wait(PATIENT))
            return original(http, request, seconds)

        with unittest.mock.patch.object(io.Http, "request", wait):
            yield go

    def test_events_are_posted_in_order_and_once(self) -> None:
        queue = self.queue(self.umbra, 2_000)
        for number in range(1_200):
            queue.put({"output": f"{number}"})
        queue.put({"output": "last", "id": self.agent})
        queue.put({"output": "last", "id": self.agent})
        self.assertFalse(queue.flush(0.0))
        self.assertTrue(queue.close(PATIENT))
        self.assertEqual(self.outputs(), [*(f"{number}" for number in range(1_200)), "last"])
        self.assertEqual(queue.dropped, 0)
        queue.put({"output": "after"})
        self.assertTrue(queue.flush(PATIENT))
        self.assertEqual(self.outputs()[-1], "after")

    def test_an_event_is_the_one_that_was_put(self) -> None:
        queue = self.queue(self.umbra)
        event: dict[str, Any] = {"output": "before", "metadata": {"list": ["before"]}}
        with self.held() as go:
            queue.put(event)
            event["output"] = event["metadata"]["list"][0] = "after"
            go.set()
            self.assertTrue(queue.flush(PATIENT))
        (stored,) = self.umbra.events.list(agent=self.agent)
        assert stored.metadata is not None
        self.assertEqual((stored.output, stored.metadata["list"]), ("before", ["before"]))

    def test_no_caller_waits_and_the_oldest_are_dropped(self) -> None:
        queue = self.queue(self.umbra, 3)
        with self.held() as go:
            queue.put({"output": "first"})
            self.assertTrue(self.began.wait(PATIENT))
            for number in range(5):
                queue.put({"output": f"{number}"})
            self.assertEqual(queue.dropped, 2)
            self.assertFalse(queue.flush(0.0))
            go.set()
            self.assertTrue(queue.flush(PATIENT))
        self.assertEqual(self.outputs(), ["first", "2", "3", "4"])

    def test_bytes_are_bounded(self) -> None:
        queue = self.queue(self.umbra)
        with self.held() as go, unittest.mock.patch("umbra_shadow._posting._MOST_WAITING", 250_000):
            queue.put({"output": "first"})
            self.assertTrue(self.began.wait(PATIENT))
            for number in range(4):
                queue.put({"output": f"{number}" * 100_000})
            self.assertEqual(queue.dropped, 2)
            go.set()
            self.assertTrue(queue.flush(PATIENT))
        self.assertEqual([(text or "")[:1] for text in self.outputs()], ["f", "2", "3"])

    def test_events_wait_for_a_server_that_is_away(self) -> None:
        server = Server()
        self.addCleanup(server.end)
        umbra = self.client(server.url)
        queue = self.queue(umbra)
        queue.put({"output": "before"})
        self.assertTrue(queue.flush(PATIENT))
        server.stop()
        with self.assertLogs("umbra_shadow", "WARNING") as log:
            for number in range(10):
                queue.put({"output": f"{number}"})
                self.assertFalse(queue.flush(0.3))
            self.assertEqual(len(log.output), 1, log.output)
            server.start(server.url)
            self.assertTrue(queue.flush(PATIENT))
        self.assertIn(f"no event reaches {server.url}", log.output[0])
        self.assertIn("reach", log.output[1])
        self.assertEqual(len(log.output), 2, log.output)
        self.assertEqual(self.outputs(umbra), ["before", *(f"{number}" for number in range(10))])
        self.assertEqual(queue.dropped, 0)

    def test_number_of_events_that_wait_is_above_0(self) -> None:
        for most in ("x", 0, None):
            with self.assertRaisesRegex(ValueError, f"^most is a number of events above 0, not {most!r}$"):
                self.queue(self.umbra, most)  # type: ignore[arg-type]

    def test_refused_events_are_told_once(self) -> None:
        queue = self.queue(self.umbra)
        with self.assertLogs("umbra_shadow", "WARNING") as log:
            queue.put({"output": "good"})
            queue.put({"nothing": "known"})
            queue.put({"output": "x", "occurred_at": "yesterday"})
            queue.put({"output": "x", "metadata": {f"{number}": number for number in range(60_000)}})
            queue.put([1])  # type: ignore[arg-type]
            self.assertTrue(queue.flush(PATIENT))
        self.assertEqual(len(log.output), 1, log.output)
        self.assertEqual((queue.dropped, self.outputs()), (4, ["good"]))

    def test_wrong_key_is_told_once_and_keeps_nothing(self) -> None:
        server = Server(("keys", "create", "--name", "k", "--scope", "ingest", "--json"))
        self.addCleanup(server.end)
        wrong = json.loads(server.said[0])["key"][:-4] + "aaaa"
        queue = self.queue(self.client(server.url, wrong))
        with self.assertLogs("umbra_shadow", "WARNING") as log:
            for _ in range(3):
                queue.put({"output": "x"})
                self.assertTrue(queue.flush(PATIENT))
        self.assertEqual((len(log.output), queue.dropped), (1, 3), log.output)
        self.assertIn("is UMBRA_API_KEY a key of this server?", log.output[0])
        self.assertNotIn(wrong, log.output[0])

    def test_agent_that_the_key_is_not_for_is_told(self) -> None:
        server = Server(("keys", "create", "--name", "k", "--scope", "ingest", "--agent", "desk", "--json"))
        self.addCleanup(server.end)
        queue = self.queue(self.client(server.url, json.loads(server.said[0])["key"]))
        with self.assertLogs("umbra_shadow", "WARNING") as log:
            for agent in ("desk", "triage"):
                queue.put({"agent": agent, "output": "x"})
            self.assertTrue(queue.flush(PATIENT))
        self.assertEqual((len(log.output), queue.dropped), (1, 1), log.output)
        self.assertRegex(log.output[0], r"it answered 403: .*\(agent 'triage'\)")

    def test_long_texts_are_shortened(self) -> None:
        queue = self.queue(self.umbra)
        queue.put({"output": "begin " + "ä\n" * 500_000 + " end", "tool": {"name": "read", "result": "y" * 999_999}})
        self.assertTrue(queue.flush(PATIENT))
        self.assertEqual(queue.dropped, 0)
        (stored,) = self.umbra.events.list(agent=self.agent)
        assert stored.output is not None and stored.tool is not None
        self.assertTrue(stored.output.startswith("begin ä") and stored.output.endswith("ä\n end"))
        self.assertIn("characters are left out here]", stored.output)
        self.assertEqual(stored.tool.name, "read")

    def test_a_forked_process_posts_its_own_events(self) -> None:
        queue = self.queue(self.umbra)
        with self.held() as go:
            queue.put({"output": "of the parent"})
            self.assertTrue(self.began.wait(PATIENT))
            queue.put({"output": "of the parent too"})
            child = os.fork()
            if child == 0:
                go.set()
                queue.put({"output": "of the child"})
                os._exit(0 if queue.flush(PATIENT) and not queue.dropped else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(self.outputs(), ["of the child"])
            go.set()
            self.assertTrue(queue.flush(PATIENT))
        self.assertEqual(sorted(map(str, self.outputs())), ["of the child", "of the parent", "of the parent too"])

    def test_events_of_the_exit_are_posted(self) -> None:
        """Frameworks may call back after the queue was flushed, and when no thread can be started any more."""
        program = """if True:
            import atexit, sys
            late = []
            atexit.register(lambda: [late[0].put({"output": f"late {number}"}) for number in range(int(sys.argv[4]))])
            from umbra_shadow import Umbra
            from umbra_shadow.adapters._posting import EventQueue
            late.append(EventQueue(Umbra(sys.argv[1], agent=sys.argv[2])))
            if sys.argv[3] == "early":
                late[0].put({"output": "early"})
        """
        for begins in ("early", "late"):
            self.agent = f"desk-{uuid.uuid4().hex[:8]}"
            command = [sys.executable, "-c", program, support.URL, self.agent, begins, "2"]
            done = subprocess.run(command, timeout=PATIENT, capture_output=True, check=True)
            self.assertEqual(done.stderr, b"")
            early = ["early"] if begins == "early" else []
            self.assertEqual(self.outputs(), [*early, "late 0", "late 1"])
        # A server that answers nothing delays the exit once.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            command[3:] = [f"http://127.0.0.1:{listener.getsockname()[1]}", self.agent, "late", "20"]
            done = subprocess.run(command, timeout=PATIENT, capture_output=True, check=True)
        self.assertEqual(done.stderr.count(b"no event reaches"), 1, done.stderr)

    def test_lost_outcomes_are_counted_at_the_exit(self) -> None:
        program = """if True:
            import sys
            from umbra_shadow import Umbra
            umbra = Umbra(sys.argv[1])
            for number in range(3):
                umbra.report(f"c-{number}", {"status": "ok"})
            if sys.argv[2] == "flush":
                umbra.flush(20)
        """
        command = [sys.executable, "-c", program]
        away = "http://127.0.0.1:9"
        # The server refuses outcomes of calls that it does not know.
        for url, flush in [(away, "no"), (support.URL, "flush")]:
            words = f"the program ends; outcomes that are lost, since {url} has not taken them: 3"
            done = subprocess.run([*command, url, flush], timeout=2 * PATIENT, capture_output=True, check=True)
            told = done.stderr.decode()
            self.assertEqual((told.count("the program ends"), words in told), (1, True), told)

    def outcomes(self, umbra: Umbra) -> list[Any]:
        with urllib.request.urlopen(f"{umbra.url}/v1/audit?agent={self.agent}&kind=outcome") as answer:
            return [json.loads(line) for line in answer.read().splitlines()]

    def call(self, umbra: Umbra) -> None:
        self.assertEqual(umbra.call_tool("get_page", {}, lambda: "text", effect="read"), "text")

    def test_a_forked_process_reports_its_own_outcomes(self) -> None:
        self.call(self.umbra)
        self.assertTrue(self.umbra.flush(PATIENT))
        child = os.fork()
        if child == 0:
            self.call(self.umbra)
            os._exit(0 if self.umbra.flush(PATIENT) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(len(self.outcomes(self.umbra)), 2)

    def test_outcomes_wait_for_a_server_that_is_away(self) -> None:
        server = Server()
        self.addCleanup(server.end)
        umbra = self.client(server.url)

        def stop() -> str:
            server.stop()
            return "text"

        with self.assertLogs("umbra_shadow", "WARNING") as log:
            umbra.call_tool("get_page", {}, stop, effect="read")
            self.assertFalse(umbra.flush(0.5))
            server.start(server.url)
            self.assertTrue(umbra.flush(PATIENT))
        self.assertEqual(len(self.outcomes(umbra)), 1)
        self.assertEqual(len(log.output), 2, log.output)

    def test_an_event_that_the_server_cannot_take_holds_up_no_other(self) -> None:
        original, queue, sizes = io.Http.request, self.queue(self.umbra), []

        def fail(http: io.Http, request: Request, seconds: float) -> Response:
            outputs = [event["output"] for event in request.body["events"]] if request.method == "POST" else []
            sizes.append(len(outputs))
            return Response(500, {"detail": "broken"}) if "5" in outputs else original(http, request, seconds)

        with self.assertLogs("umbra_shadow", "WARNING") as log, self.held() as go:
            queue.put({"output": "first"})
            self.assertTrue(self.began.wait(PATIENT))
            for number in range(9):
                queue.put({"output": f"{number}"})
            with unittest.mock.patch.object(io.Http, "request", fail):
                go.set()
                self.assertTrue(queue.flush(PATIENT))
        self.assertEqual((queue.dropped, self.outputs()), (1, ["first", *"01234678"]))
        self.assertEqual((sizes[:3], sizes.count(1)), ([9, 4, 5], 7), sizes)
        self.assertIn("is dropped: it answered 500: broken, 5 times", "\n".join(log.output))

    def test_refused_outcomes_are_told_once(self) -> None:
        with self.assertLogs("umbra_shadow", "WARNING") as log:
            for _ in range(3):
                self.umbra.report(uuid.uuid4().hex, {"status": "ok"})
            self.assertTrue(self.umbra.flush(PATIENT))
        self.assertEqual((len(log.output), self.umbra._core.outcomes.dropped), (1, 3), log.output)
        self.assertIn("an outcome for", log.output[0])

    def test_an_outcome_that_the_server_cannot_take_holds_up_no_other(self) -> None:
        original, faulty = io.Http.request, uuid.uuid4().hex
        tries: list[str] = []

        def fail(http: io.Http, request: Request, seconds: float) -> Response:
            if faulty not in request.path:
                return original(http, request, seconds)
            tries.append(request.path)
            # A server that is away for a while does not count.
            return Response(503 if len(tries) < 4 else 500, {"detail": "broken"})

        with self.assertLogs("umbra_shadow", "WARNING") as log, unittest.mock.patch.object(io.Http, "request", fail):
            self.umbra.report(faulty, {"status": "ok"})
            self.call(self.umbra)
            self.assertTrue(self.umbra.flush(PATIENT))
        self.assertEqual((len(tries), self.umbra._core.outcomes.dropped), (8, 1))
        self.assertEqual(len(self.outcomes(self.umbra)), 1)
        told = ["no outcome reaches", "an outcome .* is dropped: it answered 500: broken, 5 times", "reach .* again"]
        self.assertEqual(len(log.output), len(told), log.output)
        for line, words in zip(log.output, told, strict=True):
            self.assertRegex(line, words)

    def test_close_drops_what_waits(self) -> None:
        queue = self.queue(self.client("http://127.0.0.1:9"))
        before, request = time.monotonic(), unittest.mock.Mock(side_effect=NoAnswer("away"))
        with self.assertLogs("umbra_shadow", "WARNING"), unittest.mock.patch.object(io.Http, "request", request):
            queue.put({"output": "x"})
            self.assertFalse(queue.close(0.5))
        self.assertLess(time.monotonic() - before, 5.0)
        self.assertEqual(queue.dropped, 1)
        self.assertLess(request.call_count, 10)


if __name__ == "__main__":
    unittest.main()
