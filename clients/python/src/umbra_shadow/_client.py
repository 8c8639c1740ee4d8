"""Parts of a client that are the same in its synchronous and its asynchronous form."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar, overload

import pydantic

from . import models
from ._config import Config, Place, entered
from ._core import Core
from ._json import is_mapping
from ._requests import NoAnswer, Request, Response, parsed, path
from ._terms import as_json
from ._tools import UNSET, F, Tool, as_arguments, asked, full_name, wrapped
from .errors import APIError, Blocked, Unavailable, UndecidedCall

M = TypeVar("M", bound=pydantic.BaseModel)

DECISIONS = ("execute", "stub", "ask", "block")


class ClientBase:
    """Client of a server, without its requests."""

    _core: Core

    def _begin(
        self,
        url: str | None,
        api_key: str | None,
        agent: str | None,
        session: str | None,
        run: str | None,
        seed: str | None,
        timeout: float,
        decision_timeout: float,
    ) -> Core:
        return Core(Config.of(url, api_key, agent, session, run, seed, timeout, decision_timeout))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, agent={self.agent!r})"

    @property
    def url(self) -> str:
        """Address of the server."""
        return self._core.config.url

    @property
    def agent(self) -> str:
        """Name of the agent."""
        return self._core.config.place.agent or "python"

    @overload
    def tool(self, function: F) -> F: ...
    @overload
    def tool(
        self,
        function: None = None,
        *,
        effect: str | None = None,
        name: str | None = None,
        server: str | None = None,
        description: str | None = None,
        stub: Any = UNSET,
        output_schema: Mapping[str, Any] | None = None,
        ignore: Iterable[str] = (),
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        function: F | None = None,
        *,
        effect: str | None = None,
        name: str | None = None,
        server: str | None = None,
        description: str | None = None,
        stub: Any = UNSET,
        output_schema: Mapping[str, Any] | None = None,
        ignore: Iterable[str] = (),
    ) -> F | Callable[[F], F]:
        """Puts the execution boundary around a function that an agent calls as a tool.

        Before each call of the function, or coroutine function, the server decides: it runs, or its stub is returned
        and nothing runs, or :class:`Blocked` or :class:`ApprovalRequired` is raised. The outcome of a call that ran is
        reported in the background. While the server cannot be reached, a tool declared ``effect="read"`` runs, with a
        warning in the log, unless the server has called it no read before; every other tool is refused with
        :class:`UndecidedCall`.

        ``effect``: ``read``, ``write`` or ``destructive``. It decides about calls while the server is away, and is sent
        to the server, whose contracts and rules come first. The server believes it if the key has the scope
        ``declare`` or the server has no keys, and otherwise only if it is stricter than the effect that the server
        knows. Without ``effect`` the server goes by the tool's name, and takes the tool for destructive if the name is
        unclear.
        ``name`` and ``server``: the tool's name in contracts (``server.name``); the function's own name unless given.
        ``stub``: the result in rehearsal where the server has no contract: any value, None included, or a plain
        function that is called as the tool is and returns one. The function is called before each question, and its
        value is returned unchanged; the server validates the JSON form of the value and audits it. A value without
        such a form is a :class:`TypeError`, and that of a function a :class:`Blocked` call (``invalid_stub``).
        ``output_schema``: JSON Schema of the result, from which the server makes a stub if there is no contract and no
        stub.
        ``ignore``: names of parameters that a framework fills in, not the model: they are not sent. Parameters with
        contexts of frameworks (``RunContext``, ``RunContextWrapper``, ``ToolRuntime``, ``Context`` ...) and injected
        ones (``Annotated[..., InjectedState]``, ``Depends(...)``) are known. Fields of dataclasses and pydantic models
        with ``repr=False`` or ``exclude=True``, and private ones, are not sent either.

        A second guard, such as an adapter with the same ``server``, asks about a call only once; under another name,
        each guard asks, with a warning in the log.

        A contract's result is converted to the type that the function is annotated to return: a dataclass, a pydantic
        model, a tuple, bytes, a Decimal and others. A stub that cannot be converted raises :class:`Blocked`
        (``invalid_stub``). A call may carry ``_guard_stub=VALUE``: the result of this one call in rehearsal.

        Raises :class:`Blocked`, :class:`ApprovalRequired`, :class:`UndecidedCall` or :class:`StubFault` in place of a
        result; exceptions of the function itself pass unchanged.
        """
        settings: dict[str, Any] = {"effect": effect, "name": name, "server": server, "description": description}
        settings |= {"stub": stub, "output_schema": output_schema, "ignore": ignore, "core": self._core}

        def around(function: F) -> F:
            core = self._core
            tool = Tool(function, **settings)

            def now(call: Any) -> Any:
                return core.sync_client()._made(call)

            async def later(call: Any) -> Any:
                return await core.async_client()._made(call)

            return wrapped(function, tool, now, later, marked=True)

        # Wrong settings are told where the decorator is written.
        Tool(lambda: None, effect=effect, name=name, server=server)
        return around if function is None else around(function)

    def context(
        self,
        agent: str | None = None,
        session: str | None = None,
        run: str | None = None,
        parent_run: str | None = None,
        seed: str | None = None,
        route: str | None = None,
        modes: Sequence[str] = (),
    ) -> AbstractContextManager[None]:
        """Sets agent, session, run, route and modes of the calls within the block.

        They hold for calls by any client. A run within a run inherits the execution of the outer run: ``parent_run`` is
        the outer run unless it is given. Modes stack: inner modes are added to outer modes. Contexts hold for tasks and
        ``asyncio.to_thread`` that are started within them.
        """
        return entered(self._core.config, Place(agent, session, run, parent_run, seed, route), modes)

    def report(self, call_id: str, outcome: Mapping[str, Any] | models.OutcomeRequest) -> None:
        """Reports the outcome of a call that was decided by ``decide``, in the background.

        ``outcome`` has ``status`` (``ok`` or ``error``) and, if there is one, ``result``, ``error``, ``duration_ms``.
        """
        self._core.report(call_id, {"agent": self._core.config.here().agent, **as_json(outcome)})

    def _decision_request(self, call: Mapping[str, Any] | models.DecideRequest) -> Request:
        """Returns the question about a call; context and id are added where the call has none."""
        given = as_json(call)
        tool = given.get("tool")
        if isinstance(tool, str):
            tool = {"name": tool}
        if not is_mapping(tool) or not tool.get("name"):
            raise ValueError("a call needs its tool: {'tool': {'server': 'mail', 'name': 'send'}, 'arguments': {...}}")
        body = asked(self._core, tool, {}, uuid.uuid4().hex)
        if given.get("run") or given.get("session"):
            # The name that the client made up for its process counts no longer.
            for name in ("run", "default_run") if body.get("default_run") else ():
                del body[name]
        body |= {name: one for name, one in given.items() if name != "tool" and one is not None}
        if is_mapping(body["arguments"]):
            body["arguments"] = as_arguments(body["arguments"].items())
        return Request("POST", path("decide"), body, repeatable=True, exact=True)

    def _decision(self, request: Request, response: Response) -> dict[str, Any]:
        """Returns the answer. Raises :class:`APIError` or :class:`UndecidedCall` if it is no decision."""
        answer, tool = dict(response.body), full_name(request.body["tool"])
        if response.is_temporary or response.is_foreign:
            raise self._undecided(request, response.fault)
        if response.status != 200:
            raise APIError(str(request), response.status, answer)
        if answer.get("decision") not in DECISIONS:
            detail = f"what answers is no server of Umbra, or a newer one: decision {answer.get('decision')!r}"
            raise self._undecided(request, detail, f"Umbra did not answer: {detail}")
        # The server puts a marker, [secret:...], in place of an id that has the form of a secret.
        told, given = str(answer.get("call_id")), request.body["call_id"]
        if told != given and "[" not in told:
            detail = f"what answers is no server of Umbra: it answered about call {told[:80]}, not {given}"
            raise self._undecided(request, detail, f"Umbra did not answer: {detail}")
        self._core.learn(tool, answer, request.body.get("declared_effect"))
        return answer

    def _refused(self, tool: str, refused: APIError) -> Blocked:
        """Returns the block of a call about which the server refuses to decide."""
        faults = "; ".join(f"{one.get('pointer')}: {one.get('detail')}" for one in refused.errors[:3])
        detail = ": ".join(filter(None, ("Umbra refused the question", refused.detail, faults)))
        if refused.status in (401, 403):
            # The model can do nothing about keys: the log tells the operator.
            self._core.warn_once(f"http_{refused.status}", "umbra: no call is decided, so none runs: %s", refused)
            detail = "no decision about this agent's calls can be had; its operator must mend that, so go on without it"
        return Blocked(tool, refused.code, detail)

    def _undecided(self, request: Request, why: object, told: str = "Umbra did not answer") -> UndecidedCall:
        """Returns the block of a call without a decision. The model reads it: only its cause has address and fault."""
        undecided = UndecidedCall(full_name(request.body["tool"]), "unavailable", told)
        undecided.__cause__ = Unavailable(f"{self.url} gave no decision: {why}")
        return undecided

    def _parsed(self, kind: type[M], body: Mapping[str, Any]) -> M:
        try:
            return parsed(kind, Response(200, body))
        except NoAnswer as wrong:
            raise Unavailable(f"{self.url}: {wrong}") from None
