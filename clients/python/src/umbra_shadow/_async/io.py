"""Input and output of the asynchronous client: HTTP within a deadline, by httpx on asyncio."""

from __future__ import annotations

import asyncio
import inspect
import os
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Generic, TypeVar, cast

import httpx

from .._config import Config
from .._requests import SILENCE, EventDecoder, NoAnswer, Request, Response, ServerEvent, wire

__all__ = ["Http", "Interruptible", "Semaphore", "aclosing", "awaited", "is_async", "sleep"]

T = TypeVar("T")

is_async = True
Semaphore = asyncio.Semaphore
# Seconds of delay from which the program itself held the event loop up: bytes that arrived meanwhile are not read yet.
_HELD_UP = 0.05


async def awaited(value: Any) -> Any:
    """Returns a value, or that of an awaitable: some functions return no coroutine."""
    return await value if inspect.isawaitable(value) else value


async def sleep(seconds: float) -> None:
    """Waits."""
    await asyncio.sleep(seconds)


class Http:
    """HTTP to one server. Connections belong to the event loop, and to the process, that opened them."""

    def __init__(self, config: Config, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._config, self._given = config, transport
        self._transports: dict[tuple[int, asyncio.AbstractEventLoop], httpx.AsyncBaseTransport] = {}
        self._tls: ssl.SSLContext | None = None

    async def request(self, request: Request, seconds: float) -> Response:
        """Returns the response within ``seconds``. Raises :class:`NoAnswer` without one."""
        return await _within(seconds, lambda: self._request(request))

    async def events(self, request: Request, seconds: float) -> AsyncGenerator[Response | ServerEvent, None]:
        """Yields server-sent events, or the response if it is no stream; the stream begins within ``seconds``."""
        try:
            response = await _within(seconds, lambda: self._send(request))
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
        transport = self._transports.pop((os.getpid(), asyncio.get_running_loop()), None)
        if transport is not None:
            await transport.aclose()

    async def _request(self, request: Request) -> Response:
        for attempt in range(2):
            try:
                response = await self._send(request)
                return Response.of(response.status_code, await response.aread(), response.headers)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                # A kept connection may have been closed in this moment.
                if attempt or not request.repeatable:
                    raise
        raise AssertionError

    async def _send(self, request: Request) -> httpx.Response:
        """Sends a request by the transport itself: the client of httpx adds half of the time that a request costs."""
        key = (os.getpid(), asyncio.get_running_loop())
        if key not in self._transports:
            # Other threads may add transports of their own loops meanwhile.
            for pid, loop in list(self._transports):
                if pid != key[0] or loop.is_closed():
                    self._transports.pop((pid, loop), None)
            self._transports[key] = self._given or self._connecting()
        return await self._transports[key].handle_async_request(wire(request, self._config.url, self._config.api_key))

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
        fault = await _cancelled(task)
    if task.cancelled():
        raise NoAnswer("no answer in time")
    if isinstance(fault, (httpx.HTTPError, httpx.InvalidURL, OSError)):
        raise NoAnswer.of(fault) from None
    return task.result()


async def _cancelled(task: asyncio.Future[Any]) -> BaseException | None:
    """Cancels work unless it has ended, waits for its end, and returns the exception that it raised.

    Cancelled work waits for nothing. Yet asyncio before 3.11 can lose a cancellation in the moment that a connection is
    made: then it is repeated.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
    return None if task.cancelled() else task.exception()


class Interruptible(Generic[T]):
    """Iteration of a generator that any task may close, also while another waits in it for the server."""

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        # Held by the task that runs the generator.
        self._running = asyncio.Lock()
        self._is_closed = False
        self._waiting: asyncio.Future[T] | None = None

    async def __anext__(self) -> T:
        async with self._running:
            if self._is_closed:
                raise StopAsyncIteration
            self._waiting = asyncio.ensure_future(anext(self._items))
            try:
                await asyncio.wait({self._waiting})
            finally:
                await _cancelled(self._waiting)
            if self._waiting.cancelled():
                raise StopAsyncIteration
            return self._waiting.result()

    async def aclose(self) -> None:
        """Ends the iteration, also that of a task that is in it."""
        self._is_closed = True
        if self._waiting is not None:
            await _cancelled(self._waiting)
        async with self._running:
            await self._items.aclose()
