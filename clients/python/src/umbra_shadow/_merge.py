"""Changes that a run has rehearsed, laid over the result of a read that ran: a run reads its own writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def merged(result: Any, merge: Mapping[str, Any]) -> Any:
    """Merges the run's rehearsed changes into the result of a read that ran: a run reads its own writes."""

    def at(path: str | None) -> Any:
        found = result
        for step in filter(None, (path or "").split(".")):
            found = found.get(step) if isinstance(found, dict) else None
        return found

    def of(item: Any) -> str | None:
        value = item.get(key) if isinstance(item, dict) else None
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return None
        return (value if isinstance(value, str) else json.dumps(value)) or None

    items, key, patch = at(merge.get("items")), merge.get("key"), merge.get("patch") or {}
    if isinstance(items, str) and merge.get("text"):
        text = _merge_text(items, merge["text"])
        folder, _, name = (merge.get("items") or "").rpartition(".")
        if not name:
            return text
        at(folder)[name] = text
        return result
    if isinstance(items, dict) and not key and items.get("error") is None:
        # A result that is an error is no record, and has no fields to change.
        for fields in patch.values():
            _lay_over(items, fields)
    if not isinstance(items, list):
        return result
    removed = set(merge.get("remove") or [])
    items[:] = [item for item in items if of(item) not in removed]
    for item in items:
        if of(item) in patch:
            _lay_over(item, patch[of(item)])
    is_last = not merge.get("more") or at(merge["more"]) in (None, False, "", 0)
    for record in merge.get("put") or []:
        wanted = of(record)
        place = next((n for n, item in enumerate(items) if wanted is not None and of(item) == wanted), None)
        if place is not None:
            items[place] = record
        elif is_last:
            items.append(record)
    return result


def _merge_text(text: str, changes: Mapping[str, Any]) -> str:
    """Applies replacements to a text, and removes and adds lines."""
    for edit in changes.get("edits") or []:
        text = text.replace(edit["oldText"], edit["newText"], 1)
    remove, add = changes.get("remove") or [], changes.get("add") or []
    if not remove and not add:
        return text
    lines = [line for line in text.splitlines() if line not in remove]
    lines.extend(line for line in add if line not in lines)
    return "\n".join(lines)


def _lay_over(record: dict[str, Any], fields: Mapping[str, Any]) -> None:
    """Lays fields over those of a record, members of members as well; null counts as a value."""
    for name, value in fields.items():
        own = record.get(name)
        if isinstance(own, dict) and isinstance(value, dict):
            _lay_over(own, value)
        else:
            record[name] = value
