"""Adapter for LangChain and LangGraph: a middleware of ``create_agent``.

    agent = create_agent(model, tools, middleware=[UmbraMiddleware(umbra, effects={"get_weather": "read"})])

The extra ``umbra-shadow[langchain]`` installs the framework.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Literal, TypeAlias, Union, cast

from .._client import ClientBase
from .._json import array_in, is_array, is_object, object_in
from .._tools import Call
from ..errors import ApprovalRequired, Blocked
from ._boundary import FINISHED, REFUSALS, Rulebook, ToolBoundary, ToolError, approval_of, refusal, text_of, value_of
from ._extras import suggest_extra

with suggest_extra("langchain"):
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.types import ModelRequest, ModelResponse, ToolCallRequest
    from langchain.tools import ToolRuntime
    from langchain_core.messages import ToolMessage
    from langgraph.config import get_config
    from langgraph.errors import GraphBubbleUp
    from langgraph.types import Command, interrupt

__all__ = ["UmbraMiddleware"]

Result: TypeAlias = Union[ToolMessage, "Command[Any]"]

_IN_PLACE = (*REFUSALS, ToolError)
# Most ids of finished calls that are remembered.
_MOST_FINISHED = 10_000


class _NoTools:
    """Tools of the middleware itself: none. Raises :class:`TypeError` for the class in place of an instance."""

    def __get__(self, middleware: object, owner: type) -> list[Any]:
        if middleware is None:
            raise TypeError("a middleware is an instance: middleware=[UmbraMiddleware(umbra)]")
        return []


class UmbraMiddleware(AgentMiddleware[Any, Any, Any]):
    """Middleware that has each call of a tool decided before it runs. Works with ``invoke`` and ``ainvoke``.

    A block comes back to the model as a tool message with the reason, and the stub of a rehearsal as the tool's
    result. An ask is an ``interrupt`` of the graph if it has a checkpointer: its value has ``approval_id``, ``tool``,
    ``arguments``, ``reason`` and ``expires_at``. Once the approval is answered (``umbra.approvals``), resume the graph
    with ``Command(resume=True)``: an approved call runs, a denied one is told to the model. If several calls of a step
    wait, LangGraph wants ``Command(resume={interrupt.id: True, ...})``. ``{"approved": True}`` and LangChain's
    ``{"decisions": [{"type": "approve"}]}`` are a yes as well. Resumed with anything else, such as ``False``,
    ``{"approved": False, "reason": ...}`` or ``{"decisions": [{"type": "reject", "message": ...}]}``, a call does not
    run, whatever the approval says, and the model is told. A tool message tells of the approval, and the run goes on,
    without a checkpointer, with ``interrupts=False``, and in a ``ToolNode`` of a graph that makes several calls at once,
    whose answers LangGraph could mix up.

    ``sidecar``: a session, whose guardrails are put around the same tools (or ``session.guardrails("warn")``).
    ``server``: the tools' server in rules and contracts, or servers by tool. ``effects``: ``read``, ``write`` or
    ``destructive`` by tool: declared reads run while the server is away, all other tools do not. ``stubs``: results in
    rehearsal by tool, or functions that are called with the arguments as keywords. A name in them that resembles the
    name of a tool is warned of in the log.
    """

    tools = cast(Any, _NoTools())

    def __init__(
        self,
        umbra: ClientBase,
        *,
        sidecar: Rulebook | None = None,
        server: str | Mapping[str, str] | None = None,
        effects: Mapping[str, str] | None = None,
        stubs: Mapping[str, Any] | None = None,
        interrupts: bool = True,
    ) -> None:
        super().__init__()
        self._boundary = ToolBoundary(umbra, sidecar, server, effects, stubs)
        self._interrupts = interrupts
        self._finished: OrderedDict[str, None] = OrderedDict()

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Result:
        """Makes a call as the boundary decides."""
        step = _Step(self, request)

        def run() -> Any:
            with step.running():
                return step.value(handler(request))

        while True:
            call = step.call(run)
            try:
                return step.message(self._boundary.made(call))
            except _IN_PLACE as error:
                if not (_is_finished(error) and self._boundary.has_failed(call)):
                    return step.failure(error)
                step.attempt += 1

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Result:
        """Makes a call as the boundary decides."""
        step = _Step(self, request)

        async def run() -> Any:
            with step.running():
                return step.value(await handler(request))

        while True:
            call = step.call(run)
            try:
                return step.message(await self._boundary.made_async(call))
            except _IN_PLACE as error:
                if not (_is_finished(error) and await self._boundary.has_failed_async(call)):
                    return step.failure(error)
                step.attempt += 1

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Compares the names of the tools, which the model is told, with those in the settings."""
        self._boundary.warn_of_names(_names_of(request))
        return handler(request)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Compares names as :meth:`wrap_model_call` does."""
        self._boundary.warn_of_names(_names_of(request))
        return await handler(request)

    def _call_id(self, request: ToolCallRequest, attempt: int) -> str | None:
        """Returns the id of a call, the same for each execution of a step of a graph that may be resumed.

        ``attempt``: number of failures of the call before, in runs that were resumed after them.
        """
        at = _runtime_of(request).execution_info
        if at is None:
            return None
        call = request.tool_call
        names = (at.thread_id, at.task_id, call["id"], call["name"], text_of(call["args"]), attempt)
        name = str(uuid.uuid5(uuid.NAMESPACE_OID, text_of(names)))
        # A middleware outside of this one may make a call again: that is another call.
        return None if name in self._finished else name

    def _finish(self, call: Call) -> None:
        self._finished[call.id] = None
        if len(self._finished) > _MOST_FINISHED:
            self._finished.popitem(last=False)


class _Step:
    """One execution of one call. LangGraph executes a call from its beginning when the graph is resumed."""

    def __init__(self, middleware: UmbraMiddleware, request: ToolCallRequest) -> None:
        self._middleware, self._request = middleware, request
        self._result: Any = None
        self._value: Any = None
        self._call: Call
        self.attempt = 0
        settings = _runtime_of(request).config.get("configurable", {})
        has_checkpointer = settings.get("__pregel_checkpointer") is not None
        self._may_pause = middleware._interrupts and has_checkpointer and _is_alone(request)

    def call(self, run: Callable[[], Any]) -> Call:
        """Returns the call, which has the arguments of the model alone: LangGraph injects its own ones later."""
        asked, tool = self._request.tool_call, self._request.tool
        self._call = self._middleware._boundary.call(
            asked["name"],
            asked["args"],
            run,
            description=tool.description if tool is not None else None,
            call_id=self._middleware._call_id(self._request, self.attempt) if self._may_pause else None,
            pauses=(GraphBubbleUp,),
        )
        return self._call

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        """Runs the tool within its block."""
        guard = object_in(self._call.answer or {}, "guard")
        if self._may_pause and guard.get("verdict") == "ask" and _is_resumed():
            # The call was interrupted before it was approved. An ``interrupt`` within the tool would otherwise take
            # the value that the graph was resumed with for its own answer. A no comes only now: the decision has used
            # the approval up, which would let the next call with these arguments run.
            if decline := self._decline_of(interrupt(approval_of(self._call))):
                raise decline
        try:
            yield
        except GraphBubbleUp:
            raise
        except BaseException:
            self._middleware._finish(self._call)
            raise
        self._middleware._finish(self._call)

    def value(self, result: Any) -> Any:
        """Returns the result of a tool as its contract has it."""
        self._result = result
        if not isinstance(result, ToolMessage):
            # A command, which changes the graph's state.
            return None
        if result.status == "error":
            raise ToolError(result.text)
        self._value = value_of(result.content)
        return self._value

    def message(self, value: Any) -> Result:
        """Returns the message with a result: the tool's own one, unless the value is a stub or was changed."""
        if self._result is None:
            return self._told(text_of(value))
        if isinstance(self._result, ToolMessage) and value is not self._value:
            changed: ToolMessage = self._result.model_copy(update={"content": text_of(value)})
            return changed
        result: Result = self._result
        return result

    def failure(self, error: Any) -> Result:
        """Returns the message in place of a result. Pauses the graph if the call waits for approval."""
        if isinstance(error, ToolError):
            failed: Result = self._result
            return failed
        if isinstance(error, ApprovalRequired) and self._may_pause:
            # Raises, unless the graph is resumed while the approval is not answered yet.
            error = self._decline_of(interrupt(approval_of(self._call, error))) or error
        return self._told(refusal(error), "error")

    def _decline_of(self, resumed: Any) -> Blocked | None:
        """Returns the block of a call whose graph is resumed with anything but a yes. None for a yes."""
        given: dict[str, Any] = resumed if is_object(resumed) else {"approved": resumed}
        decisions = [one if is_object(one) else {} for one in array_in(given, "decisions")]
        rejected = [one for one in decisions if one.get("type") != "approve"]
        if given.get("approved") is True or (decisions and not rejected):
            return None
        reason = rejected[0].get("message") if rejected else given.get("reason")
        detail = f"it was declined{f': {reason}' if reason else ''}; do not call it again"
        return Blocked(self._call.tool.name, "declined", detail)

    def _told(self, text: str, status: Literal["success", "error"] = "success") -> ToolMessage:
        asked = self._request.tool_call
        return ToolMessage(text, name=asked["name"], tool_call_id=asked["id"], status=status)


def _names_of(request: ModelRequest[Any]) -> list[str]:
    # A dictionary is a tool that the model's provider runs.
    return [tool.name for tool in request.tools if not isinstance(tool, dict)]


def _runtime_of(request: Any) -> ToolRuntime[Any, Any]:
    # The class of the request has it without the types of context and state.
    runtime: ToolRuntime[Any, Any] = request.runtime
    return runtime


def _is_alone(request: Any) -> bool:
    """Returns True if no other call is made in the same task of the graph, as in an agent of ``create_agent``.

    LangGraph gives the answers to the interrupts of a task by their order, and calls that are made at once have none.
    """
    if "__pregel_push" in _runtime_of(request).config.get("metadata", {}).get("langgraph_triggers", ()):
        return True
    messages: Any = request.state if is_array(request.state) else array_in(request.state, "messages")
    return len(messages) > 0 and len(getattr(messages[-1], "tool_calls", ())) == 1


def _is_finished(error: BaseException) -> bool:
    return isinstance(error, Blocked) and error.reason == FINISHED


def _is_resumed() -> bool:
    """Returns True if there is a value for an interrupt of this step."""
    pad = get_config().get("configurable", {}).get("__pregel_scratchpad")
    return pad is not None and (bool(pad.resume) or pad.get_null_resume(False) is not None)
