"""Traces of the OpenAI Agents SDK as events."""

from __future__ import annotations

import dataclasses
import datetime
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, TypeVar

from .._client import ClientBase
from .._core import LAST_WORDS
from .._json import is_array, is_object, object_in, plain
from .._terms import present
from .._tools import Call
from ._boundary import arguments_of
from ._extras import suggest_extra
from ._posting import EventQueue

with suggest_extra("openai-agents"):
    from agents.tracing import (
        AgentSpanData,
        FunctionSpanData,
        GenerationSpanData,
        HandoffSpanData,
        ResponseSpanData,
        Span,
        Trace,
        TracingProcessor,
        get_current_span,
        get_current_trace,
    )

log = logging.getLogger("umbra_shadow")

N = TypeVar("N")

# Most traces, and most open spans, that are remembered.
_MOST_TRACES, _MOST_SPANS = 1_000, 10_000
# Longest name and id that the server takes.
_LONGEST_NAME = 256
# Longest wait for events to be posted, in seconds.
_LONGEST_FLUSH = 10.0

# Spans of calls that wait for an approval: such a call is told of once it is made, or refused.
_waiting: OrderedDict[str, None] = OrderedDict()
# Agents of the decisions about calls, and what an event says of them, by span.
_decided: OrderedDict[str, tuple[str | None, dict[str, Any]]] = OrderedDict()


def note_waiting() -> None:
    """Notes that the call of a tool which is being traced ends without being made."""
    _note(_waiting, None)


def note_decision(call: Call, may_run: bool) -> None:
    """Notes the decision about the call of a tool which is being traced: the server finds it by agent and id."""
    call = call.outer or call
    answer = call.answer or {}
    decision = answer.get("decision") or (None if may_run else "block")
    told = {"call_id": call.id, "decision": decision, "decision_id": answer.get("decision_id")}
    _note(_decided, (call.agent, present(**told)))


def _note(notes: OrderedDict[str, N], note: N) -> None:
    span = get_current_span()
    if span is not None and isinstance(span.span_data, FunctionSpanData):
        notes[span.span_id] = note
        if len(notes) > _MOST_SPANS:
            notes.popitem(last=False)


@dataclasses.dataclass
class _Work:
    """Work of an agent, which spans belong to."""

    agent: str | None = None
    caller: str | None = None
    """Agent that has called this one as a tool."""
    task: str | None = None
    """Instruction that the agent was given, once its model was asked."""
    is_of_tool: bool = False
    """True below a call of a tool."""


@dataclasses.dataclass
class _Action:
    """Action that a span tells of."""

    kind: str
    tool: dict[str, Any] | None = None
    output: str | None = None
    input: str | None = None
    tokens: dict[str, int] | None = None
    stop_reason: str | None = None
    is_final: bool = False
    """True for an answer that ends the work of an agent."""
    details: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])


class UmbraTracing(TracingProcessor):
    """Trace processor that posts what agents do as events::

        add_trace_processor(UmbraTracing(umbra))    # besides OpenAI's; set_trace_processors([...]): in place of it

    Outputs of models with their tokens, calls of tools with result or error, handoffs (as calls of
    ``transfer_to_...``), and failures of models and agents become one event each. ``agent`` is the name of the SDK's
    agent, ``task_id`` the trace, ``session_id`` its ``group_id``, and ``task`` the user's last message. An answer
    without calls of tools has the trigger ``task_complete``. ``metadata`` is that of the trace, and
    ``metadata["openai_agents"]`` has the ids of trace, span and parent. The call of a guarded tool is an event of the
    agent that it was decided for, with ``call_id`` and ``decision`` in ``metadata``; ``openai_agents`` has the SDK's
    ``agent``.

    The key of ``umbra`` has the scope ``ingest``, and is for all of these agents: made without ``--agent``, or with
    globs that their names match. The server refuses events of other agents (403), and the log names the first one.

    Events are posted in the background. ``most`` wait while the server is away; beyond them the oldest are dropped,
    which ``dropped`` counts. With ``trace_include_sensitive_data=False`` a trace has no texts, and only the
    names of tools are posted; with ``OPENAI_AGENTS_DISABLE_TRACING=1`` there are no traces, and no events.
    """

    def __init__(self, umbra: ClientBase, *, most: int = 1_000) -> None:
        self._queue = EventQueue(umbra, most)
        self._agent = umbra.agent
        self._lock = threading.Lock()
        self._traces: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._works: OrderedDict[str, _Work] = OrderedDict()
        self._is_emptiness_told = False

    @property
    def dropped(self) -> int:
        """Number of events that were not stored: too many waited, or the server refused them."""
        return self._queue.dropped

    def on_trace_start(self, trace: Trace) -> None:
        """Notes group and metadata of a trace."""
        with self._lock:
            self._traces[trace.trace_id] = trace.export() or {}
            if len(self._traces) > _MOST_TRACES:
                self._traces.popitem(last=False)

    def on_trace_end(self, trace: Trace) -> None:
        """Does nothing: the events of a trace are posted span by span."""

    def on_span_start(self, span: Span[Any]) -> None:
        """Notes the agent that a span belongs to."""
        trace = get_current_trace()
        if trace is not None and trace.trace_id == span.trace_id and span.trace_id not in self._traces:
            # A run that is resumed goes on with its trace, whose start is not told again.
            self.on_trace_start(trace)
        data = span.span_data
        with self._lock:
            work = self._works.get(span.parent_id or "") or _Work()
            if isinstance(data, AgentSpanData):
                caller = work.agent if work.is_of_tool else None
                # A resumed run begins with a call of a tool.
                task = None if work.is_of_tool else self._traces.get(span.trace_id, {}).get("task")
                work = _Work(data.name, caller, task, work.is_of_tool)
            elif isinstance(data, FunctionSpanData):
                work = dataclasses.replace(work, is_of_tool=True)
            self._works[span.span_id] = work
            if len(self._works) > _MOST_SPANS:
                self._works.popitem(last=False)

    def on_span_end(self, span: Span[Any]) -> None:
        """Posts the event of a span, if there is one."""
        with self._lock:
            work = self._works.pop(span.span_id, None) or _Work()
            trace = self._traces.get(span.trace_id) or {}
        action = _action(span, work)
        if work.task and not work.is_of_tool:
            trace["task"] = work.task
        if action is None or span.span_id in _waiting:
            return
        if action.tool or action.output or action.input:
            self._queue.put(self._event(action, span, work, trace))
        elif not self._is_emptiness_told:
            self._is_emptiness_told = True
            log.warning("umbra: traces have no texts to post: is trace_include_sensitive_data off?")

    def force_flush(self) -> None:
        """Waits until all events are posted, 10 seconds at most."""
        self._queue.flush(_LONGEST_FLUSH)

    def shutdown(self, timeout: float | None = None) -> None:
        """Waits until all events are posted, ``timeout`` seconds at most (2 unless set), and drops the others.

        The SDK calls it when the program ends.
        """
        self._queue.close(LAST_WORDS if timeout is None else timeout)

    def _event(self, action: _Action, span: Span[Any], work: _Work, trace: Mapping[str, Any]) -> dict[str, Any]:
        session, triggers = trace.get("group_id"), ["task_complete"] if action.is_final else None
        agent, decision = _decided.pop(span.span_id, (None, {}))
        place = present(
            kind=action.kind,
            trace_id=span.trace_id,
            span_id=span.span_id,
            parent_id=span.parent_id,
            workflow=trace.get("workflow_name"),
            caller=work.caller,
            agent=agent and work.agent,
            error=_error_text(span),
            **action.details,
        )
        return present(
            id=f"{span.trace_id}/{span.span_id}"[:_LONGEST_NAME],
            agent=(agent or work.agent or self._agent)[:_LONGEST_NAME],
            task_id=span.trace_id[:_LONGEST_NAME],
            session_id=str(session)[:_LONGEST_NAME] if session else None,
            task=work.task,
            input=action.input,
            output=action.output,
            tool=action.tool,
            tokens=action.tokens,
            stop_reason=action.stop_reason,
            occurred_at=span.started_at,
            duration_ms=_duration_ms(span),
            status=None if span.error is None else "error",
            triggers=triggers if span.error is None else ["error"],
            metadata={**(plain(trace.get("metadata")) or {}), **decision, "openai_agents": place},
        )


def _action(span: Span[Any], work: _Work) -> _Action | None:
    """Returns the action that a span tells of, and notes the task of the agent."""
    data = span.span_data
    if isinstance(data, FunctionSpanData):
        tool = {"name": data.name[:_LONGEST_NAME] or "tool", "args": arguments_of(data.input) if data.input else None}
        if span.error is None:
            tool["result"] = plain(data.output)
        else:
            tool["error"] = _error_text(span)
        server = (data.mcp_data or {}).get("server")
        return _Action("tool", tool=present(**tool), details=present(mcp_server=server))
    if isinstance(data, HandoffSpanData):
        return _Action("handoff", tool=_handoff(data), details=present(to=data.to_agent))
    if isinstance(data, GenerationSpanData):
        return _answer(span, work, data.input, data.output, data.usage, data.model)
    if isinstance(data, ResponseSpanData):
        told: list[Any] = [] if data.response is None else [data.response]
        return _answer(span, work, data.input, told, data.usage, None)
    if isinstance(data, AgentSpanData) and span.error is not None:
        return _Action("agent", input=work.task or _error_text(span))
    return None


def _answer(span: Span[Any], work: _Work, given: Any, answered: Any, usage: Any, model: str | None) -> _Action:
    """Returns the call of a model. Its input is told where it has no output: a call of tools, or a failure."""
    work.task = _last_request(given) or work.task
    # Messages of the Chat Completions API, or a response, which has items.
    messages = _objects(plain(answered))
    response: dict[str, Any] = messages[0] if messages and messages[0].get("object") == "response" else {}
    items = _objects(response.get("output")) if response else messages
    text = "\n".join(filter(None, (_text(item) for item in items if item.get("type") != "reasoning")))
    has_calls = any(item.get("tool_calls") or str(item.get("type")).endswith("_call") for item in items)
    counts: Mapping[str, Any] = plain(usage) or {}
    tokens = {"input": counts.get("input_tokens"), "output": counts.get("output_tokens")}
    reason = object_in(response, "incomplete_details").get("reason")
    return _Action(
        "model",
        output=text or None,
        input=None if text else work.task or _error_text(span),
        tokens=present(**tokens) or None,
        stop_reason="length" if reason == "max_output_tokens" else reason,
        is_final=bool(text) and not has_calls and not work.is_of_tool,
        details=present(model=model or response.get("model"), response_id=response.get("id")),
    )


def _objects(value: Any) -> list[dict[str, Any]]:
    """Returns the objects in a JSON array."""
    return [one for one in value if is_object(one)] if is_array(value) else []


def _text(message: Mapping[str, Any]) -> str:
    """Returns the text of a message, or its refusal."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = [part.get("text") or part.get("refusal") or "" for part in _objects(content)]
    return "".join(parts) or message.get("refusal") or ""


def _last_request(given: Any) -> str | None:
    """Returns the last message of the user in the input of a model."""
    if isinstance(given, str):
        return given
    asked = [one for one in _objects(given) if one.get("role") == "user"]
    return _text(asked[-1]) if asked else None


def _handoff(data: HandoffSpanData) -> dict[str, Any]:
    """Returns a handoff as the call that it is to the model."""
    to = data.to_agent or "unknown"
    plain_name = "".join(sign.lower() if sign.isascii() and sign.isalnum() else "_" for sign in to)
    return present(name=f"transfer_to_{plain_name}"[:_LONGEST_NAME], result=data.to_agent)


def _error_text(span: Span[Any]) -> str | None:
    """Returns the error of a span: that of the tool or model, or its message."""
    error = span.error
    if error is None:
        return None
    detail = object_in(error, "data").get("error")
    return f"{error['message']}: {detail}" if detail else error["message"]


def _duration_ms(span: Span[Any]) -> int | None:
    if span.started_at is None or span.ended_at is None:
        return None
    began, ended = map(datetime.datetime.fromisoformat, (span.started_at, span.ended_at))
    return max(0, round((ended - began).total_seconds() * 1000))
