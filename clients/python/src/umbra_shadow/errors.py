"""Exceptions of a sidecar. Faults of a server raise none, unless a session is strict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import umbra


class SidecarError(Exception):
    """Base of the sidecar's exceptions, except refusals of calls."""


class SessionOver(SidecarError, RuntimeError):
    """A session was used before its block or after its end."""


class SidecarUnavailable(SidecarError):
    """The server gave no usable answer, and the session is strict."""


class SidecarRefused(SidecarError):
    """The server refused the request: a wrong key, or a wrong request. It would refuse the request again.

    ``status`` is the HTTP status, ``code`` the stable code of the problem, ``errors`` the faults by JSON pointer.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        hint = {401: "; is UMBRA_API_KEY that of this server?", 403: "; does the key permit this agent?"}.get(
            status, ""
        )
        super().__init__(f"the server refuses this ({status}): {umbra._words(problem)}{hint}")
        self.status = status
        self.code = str(problem.get("code") or status)
        self.detail = str(problem.get("detail") or problem.get("title") or "no reason given")
        errors = problem.get("errors")
        listed = errors if isinstance(errors, list) else []
        self.errors: list[Mapping[str, Any]] = [one for one in listed if isinstance(one, dict)]


@dataclasses.dataclass(frozen=True)
class Contradiction:
    """A place at which two changes of a document contradict each other."""

    place: str
    """Section and item, joined by `` / ``."""
    kind: str
    """Kind of the contradiction, as a stable word."""
    detail: str
    """Text that is there now, and text that was to replace it."""


class Conflict(SidecarError):
    """The document has changed meanwhile, and both changes contradict each other; nothing was changed.

    ``conflicts`` lists the places. It is empty if the change was made to a state that the document never had. Read the
    document again (:meth:`Document.read`), and decide.
    """

    def __init__(self, document: str, detail: str, conflicts: Sequence[Contradiction] = ()) -> None:
        places = "".join(f"; {one.place}: {one.detail}" for one in conflicts[:3])
        super().__init__(f"{document}: {detail}{places}")
        self.document, self.detail, self.conflicts = document, detail, tuple(conflicts)


class NotUpdated(SidecarError):
    """A document, or a section of it, was not updated. ``directives`` are advice for the agent to read."""

    def __init__(self, document: str, section: str | None, since: str, directives: Sequence[str]) -> None:
        super().__init__(directives[0] if directives else f"{document} has not changed")
        self.document, self.section, self.since, self.directives = document, section, since, tuple(directives)


class ResultWithheld(umbra.Blocked):
    """A tool ran, and a rule forbids the agent to see the result."""

    def __init__(self, tool: str, detail: str, decision: Mapping[str, Any] | None = None) -> None:
        super().__init__(tool, "policy", detail, decision)
        self.args = (f"{tool} ran, and its result is withheld: {detail}",)
