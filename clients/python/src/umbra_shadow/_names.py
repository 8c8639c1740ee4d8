"""Names of tools as the server compares them: its normal form, its readings and its patterns.

The rules are those of ``crates/domain/src/tool`` of the server. A test compares both.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

# Most words of a name after which a server's name may end.
_MOST_SERVER_WORDS = 8
_SIGNS = re.compile(r"[-_ ./:]+")
_WORD_BEGINS = re.compile(r"(?<=[^\W_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

Name = tuple[str, str]
"""Server, empty if unknown, and own name of a tool, in normal form."""


def words(name: str) -> str:
    """Returns the words of a name, in lower case and joined by ``_``. A word ends at a sign and before a capital."""
    spelled = _SIGNS.sub("_", _WORD_BEGINS.sub("_", name)).strip("_").lower()
    return spelled or name.lower()


def joined(name: str, server: str | None = None) -> str:
    """Returns the normal form without separators: equal for all spellings of one tool."""
    return "".join(readings(name, server)[0]).replace("_", "")


@functools.lru_cache(4096)
def readings(name: str, server: str | None = None) -> tuple[Name, ...]:
    """Returns the tools that a name may stand for; the first is the one that the spelling itself gives."""
    if server:
        stated, own = _without_mcp(server), name
    else:
        name = _without_mcp(name)
        stated, own = _split(name) or ("", name)
    found = [(words(stated) if stated else "", words(own))]
    # A server may pass on another server's tool under both names.
    rest = _without_mcp(own)
    while parts := _split(rest):
        found.append((words(parts[0]), words(parts[1])))
        rest = parts[1]
    if not stated:
        whole = words(own).removeprefix("mcp_")
        cuts = [at for at, sign in enumerate(whole) if sign == "_"][:_MOST_SERVER_WORDS]
        found += [(whole[:at], whole[at:].strip("_")) for at in cuts]
    return tuple(dict.fromkeys(one for one in found if one[1]))


def matches(pattern: str, name: str, server: str | None = None) -> bool:
    """Returns True if a rule that restricts tools of this pattern, a name or a glob, holds for the tool.

    It does if any reading of the name matches. A pattern without a server is for the tool of every server, and a tool
    without a server may be any server's.
    """
    if pattern == "*":
        return True
    wanted_server, wanted = _pattern(pattern)
    whole = f"{wanted_server}.{wanted}" if wanted_server is not None else wanted
    if not _is_wild(whole) and whole.replace(".", "").replace("_", "") == joined(name, server):
        return True
    for at, own in readings(name, server):
        full = f"{at}.{own}" if at else own
        if _fits(whole, full) or (at and _fits(whole, own)):
            return True
        # A pattern for all tools of a server does not hold for a tool of unknown server.
        names_a_tool = any(sign.isalnum() for sign in wanted)
        if not at and wanted_server is not None and names_a_tool and _fits(wanted, own):
            return True
    return False


def _fits(pattern: str, name: str) -> bool:
    if not _is_wild(pattern):
        return pattern.replace("_", "") == name.replace("_", "")
    return any(one.fullmatch(name) for one in _compiled(pattern))


@functools.lru_cache(1024)
def _compiled(pattern: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile("".join(_regex(one)), re.DOTALL) for one in _alternatives(pattern))


def _alternatives(pattern: str) -> list[str]:
    """Returns the patterns that ``{a,b}`` stands for."""
    inner = re.search(r"\{([^{}]*)\}", pattern)
    if inner is None:
        return [pattern]
    before, after = pattern[: inner.start()], pattern[inner.end() :]
    return [one for part in inner[1].split(",") for one in _alternatives(before + part + after)]


def _regex(glob: str) -> Iterator[str]:
    for part in re.findall(r"\[!?[^\]]+\]|.", glob, re.DOTALL):
        if part in ("*", "?"):
            yield ".*" if part == "*" else "."
        elif part.startswith("[") and len(part) > 1:
            yield part.replace("[!", "[^")
        else:
            yield re.escape(part)


@functools.lru_cache(1024)
def _pattern(pattern: str) -> tuple[str | None, str]:
    """Returns server (None without one) and tool of a pattern in normal form: wildcards stay."""
    if "{" in pattern:
        # Each alternative is a name of its own.
        members = [".".join(filter(None, _pattern(one))) for one in _alternatives(pattern)]
        return None, "{" + ",".join(members) + "}"
    pattern = _without_mcp(pattern.strip())
    parts = _split(pattern)
    server, own = parts or (None, pattern)
    return (None if server is None else _normal_glob(server)), _normal_glob(own)


def _normal_glob(glob: str) -> str:
    parts = re.split(r"(\[[^\]]*\])", glob)
    literal = [
        part.lower() if at % 2 else _SIGNS.sub("_", _WORD_BEGINS.sub("_", part)).lower()
        for at, part in enumerate(parts)
    ]
    return "".join(literal).strip("_")


def _is_wild(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[{\\")


def _without_mcp(name: str) -> str:
    return name[5:] if name[:5].lower() == "mcp__" and len(name) > 5 else name


def _split(name: str) -> tuple[str, str] | None:
    """Splits server and tool at the first separator that occurs in no word."""
    found = re.search(r"__|[./:]", name)
    if found is None:
        return None
    server, own = name[: found.start()], name[found.end() :]
    return (server, own) if _SIGNS.sub("", server) and _SIGNS.sub("", own) else None


def is_plain(name: str) -> bool:
    """Returns True for a name that the server accepts: letters, digits and visible ASCII, no blank at its ends."""
    fillers = "\u115f\u1160\u3164\uffa0"
    return name.strip() == name and all(" " <= sign <= "~" or sign.isalnum() and sign not in fillers for sign in name)
