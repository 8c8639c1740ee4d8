"""Input and output of the synchronous client: HTTP within a deadline, by httpx in the caller's thread."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager, suppress
from typing import Any, Generic, TypeVar

import httpcore
import httpx

from .._config import Config
from .._requests import SILENCE, EventDecoder, NoAnswer, Request, Response, ServerEvent, wire

__all__ = ["Http", "Interruptible", "Semaphore", "awaited", "closing", "is_async", "sleep"]

T = TypeVar("T")

is_async = False
Semaphore = threading.Semaphore
# Most bytes of one write, so that the deadline also holds for a server that reads slowly.
_PIECE = 65_536


def awaited(value: Any) -> Any:
    """Returns the value: a synchronous caller awaits nothing."""
    return value


def sleep(seconds: float) -> None:
    """Waits; within an iteration that another thread closes, no longer than until then."""
    iteration = _iteration()
    if iteration is None:
        time.sleep(seconds)
    elif iteration.is_closed.wait(seconds):
        raise _Closed


class Http:
    """HTTP to one server, for all threads. Connections belong to the process that opened them."""

    def __init__(self, config: Config, transport: httpx.BaseTransport | None = None) -> None:
        self._config, self._given = config, transport
        self._lock = threading.Lock()
        self._transport_of: tuple[int, httpx.BaseTransport] | None = None

    def request(self, request: Request, seconds: float) -> Response:
        """Returns the response within ``seconds``. Raises :class:`NoAnswer` without one."""
        with _deadline(seconds):
            for attempt in range(2):
                try:
                    response = self._send(request, pool=max(seconds, 1e-3))
                    return Response.of(response.status_code, response.read(), response.headers)
                except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                    # A kept connection may have been closed in this moment.
                    lost = isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError))
                    if attempt or not lost or not request.repeatable:
                        raise NoAnswer.of(error) from None
        raise AssertionError

    def events(self, request: Request, seconds: float) -> Generator[Response | ServerEvent, None, None]:
        """Yields server-sent events, or the response if it is no stream; the stream begins within ``seconds``."""
        try:
            with _deadline(seconds):
                response = self._send(request, pool=seconds, read=SILENCE)
            try:
                if response.status_code != 200:
                    with _deadline(seconds):
                        data = response.read()
                    yield Response.of(response.status_code, data, response.headers)
                    return
                decoder = EventDecoder()
                for line in response.iter_lines():
                    if event := decoder.feed(line):
                        yield event
            finally:
                response.close()
        except httpx.HTTPError as error:
            raise NoAnswer.of(error) from None

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            known, self._transport_of = self._transport_of, None
        if known is not None and known[0] == os.getpid():
            known[1].close()

    def _send(self, request: Request, **timeouts: float) -> httpx.Response:
        """Sends a request by the transport itself: the client of httpx doubles the time that a request costs here."""
        sent = wire(request, self._config.url, self._config.api_key, **timeouts)
        with self._lock:
            if self._transport_of is None or self._transport_of[0] != os.getpid():
                transport = self._given or _Transport(self._config.url.startswith("https"))
                self._transport_of = (os.getpid(), transport)
            _, transport = self._transport_of
        return transport.handle_request(sent)


_current = threading.local()


class _Closed(Exception):
    """Another thread has closed the iteration that this thread is in."""


class Interruptible(Generic[T]):
    """Iteration of a generator that any thread may close, also while another waits in it for the server."""

    def __init__(self, items: Generator[T, None, None]) -> None:
        self._items = items
        # Held by the thread that runs the generator.
        self._running = threading.Lock()
        self.is_closed = threading.Event()
        # Reentrant: a handler of a signal may close what its own thread iterates.
        self._changing = threading.RLock()
        self._waiting: socket.socket | None = None

    def __next__(self) -> T:
        with self._running:
            if self.is_closed.is_set():
                self._items.close()
            _current.iteration = self
            try:
                return next(self._items)
            except _Closed:
                raise StopIteration from None
            finally:
                _current.iteration = None
                if self.is_closed.is_set():
                    self._items.close()

    def close(self) -> None:
        """Ends the iteration. A thread that is in it ends it as soon as it notices."""
        with self._changing:
            self.is_closed.set()
            if self._waiting is not None:
                # The read gets the end of the data at once. This method works beneath TLS, whose state is the reader's.
                with suppress(OSError):
                    socket.socket.shutdown(self._waiting, socket.SHUT_RDWR)
        if self._running.acquire(blocking=False):
            try:
                self._items.close()
            finally:
                self._running.release()

    def read(self, stream: httpcore.NetworkStream, max_bytes: int, timeout: float | None) -> bytes:
        """Reads from a connection. Raises :class:`_Closed` if the iteration is closed before or meanwhile."""
        data = b""
        self._waiting = stream.get_extra_info("socket")
        try:
            if not self.is_closed.is_set():
                data = stream.read(max_bytes, timeout)
        except (httpcore.NetworkError, httpcore.TimeoutException):
            if not self.is_closed.is_set():
                raise
        finally:
            with self._changing:
                # Later the connection may belong to another request.
                self._waiting = None
        if self.is_closed.is_set():
            raise _Closed
        return data


def _iteration() -> Interruptible[Any] | None:
    """Returns the iteration that this thread is in."""
    iteration: Interruptible[Any] | None = getattr(_current, "iteration", None)
    return iteration


@contextmanager
def _deadline(seconds: float) -> Generator[None]:
    """Ends every read and write of this thread within ``seconds``: the timeouts of httpx are those of single ones."""
    _current.until = time.monotonic() + seconds
    try:
        yield
    finally:
        _current.until = None


def _left(timeout: float | None, late: type[Exception]) -> float | None:
    until: float | None = getattr(_current, "until", None)
    if until is None:
        return timeout
    left = until - time.monotonic()
    if left <= 0:
        raise late("no answer in time")
    return left if timeout is None else min(timeout, left)


class _Transport(httpx.HTTPTransport):
    """The transport of httpx over connections that keep to the deadline."""

    def __init__(self, is_secure: bool) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=ssl.create_default_context() if is_secure else None,
            max_connections=100,
            max_keepalive_connections=32,
            keepalive_expiry=30.0,
            network_backend=_Backend(),
        )


class _Backend(httpcore.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(super().connect_tcp(host, port, left, local_address, socket_options))


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self._unsent = b""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        # Head and body of a request go in one packet. A server that refuses a request unread may have answered already.
        unsent, self._unsent = self._unsent, b""
        with suppress(httpcore.WriteError):
            for at in range(0, len(unsent), _PIECE):
                self._stream.write(unsent[at : at + _PIECE], _left(timeout, httpcore.WriteTimeout))
        left, iteration = _left(timeout, httpcore.ReadTimeout), _iteration()
        if iteration is not None:
            return iteration.read(self._stream, max_bytes, left)
        return self._stream.read(max_bytes, left)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._unsent += buffer

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, _left(timeout, httpcore.ConnectTimeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
