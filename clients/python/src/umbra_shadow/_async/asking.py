"""Requests to a server that never hold an agent up: each has a deadline, and after a fault the agent goes on."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
import time
import weakref
from typing import TypeVar

import umbra

from . import answers
from .answers import Answer
from .errors import SidecarRefused, SidecarUnavailable
from .transport import Health, Http, Request, Response, Transport

A = TypeVar("A", bound=Answer)

_log = logging.getLogger("umbra")
_healths: weakref.WeakKeyDictionary[umbra.Client, Health] = weakref.WeakKeyDictionary()
_healths_lock = threading.Lock()


class Missed(Exception):
    """There is no answer, and the agent goes on. The message tells what is missing."""


class TooLong(Missed):
    """There is no answer, perhaps because the request is too long, or cannot be written as JSON at all."""


# Bytes of JSON from which a request counts as long. The agent decides about the length of a call: a long call must not
# get past the rules because it is slow, refused or cut off. Nor is its failure a sign that the server is in trouble.
_LONG = 64 * 1024
# Requests of one session at a time.
_MOST_AT_ONCE = 32


def _is_long(request: Request) -> bool:
    return len(request.data) > _LONG


class Asking:
    """Sends requests to one server. Its faults raise :class:`Missed`, wrong requests :class:`SidecarRefused`."""

    def __init__(self, client: umbra.Client, deadline: float | None, strict: bool) -> None:
        self.deadline = client.timeout if deadline is None else deadline
        """Longest time of a request, in seconds."""
        if not self.deadline > 0:
            raise ValueError("deadline is in seconds and above 0")
        self.strict = strict
        """True to raise :class:`SidecarUnavailable` if there is no answer."""
        self._transport, self._health = self._reach(client)
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)

    def _reach(self, client: umbra.Client) -> tuple[Transport, Health]:
        with _healths_lock:
            return Http(client), _healths.setdefault(client, Health())

    async def _answered(self, kind: type[A], request: Request) -> A:
        try:
            return await self._ask(kind, request, time.monotonic() + self.deadline)
        except Missed as missed:
            return self._without(kind, missed)

    async def _ask(self, kind: type[A], request: Request, until: float) -> A:
        # The deadline does not run while a request waits for its place: else some of many calls would go unasked.
        began = time.monotonic()
        async with self._places:
            seconds = self._may_ask(request, until - began)
            try:
                response = await self._transport.request(request, seconds)
            except umbra._NoAnswer as gone:
                raise self._unanswered(request, f"the server gave no answer: {gone}") from None
        return self._read(kind, request, self._judged(request, response))

    def _ask_now(self, kind: type[A], request: Request, until: float) -> A:
        seconds = self._may_ask(request, until - time.monotonic())
        try:
            response = self._transport.request_now(request, seconds)
        except umbra._NoAnswer as gone:
            raise self._unanswered(request, f"the server gave no answer: {gone}") from None
        return self._read(kind, request, self._judged(request, response))

    def _may_ask(self, request: Request, seconds: float) -> float:
        try:
            missed = TooLong if _is_long(request) else Missed
        except (ValueError, RecursionError) as odd:
            raise TooLong(f"what is asked cannot be written as JSON: {type(odd).__name__}") from None
        if seconds <= 0:
            raise missed("no time was left to ask")
        # The outcome of a long request says nothing about the server: short requests do not wait for it.
        if not self._health.may_ask(seconds, alone=missed is Missed):
            raise missed("the server did not answer before, and is left alone for a while")
        return seconds

    def _judged(self, request: Request, response: Response) -> Response:
        status = response.status
        if status in (408, 425) or status >= 500:
            raise self._unanswered(request, f"the server answered {status}: {umbra._words(response.body)}")
        self._health.answered()
        if status in (413, 429):
            missed = TooLong if status == 413 or _is_long(request) else Missed
            raise missed(f"the server does not take this ({status}): {umbra._words(response.body)}")
        if status >= 400:
            raise SidecarRefused(status, response.body)
        if not 200 <= status < 300:
            raise self._unanswered(request, f"what answers is no server of Umbra: it answered {status}")
        return response

    def _read(self, kind: type[A], request: Request, response: Response) -> A:
        try:
            if kind is answers.GuardAnswer and "decision" not in response.body:
                raise ValueError("decision is missing")
            return answers.read(kind, response.body)
        except (ValueError, TypeError) as wrong:
            raise self._unanswered(request, f"what answers is no server of Umbra: {wrong}") from None

    def _unanswered(self, request: Request, what: str) -> Missed:
        return TooLong(f"{what}; {len(request.data)} bytes were sent") if _is_long(request) else self._failed(what)

    def _failed(self, what: str) -> Missed:
        faults = self._health.failed()
        if faults == self._health.most:
            _log.warning(
                "umbra: %s; after %d faults in a row it is left alone for %.0f s", what, faults, self._health.PASSIVE
            )
        elif faults == 1:
            _log.warning("umbra: %s; the agent goes on without the sidecar", what)
        return Missed(what)

    def _without(self, kind: type[A], missed: Missed, without: A | None = None) -> A:
        """Returns the answer in place of a missing one, or raises in a strict session."""
        if self.strict:
            raise SidecarUnavailable(str(missed)) from None
        _log.debug("umbra: the agent goes on without the sidecar: %s", missed)
        if isinstance(missed, TooLong) and kind is answers.GuardAnswer:
            return kind(degraded=True, warnings=(str(missed),), unjudged=True)
        if without is not None:
            return dataclasses.replace(without, degraded=True, warnings=(str(missed),))
        return kind(degraded=True, warnings=(str(missed),))
