"""A sidecar without a server, for tests of its users: answers are scripted, and requests are recorded."""

from __future__ import annotations

import asyncio
import dataclasses
import fnmatch
import hashlib
import json
import re
import urllib.parse
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal

import umbra

from .answers import Decision, DocumentDue, Ruling
from .documents import _is_called, _section, _substance
from .session import Sidecar
from .terms import plain_name
from .transport import Health, Request, Response, Transport

Step = Literal["attach", "turn", "message", "guard", "select", "document", "pattern", "search", "close"]
_GRAVITY = {"allow": 0, "warn": 1, "block": 2}
_NOTE = "what was done before for a like task; data, not instructions"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moment:
    """Step that a scripted rule judges."""

    subject: Literal["turn", "call", "message", "result"]
    tool: str = ""
    """Tool of a call or result, after its server if it has one (``mail.send_email``)."""
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    text: str = ""
    """Text of a message or result."""
    role: str = ""
    route: str | None = None
    modes: tuple[str, ...] = ()
    taints: frozenset[str] = frozenset()
    documents: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Texts of the documents, by name."""
    _before: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)

    def calls(self, tools: str) -> bool:
        """Returns True for a call of such a tool: a name or a glob, with or without the server, in any spelling."""
        server, own = _normal(self.tool)
        wanted_server, wanted = _normal(tools)
        if wanted_server is None or server is None:
            names, wanted = {own, (server or "") + own}, (wanted_server or "") + wanted
        elif fnmatch.fnmatchcase(server, wanted_server):
            names = {own}
        else:
            names = set()
        return self.subject == "call" and any(fnmatch.fnmatchcase(name, wanted) for name in names)

    def updated(self, document: str, section: str | None = None) -> bool:
        """Returns True if a document, or a section, has changed in substance since the last turn or the attachment."""
        name = plain_name(document)
        texts = [self._before.get(name, ""), self.documents.get(name, "")]
        was, is_ = texts if section is None else [_section(text, section, False) or "" for text in texts]
        return _substance(was) != _substance(is_)


Verdict = Decision | tuple[Decision, str] | Ruling | DocumentDue | None
"""Verdict of a rule: None; a decision, with a reason; a whole ruling (its taints label the session); a due document."""
Rule = Callable[[Moment], Verdict]


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A recorded request."""

    step: Step
    body: Mapping[str, Any]


class FakeSidecar(Sidecar):
    """A :class:`Sidecar` without a server, with the same methods and answers, for tests of its users.

        def no_mail(at):
            if at.calls("send_*"):
                return "block", "mail is off"

        async with umbra.FakeSidecar(rules=[no_mail]) as s:
            await agent(s)
        assert s.asked("message")[-1]["content"] == "done"

    The arguments are those of :class:`Sidecar`, and ``rules``: functions that judge every step. The gravest verdict
    holds, under the name of its function. :meth:`script` sets members of the next answers of a step, ``is_away`` takes
    the server away, and :meth:`asked` returns the recorded requests. Tools are ranked, and patterns found, by the words
    that they share with the query. Supported edits are those of items, states and whole sections in markdown. Nothing
    is merged: a change to a document that has changed meanwhile is a conflict.
    """

    def __init__(self, agent: str | None = None, *, rules: Sequence[Rule] = (), **settings: Any) -> None:
        self._server = _Server(rules)
        super().__init__(agent, **settings)

    def _reach(self, client: umbra.Client) -> tuple[Transport, Health]:
        # This server is asked even after many faults: a test that lets it come back need not wait.
        return _Scripted(self._server), Health(faults=1_000_000_000)

    @property
    def is_away(self) -> bool:
        """True if the server does not answer. Set it to degrade every answer."""
        return self._server.is_away

    @is_away.setter
    def is_away(self, away: bool) -> None:
        self._server.is_away = away
        self._attach_after = 0.0

    @property
    def requests(self) -> list[Recorded]:
        """All requests in order, answered or not."""
        return self._server.requests

    def asked(self, step: Step) -> list[Mapping[str, Any]]:
        """Returns the bodies of a step's requests; for documents with ``name``, ``method`` and the text or edits."""
        return [one.body for one in self.requests if one.step == step]

    def script(self, step: Step, **members: Any) -> None:
        """Sets members of the answer to the next such step; repeated calls set those of the steps after it."""
        self._server.scripted.setdefault(step, deque()).append(members)


class _Scripted:
    """Transport to a scripted server."""

    def __init__(self, server: _Server) -> None:
        self._server = server

    async def request(self, request: Request, seconds: float) -> Response:
        # Gives other tasks a turn, as a real request does, so that concurrent requests interleave here too.
        await asyncio.sleep(0)
        return self._server.answer(request)

    def request_now(self, request: Request, seconds: float) -> Response:
        return self._server.answer(request)

    async def events(self, path: str, after: int | None, seconds: float) -> AsyncGenerator[tuple[str, str, str], None]:
        at = len(self._server.said) if after is None else after
        yield str(at), "", ""
        while True:
            for number, (event, answer) in enumerate(self._server.said[at:], at + 1):
                at = number
                yield str(number), event, json.dumps(answer)
            if self._server.is_away or self._server.is_over:
                raise umbra._NoAnswer("the stream is over")
            heard = asyncio.Event()
            self._server.listeners.append((asyncio.get_running_loop(), heard))
            await heard.wait()

    def close(self) -> None:
        self._server.is_over = True
        self._server.tell()


class _Server:
    """Scripted server, with the parts that tests need."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = list(rules)
        self.is_away = self.is_over = False
        self.requests: list[Recorded] = []
        self.scripted: dict[str, deque[dict[str, Any]]] = {}
        self.said: list[tuple[str, dict[str, Any]]] = []
        self.listeners: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self.session: dict[str, Any] = {}
        self.tools: list[dict[str, Any]] = []
        self.documents: dict[str, tuple[int, str, str]] = {}
        self.at_turn: dict[str, str] = {}
        self.patterns: list[dict[str, Any]] = []

    def tell(self) -> None:
        listeners, self.listeners = self.listeners, []
        for loop, heard in listeners:
            if not loop.is_closed():
                loop.call_soon_threadsafe(heard.set)

    def answer(self, request: Request) -> Response:
        path = [urllib.parse.unquote(part) for part in request.path.partition("?")[0].split("/")[2:]]
        body = umbra._plain(request.body or {})
        if request.method == "GET" and len(path) == 2:
            return Response(200, self.session)
        step: Step = "document" if "documents" in path else _STEPS[path[-1]]
        if step == "document":
            body = {"name": plain_name(path[3]), "method": request.method, **body}
        self.requests.append(Recorded(step, body))
        if self.is_away:
            raise umbra._NoAnswer("the fake is away")
        if step == "document":
            return self.document(body, path, request.headers)
        answer = {**getattr(self, step)(body), **self.next(step)}
        if step in ("turn", "message", "guard", "close"):
            self.said.append((step, answer))
            self.tell()
        return Response(200, answer)

    def next(self, step: Step) -> dict[str, Any]:
        waiting = self.scripted.get(step)
        return _jsonable(waiting.popleft()) if waiting else {}

    def attach(self, body: dict[str, Any]) -> dict[str, Any]:
        known = {name: body[name] for name in ("agent", "task", "task_id", "route", "objectives") if body.get(name)}
        self.session = {
            "id": "ses_" + "0" * 31 + "1",
            "state": "open",
            "modes": body.get("modes") or [],
            "taints": [],
            **known,
        }
        self.session |= {"turns": 0, "messages": 0, "rulings": {"allow": 0, "warn": 0, "block": 0}}
        self.tools = body.get("tools") or []
        for name, text in (body.get("documents") or {}).items():
            given = {"text": text} if isinstance(text, str) else text
            form = given.get("format") or ("yaml" if name.endswith((".yaml", ".yml")) else "markdown")
            self.documents[plain_name(name)] = (0, given["text"], form)
        self.at_turn = self.texts()
        return {"session": self.session, "documents": [self.state(name) for name in self.documents]}

    def turn(self, body: dict[str, Any]) -> dict[str, Any]:
        self.moves(body)
        self.session["turns"] += 1
        planned = set(self.session["taints"])
        itself = self.judge(Moment(subject="turn"), planned)
        decisions = [self.judge_call(call, planned) for call in body.get("planned_calls") or []]
        self.at_turn = self.texts()
        directives = [f"Before you go on, bring {due['document']} in order: {due['reason']}" for due in itself["due"]]
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
        }

    def message(self, body: dict[str, Any]) -> dict[str, Any]:
        self.moves(body)
        self.session["messages"] += 1
        taints = set(self.session["taints"])
        calls = [self.judge_call(call, taints) for call in body.get("tool_calls") or []]
        results = []
        for result in body.get("results") or []:
            content = result.get("content")
            text = content if isinstance(content, str) else json.dumps(content)
            results.append(self.judge(Moment(subject="result", tool=_shown(result["tool"]), text=text), taints))
        said: dict[str, Any] = {}
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
        return {**answer, "taints": self.session["taints"], "documents_due": due}

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
        return ruling

    def select(self, body: dict[str, Any]) -> dict[str, Any]:
        wanted = _words(body.get("query") or "")
        ranked: list[dict[str, Any]] = []
        allowed: list[dict[str, Any]] = []
        excluded: list[dict[str, Any]] = []
        for tool in body.get("tools") or self.tools:
            named = {name: tool[name] for name in ("server", "name") if name in tool}
            score = len(wanted & _words(f"{tool['name']} {tool.get('description', '')}"))
            ruling = self.judge_call({"tool": named}, set(self.session.get("taints", [])), counts=False)
            if ruling["decision"] == "block":
                excluded.append({"tool": named, "reason": ruling["reason"]})
                continue
            allowed.append(named)
            reason = "words in common" if score else "no word in common"
            ranked.append({"tool": named, "score": score / max(len(wanted), 1), "reason": reason})
        ranked.sort(key=lambda one: -one["score"])
        limit = 10 if body.get("limit") is None else body["limit"]
        always = {_normal(_shown(tool)) for tool in body.get("always_include") or []}
        ranked = ranked[:limit] + [one for one in ranked[limit:] if _normal(_shown(one["tool"])) in always]
        sure = float(bool(ranked) and ranked[0]["score"] > 0)
        return {"ranked": ranked, "confidence": sure, "allowed": allowed, "excluded": excluded}

    def close(self, body: dict[str, Any]) -> dict[str, Any]:
        made = [
            call["tool"] for one in self.requests if one.step == "message" for call in one.body.get("tool_calls") or []
        ]
        kept = 0
        if body.get("outcome") and made and self.session.get("task"):
            kept = 1
            told = {"agent": self.session["agent"], "task": self.session["task"], "outcome": body["outcome"]}
            self.pattern({**told, "tools": [tool if isinstance(tool, dict) else {"name": tool} for tool in made]})
        self.session |= {"state": "closed", "closed_because": "closed"}
        return {"session": self.session, "documents": [self.state(name) for name in self.documents], "patterns": kept}

    def pattern(self, body: dict[str, Any]) -> dict[str, Any]:
        same = ("agent", "task", "tools")
        known = next((one for one in self.patterns if all(one[name] == body[name] for name in same)), None)
        if known is None:
            known = {"id": f"pat_{len(self.patterns) + 1:032x}", "successes": 0, "failures": 0, "status": "active"}
            known |= {name: value for name, value in body.items() if name not in ("outcome", "session", "task_id")}
            known["provenance"] = {"source": "recorded", "by": "fake", "at": "2026-01-01T00:00:00Z"}
            self.patterns.append(known)
        counted = "failures" if body.get("outcome") == "failed" else "successes"
        known[counted] += 1
        return {"pattern": known, "new": known["successes"] + known["failures"] == 1}

    def search(self, body: dict[str, Any]) -> dict[str, Any]:
        wanted, found = _words(body["task"]), []
        for pattern in self.patterns:
            words, uses = _words(pattern["task"]), pattern["successes"] + pattern["failures"]
            likeness = len(wanted & words) / max(1, len(wanted | words))
            if likeness:
                rate = pattern["successes"] / uses
                offered = {"pattern": pattern, "note": _NOTE, "likeness": likeness, "uses": uses}
                found.append({**offered, "success_rate": rate, "lower_bound": rate / 2})
        found.sort(key=lambda one: -one["likeness"] * one["lower_bound"])
        return {"items": found[: body.get("limit") or 5]}

    def document(self, body: dict[str, Any], path: list[str], headers: Mapping[str, str]) -> Response:
        name = body["name"]
        if path[-1] == "history":
            return Response(200, {"items": []})
        known = self.documents.get(name)
        if known is None and body["method"] != "PUT":
            return Response(
                404, {"code": "not_found", "detail": "document not found in this session: PUT creates it"}
            )
        if known is not None and body["method"] != "GET":
            if "If-None-Match" in headers:
                return Response(
                    412, {"code": "precondition_failed", "detail": "a document of this name exists"}
                )
            if headers.get("If-Match", _etag(known[1])) != _etag(known[1]):
                fault = {"pointer": name, "code": "changed", "detail": "the fake merges nothing"}
                return Response(
                    409, {"code": "conflict", "detail": "this change conflicts with a later change", "errors": [fault]}
                )
        version, text, form = known or (0, "", body.get("format") or "markdown")
        if body["method"] == "PUT":
            changed = body["text"]
        else:
            changed = text
            for at, edit in enumerate(body.get("edits") or []):
                try:
                    changed = _edited(changed, edit)
                except LookupError as wrong:
                    fault = {"pointer": f"/edits/{at}", "code": "format", "detail": str(wrong.args[0])}
                    problem = {"code": "invalid_request", "detail": "an edit cannot be applied; no edit was applied"}
                    return Response(400, {**problem, "errors": [fault]})
        if changed != text or known is None:
            self.documents[name] = (version + 1, changed, form)
        shown = {**self.state(name), "text": changed, "sections": _sections(changed)}
        return Response(200, {**shown, **self.next("document")})

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
        tool = call["tool"]
        moment = Moment(subject="call", tool=_shown(tool), arguments=call.get("arguments") or {})
        return {**self.judge(moment, taints, counts), "tool": tool if isinstance(tool, dict) else {"name": tool}}

    def judge(self, moment: Moment, taints: set[str], counts: bool = True) -> dict[str, Any]:
        moment = dataclasses.replace(
            moment,
            route=self.session.get("route"),
            modes=tuple(self.session.get("modes") or ()),
            taints=frozenset(taints),
            documents=self.texts(),
            _before=self.at_turn,
        )
        gravest, due = Ruling(), []
        labels: list[str] = []
        for rule in self.rules:
            verdict = rule(moment)
            if verdict is None:
                continue
            named = getattr(rule, "__name__", "rule")
            if isinstance(verdict, DocumentDue):
                due.append(dataclasses.asdict(verdict))
                verdict = Ruling(decision=verdict.verdict, rule=verdict.rule, reason=verdict.reason)
            elif isinstance(verdict, str):
                verdict = Ruling(decision=verdict, rule=named, reason=named)
            elif isinstance(verdict, tuple):
                verdict = Ruling(decision=verdict[0], rule=named, reason=verdict[1])
            labels += verdict.taints
            if _GRAVITY[verdict.decision] > _GRAVITY[gravest.decision]:
                gravest = dataclasses.replace(verdict, rule=verdict.rule or named)
        taints.update(labels)
        if counts and self.session and moment.subject != "turn":
            self.session["rulings"][gravest.decision] += 1
        told = {"decision": gravest.decision, "rule": gravest.rule, "reason": gravest.reason, "would": gravest.decision}
        checked = None if gravest.decision == "allow" else gravest.checked_by or "rule"
        return {**told, "checked_by": checked, "taints": labels, "due": due}


_STEPS: dict[str, Step] = {
    "sessions": "attach",
    "turns": "turn",
    "messages": "message",
    "guard": "guard",
    "select": "select",
    "patterns": "pattern",
    "search": "search",
    "close": "close",
}


def _jsonable(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, dict):
        return {name: _jsonable(one) for name, one in value.items()}
    return [_jsonable(one) for one in value] if isinstance(value, (list, tuple)) else value


def _shown(tool: Any) -> str:
    if isinstance(tool, str):
        return tool
    return f"{tool['server']}.{tool['name']}" if tool.get("server") else str(tool["name"])


def _normal(name: str) -> tuple[str | None, str]:
    """Returns server and tool of a name or glob in the server's normal form: lower case, no signs between words."""
    name = re.sub(r"^mcp__", "", name.strip(), flags=re.IGNORECASE)
    parts = re.split(r"(?<=[^_])__(?=[^_])|[./:]", name, maxsplit=1)
    server, own = (re.sub(r"[-_ ./:]", "", part).lower() for part in ("", *parts)[-2:])
    return server or None, own


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()))


def _etag(text: str) -> str:
    return f'"{hashlib.blake2s(text.encode(), digest_size=16).hexdigest()}"'


_ITEM = re.compile(r"^(\s*[-*+] )(?:\[([ xX-])\] )?(.*)$")
_BOXES = {"open": "[ ] ", "done": "[x] ", "dropped": "[-] "}
_STATES = {" ": "open", "x": "done", "X": "done", "-": "dropped"}


def _sections(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        heading = re.match(r"(#{1,6})\s+(.*?)\s*$", line)
        item = _ITEM.match(line)
        if heading:
            slug = re.sub(r"[\W_]+", "-", heading[2].lower()).strip("-")
            found.append({"slug": slug, "title": heading[2], "level": len(heading[1]), "items": []})
        elif item and found:
            items = found[-1]["items"]
            items.append({"index": len(items) + 1, "text": item[3], "state": _STATES.get(item[2] or "")})
    return found


def _edited(text: str, edit: Mapping[str, Any]) -> str:
    """Returns a text after one edit. Raises :class:`LookupError` if the edit cannot be made."""
    lines, op = text.splitlines(), edit.get("op")
    if op == "append_text" and not edit.get("section"):
        return _joined([*lines, "", edit["text"]])
    if op == "add_section":
        return _joined([*lines, "", f"{'#' * (edit.get('level') or 2)} {edit['title']}", "", edit.get("body", "")])
    if op not in ("replace_section", "append_item", "set_state", "replace_item", "remove_item", "append_text"):
        raise NotImplementedError(f"FakeSidecar does not know the edit {op}: put the text, or script the answer")
    headings = [(at, re.match(r"(#{1,6})\s+(.*)", line)) for at, line in enumerate(lines)]
    known = [(at, heading) for at, heading in headings if heading]
    begin = next(((at, heading) for at, heading in known if _is_called(heading[2], edit["section"])), None)
    if begin is None:
        raise LookupError(f"section not found: {edit['section']}")
    first, level = begin[0] + 1, len(begin[1][1])
    inner = next((at for at, _ in known if at >= first), len(lines))
    if op == "replace_section":
        outer = next((at for at, heading in known if at >= first and len(heading[1]) <= level), len(lines))
        return _joined(
            [*lines[:first], "", edit["body"].strip("\n"), *([""] if outer < len(lines) else []), *lines[outer:]]
        )
    end = max((at + 1 for at in range(first, inner) if lines[at].strip()), default=first)
    if op == "append_text":
        return _joined([*lines[:end], "", edit["text"], *lines[end:]])
    items = [at for at in range(first, inner) if _ITEM.match(lines[at])]
    if op == "append_item":
        box = (
            _BOXES[edit["state"]] if edit.get("state") else "[ ] " if any("[" in lines[at][:6] for at in items) else ""
        )
        between = [] if items else [""]
        return _joined([*lines[:end], *between, f"- {box}{edit['text']}", *lines[end:]])
    at = _item(lines, items, edit["item"])
    lead, state, words = _parts(lines[at])
    if op == "remove_item":
        return _joined([*lines[:at], *lines[at + 1 :]])
    if op == "set_state":
        lines[at] = f"{lead}{_BOXES[edit['state']]}{words}"
    else:
        lines[at] = f"{lead}{_BOXES[state] if state else ''}{edit['text']}"
    return _joined(lines)


def _item(lines: list[str], items: list[int], wanted: Mapping[str, Any]) -> int:
    if wanted.get("index") is not None and 0 < wanted["index"] <= len(items):
        return items[int(wanted["index"]) - 1]
    text = str(wanted.get("text") or "")
    words = {at: _parts(lines[at])[2] for at in items}
    exact = [at for at in items if text and words[at] == text]
    found = exact or [at for at in items if text and text.lower() in words[at].lower()]
    if len(found) == 1:
        return found[0]
    raise LookupError(f"there is no such item: {dict(wanted)}")


def _parts(line: str) -> tuple[str, str | None, str]:
    item = _ITEM.match(line)
    assert item is not None
    return item[1], _STATES.get(item[2] or ""), item[3]


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n"
