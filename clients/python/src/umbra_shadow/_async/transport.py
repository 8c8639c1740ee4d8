"""HTTP/1.1 over asyncio's streams: requests within a deadline, kept connections, and server-sent events.

Streams instead of threads: a request that is cancelled or late ends at once, and leaves neither a thread nor a task.
Tools that are no coroutines are the exception: they send requests in their own thread (``umbra.Client``).
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import ssl
import threading
import time
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

import umbra

T = TypeVar("T")

# Seconds in which a kept connection is used again.
_KEPT = 30.0
_MOST_BODY = 16 * 1024 * 1024
# Seconds of delay from which the program itself held the event loop up: bytes that arrived meanwhile are not read yet.
_HELD_UP = 0.05
# Seconds of silence after which a stream is dead; the server sends a keep-alive message every 15 s.
_SILENCE = 60.0


@dataclasses.dataclass(frozen=True)
class Request:
    """A request to the server."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    repeatable: bool = False
    """True if the request may be sent again when a kept connection turns out to be closed."""

    @functools.cached_property
    def data(self) -> bytes:
        """Body in the form that is sent: JSON in UTF-8, or nothing."""
        if self.body is None:
            return b""
        plain = _without_nul(umbra._plain(self.body))
        return json.dumps(plain, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


@dataclasses.dataclass(frozen=True)
class Response:
    """A response of the server."""

    status: int
    body: Mapping[str, Any]


class Transport(Protocol):
    """Connection to a server. Without a response it raises ``umbra._NoAnswer``."""

    async def request(self, request: Request, seconds: float) -> Response:
        """Sends a request and returns the response, within ``seconds``."""
        ...

    def request_now(self, request: Request, seconds: float) -> Response:
        """Does the same as :meth:`request`, for functions that are no coroutines."""
        ...

    def events(self, path: str, after: int | None, seconds: float) -> AsyncGenerator[tuple[str, str, str], None]:
        """Yields server-sent events as (id, event, data); the stream begins within ``seconds``."""
        ...

    def close(self) -> None:
        """Closes every connection."""
        ...


class Health:
    """Circuit breaker of a server: after faults in a row no request is sent for a while, then one request tries it."""

    FAULTS = 3
    PASSIVE = 15.0
    """Length of the pause, in seconds."""

    def __init__(self, faults: int | None = None) -> None:
        self.most = faults or self.FAULTS
        self._lock = threading.Lock()
        self._faults = 0
        self._until = 0.0

    def may_ask(self, seconds: float, alone: bool = True) -> bool:
        """Returns True if a request may be sent. After a pause an ``alone`` one holds others back for ``seconds``."""
        with self._lock:
            if self._faults < self.most:
                return True
            now = time.monotonic()
            if now < self._until:
                return False
            if alone:
                self._until = now + seconds
            return True

    def answered(self) -> None:
        with self._lock:
            self._faults = 0

    def failed(self) -> int:
        """Notes a fault, and returns the number of faults in a row."""
        with self._lock:
            self._faults += 1
            if self._faults >= self.most:
                self._until = time.monotonic() + self.PASSIVE
            return self._faults


class Http:
    """Transport over HTTP to the server of an ``umbra.Client``."""

    def __init__(self, client: umbra.Client) -> None:
        self._client = client
        self._parts = client._parts
        self._kept: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._tls: ssl.SSLContext | None = None

    async def request(self, request: Request, seconds: float) -> Response:
        return await _within(seconds, self._request(request))

    def request_now(self, request: Request, seconds: float) -> Response:
        status, answer = self._client._send(request.path, request.data, seconds)
        return Response(status, answer)

    async def events(self, path: str, after: int | None, seconds: float) -> AsyncGenerator[tuple[str, str, str], None]:
        headers = {"Accept": "text/event-stream", **({} if after is None else {"Last-Event-ID": str(after)})}
        connection: _Connection | None = None
        try:
            connection, body, status = await _within(seconds, self._begin(Request("GET", path, None, headers)))
            if status != 200:
                answer = umbra._answer(status, await _within(seconds, body.all()))
                raise _Refusal(Response(status, answer))
            said: dict[str, str] = {}
            lines = _Lines(body)
            while (line := await _within(_SILENCE, lines.next())) is not None:
                name, _, value = line.partition(":")
                if name:
                    said[name] = value.removeprefix(" ")
                elif not line and said:
                    yield said.get("id", ""), said.get("event", ""), said.get("data", "")
                    said = {}
        finally:
            if connection is not None:
                self._drop(connection)

    def close(self) -> None:
        for connection in list(self._open):
            self._drop(connection)
        self._kept.clear()

    async def _request(self, request: Request) -> Response:
        # After this step the event loop knows the connections that were closed meanwhile.
        await asyncio.sleep(0)
        while self._kept:
            kept = self._kept.pop()
            if not kept.is_fresh():
                self._drop(kept)
                continue
            try:
                return await self._exchange(kept, request)
            except _Closed:
                if not request.repeatable:
                    raise
        return await self._exchange(await self._connect(), request)

    async def _exchange(self, connection: _Connection, request: Request) -> Response:
        try:
            status, body = await connection.send(self._written(request))
            answer = Response(status, umbra._answer(status, await body.all()))
        except BaseException:
            self._drop(connection)
            raise
        if body.closes:
            self._drop(connection)
        else:
            connection.used = time.monotonic()
            self._kept.append(connection)
        return answer

    async def _begin(self, request: Request) -> tuple[_Connection, _Body, int]:
        connection = await self._connect()
        try:
            status, body = await connection.send(self._written(request))
        except BaseException:
            self._drop(connection)
            raise
        return connection, body, status

    async def _connect(self) -> _Connection:
        secure = self._parts.scheme == "https"
        if secure and self._tls is None:
            self._tls = ssl.create_default_context()
        port = self._parts.port or (443 if secure else 80)
        reader, writer = await asyncio.open_connection(self._parts.hostname, port, ssl=self._tls)
        connection = _Connection(reader, writer)
        self._open.add(connection)
        return connection

    def _drop(self, connection: _Connection) -> None:
        self._open.discard(connection)
        connection.writer.transport.abort()

    def _written(self, request: Request) -> bytes:
        netloc = self._parts.netloc.rpartition("@")[2]
        headers = {"Host": netloc, "User-Agent": f"umbra-python/{umbra.__version__}", **request.headers}
        if self._client._key:
            headers["Authorization"] = f"Bearer {self._client._key}"
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            headers["Content-Length"] = str(len(request.data))
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{request.method} {self._parts.path}{request.path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + request.data


def _without_nul(value: Any) -> Any:
    """Replaces U+0000 by U+FFFD: the server cannot store it, and results of tools may hold it."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return umbra._keyed((_without_nul(key), _without_nul(item)) for key, item in value.items())
    return [_without_nul(item) for item in value] if isinstance(value, list) else value


class _Closed(umbra._NoAnswer):
    """The connection was closed before the first byte of a response."""


class _Refusal(Exception):
    """The response to a request for a stream is no stream."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.used = time.monotonic()

    def is_fresh(self) -> bool:
        gone = self.reader.at_eof() or self.writer.is_closing()
        return not gone and time.monotonic() - self.used < _KEPT

    async def send(self, data: bytes) -> tuple[int, _Body]:
        """Sends a request, and reads the response up to its body."""
        status = 100
        while 100 <= status < 200:
            try:
                if data:
                    self.writer.write(data)
                    await self.writer.drain()
                    data = b""
                head = await self.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError) as gone:
                if not getattr(gone, "partial", b""):
                    raise _Closed("the connection was closed") from None
                raise
            first, *lines = head.decode("latin-1").split("\r\n")[:-2]
            protocol, _, rest = first.partition(" ")
            if protocol not in ("HTTP/1.1", "HTTP/1.0"):
                raise ValueError("what answers does not speak HTTP/1.1")
            status = int(rest[:3])
        named = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in named}
        closes = protocol == "HTTP/1.0" or headers.get("connection", "").lower() == "close"
        return status, _Body(self.reader, headers, closes)


class _Body:
    """Body of a response, read piece by piece."""

    def __init__(self, reader: asyncio.StreamReader, headers: Mapping[str, str], closes: bool) -> None:
        self._reader = reader
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length")
        # Bytes that are left of the body or of its chunk; None if the body ends with the connection.
        self._left = None if length is None else int(length)
        if self._chunked:
            self._left = 0
        self.closes = closes or self._left is None

    async def piece(self) -> bytes:
        """Returns the next bytes; none at the end."""
        if self._chunked and self._left == 0:
            size = int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16)
            if size == 0:
                while await self._reader.readuntil(b"\r\n") != b"\r\n":
                    pass
                return b""
            self._left = size
        if self._left == 0:
            return b""
        most = 65_536
        data = await self._reader.read(most if self._left is None else min(most, self._left))
        if self._left is not None:
            if not data:
                raise asyncio.IncompleteReadError(b"", self._left)
            self._left -= len(data)
            if self._chunked and self._left == 0:
                await self._reader.readexactly(2)
        return data

    async def all(self) -> bytes:
        data = bytearray()
        while piece := await self.piece():
            data += piece
            if len(data) > _MOST_BODY:
                raise ValueError("the answer is too long")
        return bytes(data)


class _Lines:
    """Body of a response, read line by line."""

    def __init__(self, body: _Body) -> None:
        self._body, self._rest = body, b""

    async def next(self) -> str | None:
        """Returns the next line; None at the end."""
        while b"\n" not in self._rest:
            piece = await self._body.piece()
            if not piece:
                return None
            self._rest += piece
            if len(self._rest) > _MOST_BODY:
                raise ValueError("a line of the stream is too long")
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace").removesuffix("\r")


async def _within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of some work within ``seconds``. Raises ``umbra._NoAnswer`` without one.

    ``asyncio.wait_for`` is not used: before Python 3.12 it can swallow the cancellation of its caller.
    """
    task = asyncio.ensure_future(work)
    left = max(0.0, seconds)
    try:
        while True:
            began = time.monotonic()
            await asyncio.wait({task}, timeout=left)
            late = time.monotonic() - began - left
            if task.done() or late < _HELD_UP:
                break
            left = min(late, seconds)
    finally:
        # The cancelled work waits for nothing, so it ends at once.
        task.cancel()
        await asyncio.wait({task})
        gone = None if task.cancelled() else task.exception()
    if task.cancelled():
        raise umbra._NoAnswer("no answer in time")
    if isinstance(gone, (OSError, EOFError, ValueError, RecursionError, asyncio.LimitOverrunError)):
        raise umbra._NoAnswer(str(gone) or type(gone).__name__) from None
    return task.result()
