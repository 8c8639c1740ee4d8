"""Tools of the agents under test. They do nothing but wait or fail, and report the moment of their call."""

import json
import time
from pathlib import Path

scenario = json.loads((Path(__file__).parent / "scenario.json").read_text())


def report(what):
    """Prints a moment of the run, for watch.py."""
    print(json.dumps({"what": what, "at": time.time()}), flush=True)


def run_shell(command: str) -> str:
    """Runs a command line."""
    assert command == scenario["shell"]["arguments"]["command"], command
    report("call")
    time.sleep(scenario["tool_seconds"])
    report("result")
    return scenario["shell"]["result"]


def read_file(path: str) -> str:
    """Reads a file."""
    assert path == scenario["read"]["arguments"]["path"], path
    raise PermissionError(scenario["read"]["error"])


def schema(tool, argument):
    """Returns the schema of a tool with one argument."""
    parameters = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    function = {"name": tool.__name__, "description": tool.__doc__, "parameters": parameters}
    return {"type": "function", "function": function}


schemas = [schema(run_shell, "command"), schema(read_file, "path")]
