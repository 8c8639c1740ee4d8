"""Input and output of the asynchronous client: HTTP within a deadline, by httpx on asyncio."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar, cast

import httpx

from .._config import Config
from .._requests import SILENCE, EventDecoder, NoAnswer, Request, Response, ServerEvent, headers_of

__all__ = ["Checked", "Http", "Semaphore", "aclosing", "checked", "is_async", "sleep"]

T = TypeVar("T")
C = TypeVar("C", covariant=True)
D = TypeVar("D")

is_async = True
Semaphore = asyncio.Semaphore
# Seconds of delay from which the program itself held the event loop up: bytes that arrived meanwhile are not read yet.
_HELD_UP = 0.05


async def sleep(seconds: float) -> None:
    """Waits."""
    await asyncio.sleep(seconds)


class Check(Protocol[C]):
    """A check that is made now by ``check``, or at the end of a block."""

    async def check(self) -> C: ...

    async def __aenter__(self) -> C: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Checked(Generic[D]):
    """A check: awaited it is made now, and as a block at its end."""

    def __init__(self, check: Check[D]) -> None:
        self._check = check

    def __await__(self) -> Generator[Any, None, D]:
        return self._check.check().__await__()

    async def __aenter__(self) -> D:
        return await self._check.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._check.__aexit__(kind, error, trace)


def checked(check: Check[D]) -> Checked[D]:
    """Returns the check, to be awaited or used as a block."""
    return Checked(check)


class Http:
    """HTTP to one server. Connections belong to the event loop, and to the process, that opened them."""

    def __init__(self, config: Config, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._config, self._transport = config, transport
        self._clients: dict[tuple[int, asyncio.AbstractEventLoop], httpx.AsyncClient] = {}
        self._tls: ssl.SSLContext | None = None

    async def request(self, request: Request, seconds: float) -> Response:
        """Returns the response within ``seconds``. Raises :class:`NoAnswer` without one."""
        return await _within(seconds, lambda: self._request(request))

    async def events(self, request: Request, seconds: float) -> AsyncGenerator[Response | ServerEvent, None]:
        """Yields server-sent events, or the response if it is no stream; the stream begins within ``seconds``."""
        client = self._client()
        try:
            sent = client.build_request(
                "GET", self._config.url + request.target, headers=headers_of(self._config.api_key, b"", request.headers)
            )
            response = await _within(seconds, lambda: client.send(sent, stream=True))
            try:
                if response.status_code != 200:
                    data = await _within(seconds, response.aread)
                    yield Response.of(response.status_code, data, response.headers)
                    return
                decoder = EventDecoder()
                async with aclosing(cast("AsyncGenerator[str, None]", response.aiter_lines())) as lines:
                    while (line := await _within(SILENCE, lambda: anext(lines, None))) is not None:
                        if event := decoder.feed(line):
                            yield event
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            raise NoAnswer.of(error) from None

    async def close(self) -> None:
        """Closes the connections of this event loop."""
        client = self._clients.pop((os.getpid(), asyncio.get_running_loop()), None)
        if client is not None:
            await client.aclose()

    async def _request(self, request: Request) -> Response:
        headers = headers_of(self._config.api_key, request.data, request.headers)
        url = self._config.url + request.target
        for attempt in range(2):
            try:
                response = await self._client().request(request.method, url, content=request.data, headers=headers)
                return Response.of(response.status_code, response.content, response.headers)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                # A kept connection may have been closed in this moment.
                if attempt or not request.repeatable:
                    raise
        raise AssertionError

    def _client(self) -> httpx.AsyncClient:
        key = (os.getpid(), asyncio.get_running_loop())
        if key not in self._clients:
            # Other threads may add clients of their own loops meanwhile.
            for pid, loop in list(self._clients):
                if pid != key[0] or loop.is_closed():
                    self._clients.pop((pid, loop), None)
            self._clients[key] = httpx.AsyncClient(transport=self._transport or self._connecting(), timeout=None)
        return self._clients[key]

    def _connecting(self) -> httpx.AsyncBaseTransport:
        if self._config.url.startswith("https") and self._tls is None:
            self._tls = ssl.create_default_context()
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=32, keepalive_expiry=30.0)
        return httpx.AsyncHTTPTransport(verify=self._tls or False, limits=limits)


async def _within(seconds: float, work: Callable[[], Awaitable[T]]) -> T:
    """Returns the result of some work within ``seconds``. Raises :class:`NoAnswer` without one.

    ``asyncio.wait_for`` is not used: before Python 3.12 it can swallow the cancellation of its caller. Time in which
    the program itself held the event loop up is given back.
    """

    async def worked() -> T:
        return await work()

    task = asyncio.ensure_future(worked())
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
        # Cancelled work waits for nothing. Yet asyncio before 3.11 can lose a cancellation in the moment that a
        # connection is made: then it is repeated.
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=0.1)
        fault = None if task.cancelled() else task.exception()
    if task.cancelled():
        raise NoAnswer("no answer in time")
    if isinstance(fault, (httpx.HTTPError, httpx.InvalidURL, OSError)):
        raise NoAnswer.of(fault) from None
    return task.result()
