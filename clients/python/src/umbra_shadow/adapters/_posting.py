"""Queue of events that a background thread posts, for callbacks of frameworks, which must not wait for the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import models
from .._client import ClientBase
from .._json import encoded, is_array, is_object, plain
from .._posting import PostQueue, Sized
from .._requests import Request, parsed, path
from .._resources import event_of

# Largest event and largest batch, in bytes of JSON; the server takes 256 KiB and 2 MiB.
_MOST_EVENT, _MOST_BATCH = 250_000, 1_500_000
# Longest text in an event that is too large, in characters: the first length that is tried, and the last.
_LONGEST_TEXT, _SHORTEST_TEXT = 100_000, 100


class EventQueue(PostQueue):
    """Events that wait to be posted. Safe for threads, event loops and forked processes.

    ``umbra``: the client, whose agent the events have unless they name another. ``most``: most events that wait, of
    32 MB in all; beyond them the oldest are dropped. While the server is away or busy, events wait. An event has an
    ``id``, made up unless given, by which it is stored once. In an event of more than 250 kB long texts are shortened.
    """

    noun = "event"
    most_items = 500
    most_bytes = _MOST_BATCH

    def __init__(self, umbra: ClientBase, most: int = 1_000) -> None:
        if not isinstance(umbra, ClientBase):
            raise TypeError(f"a client is needed, Umbra(...) or AsyncUmbra(...), not {type(umbra).__name__}")
        if not isinstance(most, int) or most < 1:
            raise ValueError(f"most is a number of events above 0, not {most!r}")
        super().__init__(umbra._core, most)

    def put(self, event: Mapping[str, Any]) -> None:
        """Adds an event, with the members of ``models.NewEvent``. Raises nothing, and does not wait for the server.

        At the exit of the program it waits, 2 seconds at most.
        """
        try:
            sized = _fitted(plain(event_of(event, self._core.config.here().agent or "")))
        except Exception as error:
            self.drop(1, f"it cannot be written as JSON: {error}")
        else:
            self.add(*sized)

    def _post(self, items: list[Any], seconds: float) -> tuple[list[int], str | None]:
        request = Request("POST", path("events", "batch"), {"events": items}, repeatable=True)
        results = parsed(models.BatchResult, self._answer(request, seconds)).results
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
                of = f"agent {items[item.index].get('agent')!r}"
                self.drop(1, f"{words}{faults and f' ({faults})'} ({of})")
        return busy, fault


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
