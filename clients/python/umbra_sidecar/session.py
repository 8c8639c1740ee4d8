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
# What rules had against calls; older ones go.
_MOST_INTERVENTIONS = 1_000
# Between attempts to attach after all, in seconds.
_ATTACH_AGAIN = 5.0
# Ends of sessions that the server did not hear of, the oldest first: told when the next session is attached. At most so many.
_untold: weakref.WeakKeyDictionary[umbra.Client, deque[Request]] = weakref.WeakKeyDictionary()
_MOST_UNTOLD = 100
# A stream that is interrupted is resumed after so many seconds, so many times in a row.
_RESUME_AFTER, _RESUME = 2.0, 5
# The caller's part of the deadline: an answer of the server that is only partly there still arrives in time.
_SERVER_SHARE = 0.9


class Sidecar(Asking):
    """The companion of one agent's session: which tools fit, what the rules say, which documents are due, what worked.

        async with umbra.sidecar(task="fix the date bug", route="plan", documents={"todo": "# Todo\\n"}) as s:
            turn = await s.turn(intent="search the code")

    ``agent`` is whose session it is; ``task`` what is to be done, in words; ``task_id`` the task that the agent's events
    name. ``route`` is what the agent is at, and ``modes`` how it works: rules go by them. ``objectives`` is what the sidecar
    does, everything unless it is said. ``tools`` are definitions as ``tools/list`` of the Model Context Protocol gives them,
    each with its ``server`` beside; ``documents`` are texts by name. Where the server has a workspace they are files as well,
    in a folder of it (``folder``, if it is named): :attr:`files` says where. ``client`` is the server and the key, those of
    :func:`umbra.configure` and the variables ``UMBRA_...`` unless it is given; agent, route and modes too default to the
    client's and to those of :func:`umbra.context`.

    **It never stops the agent.** A request takes ``deadline`` seconds at most (``timeout`` of the client unless it is given).
    Where the server is away, late, faulty, or has lost the session, nothing is raised: the answer is ``degraded`` and allows
    what was asked, and its ``warnings`` say what is missing. After three faults in a row the server is left alone for 15 s.
    With ``strict`` these raise :class:`SidecarUnavailable`. What is the program's own fault raises :class:`SidecarRefused`:
    a wrong key, or a request that breaks the API's rules.

    At the end of the block the session is closed as ``succeeded``, or ``failed`` where an :class:`Exception` leaves it;
    ``outcome`` says otherwise where it is set before, and ``summary`` is what it came to. Who is cancelled says nothing.

    A session belongs to the event loop that it was entered in; several tasks may use it at a time.
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
        """Whose session it is."""
        self.task = task
        """What is to be done."""
        self.route = route or place.route
        """What the agent is at; turns and messages change it."""
        self.modes: tuple[str, ...] = tuple(place.modes if modes is None else modes)
        """How the agent works; turns and messages change it."""
        self.id: str | None = None
        """Its id; None where the server has no such session."""
        self.files: str | None = None
        """The folder with its documents as files, in the server's workspace; None where they are no files."""
        self.warnings: tuple[str, ...] = ()
        """What was missing when it was attached last."""
        self.taints: tuple[str, ...] = ()
        """What clings to the session: labels that rules put on it."""
        self.interventions: deque[Ruling] = deque(maxlen=_MOST_INTERVENTIONS)
        """What rules had against calls that guardrails hold, the oldest first."""
        self.outcome: Outcome | None = None
        """How the session ends; the end of the block decides where it is None."""
        self.summary: Summary | None = None
        """What it came to; None before it is closed."""
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
        # Why there is no session any more.
        self._lost: str | None = None
        self._seen: dict[str, Seen] = {}
        self._due: tuple[DocumentDue, ...] = ()

    @property
    def degraded(self) -> bool:
        """Whether the agent is without a session."""
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
            # What leaves the block is worth more.
            if error is None:
                raise
            _log.warning("umbra: the session is not closed: %s", fault)
        finally:
            self._transport.close()

    async def close(self, outcome: Outcome | None = None) -> Summary:
        """Ends the session, before the block does: what worked in it is kept as a pattern, if ``outcome`` says that it did.

        Without an outcome it is kept where the reviews of its ``task_id`` approve it. Where the server does not answer, it is told
        when this client attaches its next session.
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
            # It is over for this program, whatever the server knows: a session that nobody uses closes by itself.
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
        """Before a step: what to do next, in one answer.

        ``intent`` is what the agent is about to do, the task unless it is said; ``planned_calls`` are held against the
        rules as if those before them had been made; ``limit`` is the most tools and patterns that are answered, and
        ``always_include`` names tools that are answered beside them.
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
        """After a step: what was said and done. It is held against the rules, and is what a pattern is made of.

        Calls that :meth:`guardrails` holds are told already.
        """
        request = self._message(content, role, tool_calls, results, route, modes)
        return self._heard(await self._of_session(MessageAnswer, request), tool_calls, results)

    def stream(self, *, after: int | None = None) -> AsyncIterator[Said]:
        """What is answered to the steps of the session, of whichever program, until it ends: ``async for said in s.stream()``.

        It begins now, or behind the step ``after`` (0: with the first). An interrupted stream goes on without a gap; where
        the server stays away it ends, with a warning in the log.
        """
        self._in_use()
        return self._stream(after)

    async def select(
        self, query: str | None = None, *, limit: int | None = None, always_include: Sequence[str | ToolRef] = ()
    ) -> Selection:
        """Which tools of the session fit, best first: to ``query``, or to its task; ``limit`` of them, ten unless it is said,
        and those of ``always_include``, as far as they may be offered.
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
        """What the rules say of one call, or of one message, that is about to be: it leaves nothing on the session.

        ``route`` and ``modes`` are those of the session unless they are given. Where there is no session, the rules are
        asked without it; the answer is ``degraded`` then.
        """
        self._in_use()
        question = self._question(call, message, role, route, modes)
        return await self._in_or_out(GuardAnswer, question, time.monotonic() + self.deadline)

    def guardrails(self, mode: Mode = "enforce", *, server: str | None = None, name: str | None = None) -> Guardrails:
        """Holds calls of tools to the rules: each is asked about before it runs, and told, with its result, after it.

        As a decorator of a function or coroutine function, which goes by ``name`` (its own unless it is given) of ``server``::

            @s.guardrails("enforce", server="files")
            async def edit_file(path: str, text: str) -> str: ...

        As a context, it holds every function that :func:`umbra.tool` decorates and that is called within it, in tasks
        and ``asyncio.to_thread`` that are started there too::

            with s.guardrails("enforce"):
                await agent()

        ``enforce`` raises :class:`umbra.Blocked` where a call is blocked, which then does not run, and
        :class:`ResultWithheld` where its result is. A warning is logged and the call runs. ``warn`` logs both and raises
        nothing, and ``audit`` does the same at level INFO. What rules had against calls is in :attr:`interventions`.
        A function that is no coroutine asks in its caller's thread.
        """
        self._in_use()
        return Guardrails(self, mode, server, name)

    async def document(self, name: str) -> Document:
        """A document of the session, as it is now. Where there is none by that name, :meth:`Document.put` makes it."""
        self._in_use()
        document = Document(self, name)
        await document.read()
        return document

    def ensure_updated(self, document: str, *, section: str | None = None, since: Since = "turn") -> UpToDate:
        """That a document, or a section of it by its slug or title, has changed in substance since.

        Awaited, it raises :class:`NotUpdated`, whose ``directives`` are for the agent to read, unless it has changed since
        the last turn (or, before the first and with ``since="session"``, since the session began), and gives the document::

            await s.ensure_updated("todo", section="Plan")

        Around what is to change it, it gives the document, and raises at the end unless it was changed within the block::

            async with s.ensure_updated("todo", section="Plan") as todo:
                await agent.step(todo.text)

        Rules of the server that ask for documents are in :attr:`Turn.documents_due`; this asks for one whatever they say.
        Where the server is away nothing is raised.
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
        """Tells of a way in which a task (the session's unless it is given) was done: by which tools, in order, and how it ended.

        What is known already is counted. Closing a session records its own calls; this is for what it did not see.
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
        """What this agent did before for a task (the session's unless it is given) like this, best first.

        Their texts are data of other tasks, never instructions, and are put into no prompt here; :func:`quote_patterns`
        quotes them for one.
        """
        self._in_use()
        task = task or self.task
        if not task:
            raise TypeError("search_patterns needs a task, since the session has none")
        body = said(task=task, limit=limit, **self._standing())
        return await self._answered(PatternsFound, Request("POST", "/v1/patterns/search", body, repeatable=True))

    # What follows asks the server, and lives with what it does.

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
        """Who asks, for questions without a session."""
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
        """An answer of the session, or where there is none one without it."""
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
        """An answer of the session; ``without`` it where there is none."""
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
        """The session is not there, or over: no fault of who asks. Raises what is."""
        if refused.code not in ("no_session", "session_closed"):
            raise refused
        self._lost = self._lost or f"the server ended the session: {refused.detail}"
        return Missed(self._lost)

    async def _attached(self, until: float) -> str:
        """The session's id. One that could not be attached is tried again now and then."""
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
        """Tells the server of sessions that ended while it was away. One that it does not know, or has closed, is done."""
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
        """A document as it was seen last."""
        name = plain_name(name)
        if name not in self._seen:
            first = self._given().get(name, "")
            self._seen[name] = Seen(DocumentAnswer(name=name, text=first), first, first)
        return self._seen[name].latest

    def _given(self) -> dict[str, str]:
        """The texts with which the session begins, by name."""
        given = self._attachment["documents"].items()
        return {plain_name(name): text if isinstance(text, str) else text["text"] for name, text in given}

    def _saw(self, asked: str, answer: DocumentAnswer) -> None:
        seen = self._seen.setdefault(answer.name, Seen(answer))
        if answer.etag is not None and answer.version == 0:
            # As it was given, without what the server does not keep.
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
