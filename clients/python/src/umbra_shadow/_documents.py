"""Documents of a session, without their requests: known states, and changes in substance."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from . import models
from ._core import UNSTORED
from ._requests import Request, path
from ._session import Session, Since, no_document
from .errors import APIError, Conflict, Contradiction, NotUpdated


class DocumentBase:
    """State of a document at the last read or change."""

    def __init__(self, session: Session, name: str) -> None:
        self._session, self._asked = session, name
        self._answer = session._seen_as(name)

    def __repr__(self) -> str:
        return f"<Document {self.name} version {self.version}>"

    @property
    def name(self) -> str:
        """Name of the document."""
        return self._answer.name

    @property
    def text(self) -> str:
        """Text of the document; empty if it does not exist."""
        return self._answer.text or ""

    @property
    def format(self) -> str:
        """``markdown`` or ``yaml``."""
        return self._answer.format

    @property
    def etag(self) -> str | None:
        """Tag of this text; None if the document does not exist yet, or its state is unknown."""
        return self._answer.etag or None

    @property
    def version(self) -> int:
        """Number of changes so far."""
        return self._answer.version

    @property
    def exists(self) -> bool:
        """True if the document exists, as far as is known."""
        return self.etag is not None

    @property
    def sections(self) -> list[models.Section]:
        """Content by sections and items."""
        return self._answer.sections

    @property
    def open_items(self) -> int:
        """Number of open items."""
        return self._answer.open_items

    @property
    def done_items(self) -> int:
        """Number of done items."""
        return self._answer.done_items

    @property
    def degraded(self) -> bool:
        """True if something was missing at the last read or change."""
        return self._answer.degraded

    @property
    def warnings(self) -> list[str]:
        """Missing parts at the last read or change."""
        return self._answer.warnings

    def _match(self) -> dict[str, str]:
        return {"If-Match": f'"{self.etag}"'} if self.etag else {}

    def _request(self, method: str, *rest: str, **members: Any) -> Request:
        return Request(method, path("documents", self._asked, *rest).removeprefix("/v1/"), **members)

    def _unchanged(self, request: Request) -> dict[str, Any]:
        """Returns the members of the answer in place of a missing one."""
        return {**dict(self._answer), "merged": False, "stored": request.method == "GET"}

    def _refusal(self, refused: APIError) -> Exception:
        if refused.status == 412 or (refused.status == 409 and refused.errors):
            told = [(one.get("pointer"), one.get("code"), one.get("detail")) for one in refused.errors]
            places = [Contradiction(str(place), str(kind), str(detail)) for place, kind, detail in told]
            return Conflict(self.name, refused.detail, places)
        return refused

    def _missing(self) -> models.DocumentView:
        known = [name for name, seen in self._session._seen.items() if seen.latest.etag]
        for near in difflib.get_close_matches(self.name, known, 1, 0.75):
            words = "umbra: the session has no document %s, which is empty until a put: is %s meant?"
            self._session._core.warn_once(f"{self._session.id} {self.name}", words, self.name, near)
        return self._take(no_document(self.name))

    def _take(self, answer: models.DocumentView) -> models.DocumentView:
        if answer.degraded or not answer.stored:
            # The present state is unknown: the last known state stays.
            if not answer.stored:
                words = "umbra: the change of the document %s is lost: %s; make it again once read() is not degraded"
                self._session._core.warn_once(UNSTORED, words, self.name, "; ".join(answer.warnings))
            told: Mapping[str, Any] = {"degraded": True, "warnings": answer.warnings, "stored": answer.stored}
            answer = self._answer = self._answer.model_copy(update={**told, "merged": False})
        else:
            self._session._saw(answer)
            # Answers to concurrent changes may arrive in another order than the changes.
            if answer.version >= self._answer.version or not answer.etag:
                self._answer = answer
        return answer


class UpToDateBase:
    """Duty to change a document, or a section of it."""

    def __init__(self, session: Session, document: str, section: str | None, since: Since) -> None:
        if since not in ("turn", "session"):
            raise ValueError("since is turn or session")
        self._session, self._document, self._section, self._since = session, document, section, since
        self._before: str | None = None

    def _check(self, document: DocumentBase) -> None:
        """Raises :class:`NotUpdated` unless the document was changed."""
        if document.degraded:
            return
        since: str = "the block began"
        before = self._before
        if before is None:
            seen = self._session._seen[document.name]
            before, since = (
                (seen.first, "the session began") if self._since == "session" else (seen.at_turn, "the last turn")
            )
        if document.exists and has_changed(before, document, self._section):
            return
        of = f"the section {self._section} of {document.name}" if self._section else f"the document {document.name}"
        is_there = document.exists and (self._section is None or has_section(document, self._section))
        what = f"update {of}: it has not changed since {since}" if is_there else f"write {of}: it does not exist yet"
        wanted = [f"Before you go on, {what}."]
        due = [one for one in self._session._due if one.document.lower() == document.name.lower() and one.reason]
        raise NotUpdated(document.name, self._section, self._since, [*wanted, *(one.reason for one in due)])


def has_changed(before: str, now: DocumentBase, section: str | None) -> bool:
    """Returns True if a document, or a section by slug or title, has changed in substance: more than blanks and ids."""
    if section is None:
        return substance(before) != substance(now.text)
    is_yaml = now._answer.format == "yaml"
    was, is_ = section_of(before, section, is_yaml), section_of(now.text, section, is_yaml)
    if is_ is None:
        # Only the server finds this heading: then any change of the document counts, in favour of the agent.
        return has_section(now, section) and substance(before) != substance(now.text)
    return was is None or substance(was) != substance(is_)


def has_section(document: DocumentBase, name: str) -> bool:
    """Returns True if a document has a section of this slug or title."""
    if section_of(document.text, name, document.format == "yaml") is not None:
        return True
    return any(name.lower() in (one.slug.lower(), one.title.lower()) for one in document.sections)


def substance(text: str) -> str:
    """Returns a text without blanks and ids."""
    return " ".join(re.sub(r"<!--\s*id:.*?-->", "", text, flags=re.DOTALL).split())


def section_of(text: str, name: str, is_yaml: bool) -> str | None:
    """Returns a section with its heading and its subsections, by slug, title or explicit id."""
    found: list[str] | None = None
    level, fence = 0, ""
    for line in text.splitlines():
        mark = re.match(r"\s{0,3}(```+|~~~+)", line)
        if mark and not is_yaml:
            fence = mark[1] if not fence else "" if mark[1].startswith(fence) else fence
        heading = (
            None if fence else re.match(r"([^\s#:][^:]*):(?:\s|$)" if is_yaml else r"\s{0,3}(#{1,6})\s+(.*)", line)
        )
        if heading:
            depth = 1 if is_yaml else len(heading[1])
            if found is not None and depth <= level:
                break
            if found is None and is_called(heading[1] if is_yaml else heading[2], name):
                found, level = [], depth
        if found is not None:
            found.append(line)
    return None if found is None else "\n".join(found)


def is_called(title: str, name: str) -> bool:
    """Returns True if a heading has this slug, title or explicit id."""
    explicit = re.search(r"<!--\s*id:\s*(\S+?)\s*-->", title)
    title = re.sub(r"\s*#*\s*$", "", re.sub(r"<!--.*?-->", "", title)).strip()
    slug = re.sub(r"[\W_]+", "-", title.lower()).strip("-")
    return (
        name in (title, slug) or name.lower() in (title.lower(), slug) or (explicit is not None and explicit[1] == name)
    )
