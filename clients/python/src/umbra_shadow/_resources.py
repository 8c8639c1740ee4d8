"""Parts of the requests for events and findings that are no input or output."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import models
from ._json import encoded, plain
from ._terms import as_json

# Limits of one batch of events: the server takes 1,000 events and 2 MiB.
_MOST_EVENTS = 1_000
_MOST_BYTES = 1_500_000
# Most items of one page of a list, and items of a page of a list without a limit.
MOST_ITEMS, PAGE = 500, 200
# Longest wait of one request for a verdict, in seconds; the server allows 60.
LONGEST_WAIT = 30.0
# Longest wait of a posted event for its verdict, in seconds.
_MOST_WAIT = 60
# First and longest pause between looks for an answer of a person, and between attempts to resume a stream, in seconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0

EventLike = models.NewEvent | Mapping[str, Any]
"""An event: ``models.NewEvent``, or a dictionary with the same members."""


def event_of(event: EventLike, agent: str) -> dict[str, Any]:
    """Returns an event with its agent, and with an id, by which it is stored once however often it is sent."""
    given = as_json(event)
    return {**given, "agent": given.get("agent") or agent, "id": given.get("id") or uuid.uuid4().hex}


def told_event(event: EventLike, agent: str) -> dict[str, Any]:
    """Returns an event as :func:`event_of` does. Raises :class:`ValueError` for a value without a form in JSON."""
    told: dict[str, Any] = plain(event_of(event, agent), strict=True)
    return told


def waiting(wait: int | None) -> dict[str, str]:
    """Returns the headers of a request that waits for a verdict. Raises :class:`ValueError` for no number of seconds.

    The server ignores a wait that it cannot read, and shortens a longer one.
    """
    if wait is None:
        return {}
    if isinstance(wait, bool) or not isinstance(wait, int) or not 0 <= wait <= _MOST_WAIT:
        raise ValueError(
            f"wait is a whole number of seconds from 0 to {_MOST_WAIT}, not {wait!r}; events.verdict waits longer"
        )
    return {"Prefer": f"wait={wait}"}


def batches(events: Iterable[EventLike], agent: str) -> Iterator[list[dict[str, Any]]]:
    """Yields the events in batches that the server takes."""
    batch: list[dict[str, Any]] = []
    size = 0
    for event in events:
        given = told_event(event, agent)
        length = len(encoded(given)) + 1
        if batch and (len(batch) == _MOST_EVENTS or size + length > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(given)
        size += length
    if batch:
        yield batch


# Statuses of events that a busy server refuses for now.
BUSY = (429, 503)


class BatchSum:
    """Results of all batches, numbered through."""

    def __init__(self) -> None:
        self._counts: dict[str, Any] = {"accepted": 0, "replayed": 0, "rejected": 0}
        self._results: dict[int, models.BatchItem] = {}
        self._sent = 0

    def add(self, answer: models.BatchResult, places: list[int], may_repeat: bool) -> list[int]:
        """Adds the answer about the events at these places of the batch.

        Returns the places of those that a busy server refused and that may be posted again; they are not added.
        """
        busy: list[int] = []
        for item in answer.results:
            place = places[item.index]
            if may_repeat and item.error is not None and item.error.status in BUSY:
                busy.append(place)
            else:
                self._results[self._sent + place] = self._moved(item, self._sent + place)
        for count in self._counts:
            self._counts[count] += getattr(answer, count)
        self._counts["rejected"] -= len(busy)
        return busy

    def end_batch(self, sent: int) -> None:
        """Ends a batch of ``sent`` events."""
        self._sent += sent

    @staticmethod
    def _moved(item: models.BatchItem, index: int) -> models.BatchItem:
        """Returns a result with the event's place among all events, also in its faults."""
        error = item.error
        if error is not None:
            here, there = f"/events/{item.index}", f"/events/{index}"
            faults = [one.model_copy(update={"pointer": one.pointer.replace(here, there, 1)}) for one in error.errors]
            error = error.model_copy(update={"errors": faults})
        return item.model_copy(update={"index": index, "error": error})

    def result(self) -> models.BatchResult:
        """Returns the sum."""
        results = [self._results[index] for index in sorted(self._results)]
        return models.BatchResult.model_construct(**self._counts, results=results)
