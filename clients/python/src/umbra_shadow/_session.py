"""A session of the sidecar, without its requests: state, bodies of requests, and answers in place of missing ones."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import pydantic

from . import models
from ._config import check_names, check_seconds, check_texts
from ._core import Core, log
from ._json import is_mapping, plain
from ._requests import NoAnswer, Request, Response, parsed, path
from ._terms import (
    CallLike,
    DefinitionLike,
    EditLike,
    Objective,
    Outcome,
    ResultLike,
    Role,
    ToolLike,
    call_of,
    definition_of,
    padded,
    plain_name,
    present,
    result_of,
    tool_of,
)
from .errors import APIError, SessionOver, Unavailable, problem_text

M = TypeVar("M", bound=pydantic.BaseModel)
S = TypeVar("S", bound="Session")
Since = Literal["turn", "session"]
Format = Literal["markdown", "yaml"]

# Most kept rulings with objections to calls; older rulings are dropped.
_MOST_INTERVENTIONS = 1_000
# Seconds between attempts to attach a session that could not be attached.
_ATTACH_AGAIN = 5.0
# Seconds after which an interrupted stream is resumed, and most attempts in a row.
RESUME_AFTER, RESUME = 2.0, 5
# Share of the deadline that the server gets, so that even a partial answer arrives in time.
_SERVER_SHARE = 0.9
# Bytes of JSON from which a request counts as long. The agent decides about the length of a call: a long call must not
# get past the rules because it is slow, refused or cut off. Nor is its failure a sign that the server is in trouble.
_LONG = 64 * 1024
# Requests of one session at a time.
MOST_AT_ONCE = 32

_VERDICTS = ("allow", "warn", "block")
_EMPTY: dict[type[pydantic.BaseModel], dict[str, Any]] = {
    models.TurnAnswer: {
        "turn": 0,
        "decision": "allow",
        "decisions": [],
        "directives": [],
        "documents_due": [],
        "patterns": [],
        "tools": {"ranked": [], "excluded": []},
        "inputs": "",
        "policy_version": "",
    },
    models.MessageAnswer: {
        "message": 0,
        "decision": "allow",
        "said": {"decision": "allow", "would": "allow"},
        "calls": [],
        "results": [],
        "documents_due": [],
        "taints": [],
        "inputs": "",
        "policy_version": "",
    },
    models.GuardAnswer: {"decision": "allow", "would": "allow", "inputs": "", "policy_version": ""},
    models.Selection: {"ranked": [], "excluded": [], "policy_version": ""},
    models.PatternsFound: {"items": [], "policy_version": ""},
    models.RecordedPattern: {"new": False},
    models.History: {"items": [], "resume_cursor": ""},
    models.SessionSummary: {"documents": [], "patterns": 0},
}


class Missed(Exception):
    """There is no answer, and the agent goes on. The message tells what is missing."""


class TooLong(Missed):
    """There is no answer, perhaps because the request is too long, or cannot be written as JSON at all."""


@dataclasses.dataclass(frozen=True)
class SessionStep:
    """Answer of the sidecar at one step of a session."""

    id: int
    """Number of the session's step; as ``after`` it continues a stream behind this step."""
    event: str
    """``turn``, ``message``, ``guard`` or ``close``."""
    data: Mapping[str, Any]
    """Answer to the step, as JSON."""


@dataclasses.dataclass
class Seen:
    """Last known state of a document, with earlier texts."""

    latest: models.DocumentView
    first: str = ""
    """Text at the beginning of the session."""
    at_turn: str = ""
    """Text at the beginning of the last turn."""


def degraded(kind: type[M], missed: Missed, **members: Any) -> M:
    """Returns the answer in place of a missing one: it allows the step, and its warning tells what is missing."""
    is_long = isinstance(missed, TooLong) and kind in (models.GuardAnswer, models.MessageAnswer)
    unjudged = {"unjudged": True} if is_long else {}
    given = {**_EMPTY.get(kind, {}), **members, **unjudged, "degraded": True, "warnings": [str(missed)]}
    return kind.model_validate(given)


def closed(answer: models.GuardAnswer | models.MessageAnswer) -> dict[str, Any]:
    """Returns what changes in the answer about a text: one too long to be judged is blocked, as a long call is."""
    if not answer.unjudged:
        return {}
    ruling = {"decision": "block", "would": "block", "reason": "the text is so long that the server did not judge it"}
    if isinstance(answer, models.GuardAnswer):
        return ruling
    return {"decision": "block", "said": models.GuardRuling.model_validate(ruling)}


def no_document(name: str, text: str = "") -> models.DocumentView:
    """Returns the state of a document that does not exist, or is not known."""
    empty: dict[str, Any] = {"format": "markdown", "version": 0, "etag": "", "open_items": 0, "done_items": 0}
    told: dict[str, Any] = {"sections": [], "merged": False, "stored": True, "degraded": False, "warnings": []}
    return models.DocumentView.model_validate({"name": name, "text": text, **empty, **told})


class Session:
    """State of a session, and all of its work that is no input or output."""

    agent: str
    """Name of the agent."""
    task: str | None
    """The task, in words."""
    route: str | None
    """Route of the agent, such as ``plan``; turns and messages change it."""
    modes: tuple[str, ...]
    """Modes of the agent; turns and messages change them."""
    id: str | None
    """Id of the session; None if the server has no such session."""
    files: str | None
    """Folder of the documents as files, in the server's workspace; None without files."""
    warnings: list[str]
    """Missing parts at the last attachment."""
    taints: list[str]
    """Labels that rules have put on the session."""
    outcome: Outcome | None
    """Outcome of the session; None to let the end of the block decide."""
    summary: models.SessionSummary | None
    """Result of the session; None before it is closed."""
    deadline: float
    """Longest time of a request, in seconds."""
    strict: bool
    """True to raise :class:`Unavailable` if there is no answer."""

    def _begin(
        self,
        core: Core,
        is_owner: bool,
        agent: str | None,
        task: str | None,
        task_id: str | None,
        route: str | None,
        modes: Sequence[str] | None,
        objectives: Sequence[Objective] | None,
        tools: Sequence[DefinitionLike],
        documents: Mapping[str, str | Mapping[str, Any]] | None,
        folder: str | None,
        model: str | None,
        id: str | None,
        close: bool,
        deadline: float | None,
        strict: bool,
    ) -> None:
        check_names(modes=modes, objectives=objectives)
        if id is not None and (task_id or objectives or tools or documents or folder or model):
            raise TypeError(
                "a session that is resumed by its id keeps its tools, documents and objectives: leave them out"
            )
        check_texts(agent=agent, task=task, task_id=task_id, route=route, folder=folder, model=model, id=id)
        place = core.config.here()
        self._core, self._is_owner = core, is_owner
        self.agent = agent or place.agent or "python"
        self.task = task
        self.route = route or place.route
        self.modes = tuple(place.modes if modes is None else modes)
        self.id = id
        self.files = None
        self.warnings, self.taints = [], []
        self._interventions: deque[models.GuardRuling] = deque(maxlen=_MOST_INTERVENTIONS)
        self.outcome = None
        self.summary = None
        self.deadline = core.config.decision_timeout if deadline is None else deadline
        check_seconds("deadline", self.deadline)
        self.strict = strict
        self._attachment: dict[str, Any] = {
            "task": task,
            "task_id": task_id,
            "objectives": None if objectives is None else list(objectives),
            "tools": [definition_of(tool) for tool in tools],
            "documents": _documents_of(documents),
            "folder": folder,
            "model": model,
        }
        self._keeps_open = not close
        self._is_attached = self._entered = False
        self._attaching = threading.Lock()
        self._attach_after = 0.0
        # Reason for the loss of the session; None while there is one.
        self._lost: str | None = None
        # True if the session was closed, by this program or another.
        self._is_closed = False
        self._seen: dict[str, Seen] = {}
        self._due: list[models.DocumentDue] = []
        # True while the server has another route or other modes than the session: those of guardrails for some calls.
        self._is_elsewhere = False
        self._slots: dict[bool, Any] = {}

    @property
    def degraded(self) -> bool:
        """True if the agent is without a session."""
        return not self._is_attached or self._lost is not None

    @property
    def interventions(self) -> deque[models.GuardRuling]:
        """Objections of the rules to calls under guardrails and to their results, the oldest first, 1,000 at most."""
        return self._interventions

    def _twin(self, kind: type[S]) -> S:
        """Returns this session in its other form, synchronous or asynchronous: both share all attributes."""
        if isinstance(self, kind):
            return self
        twin = object.__new__(kind)
        twin.__dict__ = self.__dict__
        return twin

    # Requests.

    def _in_use(self) -> None:
        if not self._entered:
            raise SessionOver("the session has not begun: with umbra.sidecar(...) as s, or async with")
        if self.summary is not None:
            raise SessionOver("the session is closed")

    def _standing(self) -> dict[str, Any]:
        """Returns agent, route and modes, for questions without a session."""
        return present(agent=self.agent, route=self.route, modes=list(self.modes))

    def _server_ms(self) -> int:
        return max(1, int(self.deadline * 1000 * _SERVER_SHARE))

    def _moved(self, route: str | None, modes: Sequence[str] | None) -> dict[str, Any]:
        """Returns the members of a request by which the session gets another route or other modes."""
        check_names(modes=modes)
        if self._is_elsewhere:
            route, modes = route or self.route, self.modes if modes is None else modes
        return present(route=route, modes=None if modes is None else list(modes))

    def _moves(self, moved: Mapping[str, Any], is_known: bool) -> None:
        """Notes route and modes of a step that was not refused. If the server does not know them, the next step tells it."""
        self.route = moved.get("route", self.route)
        self.modes = tuple(moved.get("modes", self.modes))
        self._is_elsewhere = bool(moved) and not is_known

    def _attach_request(self) -> Request:
        if self.id is not None:
            return Request("GET", path("sessions", self.id), repeatable=True)
        body = {**present(**self._attachment), **self._standing(), "deadline_ms": self._server_ms()}
        return Request("POST", path("sessions"), body)

    def _turn_request(
        self,
        intent: str | None,
        planned: list[dict[str, Any]],
        moved: Mapping[str, Any],
        limit: int | None,
        always_include: Sequence[ToolLike],
    ) -> Request:
        body = present(
            intent=intent, planned_calls=planned or None, limit=limit, always_include=references(always_include)
        )
        return Request("POST", "turns", {**body, **moved, "deadline_ms": self._server_ms()}, exact=bool(planned))

    def _message_request(
        self,
        content: str | None,
        role: Role,
        calls: list[dict[str, Any]],
        results: list[dict[str, Any]],
        moved: Mapping[str, Any],
    ) -> Request:
        body = present(role=role, content=content, tool_calls=calls or None, results=results or None)
        return Request("POST", "messages", {**body, **moved, "deadline_ms": self._server_ms()})

    def _close_request(self, outcome: Outcome | None) -> Request:
        if not self._is_attached or self.id is None:
            raise Missed(self._lost or "there is no session to close")
        return Request("POST", path("sessions", self.id, "close"), present(outcome=outcome), repeatable=True)

    def _select_request(self, asked: Mapping[str, Any], session: str | None) -> Request:
        if session is None and not (self._attachment["tools"] and asked.get("query")):
            raise Missed("there is no session to select tools for, and neither tools nor a task without it")
        who = {"tools": self._attachment["tools"], **self._standing()} if session is None else {"session": session}
        return Request("POST", path("tools", "select"), {**asked, **who}, repeatable=True)

    def _guard_request(self, asked: Mapping[str, Any], moved: Mapping[str, Any], session: str | None) -> Request:
        who = {"session": session} if session else self._standing()
        body = {**asked, **who, **moved, "deadline_ms": self._server_ms()}
        return Request("POST", path("guard"), body, repeatable=True, exact="call" in asked)

    def _pattern_request(
        self, task: str | None, task_id: str | None, tools: Sequence[ToolLike], **told: Any
    ) -> Request:
        self._in_use()
        body = present(
            agent=self.agent,
            task=self._task_of("record_pattern", task),
            tools=[tool_of(tool) for tool in tools],
            session=self.id if self._is_attached else None,
            task_id=task_id or self._attachment["task_id"],
            **told,
        )
        return Request("POST", path("patterns"), body)

    def _search_request(self, task: str | None, limit: int | None) -> Request:
        self._in_use()
        body = present(task=self._task_of("search_patterns", task), limit=limit, **self._standing())
        return Request("POST", path("patterns", "search"), body, repeatable=True)

    def _task_of(self, method: str, task: str | None) -> str:
        task = task or self.task
        if not task:
            raise TypeError(f"{method} needs a task, since the session has none")
        return task

    # Answers.

    def _may_ask(self, request: Request, seconds: float) -> float:
        """Returns the time for a request. Raises :class:`Missed` if it is not sent."""
        try:
            missed = TooLong if _is_long(request) else Missed
        except (ValueError, RecursionError) as odd:
            raise TooLong(f"what is asked cannot be written as JSON: {type(odd).__name__}") from None
        if seconds <= 0:
            raise missed("no time was left to ask")
        # The outcome of a long request says nothing about the server: short requests do not wait for it.
        if not self._core.health.may_ask(seconds, alone=missed is Missed):
            raise missed("the server did not answer before, and is left alone for a while")
        return seconds

    def _read(self, kind: type[M], request: Request, response: Response) -> M:
        """Returns the answer. Raises :class:`Missed` without one, and :class:`APIError` for a wrong request."""
        self._judged(request, response)
        try:
            answer = parsed(kind, response)
            verdict = getattr(answer, "decision", "allow")
            if verdict not in _VERDICTS:
                raise NoAnswer(f"the server's verdict {verdict!r} is unknown to this version of umbra-shadow")
        except NoAnswer as wrong:
            raise self._unanswered(request, str(wrong)) from None
        return answer

    def _judged(self, request: Request, response: Response) -> None:
        status = response.status
        if status in (408, 425) or status >= 500:
            raise self._unanswered(request, f"the server answered {status}: {problem_text(response.body)}")
        if response.is_foreign:
            raise self._unanswered(request, response.fault)
        self._core.answered()
        # A document that is too large stays so: its change is refused.
        if status == 429 or (status == 413 and request.method not in ("PUT", "PATCH")):
            missed = TooLong if status == 413 or _is_long(request) else Missed
            raise missed(f"the server does not take this ({status}): {problem_text(response.body)}")
        if status >= 400:
            raise APIError(str(request), status, response.body)

    def _unanswered(self, request: Request, what: str) -> Missed:
        """Notes a fault of the server, and returns what is missing."""
        if _is_long(request):
            return TooLong(f"{what}; {len(request.data)} bytes were sent")
        health = self._core.health
        faults = health.failed()
        if faults == health.most:
            log.warning("umbra: %s; after %d faults in a row it is left alone for %.0f s", what, faults, health.PASSIVE)
        elif faults == 1:
            log.warning("umbra: %s; the agent goes on without the sidecar", what)
        return Missed(what)

    def _without(self, kind: type[M], missed: Missed, **members: Any) -> M:
        """Returns the answer in place of a missing one, or raises in a strict session."""
        self._tolerate(missed)
        return degraded(kind, missed, **members)

    def _tolerate(self, missed: Missed) -> None:
        if self.strict:
            raise Unavailable(str(missed)) from None
        log.debug("umbra: the agent goes on without the sidecar: %s", missed)

    def _lose(self, refused: APIError) -> Missed:
        """Notes that the session is missing or over, which is no fault of the caller. Raises every other refusal."""
        if refused.code not in ("no_session", "session_closed"):
            raise refused
        self._is_closed = self._is_closed or refused.code == "session_closed"
        what = f"the session {self.id} {'was ended' if self._is_attached else 'cannot be resumed'}"
        return self._lost_by(f"{what}: {refused.detail}")

    def _lost_by(self, why: str) -> Missed:
        """Notes that there is no session any more, with one warning in the log, and returns what is missing."""
        if self._lost is None:
            self._lost = why
            if not self.strict:
                words = "umbra: %s; the agent goes on without it: for a new one enter umbra.sidecar(...) without id"
                log.warning(words, why)
        return Missed(self._lost)

    def _check_not_closed(self) -> None:
        """Raises :class:`SessionOver` if the session was closed, as far as the last answer told."""
        if self._is_closed:
            raise SessionOver(self._lost)

    def _may_attach(self) -> bool:
        """Returns True if the caller must attach the session now, and then call :meth:`_attached_now`."""
        if self._lost:
            raise Missed(self._lost)
        if self._is_attached:
            return False
        if time.monotonic() < self._attach_after or not self._attaching.acquire(blocking=False):
            raise Missed("; ".join(self.warnings) or "there is no session")
        self._attach_after = time.monotonic() + _ATTACH_AGAIN
        return True

    def _attached_to(self, answer: models.Attachment | models.SessionView) -> None:
        if isinstance(answer, models.SessionView):
            session: models.Session | None = answer
            self.agent, self.task = answer.agent, self.task or answer.task
            self.route, self.modes = self.route or answer.route, self.modes or tuple(answer.modes)
            self.taints = list(answer.taints)
            if answer.state != "open":
                raise self._lost_by(f"the session {answer.id} cannot be resumed, since it is {answer.state}")
            # The server has the route and the modes of its last step.
            self._is_elsewhere = (self.route, self.modes) != (answer.route, tuple(answer.modes))
        else:
            self.warnings, session = answer.warnings, answer.session
        if session is None:
            raise Missed("; ".join(self.warnings) or "the server has no session")
        self.id, self.files, self._is_attached = session.id, session.files, True
        given = self._given()
        for state in answer.documents:
            first = given.get(state.name, "")
            view = no_document(state.name, first).model_copy(update=dict(state))
            self._seen[state.name] = Seen(view, first, first)

    def _turned(
        self,
        turn: models.TurnAnswer,
        at_turn: Mapping[str, str],
        planned: Sequence[dict[str, Any]],
        moved: Mapping[str, Any],
    ) -> models.TurnAnswer:
        self._moves(moved, bool(turn.turn))
        if turn.turn:
            self._due = turn.documents_due
            for name, text in at_turn.items():
                self._seen[name].at_turn = text
        return turn.model_copy(update={"decisions": padded(turn.decisions, planned)})

    def _texts(self) -> dict[str, str]:
        return {name: seen.latest.text or "" for name, seen in self._seen.items()}

    def _heard(
        self, answer: models.MessageAnswer, calls: Sequence[dict[str, Any]], results: Sequence[dict[str, Any]]
    ) -> models.MessageAnswer:
        if answer.message:
            self._due, self.taints = answer.documents_due, answer.taints
        rulings = {"calls": padded(answer.calls, calls), "results": padded(answer.results, results)}
        return answer.model_copy(update=rulings)

    def _out(self, answer: M) -> M:
        """Returns an answer of the rules alone, with the note that there is no session."""
        why = self._lost or "it is not attached"
        missing = f"there is no session, so neither its labels nor its documents counted: {why}"
        warnings = [*getattr(answer, "warnings", ()), missing]
        return answer.model_copy(update={"degraded": True, "warnings": warnings})

    # Documents.

    def _seen_as(self, name: str) -> models.DocumentView:
        """Returns the last known state of a document."""
        name = plain_name(name)
        if name not in self._seen:
            first = self._given().get(name, "")
            self._seen[name] = Seen(no_document(name, first), first, first)
        return self._seen[name].latest

    def _given(self) -> dict[str, str]:
        """Returns the texts that the session begins with, by name."""
        given = self._attachment["documents"].items()
        return {plain_name(name): text if isinstance(text, str) else text["text"] for name, text in given}

    def _saw(self, answer: models.DocumentView) -> None:
        text = answer.text or ""
        seen = self._seen.setdefault(answer.name, Seen(answer))
        if answer.etag and answer.version == 0:
            # The text at the beginning of the session, in the form that the server keeps.
            seen.at_turn = text if seen.at_turn == seen.first else seen.at_turn
            seen.first = text
        if answer.version >= seen.latest.version or not answer.etag:
            seen.latest = answer

    def _begins_with(self, answer: models.DocumentView) -> None:
        """Takes the text of a document as that at the beginning of a resumed session."""
        text = answer.text or ""
        self._seen[answer.name] = Seen(answer, text, text)


def _is_long(request: Request) -> bool:
    return len(request.data) > _LONG


def _documents_of(documents: Any) -> dict[str, Any]:
    """Returns the documents that a session begins with. Raises :class:`TypeError` unless they are texts by name."""
    if documents is not None and not is_mapping(documents):
        raise TypeError(f"documents has texts by name, {{'todo': '# Todo'}}: it is not {type(documents).__name__}")
    for name, given in (documents or {}).items():
        text = given.get("text") if is_mapping(given) else given
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"the document {name!r} is a text, or {{'text': ..., 'format': 'markdown'}}: {given!r:.80}")
    return dict(documents or {})


def references(tools: Sequence[ToolLike]) -> list[Any] | None:
    """Returns references to tools as the API has them; None without any."""
    return [tool if isinstance(tool, str) else tool_of(tool) for tool in tools] or None


def calls_of(calls: Sequence[CallLike]) -> list[dict[str, Any]]:
    """Returns calls as the API has them."""
    return [call_of(call) for call in calls]


def results_of(results: Sequence[ResultLike], calls: Sequence[CallLike]) -> list[dict[str, Any]]:
    """Returns results as the API has them."""
    return [result_of(result, calls) for result in results]


def edits_of(edits: Sequence[EditLike]) -> list[Any]:
    """Returns edits as the API has them."""
    if not edits:
        raise TypeError("edit takes one edit at least")
    return [
        plain(one.model_dump(by_alias=True, exclude_none=True) if isinstance(one, pydantic.BaseModel) else one)
        for one in edits
    ]
