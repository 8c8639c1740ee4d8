"""Adapter for clients of the Model Context Protocol: a session whose calls of tools are decided.

    files = guarded(session, umbra, server="files", effects={"read_file": "read"})
    await files.call_tool("write_file", {"path": "a", "text": "b"})

The extra ``umbra-shadow[mcp]`` installs the framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from .._client import ClientBase
from .._json import array_in, is_object, object_in
from ._boundary import REFUSALS, Rulebook, ToolBoundary, ToolError, refusal, text_of, value_of
from ._extras import suggest_extra

with suggest_extra("mcp"):
    from mcp.types import CallToolResult

__all__ = ["guarded"]

S = TypeVar("S")


def guarded(
    session: S,
    umbra: ClientBase,
    *,
    server: str | Mapping[str, str] | None = None,
    sidecar: Rulebook | None = None,
    effects: Mapping[str, str] | None = None,
    stubs: Mapping[str, Any] | None = None,
) -> S:
    """Returns a ``ClientSession``, or a ``Client``, each ``call_tool`` of which is decided before it is sent.

    All else is that of the session; the ``session`` of a ``Client`` is guarded too. A block is a result with
    ``isError`` and the reason as its text, and the stub of a rehearsal the result's value. An ask is a result with
    ``isError`` as well, which tells of the approval; once it is approved (``umbra.approvals``), the same call runs.
    Progress callbacks and metadata are not sent to Umbra.

    ``server``: the server's name in rules and contracts. ``sidecar``: a session of the sidecar, whose guardrails are
    put around the same tools (or ``session.guardrails("warn")``). ``effects``: ``read``, ``write`` or ``destructive``
    by tool: declared reads run while the server is away, all other tools do not. ``stubs``: results in rehearsal by
    tool, or functions that are called with the arguments as keywords. A name in them that resembles the name of a tool
    is warned of in the log, when ``list_tools`` answers.
    """
    if not hasattr(session, "call_tool"):
        raise TypeError(f"guarded takes a ClientSession or a Client, not {type(session).__name__}")
    return cast(S, _GuardedSession(session, ToolBoundary(umbra, sidecar, server, effects, stubs)))


class _GuardedSession:
    """A session with another ``call_tool``, as is each session that it has."""

    def __init__(self, session: Any, boundary: ToolBoundary) -> None:
        self._session, self._boundary = session, boundary
        # Names of tools on the pages of the list so far.
        self._listed: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._session, name)
        return _GuardedSession(value, self._boundary) if hasattr(value, "call_tool") else value

    async def __aenter__(self) -> _GuardedSession:
        await self._session.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._session.__aexit__(*error)

    async def list_tools(self, *settings: Any, **named: Any) -> Any:
        """Lists the tools, and compares their names with those in the settings."""
        result = await self._session.list_tools(*settings, **named)
        self._listed.update(tool.name for tool in result.tools)
        # The second name is that of version 1 of the package.
        if not (getattr(result, "next_cursor", None) or getattr(result, "nextCursor", None)):
            self._boundary.warn_of_names(self._listed)
        return result

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, *settings: Any, **named: Any) -> Any:
        """Calls a tool as the boundary decides."""
        result: Any = None
        value: Any = None

        async def run() -> Any:
            nonlocal result, value
            result = await self._session.call_tool(name, arguments, *settings, **named)
            value = _value(result)
            return value

        call = self._boundary.call(name, arguments or {}, run, pauses=(_Unfinished,))
        try:
            given = await self._boundary.made_async(call)
        except (_Unfinished, ToolError):
            return result
        except REFUSALS as error:
            return _result({"error": refusal(error)})
        if result is None:
            answer = call.answer or {}
            mark = {"decision_id": answer.get("decision_id"), "contract": object_in(answer, "stub").get("contract")}
            return _result(given, {"dev.umbra/shadow": mark})
        return result if given is value else _changed(result, given)


class _Unfinished(Exception):
    """The server needs an input, or more time, before it gives the result."""


def _value(result: Any) -> Any:
    """Returns a result as contracts have it: its structured content, else its text, as JSON if it is JSON.

    Raises :class:`ToolError` for the result of a failure.
    """
    if not isinstance(result, CallToolResult):
        raise _Unfinished
    told = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    text = "\n".join(one["text"] for one in array_in(told, "content") if one.get("type") == "text")
    if told.get("isError"):
        raise ToolError(text)
    return told["structuredContent"] if "structuredContent" in told else value_of(text)


def _result(value: Any, meta: Mapping[str, Any] | None = None) -> CallToolResult:
    """Returns a whole result with a value. ``{"error": text}`` is the result of a failure."""
    is_error = _sole_text(value, "error") is not None
    members: dict[str, Any] = {"content": [_block(value)], "isError": is_error}
    if isinstance(value, dict) and not is_error:
        members["structuredContent"] = value
    if meta is not None:
        members["_meta"] = dict(meta)
    return CallToolResult.model_validate(members)


def _changed(result: CallToolResult, value: Any) -> CallToolResult:
    """Returns a result with another value."""
    told = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    told["content"] = [_block(value), *(one for one in told["content"] if one.get("type") != "text")]
    if "structuredContent" in told:
        told["structuredContent"] = value
    return CallToolResult.model_validate(told)


def _block(value: Any) -> dict[str, str]:
    text = _sole_text(value, "content", "result", "text", "error")
    return {"type": "text", "text": text_of(value) if text is None else text}


def _sole_text(value: Any, *names: str) -> str | None:
    """Returns the text that is the only member of an object, under one of these names."""
    if is_object(value) and len(value) == 1:
        ((name, text),) = value.items()
        if name in names and isinstance(text, str):
            return text
    return None
