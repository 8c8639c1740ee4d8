"""Queue of events that are posted in the background: an agent never waits for the server."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from typing import Any

from .._client import ClientBase
from .._json import encoded, is_array, is_object
from .._resources import BUSY
from ..errors import APIError, Unavailable

log = logging.getLogger("umbra_shadow")

# Most events of one request.
_BATCH = 100
# Pause between attempts while the server is away, in seconds; the client itself repeats a request within `retry_for`.
_PAUSE = 1.0
# Largest event, as JSON: the server takes 256 KiB unless `server.max_event_bytes` is changed.
_MOST_BYTES = 240_000
# Longest text in an event that is too large, in characters; halved until the event is small enough.
_LONGEST_TEXT = 64_000


class EventQueue:
    """Events on their way to the server, in order. A thread posts them; it begins with the first event.

    Events wait while the server is away. Beyond ``size`` waiting events, new ones are dropped and counted.
    """

    def __init__(self, umbra: ClientBase, size: int) -> None:
        if size < 1:
            raise ValueError(f"the queue has room for at least one event, not for {size!r}")
        self._core = umbra._core
        self._size = size
        self._changed = threading.Condition()
        self._events: deque[dict[str, Any]] = deque()
        """Events that are not stored yet, those under way included."""
        self._dropped = 0
        self._is_full_told = False
        self._is_ended = False
        self._sender: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """Number of events that were not stored: there was no room, or the server refused them."""
        return self._dropped

    def put(self, event: dict[str, Any]) -> None:
        """Adds an event, without waiting."""
        shortened = _shortened(event)
        with self._changed:
            if self._is_ended or len(self._events) >= self._size:
                self._drop()
                return
            self._events.append(shortened)
            if self._sender is None or not self._sender.is_alive():
                self._sender = threading.Thread(target=self._post_all, name="umbra-events", daemon=True)
                self._sender.start()
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Waits until no event waits, ``timeout`` seconds at most. Returns True if none does."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._events, timeout)

    def end(self, timeout: float) -> None:
        """Takes no more events, and waits until the others are stored, ``timeout`` seconds at most."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()
        if not self.flush(timeout):
            log.warning("umbra: %d events were not posted to %s", len(self._events), self._core.config.url)

    def _drop(self) -> None:
        self._dropped += 1
        if not self._is_full_told:
            self._is_full_told = True
            cause = "the queue was shut down" if self._is_ended else f"{len(self._events)} events wait"
            log.warning("umbra: events for %s are dropped, and counted: %s", self._core.config.url, cause)

    def _post_all(self) -> None:
        is_away_told = False
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._events or self._is_ended)
                if not self._events:
                    return
                batch = list(itertools.islice(self._events, _BATCH))
            try:
                self._post(batch)
            except Unavailable as gone:
                if not is_away_told:
                    log.warning("umbra: events wait until the server answers: %s", gone)
                is_away_told = True
                with self._changed:
                    if self._changed.wait_for(lambda: self._is_ended, _PAUSE):
                        return
                continue
            is_away_told = False
            with self._changed:
                for _ in batch:
                    self._events.popleft()
                self._is_full_told = self._is_full_told and bool(self._events)
                self._changed.notify_all()

    def _post(self, batch: list[dict[str, Any]]) -> None:
        """Posts events. Counts those that the server refuses, and logs why the first one was."""
        try:
            answer = self._core.sync_client().events.post_many(batch)
            errors = [one.error for one in answer.results if one.error is not None]
            if any(error.status in BUSY for error in errors):
                # The same events are posted again: those that are stored already count once.
                raise Unavailable(f"{self._core.config.url} is busy: {errors[0].detail}")
            faults = [error.detail for error in errors]
        except (APIError, ValueError, RecursionError) as refused:
            faults = [str(refused)] * len(batch)
        if faults:
            with self._changed:
                self._dropped += len(faults)
            log.warning("umbra: %d of %d events were refused, the first: %s", len(faults), len(batch), faults[0])


def _shortened(event: dict[str, Any]) -> dict[str, Any]:
    """Returns an event that the server takes: of texts that are too long, the beginning and the end."""
    longest = _LONGEST_TEXT
    while longest > 100 and len(encoded(event)) > _MOST_BYTES:
        event = _cut(event, longest)
        longest //= 2
    return event


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, str) and len(value) > longest:
        half = longest // 2
        return f"{value[:half]}\n[{len(value) - 2 * half} characters left out]\n{value[-half:]}"
    if is_object(value):
        return {name: _cut(item, longest) for name, item in value.items()}
    return [_cut(item, longest) for item in value] if is_array(value) else value
