"""Exceptions of the client. No text of an exception has a key in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ._json import array_in, is_object, object_in

__all__ = [
    "APIError",
    "ApprovalRequired",
    "Blocked",
    "Conflict",
    "Contradiction",
    "NotUpdated",
    "ResultWithheld",
    "SessionOver",
    "StubFault",
    "UmbraError",
    "Unavailable",
    "UndecidedCall",
]

# What may be wrong where a key is refused, and where a refusal has no code: no server of Umbra wrote it.
_KEY = "; is UMBRA_API_KEY a key of this server?"
_STRANGER = "; what refuses is no server of Umbra: is UMBRA_URL its address?"


class UmbraError(Exception):
    """Base of all exceptions of this package. They can be pickled and copied."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Without a call of `__init__`, whose parameters are not those of the message.
        return type(self).__new__, (type(self), *self.args), self.__dict__


class APIError(UmbraError):
    """The server refused a request, and would refuse it again: a wrong key, or a request that breaks a rule of the API.

    ``status`` is the HTTP status, ``code`` the stable code of the problem, ``detail`` its description with a remedy,
    ``errors`` the faults of the input, each with ``pointer`` (a JSON pointer), ``code`` and ``detail``. ``request_id``
    is the request's id, as in ``x-request-id`` and in the server's log.
    """

    def __init__(self, request: str, status: int, problem: Mapping[str, Any]) -> None:
        hint = _KEY if status == 401 else "" if problem.get("code") else _STRANGER
        super().__init__(f"{request} was refused ({status}): {problem_text(problem)}{hint}")
        self.status: int = status
        self.code: str = str(problem.get("code") or f"http_{status}")
        self.request_id: str | None = str(problem.get("instance") or "").removeprefix("urn:umbra:request:") or None
        self.detail: str = str(problem.get("detail") or problem.get("title") or "no reason given")
        self.errors: list[dict[str, Any]] = [dict(one) for one in array_in(problem, "errors") if is_object(one)]


class Unavailable(UmbraError):
    """No usable answer came in time: the server is away, late or faulty, or another program answers.

    ``status`` is the HTTP status of the last answer, None without one.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status: int | None = status


class WrongAddress(Unavailable):
    """What answers at the address is no server of Umbra, or speaks no TLS: to ask again does not help."""


class Blocked(UmbraError):
    """The call may not run.

    ``tool`` is its name, ``reason`` a stable code, ``detail`` the explanation for the agent to read, and ``decision``
    the server's answer as JSON (None without one).
    """

    def __init__(self, tool: str, reason: str, detail: str, decision: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{tool} was not run ({reason}): {detail}")
        self.tool: str = tool
        self.reason: str = reason
        self.detail: str = detail
        self.decision: Mapping[str, Any] | None = decision

    @property
    def rule(self) -> str | None:
        """Name of the deciding rule, if a rule decided."""
        decision = self.decision or {}
        rule = decision.get("rule") or object_in(decision, "guard").get("rule")
        return None if rule is None else str(rule)


class ApprovalRequired(Blocked):
    """A person must approve this call first. Once it is approved, a call with the same arguments runs, once.

    ``approval_id`` is for :meth:`Umbra.approvals`; the approval expires at ``expires_at`` (RFC 3339).
    """

    def __init__(self, tool: str, decision: Mapping[str, Any]) -> None:
        approval = object_in(decision, "approval")
        self.approval_id: str = approval.get("id", "")
        self.expires_at: str = approval.get("expires_at", "")
        detail = f"{decision.get('detail') or 'a rule asks for it'}; approve {self.approval_id} and call again"
        super().__init__(tool, "approval_required", detail, decision)


class UndecidedCall(Blocked, Unavailable):
    """The call was not run: the server could not be asked, and the tool may change something."""


class ResultWithheld(Blocked):
    """A tool ran, and a rule forbids the agent to see the result."""

    def __init__(self, tool: str, detail: str, decision: Mapping[str, Any] | None = None) -> None:
        super().__init__(tool, "policy", detail, decision)
        self.args = (f"{tool} ran, and its result is withheld: {detail}",)


class StubFault(UmbraError):
    """The rehearsed call failed, at a rate of its contract. ``fault`` is the error's name, ``result`` the error."""

    def __init__(self, tool: str, fault: str, result: Any) -> None:
        super().__init__(f"{tool} failed in rehearsal: {fault}")
        self.tool: str = tool
        self.fault: str = fault
        self.result: Any = result


class SessionOver(UmbraError, RuntimeError):
    """A session of the sidecar was used before its block or after its end."""


@dataclasses.dataclass(frozen=True)
class Contradiction:
    """A place at which two changes of a document contradict each other."""

    place: str
    """Section and item, joined by `` / ``."""
    kind: str
    """Kind of the contradiction, as a stable word."""
    detail: str
    """Text that is there now, and text that was to replace it."""


class Conflict(UmbraError):
    """The document has changed meanwhile, and both changes contradict each other; nothing was changed.

    ``conflicts`` lists the places. It is empty if the change was made to a state that the document never had. Read the
    document again, and decide.
    """

    def __init__(self, document: str, detail: str, conflicts: Sequence[Contradiction] = ()) -> None:
        places = "".join(f"; {one.place}: {one.detail}" for one in conflicts[:3])
        super().__init__(f"{document}: {detail}{places}")
        self.document: str = document
        self.detail: str = detail
        self.conflicts: tuple[Contradiction, ...] = tuple(conflicts)


class NotUpdated(UmbraError):
    """A document, or a section of it, was not updated. ``directives`` are advice for the agent to read."""

    def __init__(self, document: str, section: str | None, since: str, directives: Sequence[str]) -> None:
        super().__init__(directives[0] if directives else f"{document} has not changed")
        self.document: str = document
        self.section: str | None = section
        self.since: str = since
        self.directives: tuple[str, ...] = tuple(directives)


def problem_text(problem: Mapping[str, Any]) -> str:
    """Returns the description of a problem, with its first three faults."""
    words = str(problem.get("detail") or problem.get("title") or "no reason given")
    faults = [one for one in array_in(problem, "errors")[:3] if is_object(one)]
    told = "; ".join(f"{one.get('pointer', '')} {one.get('detail', '')}".strip() for one in faults)
    return f"{words} ({told})" if told else words
