"""Calls of tools under the rules of a session."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import models
from .._guardrails import GuardrailsBase, Rules, finished_later, shortened, told, was_made
from .._tools import Call, Tool
from ..errors import APIError, SessionOver, Unavailable
from . import io

if TYPE_CHECKING:
    from .sidecar import AsyncSidecar


class AsyncGuardrails(GuardrailsBase):
    """Applies the rules to calls of tools; :meth:`AsyncSidecar.guardrails` returns one."""

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        function: Callable[[], Awaitable[Any]],
        *,
        server: str | None = None,
    ) -> Any:
        """Makes a call under the rules, without a decorator: asks, then runs ``function()`` and reports its result.

        ``arguments`` are those that the model gave. Raises as a decorated function does.
        """
        call = Call.given(Tool(name=tool, server=server), arguments, function)
        return await guarded(self._async(), self._rules, call, function)


async def guarded(session: AsyncSidecar, rules: Rules, call: Call, run: Callable[[], Awaitable[Any]]) -> Any:
    """Makes one call under the rules: a question before it, and a report after it."""
    planned = rules.planned(call)
    if planned is None:
        return await io.awaited(run())
    try:
        answer = await session.guard(planned, **rules.place())
        session._check_not_closed()
    except (APIError, Unavailable, SessionOver) as error:
        rules.unasked(call.tool, error)
    else:
        rules.before(call, answer)
    return await finished(session, rules, call, planned, run)


async def finished(
    session: AsyncSidecar, rules: Rules, call: Call, planned: Mapping[str, Any], run: Callable[[], Awaitable[Any]]
) -> Any:
    """Runs a call that was asked about, and reports it."""
    try:
        result = await io.awaited(run())
    except Exception as error:
        if was_made(call, error):
            try:
                await _tell(session, rules, told(planned, error=error))
            except (APIError, Unavailable, SessionOver) as fault:
                rules.untold(call.tool, fault)
        raise
    if not io.is_async and inspect.isawaitable(result):
        # The call has only begun: a plain function has returned a coroutine.
        return finished_later(session, rules, call, planned, result)
    try:
        answer = await _tell(session, rules, told(planned, result))
    except (APIError, Unavailable, SessionOver) as error:
        rules.untold(call.tool, error)
        return result
    rules.after(call, answer)
    return result


async def _tell(session: AsyncSidecar, rules: Rules, report: Mapping[str, Any]) -> models.MessageAnswer:
    """Reports a call; if a long report fails, a short one. The author of a long page must not evade its label."""
    short = shortened(report)
    if short is not None:
        with contextlib.suppress(Unavailable):
            answer = await session._report(report, **rules.place())
            if answer.message:
                return answer
        report = short
    return await session._report(report, **rules.place())
