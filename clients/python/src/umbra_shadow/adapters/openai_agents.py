"""Adapter for the OpenAI Agents SDK: tools under the boundary, and traces as events.

    agent = Agent(name="desk", tools=guarded([refund, get_weather], umbra, effects={"get_weather": "read"}))
    add_trace_processor(UmbraTracing(umbra))

The extra ``umbra-shadow[openai-agents]`` installs the framework.
"""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from .._client import ClientBase
from ..errors import ApprovalRequired, Blocked, StubFault
from ._boundary import (
    REFUSALS,
    Begun,
    Rulebook,
    ToolBoundary,
    ToolError,
    arguments_of,
    refusal,
    text_of,
    tools_in,
    value_of,
)
from ._boundary import approval_of as _approval_of
from ._extras import suggest_extra
from ._openai_agents_traces import UmbraTracing, note_decision, note_waiting

with suggest_extra("openai-agents"):
    from agents import (
        ApplyPatchTool,
        ComputerTool,
        CustomTool,
        FunctionTool,
        LocalShellTool,
        RunContextWrapper,
        ShellTool,
        Tool,
    )
    from agents.items import ToolApprovalItem
    from agents.tool import resolve_function_tool_failure_error_function
    from agents.tool_context import ToolContext
    from agents.tracing import SpanError, get_current_span

__all__ = ["UmbraTracing", "approval_of", "guarded"]

# Most calls of a tool that are planned and were never executed.
_MOST_PLANNED = 1_000
# Most approvals that are remembered.
_MOST_ASKED = 1_000
# Tools that are no functions and run in the program.
_LOCAL = (ApplyPatchTool, ComputerTool, CustomTool, LocalShellTool)

# Approvals of calls that have paused a run, by the model's id and arguments.
_asked: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()


def guarded(
    tools: Iterable[Tool],
    umbra: ClientBase,
    *,
    sidecar: Rulebook | None = None,
    server: str | Mapping[str, str] | None = None,
    effects: Mapping[str, str] | None = None,
    stubs: Mapping[str, Any] | None = None,
    interrupts: bool = True,
) -> list[Tool]:
    """Returns copies of function tools, each call of which is decided before it runs.

    A block comes back to the model as the tool's output with the reason, and the stub of a rehearsal as the tool's
    output. An ask is an approval of the SDK (``needs_approval``): the run ends with ``result.interruptions``. Once the
    approval is answered (:func:`approval_of`, ``umbra.approvals``), pass the items to ``state.approve`` and run the
    state: an approved call runs, a denied one is told to the model. With ``interrupts=False`` the output tells of the
    approval, and the run goes on. A tool with ``needs_approval`` of its own is decided after that: an ask does not
    pause its call once more, and the model is told of the approval.

    The SDK itself pauses the run for arguments that are no JSON object (``""``, ``"{bad"``), and asks nothing:
    :func:`approval_of` is None. Approve the item: the call is decided, and the model is told of the result or error.

    ``sidecar``: a session, whose guardrails are put around the same tools (or ``session.guardrails("warn")``).
    ``server``: the tools' server in rules and contracts, or servers by tool. ``effects``: ``read``, ``write`` or
    ``destructive`` by tool: declared reads run while the server is away, all other tools do not. ``stubs``: results in
    rehearsal by tool, or functions that are called with the arguments as keywords.

    Raises :class:`TypeError` for tools that are no function tools: those that OpenAI runs itself (web search and
    others) cannot be decided here, and the executor of one that runs here (a shell, a computer) can use
    ``umbra.call_tool``.
    """
    given, boundary = tools_in(tools), ToolBoundary(umbra, sidecar, server, effects, stubs)
    around = [_guarded(tool, boundary, interrupts) for tool in given]
    boundary.check_names(tool.name for tool in around)
    return list[Tool](around)


def approval_of(item: ToolApprovalItem) -> dict[str, Any] | None:
    """Returns the approval that an item of ``result.interruptions`` waits for.

    It has ``approval_id``, ``tool``, ``arguments``, ``reason`` and ``expires_at``. None for a call that Umbra has not
    asked about in this process: a program that resumes the run of another takes the id from that one. None as well
    for arguments that are no JSON object, see :func:`guarded`.
    """
    call_id = item.call_id or ""
    return _asked.get((call_id, text_of(arguments_of(item.arguments))))


def _guarded(tool: Tool, boundary: ToolBoundary, interrupts: bool) -> FunctionTool:
    if not isinstance(tool, FunctionTool):
        raise TypeError(_unfit(tool))
    original = tool
    # A guard beneath would ask about the call itself, which this one does.
    setting = getattr(original.needs_approval, "beneath", original.needs_approval)
    # Calls between the question whether they need approval and their execution, by the model's id and arguments.
    planned: OrderedDict[tuple[str, str], list[Begun]] = OrderedDict()

    async def begin(arguments: dict[str, Any]) -> Begun:
        return await boundary.begin(boundary.call(original.name, arguments, description=original.description))

    async def needs_approval(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        needs = setting if isinstance(setting, bool) else setting(context, arguments, call_id)
        if await needs if inspect.isawaitable(needs) else needs:
            note_waiting()
            return True
        begun = await begin(arguments)
        if isinstance(begun.error, ApprovalRequired):
            note_waiting()
            _asked[call_id, text_of(arguments)] = _approval_of(begun.call, begun.error)
            if len(_asked) > _MOST_ASKED:
                _asked.popitem(last=False)
            return True
        planned.setdefault((call_id, text_of(arguments)), []).append(begun)
        if len(planned) > _MOST_PLANNED:
            planned.popitem(last=False)
        return False

    async def on_invoke_tool(context: ToolContext[Any], text: str) -> Any:
        arguments = arguments_of(text)
        key = (context.tool_call_id, text_of(arguments))
        waiting = planned.pop(key, [])
        begun = waiting.pop() if waiting else await begin(arguments)
        if waiting:
            planned[key] = waiting
        note_decision(begun.call, may_run=begun.may_run)
        if begun.error is not None:
            return _refused(begun.error)
        if not begun.may_run:
            return text_of(begun.result)
        output: Any = None
        value: Any = None

        async def run() -> Any:
            nonlocal output, value
            errors: list[Exception] = []
            output = await _telling(original, context, errors).on_invoke_tool(context, text)
            if errors:
                raise ToolError(f"{type(errors[0]).__name__}: {errors[0]}")
            value = value_of(output)
            return value

        try:
            result = await boundary.end(begun.call, run)
        except ToolError:
            return output
        except REFUSALS as error:
            return _refused(error)
        return output if result is value else text_of(result)

    tool = copy.copy(original)
    tool.on_invoke_tool = on_invoke_tool
    if interrupts:
        setattr(needs_approval, "beneath", setting)
        tool.needs_approval = needs_approval
    return tool


def _unfit(tool: Any) -> str:
    """Returns the reason why a tool cannot be guarded, and what to do."""
    kind = type(tool).__name__
    if callable(tool):
        return f"{getattr(tool, '__name__', kind)} is a plain function: decorate it with @function_tool"
    # A shell runs in a container of OpenAI, or in the program.
    if isinstance(tool, _LOCAL) or (isinstance(tool, ShellTool) and tool.executor is not None):
        return (
            f"{kind} is no function tool and runs in this program: pass it to the agent beside guarded([...]), and let "
            "its executor make each action by umbra.call_tool, which decides it"
        )
    return (
        f"{kind} is no function tool and is run by OpenAI, so its calls cannot be decided here: pass it to the agent "
        "beside guarded([...]) if its calls may go undecided"
    )


def _refused(error: Blocked | StubFault) -> str:
    """Returns the text in place of a result; the trace has it as the call's error."""
    text, span = refusal(error), get_current_span()
    if span is not None:
        span.set_error(SpanError(message=text, data=None))
    return text


def _telling(tool: FunctionTool, context: ToolContext[Any], errors: list[Exception]) -> FunctionTool:
    """Returns a copy of a tool that notes the exception which it answers with a text."""
    respond = resolve_function_tool_failure_error_function(tool, context)
    if respond is None:
        return tool

    def note(context: RunContextWrapper[Any], error: Exception) -> Any:
        errors.append(error)
        return respond(context, error)

    telling = copy.copy(tool)
    telling._failure_error_function, telling._use_default_failure_error_function = note, False
    return telling
