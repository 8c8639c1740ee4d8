"""Agent that calls its model all the time, by the official instrumentation of the OpenAI SDK and the exporter of the
SDK of OpenTelemetry, and measures its own time.

Usage: exporting_agent.py http|grpc SERVICE. Makes 100 calls without an exporter, prints a line, makes 250 calls with
one, and prints what was acknowledged and how long the calls took. OPENAI_BASE_URL names the model server.
"""

import json
import logging
import os
import sys
import time

from openai import OpenAI
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

protocol, service = sys.argv[1:]
if protocol == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
else:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

# Calls without and with an exporter, and the pause between two.
BASELINE_CALLS, CALLS, PAUSE = 100, 250, 0.05


class RecordingExporter(SpanExporter):
    """Exports by another exporter, and records the spans that were acknowledged and those that were given up."""

    def __init__(self, exporter):
        self.exporter = exporter
        self.acknowledged, self.given_up = [], []
        self.longest = 0

    def export(self, spans):
        began = time.perf_counter()
        done = self.exporter.export(spans)
        self.longest = max(self.longest, time.perf_counter() - began)
        record = self.acknowledged if done is SpanExportResult.SUCCESS else self.given_up
        record += [format(span.context.span_id, "016x") for span in spans]
        return done

    def shutdown(self):
        self.exporter.shutdown()


class RetryCounter(logging.Handler):
    """Counts the exporter's own words about failed attempts."""

    attempts = 0

    def emit(self, record):
        self.attempts += 1


def call_model(name, count):
    """Calls the model; returns the seconds of each call."""
    seconds = []
    for number in range(count):
        began = time.perf_counter()
        asked = [{"role": "user", "content": f"echo {service} {name} {number}"}]
        model.chat.completions.create(model="gpt-4.1-mini", messages=asked)
        seconds.append(time.perf_counter() - began)
        time.sleep(PAUSE)
    return {"mean": sum(seconds) / count, "longest": max(seconds)}


retries = RetryCounter()
logging.getLogger("opentelemetry.exporter").addHandler(retries)
provider = TracerProvider(resource=Resource.create({"service.name": service}))
OpenAIInstrumentor().instrument(tracer_provider=provider)
model = OpenAI()
call_model("warm", 5)
baseline = call_model("unseen", BASELINE_CALLS)
exporter = RecordingExporter(OTLPSpanExporter())
provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=500))
print("exporting", flush=True)
exporting = call_model("seen", CALLS)
began = time.perf_counter()
provider.shutdown()
report = {"calls": CALLS, "acknowledged": exporter.acknowledged, "given_up": exporter.given_up}
report |= {"retries": retries.attempts, "baseline": baseline, "exporting": exporting}
report |= {"longest_export": exporter.longest}
print(json.dumps({**report, "shutdown": time.perf_counter() - began}), flush=True)
# Threads of an exporter must not keep the process.
os._exit(0)
