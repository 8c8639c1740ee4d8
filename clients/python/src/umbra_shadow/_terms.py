"""Parts of requests in the API's terms: names, tools, and members with a value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .answers import Call, Result, Ruling, ToolName, ToolRef


def said(**members: Any) -> dict[str, Any]:
    """Returns the members that have a value."""
    return {name: value for name, value in members.items() if value is not None}


def padded(rulings: tuple[Ruling, ...], asked: Sequence[Call] | Sequence[Result]) -> tuple[Ruling, ...]:
    """Returns one ruling for each subject: those that the server did not judge are allowed."""
    return (*rulings, *(Ruling(tool=ToolName(**tool_of(one["tool"]))) for one in asked[len(rulings) :]))


def tool_of(tool: str | ToolRef | ToolName) -> dict[str, Any]:
    if isinstance(tool, str):
        return {"name": tool}
    if isinstance(tool, ToolName):
        return said(name=tool.name, server=tool.server)
    return dict(tool)


def plain_name(name: str) -> str:
    """Returns a document's name in the server's form: without the ending of its format."""
    name = name.lower()
    return next((name[: -len(end)] for end in (".md", ".yaml", ".yml") if name.endswith(end)), name)


def object_of(data: str) -> Mapping[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
