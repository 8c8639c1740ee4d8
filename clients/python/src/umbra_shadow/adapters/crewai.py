"""Adapter for CrewAI: tools under the boundary.

    agent = Agent(role="desk", tools=guarded([refund, get_weather], umbra, effects={"get_weather": "read"}), ...)

The extra ``umbra-shadow[crewai]`` installs the framework.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import PrivateAttr

from .._client import ClientBase
from .._tools import Call
from ._boundary import REFUSALS, Rulebook, ToolBoundary, ToolError, refusal, tools_in, value_of
from ._extras import suggest_extra

with suggest_extra("crewai"):
    from crewai.tools import BaseTool
    from crewai.tools.tool_failure import ToolFailure

__all__ = ["guarded"]


def guarded(
    tools: Iterable[BaseTool],
    umbra: ClientBase,
    *,
    sidecar: Rulebook | None = None,
    server: str | Mapping[str, str] | None = None,
    effects: Mapping[str, str] | None = None,
    stubs: Mapping[str, Any] | None = None,
) -> list[BaseTool]:
    """Returns tools around the given ones, each call of which is decided before it runs.

    A block comes back to the model as the tool's failure with the reason, and the stub of a rehearsal as the tool's
    result. An ask is a failure as well, which tells of the approval; once it is approved (``umbra.approvals``), the
    same call runs. With a model that has no API for tools, CrewAI itself refuses a call that repeats the one before it:
    there the agent must make another call first. CrewAI's cache of results is not used, since each call is decided.

    ``sidecar``: a session, whose guardrails are put around the same tools (or ``session.guardrails("warn")``).
    ``server``: the tools' server in rules and contracts, or servers by tool. ``effects``: ``read``, ``write`` or
    ``destructive`` by tool: declared reads run while the server is away, all other tools do not. ``stubs``: results in
    rehearsal by tool, or functions that are called with the arguments as keywords.
    """
    given, boundary = tools_in(tools), ToolBoundary(umbra, sidecar, server, effects, stubs)
    for tool in given:
        if not isinstance(tool, BaseTool):
            raise TypeError(f"a tool is a BaseTool, as @tool makes one, not {type(tool).__name__}")
    boundary.check_names(tool.name for tool in given)
    return [_GuardedTool.around(tool, boundary) for tool in given]


class _GuardedTool(BaseTool):
    """Tool under the boundary. Its ``run`` validates the model's arguments, and counts calls, before ``_run``."""

    _tool: BaseTool = PrivateAttr()
    _boundary: ToolBoundary = PrivateAttr()

    @classmethod
    def around(cls, tool: BaseTool, boundary: ToolBoundary) -> _GuardedTool:
        names = set(BaseTool.model_fields) - {"current_usage_count", "cache_function"}
        guarded = cls(**{name: getattr(tool, name) for name in names}, cache_function=_never)
        guarded._tool, guarded._boundary = tool, boundary
        return guarded

    def format_output_for_agent(self, raw_result: Any) -> str:
        return self._tool.format_output_for_agent(raw_result)

    def _run(self, **arguments: Any) -> Any:
        step = _Step()
        try:
            return step.returned(self._boundary.made(self._call(arguments, lambda: step.value(self._made(arguments)))))
        except (*REFUSALS, ToolError) as error:
            return step.failure(error)

    async def _arun(self, **arguments: Any) -> Any:
        step = _Step()

        async def run() -> Any:
            return step.value(await self._tool._arun(**arguments))

        try:
            return step.returned(await self._boundary.made_async(self._call(arguments, run)))
        except (*REFUSALS, ToolError) as error:
            return step.failure(error)

    def _call(self, arguments: dict[str, Any], run: Any) -> Call:
        return self._boundary.call(self.name, arguments, run, self.description)

    def _made(self, arguments: dict[str, Any]) -> Any:
        result = self._tool._run(**arguments)
        # A tool may be a coroutine function.
        return asyncio.run(result) if inspect.iscoroutine(result) else result


class _Step:
    """One call, with the result as the tool gave it."""

    def __init__(self) -> None:
        self._result: Any = None
        self._value: Any = None

    def value(self, result: Any) -> Any:
        """Returns the result as contracts have it."""
        self._result = result
        if isinstance(result, ToolFailure):
            raise ToolError(result.message)
        self._value = value_of(result)
        return self._value

    def returned(self, value: Any) -> Any:
        """Returns the result for CrewAI: the tool's own one, unless the value is a stub or was changed."""
        return self._result if self._result is not None and value is self._value else value

    def failure(self, error: Any) -> Any:
        """Returns the failure in place of a result."""
        return self._result if isinstance(error, ToolError) else ToolFailure(message=refusal(error))


def _never(arguments: Any = None, result: Any = None) -> bool:
    """Returns False: a result is not cached."""
    return False
