"""Guardrails, which apply a session's rules to calls of tools: a question before each call, and a report after it."""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import json
import logging
from collections.abc import Awaitable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from . import models
from ._core import log
from ._json import MOST_VALUES, is_mapping, plain
from ._names import joined
from ._session import Session
from ._tools import Call, F, Tool, full_name, rules_in_force, tool_around, wrapped
from .errors import APIError, Blocked, ResultWithheld, SessionOver, UmbraError

if TYPE_CHECKING:
    from ._async.sidecar import AsyncSidecar
    from ._sync.sidecar import Sidecar

G = TypeVar("G", bound="GuardrailsBase")
Enforcement = Literal["enforce", "warn", "audit"]
ENFORCEMENTS = ("enforce", "warn", "audit")

# Guardrails that each task has entered, the outer ones first. Several tasks may have entered the same guardrails.
_entered: contextvars.ContextVar[tuple[contextvars.Token[Any], ...]] = contextvars.ContextVar(
    "umbra_rules_entered", default=()
)
# Most characters of each end of a long result that are reported.
_MOST_RESULT = 48_000
# Most characters in a second report, after the first was too long or too slow: a few suffice for the session's labels.
_FEW = 4_000
# Most characters of the arguments, as JSON, in the report of a call that ran.
_MOST_ARGUMENTS = 1_000_000


@dataclasses.dataclass
class Rules:
    """Rules of a session, and their force."""

    session: Session
    enforcement: Enforcement
    mode: str | None = None
    route: str | None = None
    guarded: set[str] = dataclasses.field(default_factory=set[str])
    """Tools whose calls were asked about."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Session and force: rules of equal keys are the same."""
        return id(self.session.__dict__), self.enforcement, self.mode, self.route

    def place(self) -> dict[str, Any]:
        """Returns route and modes of the calls, where they are not those of the session."""
        modes = None if self.mode is None else [*self.session.modes, self.mode]
        return {"route": self.route, "modes": modes}

    def planned(self, call: Call) -> dict[str, Any] | None:
        """Returns the call as it is asked about; None if it is not asked about.

        These rules were asked about the same call by a guard around this one, or the call cannot be written and the
        rules are not enforced.
        """
        tool = call.tool
        name, block = joined(**tool.reference), rules_in_force.get()
        self.guarded.add(name)
        if block is not None and block.session.__dict__ is self.session.__dict__:
            # A function that the guardrails decorate, within a block of them.
            block.guarded.add(name)
        try:
            if call.is_judged(self.key):
                return None
            planned = {"tool": tool.reference, "arguments": call.arguments}
            call.judged_by = self.key
            return planned
        except Exception as odd:
            # Any exception of the arguments counts: a call that cannot be written is not judged.
            if self.enforcement == "enforce" and isinstance(odd, Blocked):
                raise
            if self.enforcement == "enforce":
                detail = f"its arguments cannot be told: {type(odd).__name__}"
                raise Blocked(tool.name, "unreadable", detail) from None
            log.warning("umbra: %s is not held to the rules, since its arguments cannot be told: %r", tool.name, odd)
            return None

    def before(self, call: Call, answer: models.GuardAnswer) -> None:
        """Follows the ruling on a call that is about to run. The boundary asks for approvals of calls it decides."""
        tool = call.tool
        if answer.needs_approval and tool.core is not None:
            return
        if answer.unjudged:
            # Otherwise very long arguments would get past every rule.
            log.warning("umbra: %s is not held to the rules: %s", tool.name, "; ".join(answer.warnings))
            if self.enforcement == "enforce":
                raise Blocked(tool.name, "too_long", "its arguments are so long that the server did not judge them")
        call.is_objected_to = self._note(tool, answer)
        if call.is_objected_to and self.enforcement == "enforce":
            raise Blocked(tool.name, "policy", answer.reason or "a rule says so", answer.model_dump(mode="json"))
        if answer.policy_version:
            self._check_unchanged(call)

    def _check_unchanged(self, call: Call) -> None:
        try:
            call.check_unchanged()
        except Blocked as changed:
            if self.enforcement == "enforce":
                raise
            log.warning("umbra: %s is not held to the rules: %s", call.tool.name, changed.detail)

    def after(self, call: Call, answer: models.MessageAnswer) -> None:
        """Follows the rulings on a call that has run, and on its result."""
        tool = call.tool
        for ruling in answer.calls:
            # If no rule objected before the call, an objection now comes too late to stop it.
            if ruling.blocked and not (ruling.needs_approval or call.is_objected_to):
                self._note(tool, ruling)
        for ruling in answer.results:
            if self._note(tool, ruling) and self.enforcement == "enforce":
                raise ResultWithheld(tool.name, ruling.reason or "a rule says so", ruling.model_dump(mode="json"))

    def unasked(self, tool: Tool, error: UmbraError) -> None:
        """Follows a failed question. ``enforce`` blocks a call that is not judged, unless the server is away."""
        if self.enforcement != "enforce":
            log.warning("umbra: %s is not held to the rules: %s", tool.name, error)
        elif isinstance(error, APIError) and error.status not in (401, 403):
            raise Blocked(tool.name, error.code, str(error)) from None
        elif isinstance(error, SessionOver):
            log.warning("umbra: %s is blocked: %s", tool.name, error)
            raise Blocked(tool.name, "session_over", str(error)) from None
        else:
            raise error

    def untold(self, tool: Tool, error: UmbraError) -> None:
        """Notes a failed report. The tool has run: an exception would make its caller run it again."""
        log.warning("umbra: that %s ran is not told: %s", tool.name, error)

    def _note(self, tool: Tool, ruling: models.GuardRuling) -> bool:
        """Keeps and logs a ruling with an objection. Returns True if the ruling forbids its subject."""
        if ruling.decision != "allow":
            self.session.interventions.append(ruling)
            level = logging.INFO if self.enforcement == "audit" else logging.WARNING
            blocks = "blocks" if self.enforcement == "enforce" else "would block"
            word = blocks if ruling.blocked else "warns of"
            log.log(level, "umbra: the rule %s %s %s: %s", ruling.rule, word, tool.name, ruling.reason)
        return ruling.blocked


class GuardrailsBase:
    """Rules of a session as a decorator and as a block."""

    def __init__(
        self,
        session: Session,
        enforcement: Enforcement,
        mode: str | None,
        route: str | None,
        server: str | None,
        name: str | None,
        ignore: Iterable[str],
    ) -> None:
        if callable(enforcement):
            raise TypeError("guardrails decorate a function with parentheses: write @s.guardrails()")
        if enforcement not in ENFORCEMENTS:
            hint = f"; a mode of the agent is guardrails(mode={enforcement!r})" if isinstance(enforcement, str) else ""
            raise ValueError(f"guardrails take {', '.join(ENFORCEMENTS)}, not {enforcement!r}{hint}")
        if mode in ENFORCEMENTS:
            raise ValueError(f"mode is a mode of the agent, such as 'research': write guardrails({mode!r})")
        self._rules = Rules(session, enforcement, mode, route)
        self._server, self._name, self._ignore = server, name, ignore

    def __call__(self, function: F) -> F:
        """Returns the function under the rules: each call is asked about, and reported with its result."""
        rules, tool = self._rules, tool_around(function)
        if tool is not None and (self._server or self._name):
            raise TypeError(f"{tool.name} has its name and server from umbra.tool")
        # umbra.tool decorates the function already: its name stays, and the call is asked about only once.
        known = tool or Tool(function, name=self._name, server=self._server, ignore=self._ignore)
        core = known.core

        def now(call: Call) -> Any:
            from ._sync.guardrails import guarded

            run = call.run if core is None else functools.partial(core.sync_client()._decided, call)
            return guarded(self._sync(), rules, call, run)

        async def later(call: Call) -> Any:
            from ._async.guardrails import guarded

            run = call.run if core is None else functools.partial(core.async_client()._decided, call)
            return await guarded(self._async(), rules, call, run)

        return wrapped(function, known, now, later)

    def _sync(self) -> Sidecar:
        from ._sync.sidecar import Sidecar

        return self._rules.session._twin(Sidecar)

    def _async(self) -> AsyncSidecar:
        from ._async.sidecar import AsyncSidecar

        return self._rules.session._twin(AsyncSidecar)

    def __enter__(self: G) -> G:
        rules = dataclasses.replace(self._rules, guarded=set())
        _entered.set((*_entered.get(), rules_in_force.set(rules)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        rules = rules_in_force.get()
        *outer, token = _entered.get()
        _entered.set(tuple(outer))
        rules_in_force.reset(token)
        if error is None and rules is not None and not rules.guarded:
            log.warning(
                "umbra: no call was guarded in a block of guardrails. A block covers functions under @umbra.tool, and "
                "calls by call_tool; a plain function runs unguarded unless the guardrails decorate it."
            )

    async def __aenter__(self: G) -> G:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def warn_of_unguarded(session: Session, calls: Iterable[Mapping[str, Any]]) -> None:
    """Warns of calls that a block of guardrails was to cover, and that ran without it."""
    rules = rules_in_force.get()
    if rules is None or rules.session.__dict__ is not session.__dict__:
        return
    for call in calls:
        tool = call["tool"] if is_mapping(call["tool"]) else {"name": call["tool"]}
        if joined(tool["name"], tool.get("server")) not in rules.guarded:
            log.warning(
                "umbra: %s was called in a block of guardrails, but no rule was asked: decorate it", full_name(tool)
            )


def finished_later(
    session: Session, rules: Rules, call: Call, planned: Mapping[str, Any], pending: Awaitable[Any]
) -> Any:
    """Returns the coroutine that ends a call of a plain function which has returned a coroutine."""
    from ._async.guardrails import finished
    from ._async.sidecar import AsyncSidecar

    return finished(session._twin(AsyncSidecar), rules, call, planned, lambda: pending)


def was_made(call: Call, error: Exception) -> bool:
    """Returns False if the boundary stopped the call, or its framework paused it: then there was none yet."""
    return not (isinstance(error, call.pauses) or (isinstance(error, Blocked) and error.tool == call.tool.name))


def told(call: Mapping[str, Any], result: Any = None, error: Exception | None = None) -> dict[str, Any]:
    """Returns the report of a call. The result goes as text, which checks examine."""
    try:
        content = _text(result) if error is None else f"{type(error).__name__}: {error}"
    except Exception as odd:
        # The tool has run: its caller gets the result, even if reading the result for the report fails.
        content = f"[what cannot be told: {type(odd).__name__}]"
    content = _ends(content, _MOST_RESULT)
    if len(json.dumps(call.get("arguments"))) > _MOST_ARGUMENTS:
        # The arguments were judged before the call; with the result they would exceed the server's limit.
        call = {"tool": call["tool"], "arguments": {}}
    return {"tool_calls": [call], "results": [{"tool": call["tool"], "ok": error is None, "content": content}]}


def shortened(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns a shortened report; None if the report is short already."""
    (call,), (result,) = report["tool_calls"], report["results"]
    content, arguments = _ends(result["content"], _FEW), call.get("arguments")
    if len(json.dumps(arguments)) > 2 * _FEW:
        arguments = {}
    elif content == result["content"]:
        return None
    return {"tool_calls": [{**call, "arguments": arguments}], "results": [{**result, "content": content}]}


def _ends(text: str, most: int) -> str:
    """Returns both ends of a long text, and a short text unchanged."""
    return text if len(text) <= 2 * most else f"{text[:most]}\n[...]\n{text[-most:]}"


def _text(result: Any) -> str:
    value = plain(result, MOST_VALUES)
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
