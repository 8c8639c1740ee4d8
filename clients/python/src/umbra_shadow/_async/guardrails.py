"""Guardrails, which apply a session's rules to calls of tools: a question before each call, and a report after it."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import umbra

from .answers import Call, GuardAnswer, MessageAnswer, Ruling
from .errors import ResultWithheld, SidecarError, SidecarRefused, SidecarUnavailable

if TYPE_CHECKING:
    from .session import Sidecar

F = TypeVar("F", bound=Callable[..., Any])
Mode = Literal["enforce", "warn", "audit"]

_log = logging.getLogger("umbra")
# Guardrails that each task has entered, the outer ones first. Several tasks may have entered the same guardrails.
_entered: contextvars.ContextVar[tuple[contextvars.Token[Any], ...]] = contextvars.ContextVar(
    "umbra_guardrails_entered", default=()
)
# Most characters of each end of a long result that are reported.
_MOST_RESULT = 48_000
# Most characters in a second report, after the first was too long or too slow: a few suffice for the session's labels.
_FEW = 4_000
# Most characters of the arguments, as JSON, in the report of a call that ran.
_MOST_ARGUMENTS = 1_000_000


class Guardrails:
    """Applies the rules to calls of tools, as a decorator or a context; :meth:`Sidecar.guardrails` returns one."""

    def __init__(self, session: Sidecar, mode: Mode, server: str | None, name: str | None) -> None:
        if mode not in ("enforce", "warn", "audit"):
            raise ValueError(f"mode is enforce, warn or audit, not {mode!r}")
        self._session, self._mode, self._server, self._name = session, mode, server, name

    def __call__(self, function: F) -> F:
        drawn = getattr(function, "__umbra_tool__", None)
        if drawn is not None and drawn.drawn is function:
            # umbra.tool decorates this function already: its name stays, and the call is asked about only once.
            if self._server or self._name:
                raise TypeError(f"{drawn.name} has its name and server from umbra.tool")
            tool: umbra._Tool = drawn
            run = drawn.call_async if inspect.iscoroutinefunction(function) else drawn.call
        else:
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise TypeError(f"{function.__name__} is a generator: a tool returns its result, so collect it first")
            tool = umbra._Tool(function, None, self._name, self._server, None, None, None)

            def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
                return function(*args, **kwargs)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def asynchronous(*args: Any, **kwargs: Any) -> Any:
                return await self.call_async(tool, run, args, kwargs)

            return asynchronous  # type: ignore[return-value]

        @functools.wraps(function)
        def synchronous(*args: Any, **kwargs: Any) -> Any:
            return self.call(tool, run, args, kwargs)

        return synchronous  # type: ignore[return-value]

    def __enter__(self) -> Guardrails:
        _entered.set((*_entered.get(), umbra._guardrails.set(self)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        *outer, token = _entered.get()
        _entered.set(tuple(outer))
        umbra._guardrails.reset(token)

    async def call_async(
        self,
        tool: umbra._Tool,
        run: Callable[[tuple[Any, ...], dict[str, Any]], Awaitable[Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Makes one call of a coroutine function."""
        call = self._call(tool, args, kwargs)
        if call is None:
            return await run(args, kwargs)
        try:
            self._before(tool, await self._session.guard(call))
        except SidecarError as error:
            self._unasked(tool, error)
        return await self._finish(tool, call, run(args, kwargs))

    async def _finish(self, tool: umbra._Tool, call: Call, running: Awaitable[Any]) -> Any:
        """Awaits a call that was asked about, and reports it."""
        try:
            result = await running
        except Exception as error:
            if _was_made(tool, error):
                with _Quiet(tool):
                    await self._tell(_told(call, error=error))
            raise
        try:
            answer = await self._tell(_told(call, result=result))
        except SidecarError as error:
            self._untold(tool, error)
            return result
        self._after(tool, answer)
        return result

    def call(
        self,
        tool: umbra._Tool,
        run: Callable[[tuple[Any, ...], dict[str, Any]], Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Makes one call of a function. Requests block the caller: on an event loop use ``asyncio.to_thread``."""
        call = self._call(tool, args, kwargs)
        if call is None:
            return run(args, kwargs)
        try:
            self._before(tool, self._session._guard_now(call))
        except SidecarError as error:
            self._unasked(tool, error)
        try:
            result = run(args, kwargs)
        except Exception as error:
            if _was_made(tool, error):
                with _Quiet(tool):
                    self._tell_now(_told(call, error=error))
            raise
        if inspect.isawaitable(result):
            # The call has only begun: a callable object may return an awaitable although it is no coroutine function.
            return self._finish(tool, call, result)
        try:
            answer = self._tell_now(_told(call, result=result))
        except SidecarError as error:
            self._untold(tool, error)
            return result
        self._after(tool, answer)
        return result

    async def _tell(self, told: dict[str, Any]) -> MessageAnswer:
        """Reports a call; if a long report fails, a short one. The author of a long page must not evade its label."""
        short = _shortened(told)
        if short is None:
            return await self._session.message(**told)
        with contextlib.suppress(SidecarUnavailable):
            answer = await self._session.message(**told)
            if answer.message:
                return answer
        return await self._session.message(**short)

    def _tell_now(self, told: dict[str, Any]) -> MessageAnswer:
        short = _shortened(told)
        if short is None:
            return self._session._message_now(**told)
        with contextlib.suppress(SidecarUnavailable):
            answer = self._session._message_now(**told)
            if answer.message:
                return answer
        return self._session._message_now(**short)

    def _call(self, tool: umbra._Tool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call | None:
        """Returns the call for a report; None if it cannot be written and the rules are not enforced."""
        # Only umbra.tool removes this argument; for another function it is an ordinary argument.
        taken = {"_guard_stub"} if tool.drawn is not None else set()
        named = {name: value for name, value in kwargs.items() if name not in taken}
        # Arguments that the function does not take raise the caller's TypeError.
        tool.signature.bind(*args, **named)
        try:
            return {"tool": _reference(tool), "arguments": tool.arguments(args, named)}
        except Exception as odd:
            # Any exception of the arguments counts: a call that cannot be written is not judged.
            if self._mode == "enforce":
                detail = f"its arguments cannot be told: {type(odd).__name__}"
                raise umbra.Blocked(tool.name, "unreadable", detail) from None
            _log.warning("umbra: %s is not held to the rules, since its arguments cannot be told: %r", tool.name, odd)
            return None

    def _before(self, tool: umbra._Tool, answer: GuardAnswer) -> None:
        if answer.unjudged:
            # Otherwise very long arguments would get past every rule.
            _log.warning("umbra: %s is not held to the rules: %s", tool.name, "; ".join(answer.warnings))
            if self._mode == "enforce":
                raise umbra.Blocked(tool.name, "too_long", "its arguments are so long that the server did not judge them")
        if self._note(tool, answer) and self._mode == "enforce":
            raise umbra.Blocked(tool.name, "policy", answer.reason or "a rule says so", dataclasses.asdict(answer))

    def _after(self, tool: umbra._Tool, answer: MessageAnswer) -> None:
        for ruling in answer.calls:
            # Before the call no rule objected; an objection now comes too late to stop the call.
            if ruling.blocked:
                self._note(tool, ruling)
        for ruling in answer.results:
            if self._note(tool, ruling) and self._mode == "enforce":
                raise ResultWithheld(tool.name, ruling.reason or "a rule says so", dataclasses.asdict(ruling))

    def _note(self, tool: umbra._Tool, ruling: Ruling) -> bool:
        """Keeps and logs a ruling with an objection. Returns True if the ruling forbids its subject."""
        if ruling.decision != "allow":
            self._session.interventions.append(ruling)
            level = logging.INFO if self._mode == "audit" else logging.WARNING
            word = "blocks" if ruling.blocked else "warns of"
            _log.log(level, "umbra: the rule %s %s %s: %s", ruling.rule, word, tool.name, ruling.reason)
        return ruling.blocked

    def _unasked(self, tool: umbra._Tool, error: SidecarError) -> None:
        """Handles a failed question. In enforce mode, a call that the server refuses to judge is blocked."""
        if self._mode != "enforce":
            _log.warning("umbra: %s is not held to the rules: %s", tool.name, error)
        elif isinstance(error, SidecarRefused) and error.status not in (401, 403):
            raise umbra.Blocked(tool.name, error.code, str(error)) from None
        else:
            raise error

    def _untold(self, tool: umbra._Tool, error: SidecarError) -> None:
        # The tool has run: an exception would make its caller run it again.
        _log.warning("umbra: that %s ran is not told: %s", tool.name, error)


class _Quiet:
    """Suppresses failures of a report, so that the tool's own exception is raised."""

    def __init__(self, tool: umbra._Tool) -> None:
        self._tool = tool

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if isinstance(error, SidecarError):
            _log.warning("umbra: that %s failed is not told: %s", self._tool.name, error)
        return isinstance(error, SidecarError)


def _was_made(tool: umbra._Tool, error: Exception) -> bool:
    """Returns False if the boundary stopped the call: then there was none."""
    return not (isinstance(error, umbra.Blocked) and error.tool == tool.name)


def _reference(tool: umbra._Tool) -> Any:
    return {name: tool.described[name] for name in ("server", "name") if name in tool.described}


def _told(call: Call, result: Any = None, error: Exception | None = None) -> dict[str, Any]:
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
    told = {"tool": call["tool"], "ok": error is None, "content": content}
    return {"role": "assistant", "tool_calls": [call], "results": [told]}


def _ends(text: str, most: int) -> str:
    """Returns both ends of a long text, and a short text unchanged."""
    return text if len(text) <= 2 * most else f"{text[:most]}\n[...]\n{text[-most:]}"


def _shortened(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns a shortened report; None if the report is short already."""
    (call,), (result,) = told["tool_calls"], told["results"]
    content, arguments = _ends(result["content"], _FEW), call.get("arguments")
    if len(json.dumps(arguments)) > 2 * _FEW:
        arguments = {}
    elif content == result["content"]:
        return None
    return {**told, "tool_calls": [{**call, "arguments": arguments}], "results": [{**result, "content": content}]}


def _text(result: Any) -> str:
    plain = umbra._plain(result, umbra._MOST_VALUES)
    return plain if isinstance(plain, str) else "" if plain is None else json.dumps(plain, ensure_ascii=False)
