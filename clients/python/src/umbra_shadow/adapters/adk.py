"""Adapter for Google's Agent Development Kit: tools under the boundary.

    agent = LlmAgent(name="desk", tools=guarded([refund, get_weather], umbra, effects={"get_weather": "read"}), ...)

The extra ``umbra-shadow[adk]`` installs the framework.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

from .._client import ClientBase
from .._json import is_object
from ..errors import ApprovalRequired
from ._boundary import REFUSALS, Rulebook, ToolBoundary, ToolError, approval_of, refusal, text_of, tools_in
from ._extras import suggest_extra

with suggest_extra("adk"):
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.adk.tools.function_tool import FunctionTool
    from google.adk.tools.tool_context import ToolContext

__all__ = ["guarded"]

ToolLike = Union[Callable[..., Any], BaseTool, BaseToolset]


def guarded(
    tools: Iterable[ToolLike],
    umbra: ClientBase,
    *,
    sidecar: Rulebook | None = None,
    server: str | Mapping[str, str] | None = None,
    effects: Mapping[str, str] | None = None,
    stubs: Mapping[str, Any] | None = None,
    interrupts: bool = True,
) -> list[BaseTool | BaseToolset]:
    """Returns copies of functions, tools and toolsets, each call of which is decided before it runs.

    A block comes back to the model as ``{"error": reason}``, and the stub of a rehearsal as the tool's result. An ask
    is a confirmation of the kit (``adk_request_confirmation``), whose payload has ``approval_id``, ``tool``,
    ``arguments``, ``reason`` and ``expires_at``. Once the approval is answered (``umbra.approvals``), send the response
    ``{"confirmed": True}``: an approved call runs, a denied one is told to the model. With ``interrupts=False`` the
    result tells of the approval, and the run goes on. A tool with ``require_confirmation`` of its own is decided after
    that: an ask does not pause its call once more, and the model is told of the approval.

    ``sidecar``: a session, whose guardrails are put around the same tools (or ``session.guardrails("warn")``).
    ``server``: the tools' server in rules and contracts, or servers by tool. ``effects``: ``read``, ``write`` or
    ``destructive`` by tool: declared reads run while the server is away, all other tools do not. ``stubs``: results in
    rehearsal by tool, or functions that are called with the arguments as keywords.

    Raises :class:`TypeError` for tools that the model's provider runs (Google Search and others): they cannot be
    decided here. Tools of a live connection that stream their results are not decided.
    """
    given, boundary = tools_in(tools), ToolBoundary(umbra, sidecar, server, effects, stubs)
    around = [_around(tool, boundary, interrupts) for tool in given]
    named = [tool.name for tool in around if isinstance(tool, BaseTool)]
    if len(named) == len(around):
        # The tools of a toolset are not known yet.
        boundary.check_names(named)
    return around


def _around(tool: ToolLike, boundary: ToolBoundary, interrupts: bool) -> BaseTool | BaseToolset:
    if isinstance(tool, BaseToolset):
        return _guarded_set(tool, boundary, interrupts)
    if not isinstance(tool, BaseTool):
        if not callable(tool):
            raise TypeError(f"a tool is a function, a BaseTool or a BaseToolset, not {type(tool).__name__}")
        tool = FunctionTool(tool)
    return _guarded(tool, boundary, interrupts)


def _guarded_set(tools: BaseToolset, boundary: ToolBoundary, interrupts: bool) -> BaseToolset:
    async def get_tools_with_prefix(context: Any = None) -> list[BaseTool]:
        return [_guarded(tool, boundary, interrupts) for tool in await tools.get_tools_with_prefix(context)]

    guarded = copy.copy(tools)
    setattr(guarded, "get_tools_with_prefix", get_tools_with_prefix)
    return guarded


def _guarded(tool: BaseTool, boundary: ToolBoundary, interrupts: bool) -> BaseTool:
    if type(tool).run_async is BaseTool.run_async:
        raise TypeError(
            f"{tool.name} is run by the model's provider, so its calls cannot be decided here: leave it out"
        )

    async def run_async(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
        confirmation = tool_context.tool_confirmation
        if confirmation is not None and not confirmation.confirmed:
            return {"error": f"{tool.name} was not run: a person has rejected the call."}
        result: Any = None

        async def run() -> Any:
            nonlocal result
            result = await tool.run_async(args=args, tool_context=tool_context)
            if tool_context.function_call_id in tool_context.actions.requested_tool_confirmations:
                raise _Paused
            if is_object(result) and list(result) == ["error"]:
                raise ToolError(text_of(result["error"]))
            return result

        call = boundary.call(tool.name, args, run, tool.description, pauses=(_Paused,))
        try:
            return await boundary.made_async(call)
        except (_Paused, ToolError):
            return result
        except ApprovalRequired as asked:
            if interrupts and confirmation is None:
                tool_context.request_confirmation(hint=refusal(asked), payload=approval_of(call, asked))
                # Otherwise the model is asked for its next step while a person is asked for the approval.
                tool_context.actions.skip_summarization = True
            return {"error": refusal(asked)}
        except REFUSALS as error:
            return {"error": refusal(error)}

    guarded = copy.copy(tool)
    setattr(guarded, "run_async", run_async)
    return guarded


class _Paused(Exception):
    """The tool has asked for a confirmation of its own."""
