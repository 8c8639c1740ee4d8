"""Documents of the fake sidecar: sections and edits of texts in markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ._documents import is_called

_ITEM = re.compile(r"^(\s*[-*+] )(?:\[([ xX-])\] )?(.*)$")
_BOXES = {"open": "[ ] ", "done": "[x] ", "dropped": "[-] "}
_STATES = {" ": "open", "x": "done", "X": "done", "-": "dropped"}


def sections_of(text: str) -> list[dict[str, Any]]:
    """Returns the sections of a text in markdown, each with its items, as the API has them."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        heading = re.match(r"(#{1,6})\s+(.*?)\s*$", line)
        item = _ITEM.match(line)
        if heading:
            slug = re.sub(r"[\W_]+", "-", heading[2].lower()).strip("-")
            found.append({"slug": slug, "title": heading[2], "level": len(heading[1]), "items": []})
        elif item and found:
            items = found[-1]["items"]
            state = _STATES.get(item[2] or "")
            items.append({"index": len(items) + 1, "text": item[3], "state": state, "depth": 0})
    return found


def edited(text: str, edit: Mapping[str, Any]) -> str:
    """Returns a text after one edit. Raises :class:`LookupError` if the edit cannot be made."""
    lines, op = text.splitlines(), edit.get("op")
    if op == "append_text" and not edit.get("section"):
        return _joined([*lines, "", edit["text"]])
    if op == "add_section":
        return _joined([*lines, "", f"{'#' * (edit.get('level') or 2)} {edit['title']}", "", edit.get("body", "")])
    if op not in ("replace_section", "append_item", "set_state", "replace_item", "remove_item", "append_text"):
        raise NotImplementedError(f"FakeSidecar lacks the edit {op} of the server: put the text, or script the answer")
    headings = [(at, re.match(r"(#{1,6})\s+(.*)", line)) for at, line in enumerate(lines)]
    known = [(at, heading) for at, heading in headings if heading]
    begin = next(((at, heading) for at, heading in known if is_called(heading[2], edit["section"])), None)
    if begin is None:
        raise LookupError(f"section not found: {edit['section']}")
    first, level = begin[0] + 1, len(begin[1][1])
    inner = next((at for at, _ in known if at >= first), len(lines))
    if op == "replace_section":
        outer = next((at for at, heading in known if at >= first and len(heading[1]) <= level), len(lines))
        return _joined(
            [*lines[:first], "", edit["body"].strip("\n"), *([""] if outer < len(lines) else []), *lines[outer:]]
        )
    end = max((at + 1 for at in range(first, inner) if lines[at].strip()), default=first)
    if op == "append_text":
        return _joined([*lines[:end], "", edit["text"], *lines[end:]])
    items = [at for at in range(first, inner) if _ITEM.match(lines[at])]
    if op == "append_item":
        box = (
            _BOXES[edit["state"]] if edit.get("state") else "[ ] " if any("[" in lines[at][:6] for at in items) else ""
        )
        between = [] if items else [""]
        return _joined([*lines[:end], *between, f"- {box}{edit['text']}", *lines[end:]])
    at = _item(lines, items, edit["item"])
    lead, state, words = _parts(lines[at])
    if op == "remove_item":
        return _joined([*lines[:at], *lines[at + 1 :]])
    if op == "set_state":
        lines[at] = f"{lead}{_BOXES[edit['state']]}{words}"
    else:
        lines[at] = f"{lead}{_BOXES[state] if state else ''}{edit['text']}"
    return _joined(lines)


def _item(lines: list[str], items: list[int], wanted: Mapping[str, Any]) -> int:
    if wanted.get("index") is not None and 0 < wanted["index"] <= len(items):
        return items[int(wanted["index"]) - 1]
    text = str(wanted.get("text") or "")
    words = {at: _parts(lines[at])[2] for at in items}
    exact = [at for at in items if text and words[at] == text]
    found = exact or [at for at in items if text and text.lower() in words[at].lower()]
    if len(found) == 1:
        return found[0]
    raise LookupError(f"there is no such item: {dict(wanted)}")


def _parts(line: str) -> tuple[str, str | None, str]:
    item = _ITEM.match(line)
    assert item is not None
    return item[1], _STATES.get(item[2] or ""), item[3]


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n"
