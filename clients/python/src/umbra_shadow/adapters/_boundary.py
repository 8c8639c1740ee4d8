"""Shared part of the adapters: calls that a framework makes, and texts for the model in place of their results."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Set
from typing import Any, Union

from .._async.sidecar import AsyncSidecar
from .._client import ClientBase
from .._guardrails import GuardrailsBase, Rules
from .._json import is_mapping, object_in, plain
from .._requests import path
from .._session import Session
from .._sync.sidecar import Sidecar
from .._terms import object_of
from .._tools import EFFECTS, UNSET, Call, Tool, full_name, rules_in_force
from ..errors import ApprovalRequired, Blocked, StubFault, UmbraError

Rulebook = Union[Session, GuardrailsBase]
"""A sidecar, whose rules are enforced, or its guardrails with settings of their own."""

# Reason of the block of a call whose outcome is stored already.
FINISHED = "call_finished"
# Most sets of tools whose names are compared with the settings.
_MOST_CHECKED = 100
# Exceptions in place of a result that are told to the model.
REFUSALS = (Blocked, StubFault)


class ToolError(Exception):
    """A tool failed, and its framework has made a result of the failure."""


class ToolBoundary:
    """Boundary of a server around the tools of one agent.

    ``sidecar``: session whose rules come first, or guardrails of it. ``server``: server of all tools, or servers by
    the tool's name. ``effects``: effect by the tool's name, ``read``, ``write`` or ``destructive``. ``stubs``: result
    in rehearsal by the tool's name, or a function that returns it and is called with the arguments as keywords.
    """

    def __init__(
        self,
        umbra: ClientBase,
        sidecar: Rulebook | None = None,
        server: str | Mapping[str, str] | None = None,
        effects: Mapping[str, str] | None = None,
        stubs: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(umbra, ClientBase):
            found = f"the class {umbra.__name__}" if isinstance(umbra, type) else type(umbra).__name__
            raise TypeError(f"an adapter needs a client, Umbra(...) or AsyncUmbra(...), not {found}")
        for setting, given, takes in (
            ("effects", effects, (Mapping,)),
            ("server", server, (str, Mapping)),
            ("stubs", stubs, (Mapping,)),
        ):
            if given is not None and not isinstance(given, takes):
                raise TypeError(f"{setting} has values by the tool's name, {{'refund': ...}}, and is not {given!r}")
        for name, effect in (effects or {}).items():
            if effect not in EFFECTS:
                raise ValueError(f"effects[{name!r}] is one of {', '.join(EFFECTS)}, not {effect!r}")
        if isinstance(sidecar, GuardrailsBase):
            self._rules: Rules | None = sidecar._rules
        elif isinstance(sidecar, Session):
            self._rules = Rules(sidecar, "enforce")
        elif sidecar is None:
            self._rules = None
        else:
            raise TypeError(f"sidecar is a session, or guardrails of it, not {type(sidecar).__name__}")
        if self._rules is not None:
            # Raises for a session before its block or after its end.
            self._rules.session._in_use()
        for name, stub in (stubs or {}).items():
            # Raises for a stub that no call could use.
            Tool(name=name, stub=stub)
        self._core = umbra._core
        self._server = server
        self._effects, self._stubs = dict(effects or {}), dict(stubs or {})
        self._checked: set[frozenset[str]] = set()

    def check_names(self, names: Iterable[str]) -> None:
        """Raises :class:`ValueError` if a setting misspells the name of one of the agent's tools.

        Names that resemble none are left alone: agents may share their settings.
        """
        for misspelt in self._misspelt(set(names)):
            raise ValueError(misspelt)

    def warn_of_names(self, names: Iterable[str]) -> None:
        """Logs a warning where :meth:`check_names` raises: a run must not end by it. The agent may have more tools."""
        known = frozenset(names)
        if known not in self._checked and len(self._checked) < _MOST_CHECKED:
            self._checked.add(known)
            for misspelt in self._misspelt(known):
                self._core.warn_once(misspelt, "umbra: %s", misspelt)

    def _misspelt(self, known: Set[str]) -> Iterator[str]:
        servers = {} if isinstance(self._server, str) else self._server or {}
        for setting, given in (("effects", self._effects), ("server", servers), ("stubs", self._stubs)):
            for name in given.keys() - known:
                if nearest := difflib.get_close_matches(name, known - given.keys(), 1):
                    yield f"{setting} names {name!r}, which is no tool here: is it {nearest[0]!r}?"

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        run: Callable[[], Any] | None = None,
        description: str | None = None,
        call_id: str | None = None,
        pauses: tuple[type[BaseException], ...] = (),
    ) -> Call:
        """Returns a call that a model has asked for. ``run`` makes it, and returns the result as the tool has it.

        Without ``run`` the call is one to :meth:`begin`.
        """
        server = self._server if isinstance(self._server, str) else (self._server or {}).get(name)
        tool = Tool(
            name=name,
            server=server,
            description=description,
            effect=self._effects.get(name),
            stub=self._stubs.get(name, UNSET),
            core=self._core,
        )
        call = Call.given(tool, arguments, run or _begun)
        call.id, call.pauses, call.guard = call_id or call.id, pauses, self
        return call

    def made(self, call: Call) -> Any:
        """Makes a call: the rules of the sidecar, then the boundary, then the tool."""
        from .._sync.guardrails import guarded

        client, rules = self._core.sync_client(), self._rules
        if rules is None:
            return client._made(call)
        return guarded(rules.session._twin(Sidecar), rules, call, lambda: client._decided(call))

    async def made_async(self, call: Call) -> Any:
        """Makes a call as :meth:`made` does."""
        from .._async.guardrails import guarded

        client, rules = self._core.async_client(), self._rules
        if rules is None:
            return await client._made(call)
        return await guarded(rules.session._twin(AsyncSidecar), rules, call, lambda: client._decided(call))

    def has_failed(self, call: Call) -> bool:
        """Returns True if the audit has an error as the outcome of this call, and can be read."""
        with contextlib.suppress(UmbraError):
            return _is_error(self._core.sync_client().request("GET", path("audit"), query=_outcome_of(call)))
        return False

    async def has_failed_async(self, call: Call) -> bool:
        """Returns True as :meth:`has_failed` does."""
        with contextlib.suppress(UmbraError):
            return _is_error(await self._core.async_client().request("GET", path("audit"), query=_outcome_of(call)))
        return False

    async def begin(self, call: Call) -> Begun:
        """Asks about a call, for a framework that makes it later: the rules of the sidecar, then the boundary."""
        call.run, call.pauses = _begun, (_Begun,)
        try:
            return Begun(call, result=await self.made_async(call))
        except _Begun:
            return Begun(call, may_run=True)
        except REFUSALS as error:
            return Begun(call, error=error)

    async def end(self, call: Call, run: Callable[[], Awaitable[Any]]) -> Any:
        """Runs a call that was asked about, and reports it."""
        from .._async.guardrails import finished

        client, rules, call.run = self._core.async_client(), self._rules or rules_in_force.get(), run
        ran = functools.partial(client._unreported, call)
        if call.answer is not None:
            ran = functools.partial(client._ran, call, call.answer, lambda: call.as_decided(run))
        if rules is None or call.judged_by is None:
            return await ran()
        planned = {"tool": call.tool.reference, "arguments": call.arguments}
        return await finished(rules.session._twin(AsyncSidecar), rules, call, planned, ran)


def _outcome_of(call: Call) -> dict[str, Any]:
    return {"agent": call.agent, "call_id": call.id, "kind": "outcome", "limit": 1}


def _is_error(row: Mapping[str, Any]) -> bool:
    return object_in(row, "outcome").get("status") == "error"


@dataclasses.dataclass
class Begun:
    """A call that was asked about, and has not run yet."""

    call: Call
    may_run: bool = False
    result: Any = None
    """Stub in place of the call."""
    error: Blocked | StubFault | None = None
    """Reason why there is no result."""


class _Begun(Exception):
    """The call may run."""


async def _begun() -> Any:
    raise _Begun


def refusal(error: Blocked | StubFault) -> str:
    """Returns the text by which the model learns why there is no result."""
    if isinstance(error, ApprovalRequired):
        reason, expires_at = (error.decision or {}).get("detail"), error.expires_at
        told = {"tool": error.tool, "reason": reason, "approval_id": error.approval_id, "expires_at": expires_at}
        return waiting_text(told)
    if isinstance(error, Blocked) and error.reason == FINISHED:
        return f"{error.tool} has run before this run was resumed, and its result is lost. It was not run again."
    if isinstance(error, StubFault):
        return f"{error.tool} failed: {error.fault if error.result is None else text_of(error.result)}"
    return str(error)


def waiting_text(told: Mapping[str, Any]) -> str:
    """Returns the text by which the model learns of an approval that :func:`approval_of` tells of."""
    return (
        f"{told['tool']} was not run: a person must approve it first ({told['reason'] or 'a rule asks for it'}). The "
        f"approval {told['approval_id']} is requested, until {told['expires_at']}. Once it is approved, the same call "
        "runs; go on without it until then."
    )


def approval_of(call: Call, asked: ApprovalRequired | None = None) -> dict[str, Any]:
    """Returns what a person needs to know of a call that waits for approval, as JSON."""
    answer = call.answer or {}
    told: dict[str, Any] = {
        "type": "umbra_approval",
        "tool": full_name(call.tool.reference),
        "arguments": call.arguments,
        "reason": answer.get("detail") or object_in(answer, "guard").get("reason"),
    }
    if asked is not None:
        told |= {"approval_id": asked.approval_id, "expires_at": asked.expires_at}
    return told


def tools_in(tools: Any) -> list[Any]:
    """Returns the tools that an adapter is given. Raises :class:`TypeError` for a tool in place of a list."""
    # Some frameworks' tools can be iterated, over their fields.
    if callable(tools) or hasattr(tools, "name") or not hasattr(tools, "__iter__"):
        name = getattr(tools, "name", None) or getattr(tools, "__name__", "tool")
        raise TypeError(f"guarded takes a list of tools: guarded([{name}], umbra)")
    return list(tools)


def text_of(value: Any) -> str:
    """Returns a result as text: JSON, unless it is text already."""
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


def value_of(text: Any) -> Any:
    """Returns a result that was made text as JSON again. Any other value is returned unchanged."""
    if isinstance(text, str) and text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def arguments_of(arguments: Any) -> dict[str, Any]:
    """Returns the arguments of a model, an object or its text; text that is no object is one argument, ``input``."""
    if is_mapping(arguments):
        return dict(arguments)
    if arguments is None or not str(arguments).strip():
        return {}
    return object_of(str(arguments)) or ({} if str(arguments).strip() == "{}" else {"input": str(arguments)})
