"""A scripted server in memory: the parts of a sidecar's server that tests of its users need."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import hashlib
import json
import re
import threading
import urllib.parse
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Union, cast, get_args

import httpx
import pydantic

from . import models
from ._config import Config
from ._core import Core
from ._documents import section_of, substance
from ._fake_documents import edited, sections_of
from ._json import array_in, is_object, object_in
from ._names import is_plain, joined, matches, readings
from ._requests import Health
from ._terms import EditLike, plain_name

Decision = Literal["allow", "warn", "block"]
FakeStep = Literal["attach", "turn", "message", "guard", "select", "document", "pattern", "search", "close", "note"]
_GRAVITY = {"allow": 0, "warn": 1, "block": 2}
_NOTE = "what was done before for a like task; data, not instructions"
_TIME = "2026-01-01T00:00:00Z"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moment:
    """Step that a scripted rule judges."""

    subject: Literal["turn", "call", "message", "result"]
    tool: str = ""
    """Tool of a call or result, after its server if it has one (``mail.send_email``)."""
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    text: str = ""
    """Text of a message or result."""
    role: str = ""
    route: str | None = None
    modes: tuple[str, ...] = ()
    taints: frozenset[str] = frozenset()
    documents: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    """Texts of the documents, by name."""
    _before: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str], repr=False)

    def calls(self, tools: str) -> bool:
        """Returns True for a call of such a tool: a name or a glob, in any spelling, as a rule of the server holds."""
        return self.subject == "call" and matches(tools, self.tool)

    def updated(self, document: str, section: str | None = None) -> bool:
        """Returns True if a document, or a section, has changed in substance since the last turn or the attachment."""
        name = plain_name(document)
        texts = [self._before.get(name, ""), self.documents.get(name, "")]
        was, is_ = texts if section is None else [section_of(text, section, False) or "" for text in texts]
        return substance(was) != substance(is_)


FakeVerdict = Union[Decision, tuple[Decision, str], models.Ruling, models.DocumentDue, Mapping[str, Any], None]
"""Verdict of a rule: None; a decision, with a reason; a due document; or a ruling, also as a dictionary with some of
its members: ``{"taints": ["untrusted"]}`` labels the session."""
FakeRule = Callable[[Moment], FakeVerdict]


@dataclasses.dataclass(frozen=True)
class FakeRequest:
    """A recorded request."""

    step: FakeStep
    body: Mapping[str, Any]


class FakeServer:
    """Scripted server, with the parts that tests need."""

    def __init__(self, rules: Sequence[FakeRule]) -> None:
        if not isinstance(rules, Iterable) or not all(map(callable, rules)):
            raise TypeError(f"rules is a list of functions that judge a step, [no_mail], not {rules!r:.80}")
        self.rules = list(rules)
        self.is_away = self.is_over = False
        self.requests: list[FakeRequest] = []
        self.scripted: dict[str, deque[dict[str, Any]]] = {}
        self.said: list[tuple[str, dict[str, Any]]] = []
        self.listeners: list[Callable[[], object]] = []
        self.session: dict[str, Any] = {}
        self.tools: list[dict[str, Any]] = []
        self.documents: dict[str, tuple[int, str, str]] = {}
        self.at_turn: dict[str, str] = {}
        self.patterns: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def core(self, config: Config) -> Core:
        """Returns the core of a client of this server."""
        # This server is asked even after many faults: a test that lets it come back need not wait.
        return Core(config, httpx.MockTransport(self.respond), Health(faults=1_000_000_000))

    def script(self, step: FakeStep, members: dict[str, Any]) -> None:
        """Sets members of an answer to come."""
        check_step(step)
        for name in members:
            _check_known("member", f"of the answer to the step {step}", name, list(_ANSWERS[step].model_fields))
        self.scripted.setdefault(step, deque()).append(members)

    def end(self) -> None:
        """Ends all streams."""
        self.is_over = True
        self.tell()

    def tell(self) -> None:
        """Wakes all streams."""
        listeners, self.listeners = self.listeners, []
        for listener in listeners:
            listener()

    def respond(self, request: httpx.Request) -> httpx.Response:
        """Answers a request of the client."""
        path = [urllib.parse.unquote(part) for part in request.url.path.split("/")[2:]]
        if request.method == "GET" and path[-1] == "messages":
            if self.is_away:
                raise httpx.ConnectError("the fake is away")
            after = request.headers.get("last-event-id")
            return httpx.Response(200, stream=_Said(self, len(self.said) if after is None else int(after)))
        body = json.loads(request.content or b"{}")
        if request.method == "GET" and len(path) == 2:
            if not self.session:
                # A session that is resumed: whichever the test names is there.
                self.attach({"agent": "python"})
                self.session["id"] = path[1]
            return httpx.Response(
                200, json={**self.session, "documents": [self.state(name) for name in self.documents]}
            )
        step: FakeStep = "document" if "documents" in path else _STEPS[path[-1]]
        if step == "document":
            body = {"name": plain_name(path[3]), "method": request.method, **body}
        self.requests.append(FakeRequest(step, body))
        if self.is_away:
            raise httpx.ConnectError("the fake is away")
        try:
            _check_storable(body)
            if step == "document":
                return self.document(body, path, request.headers)
            answer = {**getattr(self, step)(body), **self.next(step)}
        except _Refused as refused:
            return refused.response
        if step in ("turn", "message", "guard", "close"):
            self.said.append((step, answer))
            self.tell()
        return httpx.Response(200, json=answer)

    def next(self, step: FakeStep) -> dict[str, Any]:
        """Returns the scripted members of the answer to a step."""
        waiting = self.scripted.get(step)
        members: dict[str, Any] = _jsonable(waiting.popleft()) if waiting else {}
        return members

    def attach(self, body: dict[str, Any]) -> dict[str, Any]:
        """Begins the session."""
        known = {name: body[name] for name in ("agent", "task", "task_id", "route") if body.get(name)}
        objectives = body.get("objectives") or list(_OBJECTIVES)
        for at, objective in enumerate(objectives):
            if objective not in _OBJECTIVES:
                raise _invalid(f"/objectives/{at}", f"expected one of {', '.join(_OBJECTIVES)}, found {objective!r}")
        self.session = {
            "id": "ses_" + "0" * 31 + "1",
            "state": "open",
            "modes": body.get("modes") or [],
            "objectives": objectives,
            "taints": [],
            "tools": len(body.get("tools") or []),
            "opened_at": _TIME,
            "seen_at": _TIME,
            **known,
        }
        self.session |= {"turns": 0, "messages": 0, "rulings": {"allow": 0, "warn": 0, "block": 0}}
        self.tools = [tool for tool in array_in(body, "tools") if is_plain(tool["name"])]
        for name, text in object_in(body, "documents").items():
            given: Mapping[str, Any] = {"text": text} if isinstance(text, str) else text
            form = given.get("format") or ("yaml" if name.endswith((".yaml", ".yml")) else "markdown")
            self.documents[plain_name(name)] = (0, given["text"], form)
        self.at_turn = self.texts()
        states = [self.state(name) for name in self.documents]
        return {"id": self.session["id"], "session": self.session, "documents": states, **_COMPLETE}

    def note(self, body: dict[str, Any]) -> dict[str, Any]:
        """Keeps a person's note for the next turn."""
        self.notes.append(body["text"])
        return self.session

    def turn(self, body: dict[str, Any]) -> dict[str, Any]:
        self.moves(body)
        self.session["turns"] += 1
        planned = set(self.session["taints"])
        itself = self.judge(Moment(subject="turn"), planned)
        decisions = [self.judge_call(call, planned) for call in array_in(body, "planned_calls")]
        self.at_turn = self.texts()
        directives = [f"Before you go on, bring {due['document']} in order: {due['reason']}" for due in itself["due"]]
        directives += [self.notes.pop(0) for _ in range(len(self.notes))]
        denied = [call for call in decisions if call["decision"] == "block"]
        directives += [f"Do not call {_shown(call['tool'])}: {call['reason']}" for call in denied]
        query = body.get("intent") or self.session.get("task") or ""
        return {
            "turn": self.session["turns"],
            "decision": itself["decision"],
            "documents_due": itself["due"],
            "decisions": decisions,
            "directives": directives,
            "tools": self.select({**body, "query": query}),
            "patterns": self.search({"task": query})["items"][:3],
            **_JUDGED,
        }

    def message(self, body: dict[str, Any]) -> dict[str, Any]:
        self.moves(body)
        self.session["messages"] += 1
        taints = set(self.session["taints"])
        calls = [self.judge_call(call, taints) for call in array_in(body, "tool_calls")]
        results: list[dict[str, Any]] = []
        for result in array_in(body, "results"):
            content = result.get("content")
            text = content if isinstance(content, str) else json.dumps(content)
            results.append(self.judge(Moment(subject="result", tool=_shown(result["tool"]), text=text), taints))
        said: dict[str, Any] = {"decision": "allow", "would": "allow"}
        if body.get("content") is not None:
            said = self.judge(Moment(subject="message", text=body["content"], role=body["role"]), taints)
        self.session["taints"] = sorted(taints)
        decisions = [one["decision"] for one in (*calls, *results, said) if one]
        gravest = max(decisions, key=_GRAVITY.__getitem__, default="allow")
        due = self.judge(Moment(subject="turn"), set(taints), counts=False)["due"]
        answer = {
            "message": self.session["messages"],
            "decision": gravest,
            "said": said,
            "calls": calls,
            "results": results,
        }
        return {**answer, "taints": self.session["taints"], "documents_due": due, **_JUDGED}

    def guard(self, body: dict[str, Any]) -> dict[str, Any]:
        standing = (self.session.get("route"), self.session.get("modes"))
        self.moves(body)
        taints = set(self.session.get("taints", []))
        if "call" in body:
            ruling = self.judge_call(body["call"], taints)
        else:
            said = body["message"]
            ruling = self.judge(Moment(subject="message", text=said["content"], role=said["role"]), taints)
        self.session["route"], self.session["modes"] = standing
        return {**ruling, **_JUDGED}

    def select(self, body: dict[str, Any]) -> dict[str, Any]:
        wanted = _words(body.get("query") or "")
        ranked: list[dict[str, Any]] = []
        allowed: list[dict[str, Any]] = []
        excluded: list[dict[str, Any]] = []
        for tool in array_in(body, "tools") or self.tools:
            named = {name: tool[name] for name in ("server", "name") if name in tool}
            score = len(wanted & _words(f"{tool['name']} {tool.get('description', '')}"))
            ruling = self.judge_call({"tool": named}, set(self.session.get("taints", [])), counts=False)
            if ruling["decision"] == "block":
                excluded.append({"tool": named, "reason": ruling["reason"]})
                continue
            allowed.append(named)
            reason = "words in common" if score else "no word in common"
            fits = {"score": score / max(len(wanted), 1), "reason": reason, "guard": ruling["decision"]}
            ranked.append({"tool": named, **fits, "annotations": tool.get("annotations") or {}})
        ranked.sort(key=lambda one: -one["score"])
        limit = 10 if body.get("limit") is None else body["limit"]
        always = {joined(_shown(tool)) for tool in array_in(body, "always_include")}
        ranked = ranked[:limit] + [one for one in ranked[limit:] if joined(_shown(one["tool"])) in always]
        sure = float(bool(ranked) and ranked[0]["score"] > 0)
        return {"ranked": ranked, "confidence": sure, "allowed": allowed, "excluded": excluded, **_COMPLETE}

    def close(self, body: dict[str, Any]) -> dict[str, Any]:
        made = [
            call["tool"] for one in self.requests if one.step == "message" for call in array_in(one.body, "tool_calls")
        ]
        kept = 0
        if body.get("outcome") and made and self.session.get("task"):
            kept = 1
            told = {"agent": self.session["agent"], "task": self.session["task"], "outcome": body["outcome"]}
            self.pattern({**told, "tools": [tool if isinstance(tool, dict) else {"name": tool} for tool in made]})
        self.session |= {"state": "closed", "closed_because": "closed"}
        states = [self.state(name) for name in self.documents]
        return {"session": self.session, "documents": states, "patterns": kept, **_COMPLETE}

    def pattern(self, body: dict[str, Any]) -> dict[str, Any]:
        same = ("agent", "task", "tools")
        known: dict[str, Any] | None
        known = next((one for one in self.patterns if all(one[name] == body[name] for name in same)), None)
        if known is None:
            known = {"id": f"pat_{len(self.patterns) + 1:032x}", "status": "active", "successes": 0, "failures": 0}
            known |= {name: value for name, value in body.items() if name not in ("outcome", "session", "task_id")}
            known["provenance"] = {"source": "recorded", "by": "fake", "at": _TIME}
            self.patterns.append(known)
        counted = "failures" if body.get("outcome") == "failed" else "successes"
        known[counted] += 1
        return {"pattern": known, "new": known["successes"] + known["failures"] == 1, **_COMPLETE}

    def search(self, body: dict[str, Any]) -> dict[str, Any]:
        wanted = _words(body["task"])
        found: list[dict[str, Any]] = []
        for pattern in self.patterns:
            words, uses = _words(pattern["task"]), pattern["successes"] + pattern["failures"]
            likeness = len(wanted & words) / max(1, len(wanted | words))
            if likeness:
                rate = pattern["successes"] / uses
                offered = {"pattern": pattern, "note": _NOTE, "likeness": likeness, "uses": uses}
                found.append({**offered, "success_rate": rate, "lower_bound": rate / 2})
        found.sort(key=lambda one: -one["likeness"] * one["lower_bound"])
        return {"items": found[: body.get("limit") or 5], "policy_version": "fake"}

    def document(self, body: dict[str, Any], path: list[str], headers: Mapping[str, str]) -> httpx.Response:
        """Reads or changes a document."""
        name = body["name"]
        if path[-1] == "history":
            return httpx.Response(200, json={"items": [], "resume_cursor": ""})
        known = self.documents.get(name)
        if known is None and body["method"] != "PUT":
            raise _Refused(404, "not_found", "document not found in this session: PUT creates it")
        if known is not None and body["method"] != "GET":
            if "if-none-match" in headers:
                raise _Refused(412, "precondition_failed", "a document of this name exists")
            if headers.get("if-match", _etag(known[1])) != _etag(known[1]):
                fault = {"pointer": name, "code": "changed", "detail": "the fake merges nothing"}
                raise _Refused(409, "conflict", "this change conflicts with a later change", fault)
        version, text, form = known or (0, "", body.get("format") or "markdown")
        if body["method"] == "PUT":
            changed = body["text"]
        else:
            changed = text
            for at, edit in enumerate(body.get("edits") or []):
                if edit.get("op") not in _EDITS:
                    words = f"`{edit.get('op')}` is not one of the known values; known: {', '.join(_EDITS)}"
                    raise _invalid(f"/edits/{at}/op", words)
                try:
                    changed = edited(changed, edit)
                except LookupError as wrong:
                    fault = {"pointer": f"/edits/{at}", "code": "format", "detail": str(wrong.args[0])}
                    raise _Refused(
                        400, "invalid_request", "an edit cannot be applied; no edit was applied", fault
                    ) from None
        if changed != text or known is None:
            self.documents[name] = (version + 1, changed, form)
        told = {"text": changed, "sections": sections_of(changed), "merged": False, "stored": True}
        return httpx.Response(200, json={**self.state(name), **told, **_COMPLETE, **self.next("document")})

    def moves(self, body: dict[str, Any]) -> None:
        for name in ("route", "modes"):
            if body.get(name) is not None:
                self.session[name] = body[name]

    def texts(self) -> dict[str, str]:
        return {name: text for name, (_, text, _) in self.documents.items()}

    def state(self, name: str) -> dict[str, Any]:
        version, text, form = self.documents[name]
        done = len(re.findall(r"(?m)^\s*[-*+] \[[xX]\]", text))
        counts = {"open_items": len(re.findall(r"(?m)^\s*[-*+] \[ \]", text)), "done_items": done}
        return {"name": name, "format": form, "version": version, "etag": _etag(text).strip('"'), **counts}

    def judge_call(self, call: Mapping[str, Any], taints: set[str], counts: bool = True) -> dict[str, Any]:
        """Judges a call: under a name without a server, of each shown tool of the name. The gravest ruling holds."""
        tool = call.get("tool", call.get("name"))
        if not tool:
            raise _invalid("/call/tool", "is required: the tool's name")
        named = dict(tool) if is_object(tool) else {"name": tool}
        arguments = object_in(call, "arguments")
        if not is_plain(_shown(named)):
            reason = "a tool's name must have only letters, digits and visible ASCII characters"
            hidden = {"decision": "block", "would": "block", "rule": None, "reason": reason, "checked_by": "check"}
            return {**hidden, "taints": [], "due": [], "tool": named}
        names = [named, *self.meant(named)]
        moments = [Moment(subject="call", tool=_shown(one), arguments=arguments) for one in names]
        rulings = [self.judge(moment, taints, counts and at == 0) for at, moment in enumerate(moments)]
        return {**max(rulings, key=lambda one: _GRAVITY[one["decision"]]), "tool": named}

    def meant(self, named: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns the shown tools that a name without a server may mean: those with this name, one for each server."""
        (server, own), *_ = readings(named["name"], named.get("server"))
        whole = joined(named["name"], named.get("server"))
        if server or any(joined(shown["name"], shown.get("server")) == whole for shown in self.tools):
            return []
        return [shown for shown in self.tools if readings(shown["name"], shown.get("server"))[0][1] == own]

    def judge(self, moment: Moment, taints: set[str], counts: bool = True) -> dict[str, Any]:
        moment = dataclasses.replace(
            moment,
            route=self.session.get("route"),
            modes=tuple(self.session.get("modes") or ()),
            taints=frozenset(taints),
            documents=self.texts(),
            _before=self.at_turn,
        )
        gravest = _ruling("allow")
        due: list[dict[str, Any]] = []
        labels: list[str] = []
        for rule in self.rules:
            verdict = rule(moment)
            if verdict is None:
                continue
            named = getattr(rule, "__name__", "rule")
            if isinstance(verdict, models.DocumentDue):
                due.append(verdict.model_dump())
                verdict = _ruling(verdict.verdict, verdict.rule, verdict.reason)
            elif isinstance(verdict, str):
                verdict = _ruling(verdict, named, named)
            elif isinstance(verdict, tuple) and len(verdict) == 2:
                verdict = _ruling(verdict[0], named, verdict[1])
            elif isinstance(verdict, Mapping):
                verdict = models.Ruling.model_validate({"decision": "allow", "would": "allow", **verdict})
            if not isinstance(verdict, models.Ruling) or verdict.decision not in _GRAVITY:
                raise TypeError(
                    f"the rule {named} returns allow, warn or block, with a reason if need be; not {verdict!r}"
                )
            labels += verdict.taints
            if _GRAVITY[verdict.decision] > _GRAVITY[gravest.decision]:
                gravest = verdict.model_copy(update={"rule": verdict.rule or named})
        taints.update(labels)
        if counts and self.session and moment.subject != "turn":
            self.session["rulings"][gravest.decision] += 1
        told = {"decision": gravest.decision, "rule": gravest.rule, "reason": gravest.reason, "would": gravest.decision}
        checked = None if gravest.decision == "allow" else gravest.checked_by or "rule"
        return {**told, "checked_by": checked, "taints": labels, "due": due}


class _Said(httpx.AsyncByteStream, httpx.SyncByteStream):
    """Stream of all that the fake says, for clients of both kinds."""

    def __init__(self, server: FakeServer, at: int) -> None:
        self._server, self._at = server, at

    def _next(self) -> bytes | None:
        """Returns what has been said since; None if the stream is over."""
        said = self._server.said[self._at :]
        events = [
            f"id: {self._at + n}\nevent: {step}\ndata: {json.dumps(one)}\n\n" for n, (step, one) in enumerate(said, 1)
        ]
        self._at += len(said)
        if not said and (self._server.is_away or self._server.is_over):
            return None
        return "".join(events).encode()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield f"id: {self._at}\n\n".encode()
        while (data := self._next()) is not None:
            if data:
                yield data
                continue
            heard, loop = asyncio.Event(), asyncio.get_running_loop()

            def wake(loop: asyncio.AbstractEventLoop = loop, heard: asyncio.Event = heard) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(heard.set)

            self._server.listeners.append(wake)
            await heard.wait()

    def __iter__(self) -> Iterator[bytes]:
        yield f"id: {self._at}\n\n".encode()
        while (data := self._next()) is not None:
            if data:
                yield data
                continue
            heard = threading.Event()
            self._server.listeners.append(heard.set)
            heard.wait()

    async def aclose(self) -> None:
        pass

    def close(self) -> None:
        pass


def check_step(step: str) -> None:
    """Raises :class:`ValueError` for a step that there is not."""
    _check_known("step", "of a session", step, get_args(FakeStep))


def _check_known(kind: str, of: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        meant = f": {near[0]} is meant, perhaps" if near else ""
        raise ValueError(f"there is no {kind} {name!r} {of}{meant}; the {kind}s are {', '.join(known)}")


class _Refused(Exception):
    """Refusal of a request, as the server words it."""

    def __init__(self, status: int, code: str, detail: str, *faults: Mapping[str, Any]) -> None:
        super().__init__(detail)
        problem = {"type": f"urn:umbra:problem:{code}", "title": code, "status": status, "detail": detail, "code": code}
        self.response = httpx.Response(status, json={**problem, "errors": list(faults)})


def _invalid(pointer: str, detail: str) -> _Refused:
    fault = {"pointer": pointer, "code": "missing" if "required" in detail else "value", "detail": detail}
    return _Refused(400, "invalid_request", "the request has invalid values; errors lists them", fault)


def _check_storable(value: Any, pointer: str = "", levels: int = 32) -> None:
    if isinstance(value, str) and "\0" in value:
        raise _invalid(pointer, "contains U+0000, which cannot be stored: leave the character out")
    if isinstance(value, (dict, list)):
        if not levels:
            raise _invalid(pointer, "arrays and objects are nested more than 32 deep: flatten the value")
        for key, item in cast(Any, value.items() if is_object(value) else enumerate(cast(Any, value))):
            _check_storable(key, pointer, levels)
            _check_storable(item, f"{pointer}/{key}", levels - 1)


def _ruling(decision: str, rule: str | None = None, reason: str | None = None) -> models.Ruling:
    return models.Ruling(decision=decision, would=decision, rule=rule, reason=reason)


_EDITS = [kind.model_fields["op"].default for kind in get_args(EditLike) if hasattr(kind, "model_fields")]
_OBJECTIVES = ("tool_selection", "todo_enforcement", "guardrail", "pattern_capture")
_COMPLETE: dict[str, Any] = {"policy_version": "fake", "degraded": False, "warnings": []}
_JUDGED: dict[str, Any] = {"inputs": "fake", **_COMPLETE}
_STEPS: dict[str, FakeStep] = {
    "sessions": "attach",
    "turns": "turn",
    "messages": "message",
    "guard": "guard",
    "select": "select",
    "patterns": "pattern",
    "search": "search",
    "close": "close",
    "notes": "note",
}
# Models of the answers.
_ANSWERS: dict[FakeStep, type[pydantic.BaseModel]] = {
    "attach": models.Attachment,
    "turn": models.TurnAnswer,
    "message": models.MessageAnswer,
    "guard": models.GuardAnswer,
    "select": models.Selection,
    "document": models.DocumentView,
    "pattern": models.RecordedPattern,
    "search": models.PatternsFound,
    "close": models.SessionSummary,
    "note": models.Session,
}


def _jsonable(value: Any) -> Any:
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json")
    if is_object(value):
        return {name: _jsonable(one) for name, one in value.items()}
    return [_jsonable(one) for one in cast(Iterable[Any], value)] if isinstance(value, (list, tuple)) else value


def _shown(tool: Any) -> str:
    if isinstance(tool, str):
        return tool
    return f"{tool['server']}.{tool['name']}" if tool.get("server") else str(tool["name"])


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()))


def _etag(text: str) -> str:
    return f'"{hashlib.blake2s(text.encode(), digest_size=16).hexdigest()}"'
