"""The client: one object for events, findings, tools, approvals, runs and sidecars of a server."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import pydantic

from .. import models
from .._client import ClientBase
from .._core import LAST_WORDS, Core
from .._requests import ATTEMPT, NoAnswer, Request, Response, Retry, path
from .._terms import DefinitionLike, Objective
from .._tools import UNSET, Call, Outcome, Tool, later, rules_in_force, running
from ..errors import APIError, UndecidedCall
from . import io
from .guardrails import guarded
from .resources import (
    AsyncApprovals,
    AsyncBreakers,
    AsyncEvents,
    AsyncExecution,
    AsyncFindings,
    AsyncReflexions,
    AsyncRuns,
    AsyncTrajectories,
)
from .sidecar import AsyncSidecar

M = TypeVar("M", bound=pydantic.BaseModel)


class AsyncUmbra(ClientBase):
    """An asynchronous client of a server of Umbra, with the identity of an agent::

        async with AsyncUmbra(agent="writer") as umbra:
            event = await umbra.events.post({"output": "The report is written."})

    ``url``, ``api_key``, ``agent``, ``session``, ``run`` and ``seed`` default to the variables ``UMBRA_URL``
    (``http://127.0.0.1:7817`` unless set), ``UMBRA_API_KEY`` or ``UMBRA_API_KEY_FILE``, ``UMBRA_AGENT`` (``python``
    unless set), ``UMBRA_SESSION``, ``UMBRA_RUN`` and ``UMBRA_SEED``. Without a run the session is the run, and without
    a session the process.

    ``decision_timeout``: the longest wait for a decision, and for a step of a sidecar, in seconds.
    ``timeout``: the longest time of any other request, in seconds. Within it, a request that may be repeated is sent
    again while the server is away or busy.

    A client is safe to use from several threads and event loops. It is closed by its block or by ``aclose``; a client
    that lives as long as the program need not be closed.
    """

    events: AsyncEvents
    """Copies of what agents do."""
    findings: AsyncFindings
    """Findings of the shadows."""
    approvals: AsyncApprovals
    """Calls that wait for a person."""
    execution: AsyncExecution
    """Live or shadow."""
    runs: AsyncRuns
    """Runs, each in live or shadow."""
    trajectories: AsyncTrajectories
    """Tasks with their events and findings."""
    breakers: AsyncBreakers
    """Recommendations to stop routing work to an agent."""
    reflexions: AsyncReflexions
    """Recommendations that an agent reconsiders a recurring fault."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        agent: str | None = None,
        *,
        session: str | None = None,
        run: str | None = None,
        seed: str | None = None,
        timeout: float = 30.0,
        decision_timeout: float = 2.0,
    ) -> None:
        core = self._begin(url, api_key, agent, session, run, seed, timeout, decision_timeout)
        self._over(core)
        core._async = self

    @classmethod
    def _of(cls, core: Core) -> AsyncUmbra:
        client = object.__new__(cls)
        client._over(core)
        return client

    def _over(self, core: Core) -> None:
        self._core = core
        self._http = io.Http(core.config, core.transport)
        self.events = AsyncEvents(self)
        self.findings = AsyncFindings(self)
        self.approvals = AsyncApprovals(self)
        self.execution = AsyncExecution(self)
        self.runs = AsyncRuns(self)
        self.trajectories = AsyncTrajectories(self)
        self.breakers = AsyncBreakers(self)
        self.reflexions = AsyncReflexions(self)

    async def __aenter__(self) -> AsyncUmbra:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections. A request after it opens new ones."""
        await self._http.close()
        # Reports of outcomes, and tools that are plain functions, have connections of their own.
        self._core.close()

    async def status(self) -> models.Status:
        """Returns the state of the server: version, queue, shadows, providers of models, and what it needs."""
        return await self._get(models.Status, path("status"))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Sends a request to any operation of the API; returns the JSON object of its answer::

            await umbra.request("GET", "/v1/sessions", query={"state": "open"})

        A ``GET`` is sent again like every other read. Raises :class:`APIError` and :class:`Unavailable`.
        """
        if not path.startswith("/"):
            raise ValueError(f"path begins with a slash, as /v1/status does, and is not {path!r}")
        method = method.upper()
        asked = Request(method, path, body, query or {}, headers or {}, repeatable=method == "GET")
        return dict((await self._send(asked)).body)

    async def flush(self, timeout: float = LAST_WORDS) -> bool:
        """Waits until every outcome is reported, ``timeout`` seconds at most. Returns True if none waits any more.

        A program that ends does so by itself; a child of :mod:`multiprocessing` does not, so flush at its end. While
        the server is away outcomes wait, 1,000 at most. Those that it refuses, or fails to take five times, are
        dropped, with one warning in the log.
        """
        until = time.monotonic() + timeout
        outcomes = self._core.outcomes
        with outcomes.hurried():
            while outcomes.pending and time.monotonic() < until:
                await io.sleep(0.005)
        return not outcomes.pending

    async def decide(self, call: Mapping[str, Any] | models.DecideRequest) -> models.DecideAnswer:
        """Returns the decision about a call. Run the call only if ``decision`` is ``execute``, then ``report`` it.

        ``call`` has ``call_id``, ``tool`` and ``arguments``, and may have all other members of ``POST /v1/decide``;
        agent, session, run, route and modes are those of the client and of :meth:`context` unless given.
        :meth:`call_tool` follows the decision as well.

        Raises :class:`APIError` if the server refuses the question itself, and :class:`UndecidedCall` if it does not
        answer in time.
        """
        return self._parsed(models.DecideAnswer, await self._decide(self._decision_request(call)))

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        function: Callable[[], Awaitable[Any]],
        *,
        server: str | None = None,
        description: str | None = None,
        effect: str | None = None,
        stub: Any = UNSET,
        stub_override: Any = UNSET,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        annotations: Mapping[str, Any] | None = None,
        call_id: str | None = None,
    ) -> Any:
        """Makes a call of a tool as :meth:`tool` does, without a decorator: for agents' frameworks and tools by name.

        Decides about the call by its ``arguments``, which are those that the model gave. Then it returns the result of
        ``function()`` and reports it, or returns the stub, or raises :class:`Blocked`, :class:`ApprovalRequired`,
        :class:`UndecidedCall` or :class:`StubFault`. Within a block of a sidecar's guardrails, its rules come first.
        ``call_id`` is the caller's id of the call, made up unless given: the same id asks again about the same call.
        ``stub_override`` is the result in rehearsal, whatever the contract says.
        The other parameters are those of :meth:`tool`, and of the tool in ``tools/list``.
        """
        described = Tool(
            name=tool,
            server=server,
            description=description,
            effect=effect,
            stub=stub,
            input_schema=input_schema,
            output_schema=output_schema,
            annotations=annotations,
            core=self._core,
        )
        call = Call.given(described, arguments, function)
        call.id, call.override, call.guard = call_id or call.id, stub_override, self._core
        return await self._made(call)

    def sidecar(
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
    ) -> AsyncSidecar:
        """Returns a session of the sidecar, to be entered as a block: ``async with umbra.sidecar(task="...") as s``.

        ``agent``: the agent's name, the client's unless given. ``task``: the task in words; ``task_id``: the task's id
        in the agent's events. ``route`` and ``modes``: the agent's activity and ways of working, for rules that name
        them; those of :meth:`context` unless given. ``objectives``: functions of the sidecar, all unless given.
        ``tools``: definitions in the form of ``tools/list`` of the Model Context Protocol, each with its ``server``, or
        in the forms of the APIs of OpenAI and Anthropic. ``documents``: texts by name. If the server has a workspace,
        documents are files as well, in the folder ``folder`` if given. ``model``: the model that the agent runs on.
        ``id``: resumes this session of another program; with ``close=False`` the end of the block leaves it open. A
        session that is closed or unknown cannot be resumed: the log has a warning, and every answer is ``degraded``.
        ``deadline``: longest time of a request in seconds, the client's ``timeout`` unless given. ``strict``: raises
        :class:`Unavailable` where the answer would be ``degraded``.
        """
        return AsyncSidecar(
            agent,
            task=task,
            task_id=task_id,
            route=route,
            modes=modes,
            objectives=objectives,
            tools=tools,
            documents=documents,
            folder=folder,
            model=model,
            id=id,
            close=close,
            deadline=deadline,
            strict=strict,
            client=self,
        )

    # Calls of tools.

    async def _made(self, call: Call) -> Any:
        """Makes a call: asks the rules of the block that it is made in, and then the boundary."""
        rules = rules_in_force.get()
        if rules is None:
            return await self._decided(call)
        session = rules.session._twin(AsyncSidecar)
        return await guarded(session, rules, call, lambda: self._decided(call))

    async def _decided(self, call: Call) -> Any:
        """Makes a call as the boundary decides."""
        if call.passes(self._core):
            return await self._unreported(call)
        request = Request("POST", path("decide"), call.question(self._core), repeatable=True, exact=True)
        try:
            answer = await self._decide(request)
        except UndecidedCall as gone:
            call.undecided(self._core, gone)
            return await self._unreported(call)
        except APIError as refused:
            raise self._refused(call.tool.name, refused) from refused
        stub = call.stub_of(answer)
        return stub if stub is not UNSET else await self._ran(call, answer, lambda: call.as_decided(call.run))

    async def _unreported(self, call: Call) -> Any:
        """Runs a call that has no decision of its own."""
        with running(call):
            return await io.awaited(call.run())

    async def _ran(self, call: Call, answer: Mapping[str, Any], run: Callable[[], Awaitable[Any]]) -> Any:
        """Runs a call, and reports its outcome."""
        outcome = Outcome(self._core, call)
        try:
            with running(call):
                result = await io.awaited(run())
        except BaseException as error:
            if not isinstance(error, call.pauses):
                outcome.failed(error)
            raise
        if not io.is_async and inspect.isawaitable(result):
            # The call has only begun: a plain function has returned a coroutine.
            return later(self._core, call, answer, result)
        outcome.succeeded(result)
        return call.merged(result, answer)

    async def _decide(self, request: Request) -> dict[str, Any]:
        try:
            response = await self._http.request(request, self._core.config.decision_timeout)
        except NoAnswer as gone:
            raise self._undecided(request, gone)  # noqa: B904
        return self._decision(request, response)

    # Other requests.

    async def _send(self, request: Request, wait: float = 0.0) -> Response:
        """Returns the answer to a request, which is sent again if need be; it may take ``wait`` seconds more.

        Raises :class:`APIError` and :class:`Unavailable`.
        """
        retry = Retry(request, self.url, self._core.config.timeout + wait, ATTEMPT + wait)
        while True:
            try:
                response = await self._http.request(request, retry.seconds())
            except NoAnswer as gone:
                await io.sleep(retry.unanswered(gone))
                continue
            pause = retry.answered(response)
            if pause is None:
                self._core.answered()
                return response
            await io.sleep(pause)

    async def _get(self, kind: type[M], full: str, params: Mapping[str, Any] | None = None, wait: float = 0.0) -> M:
        response = await self._send(Request("GET", full, params=params or {}, repeatable=True), wait)
        return self._parsed(kind, response.body)

    async def _post(self, kind: type[M], full: str, body: Any, repeatable: bool = False, method: str = "POST") -> M:
        response = await self._send(Request(method, full, body, repeatable=repeatable))
        return self._parsed(kind, response.body)
