"""Calls of tools are held to the rules of a session: each is asked about before it runs, and told after it."""

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
# What each task is within, one guardrail in another: several tasks may be within the same.
_entered: contextvars.ContextVar[tuple[contextvars.Token[Any], ...]] = contextvars.ContextVar(
    "umbra_guardrails_entered", default=()
)
# Of a longer result both ends are told, so many characters each.
_MOST_RESULT = 48_000
# Of what was too much for the server, or too slow, so many are told again: the labels that cling to it need few.
_FEW = 4_000
# Of a call that was made, in characters of JSON.
_MOST_ARGUMENTS = 1_000_000


class Guardrails:
    """Holds calls of tools to the rules; :meth:`Sidecar.guardrails` gives one. A decorator, and a context."""

    def __init__(self, session: Sidecar, mode: Mode, server: str | None, name: str | None) -> None:
        if mode not in ("enforce", "warn", "audit"):
            raise ValueError(f"mode is enforce, warn or audit, not {mode!r}")
        self._session, self._mode, self._server, self._name = session, mode, server, name

    def __call__(self, function: F) -> F:
        drawn = getattr(function, "__umbra_tool__", None)
        if drawn is not None and drawn.drawn is function:
            # The boundary is around it already: it goes by the same name, and is asked about once.
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
        """One call of a coroutine function."""
        call = self._call(tool, args, kwargs)
        if call is None:
            return await run(args, kwargs)
        try:
            self._before(tool, await self._session.guard(call))
        except SidecarError as error:
            self._unasked(tool, error)
        return await self._finish(tool, call, run(args, kwargs))

    async def _finish(self, tool: umbra._Tool, call: Call, running: Awaitable[Any]) -> Any:
        """A call that was asked about, to its end."""
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
        """One call of a function. It asks in its caller's thread: on an event loop, call it by ``asyncio.to_thread``."""
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
            # It only begins: an object that is called as a coroutine function is none.
            return self._finish(tool, call, result)
        try:
            answer = self._tell_now(_told(call, result=result))
        except SidecarError as error:
            self._untold(tool, error)
            return result
        self._after(tool, answer)
        return result

    async def _tell(self, told: dict[str, Any]) -> MessageAnswer:
        """Whoever wrote a page decides how long it is: it must not rid the session of the label that it leaves."""
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
        """The call as it is told; None where that cannot be, and the rules are not enforced."""
        # Only the boundary takes it away; for another function it is an argument as any.
        taken = {"_guard_stub"} if tool.drawn is not None else set()
        named = {name: value for name, value in kwargs.items() if name not in taken}
        # What the function does not take is the caller's TypeError.
        tool.signature.bind(*args, **named)
        try:
            return {"tool": _reference(tool), "arguments": tool.arguments(args, named)}
        except Exception as odd:
            # Whatever arguments do when they are looked at: what cannot be told is not judged.
            if self._mode == "enforce":
                detail = f"its arguments cannot be told: {type(odd).__name__}"
                raise umbra.Blocked(tool.name, "unreadable", detail) from None
            _log.warning("umbra: %s is not held to the rules, since its arguments cannot be told: %r", tool.name, odd)
            return None

    def _before(self, tool: umbra._Tool, answer: GuardAnswer) -> None:
        if answer.unjudged:
            # Arguments as long as one likes would else lead past every rule.
            _log.warning("umbra: %s is not held to the rules: %s", tool.name, "; ".join(answer.warnings))
            if self._mode == "enforce":
                raise umbra.Blocked(tool.name, "too_long", "its arguments are so long that the server did not judge them")
        if self._note(tool, answer) and self._mode == "enforce":
            raise umbra.Blocked(tool.name, "policy", answer.reason or "a rule says so", dataclasses.asdict(answer))

    def _after(self, tool: umbra._Tool, answer: MessageAnswer) -> None:
        for ruling in answer.calls:
            # Before it ran nothing was to be said; what is said now comes too late to stop it.
            if ruling.blocked:
                self._note(tool, ruling)
        for ruling in answer.results:
            if self._note(tool, ruling) and self._mode == "enforce":
                raise ResultWithheld(tool.name, ruling.reason or "a rule says so", dataclasses.asdict(ruling))

    def _note(self, tool: umbra._Tool, ruling: Ruling) -> bool:
        """Keeps and logs what the rules have against something; whether they forbid it."""
        if ruling.decision != "allow":
            self._session.interventions.append(ruling)
            level = logging.INFO if self._mode == "audit" else logging.WARNING
            word = "blocks" if ruling.blocked else "warns of"
            _log.log(level, "umbra: the rule %s %s %s: %s", ruling.rule, word, tool.name, ruling.reason)
        return ruling.blocked

    def _unasked(self, tool: umbra._Tool, error: SidecarError) -> None:
        """What cannot be judged, since its caller does something wrong, is no call that rules allow."""
        if self._mode != "enforce":
            _log.warning("umbra: %s is not held to the rules: %s", tool.name, error)
        elif isinstance(error, SidecarRefused) and error.status not in (401, 403):
            raise umbra.Blocked(tool.name, error.code, str(error)) from None
        else:
            raise error

    def _untold(self, tool: umbra._Tool, error: SidecarError) -> None:
        # The tool has run: an error would make its caller run it again.
        _log.warning("umbra: that %s ran is not told: %s", tool.name, error)


class _Quiet:
    """The error of a tool is worth more than that it could not be told."""

    def __init__(self, tool: umbra._Tool) -> None:
        self._tool = tool

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if isinstance(error, SidecarError):
            _log.warning("umbra: that %s failed is not told: %s", self._tool.name, error)
        return isinstance(error, SidecarError)


def _was_made(tool: umbra._Tool, error: Exception) -> bool:
    """What the boundary has stopped was no call."""
    return not (isinstance(error, umbra.Blocked) and error.tool == tool.name)


def _reference(tool: umbra._Tool) -> Any:
    return {name: tool.described[name] for name in ("server", "name") if name in tool.described}


def _told(call: Call, result: Any = None, error: Exception | None = None) -> dict[str, Any]:
    """A message that tells of a call. What it answered goes as text, which is what checks see of it."""
    try:
        content = _text(result) if error is None else f"{type(error).__name__}: {error}"
    except Exception as odd:
        # The tool has run: who calls it is to have what it answers, whatever that does when it is looked at.
        content = f"[what cannot be told: {type(odd).__name__}]"
    content = _ends(content, _MOST_RESULT)
    if len(json.dumps(call.get("arguments"))) > _MOST_ARGUMENTS:
        # They were judged; with what came of them they would be more than the server takes.
        call = {"tool": call["tool"], "arguments": {}}
    told = {"tool": call["tool"], "ok": error is None, "content": content}
    return {"role": "assistant", "tool_calls": [call], "results": [told]}


def _ends(text: str, most: int) -> str:
    """Both ends of a text that is longer than they are."""
    return text if len(text) <= 2 * most else f"{text[:most]}\n[...]\n{text[-most:]}"


def _shortened(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same in few words; None where it is told in no more."""
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
