"""Tools and their calls: names, the arguments that a model gave, and the consequences of a decision."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import json
import os
import re
import time
import types
import typing
import uuid
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ._config import Place, check_texts
from ._core import AWAY, Core, log
from ._json import MOST_VALUES, Pairs, is_mapping, object_in, plain, typed
from ._merge import merged
from .errors import ApprovalRequired, Blocked, StubFault, UndecidedCall

if TYPE_CHECKING:
    from ._guardrails import Rules

F = TypeVar("F", bound=Callable[..., Any])

EFFECTS = ("read", "write", "destructive")
# Most bytes of JSON of a result that is reported; of a larger result only the fact that the tool returned is reported.
_MOST_RESULT = 256 * 1024
_MOST_ERROR = 4_000
# Most values in a result that rehearsed changes are merged into.
MOST_MERGED = 2_000_000
# Name of this process; together with the process id it names each fork as well.
_PROCESS = uuid.uuid4().hex[:12]
# Names of classes by which agent frameworks hand their own objects to a tool. A model gives no such argument.
_CONTEXTS = {
    "CallbackManager",
    "Context",
    "InvocationContext",
    "ReadonlyContext",
    "RunContext",
    "RunContextWrapper",
    "RunnableConfig",
    "ToolContext",
    "ToolRuntime",
}
# Markers in annotations and defaults of parameters that a framework fills in.
_INJECTED = re.compile(
    r"^_*(Injected\w*|Inject|Depends|Current(AccessToken|Context|Docket|FastMCP|Headers|Request|Worker))$"
)


class _Unset:
    """Mark for a value that is not given, since None is a valid one."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()

# Rules of a sidecar that apply to tools called here: those of the innermost ``with session.guardrails()``.
rules_in_force: contextvars.ContextVar[Rules | None] = contextvars.ContextVar("umbra_rules", default=None)
# Decided call whose function runs here; a second guard around the same function asks no second time.
_running: contextvars.ContextVar[Call | None] = contextvars.ContextVar("umbra_running", default=None)


class Tool:
    """A tool: its name and description and, for a function, its parameters."""

    def __init__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        server: str | None = None,
        description: str | None = None,
        effect: str | None = None,
        stub: Any = UNSET,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        annotations: Mapping[str, Any] | None = None,
        ignore: Iterable[str] = (),
        core: Core | None = None,
    ) -> None:
        check_texts(name=name, server=server, description=description)
        if name is not None and not name.strip():
            raise ValueError("the name of a tool is empty")
        if effect is not None and effect not in EFFECTS:
            raise ValueError(f"effect is one of {', '.join(EFFECTS)}, not {effect!r}")
        kind = type(function).__name__
        if kind in ("classmethod", "staticmethod", "property"):
            raise TypeError(f"a tool is a function: write @{kind} above the decorator of the tool")
        named = name or name_of(function)
        if is_coroutine_function(stub):
            raise TypeError(f"the stub of {named} is a plain function, not a coroutine function")
        if stub is not UNSET and not callable(stub):
            try:
                plain(stub, strict=True)
            except ValueError as odd:
                raise TypeError(f"the stub of {named} is a value with a form in JSON: {odd}") from None
        self.function, self.effect, self.stub = function, effect, stub
        self.core = core
        """Client whose boundary is around the tool; None for a tool of a sidecar's guardrails alone."""
        self.described: dict[str, Any] = {"name": named}
        if server:
            self.described["server"] = server
        description = description if description is not None else _docstring_of(function)
        if description:
            self.described["description"] = description[:8_000]
        if annotations is not None:
            self.described["annotations"] = dict(annotations)
        elif effect is not None:
            self.described["annotations"] = {
                "readOnlyHint": effect == "read",
                "destructiveHint": effect == "destructive",
            }
        if input_schema is not None:
            self.described["input_schema"] = dict(input_schema)
        if output_schema is not None:
            self.described["output_schema"] = dict(output_schema)
        self.name = full_name(self.described)
        # The type that the function is annotated to return, once looked up.
        self._returns: Any = UNSET
        self.signature = inspect.signature(function) if function is not None else inspect.Signature()
        self._ignored = self._ignored_parameters(function, ignore)

    @property
    def reference(self) -> dict[str, Any]:
        """Name and server."""
        return {name: self.described[name] for name in ("server", "name") if name in self.described}

    def _ignored_parameters(self, function: Callable[..., Any] | None, ignore: Iterable[str]) -> set[str]:
        if isinstance(ignore, str):
            raise TypeError("ignore is a list of names of parameters")
        ignored, parameters = set(ignore), self.signature.parameters
        if unknown := ignored - set(parameters):
            raise ValueError(f"{self.name} has no parameter {', '.join(sorted(unknown))}: see ignore")
        if function is None:
            return ignored
        first = next(iter(parameters), None)
        # `self` or `cls` of a method is no argument of the tool.
        if first in ("self", "cls") and "." in getattr(function, "__qualname__", "").rpartition("<locals>.")[2]:
            ignored.add(first)
        hints = _hints(function)
        for name, parameter in parameters.items():
            # A default such as Depends(...) marks an injected parameter too.
            is_marked = _is_mark(parameter.default.__class__)
            if is_marked or _is_injected(hints.get(name, parameter.annotation)):
                ignored.add(name)
        return ignored

    def arguments(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """Returns the arguments that the model gave, by name, with defaults, as JSON values.

        Objects of a framework (a context, a runtime, injected dependencies) and ignored parameters are left out.
        """
        bound.apply_defaults()
        named = dict(bound.arguments)
        more: Mapping[str, Any] = {}
        for parameter in self.signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                more = named.pop(parameter.name, {})
        given = [(name, one) for name, one in named.items() if name not in self._ignored]
        return as_arguments([*given, *more.items()])

    def typed(self, result: Any, answer: Mapping[str, Any] | None = None) -> Any:
        """Converts a JSON value to the type that the function is annotated to return."""
        if self._returns is UNSET:
            self._returns = Any if self.function is None else _hints(self.function).get("return", Any)
        if self._returns in (None, type(None)):
            return None
        try:
            return typed(result, self._returns)
        except Exception as error:
            detail = f"the stub cannot be made the type that {self.described['name']} returns: {error}"
            raise Blocked(self.name, "invalid_stub", detail, answer) from error


class Call:
    """One call of a tool.

    ``run`` makes the call; ``arguments`` are what the model gave. ``override`` is the result of this call in rehearsal.
    """

    def __init__(self, tool: Tool, arguments: Callable[[], dict[str, Any]], run: Callable[[], Any]) -> None:
        self.tool, self.run, self._arguments = tool, run, arguments
        self.override: Any = UNSET
        self.id = uuid.uuid4().hex
        self.agent: str | None = None
        self._own: Any = UNSET
        self._failed: Exception | None = None
        self.make_stub: Callable[[], Any] = lambda: tool.stub
        self.pauses: tuple[type[BaseException], ...] = ()
        """Exceptions by which a framework pauses the call: it goes on later, so they are no outcome."""
        self.answer: Mapping[str, Any] | None = None
        """Decision about the call; None before it, and without one."""
        self.guard: object = tool
        """Object that guards the tool, the same for each call of it."""
        self.place: Place | None = None
        """Context in which the call was asked about; None before the question."""
        self.judged_by: tuple[Any, ...] | None = None
        self.is_objected_to = False
        """Rules of a sidecar that were asked about the call."""
        self.outer: Call | None = None
        """Call around this one whose decision is that of this call too."""
        self.is_running = False
        self._passed: list[object] = []

    @classmethod
    def of_function(cls, tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Returns a call of a decorated function. Raises :class:`TypeError` for arguments that it does not take."""
        function, kwargs = typing.cast("Callable[..., Any]", tool.function), dict(kwargs)
        # Only a tool of the boundary takes this argument; for another function it is an ordinary one.
        override = kwargs.pop("_guard_stub", None) if tool.core is not None else None
        try:
            bound = tool.signature.bind(*args, **kwargs)
        except TypeError as wrong:
            raise TypeError(f"{name_of(function)}: {wrong}") from None
        call = cls(tool, lambda: tool.arguments(bound), lambda: function(*args, **kwargs))
        if override is not None:
            call.override = override
        if callable(tool.stub):
            call.make_stub = lambda: tool.stub(*args, **kwargs)
        return call

    @classmethod
    def given(cls, tool: Tool, arguments: Mapping[str, Any], run: Callable[[], Any]) -> Call:
        """Returns a call by the arguments that a model gave. Raises :class:`TypeError` if they, or ``run``, are odd."""
        if not is_mapping(arguments):
            found = type(arguments).__name__
            raise TypeError(f"the arguments of {tool.name} are a dictionary, not {found}: json.loads reads a text")
        if not callable(run):
            found = type(run).__name__
            raise TypeError(f"the call of {tool.name} is a function, as lambda: send(**arguments), not {found}")
        call = cls(tool, lambda: as_arguments(arguments.items()), run)
        if callable(tool.stub):
            call.make_stub = lambda: tool.stub(**arguments)
        return call

    @functools.cached_property
    def arguments(self) -> dict[str, Any]:
        """Arguments as JSON. Raises whatever reading them raises, :class:`Blocked` if they have no form in JSON."""
        try:
            return self._arguments()
        except ValueError as odd:
            raise Blocked(self.tool.name, "unreadable", f"its arguments have no form in JSON: {odd}") from None

    def is_decided(self, core: Core | None) -> bool:
        """Returns True if the decision about a call around this one is that of this call too: two guards, one tool.

        Client, name, context and arguments are the same, no stricter effect is declared, and this guard has let nothing
        through yet: a function that calls itself is decided again. A tool under two names is warned of in the log.
        """
        outer, tool = _running.get(), self.tool
        if outer is None or not outer.is_running or core is None or outer.tool.core is not core:
            return False
        first = outer.outer or outer
        if any(guard is self.guard for guard in (first.guard, *first._passed)) or outer.place != core.config.here():
            return False
        name = tool.described["name"]
        if outer.tool.described["name"] != name or outer.arguments != self._without_defaults(outer):
            return False
        if outer.tool.name != tool.name:
            words = (
                "umbra: %s is guarded twice, as %s and as %s: each call is decided twice, and may need two approvals. "
                "Give both guards the same server=, or drop one"
            )
            core.warn_once(f"names of {tool.name}", words, name, outer.tool.name, tool.name)
            return False
        effect = (first.answer or {}).get("effect") or first.tool.effect
        return tool.effect in (None, "read", effect) or effect == "destructive"

    def is_judged(self, rules: tuple[Any, ...]) -> bool:
        """Returns True if these rules were asked about the call around this one, which decides about this call too."""
        outer = _running.get()
        if outer is None or rules not in (outer.judged_by, outer.outer and outer.outer.judged_by):
            return False
        return self.is_decided(self.tool.core)

    def passes(self, core: Core) -> bool:
        """Returns True if the call runs by the decision about the call around it, which this guard uses once."""
        outer = _running.get()
        if outer is None or not self.is_decided(core):
            return False
        self.outer, self.place = outer.outer or outer, outer.place
        self.outer._passed.append(self.guard)
        return True

    def _without_defaults(self, outer: Call) -> dict[str, Any]:
        """Returns the arguments without those that only the function's defaults add to those of the outer call."""
        added = [name for name in self.arguments if name not in outer.arguments]
        known = self.tool.signature.parameters
        defaults = as_arguments((name, known[name].default) for name in added if name in known)
        return {name: one for name, one in self.arguments.items() if name not in added or defaults.get(name) != one}

    def check_unchanged(self) -> None:
        """Raises :class:`Blocked` if the arguments are no longer those that were decided: nothing holds them still."""
        try:
            is_same = json.dumps(self._arguments()) == json.dumps(self.arguments)
        except Exception:
            is_same = False
        if not is_same:
            detail = "its arguments changed while it was decided: call it again, and leave them alone until it returns"
            raise Blocked(self.tool.name, "arguments_changed", detail, self.answer)

    def as_decided(self, run: Callable[[], Any]) -> Any:
        """Returns what ``run`` returns. Raises :class:`Blocked` if the arguments are no longer those of the answer."""
        self.check_unchanged()
        return run()

    def question(self, core: Core) -> dict[str, Any]:
        """Returns the body of ``POST /v1/decide``."""
        tool, body = self.tool, asked(core, self.tool.described, self.arguments, self.id)
        self.place, self.agent = core.config.here(), body["agent"]
        if tool.effect is not None:
            body["declared_effect"] = tool.effect
        if self.override is not UNSET:
            body["stub_override"] = plain(self.override)
        elif tool.stub is not UNSET:
            try:
                self._own = self.make_stub()
                body["stub_fallback"] = {"result": plain(self._own, strict=True)}
            except Exception as error:
                # The error matters only if the stub is needed: a call that runs needs no stub.
                self._failed = error
        return body

    def undecided(self, core: Core, gone: UndecidedCall) -> None:
        """Lets a declared read run without a decision. Raises for every other call."""
        is_read, why = self.tool.effect == "read", gone.__cause__ or gone.detail
        if is_read and core.may_read(self.tool.name):
            log.warning("umbra: %s; %s reads, so it runs all the same", why, self.tool.name)
            return
        words = "umbra: %s; calls that may change something do not run, such as that of %s"
        core.warn_once(AWAY, words, why, self.tool.name)
        if is_read:
            detail = f"{gone.detail}; it is declared a read, but the server has said that it is none"
            raise UndecidedCall(self.tool.name, "unavailable", detail) from gone.__cause__
        raise gone

    def stub_of(self, answer: Mapping[str, Any]) -> Any:
        """Returns the result in place of the call, or UNSET if the call runs.

        Raises :class:`Blocked`, :class:`ApprovalRequired` or :class:`StubFault` if neither is so.
        """
        tool, self.answer = self.tool, answer
        if answer["decision"] == "execute":
            if answer.get("execution") == "live" and answer.get("effect") != "read" and _safe_mode():
                detail = "AGENT_SAFE_MODE is set here, but the server runs calls live: set it for the server as well"
                raise Blocked(tool.name, "safe_mode_mismatch", detail, answer)
            return UNSET
        if answer["decision"] == "stub":
            stub = object_in(answer, "stub")
            if stub.get("fault"):
                raise StubFault(tool.name, stub["fault"], stub.get("result"))
            if self.override is not UNSET:
                return self.override
            return self._own if stub.get("is_fallback") else tool.typed(stub.get("result"), answer)
        if answer.get("reason") == "no_contract" and self._failed is not None:
            words = f"its stub cannot be used: {type(self._failed).__name__}: {self._failed}"
            detail = f"{words}. A stub function is called as the tool is, and returns a value with a form in JSON"
            log.warning("umbra: %s is not rehearsed: %s", tool.name, detail)
            raise Blocked(tool.name, "invalid_stub", detail, answer) from self._failed
        if answer["decision"] == "ask":
            raise ApprovalRequired(tool.name, answer)
        raise Blocked(tool.name, answer.get("reason") or "policy", answer.get("detail") or "no reason given", answer)

    def merged(self, result: Any, answer: Mapping[str, Any]) -> Any:
        """Returns the result of a read that ran, with what the run has rehearsed."""
        merge = answer.get("merge")
        if not merge:
            return result
        try:
            value = plain(result, MOST_MERGED, whole=True)
        except ValueError as odd:
            # The tool has run: its caller must get the result.
            log.warning("umbra: what the run has rehearsed is not in the result of %s: %s", self.id, odd)
            return result
        laid = merged(value, merge)
        with contextlib.suppress(Blocked):
            return self.tool.typed(laid)
        return laid


class Outcome:
    """Report of one call that runs."""

    def __init__(self, core: Core, call: Call) -> None:
        self._core, self._call, self._began = core, call, time.monotonic()

    def failed(self, error: BaseException) -> None:
        """Reports that the tool raised an exception."""
        words = type(error).__name__
        # The caller gets the exception, even if reading it for the report fails.
        with contextlib.suppress(Exception):
            words = f"{words}: {error}"[:_MOST_ERROR]
        self._report({"status": "error", "error": words})

    def succeeded(self, result: Any) -> None:
        """Reports the result of the tool."""
        told: dict[str, Any] = {}
        # The caller gets the result, even if reading it for the report fails.
        with contextlib.suppress(Exception):
            value = plain(result, MOST_VALUES)
            if value is not None and len(json.dumps(value, ensure_ascii=False)) <= _MOST_RESULT:
                told = {"result": value}
        self._report({"status": "ok", **told})

    def _report(self, outcome: dict[str, Any]) -> None:
        milliseconds = max(0, int((time.monotonic() - self._began) * 1000))
        told = {"agent": self._call.agent, "duration_ms": milliseconds, **outcome}
        self._core.report(self._call.id, told)


@contextlib.contextmanager
def running(call: Call) -> Generator[None]:
    """Marks the block as one in which the function of a decided call runs."""
    outer = _running.get()
    _running.set(call)
    call.is_running = True
    try:
        yield
    finally:
        # Tasks that the function has started keep the variable.
        call.is_running = False
        _running.set(outer)


def later(core: Core, call: Call, answer: Mapping[str, Any], pending: Awaitable[Any]) -> Any:
    """Returns the coroutine that ends a call of a plain function which has returned a coroutine."""
    return core.async_client()._ran(call, answer, lambda: pending)


def asked(core: Core, tool: Mapping[str, Any], arguments: Mapping[str, Any], call_id: str) -> dict[str, Any]:
    """Returns the body of ``POST /v1/decide`` for a call that is made here and now."""
    place = core.config.here()
    body: dict[str, Any] = {
        "call_id": call_id,
        "agent": place.agent,
        "tool": dict(tool),
        "arguments": dict(arguments),
        "deadline_ms": max(1, int(core.config.decision_timeout * 1000)),
    }
    for key in ("session", "run", "parent_run", "seed", "route"):
        if getattr(place, key):
            body[key] = getattr(place, key)
    if not place.run and not place.session:
        # A fork counts as a process of its own.
        body.update(run=f"process-{_PROCESS}-{os.getpid()}", default_run=True)
    if place.modes:
        body["modes"] = list(place.modes)
    return body


def _docstring_of(function: Callable[..., Any] | None) -> str | None:
    # That of a partial is the class's own one.
    return None if function is None or isinstance(function, functools.partial) else inspect.getdoc(function)


def as_arguments(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Returns arguments as JSON values, without objects of a framework, which may be within others.

    Other objects that no model gives are shown by their class alone.
    """
    given = Pairs((name, one) for name, one in pairs if not _is_injected(type(one)))
    named: dict[str, Any] = plain(given, MOST_VALUES, left_out=_is_context, as_class=True)
    return named


def wrapped(
    function: F, tool: Tool, now: Callable[[Call], Any], later: Callable[[Call], Awaitable[Any]], marked: bool = False
) -> F:
    """Returns a function of the same signature; its calls are made by ``now``, a coroutine function's by ``later``."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{tool.name} is a generator: a tool returns its result, so collect it first")
    if is_coroutine_function(function):

        @functools.wraps(function)
        async def asynchronous(*args: Any, **kwargs: Any) -> Any:
            return await later(Call.of_function(tool, args, kwargs))

        outside: Any = asynchronous
    else:

        @functools.wraps(function)
        def synchronous(*args: Any, **kwargs: Any) -> Any:
            return now(Call.of_function(tool, args, kwargs))

        outside = synchronous
    if marked:
        outside.__umbra_tool__, outside.__umbra_outside__ = tool, outside
    return typing.cast(F, outside)


def tool_around(function: Any) -> Tool | None:
    """Returns the tool of a function that the boundary's decorator made, and None for any other function."""
    # A decorator outside of the boundary's copies the mark of the tool with all other members.
    is_it = getattr(function, "__umbra_outside__", None) is function
    tool: Tool | None = function.__umbra_tool__ if is_it else None
    return tool


def is_coroutine_function(function: Any) -> bool:
    """Returns True for a coroutine function, a partial of one, and an object whose call is one."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    is_object = not isinstance(function, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type))
    return is_object and inspect.iscoroutinefunction(type(function).__call__)


def name_of(function: Any) -> str:
    """Returns the name of a function, of a partial's function, or of an object's class."""
    while isinstance(function, functools.partial):
        function = function.func
    if not callable(function):
        raise TypeError(f"a tool is a function or another callable, not {type(function).__name__}")
    return str(getattr(function, "__name__", None) or type(function).__name__)


def full_name(tool: Mapping[str, Any]) -> str:
    """Returns ``server.name``, or the name alone."""
    server, name = tool.get("server"), str(tool.get("name") or "?")
    return f"{server}.{name}" if server else name


def _hints(function: Any) -> dict[str, Any]:
    """Returns the annotations of a function; as texts if they name types that do not exist at run time."""
    while isinstance(function, functools.partial):
        function = function.func
    if not isinstance(function, (types.FunctionType, types.MethodType, type)):
        function = getattr(function, "__wrapped__", type(function).__call__)
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:
        hints = dict(getattr(function, "__annotations__", {}))
        if isinstance(hints.get("return"), str):
            hints.pop("return")
        return hints


def _is_injected(hint: Any) -> bool:
    """Returns True for the annotation, or the class, of an argument that a framework fills in."""
    if isinstance(hint, str):
        names = re.findall(r"\w+", hint)
        return any(name in _CONTEXTS or _INJECTED.match(name) for name in names)
    if typing.get_origin(hint) is typing.Annotated:
        marks = [mark if isinstance(mark, type) else type(mark) for mark in hint.__metadata__]
        return any(_is_mark(mark) for mark in marks) or _is_injected(hint.__origin__)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(_is_injected(one) for one in typing.get_args(hint))
    kind = typing.get_origin(hint) or hint
    return isinstance(kind, type) and (_is_mark(kind) or _is_context(kind))


@functools.lru_cache(4_096)
def _is_context(kind: type) -> bool:
    return any(base.__name__ in _CONTEXTS for base in kind.__mro__)


def _is_mark(kind: type) -> bool:
    return any(_INJECTED.match(base.__name__) for base in kind.__mro__)


def _safe_mode() -> bool:
    """Returns True if AGENT_SAFE_MODE is set, as the server reads it: its name in any case, any value except "off"."""
    said = (os.environ[name].strip().lower() for name in os.environ if name.upper() == "AGENT_SAFE_MODE")
    return any(value not in ("", "0", "false", "no", "off") for value in said)
