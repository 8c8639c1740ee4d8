"""A session of the sidecar: from attaching to closing, one step at a time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import pydantic

from .. import _session, models
from .._core import Core, log
from .._guardrails import Enforcement, warn_of_unguarded
from .._requests import NoAnswer, Request, Response, path
from .._session import (
    MOST_AT_ONCE,
    RESUME,
    Missed,
    Session,
    SessionStep,
    Since,
    calls_of,
    closed,
    degraded,
    references,
    results_of,
)
from .._terms import (
    CallLike,
    DefinitionLike,
    Objective,
    Outcome,
    ResultLike,
    Role,
    ToolLike,
    call_of,
    object_of,
    present,
)
from ..errors import APIError, SessionOver, Unavailable
from . import io
from .documents import AsyncDocument, AsyncUpToDate
from .guardrails import AsyncGuardrails

if TYPE_CHECKING:
    from .client import AsyncUmbra

M = TypeVar("M", bound=pydantic.BaseModel)
S = TypeVar("S", bound="AsyncSidecar")
A = TypeVar("A", models.GuardAnswer, models.Selection)


class AsyncSidecar(Session):
    """Companion of one agent's session: fitting tools, verdicts of the rules, due documents, and successful patterns.

    :meth:`AsyncUmbra.sidecar` returns one, and describes its parameters::

        async with umbra.sidecar(task="fix the date bug", route="plan", documents={"todo": "# Todo\\n"}) as s:
            turn = await s.turn(intent="search the code")

    **A sidecar never stops the agent.** A request takes ``deadline`` seconds at most. If the server is away, late,
    faulty, or has lost the session, nothing is raised: the answer is ``degraded`` and allows the step, and its
    ``warnings`` tell what is missing. Only a text of more than 64 KiB is blocked then, so that length leads past no
    rule. After three faults in a row no request is sent for 15 s, or until the server answers another request of the
    client. With ``strict``, such faults raise :class:`Unavailable`. Faults of the program raise :class:`APIError`: a
    wrong key, or a request that breaks the API's rules.

    At the end of the block the session is closed as ``succeeded``, or as ``failed`` if an :class:`Exception` leaves the
    block. An ``outcome`` that was set before goes first, and ``summary`` is the result. A cancelled block sets no
    outcome.
    """

    def __init__(
        self,
        agent: str | None = None,
        *,
        task: str | None = None,
        task_id: str | None = None,
        route: str | None = None,
        modes: Sequence[str] | None = None,
        objectives: Sequence[Objective] | None = None,
        tools: Sequence[DefinitionLike] = (),
        documents: Mapping[str, str | Mapping[str, Any]] | None = None,
        folder: str | None = None,
        model: str | None = None,
        id: str | None = None,
        close: bool = True,
        deadline: float | None = None,
        strict: bool = False,
        client: AsyncUmbra | None = None,
    ) -> None:
        core, is_owner = self._reach(client)
        self._begin(
            core,
            is_owner,
            agent,
            task,
            task_id,
            route,
            modes,
            objectives,
            tools,
            documents,
            folder,
            model,
            id,
            close,
            deadline,
            strict,
        )

    def _reach(self, client: AsyncUmbra | None) -> tuple[Core, bool]:
        """Returns the client's core, and True if this session closes the connections."""
        from .client import AsyncUmbra

        return (client or AsyncUmbra())._core, client is None

    async def __aenter__(self: S) -> S:
        if self._entered:
            raise SessionOver("a session is entered once")
        self._entered = True
        try:
            await self._attached(time.monotonic() + self.deadline)
        except Missed as missed:
            try:
                self._tolerate(missed)
            except BaseException:
                await self._release()
                raise
            self.warnings = [str(missed)]
        except BaseException:
            await self._release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome: Outcome | None = "succeeded" if error is None else "failed" if isinstance(error, Exception) else None
        try:
            if self.summary is None and self._keeps_open:
                self.summary = degraded(models.SessionSummary, Missed("the session was left open")).model_copy(
                    update={"degraded": self.degraded, "warnings": []}
                )
            elif self.summary is None:
                await self.close(self.outcome or outcome)
        except (APIError, Unavailable) as fault:
            # An exception that leaves the block goes first.
            if error is None:
                raise
            log.warning("umbra: the session is not closed: %s", fault)
        finally:
            await self._release()

    async def _release(self) -> None:
        if self._is_owner:
            await self._core.async_client().aclose()

    async def close(self, outcome: Outcome | None = None) -> models.SessionSummary:
        """Ends the session before the end of the block. Its calls become a pattern if ``outcome`` is ``succeeded``.

        Without an outcome they are kept if the reviews of the ``task_id`` approve the task. If the server does not
        answer, the end is reported when this client attaches its next session.
        """
        self._in_use()
        outcome = outcome or self.outcome
        answer = degraded(models.SessionSummary, Missed("the session is not closed"))
        try:
            request = self._close_request(outcome)
            try:
                answer = await self._ask(models.SessionSummary, request, time.monotonic() + self.deadline)
            except APIError as refused:
                raise self._lose(refused) from None
            except Missed:
                self._core.ends.append(request)
                raise
        except Missed as missed:
            answer = self._without(models.SessionSummary, missed)
        finally:
            # For this program the session is over in any case: the server closes an unused session by itself.
            self.summary, self.outcome = answer, outcome
        return answer

    async def turn(
        self,
        intent: str | None = None,
        *,
        planned_calls: Sequence[CallLike] = (),
        route: str | None = None,
        modes: Sequence[str] | None = None,
        limit: int | None = None,
        always_include: Sequence[ToolLike] = (),
    ) -> models.TurnAnswer:
        """Begins a step, and returns everything for it in one answer: verdicts, due documents, tools and patterns.

        ``intent`` describes the next step, the task unless given: the agent's plan finds tools better than a user's
        words. ``planned_calls`` are judged by the rules, each as if the calls before it had been made; ``decisions``
        has one ruling for each. ``limit`` is the greatest number of tools and patterns, and ``always_include`` names
        tools that are returned besides.
        """
        self._in_use()
        planned = calls_of(planned_calls)
        moved = self._moved(route, modes)
        request = self._turn_request(intent, planned, moved, limit, always_include)
        at_turn = self._texts()
        return self._turned(await self._of_session(models.TurnAnswer, request), at_turn, planned, moved)

    async def message(
        self,
        content: str | None = None,
        *,
        role: Role = "assistant",
        tool_calls: Sequence[CallLike] = (),
        results: Sequence[ResultLike] = (),
        route: str | None = None,
        modes: Sequence[str] | None = None,
    ) -> models.MessageAnswer:
        """Reports the message, calls and results of a step. The rules judge them, and patterns are made of them.

        Calls under :meth:`guardrails` are reported already. A text of more than 64 KiB without an answer is blocked.
        """
        self._in_use()
        calls, outcomes = calls_of(tool_calls), results_of(results, tool_calls)
        warn_of_unguarded(self, calls)
        moved = self._moved(route, modes)
        request = self._message_request(content, role, calls, outcomes, moved)
        answer = self._heard(await self._of_session(models.MessageAnswer, request), calls, outcomes)
        self._moves(moved, bool(answer.message))
        return answer if content is None else answer.model_copy(update=closed(answer))

    async def _report(
        self, report: Mapping[str, Any], route: str | None, modes: list[str] | None
    ) -> models.MessageAnswer:
        """Reports a call under guardrails, at another place than the session's if the guardrails have one."""
        self._in_use()
        calls, results = report["tool_calls"], report["results"]
        moved = self._moved(route, modes)
        request = self._message_request(None, "assistant", calls, results, moved)
        has_place = bool(route or modes is not None)
        self._is_elsewhere = self._is_elsewhere or has_place
        answer = await self._of_session(models.MessageAnswer, request)
        if answer.message and not has_place:
            self._is_elsewhere = False
        return self._heard(answer, calls, results)

    def stream(self, *, after: int | None = None) -> AsyncIterator[SessionStep]:
        """Yields the answers to all steps of the session, of any program.

        The stream begins now, or behind the step ``after`` (0: with the first step), and ends with the session. An
        interrupted stream continues without a gap; if the server stays away it ends, with a warning in the log.
        """
        self._in_use()
        return self._stream(after)

    async def select(
        self, query: str | None = None, *, limit: int | None = None, always_include: Sequence[ToolLike] = ()
    ) -> models.Selection:
        """Returns the tools of the session that fit ``query`` or the task, best first.

        There are at most ``limit`` (ten unless given), and those of ``always_include``, as far as they may be offered.
        """
        self._in_use()
        until = time.monotonic() + self.deadline
        wanted = references(always_include)
        asked = present(query=query or self.task, limit=limit, always_include=wanted, deadline_ms=self._server_ms())
        return await self._in_or_out(models.Selection, lambda session: self._select_request(asked, session), until)

    async def guard(
        self,
        call: CallLike | None = None,
        *,
        message: str | None = None,
        role: Role = "assistant",
        route: str | None = None,
        modes: Sequence[str] | None = None,
    ) -> models.GuardAnswer:
        """Returns the verdict of the rules on one planned call or message. The session does not change.

        ``route`` and ``modes`` are those of the session unless given. Without a session the rules are asked
        nevertheless; the answer is ``degraded`` then. While the server is away a call is allowed, ``degraded``, and
        guardrails run it. Of more than 64 KiB, a message without an answer is blocked, and a call is ``unjudged``:
        guardrails under ``enforce`` do not run it.
        """
        self._in_use()
        if (call is None) == (message is None):
            raise TypeError("guard takes a call or a message")
        asked = {"message": {"role": role, "content": message}} if call is None else {"call": call_of(call)}
        moved = self._moved(route, modes)
        until = time.monotonic() + self.deadline
        answer = await self._in_or_out(
            models.GuardAnswer, lambda session: self._guard_request(asked, moved, session), until
        )
        return answer if message is None else answer.model_copy(update=closed(answer))

    def guardrails(
        self,
        enforcement: Enforcement = "enforce",
        *,
        mode: str | None = None,
        route: str | None = None,
        server: str | None = None,
        name: str | None = None,
        ignore: Iterable[str] = (),
    ) -> AsyncGuardrails:
        """Applies the rules to calls of tools: a question before each call, and a report with the result after it.

        As a decorator of a function or coroutine function, named ``name`` (its own name unless given) of ``server``::

            @s.guardrails(server="files")
            async def edit_file(path: str, text: str) -> str: ...

        As a block it applies to every function that :meth:`AsyncUmbra.tool` decorates and
        that is called within the block, in tasks and ``asyncio.to_thread`` that are started there too. What the block
        returns decorates plain functions and has ``call_tool``; a block without any guarded call is warned of::

            async with s.guardrails(mode="research"):
                await agent()

        ``enforce`` raises :class:`Blocked` if a call is blocked, which then does not run, and :class:`ResultWithheld`
        if its result is blocked. For a warning the call runs, and the warning is logged. ``warn`` logs both and raises
        nothing, and ``audit`` does the same at level INFO. ``mode`` and ``route`` are those of the agent for the calls:
        the mode is added to the session's. ``ignore`` names parameters that a framework fills in, not the model; those
        with its contexts (``RunContext``, ``ToolRuntime`` and others) are known. :attr:`interventions` has the
        objections of the rules. A function that is no coroutine sends its requests in its caller's thread.

        Guardrails alone do not hold while the server is away, and cannot ask a person: put :meth:`AsyncUmbra.tool`
        beneath them for tools that write.
        """
        self._in_use()
        return AsyncGuardrails(self, enforcement, mode, route, server, name, ignore)

    async def document(self, name: str) -> AsyncDocument:
        """Returns a document of the session in its present state; its ``put`` creates a missing one."""
        self._in_use()
        document = AsyncDocument(self, name)
        await document.read()
        return document

    async def ensure_updated(self, name: str, *, section: str | None = None, since: Since = "turn") -> AsyncDocument:
        """Checks that a document was changed in substance, and returns it; ``section`` is a slug or a title.

        Raises :class:`NotUpdated`, whose ``directives`` are for the agent to read, unless the document has changed
        since the last turn (or, before the first turn and with ``since="session"``, since the session began)::

            await s.ensure_updated("todo", section="Plan")

        :attr:`TurnAnswer.documents_due` has the documents that rules of the server ask for; this check is independent
        of them. While the server is away nothing is raised.
        """
        self._in_use()
        return await AsyncUpToDate(self, name, section, since).check()

    def must_update(self, name: str, *, section: str | None = None) -> AsyncUpToDate:
        """Checks that a document is changed within a block::

        async with s.must_update("todo", section="Plan") as todo:
            await agent.step(todo.text)
        """
        self._in_use()
        return AsyncUpToDate(self, name, section, "turn")

    async def record_pattern(
        self,
        task: str | None = None,
        *,
        tools: Sequence[ToolLike] = (),
        outcome: Outcome = "succeeded",
        task_id: str | None = None,
        task_type: str | None = None,
        prompt: str | None = None,
        summary: str | None = None,
        cost_usd: float | None = None,
        ms: int | None = None,
    ) -> models.RecordedPattern:
        """Records how a task was done: its tools in order, and its outcome.

        ``task`` and ``task_id`` are the session's unless given. A known pattern is counted once more. Closing a session
        records the session's own calls; this method is for others. ``cost_usd`` is in US dollars, ``ms`` in
        milliseconds.
        """
        told = {"task_type": task_type, "prompt": prompt, "summary": summary, "cost_usd": cost_usd, "ms": ms}
        request = self._pattern_request(task, task_id, tools, outcome=outcome, **told)
        return await self._answered(models.RecordedPattern, request)

    async def search_patterns(self, task: str | None = None, *, limit: int | None = None) -> models.PatternsFound:
        """Returns this agent's patterns of similar tasks, best first. The task is the session's unless given.

        Texts of patterns are data of other tasks, never instructions, and are put into no prompt here;
        :func:`quote_patterns` quotes them for a prompt.
        """
        return await self._answered(models.PatternsFound, self._search_request(task, limit))

    async def note(self, text: str) -> None:
        """Leaves a person's note, which the agent gets once, with its next turn or message.

        It needs a key of the scope ``admin``, so it comes from a person's program, not from the agent's.
        Raises :class:`APIError` and :class:`Unavailable`.
        """
        self._in_use()
        if not self._is_attached or self.id is None:
            raise Unavailable("there is no session to leave a note in")
        request = Request("POST", path("sessions", self.id, "notes"), {"text": text})
        await self._core.async_client()._send(request)

    # Requests to the server, and the handling of its faults.

    async def _answered(self, kind: type[M], request: Request) -> M:
        try:
            return await self._ask(kind, request, time.monotonic() + self.deadline)
        except Missed as missed:
            return self._without(kind, missed)

    async def _ask(self, kind: type[M], request: Request, until: float) -> M:
        # The deadline does not run while a request waits for its place: else some of many calls would go unasked.
        began = time.monotonic()
        async with self._slots.setdefault(io.is_async, io.Semaphore(MOST_AT_ONCE)):
            seconds = self._may_ask(request, until - began)
            try:
                response = await self._core.async_client()._http.request(request, seconds)
            except NoAnswer as gone:
                raise self._unanswered(request, f"the server gave no answer: {gone}") from None
        return self._read(kind, request, response)

    async def _in_or_out(self, kind: type[A], request: Callable[[str | None], Request], until: float) -> A:
        """Returns an answer of the session, or without a session an answer without it."""
        try:
            try:
                session: str | None = await self._attached(until)
            except Missed:
                session = None
            try:
                answer = await self._ask(kind, request(session), until)
            except APIError as refused:
                if session is None:
                    raise
                self._lose(refused)
                session, answer = None, await self._ask(kind, request(None), until)
        except Missed as missed:
            return self._without(kind, missed)
        return answer if session else self._out(answer)

    async def _of_session(self, kind: type[M], request: Request, without: Mapping[str, Any] | None = None) -> M:
        """Returns an answer of the session; ``without`` are members of the answer if there is none."""
        self._in_use()
        until = time.monotonic() + self.deadline
        try:
            full = f"{path('sessions', await self._attached(until))}/{request.path}"
            request = dataclasses.replace(request, path=full)
            try:
                return await self._ask(kind, request, until)
            except APIError as refused:
                raise self._lose(refused) from None
        except Missed as missed:
            return self._without(kind, missed, **(without or {}))

    async def _attached(self, until: float) -> str:
        """Returns the session's id. A session that could not be attached is tried again now and then."""
        if self._may_attach():
            try:
                await self._attach(until)
            finally:
                self._attaching.release()
        assert self.id is not None
        return self.id

    async def _attach(self, until: float) -> None:
        request = self._attach_request()
        if self.id is None:
            self._attached_to(await self._ask(models.Attachment, request, until))
        else:
            try:
                known = await self._ask(models.SessionView, request, until)
            except APIError as refused:
                raise self._lose(refused) from None
            self._attached_to(known)
            for state in known.documents:
                read = Request("GET", path("sessions", known.id, "documents", state.name), repeatable=True)
                self._begins_with(await self._ask(models.DocumentView, read, until))
        await self._tell_ends(until)

    async def _tell_ends(self, until: float) -> None:
        """Reports sessions that ended while the server was away. A session that is unknown or closed there is done."""
        ends = self._core.ends
        while ends:
            end = ends.popleft()
            try:
                await self._ask(models.SessionSummary, end, until)
            except APIError as refused:
                log.debug("umbra: the end of a session is not kept: %s", refused)
            except Missed:
                ends.appendleft(end)
                return

    async def _stream(self, after: int | None) -> AsyncIterator[SessionStep]:
        tries = 0
        while True:
            try:
                full = path("sessions", await self._attached(time.monotonic() + self.deadline), "messages")
                headers = {"Accept": "text/event-stream", **({} if after is None else {"Last-Event-ID": str(after)})}
                request = Request("GET", full, headers=headers)
                async with io.aclosing(self._core.async_client()._http.events(request, self.deadline)) as events:
                    async for event in events:
                        if isinstance(event, Response):
                            self._refused_stream(request, event)
                            continue
                        after = int(event.id) if event.id.isdigit() else after
                        if not event.event:
                            continue
                        tries = 0
                        yield SessionStep(id=after or 0, event=event.event, data=object_of(event.data))
                        if event.event == "close":
                            return
                raise Missed("the stream was interrupted")
            except NoAnswer as gone:
                missed = Missed(f"the stream was interrupted: {gone}")
            except Missed as known:
                missed = known
            tries += 1
            if self.summary is not None:
                return
            if self._lost or tries > RESUME:
                self._tolerate(missed)
                log.warning("umbra: what the sidecar has to say is not followed any more: %s", missed)
                return
            await io.sleep(_session.RESUME_AFTER)

    def _refused_stream(self, request: Request, response: Response) -> None:
        try:
            self._judged(request, response)
        except APIError as refused:
            raise self._lose(refused) from None
