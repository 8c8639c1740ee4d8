"""Umbra's execution boundary around Python tools: one file, no dependencies, Python 3.8 or newer.

    import umbra

    @umbra.tool(effect="write", stub={"status": "sent", "id": "stub-1"})
    def send_email(to: str, subject: str) -> dict:
        ...

Before each call the client asks the server for a decision (``POST /v1/decide``) and follows it: the function runs, or
its stub is returned and nothing runs, or :class:`Blocked` or :class:`ApprovalRequired` is raised. The outcome of a call
that ran is reported in the background (``POST /v1/calls/{call_id}/outcome``); the caller does not wait for the report.

While the server cannot be reached, a tool declared ``effect="read"`` runs, with a warning in the log, and every other
tool is refused with :class:`Unavailable`: no call that may change something runs without a decision. A tool that the
server has called a write, or destructive, since the program began, does not run without the server either, even if it
is declared a read.

Server, key and agent are set by :func:`configure`, or by the variables ``UMBRA_URL`` (``http://127.0.0.1:7817`` unless
set), ``UMBRA_API_KEY`` or ``UMBRA_API_KEY_FILE``, ``UMBRA_AGENT``, ``UMBRA_SESSION``, ``UMBRA_RUN``, ``UMBRA_SEED``.
:func:`context` sets a run, a route or modes for a part of a program. Without a run the session is the run, and without
a session the process.

The companion of a session, ``async with umbra.sidecar(...)``, is in the package ``umbra_sidecar`` beside this file
(Python 3.10 or newer). The names of the package are available here as well, and loaded when first used.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import dataclasses
import datetime
import decimal
import enum
import functools
import http.client
import importlib
import inspect
import io
import json
import logging
import os
import pathlib
import queue
import socket
import ssl
import threading
import time
import typing
import urllib.parse
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Callable, Dict, Generator, Iterable, Iterator, Mapping, Optional, Sequence, Set, TypeVar, Union
from typing import overload

if TYPE_CHECKING:
    from umbra_sidecar import Conflict as Conflict
    from umbra_sidecar import Document as Document
    from umbra_sidecar import FakeSidecar as FakeSidecar
    from umbra_sidecar import NotUpdated as NotUpdated
    from umbra_sidecar import ResultWithheld as ResultWithheld
    from umbra_sidecar import Sidecar as Sidecar
    from umbra_sidecar import SidecarError as SidecarError
    from umbra_sidecar import SidecarRefused as SidecarRefused
    from umbra_sidecar import SidecarUnavailable as SidecarUnavailable
    from umbra_sidecar import quote_patterns as quote_patterns
    from umbra_sidecar import sidecar as sidecar

__all__ = [
    "ApprovalRequired",
    "Blocked",
    "Client",
    "StubFault",
    "Unavailable",
    "configure",
    "context",
    "flush",
    "tool",
]
__version__ = "0.1.0"

_log = logging.getLogger("umbra")
_F = TypeVar("_F", bound=Callable[..., Any])

_EFFECTS = ("read", "write", "destructive")
# Most bytes of JSON of a result that is reported; of a larger result only the fact that the tool returned is reported.
_MOST_RESULT = 256 * 1024
_MOST_ERROR = 4_000
# Outcomes that wait for a slow server; more are dropped, and the log says so.
_MOST_WAITING = 1_000
# Mark for "no stub", since None is a valid stub.
_NONE: Any = object()
# Name of this process; together with the process id it names each fork as well.
_PROCESS = uuid.uuid4().hex[:12]
# Most tools that are remembered as no reads; beyond them, no tool runs while the server is away.
_MOST_TOOLS = 10_000
# Longest time that an ending program waits for its outcomes to be reported, in seconds.
_LAST_WORDS = 2.0


class Blocked(Exception):
    """The call may not run. ``reason`` is a stable code, ``decision`` the server's whole answer (None without one)."""

    def __init__(self, tool: str, reason: str, detail: str, decision: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(f"{tool} was not run ({reason}): {detail}")
        self.tool, self.reason, self.detail, self.decision = tool, reason, detail, decision

    @property
    def rule(self) -> Optional[str]:
        """Name of the deciding rule, if a rule decided."""
        decision = self.decision or {}
        return decision.get("rule") or (decision.get("guard") or {}).get("rule")


class ApprovalRequired(Blocked):
    """A person must approve this call first. With an approval, a call with the same arguments runs once.

    ``approval_id`` is for ``POST /v1/approvals/{id}``; the approval expires at ``expires_at`` (RFC 3339).
    """

    def __init__(self, tool: str, decision: Mapping[str, Any]) -> None:
        approval = decision.get("approval") or {}
        self.approval_id: str = approval.get("id", "")
        self.expires_at: str = approval.get("expires_at", "")
        detail = f"{decision.get('detail') or 'a rule asks for it'}; approve {self.approval_id} and call again"
        super().__init__(tool, "approval_required", detail, decision)


class Unavailable(Blocked):
    """The server could not be asked, and the tool may change something."""


class StubFault(Exception):
    """The rehearsed call failed, at a rate of its contract. ``fault`` is the error's name, ``result`` the error."""

    def __init__(self, tool: str, fault: str, result: Any) -> None:
        super().__init__(f"{tool} failed in rehearsal: {fault}")
        self.tool, self.fault, self.result = tool, fault, result


class _NoAnswer(Exception):
    """The server did not answer, or not in time, or the answer is not one of an Umbra server."""


@dataclasses.dataclass(frozen=True)
class _Place:
    """Context of a call: agent, session, run, route and modes."""

    agent: Optional[str] = None
    session: Optional[str] = None
    run: Optional[str] = None
    parent_run: Optional[str] = None
    seed: Optional[str] = None
    route: Optional[str] = None
    modes: Sequence[str] = ()

    def over(self, below: "_Place") -> "_Place":
        pick = {f.name: getattr(self, f.name) or getattr(below, f.name) for f in dataclasses.fields(self)}
        return _Place(**pick)


_place: "contextvars.ContextVar[_Place]" = contextvars.ContextVar("umbra_place", default=_Place())
# The sidecar's guardrails that apply to tools called here.
_guardrails: "contextvars.ContextVar[Any]" = contextvars.ContextVar("umbra_guardrails", default=None)


class Client:
    """Connection to a server of Umbra, with the identity of the caller.

    ``url``, ``key``, ``agent``, ``session``, ``run`` and ``seed`` default to the variables ``UMBRA_...``. ``timeout``
    is the longest wait for a decision, in seconds. A client is safe to use from several threads and event loops. It
    remembers the tools that the server has called no read, and refuses their calls while the server is away.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        key: Optional[str] = None,
        agent: Optional[str] = None,
        session: Optional[str] = None,
        run: Optional[str] = None,
        seed: Optional[str] = None,
        timeout: float = 2.0,
    ) -> None:
        env = os.environ.get
        self.url = (url or env("UMBRA_URL") or "http://127.0.0.1:7817").rstrip("/")
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.url!r} is no address of a server: write http://HOST:PORT or https://HOST")
        if not timeout > 0:
            raise ValueError("timeout is in seconds and above 0")
        self._parts = parts
        self._key = key or env("UMBRA_API_KEY") or _first_line(env("UMBRA_API_KEY_FILE"))
        self.timeout = timeout
        self.place = _Place(
            agent=agent or env("UMBRA_AGENT") or "python",
            session=session or env("UMBRA_SESSION"),
            run=run or env("UMBRA_RUN"),
            seed=seed or env("UMBRA_SEED"),
        )
        self._local = threading.local()
        self._threads: Optional[ThreadPoolExecutor] = None
        self._outbox: "queue.Queue[Optional[tuple[str, Dict[str, Any]]]]" = queue.Queue(_MOST_WAITING)
        self._reporter: Optional[threading.Thread] = None
        self._lock = threading.Lock()
        # Tools that the server has called a write, or destructive.
        self._no_reads: Set[str] = set()

    def decide(self, call: Mapping[str, Any]) -> Dict[str, Any]:
        """Asks for a decision about a call (the body of ``POST /v1/decide``) and returns the answer.

        Raises :class:`Blocked` when the server refuses the question itself, and :class:`Unavailable` when the server
        does not answer in time.
        """
        name = _tool_name(call.get("tool") or {})
        try:
            status, answer = self._post("/v1/decide", call, self.timeout)
        except _NoAnswer as gone:
            raise Unavailable(name, "unavailable", f"{self.url} did not answer: {gone}") from None
        if status in (408, 425, 429) or status >= 500:
            raise Unavailable(name, "unavailable", f"{self.url} answered {status}: {_words(answer)}")
        if status != 200:
            raise Blocked(name, str(answer.get("code") or status), f"{self.url} refused the question: {_words(answer)}")
        if answer.get("decision") not in ("execute", "stub", "ask", "block"):
            raise Unavailable(name, "unavailable", f"what answers at {self.url} is no server of Umbra")
        if answer.get("effect") != "read" and len(self._no_reads) < _MOST_TOOLS:
            self._no_reads.add(name)
        return answer

    def may_read(self, name: str) -> bool:
        """Returns True if the server has never called this tool no read: then a declared read may run without it."""
        return name not in self._no_reads and len(self._no_reads) < _MOST_TOOLS

    def report(self, call_id: str, outcome: Mapping[str, Any]) -> None:
        """Reports the outcome of a call (the body of ``POST /v1/calls/{call_id}/outcome``) in the background."""
        with self._lock:
            if self._reporter is None or not self._reporter.is_alive():
                self._reporter = threading.Thread(target=self._report_all, name="umbra-outcomes", daemon=True)
                self._reporter.start()
                atexit.register(self.flush)
        try:
            self._outbox.put_nowait((call_id, dict(outcome)))
        except queue.Full:
            _log.warning("umbra: %d outcomes wait for %s; that of call %s is dropped", _MOST_WAITING, self.url, call_id)

    def flush(self, timeout: float = _LAST_WORDS) -> bool:
        """Waits until every outcome is reported, ``timeout`` seconds at most. Returns True if all were reported."""
        until = time.monotonic() + timeout
        while self._outbox.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.005)
        return not self._outbox.unfinished_tasks

    async def _decide_async(self, call: Mapping[str, Any]) -> Dict[str, Any]:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="umbra")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.decide, call)

    def _report_all(self) -> None:
        while True:
            waiting = self._outbox.get()
            if waiting is None:
                return
            call_id, outcome = waiting
            try:
                path = f"/v1/calls/{urllib.parse.quote(call_id, safe='')}/outcome"
                status, answer = self._post(path, outcome, max(self.timeout, 5.0))
                if status >= 400:
                    _log.warning("umbra: the outcome of call %s was refused (%s): %s", call_id, status, _words(answer))
            except _NoAnswer as gone:
                _log.warning("umbra: the outcome of call %s is not reported: %s", call_id, gone)
            finally:
                self._outbox.task_done()

    def _post(self, path: str, body: Mapping[str, Any], timeout: float) -> "tuple[int, Dict[str, Any]]":
        return self._send(
            path, json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass"), timeout
        )

    def _send(self, path: str, data: bytes, timeout: float) -> "tuple[int, Dict[str, Any]]":
        headers = {"Content-Type": "application/json", "User-Agent": f"umbra-python/{__version__}"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        until = time.monotonic() + timeout
        # A kept connection may have been closed by now: then a new one is tried. A repeated question gets the same
        # answer as the first, by its call_id.
        for kept in (True, False):
            connection = getattr(self._local, "connection", None) if kept else None
            self._local.connection = None
            if kept and connection is None:
                continue
            try:
                return self._exchange(connection, path, data, headers, until)
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as gone:
                if not kept:
                    raise _NoAnswer(str(gone) or type(gone).__name__) from None
            except (OSError, http.client.HTTPException, ValueError, RecursionError) as gone:
                raise _NoAnswer(str(gone) or type(gone).__name__) from None
        raise _NoAnswer("no connection")

    def _exchange(
        self,
        connection: Optional[http.client.HTTPConnection],
        path: str,
        data: bytes,
        headers: Mapping[str, str],
        until: float,
    ) -> "tuple[int, Dict[str, Any]]":
        def left() -> float:
            seconds = until - time.monotonic()
            if seconds <= 0:
                raise socket.timeout("no answer in time")
            return seconds

        if connection is None:
            host, port = self._parts.hostname or "", self._parts.port
            if self._parts.scheme == "https":
                context = ssl.create_default_context()
                connection = http.client.HTTPSConnection(host, port, timeout=left(), context=context)
            else:
                connection = http.client.HTTPConnection(host, port, timeout=left())
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            connection.sock.settimeout(left())
            connection.request("POST", self._parts.path + path, body=data, headers=dict(headers))
            connection.response_class = functools.partial(_Response, left)  # type: ignore[assignment]
            response = connection.getresponse()
            answer = _answer(response.status, response.read())
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._local.connection = connection
        return response.status, answer


class _Response(http.client.HTTPResponse):
    """A response that is read within one deadline, even if its bytes arrive slowly."""

    def __init__(self, left: Callable[[], float], sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_Timed(self.fp.detach(), sock, left))


class _Timed(io.RawIOBase):
    """Input of a socket that is read until the deadline."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, left: Callable[[], float]) -> None:
        self._raw, self._sock, self._left = raw, sock, left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        self._sock.settimeout(self._left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


_default: Optional[Client] = None
_default_lock = threading.Lock()


def configure(**settings: Any) -> Client:
    """Sets the server and the agent that tools use unless they name a client; see :class:`Client`."""
    global _default
    client = Client(**settings)
    with _default_lock:
        _default = client
    return client


def flush(timeout: float = _LAST_WORDS) -> bool:
    """Waits until the outcomes of the default client are reported. Returns True if all were reported."""
    return _client().flush(timeout)


def _client() -> Client:
    global _default
    with _default_lock:
        if _default is None:
            _default = Client()
        return _default


@contextlib.contextmanager
def context(
    agent: Optional[str] = None,
    session: Optional[str] = None,
    run: Optional[str] = None,
    parent_run: Optional[str] = None,
    seed: Optional[str] = None,
    route: Optional[str] = None,
    modes: Sequence[str] = (),
) -> Iterator[None]:
    """Sets agent, session, run, route and modes of the calls made within the block.

    A run within a run inherits the execution of the outer run: ``parent_run`` is the outer run unless it is given.
    Modes stack: inner modes are added to outer modes.
    """
    if isinstance(modes, str):
        raise TypeError("modes is a list of names")
    outer = _place.get()
    if run and not parent_run:
        above = outer.run or _client().place.run
        parent_run = above if above != run else None
    inner = _Place(agent, session, run, parent_run, seed, route, ()).over(dataclasses.replace(outer, modes=()))
    token = _place.set(dataclasses.replace(inner, modes=(*outer.modes, *modes)))
    try:
        yield
    finally:
        _place.reset(token)


@overload
def tool(function: _F) -> _F: ...
@overload
def tool(
    function: None = None,
    *,
    effect: Optional[str] = None,
    name: Optional[str] = None,
    server: Optional[str] = None,
    stub: Any = _NONE,
    output_schema: Optional[Mapping[str, Any]] = None,
    client: Optional[Client] = None,
) -> Callable[[_F], _F]: ...
def tool(
    function: Optional[_F] = None,
    *,
    effect: Optional[str] = None,
    name: Optional[str] = None,
    server: Optional[str] = None,
    stub: Any = _NONE,
    output_schema: Optional[Mapping[str, Any]] = None,
    client: Optional[Client] = None,
) -> Union[_F, Callable[[_F], _F]]:
    """Puts the execution boundary around a function, or a coroutine function, that an agent calls as a tool.

    ``effect``: ``read``, ``write`` or ``destructive``. The effect decides about calls while the server cannot be asked,
    unless the server has said something stricter before. It is also sent to the server, whose contracts and rules come
    first. The server believes it if the key has the scope ``declare`` or the server has no keys, and otherwise only if
    it is stricter than the effect that the server knows. Without ``effect`` the server goes by the tool's name, and
    takes the tool for destructive if the name is unclear.
    ``name`` and ``server``: the tool's name in contracts (``server.name``); the function's own name unless given.
    ``stub``: the result in rehearsal where the server has no contract: any value, None included, or a function of the
    same arguments that returns one. The function is called before each question, and its value is returned unchanged;
    the server validates the JSON form of the value and audits it.
    ``output_schema``: JSON Schema of the result, from which the server makes a stub if there is no contract and no
    stub.

    A contract's result is converted to the type that the function is annotated to return: a dataclass, a Pydantic
    model, a tuple, bytes, a Decimal and others. A stub that cannot be converted raises :class:`Blocked`
    (``invalid_stub``).

    A call may carry ``_guard_stub=VALUE``: the result of this one call in rehearsal.

    Raises :class:`Blocked`, :class:`ApprovalRequired`, :class:`Unavailable` or :class:`StubFault` in place of a result;
    exceptions of the function itself pass unchanged.
    """
    if effect is not None and effect not in _EFFECTS:
        raise ValueError(f"effect is one of {', '.join(_EFFECTS)}, not {effect!r}")

    def around(function: _F) -> _F:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__name__} is a generator: a tool returns its result, so collect it first")
        guarded = _Tool(function, effect, name, server, stub, output_schema, client)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def asynchronous(*args: Any, **kwargs: Any) -> Any:
                holds = _guardrails.get()
                if holds is not None:
                    return await holds.call_async(guarded, guarded.call_async, args, kwargs)
                return await guarded.call_async(args, kwargs)

            guarded.drawn = asynchronous
            asynchronous.__umbra_tool__ = guarded  # type: ignore[attr-defined]
            return asynchronous  # type: ignore[return-value]

        @functools.wraps(function)
        def synchronous(*args: Any, **kwargs: Any) -> Any:
            holds = _guardrails.get()
            if holds is not None:
                return holds.call(guarded, guarded.call, args, kwargs)
            return guarded.call(args, kwargs)

        guarded.drawn = synchronous
        synchronous.__umbra_tool__ = guarded  # type: ignore[attr-defined]
        return synchronous  # type: ignore[return-value]

    return around if function is None else around(function)


class _Tool:
    """A function with the boundary around it."""

    def __init__(
        self,
        function: Callable[..., Any],
        effect: Optional[str],
        name: Optional[str],
        server: Optional[str],
        stub: Any,
        output_schema: Optional[Mapping[str, Any]],
        client: Optional[Client],
    ) -> None:
        self.function, self.effect, self.stub, self.client = function, effect, stub, client
        # The type that the function is annotated to return, once looked up.
        self.returns: Any = _NONE
        # The decorated function, which callers call in place of the original.
        self.drawn: Optional[Callable[..., Any]] = None
        self.signature = inspect.signature(function)
        first = next(iter(self.signature.parameters), None)
        # `self` or `cls` of a method is no argument of the tool.
        self.bound = first in ("self", "cls") and "." in function.__qualname__.rpartition("<locals>.")[2]
        self.described: Dict[str, Any] = {"name": name or function.__name__}
        if server:
            self.described["server"] = server
        if function.__doc__:
            self.described["description"] = inspect.cleandoc(function.__doc__)[:8_000]
        if effect is not None:
            read_only, destructive = effect == "read", effect == "destructive"
            self.described["annotations"] = {"readOnlyHint": read_only, "destructiveHint": destructive}
        if output_schema is not None:
            self.described["output_schema"] = dict(output_schema)
        self.name = _tool_name(self.described)

    def call(self, args: "tuple[Any, ...]", kwargs: Dict[str, Any]) -> Any:
        walk = self.walk(args, kwargs)
        question = next(walk)
        while True:
            try:
                step = walk.send(question.client.decide(question.body))
            except Blocked as refusal:
                step = walk.throw(refusal)
            if isinstance(step, _Question):
                question = step
            elif isinstance(step, _Run):
                return step.finish(lambda: self.function(*args, **step.kwargs))
            else:
                return step.value

    async def call_async(self, args: "tuple[Any, ...]", kwargs: Dict[str, Any]) -> Any:
        walk = self.walk(args, kwargs)
        question = next(walk)
        while True:
            try:
                step = walk.send(await question.client._decide_async(question.body))
            except Blocked as refusal:
                step = walk.throw(refusal)
            if isinstance(step, _Question):
                question = step
            elif isinstance(step, _Run):
                return await step.finish_async(lambda: self.function(*args, **step.kwargs))
            else:
                return step.value

    def walk(self, args: "tuple[Any, ...]", kwargs: Dict[str, Any]) -> Generator[Any, Any, None]:
        """Steps of one call: yields questions, receives their answers, and yields the action at last."""
        client = self.client or _client()
        kwargs = dict(kwargs)
        override = kwargs.pop("_guard_stub", None)
        place = _place.get().over(client.place)
        call_id = uuid.uuid4().hex
        body: Dict[str, Any] = {
            "call_id": call_id,
            "agent": place.agent,
            "tool": self.described,
            "arguments": self.arguments(args, kwargs),
            "deadline_ms": max(1, int(client.timeout * 1000)),
        }
        if self.effect is not None:
            body["declared_effect"] = self.effect
        for key in ("session", "run", "parent_run", "seed", "route"):
            if getattr(place, key):
                body[key] = getattr(place, key)
        if not place.run and not place.session:
            # A fork counts as a process of its own.
            body.update(run=f"process-{_PROCESS}-{os.getpid()}", default_run=True)
        if place.modes:
            body["modes"] = list(place.modes)
        own: Any = None
        failed: Optional[Exception] = None
        if override is not None:
            body["stub_override"] = _plain(override)
        elif self.stub is not _NONE:
            try:
                own = self.stub(*args, **kwargs) if callable(self.stub) else self.stub
                body["stub_fallback"] = {"result": _plain(own)}
            except Exception as error:
                # The error matters only if the stub is needed: a call that runs needs no stub.
                failed = error
        try:
            answer = yield _Question(client, body)
        except Unavailable as gone:
            if self.effect != "read":
                raise
            if not client.may_read(self.name):
                detail = f"{gone.detail}; it is declared a read, but the server has said that it is none"
                raise Unavailable(self.name, "unavailable", detail) from None
            _log.warning("umbra: %s; %s reads, so it runs all the same", gone.detail, self.name)
            yield _Run(None, body, {}, kwargs, self.typed)
            return
        if answer["decision"] == "execute":
            self.agree(answer)
            yield _Run(client, body, answer, kwargs, self.typed)
        elif answer["decision"] == "stub":
            stub = answer.get("stub") or {}
            if stub.get("fault"):
                raise StubFault(self.name, stub["fault"], stub.get("result"))
            if override is not None:
                yield _Value(override)
            elif stub.get("is_fallback"):
                yield _Value(own)
            else:
                yield _Value(self.typed(stub.get("result"), answer))
        elif answer.get("reason") == "no_contract" and failed is not None:
            raise failed
        elif answer["decision"] == "ask":
            raise ApprovalRequired(self.name, answer)
        else:
            raise Blocked(self.name, answer.get("reason") or "policy", answer.get("detail") or "no reason given", answer)

    def agree(self, answer: Mapping[str, Any]) -> None:
        """Refuses a live call that changes something if this program is in safe mode (AGENT_SAFE_MODE)."""
        if _safe_mode() and answer.get("execution") == "live" and answer.get("effect") != "read":
            detail = "AGENT_SAFE_MODE is set here, but the server runs calls live: set it for the server as well"
            raise Blocked(self.name, "safe_mode_mismatch", detail, answer)

    def typed(self, result: Any, answer: Optional[Mapping[str, Any]] = None) -> Any:
        """Converts a JSON value to the type that the function is annotated to return."""
        if self.returns is _NONE:
            try:
                self.returns = typing.get_type_hints(self.function).get("return", Any)
            except Exception:
                # An annotation names a type that does not exist at run time.
                self.returns = Any
        if self.returns is None or self.returns is type(None):
            return None
        try:
            return _typed(result, self.returns)
        except Exception as error:
            detail = f"the stub cannot be made the type that {self.function.__name__} returns: {error}"
            raise Blocked(self.name, "invalid_stub", detail, answer) from error

    def arguments(self, args: "tuple[Any, ...]", kwargs: Mapping[str, Any]) -> Dict[str, Any]:
        """Returns the arguments by name, with defaults, as JSON values."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named = dict(bound.arguments)
        if self.bound:
            named.pop(next(iter(self.signature.parameters)), None)
        more: Mapping[str, Any] = {}
        for parameter in self.signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                more = named.pop(parameter.name, {})
        plain = _plain(_Pairs([*named.items(), *more.items()]), _MOST_VALUES)
        return plain  # type: ignore[no-any-return]


def _safe_mode() -> bool:
    """Returns True if AGENT_SAFE_MODE is set, as the server reads it: its name in any case, any value except "off"."""
    said = (value.strip().lower() for name, value in os.environ.items() if name.upper() == "AGENT_SAFE_MODE")
    return any(value not in ("", "0", "false", "no", "off") for value in said)


@dataclasses.dataclass
class _Question:
    client: Client
    body: Dict[str, Any]


@dataclasses.dataclass
class _Value:
    value: Any


@dataclasses.dataclass
class _Run:
    """Order to run the function. Without a client the outcome is not reported."""

    client: Optional[Client]
    body: Dict[str, Any]
    answer: Mapping[str, Any]
    kwargs: Dict[str, Any]
    typed: Callable[[Any], Any] = lambda result: result

    def finish(self, run: Callable[[], Any]) -> Any:
        began = time.monotonic()
        try:
            result = run()
        except BaseException as error:
            self.tell(began, error=error)
            raise
        if inspect.isawaitable(result):
            # The call has only begun: a callable object may return an awaitable although it is no coroutine function.
            return self.finish_async(lambda: result)
        self.tell(began, result=result)
        return self.merged(result)

    async def finish_async(self, run: Callable[[], Any]) -> Any:
        began = time.monotonic()
        try:
            result = await run()
        except BaseException as error:
            self.tell(began, error=error)
            raise
        self.tell(began, result=result)
        return self.merged(result)

    def merged(self, result: Any) -> Any:
        merge = self.answer.get("merge")
        if not merge:
            return result
        try:
            plain = _plain(result, _MOST_MERGED)
        except ValueError as odd:
            # The tool has run: its caller must get the result.
            _log.warning("umbra: what the run has rehearsed is not in the result of %s: %s", self.body["call_id"], odd)
            return result
        merged = _merge(plain, merge)
        with contextlib.suppress(Blocked):
            return self.typed(merged)
        return merged

    def tell(self, began: float, result: Any = None, error: Optional[BaseException] = None) -> None:
        if self.client is None:
            return
        outcome: Dict[str, Any] = {
            "agent": self.body["agent"],
            "status": "ok" if error is None else "error",
            "duration_ms": max(0, int((time.monotonic() - began) * 1000)),
        }
        if error is not None:
            outcome["error"] = type(error).__name__
        # The tool has run: its caller gets the result, even if reading the result for the report fails.
        with contextlib.suppress(Exception):
            if error is not None:
                outcome["error"] = f"{type(error).__name__}: {error}"[:_MOST_ERROR]
            else:
                plain = _plain(result, _MOST_VALUES)
                if plain is not None and len(json.dumps(plain, ensure_ascii=False)) <= _MOST_RESULT:
                    outcome["result"] = plain
        self.client.report(self.body["call_id"], outcome)


# Most values in the arguments or the result of a call: more of them mostly means a list that contains itself.
_MOST_VALUES = 250_000
# Most values in a result that rehearsed changes are merged into.
_MOST_MERGED = 2_000_000


class _Pairs:
    """Pairs of names and values, in which a name may occur twice."""

    def __init__(self, pairs: "Iterable[tuple[Any, Any]]") -> None:
        self.pairs = pairs


def _plain(value: Any, most: float = float("inf")) -> Any:
    """Converts a value to JSON. A value without a form in JSON becomes its text, so that rules can still read it.

    Raises :class:`ValueError` if the value has more than ``most`` parts.
    """
    return _Plain(most).of(value, 0)


def _keyed(pairs: "Iterable[tuple[str, Any]]") -> Dict[str, Any]:
    """Builds an object of all pairs. A repeated name gets another name, so that no value is hidden."""
    named: Dict[str, Any] = {}
    for key, item in pairs:
        while key in named:
            key += "~"
        named[key] = item
    return named


class _Plain:
    def __init__(self, most: float) -> None:
        self.left = most

    def of(self, value: Any, depth: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ValueError("it has too many values")
        if value is None or isinstance(value, (bool, int)):
            return value if not isinstance(value, int) or -(2**63) <= value < 2**64 else _digits(value)
        if isinstance(value, str):
            return value.encode("utf-8", "replace").decode("utf-8") if not value.isascii() else value
        if isinstance(value, float):
            return value if value == value and abs(value) != float("inf") else str(value)
        if isinstance(value, (bytes, bytearray)):
            return value.decode("utf-8", "replace")
        if isinstance(value, enum.Enum):
            return self.of(value.value, depth + 1)
        if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, datetime.timedelta):
            return value.total_seconds()
        if depth >= 32:
            return str(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if isinstance(value, (Mapping, _Pairs)):
            pairs = value.pairs if isinstance(value, _Pairs) else value.items()
            return _keyed((str(key), self.of(item, depth + 1)) for key, item in pairs)
        if isinstance(value, (list, tuple)):
            return [self.of(item, depth + 1) for item in value]
        if isinstance(value, (set, frozenset)):
            items = (self.of(item, depth + 1) for item in value)
            return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
        for method in ("model_dump", "dict"):
            # Pydantic's models, of version 1 or 2.
            if not isinstance(value, type) and callable(getattr(value, method, None)):
                with contextlib.suppress(Exception):
                    return self.of(getattr(value, method)(), depth + 1)
        return str(value)


_SCALARS: Dict[type, Callable[[Any], Any]] = {
    bytes: lambda text: text.encode(),
    bytearray: lambda text: bytearray(text.encode()),
    complex: complex,
    decimal.Decimal: lambda number: decimal.Decimal(str(number)),
    float: lambda number: float(number) if not isinstance(number, bool) else _misfit(number, float),
    datetime.datetime: lambda text: datetime.datetime.fromisoformat(text.replace("Z", "+00:00")),
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    datetime.timedelta: lambda seconds: datetime.timedelta(seconds=seconds),
    uuid.UUID: uuid.UUID,
}


def _misfit(value: Any, kind: Any) -> Any:
    raise TypeError(f"{str(value)[:80]!r} is no {getattr(kind, '__name__', kind)}")


def _typed(value: Any, hint: Any) -> Any:
    """Converts a JSON value to a type. For an unknown type the value is returned unchanged."""
    kind, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind is Union or type(hint).__name__ == "UnionType":
        for part in sorted(parts, key=lambda part: part is not type(None)):
            with contextlib.suppress(Exception):
                return _typed(value, part)
        return _misfit(value, hint)
    if kind is typing.Literal:
        return value if value in parts else _misfit(value, hint)
    if type(hint).__name__ == "_AnnotatedAlias":
        return _typed(value, hint.__origin__)
    if kind is None or kind is type(None):
        return None if value is None else _misfit(value, "None")
    if not isinstance(kind, type):
        return value
    if hasattr(kind, "model_validate") or hasattr(kind, "parse_obj"):
        # Pydantic's models, of version 1 or 2.
        return kind.model_validate(value) if hasattr(kind, "model_validate") else kind.parse_obj(value)
    if kind in _SCALARS:
        return _SCALARS[kind](value)
    if issubclass(kind, enum.Enum):
        return kind(value)
    if issubclass(kind, pathlib.PurePath):
        return kind(value)
    if hasattr(kind, "__total__") or dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record(value, kind)
    if issubclass(kind, tuple):
        many = parts[:1] * len(value) if len(parts) == 2 and parts[1] is Ellipsis else parts or (Any,) * len(value)
        if not isinstance(value, list) or len(many) != len(value):
            return _misfit(value, hint)
        return tuple(_typed(item, part) for item, part in zip(value, many))
    if isinstance(value, list) and issubclass(kind, typing.Collection) and not issubclass(kind, (str, Mapping)):
        items = [_typed(item, parts[0]) if parts else item for item in value]
        return kind(items) if kind in (set, frozenset) else items
    if isinstance(value, dict) and issubclass(kind, Mapping):
        return {_typed(key, parts[0]): _typed(item, parts[1]) for key, item in value.items()} if parts else value
    if kind in (str, int, bool, list, dict) and (not isinstance(value, kind) or kind is int and isinstance(value, bool)):
        return _misfit(value, kind)
    return value


def _record(value: Any, kind: Any) -> Any:
    """Converts a JSON object to a dataclass, a named tuple or a typed dictionary."""
    if isinstance(value, list) and hasattr(kind, "_fields"):
        value = dict(zip(kind._fields, value))
    if not isinstance(value, dict):
        return _misfit(value, kind)
    hints = typing.get_type_hints(kind)
    members = {name: _typed(item, hints.get(name, Any)) for name, item in value.items()}
    return members if hasattr(kind, "__total__") else kind(**members)


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:
        # Python refuses to write so many digits in base 10.
        return hex(value)


def _answer(status: int, data: bytes) -> Dict[str, Any]:
    """Reads the JSON object of a response. A refusal counts in any form, since a proxy may have written it."""
    try:
        answer = json.loads(data or b"{}")
        if not isinstance(answer, dict):
            raise ValueError("the answer is no JSON object")
    except (ValueError, RecursionError):
        if status < 300:
            raise
        return {"detail": data[:200].decode("utf-8", "replace")}
    return answer


def _merge_text(text: str, changes: Mapping[str, Any]) -> str:
    """Applies replacements to a text, and removes and adds lines."""
    for edit in changes.get("edits") or []:
        text = text.replace(edit["oldText"], edit["newText"], 1)
    remove, add = changes.get("remove") or [], changes.get("add") or []
    if not remove and not add:
        return text
    lines = [line for line in text.splitlines() if line not in remove]
    lines.extend(line for line in add if line not in lines)
    return "\n".join(lines)


def _merge(result: Any, merge: Mapping[str, Any]) -> Any:
    """Merges the run's rehearsed changes into the result of a read that ran: a run reads its own writes."""

    def at(path: Optional[str]) -> Any:
        found = result
        for step in filter(None, (path or "").split(".")):
            found = found.get(step) if isinstance(found, dict) else None
        return found

    def of(item: Any) -> Optional[str]:
        value = item.get(key) if isinstance(item, dict) else None
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return None
        return (value if isinstance(value, str) else json.dumps(value)) or None

    items, key, patch = at(merge.get("items")), merge.get("key"), merge.get("patch") or {}
    if isinstance(items, str) and merge.get("text"):
        text = _merge_text(items, merge["text"])
        folder, _, name = (merge.get("items") or "").rpartition(".")
        if not name:
            return text
        at(folder)[name] = text
        return result
    if isinstance(items, dict) and not key and items.get("error") is None:
        # A result that is an error is no record, and has no fields to change.
        for fields in patch.values():
            _lay_over(items, fields)
    if not isinstance(items, list):
        return result
    removed = set(merge.get("remove") or [])
    items[:] = [item for item in items if of(item) not in removed]
    for item in items:
        if of(item) in patch:
            _lay_over(item, patch[of(item)])
    is_last = not merge.get("more") or at(merge["more"]) in (None, False, "", 0)
    for record in merge.get("put") or []:
        wanted = of(record)
        place = next((n for n, item in enumerate(items) if wanted is not None and of(item) == wanted), None)
        if place is not None:
            items[place] = record
        elif is_last:
            items.append(record)
    return result


def _lay_over(record: Dict[str, Any], fields: Mapping[str, Any]) -> None:
    """Lays fields over those of a record, members of members as well; null counts as a value."""
    for name, value in fields.items():
        own = record.get(name)
        if isinstance(own, dict) and isinstance(value, dict):
            _lay_over(own, value)
        else:
            record[name] = value


def _first_line(path: Optional[str]) -> Optional[str]:
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        return file.readline().strip() or None


def _tool_name(tool: Mapping[str, Any]) -> str:
    server, name = tool.get("server"), str(tool.get("name") or "?")
    return f"{server}.{name}" if server else name


def _words(answer: Mapping[str, Any]) -> str:
    words = str(answer.get("detail") or answer.get("title") or "no reason given")
    errors = answer.get("errors") or []
    told = "; ".join(f"{e.get('pointer', '')} {e.get('detail', '')}".strip() for e in errors[:3] if isinstance(e, dict))
    return f"{words} ({told})" if told else words


_OF_THE_SIDECAR = (
    "Conflict",
    "Document",
    "FakeSidecar",
    "NotUpdated",
    "ResultWithheld",
    "Sidecar",
    "SidecarError",
    "SidecarRefused",
    "SidecarUnavailable",
    "quote_patterns",
    "sidecar",
)


def __getattr__(name: str) -> Any:
    if name not in _OF_THE_SIDECAR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        package = importlib.import_module("umbra_sidecar")
    except ModuleNotFoundError as missing:
        if missing.name != "umbra_sidecar":
            raise
        raise ImportError(f"umbra.{name} is in the package umbra_sidecar: put it beside umbra.py") from None
    return getattr(package, name)
