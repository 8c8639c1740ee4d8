"""Adapter for LiteLLM: a callback that posts each call of a model as events.

    litellm.callbacks = [UmbraLogger(umbra)]

In the settings of LiteLLM's proxy, with the client of the variables ``UMBRA_URL``, ``UMBRA_API_KEY`` and
``UMBRA_AGENT``::

    litellm_settings:
      callbacks: umbra_shadow.adapters.litellm.umbra_logger

The extra ``umbra-shadow[litellm]`` installs LiteLLM.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .._client import ClientBase
from .._core import LAST_WORDS
from .._json import array_in, is_array, is_mapping
from .._sync.client import Umbra
from ._extras import suggest_extra
from ._posting import EventQueue

with suggest_extra("litellm"):
    from litellm.integrations.custom_logger import CustomLogger

__all__ = ["UmbraLogger", "umbra_logger"]

umbra_logger: UmbraLogger
"""The callback for LiteLLM's proxy, with the client of the environment. It is made when it is first asked for."""


class UmbraLogger(CustomLogger):
    """Callback of LiteLLM that posts calls of models in the background: no call waits for the server.

    An answer is one event with its text, and one for each call of a tool in it. The first has tokens, cost and
    duration; all have the model, in ``metadata.gateway``. ``task`` is the last message of the user, and ``input`` the
    results of tools that the model was given since its last answer. A call that failed is one event with the status
    ``error``. Calls without text, such as embeddings and images, are no events.

    The agent is the alias of the proxy's key, else ``metadata["agent"]`` of the call, else that of the client.
    ``metadata["task_id"]`` and ``metadata["session_id"]`` of the call become those of its events. The proxy takes the
    session from a header as well (``x-litellm-session-id`` and others). Without a task the session is the task.
    """

    def __init__(self, umbra: ClientBase, *, most: int = 1_000) -> None:
        """Makes a callback that posts by this client.

        ``most``: most events that wait for a server that is away; beyond them the oldest are dropped.
        """
        super().__init__()  # pyright: ignore[reportUnknownMemberType]  # LiteLLM gives its parameters no types.
        self._queue = EventQueue(umbra, most)
        # LiteLLM drops a logger whose class and public attributes are those of another.
        self.id = uuid.uuid4().hex

    @property
    def dropped(self) -> int:
        """Events that are not posted: too many waited, or the server refused them."""
        return self._queue.dropped

    def flush(self, timeout: float = LAST_WORDS) -> bool:
        """Waits until all events are posted, ``timeout`` seconds at most. Returns True if they are.

        LiteLLM itself calls back a moment after a call has returned.
        """
        return self._queue.flush(timeout)

    def close(self, timeout: float = LAST_WORDS) -> bool:
        """Waits as :meth:`flush` does, drops what still waits, and ends the thread."""
        return self._queue.close(timeout)

    def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Posts an answer; a streamed one when it is complete."""
        self._post(kwargs)

    def log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Posts a call that failed."""
        self._post(kwargs)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Posts an answer; a streamed one when it is complete."""
        self._post(kwargs)

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Posts a call that failed."""
        self._post(kwargs)

    def _post(self, kwargs: Mapping[str, Any]) -> None:
        try:
            for event in _events(kwargs):
                self._queue.put({name: value for name, value in event.items() if value is not None})
        except Exception as error:
            # A callback must not disturb the call.
            self._queue.drop(1, f"LiteLLM tells of a call in an unknown form: {type(error).__name__}: {error}")


def __getattr__(name: str) -> Any:
    if name != "umbra_logger":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    logger = globals()[name] = UmbraLogger(Umbra())
    return logger


def _events(kwargs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the events of a call."""
    told: Mapping[str, Any] | None = kwargs.get("standard_logging_object")
    if told is None:
        return
    messages: Any = told.get("messages")
    messages = messages if is_array(messages) else [{"role": "user", "content": messages}]
    shared = _origin(kwargs, told) | {"task": _task(messages), "input": _results(messages)}
    first = {
        "cost_usd": told.get("response_cost") or None,
        "duration_ms": max(0, round(1000 * (told["endTime"] - told["startTime"]))),
    }
    if told.get("total_tokens"):
        first["tokens"] = {"input": told["prompt_tokens"], "output": told["completion_tokens"]}
    if told.get("status") == "failure":
        given = shared["input"] or shared["task"] or f"a call of {told.get('model')}"
        yield {**shared, **first, "input": given, "status": "error"}
        return
    said, calls, reason = _answer(told.get("response"))
    parts: list[dict[str, Any]] = [{"tool": call} for call in calls]
    if said or (said is not None and not parts):
        parts.insert(0, {"output": said})
    for number, part in enumerate(parts):
        yield {**shared, **part, "stop_reason": reason, **(first if number == 0 else {"input": None})}


def _origin(kwargs: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """Returns agent, task, session, time and metadata of a call."""
    known: Mapping[str, Any] = told.get("metadata") or {}
    params: Mapping[str, Any] = kwargs.get("litellm_params") or {}
    # In the proxy the metadata of the request, in a program those of the call.
    given: Mapping[str, Any] = known.get("requester_metadata") or params.get("metadata") or {}
    session = given.get("session_id") or told.get("session_id")
    gateway = {
        "name": "litellm",
        "call_id": told.get("litellm_call_id"),
        "model": told.get("model"),
        "provider": told.get("custom_llm_provider"),
        "cached": told.get("cache_hit") or None,
    }
    if told.get("status") == "failure":
        error: Mapping[str, Any] = told.get("error_information") or {}
        gateway["error"] = {"type": error.get("error_class"), "message": told.get("error_str")}
    return {
        "agent": _name(known.get("user_api_key_alias")) or _name(given.get("agent")),
        "task_id": _name(given.get("task_id")) or _name(session),
        "session_id": _name(session),
        "occurred_at": datetime.datetime.fromtimestamp(told["startTime"], datetime.timezone.utc).isoformat(),
        "metadata": {"gateway": {name: value for name, value in gateway.items() if value is not None}},
    }


def _name(value: Any) -> str | None:
    return str(value) if value not in (None, "") else None


def _task(messages: list[Any]) -> str | None:
    """Returns the last message of a user."""
    asked = (_text(one.get("content")) for one in reversed(messages) if one.get("role") == "user")
    return next(filter(None, asked), None)


def _results(messages: list[Any]) -> str | None:
    """Returns the results of tools behind the last message of the model."""
    found: list[str] = []
    for message in reversed(messages):
        if message.get("role") == "assistant":
            break
        if message.get("role") in ("tool", "function"):
            found.append(_text(message.get("content")) or "")
        else:
            # Results in the form of Anthropic are parts of the user's message.
            content = array_in(message, "content")
            parts = [one for one in content if is_mapping(one) and one.get("type") == "tool_result"]
            found += [_text(part.get("content")) or "" for part in reversed(parts)]
    return "\n".join(reversed(found)) or None


def _text(content: Any) -> str | None:
    """Returns the text of a message: a text, or parts of which some are texts."""
    if is_array(content):
        texts = [one if isinstance(one, str) else one.get("text") for one in content]
        return "\n".join(text for text in texts if isinstance(text, str)) or None
    return content if content is None or isinstance(content, str) else json.dumps(content, default=str)


def _answer(response: Any) -> tuple[str | None, list[dict[str, Any]], str | None]:
    """Returns what a model said, the calls of tools that it asks for, and why it stopped.

    The text is None if the response is none of a chat.
    """
    if isinstance(response, str):
        return response, [], None
    body: Mapping[str, Any] = response if is_mapping(response) else {}
    texts: list[str | None]
    asked: list[dict[str, Any]]
    if is_array(body.get("choices")):
        messages = [choice.get("message") or {"content": choice.get("text")} for choice in body["choices"]]
        reason = next((choice.get("finish_reason") for choice in body["choices"]), None)
        texts = [_text(message.get("content")) for message in messages]
        asked = [call for message in messages for call in message.get("tool_calls") or ()]
        asked += [{"function": message["function_call"]} for message in messages if message.get("function_call")]
    elif is_array(items := body.get("output", body.get("content"))):
        # The API of responses of OpenAI, and of messages of Anthropic.
        texts = [_text(item.get("content")) if item.get("type") == "message" else item.get("text") for item in items]
        asked = [item for item in items if item.get("type") in ("function_call", "tool_use")]
        reason = body.get("stop_reason") or body.get("status")
    else:
        return None, [], None
    return "\n".join(filter(None, texts)), [_tool(call) for call in asked], reason


def _tool(call: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a call of a tool as events have it. Arguments that are no JSON remain text."""
    function = call.get("function") or call
    arguments = function.get("arguments", function.get("input"))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            pass
    return {"name": str(function.get("name") or "unnamed"), "args": arguments}
