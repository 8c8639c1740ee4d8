"""Tests what came of the exports of exporting_agent.py while the server was at fault.

Usage: check_exports.py UMBRA_URL SERVICE REPORT. REPORT holds the agent's output. Prints a line; exits with 1 at the
first failed check.
"""

import collections
import json
import sys
import time
from pathlib import Path

from umbra_api import Umbra

# Longest time until acknowledged calls are events: a trace that a killed server had under way waits for 30 s.
EVENT_SECONDS = 45
# Shortest time of the longest export that met the fault: the pause that the server asks for, or the fault itself.
FAULT_SECONDS = 0.5
# Longest call of an agent that is never held up: each fault lasts 3 s or more.
CALL_SECONDS = 1.0

url, service, path = sys.argv[1:]
report = json.loads(Path(path).read_text().splitlines()[-1])
umbra = Umbra(url)


def check(held, what):
    """Ends the test if a check does not hold."""
    if not held:
        sys.exit(f"check_exports.py: {service}: {what}")


def read_events():
    """Returns the spans that are events, and the events."""
    events = umbra.events(service)
    return {event["metadata"]["otel"]["span_id"] for event in events}, events


acknowledged, given_up = report["acknowledged"], report["given_up"]
began = time.monotonic()
while True:
    seen, events = read_events()
    if seen >= set(acknowledged) or time.monotonic() > began + EVENT_SECONDS:
        break
    time.sleep(0.5)
took = time.monotonic() - began
time.sleep(3)
seen, events = read_events()
lost = set(acknowledged) - seen
check(not lost, f"{len(lost)} of {len(acknowledged)} acknowledged spans are no event")
check(len(set(acknowledged) | set(given_up)) == report["calls"], "the exporter was not given each span")
outputs = collections.Counter(event["output"] for event in events)
twice = [output for output, count in outputs.items() if count > 1]
check(len(seen) == len(events) and not twice, f"calls with more than one event: {twice}")
expected = {f"{service} seen {number}" for number in range(report["calls"])}
check(outputs.keys() <= expected, f"other outputs: {outputs.keys() - expected}")
check(len(outputs) >= len(acknowledged), "calls without their output")
longest = report["longest_export"]
check(longest > FAULT_SECONDS, f"no export met the fault: the longest took {longest:.2f} s")
baseline, exporting = report["baseline"], report["exporting"]
check(exporting["longest"] < CALL_SECONDS, f"a call took {exporting['longest']:.2f} s")
check(exporting["mean"] < 2 * baseline["mean"] + 0.02, f"the agent was held: {exporting}, and {baseline} without")
print(
    f"{service}: held: {len(acknowledged)} of {report['calls']} calls acknowledged, {len(events)} events after "
    f"{took:.1f} s, {len(given_up)} given up, {report['retries']} failed attempts, longest export "
    f"{longest:.1f} s; a call takes {1000 * exporting['mean']:.1f} ms, at most "
    f"{1000 * exporting['longest']:.0f} ms (without an exporter "
    f"{1000 * baseline['mean']:.1f} and {1000 * baseline['longest']:.0f}); shutdown {report['shutdown']:.1f} s"
)
