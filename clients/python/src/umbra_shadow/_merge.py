"""Changes that a run has rehearsed, laid over the result of a read that ran: a run reads its own writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ._json import array_in, is_array, is_object, object_in


def merged(result: Any, merge: Mapping[str, Any]) -> Any:
    """Merges the run's rehearsed changes into the result of a read that ran: a run reads its own writes."""

    def at(path: str | None) -> Any:
        found = result
        for step in filter(None, (path or "").split(".")):
            found = found.get(step) if is_object(found) else None
        return found

    def of(item: Any) -> str | None:
        value = item.get(key) if key is not None and is_object(item) else None
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return None
        return (value if isinstance(value, str) else json.dumps(value)) or None

    items, patch = at(merge.get("items")), object_in(merge, "patch")
    key: str | None = merge.get("key")
    if isinstance(items, str) and merge.get("text"):
        text = _merge_text(items, merge["text"])
        folder, _, name = str(merge.get("items") or "").rpartition(".")
        if not name:
            return text
        at(folder)[name] = text
        return result
    if is_object(items) and not key and items.get("error") is None:
        # A result that is an error is no record, and has no fields to change.
        for fields in patch.values():
            _lay_over(items, fields)
    if not is_array(items):
        return result
    removed = set(array_in(merge, "remove"))
    items[:] = [item for item in items if of(item) not in removed]
    for item in items:
        own = of(item)
        if own is not None and own in patch:
            _lay_over(item, patch[own])
    is_last = not merge.get("more") or at(merge["more"]) in (None, False, "", 0)
    for record in array_in(merge, "put"):
        wanted = of(record)
        place = next((n for n, item in enumerate(items) if wanted is not None and of(item) == wanted), None)
        if place is not None:
            items[place] = record
        elif is_last:
            items.append(record)
    return result


def _merge_text(text: str, changes: Mapping[str, Any]) -> str:
    """Applies replacements to a text, and removes and adds lines."""
    for edit in array_in(changes, "edits"):
        text = text.replace(edit["oldText"], edit["newText"], 1)
    remove, add = array_in(changes, "remove"), array_in(changes, "add")
    if not remove and not add:
        return text
    lines = [line for line in text.splitlines() if line not in remove]
    lines.extend(line for line in add if line not in lines)
    return "\n".join(lines)


def _lay_over(record: dict[str, Any], fields: Mapping[str, Any]) -> None:
    """Lays fields over those of a record, members of members as well; null counts as a value."""
    for name, value in fields.items():
        own = record.get(name)
        if is_object(own) and is_object(value):
            _lay_over(own, value)
        else:
            record[name] = value
