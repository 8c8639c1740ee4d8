"""A session of the sidecar: from attaching to closing, one step at a time."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any

import umbra

from .answers import (
    Answer,
    Attachment,
    Call,
    DocumentAnswer,
    DocumentDue,
    DocumentText,
    GuardAnswer,
    MessageAnswer,
    Objective,
    Outcome,
    PatternsFound,
    RecordedPattern,
    Result,
    Role,
    Ruling,
    Said,
    Selection,
    Summary,
    ToolDefinition,
    ToolName,
    ToolRef,
    Turn,
)
from .asking import A, Asking, Missed
from .documents import Document, Seen, Since, UpToDate
from .errors import SessionOver, SidecarError, SidecarRefused
from .guardrails import Guardrails, Mode
from .terms import object_of, padded, plain_name, said, tool_of
from .transport import Request, _Refusal

_log = logging.getLogger("umbra")
# Most kept rulings with objections to calls; older rulings are dropped.
_MOST_INTERVENTIONS = 1_000
# Seconds between attempts to attach a session that could not be attached.
_ATTACH_AGAIN = 5.0
# Ends of sessions that could not be reported, the oldest first, and their greatest number. They are reported when the
# next session is attached.
_untold: weakref.WeakKeyDictionary[umbra.Client, deque[Request]] = weakref.WeakKeyDictionary()
_MOST_UNTOLD = 100
# Seconds after which an interrupted stream is resumed, and most attempts in a row.
_RESUME_AFTER, _RESUME = 2.0, 5
# Share of the deadline that the server gets, so that even a partial answer arrives in time.
_SERVER_SHARE = 0.9


class Sidecar(Asking):
    """Companion of one agent's session: fitting tools, verdicts of the rules, due documents, and successful patterns.

        async with umbra.sidecar(task="fix the date bug", route="plan", documents={"todo": "# Todo\\n"}) as s:
            turn = await s.turn(intent="search the code")

    ``agent`` is the agent's name; ``task`` the task in words; ``task_id`` the task's id in the agent's events.
    ``route`` and ``modes`` are the agent's activity and way of working, for rules that name them. ``objectives``
    selects the sidecar's functions, all unless given. ``tools`` are definitions in the form of ``tools/list`` of the
    Model Context Protocol, each with its ``server``; ``documents`` are texts by name. If the server has a workspace,
    documents are files as well, in the folder ``folder`` if given; :attr:`files` is its path. ``client`` is the server
    with the key, by default that of :func:`umbra.configure` and the variables ``UMBRA_...``. Agent, route and modes
    default to those of the client and of :func:`umbra.context`.

    **A sidecar never stops the agent.** A request takes ``deadline`` seconds at most (the client's ``timeout`` unless
    given). If the server is away, late, faulty, or has lost the session, nothing is raised: the answer is ``degraded``
    and allows the step, and its ``warnings`` tell what is missing. After three faults in a row no request is sent for
    15 s. With ``strict``, such faults raise :class:`SidecarUnavailable`. Faults of the program raise
    :class:`SidecarRefused`: a wrong key, or a request that breaks the API's rules.

    At the end of the block the session is closed as ``succeeded``, or as ``failed`` if an :class:`Exception` leaves the
    block. An ``outcome`` that was set before goes first, and ``summary`` is the result. A cancelled block sets no
    outcome.

    A session belongs to the event loop that it was entered in; several tasks may use it at the same time.
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
        tools: Sequence[ToolDefinition] = (),
        documents: Mapping[str, str | DocumentText] | None = None,
        folder: str | None = None,
        deadline: float | None = None,
        strict: bool = False,
        client: umbra.Client | None = None,
    ) -> None:
        if isinstance(modes, str) or isinstance(objectives, str):
            raise TypeError("modes and objectives are lists of names")
        client = client or umbra._client()
        super().__init__(client, deadline, strict)
        self._client = client
        place = umbra._place.get().over(client.place)
        self.agent: str = agent or place.agent or "python"
        """Name of the agent."""
        self.task = task
        """The task, in words."""
        self.route = route or place.route
        """Route of the agent, such as ``plan``; turns and messages change it."""
        self.modes: tuple[str, ...] = tuple(place.modes if modes is None else modes)
        """Modes of the agent; turns and messages change them."""
        self.id: str | None = None
        """Id of the session; None if the server has no such session."""
        self.files: str | None = None
        """Folder of the documents as files, in the server's workspace; None without files."""
        self.warnings: tuple[str, ...] = ()
        """Missing parts at the last attachment."""
        self.taints: tuple[str, ...] = ()
        """Labels that rules have put on the session."""
        self.interventions: deque[Ruling] = deque(maxlen=_MOST_INTERVENTIONS)
        """Rulings with objections to calls under guardrails, the oldest first."""
        self.outcome: Outcome | None = None
        """Outcome of the session; None to let the end of the block decide."""
        self.summary: Summary | None = None
        """Result of the session; None before it is closed."""
        self._attachment: dict[str, Any] = {
            "task": task,
            "task_id": task_id,
            "objectives": None if objectives is None else list(objectives),
            "tools": [dict(tool) for tool in tools],
            "documents": dict(documents or {}),
            "folder": folder,
        }
        self._entered = False
        self._attaching = asyncio.Lock()
        self._attach_after = 0.0
        # Reason for the loss of the session; None while there is one.
        self._lost: str | None = None
        self._seen: dict[str, Seen] = {}
        self._due: tuple[DocumentDue, ...] = ()

    @property
    def degraded(self) -> bool:
        """True if the agent is without a session."""
        return self.id is None or self._lost is not None

    async def __aenter__(self) -> Sidecar:
        if self._entered:
            raise SessionOver("a session is entered once")
        self._entered = True
        try:
            await self._attached(time.monotonic() + self.deadline)
        except Missed as missed:
            self.warnings = self._without(Answer, missed).warnings
        except BaseException:
            self._transport.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome: Outcome | None = "succeeded" if error is None else "failed" if isinstance(error, Exception) else None
        try:
            if self.summary is None:
                await self.close(self.outcome or outcome)
        except SidecarError as fault:
            # An exception that leaves the block goes first.
            if error is None:
                raise
            _log.warning("umbra: the session is not closed: %s", fault)
        finally:
            self._transport.close()

    async def close(self, outcome: Outcome | None = None) -> Summary:
        """Ends the session before the end of the block. Its calls become a pattern if ``outcome`` is ``succeeded``.

        Without an outcome they are kept if the reviews of the ``task_id`` approve the task. If the server does not
        answer, the end is reported when this client attaches its next session.
        """
        self._in_use()
        outcome = outcome or self.outcome
        body = {} if outcome is None else {"outcome": outcome}
        answer = Summary()
        try:
            if self.id is None:
                raise Missed(self._lost or "there is no session to close")
            request = Request("POST", f"/v1/sessions/{self.id}/close", body, repeatable=True)
            try:
                answer = await self._ask(Summary, request, time.monotonic() + self.deadline)
            except SidecarRefused as refused:
                raise self._lose(refused) from None
            except Missed:
                _untold.setdefault(self._client, deque(maxlen=_MOST_UNTOLD)).append(request)
                raise
        except Missed as missed:
            answer = self._without(Summary, missed)
        finally:
            # For this program the session is over in any case: the server closes an unused session by itself.
            self.summary, self.outcome = answer, outcome
        return answer

    async def turn(
        self,
        intent: str | None = None,
        *,
        planned_calls: Sequence[Call] = (),
        route: str | None = None,
        modes: Sequence[str] | None = None,
        limit: int | None = None,
        always_include: Sequence[str | ToolRef] = (),
    ) -> Turn:
        """Begins a step, and returns everything for it in one answer: verdicts, due documents, tools and patterns.

        ``intent`` describes the next step, the task unless given. ``planned_calls`` are judged by the rules, each as if
        the calls before it had been made. ``limit`` is the greatest number of tools and patterns, and
        ``always_include`` names tools that are returned besides.
        """
        self._moves(route, modes)
        wanted = list(always_include) or None
        asked = said(intent=intent, planned_calls=list(planned_calls) or None, limit=limit, always_include=wanted)
        body = {**asked, **self._moved(route, modes)}
        at_turn = {name: seen.latest.text for name, seen in self._seen.items()}
        request = Request("POST", "/turns", {**body, "deadline_ms": self._server_ms()})
        turn = await self._of_session(Turn, request)
        if turn.turn:
            self._due = turn.documents_due
            for name, text in at_turn.items():
                self._seen[name].at_turn = text
        return dataclasses.replace(turn, decisions=padded(turn.decisions, planned_calls))

    async def message(
        self,
        content: str | None = None,
        *,
        role: Role = "assistant",
        tool_calls: Sequence[Call] = (),
        results: Sequence[Result] = (),
        route: str | None = None,
        modes: Sequence[str] | None = None,
    ) -> MessageAnswer:
        """Reports the message, calls and results of a step. The rules judge them, and patterns are made of them.

        Calls under :meth:`guardrails` are reported already.
        """
        request = self._message(content, role, tool_calls, results, route, modes)
        return self._heard(await self._of_session(MessageAnswer, request), tool_calls, results)

    def stream(self, *, after: int | None = None) -> AsyncIterator[Said]:
        """Yields the answers to all steps of the session, of any program: ``async for said in s.stream()``.

        The stream begins now, or behind the step ``after`` (0: with the first step), and ends with the session. An
        interrupted stream continues without a gap; if the server stays away it ends, with a warning in the log.
        """
        self._in_use()
        return self._stream(after)

    async def select(
        self, query: str | None = None, *, limit: int | None = None, always_include: Sequence[str | ToolRef] = ()
    ) -> Selection:
        """Returns the tools of the session that fit ``query`` or the task, best first: at most ``limit`` (ten unless
        given), and those of ``always_include``, as far as they may be offered.
        """
        self._in_use()
        until = time.monotonic() + self.deadline
        wanted = list(always_include) or None
        asked = said(query=query or self.task, limit=limit, always_include=wanted, deadline_ms=self._server_ms())

        def request(session: str | None) -> Request:
            if session is None and not (self._attachment["tools"] and asked.get("query")):
                raise Missed("there is no session to select tools for, and neither tools nor a task without it")
            who = {"tools": self._attachment["tools"], **self._standing()} if session is None else {"session": session}
            return Request("POST", "/v1/tools/select", {**asked, **who}, repeatable=True)

        return await self._in_or_out(Selection, request, until)

    async def guard(
        self,
        call: Call | None = None,
        *,
        message: str | None = None,
        role: Role = "assistant",
        route: str | None = None,
        modes: Sequence[str] | None = None,
    ) -> GuardAnswer:
        """Returns the verdict of the rules on one planned call or message. The session does not change.

        ``route`` and ``modes`` are those of the session unless given. Without a session the rules are asked
        nevertheless; the answer is ``degraded`` then.
        """
        self._in_use()
        question = self._question(call, message, role, route, modes)
        return await self._in_or_out(GuardAnswer, question, time.monotonic() + self.deadline)

    def guardrails(self, mode: Mode = "enforce", *, server: str | None = None, name: str | None = None) -> Guardrails:
        """Applies the rules to calls of tools: a question before each call, and a report with the result after it.

        As a decorator of a function or coroutine function, named ``name`` (its own name unless given) of ``server``::

            @s.guardrails("enforce", server="files")
            async def edit_file(path: str, text: str) -> str: ...

        As a context it applies to every function that :func:`umbra.tool` decorates and that is called within the block,
        in tasks and ``asyncio.to_thread`` that are started there too::

            with s.guardrails("enforce"):
                await agent()

        ``enforce`` raises :class:`umbra.Blocked` if a call is blocked, which then does not run, and
        :class:`ResultWithheld` if its result is blocked. For a warning the call runs, and the warning is logged.
        ``warn`` logs both and raises nothing, and ``audit`` does the same at level INFO. :attr:`interventions` has the
        objections of the rules. A function that is no coroutine sends its requests in its caller's thread.
        """
        self._in_use()
        return Guardrails(self, mode, server, name)

    async def document(self, name: str) -> Document:
        """Returns a document of the session in its present state; :meth:`Document.put` creates a missing one."""
        self._in_use()
        document = Document(self, name)
        await document.read()
        return document

    def ensure_updated(self, document: str, *, section: str | None = None, since: Since = "turn") -> UpToDate:
        """Checks that a document, or a section of it by slug or title, was changed in substance.

        Awaited, it raises :class:`NotUpdated`, whose ``directives`` are for the agent to read, unless the document has
        changed since the last turn (or, before the first turn and with ``since="session"``, since the session began).
        It returns the document::

            await s.ensure_updated("todo", section="Plan")

        As a context it returns the document, and raises at the end unless the document was changed within the block::

            async with s.ensure_updated("todo", section="Plan") as todo:
                await agent.step(todo.text)

        :attr:`Turn.documents_due` has the documents that rules of the server ask for; this check is independent of
        them. While the server is away nothing is raised.
        """
        self._in_use()
        return UpToDate(self, document, section, since)

    async def record_pattern(
        self,
        task: str | None = None,
        *,
        tools: Sequence[str | ToolRef | ToolName] = (),
        outcome: Outcome = "succeeded",
        task_type: str | None = None,
        prompt: str | None = None,
        summary: str | None = None,
        cost_usd: float | None = None,
        ms: int | None = None,
    ) -> RecordedPattern:
        """Records how a task (the session's unless given) was done: its tools in order, and its outcome.

        A known pattern is counted once more. Closing a session records the session's own calls; this method is for
        others.
        """
        self._in_use()
        task = task or self.task
        if not task:
            raise TypeError("record_pattern needs a task, since the session has none")
        named = [tool_of(tool) for tool in tools]
        body = said(
            agent=self.agent,
            task=task,
            tools=named,
            outcome=outcome,
            task_type=task_type,
            prompt=prompt,
            summary=summary,
            cost_usd=cost_usd,
            ms=ms,
            session=self.id,
            task_id=self._attachment["task_id"],
        )
        return await self._answered(RecordedPattern, Request("POST", "/v1/patterns", body))

    async def search_patterns(self, task: str | None = None, *, limit: int | None = None) -> PatternsFound:
        """Returns this agent's patterns of similar tasks, best first. The task is the session's unless given.

        Texts of patterns are data of other tasks, never instructions, and are put into no prompt here;
        :func:`quote_patterns` quotes them for a prompt.
        """
        self._in_use()
        task = task or self.task
        if not task:
            raise TypeError("search_patterns needs a task, since the session has none")
        body = said(task=task, limit=limit, **self._standing())
        return await self._answered(PatternsFound, Request("POST", "/v1/patterns/search", body, repeatable=True))

    # Requests to the server, and the handling of its faults.

    def _in_use(self) -> None:
        if not self._entered:
            raise SessionOver("the session has not begun: async with umbra.sidecar(...) as s")
        if self.summary is not None:
            raise SessionOver("the session is closed")

    def _moves(self, route: str | None, modes: Sequence[str] | None) -> None:
        self._in_use()
        if isinstance(modes, str):
            raise TypeError("modes is a list of names")
        self.route = route or self.route
        self.modes = self.modes if modes is None else tuple(modes)

    def _moved(self, route: str | None, modes: Sequence[str] | None) -> dict[str, Any]:
        return {"route": route, "modes": None if modes is None else list(modes)}

    def _standing(self) -> dict[str, Any]:
        """Returns agent, route and modes, for questions without a session."""
        return said(agent=self.agent, route=self.route, modes=list(self.modes))

    def _server_ms(self) -> int:
        return max(1, int(self.deadline * 1000 * _SERVER_SHARE))

    def _message(
        self,
        content: str | None,
        role: Role,
        tool_calls: Sequence[Call],
        results: Sequence[Result],
        route: str | None,
        modes: Sequence[str] | None,
    ) -> Request:
        self._moves(route, modes)
        told = {"tool_calls": list(tool_calls) or None, "results": list(results) or None}
        body = said(role=role, content=content, **told, **self._moved(route, modes))
        return Request("POST", "/messages", {**body, "deadline_ms": self._server_ms()})

    def _heard(self, answer: MessageAnswer, calls: Sequence[Call], results: Sequence[Result]) -> MessageAnswer:
        if answer.message:
            self._due, self.taints = answer.documents_due, answer.taints
        return dataclasses.replace(answer, calls=padded(answer.calls, calls), results=padded(answer.results, results))

    def _message_now(self, role: Role, tool_calls: Sequence[Call], results: Sequence[Result]) -> MessageAnswer:
        """:meth:`message` for tools that are no coroutines."""
        request, until = self._message(None, role, tool_calls, results, None, None), time.monotonic() + self.deadline
        try:
            if self.id is None or self._lost:
                raise Missed(self._lost or "there is no session")
            path = f"/v1/sessions/{self.id}{request.path}"
            try:
                answer = self._ask_now(MessageAnswer, dataclasses.replace(request, path=path), until)
            except SidecarRefused as refused:
                raise self._lose(refused) from None
        except Missed as missed:
            answer = self._without(MessageAnswer, missed)
        return self._heard(answer, tool_calls, results)

    def _question(
        self, call: Call | None, message: str | None, role: Role, route: str | None, modes: Sequence[str] | None
    ) -> Any:
        if (call is None) == (message is None):
            raise TypeError("guard takes a call or a message")
        asked = {"call": call} if message is None else {"message": {"role": role, "content": message}}

        def request(session: str | None) -> Request:
            who = {"session": session} if session else self._standing()
            body = {**asked, **who, **said(**self._moved(route, modes)), "deadline_ms": self._server_ms()}
            return Request("POST", "/v1/guard", body, repeatable=True)

        return request

    def _guard_now(self, call: Call) -> GuardAnswer:
        """:meth:`guard` for tools that are no coroutines."""
        self._in_use()
        question, until = self._question(call, None, "assistant", None, None), time.monotonic() + self.deadline
        try:
            session = None if self._lost else self.id
            try:
                answer = self._ask_now(GuardAnswer, question(session), until)
            except SidecarRefused as refused:
                if session is None:
                    raise
                self._lose(refused)
                session, answer = None, self._ask_now(GuardAnswer, question(None), until)
        except Missed as missed:
            return self._without(GuardAnswer, missed)
        return answer if session else self._out(answer)

    async def _in_or_out(self, kind: type[A], question: Any, until: float) -> A:
        """Returns an answer of the session, or without a session an answer without it."""
        try:
            try:
                session: str | None = await self._attached(until)
            except Missed:
                session = None
            try:
                answer = await self._ask(kind, question(session), until)
            except SidecarRefused as refused:
                if session is None:
                    raise
                self._lose(refused)
                session, answer = None, await self._ask(kind, question(None), until)
        except Missed as missed:
            return self._without(kind, missed)
        return answer if session else self._out(answer)

    def _out(self, answer: A) -> A:
        missing = f"there is no session, so neither its labels nor its documents counted: {self._lost or 'it is not attached'}"
        return dataclasses.replace(answer, degraded=True, warnings=(*answer.warnings, missing))

    async def _of_session(self, kind: type[A], request: Request, *, without: A | None = None) -> A:
        """Returns an answer of the session; ``without`` if there is none."""
        self._in_use()
        until = time.monotonic() + self.deadline
        try:
            base = f"/v1/sessions/{await self._attached(until)}"
            request = dataclasses.replace(request, path=base + request.path)
            try:
                return await self._ask(kind, request, until)
            except SidecarRefused as refused:
                raise self._lose(refused) from None
        except Missed as missed:
            return self._without(kind, missed, without)

    def _lose(self, refused: SidecarRefused) -> Missed:
        """Notes that the session is missing or over, which is no fault of the caller. Raises every other refusal."""
        if refused.code not in ("no_session", "session_closed"):
            raise refused
        self._lost = self._lost or f"the server ended the session: {refused.detail}"
        return Missed(self._lost)

    async def _attached(self, until: float) -> str:
        """Returns the session's id. A session that could not be attached is tried again now and then."""
        if self._lost:
            raise Missed(self._lost)
        if self.id is None:
            async with self._attaching:
                if self.id is None:
                    if time.monotonic() < self._attach_after:
                        raise Missed("; ".join(self.warnings) or "there is no session")
                    self._attach_after = time.monotonic() + _ATTACH_AGAIN
                    await self._attach(until)
        assert self.id is not None
        return self.id

    async def _attach(self, until: float) -> None:
        body = {**said(**self._attachment), **self._standing(), "deadline_ms": self._server_ms()}
        answer = await self._ask(Attachment, Request("POST", "/v1/sessions", body), until)
        self.warnings = answer.warnings
        if answer.session is None:
            raise Missed("; ".join(answer.warnings) or "the server has no session")
        self.id, self.files = answer.session.id, answer.session.files
        given = self._given()
        for state in answer.documents:
            first = given.get(state.name, "")
            self._seen[state.name] = Seen(DocumentAnswer(**vars(state), text=first), first, first)
        await self._tell_ends(until)

    async def _tell_ends(self, until: float) -> None:
        """Reports sessions that ended while the server was away. A session that is unknown or closed there is done."""
        ends = _untold.get(self._client, deque())
        while ends:
            end = ends.popleft()
            try:
                await self._ask(Summary, end, until)
            except SidecarRefused as refused:
                _log.debug("umbra: the end of a session is not kept: %s", refused)
            except Missed:
                ends.appendleft(end)
                return

    def _seen_as(self, name: str) -> DocumentAnswer:
        """Returns the last known state of a document."""
        name = plain_name(name)
        if name not in self._seen:
            first = self._given().get(name, "")
            self._seen[name] = Seen(DocumentAnswer(name=name, text=first), first, first)
        return self._seen[name].latest

    def _given(self) -> dict[str, str]:
        """Returns the texts that the session begins with, by name."""
        given = self._attachment["documents"].items()
        return {plain_name(name): text if isinstance(text, str) else text["text"] for name, text in given}

    def _saw(self, asked: str, answer: DocumentAnswer) -> None:
        seen = self._seen.setdefault(answer.name, Seen(answer))
        if answer.etag is not None and answer.version == 0:
            # The text at the beginning of the session, in the form that the server keeps.
            seen.at_turn = answer.text if seen.at_turn == seen.first else seen.at_turn
            seen.first = answer.text
        if answer.version >= seen.latest.version or answer.etag is None:
            seen.latest = answer

    async def _stream(self, after: int | None) -> AsyncIterator[Said]:
        tries = 0
        while True:
            try:
                path = f"/v1/sessions/{await self._attached(time.monotonic() + self.deadline)}/messages"
                async with aclosing(self._transport.events(path, after, self.deadline)) as events:
                    async for number, event, data in events:
                        after = int(number) if number.isdigit() else after
                        if not event:
                            continue
                        step = Said(id=after or 0, event=event, data=object_of(data))
                        tries = 0
                        yield step
                        if event == "close":
                            return
                raise Missed("the stream was interrupted")
            except _Refusal as refused:
                try:
                    self._judged(Request("GET", path), refused.response)
                except SidecarRefused as known:
                    missed = self._lose(known)
                except Missed as known:
                    missed = known
            except umbra._NoAnswer as gone:
                missed = Missed(f"the stream was interrupted: {gone}")
            except Missed as known:
                missed = known
            tries += 1
            if self.summary is not None:
                return
            if self._lost or tries > _RESUME:
                self._without(Answer, missed)
                _log.warning("umbra: what the sidecar has to say is not followed any more: %s", missed)
                return
            await asyncio.sleep(_RESUME_AFTER)


sidecar = Sidecar
"""``async with umbra.sidecar(...) as s``: see :class:`Sidecar`."""
