"""Parts of requests in the API's terms: names, tools and calls, also in the forms of other APIs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union

import pydantic

from . import models
from ._json import is_mapping, is_object

Objective = Literal["tool_selection", "todo_enforcement", "guardrail", "pattern_capture"]
Outcome = Literal["succeeded", "failed"]
Role = Literal["user", "assistant", "tool", "system"]
ToolLike = Union[str, models.ToolName, Mapping[str, Any]]
"""A tool: its name as a text (``server.name``), or its name and server."""
CallLike = Union[models.SidecarCall, Mapping[str, Any]]
"""A call of a tool, ``{"tool": ..., "arguments": {...}}``, or in the form of a model's API."""
ResultLike = Union[models.SidecarResult, Mapping[str, Any]]
"""A result of a call, ``{"tool": ..., "ok": True, "content": ...}``, or in the form of a model's API."""
DefinitionLike = Union[models.ToolDefinition, Mapping[str, Any]]
"""A definition of a tool in the form of ``tools/list`` of the Model Context Protocol, or of a model's API."""
EditLike = Union[
    models.AddSection,
    models.AppendItem,
    models.AppendText,
    models.InsertItem,
    models.RemoveItem,
    models.RemoveKey,
    models.RemoveSection,
    models.RenameSection,
    models.ReplaceItem,
    models.ReplaceSection,
    models.SetKey,
    models.SetState,
    Mapping[str, Any],
]
"""An edit of a document: ``{"op": "append_item", "section": "plan", "text": "..."}``, or one of the models of edits."""


def present(**members: Any) -> dict[str, Any]:
    """Returns the members that have a value."""
    return {name: value for name, value in members.items() if value is not None}


def as_json(value: pydantic.BaseModel | Mapping[str, Any]) -> dict[str, Any]:
    """Returns a model, or an object, as a dictionary."""
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(
        f"a dictionary or a model of umbra_shadow.models is expected, not {type(value).__name__}: {value!r:.80}"
    )


def tool_of(tool: ToolLike) -> dict[str, Any]:
    """Returns name and server of a tool."""
    return {"name": tool} if isinstance(tool, str) else as_json(tool)


def call_of(call: CallLike) -> dict[str, Any]:
    """Returns a call as the API has it.

    Calls in the forms of OpenAI (``{"type": "function", "function": {"name", "arguments"}}`` and
    ``{"type": "function_call", "name", "arguments"}``, arguments as JSON text), Anthropic
    (``{"type": "tool_use", "name", "input"}``) and LangChain (``{"name", "args"}``) are converted.
    Raises :class:`ValueError` for a call without a tool.
    """
    given = as_json(call)
    inner = given.get("function")
    if is_mapping(inner):
        given = {**given, **inner}
    tool = given.get("tool", given.get("name"))
    if not tool or not (isinstance(tool, (str, models.ToolName)) or is_mapping(tool)):
        raise ValueError(
            f"a call needs its tool, as {{'tool': 'mail.send', 'arguments': {{...}}}}; it has {_members(given)}"
        )
    arguments = next((given[name] for name in ("arguments", "args", "input") if given.get(name) is not None), None)
    if isinstance(arguments, str):
        arguments = _arguments_of(arguments, tool)
    return present(tool=tool if isinstance(tool, str) else tool_of(tool), arguments=arguments)


def result_of(result: ResultLike, calls: Sequence[CallLike] = ()) -> dict[str, Any]:
    """Returns a result as the API has it.

    A result without a name, such as ``{"role": "tool", "tool_call_id", "content"}``, is that of the call with its id.
    Raises :class:`ValueError` for a result of an unknown tool.
    """
    given = as_json(result)
    tool = given.get("tool", given.get("name"))
    if tool is None:
        wanted = next((given[name] for name in ("tool_call_id", "call_id", "tool_use_id") if name in given), None)
        ids = [(as_json(call).get("id") or as_json(call).get("call_id"), call) for call in calls]
        tool = next((call_of(call)["tool"] for id, call in ids if wanted is not None and id == wanted), None)
    if not tool or not (isinstance(tool, (str, models.ToolName)) or is_mapping(tool)):
        raise ValueError(f"a result needs its tool, or the id of a call in tool_calls; it has {_members(given)}")
    ok = given.get("ok", not (given.get("is_error") or given.get("status") == "error"))
    content = given.get("content", given.get("output"))
    return {"tool": tool if isinstance(tool, str) else tool_of(tool), "ok": ok, "content": content}


def definition_of(tool: DefinitionLike) -> dict[str, Any]:
    """Returns a definition as ``tools/list`` has it; definitions in the forms of OpenAI and Anthropic are converted."""
    given = as_json(tool)
    inner = given.pop("function", None)
    if is_mapping(inner):
        given |= inner
    if given.get("type") in ("function", "custom"):
        del given["type"]
    schema = next((given.pop(name) for name in ("parameters", "input_schema") if name in given), None)
    if schema is not None:
        given.setdefault("inputSchema", schema)
    given.pop("strict", None)
    if not isinstance(given.get("name"), str):
        raise ValueError(f"a tool needs its name; it has {_members(given)}")
    return given


def padded(rulings: Sequence[models.GuardRuling], subjects: Sequence[Mapping[str, Any]]) -> list[models.GuardRuling]:
    """Returns one ruling for each subject: those that the server did not judge are allowed."""
    missing = subjects[len(rulings) :]
    return [*rulings, *(allowed(models.GuardRuling, tool=tool_of(one["tool"])) for one in missing)]


def allowed(kind: type[models.GuardRuling], **members: Any) -> models.GuardRuling:
    """Returns the ruling on a subject to which no rule objects."""
    return kind.model_validate({"decision": "allow", "would": "allow", **members})


def plain_name(name: str) -> str:
    """Returns a document's name in the server's form: without the ending of its format."""
    name = name.lower()
    return next((name[: -len(end)] for end in (".md", ".yaml", ".yml") if name.endswith(end)), name)


def object_of(data: str) -> dict[str, Any]:
    """Returns a JSON object by its text; an empty one for any other text."""
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if is_object(value) else {}


def _arguments_of(text: str, tool: Any) -> dict[str, Any]:
    try:
        arguments = json.loads(text or "{}")
        if is_object(arguments):
            return arguments
        problem = f"it is {type(arguments).__name__}"
    except ValueError as wrong:
        problem = str(wrong)
    raise ValueError(f"the arguments of {tool} are no JSON object: {problem}") from None


def _members(given: Mapping[str, Any]) -> str:
    return ", ".join(map(str, given)) or "no members"
