"""Adapter for Pydantic AI: a capability of an agent.

    agent = Agent(model, tools=[refund], capabilities=[UmbraCapability(umbra, effects={"get_weather": "read"})])

The extra ``umbra-shadow[pydantic-ai]`` installs the framework.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeGuard, get_args

from .._client import ClientBase
from ..errors import ApprovalRequired
from ._boundary import REFUSALS, Rulebook, ToolBoundary, approval_of, refusal, waiting_text
from ._extras import suggest_extra

with suggest_extra("pydantic-ai"):
    from pydantic_ai import DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied, ToolReturn
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, WrapToolExecuteHandler
    from pydantic_ai.exceptions import ApprovalRequired as ApprovalNeeded
    from pydantic_ai.exceptions import CallDeferred, ToolFailed
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.tools import ToolDefinition

__all__ = ["UmbraCapability"]


@dataclasses.dataclass(init=False)
class UmbraCapability(AbstractCapability[Any]):
    """Capability that has each call of a tool decided before it runs.

    A block comes back to the model as a failed tool result with the reason, which costs no retry, and the stub of a
    rehearsal as the tool's result. An ask defers the call as one that requires approval: the run ends with
    ``DeferredToolRequests``, whose ``metadata`` has ``approval_id``, ``tool``, ``arguments``, ``reason`` and
    ``expires_at`` by the id of the call. Once the approval is answered (``umbra.approvals``), run the agent with
    ``DeferredToolResults(approvals={id: True})``: an approved call runs, a denied one is told to the model. A tool with
    ``requires_approval`` of its own is decided after that: an ask does not defer its call once more, and the model is
    told of the approval.

    Without ``DeferredToolRequests`` in the agent's ``output_type``, a tool result tells of the approval, and the run
    goes on; a handler of deferred calls among the agent's capabilities is asked first. ``interrupts=True`` is for an
    agent whose runs have an ``output_type`` of their own with it; with ``interrupts=False`` no call is deferred.

    ``sidecar``: a session, whose guardrails are put around the same tools (or ``session.guardrails("warn")``).
    ``server``: the tools' server in rules and contracts, or servers by tool. ``effects``: ``read``, ``write`` or
    ``destructive`` by tool: declared reads run while the server is away, all other tools do not. ``stubs``: results in
    rehearsal by tool, or functions that are called with the arguments as keywords. A name in them that resembles the
    name of a tool is warned of in the log.
    """

    def __init__(
        self,
        umbra: ClientBase,
        *,
        sidecar: Rulebook | None = None,
        server: str | Mapping[str, str] | None = None,
        effects: Mapping[str, str] | None = None,
        stubs: Mapping[str, Any] | None = None,
        interrupts: bool | None = None,
    ) -> None:
        if isinstance(umbra, RunContext):
            # The framework calls a class among the capabilities as a function that returns one.
            raise TypeError("a capability is an instance: capabilities=[UmbraCapability(umbra)]")
        self._boundary = ToolBoundary(umbra, sidecar, server, effects, stubs)
        self._interrupts = interrupts

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Makes a call as the boundary decides."""
        if tool_def.kind == "output":
            return await handler(args)
        returned: Any = None

        async def run() -> Any:
            nonlocal returned
            returned = await handler(args)
            return returned.return_value if isinstance(returned, ToolReturn) else returned

        # The arguments of the call are those of the model, or those that a person has put in their place; validated
        # ones may have been filled in by the agent's own objects.
        asked = self._boundary.call(
            call.tool_name,
            call.args_as_dict(),
            run,
            tool_def.description,
            pauses=(ApprovalNeeded, CallDeferred),
        )
        try:
            result = await self._boundary.made_async(asked)
        except ApprovalRequired as needed:
            if self._interrupts is not False and not ctx.tool_call_approved:
                raise ApprovalNeeded(approval_of(asked, needed)) from None
            raise ToolFailed(refusal(needed)) from None
        except REFUSALS as error:
            raise ToolFailed(refusal(error)) from None
        return dataclasses.replace(returned, return_value=result) if _has_parts(returned) else result

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        """Compares the names of the tools with those in the settings."""
        self._boundary.warn_of_names(tool.name for tool in tool_defs)
        return tool_defs

    def get_ordering(self) -> CapabilityOrdering:
        """Returns the last place in the chain: handlers of deferred calls come first."""
        return CapabilityOrdering(position="innermost")

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Tells the model of approvals by which the run cannot be paused."""
        if self._interrupts or ctx.agent is None or _has_requests(ctx.agent.output_type):
            return None
        told = {id: one for id, one in requests.metadata.items() if one.get("type") == "umbra_approval"}
        return DeferredToolResults(approvals={id: ToolDenied(waiting_text(one)) for id, one in told.items()})


def _has_requests(output_type: Any) -> bool:
    """Returns True if a run may end with requests: by an output type, a union of types, or a list of them."""
    parts = output_type if type(output_type) in (list, tuple) else get_args(output_type)
    return output_type is DeferredToolRequests or any(map(_has_requests, parts))


def _has_parts(returned: Any) -> TypeGuard[ToolReturn[Any]]:
    """Returns True for a result with more than its value: contents for the model, or metadata."""
    return isinstance(returned, ToolReturn)
