"""Runs an agent and tests that Umbra sees each call of it once, and the dangerous one while the agent still runs.

Usage: watch.py UMBRA_URL SERVICE AGENT FAILURE [--task TASK] -- COMMAND.. FAILURE is `error` where the instrumentation
tells of a failed tool, `result` where it exports only the text that the model is given. Prints a line; exits with 1 at
the first failed check.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from umbra_api import Umbra

# Longest time from the call of a tool to the finding, the batch of the SDK (5 s) included.
FINDING_SECONDS = 10
# Longest time for the last batch to be seen, and the silence after which no further event is expected.
LAST_SECONDS, SILENCE_SECONDS = 20, 4

options = argparse.ArgumentParser()
options.add_argument("url")
options.add_argument("service")
options.add_argument("agent")
options.add_argument("failure", choices=("error", "result"))
options.add_argument("--task")
split = sys.argv.index("--")
options = options.parse_args(sys.argv[1:split])
command = sys.argv[split + 1 :]
scenario = json.loads((Path(__file__).parent / "scenario.json").read_text())
umbra = Umbra(options.url)
key = "".join(scenario["key"])


def check(held, what, seen=None):
    """Ends the test if a check does not hold."""
    if not held:
        sys.exit(f"watch.py: {options.service}: {what}{'' if seen is None else ': ' + json.dumps(seen, indent=1)}")


def finding(rule):
    """Returns the first finding of a rule about the agent."""
    found = umbra.items("/v1/findings", agent=options.agent)
    return next((finding for finding in found if finding["rule"] == rule), None)


def own_events():
    """Returns the events of calls of the service, in the order of the agent's time."""
    events = umbra.events(options.service)
    return sorted(events, key=lambda event: event["occurred_at"])


def of_kind(events, kind):
    return [event for event in events if event["metadata"]["otel"]["kind"] == kind]


def run():
    """Runs the agent. Returns the seconds from the call of the shell tool to the finding."""
    environment = {**os.environ, "OTEL_SERVICE_NAME": options.service}
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True)
    moments, logged = {}, []

    def read():
        for line in agent.stdout:
            if line.startswith('{"what"'):
                moment = json.loads(line)
                moments[moment["what"]] = moment["at"]
            else:
                logged.append(line)

    reader = threading.Thread(target=read)
    reader.start()
    found = None
    try:
        while agent.poll() is None and not found:
            time.sleep(0.1)
            if "call" in moments and (found := finding("commands.download_and_run")):
                seconds = time.time() - moments["call"]
        running = agent.poll() is None
        agent.wait(60)
    finally:
        agent.kill()
        agent.wait()
        reader.join()
    done = agent.returncode == 0 and {"call", "result", "answer"} <= moments.keys()
    check(done, "the agent failed", logged)
    # Refused exports of any signal, metrics among them, are told there.
    check(not any("export" in line for line in logged), "the exporter complains", logged)
    check(found and running, "no finding while the agent ran")
    check(seconds <= FINDING_SECONDS, f"the finding came {seconds:.1f} s after the call")
    check(scenario["shell"]["arguments"]["command"] in found["evidence"]["quote"], "another finding", found)
    return seconds


def check_calls(events):
    """Tests that each call is one event with all that the agent told."""
    models, tools = of_kind(events, "model"), of_kind(events, "tool")
    check(len(models) == 3, "not 3 model calls", events)
    check(len(tools) == 2 and len(events) == 5, "not 2 tool calls", events)
    for event in events:
        check(event["agent"] == options.agent, f"not of the agent {options.agent}", event)
        check(event["task"] == scenario["prompt"], "not with the prompt as its task", event)
    tasks = {event["task_id"] for event in events}
    check(tasks == {options.task} if options.task else len(tasks) == 1, "not in one task", sorted(tasks))
    for event, name in zip(tools, ("shell", "read")):
        call, told = scenario[name], event["tool"]
        check(told["name"] == call["name"] and told["args"] == call["arguments"], "another tool call", event)
        check(name != "shell" or told["result"] == call["result"], "not the result", event)
    failure, other = options.failure, {"error": "result", "result": "error"}[options.failure]
    read = tools[1]["tool"]
    check(scenario["read"]["error"] in (read.get(failure) or ""), f"not the failure as {failure}", read)
    check(not read.get(other), f"a failed tool with {other}", read)
    tokens = [(event["tokens"]["input"], event["tokens"]["output"]) for event in models]
    check(tokens == [tuple(usage) for usage in scenario["usage"]], "other tokens", tokens)
    check(not any("tokens" in event and event["tokens"] for event in tools), "tokens at a tool call", tools)
    answer = models[2]["output"] or ""
    check(answer.startswith(scenario["answer"]) and "[secret:" in answer, "not the answer without its key", answer)
    return models[2]["id"]


def check_status():
    """Tests that the status counts the same calls, and misses nothing."""
    services = [service for service in umbra.get("/v1/status")["telemetry"] if service["service"] == options.service]
    counts = {name: sum(service[name] for service in services) for name in ("model_calls", "tool_calls")}
    check(counts == {"model_calls": 3, "tool_calls": 2}, "other counts in the status", services)
    lacks = [service for service in services if service["without_content"] or service["rejected"] or service["cut"]]
    check(not lacks, "the status misses contents", lacks)


seconds = run()
ended = time.monotonic()
while len(own_events()) < 5 or not finding("secrets.aws_access_key"):
    check(time.monotonic() < ended + LAST_SECONDS, "calls or the key are not seen", own_events())
    time.sleep(0.2)
last = time.monotonic() - ended
time.sleep(SILENCE_SECONDS)
answer = check_calls(own_events())
check(finding("secrets.aws_access_key")["event_id"] == answer, "the key was found elsewhere")
check(key not in umbra.raw("/v1/events", limit=500), "the key is stored")
check(key not in umbra.raw("/v1/findings", limit=500), "the key is in a finding")
check_status()
print(
    f"{options.service}: held: finding {seconds:.1f} s after the call, answer {last:.1f} s after the end; "
    "3 model calls, 2 tool calls, key found and not stored"
)
