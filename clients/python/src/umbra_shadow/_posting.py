"""Queues of what a background thread posts: callers do not wait for the server."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Generator
from typing import Any

from ._core import LAST_WORDS, Core, log
from ._requests import ATTEMPT, NoAnswer, Request, Response, path
from .errors import APIError

# Most bytes of items that wait.
_MOST_WAITING = 32_000_000
# First and longest pause between attempts, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

# Most tries of one item that the server fails to take, though it is there.
_MOST_TRIES = 5
# Statuses of a server that is away or busy; any other one from 500 is a fault within it.
_AWAY = (408, 425, 429, 502, 503, 504)

Sized = tuple[Any, int]
"""An item, and its length in bytes."""


class _Faulty(NoAnswer):
    """The server failed to answer, by a fault within it: perhaps it can never take this request."""


class PostQueue:
    """Items that wait to be posted. Safe for threads, event loops and forked processes.

    ``most``: most items that wait, of 32 MB in all; beyond them the oldest are dropped. While the server is away or
    busy, items wait. The log has one warning each time that the server is away, and one for the first item that is not
    taken. Subclasses say what is posted.
    """

    noun: str
    """Name of one item in the log."""
    most_items = 1
    """Most items of one request."""
    most_bytes = _MOST_WAITING
    """Most bytes of one request."""
    dropped: int
    """Items that are not posted: too many waited, the server refused them, or they could not be written as JSON."""

    def __init__(self, core: Core, most: int = 1_000) -> None:
        self._core, self._most = core, most
        self._begin()
        _queues.add(self)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Sized] = deque()
        self._bytes = self._posting = self.dropped = 0
        self._poster: threading.Thread | None = None
        self._is_hurried = self._is_away = self._has_refused = False
        # Most items of the next request, and tries of an item alone that met a fault within the server.
        self._at_once, self._tries = self.most_items, 0

    def _post(self, items: list[Any], seconds: float) -> tuple[list[int], str | None]:
        """Posts a batch within ``seconds``. Returns the places of the items that are to be posted again, and why."""
        raise NotImplementedError

    def add(self, item: Any, size: int) -> None:
        """Adds an item of ``size`` bytes. At the exit of the program it is posted now, within 2 seconds."""
        if not threading.main_thread().is_alive():
            self._post_last(item)
            return
        with self._changed:
            self._waiting.append((item, size))
            self._bytes += size
            self._bound()
            if self._poster is None or not self._poster.is_alive():
                self._poster = threading.Thread(target=self._post_all, name=f"umbra-{self.noun}s", daemon=True)
                self._poster.start()
            self._changed.notify_all()

    def drop(self, count: int, why: str) -> None:
        """Counts items that cannot be posted. The log has a warning for the first."""
        with self._changed:
            self.dropped += count
            is_first, self._has_refused = not self._has_refused, True
        if is_first:
            url = self._core.config.url
            log.warning("umbra: an %s for %s is dropped: %s; others are dropped silently", self.noun, url, why)

    @property
    def pending(self) -> int:
        """Number of items that are not posted yet."""
        with self._changed:
            return len(self._waiting) + self._posting

    @contextlib.contextmanager
    def hurried(self) -> Generator[None]:
        """Shortens the pauses between attempts within the block."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()
        try:
            yield
        finally:
            self._is_hurried = False

    def flush(self, timeout: float = LAST_WORDS) -> bool:
        """Waits until all items are posted, ``timeout`` seconds at most. Returns True if they are."""
        with self.hurried(), self._changed:
            return self._changed.wait_for(lambda: not self.pending, timeout)

    def close(self, timeout: float = LAST_WORDS) -> bool:
        """Waits as :meth:`flush` does, drops what still waits, and ends the thread. A later item starts it again."""
        is_posted = self.flush(timeout)
        with self._changed:
            poster, self._poster = self._poster, None
            self.dropped += self.pending
            self._waiting.clear()
            self._bytes = self._posting = 0
            self._changed.notify_all()
        if poster is not None and is_posted:
            poster.join(timeout)
        return is_posted

    def end(self) -> None:
        """Waits as :meth:`flush` does when the program ends. The log has the number of items that are lost."""
        self.flush()
        if lost := self.pending + self.dropped:
            words = "umbra: the program ends; %ss that are lost, since %s has not taken them: %d"
            log.warning(words, self.noun, self._core.config.url, lost)

    def _post_last(self, item: Any) -> None:
        """Posts an item of a program that ends, in which no thread can be started: frameworks call back at exit."""
        if self._is_away:
            self.dropped += 1
            return
        left, fault = self._tried([item], LAST_WORDS)
        self._note(fault)
        self.dropped += len(left)

    def _post_all(self) -> None:
        me, pause = threading.current_thread(), _FIRST_PAUSE
        while batch := self._next(me):
            left, fault = self._tried([item for item, _ in batch], ATTEMPT)
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
        """Waits for items, and takes a batch of them; returns nothing if the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._poster is not me)
            batch: list[Sized] = []
            if self._poster is not me:
                return batch
            room = self.most_bytes
            while self._waiting and len(batch) < self._at_once and (not batch or self._waiting[0][1] <= room):
                batch.append(self._waiting.popleft())
                room -= batch[-1][1]
            self._bytes -= self.most_bytes - room
            self._posting = len(batch)
            return batch

    def _tried(self, items: list[Any], seconds: float) -> tuple[list[int], str | None]:
        """Posts a batch as :meth:`_post` does. Raises nothing: no fault may end the thread, or reach a callback."""
        try:
            left, fault = self._post(items, seconds)
        except _Faulty as gone:
            left, fault = self._parted(items, str(gone)), str(gone)
        except NoAnswer as gone:
            left, fault = list(range(len(items))), str(gone)
        except Exception as error:
            self.drop(len(items), f"{type(error).__name__}: {error}")
            left, fault = [], None
        else:
            self._at_once, self._tries = min(2 * self._at_once, self.most_items), 0
        return left, fault

    def _parted(self, items: list[Any], fault: str) -> list[int]:
        """Returns the places of the items to be posted again. An item that is at fault is found by halves, and dropped."""
        self._at_once = max(1, len(items) // 2)
        self._tries += len(items) == 1
        if self._tries < _MOST_TRIES:
            return list(range(len(items)))
        self.drop(1, f"{fault}, {self._tries} times")
        self._tries = 0
        return []

    def _answer(self, request: Request, seconds: float) -> Response:
        """Returns the answer to a request. Raises :class:`NoAnswer` if it may be sent again, else :class:`APIError`."""
        response = self._core.sync_client()._http.request(request, seconds)
        if response.is_temporary or response.is_foreign:
            fault = NoAnswer if response.is_foreign or response.status in _AWAY else _Faulty
            raise fault(response.fault)
        self._core.answered()
        if response.status >= 400:
            raise APIError(str(request), response.status, response.body)
        return response

    def _bound(self) -> None:
        while len(self._waiting) > self._most or self._bytes > _MOST_WAITING:
            self._bytes -= self._waiting.popleft()[1]
            self.dropped += 1

    def _note(self, fault: str | None) -> None:
        url = self._core.config.url
        if fault is not None and not self._is_away:
            words = "umbra: no %s reaches %s: %s; up to %d wait, and of more the oldest are dropped"
            log.warning(words, self.noun, url, fault, self._most)
        elif fault is None and self._is_away:
            log.warning("umbra: %ss reach %s again; %d were dropped so far", self.noun, url, self.dropped)
        self._is_away = fault is not None


class OutcomeQueue(PostQueue):
    """Outcomes of calls that wait to be reported."""

    noun = "outcome"

    def put(self, call_id: str, outcome: dict[str, Any]) -> None:
        """Adds the outcome of a call. Raises nothing, and does not wait for the server, except at the exit."""
        request = Request("POST", path("calls", call_id, "outcome"), outcome, repeatable=True)
        try:
            size = len(request.data)
        except Exception as error:
            self.drop(1, f"it cannot be written as JSON: {error}")
        else:
            self.add(request, size)

    def _post(self, items: list[Any], seconds: float) -> tuple[list[int], str | None]:
        [request] = items
        self._answer(request, seconds)
        return [], None


_queues: weakref.WeakSet[PostQueue] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for queue in list(_queues):
        queue.end()


def _begin_all() -> None:
    # What the parent put is posted by the parent.
    for queue in _queues:
        queue._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)
