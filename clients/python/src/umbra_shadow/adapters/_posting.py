"""Queue of events that a background thread posts, for callbacks of frameworks, which must not wait for the server."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any

from .. import models
from .._client import ClientBase
from .._core import LAST_WORDS, log
from .._json import encoded, is_array, is_object, plain
from .._requests import ATTEMPT, NoAnswer, Request, parsed, path
from .._resources import event_of
from ..errors import APIError, problem_text

# Largest event and largest batch, in bytes of JSON; the server takes 256 KiB and 2 MiB.
_MOST_EVENT, _MOST_BATCH = 250_000, 1_500_000
# Most events of a batch.
_MOST_EVENTS = 500
# Most bytes of events that wait.
_MOST_WAITING = 32_000_000
# Longest text in an event that is too large, in characters: the first length that is tried, and the last.
_LONGEST_TEXT, _SHORTEST_TEXT = 100_000, 100
# First and longest pause between attempts, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

Sized = tuple[dict[str, Any], int]
"""An event, and its length in bytes."""


class EventQueue:
    """Events that wait to be posted. Safe for threads, event loops and forked processes.

    ``umbra``: the client, whose agent the events have unless they name another. ``most``: most events that wait, of
    32 MB in all; beyond them the oldest are dropped. While the server is away or busy, events wait. An event has an
    ``id``, made up unless given, by which it is stored once. In an event of more than 250 kB long texts are shortened.
    The log has one warning each time that the server is away, and one for the first event that is not taken.
    """

    dropped: int
    """Events that are not posted: too many waited, the server refused them, or they could not be written as JSON."""

    def __init__(self, umbra: ClientBase, most: int = 1_000) -> None:
        if not isinstance(umbra, ClientBase):
            raise TypeError(f"a client is needed, Umbra(...) or AsyncUmbra(...), not {type(umbra).__name__}")
        if most < 1:
            raise ValueError(f"most is a number of events above 0, not {most!r}")
        self._core, self._most = umbra._core, most
        self._begin()
        _queues.add(self)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Sized] = deque()
        self._bytes = self._posting = self.dropped = 0
        self._poster: threading.Thread | None = None
        self._is_hurried = self._is_away = self._has_refused = False

    def put(self, event: Mapping[str, Any]) -> None:
        """Adds an event, with the members of ``models.NewEvent``. Raises nothing, and does not wait for the server.

        At the exit of the program it waits, 2 seconds at most.
        """
        try:
            sized = _fitted(plain(event_of(event, self._core.config.here().agent or "")))
        except Exception as error:
            self.drop(1, f"it cannot be written as JSON: {error}")
            return
        if not threading.main_thread().is_alive():
            self._post_last(sized[0])
            return
        with self._changed:
            self._waiting.append(sized)
            self._bytes += sized[1]
            self._bound()
            if self._poster is None or not self._poster.is_alive():
                self._poster = threading.Thread(target=self._post_all, name="umbra-events", daemon=True)
                self._poster.start()
                atexit.register(self.flush)
            self._changed.notify_all()

    def drop(self, count: int, why: str) -> None:
        """Counts events that cannot be posted. The log has a warning for the first."""
        with self._changed:
            self.dropped += count
            is_first, self._has_refused = not self._has_refused, True
        if is_first:
            log.warning(
                "umbra: an event for %s is dropped: %s; others are dropped silently", self._core.config.url, why
            )

    def flush(self, timeout: float = LAST_WORDS) -> bool:
        """Waits until all events are posted, ``timeout`` seconds at most. Returns True if they are."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._waiting and not self._posting, timeout)
            finally:
                self._is_hurried = False

    def close(self, timeout: float = LAST_WORDS) -> bool:
        """Waits as :meth:`flush` does, drops what still waits, and ends the thread. A later ``put`` starts it again."""
        is_posted = self.flush(timeout)
        with self._changed:
            poster, self._poster = self._poster, None
            self.dropped += len(self._waiting) + self._posting
            self._waiting.clear()
            self._bytes = self._posting = 0
            self._changed.notify_all()
        atexit.unregister(self.flush)
        if poster is not None and is_posted:
            poster.join(timeout)
        return is_posted

    def _post_last(self, event: dict[str, Any]) -> None:
        """Posts an event of a program that ends, in which no thread can be started: frameworks call back at exit."""
        if self._is_away:
            self.dropped += 1
            return
        left, fault = self._tried([event], LAST_WORDS)
        self._note(fault)
        self.dropped += len(left)

    def _post_all(self) -> None:
        me, pause = threading.current_thread(), _FIRST_PAUSE
        while batch := self._next(me):
            left, fault = self._tried([event for event, _ in batch], ATTEMPT)
            with self._changed:
                if self._poster is not me:
                    return
                self._posting = 0
                for place in reversed(left):
                    self._waiting.appendleft(batch[place])
                    self._bytes += batch[place][1]
                self._bound()
                self._changed.notify_all()
            self._note(fault)
            with self._changed:
                if fault is None:
                    pause = _FIRST_PAUSE
                elif self._is_hurried:
                    self._changed.wait_for(lambda: self._poster is not me, _FIRST_PAUSE)
                else:
                    self._changed.wait_for(lambda: self._is_hurried or self._poster is not me, pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)

    def _next(self, me: threading.Thread) -> list[Sized]:
        """Waits for events, and takes a batch of them; returns nothing if the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._poster is not me)
            batch: list[Sized] = []
            if self._poster is not me:
                return batch
            room = _MOST_BATCH
            while self._waiting and len(batch) < _MOST_EVENTS and (not batch or self._waiting[0][1] <= room):
                batch.append(self._waiting.popleft())
                room -= batch[-1][1]
            self._bytes -= _MOST_BATCH - room
            self._posting = len(batch)
            return batch

    def _tried(self, events: list[dict[str, Any]], seconds: float) -> tuple[list[int], str | None]:
        """Posts a batch as :meth:`_post` does. Raises nothing: no fault may end the thread, or reach a callback."""
        try:
            return self._post(events, seconds)
        except Exception as error:
            self.drop(len(events), f"{type(error).__name__}: {error}")
            return [], None

    def _post(self, events: list[dict[str, Any]], seconds: float) -> tuple[list[int], str | None]:
        """Posts a batch within ``seconds``. Returns the places of the events that are to be posted again, and why."""
        everything = list(range(len(events)))
        request = Request("POST", path("events", "batch"), {"events": events}, repeatable=True)
        try:
            response = self._core.sync_client()._http.request(request, seconds)
            if response.is_temporary:
                return everything, f"it answered {response.status}: {problem_text(response.body)}"
            if response.status >= 400:
                raise APIError(str(request), response.status, response.body)
            results = parsed(models.BatchResult, response).results
        except NoAnswer as gone:
            return everything, str(gone)
        busy: list[int] = []
        fault: str | None = None
        for item in results:
            if item.error is None:
                continue
            words = f"it answered {item.error.status}: {item.error.detail}"
            if item.error.status in (429, 503):
                busy.append(item.index)
                fault = words
            else:
                faults = "; ".join(f"{one.pointer}: {one.detail}" for one in item.error.errors)
                self.drop(1, f"{words}{faults and f' ({faults})'}")
        return busy, fault

    def _bound(self) -> None:
        while len(self._waiting) > self._most or self._bytes > _MOST_WAITING:
            self._bytes -= self._waiting.popleft()[1]
            self.dropped += 1

    def _note(self, fault: str | None) -> None:
        if fault is not None and not self._is_away:
            log.warning(
                "umbra: no event reaches %s: %s; up to %d wait, and of more the oldest are dropped",
                self._core.config.url,
                fault,
                self._most,
            )
        elif fault is None and self._is_away:
            log.warning("umbra: events reach %s again; %d were dropped so far", self._core.config.url, self.dropped)
        self._is_away = fault is not None


def _fitted(event: dict[str, Any]) -> Sized:
    """Returns an event that the server takes. Raises :class:`ValueError` if no shortening of its texts makes it so."""
    size, longest = len(encoded(event)), _LONGEST_TEXT
    while size > _MOST_EVENT:
        if longest < _SHORTEST_TEXT:
            raise ValueError(f"it has {size} bytes in many small parts, and an event has at most {_MOST_EVENT}")
        event = {name: _shortened(value, longest) for name, value in event.items()}
        size, longest = len(encoded(event)), longest // 2
    return event, size


def _shortened(value: Any, longest: int) -> Any:
    if isinstance(value, str) and len(value) > longest:
        half = longest // 2
        return f"{value[:half]}\n[{len(value) - 2 * half} characters are left out here]\n{value[-half:]}"
    if is_object(value):
        return {name: _shortened(item, longest) for name, item in value.items()}
    return [_shortened(item, longest) for item in value] if is_array(value) else value


_queues: weakref.WeakSet[EventQueue] = weakref.WeakSet()


def _begin_all() -> None:
    # The events of the parent are posted by the parent.
    for queue in _queues:
        queue._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)
