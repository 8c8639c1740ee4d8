"""Fills a server by exports that do not end, so that it answers others with 503 and UNAVAILABLE.

Usage: fill_server.py UMBRA_URL SECONDS. The server must run with the small `server.max_in_flight_bytes` of otel.sh.
Prints a line once the server refuses an export over each protocol.
"""

import os
import socket
import sys
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import grpc

url, seconds = sys.argv[1], float(sys.argv[2])
address = urlsplit(url).netloc
# Sizes of bodies, long ones and then short ones that fill the gaps, and exports over gRPC: more than the server takes.
LONG_BODIES, SHORT_BODIES = [60_000] * 12, [4000] * 20
CALLS, CALLS_OF_A_CHANNEL = 80, 20
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def begin_body(size):
    """Returns a connection that sent an export up to its last byte."""
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)))
    head = f"POST /v1/traces HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/x-protobuf\r\n"
    connection.sendall(f"{head}content-length: {size + 1}\r\n\r\n".encode() + bytes(size))
    return connection


def late_message():
    """Yields the message of an export, an hour later."""
    time.sleep(3600)
    yield b""


def refuses_http():
    """Returns whether the server answers an export with 503."""
    request = urllib.request.Request(url + "/v1/traces", b"\n\0", {"content-type": "application/x-protobuf"})
    try:
        urllib.request.urlopen(request, timeout=5).close()
    except urllib.error.HTTPError as error:
        return error.code == 503 and "retry-after" in error.headers
    return False


def refuses_grpc():
    """Returns whether the server answers an export with UNAVAILABLE."""
    try:
        channels[0].unary_unary(METHOD)(b"", timeout=5)
    except grpc.RpcError as error:
        return error.code() is grpc.StatusCode.UNAVAILABLE
    return False


ends = time.monotonic() + seconds
# Each channel has a connection of its own.
own = [("grpc.use_local_subchannel_pool", 1)]
channels = [grpc.insecure_channel(address, own) for _ in range(CALLS // CALLS_OF_A_CHANNEL)]
exports = [channel.stream_unary(METHOD) for channel in channels for _ in range(CALLS_OF_A_CHANNEL)]
calls = [export.future(late_message()) for export in exports]
connections = [begin_body(size) for size in LONG_BODIES + SHORT_BODIES]
time.sleep(0.5)
# Exports that were under way gave their memory back.
while not refuses_http() and time.monotonic() < ends:
    connections += [begin_body(size) for size in SHORT_BODIES]
    time.sleep(0.1)
if not refuses_http() or not refuses_grpc():
    sys.exit("fill_server.py: the server is not full")
print("full", flush=True)
time.sleep(max(0, ends - time.monotonic()))
for connection in connections:
    connection.close()
# Threads of gRPC that wait for their message must not keep the process.
os._exit(0)
