"""Events, findings, approvals and the other parts of the API, each with its methods."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import pydantic

from .. import models
from .._config import check_seconds
from .._core import log
from .._json import is_array
from .._requests import NoAnswer, Request, Response, path
from .._resources import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    LONGEST_WAIT,
    MOST_ITEMS,
    PAGE,
    BatchSum,
    EventLike,
    batches,
    told_event,
    waiting,
)
from .._terms import object_of, present
from ..errors import APIError, Unavailable, WrongAddress
from . import io

if TYPE_CHECKING:
    from .client import AsyncUmbra

M = TypeVar("M", bound=pydantic.BaseModel)
Order = Literal["asc", "desc"]
Severity = Literal["info", "warning", "critical"]
Status = Literal["open", "confirmed", "false_positive", "resolved"]
Mode = Literal["passive", "review", "active"]
Time = datetime.datetime | str
"""A point in time: a datetime with its zone, or a text by RFC 3339."""


class AsyncListing(Generic[M]):
    """List that is read page by page while it is iterated, and anew each time."""

    def __init__(
        self, client: AsyncUmbra, kind: type[M], full: str, limit: int | None, params: Mapping[str, Any]
    ) -> None:
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise ValueError(f"limit is a whole number that is not below 0, or None for all, not {limit!r}")
        self._client, self._kind, self._full, self._limit, self._params = client, kind, full, limit, params
        self.resume_cursor: str | None = params.get("cursor")
        """Cursor behind the last page that was read: ``cursor`` of another list with the same filters, or ``after`` of
        a stream, goes on there. None before the first page."""

    async def __aiter__(self) -> AsyncIterator[M]:
        cursor, left = self._params.get("cursor"), self._limit
        while left is None or left > 0:
            size = PAGE if left is None else min(left, MOST_ITEMS)
            asked = {**self._params, "cursor": cursor, "limit": size}
            answer = await self._client._send(Request("GET", self._full, params=asked, repeatable=True))
            items = answer.body.get("items")
            if not is_array(items):
                raise Unavailable(f"what answers at {self._client.url} is no server of Umbra: {self._full} is no list")
            self.resume_cursor = answer.body.get("resume_cursor") or self.resume_cursor
            for item in items:
                yield self._client._parsed(self._kind, item)
            left = None if left is None else left - len(items)
            cursor = answer.body.get("next_cursor")
            if cursor is None:
                return


class _Resource:
    def __init__(self, client: AsyncUmbra) -> None:
        self._client = client

    def _list(self, kind: type[M], full: str, limit: int | None, params: Mapping[str, Any]) -> AsyncListing[M]:
        """Returns the items of all pages, ``limit`` at most."""
        return AsyncListing(self._client, kind, full, limit, params)


class AsyncEvents(_Resource):
    """Copies of what agents do: actions and outputs."""

    async def post(self, event: EventLike, *, wait: int | None = None) -> models.AcceptedEvent:
        """Posts an event.

        The answer has its id, its triggers, and what each shadow does with it. ``event`` has ``agent`` (the client's
        unless given) and one of ``output``, ``tool``, ``input``. ``wait``: seconds, at most 60, to wait for the verdict
        of active shadows. The event is stored once, however often it is sent: by its ``id``, which is made up unless
        given. While the server is away it is sent again until the client's ``timeout``, 30 s unless given, is over.

        Raises :class:`APIError` with the faults of the event, and :class:`Unavailable`.
        """
        body = told_event(event, self._client.agent)
        request = Request("POST", path("events"), body, headers=waiting(wait), repeatable=True)
        answer = await self._client._send(request, wait or 0)
        return self._client._parsed(models.AcceptedEvent, answer.body)

    async def post_many(self, events: Iterable[EventLike]) -> models.BatchResult:
        """Posts many events, in batches that the server takes.

        ``results[n]`` has the ``id`` of the event, or the ``error`` by which it is not stored: each event counts for
        itself. Events that a busy server refuses are posted again until ``timeout`` is over. Raises :class:`APIError`
        for a refused batch, and :class:`Unavailable`; batches before it are stored, and may be posted again with the
        same ids.
        """
        total = BatchSum()
        until = time.monotonic() + self._client._core.config.timeout
        for batch in batches(events, self._client.agent):
            places, pause = list(range(len(batch))), FIRST_PAUSE
            while places:
                body = {"events": [batch[place] for place in places]}
                answer = await self._client._post(models.BatchResult, path("events", "batch"), body, True)
                places = total.add(answer, places, time.monotonic() + pause < until)
                if places:
                    await io.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
            total.end_batch(len(batch))
        return total.result()

    async def get(self, event_id: str) -> models.TrajectoryEvent:
        """Returns a stored event with its dispositions and reviews."""
        return await self._client._get(models.TrajectoryEvent, path("events", event_id))

    def list(
        self,
        *,
        agent: str | None = None,
        task_id: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: Order | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AsyncListing[models.EventView]:
        """Yields events, oldest first unless ``order="desc"``; ``limit`` at most."""
        asked = {
            "agent": agent,
            "task_id": task_id,
            "since": since,
            "until": until,
            "order": order,
            "cursor": cursor,
        }
        return self._list(models.EventView, path("events"), limit, asked)

    async def verdict(self, event_id: str, *, wait: float = 0.0) -> models.EventVerdict:
        """Returns the verdict of the active shadows on an event; waits for it ``wait`` seconds at most.

        ``verdict`` is ``accepted``, ``rejected``, ``pending`` (not yet decided) or ``not_reviewed``.
        """
        if wait != 0:
            check_seconds("wait", wait)
        until = time.monotonic() + wait
        while True:
            left = max(0.0, until - time.monotonic())
            asked = int(min(left, LONGEST_WAIT))
            full = path("events", event_id, "verdict")
            answer = await self._client._get(models.EventVerdict, full, {"wait": asked}, asked)
            if answer.verdict != "pending" or left == 0.0:
                return answer
            if asked == 0:
                await io.sleep(min(left, FIRST_PAUSE))


class AsyncFindings(_Resource):
    """Findings of the shadows, and what people say of them."""

    def list(
        self,
        *,
        shadow: str | None = None,
        agent: str | None = None,
        severity: Severity | None = None,
        category: str | None = None,
        mode: Mode | None = None,
        task_id: str | None = None,
        trigger: str | None = None,
        verified: bool | None = None,
        status: Status | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: Order | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AsyncListing[models.Finding]:
        """Yields findings, oldest first unless ``order="desc"``; ``limit`` at most.

        ``severity`` is the least one. Without ``mode``, findings of passive shadows are left out.
        """
        asked = {
            "shadow": shadow,
            "agent": agent,
            "severity": severity,
            "category": category,
            "mode": mode,
            "task_id": task_id,
            "trigger": trigger,
            "verified": verified,
            "status": status,
            "since": since,
            "until": until,
            "order": order,
            "cursor": cursor,
        }
        return self._list(models.Finding, path("findings"), limit, asked)

    async def get(self, finding_id: str) -> models.Finding:
        """Returns a finding."""
        return await self._client._get(models.Finding, path("findings", finding_id))

    async def update(self, finding_id: str, *, status: Status | None = None, note: str | None = None) -> models.Finding:
        """Says what a person thinks of a finding; what is not given stays. Needs a key of the scope ``admin``."""
        body = present(status=status, note=note)
        return await self._client._post(models.Finding, path("findings", finding_id), body, True, "PATCH")

    def stream(
        self,
        after: str | None = None,
        *,
        shadow: str | None = None,
        agent: str | None = None,
        severity: Severity | None = None,
        category: str | None = None,
        mode: Mode | None = None,
        task_id: str | None = None,
        trigger: str | None = None,
        verified: bool | None = None,
        status: Status | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> AsyncFindingStream:
        """Follows the findings until the caller stops.

        The stream begins now, or behind ``after``, the ``resume_cursor`` of a stream or of :meth:`list`::

            stream = umbra.findings.stream(after=saved)
            async for finding in stream:
                saved = stream.resume_cursor

        Interruptions are bridged: no finding is skipped or repeated. Raises :class:`APIError` for a wrong filter or
        key, and :class:`Unavailable` if the stream cannot be opened within the client's ``timeout``.
        """
        asked = {
            "shadow": shadow,
            "agent": agent,
            "severity": severity,
            "category": category,
            "mode": mode,
            "task_id": task_id,
            "trigger": trigger,
            "verified": verified,
            "status": status,
            "since": since,
            "until": until,
        }
        return AsyncFindingStream(self._client, asked, after)


class AsyncFindingStream:
    """Findings as they come. ``resume_cursor`` is where it stands; ``after=resume_cursor`` goes on elsewhere."""

    def __init__(self, client: AsyncUmbra, params: Mapping[str, Any], after: str | None) -> None:
        if after is not None and not (isinstance(after, str) and after.isascii() and after.isprintable()):
            raise ValueError(f"after is the resume_cursor of a stream or a list, not {after!r}")
        self._client, self._params = client, params
        self.resume_cursor: str | None = after
        """Position behind the last finding that was yielded; None before the stream began."""
        self._findings = io.Interruptible(self._follow())

    def __aiter__(self) -> AsyncFindingStream:
        return self

    async def __anext__(self) -> models.Finding:
        return await anext(self._findings)

    async def aclose(self) -> None:
        """Ends the stream. An iteration that waits for the next finding, in another thread or task, ends too."""
        await self._findings.aclose()

    async def _follow(self) -> AsyncGenerator[models.Finding, None]:
        timeout, was_open, pause = self._client._core.config.timeout, False, FIRST_PAUSE
        until = time.monotonic() + timeout
        while True:
            headers = {"Accept": "text/event-stream"}
            if self.resume_cursor:
                headers["Last-Event-ID"] = self.resume_cursor
            request = Request("GET", path("findings", "stream"), params=self._params, headers=headers)
            try:
                async with io.aclosing(self._client._http.events(request, timeout)) as events:
                    async for event in events:
                        if isinstance(event, Response):
                            if event.is_temporary or event.is_foreign:
                                raise NoAnswer(event.fault, is_final=event.is_foreign)
                            raise APIError(str(request), event.status, event.body)
                        was_open, pause = True, FIRST_PAUSE
                        self.resume_cursor = event.id or self.resume_cursor
                        if event.data:
                            yield self._client._parsed(models.Finding, object_of(event.data))
            except NoAnswer as gone:
                if not was_open and (gone.is_final or time.monotonic() + pause >= until):
                    raise Unavailable(f"{self._client.url} gave no answer: {gone}") from None
                if pause == FIRST_PAUSE:
                    log.warning("umbra: findings are not followed until the server answers again: %s", gone)
            await io.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class AsyncApprovals(_Resource):
    """Calls of tools that wait for a person."""

    def list(
        self, *, state: str | None = None, agent: str | None = None, tool: str | None = None, limit: int = MOST_ITEMS
    ) -> AsyncListing[models.Approval]:
        """Yields the newest approvals, ``limit`` at most: 1 to 500, 500 unless given.

        ``state`` is ``pending``, ``approved``, ``denied``, ``used`` or ``expired``; ``tool`` a name or a glob.
        """
        return self._list(models.Approval, path("approvals"), limit, {"state": state, "agent": agent, "tool": tool})

    async def get(self, approval_id: str) -> models.Approval:
        """Returns an approval."""
        return await self._client._get(models.Approval, path("approvals", approval_id))

    async def approve(self, approval_id: str, reason: str | None = None) -> models.Approval:
        """Approves a call: the next call with exactly its arguments runs, once. Needs a key of the scope ``admin``."""
        return await self._answer(approval_id, "approve", reason)

    async def deny(self, approval_id: str, reason: str | None = None) -> models.Approval:
        """Denies a call: the agent reads the reason. Needs a key of the scope ``admin``."""
        return await self._answer(approval_id, "deny", reason)

    async def wait(self, approval_id: str, timeout: float | None = None) -> models.Approval:
        """Waits for a person's answer.

        The wait ends when the approval expires, or ``timeout`` seconds have passed; then ``state`` may still be
        ``pending``. Outages of the server are waited out; raises :class:`Unavailable` if the time ends in one.
        """
        if timeout not in (None, 0):
            check_seconds("timeout", timeout)
        until = math.inf if timeout is None else time.monotonic() + timeout
        pause = FIRST_PAUSE
        while True:
            try:
                approval = await self.get(approval_id)
                if approval.state != "pending" or time.monotonic() >= until:
                    return approval
            except Unavailable as gone:
                if isinstance(gone, WrongAddress) or time.monotonic() >= until:
                    raise
            await io.sleep(max(0.0, min(pause, until - time.monotonic())))
            pause = min(1.5 * pause, LONGEST_PAUSE)

    async def _answer(self, approval_id: str, decision: str, reason: str | None) -> models.Approval:
        body = present(decision=decision, reason=reason)
        return await self._client._post(models.Approval, path("approvals", approval_id), body)


class AsyncExecution(_Resource):
    """Execution of calls: live, or in shadow."""

    async def effective(
        self,
        *,
        agent: str | None = None,
        session: str | None = None,
        tool: str | None = None,
        run: str | None = None,
        parent_run: str | None = None,
    ) -> models.Effective:
        """Returns the execution of such calls; ``won`` and ``overruled`` are the sources that say one."""
        asked = {"agent": agent, "session": session, "tool": tool, "run": run, "parent_run": parent_run}
        return await self._client._get(models.Effective, path("execution", "effective"), asked)


class AsyncRuns(_Resource):
    """Runs: calls that share the state of their stubs."""

    def list(
        self,
        *,
        agent: str | None = None,
        run: str | None = None,
        in_shadow: bool | None = None,
        limit: int = MOST_ITEMS,
    ) -> AsyncListing[models.Run]:
        """Yields the runs with the newest calls, ``limit`` at most: 1 to 500, 500 unless given."""
        return self._list(models.Run, path("runs"), limit, {"agent": agent, "run": run, "in_shadow": in_shadow})

    async def end(self, run: str, *, reason: str, agent: str | None = None) -> models.RunsEnded:
        """Ends a run, of one agent or of all; the next call with its name begins a new one. ``ended`` has the runs."""
        body = present(reason=reason, agent=agent)
        return await self._client._post(models.RunsEnded, path("runs", run, "end"), body)


class AsyncTrajectories(_Resource):
    """Tasks with their events and findings."""

    async def get(self, task_id: str, *, mode: Mode | None = None) -> models.Trajectory:
        """Returns a task: its recommendation, its coverage, and all of its events in order, each with its findings."""
        full, asked = path("trajectories", task_id), {"limit": PAGE, "mode": mode}
        first = await self._client._get(models.Trajectory, full, asked)
        events, cursor = list(first.events), first.next_cursor
        while cursor is not None:
            more = await self._client._get(models.Trajectory, full, {**asked, "cursor": cursor})
            events, cursor = [*events, *more.events], more.next_cursor
        return first.model_copy(update={"events": events, "next_cursor": None})


class AsyncBreakers(_Resource):
    """Recommendations to stop routing work to an agent."""

    def list(
        self,
        *,
        agent: str | None = None,
        recommendation: str | None = None,
        order: Order | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AsyncListing[models.Breaker]:
        """Yields breakers, ``limit`` at most; ``recommendation`` is ``closed``, ``open`` or ``half_open``."""
        asked = {"agent": agent, "recommendation": recommendation, "order": order, "cursor": cursor}
        return self._list(models.Breaker, path("breakers"), limit, asked)

    async def get(self, agent: str) -> models.Breaker:
        """Returns the breaker of an agent."""
        return await self._client._get(models.Breaker, path("breakers", agent))

    async def acknowledge(self, agent: str, *, by: str | None = None, note: str | None = None) -> models.Acknowledged:
        """Notes that a person takes care of an open breaker. Needs a key of the scope ``admin``."""
        return await self._client._post(
            models.Acknowledged, path("breakers", agent, "acknowledge"), present(by=by, note=note), True
        )

    async def reset(self, agent: str, *, by: str | None = None, note: str | None = None) -> models.Breaker:
        """Closes a breaker. Needs a key of the scope ``admin``."""
        return await self._client._post(
            models.Breaker, path("breakers", agent, "reset"), present(by=by, note=note), True
        )


class AsyncReflexions(_Resource):
    """Recommendations that an agent reconsiders a recurring fault."""

    def list(
        self,
        *,
        agent: str | None = None,
        task_type: str | None = None,
        status: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: Order | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AsyncListing[models.Reflexion]:
        """Yields reflexions, oldest first unless ``order="desc"``; ``limit`` at most."""
        asked = {
            "agent": agent,
            "task_type": task_type,
            "status": status,
            "since": since,
            "until": until,
            "order": order,
            "cursor": cursor,
        }
        return self._list(models.Reflexion, path("reflexions"), limit, asked)
