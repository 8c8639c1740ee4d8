"""Documents of a session, and the duty to keep them up to date."""

from __future__ import annotations

import dataclasses
import re
import urllib.parse
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from .answers import DocumentAnswer, Edit, History, Section
from .errors import Conflict, Contradiction, NotUpdated, SidecarRefused
from .transport import Request

if TYPE_CHECKING:
    from .session import Sidecar

Since = Literal["turn", "session"]


@dataclasses.dataclass
class Seen:
    """Last known state of a document, with earlier texts."""

    latest: DocumentAnswer
    first: str = ""
    """Text at the beginning of the session."""
    at_turn: str = ""
    """Text at the beginning of the last turn."""


class Document:
    """A document of a session, in the state of the last read or change; :meth:`Sidecar.document` returns one.

    A change applies to the last known state (``If-Match`` is sent). Changes that others made meanwhile are merged with
    it, item by item, or the whole change is refused with :class:`Conflict`. While the server is away the text stays in
    the last known state, the answer is ``degraded``, and a change is not ``stored``.
    """

    def __init__(self, session: Sidecar, name: str) -> None:
        self._session = session
        self._asked = name
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
        return self._answer.text

    @property
    def etag(self) -> str | None:
        """Tag of this text; None if the document does not exist yet, or its state is unknown."""
        return self._answer.etag

    @property
    def version(self) -> int:
        """Number of changes so far."""
        return self._answer.version

    @property
    def exists(self) -> bool:
        """True if the document exists, as far as is known."""
        return self._answer.etag is not None

    @property
    def sections(self) -> tuple[Section, ...]:
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
    def warnings(self) -> tuple[str, ...]:
        """Missing parts at the last read or change."""
        return self._answer.warnings

    async def read(self) -> DocumentAnswer:
        """Reads the document again."""
        try:
            return self._take(await self._ask("GET", repeatable=True))
        except SidecarRefused as refused:
            if refused.status != 404:
                raise
            return self._take(DocumentAnswer(name=self.name))

    async def edit(self, *edits: Edit, by: str | None = None) -> DocumentAnswer:
        """Makes edits by section and item, all of them or none. ``by`` is the author, the agent unless given.

        Raises :class:`Conflict` if the document has changed meanwhile in the same places, and :class:`SidecarRefused`
        if an edit cannot be made.
        """
        if not edits:
            raise TypeError("edit takes one edit at least")
        body = {"edits": [dict(edit) for edit in edits], **({} if by is None else {"by": by})}
        return self._take(await self._ask("PATCH", body, self._match()))

    async def put(
        self, text: str, *, by: str | None = None, format: Literal["markdown", "yaml"] | None = None
    ) -> DocumentAnswer:
        """Replaces the whole text, or creates the document; otherwise as :meth:`edit`."""
        body = {"text": text, **({} if by is None else {"by": by}), **({} if format is None else {"format": format})}
        return self._take(await self._ask("PUT", body, self._match() or {"If-None-Match": "*"}))

    async def history(self, cursor: str | None = None) -> History:
        """Returns a page of the versions, oldest first, from the first version or from a cursor on."""
        query = "" if cursor is None else f"?cursor={urllib.parse.quote(cursor, safe='')}"
        return await self._session._of_session(
            History, self._request("GET", f"/history{query}", repeatable=True)
        )

    def _match(self) -> dict[str, str]:
        return {"If-Match": f'"{self.etag}"'} if self.etag else {}

    def _request(
        self, method: str, rest: str = "", body: Any = None, headers: Any = None, repeatable: bool = False
    ) -> Request:
        path = f"/documents/{urllib.parse.quote(self._asked, safe='')}{rest}"
        return Request(method, path, body, headers or {}, repeatable)

    async def _ask(
        self, method: str, body: Any = None, headers: Any = None, repeatable: bool = False
    ) -> DocumentAnswer:
        request = self._request(method, "", body, headers, repeatable)
        stands = dataclasses.replace(self._answer, merged=False, stored=method == "GET")
        try:
            return await self._session._of_session(DocumentAnswer, request, without=stands)
        except SidecarRefused as refused:
            if refused.status == 412 or (refused.status == 409 and refused.errors):
                told = [(one.get("pointer"), one.get("code"), one.get("detail")) for one in refused.errors]
                places = [Contradiction(str(place), str(kind), str(detail)) for place, kind, detail in told]
                raise Conflict(self.name, refused.detail, places) from None
            raise

    def _take(self, answer: DocumentAnswer) -> DocumentAnswer:
        if answer.degraded or not answer.stored:
            # The present state is unknown: the last known state stays.
            answer = self._answer = dataclasses.replace(
                self._answer, degraded=True, warnings=answer.warnings, stored=answer.stored, merged=False
            )
        else:
            self._session._saw(self._asked, answer)
            # Answers to concurrent changes may arrive in another order than the changes.
            if answer.version >= self._answer.version or answer.etag is None:
                self._answer = answer
        return answer


class UpToDate:
    """Check that a document has changed, to be awaited or used as a context. See :meth:`Sidecar.ensure_updated`."""

    def __init__(self, session: Sidecar, document: str, section: str | None, since: Since) -> None:
        if since not in ("turn", "session"):
            raise ValueError("since is turn or session")
        self._session, self._document, self._section, self._since = session, document, section, since
        self._before: str | None = None

    def __await__(self) -> Generator[Any, None, Document]:
        return self._ensure().__await__()

    async def __aenter__(self) -> Document:
        document = await self._session.document(self._document)
        self._before = document.text
        return document

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._ensure()

    async def _ensure(self) -> Document:
        document = await self._session.document(self._document)
        if document.degraded:
            return document
        since: str = "the block began"
        before = self._before
        if before is None:
            seen = self._session._seen[document.name]
            before, since = (
                (seen.first, "the session began") if self._since == "session" else (seen.at_turn, "the last turn")
            )
        if document.exists and has_changed(before, document, self._section):
            return document
        of = f"the section {self._section} of {document.name}" if self._section else f"the document {document.name}"
        wanted = [f"Before you go on, update {of}: it has not changed since {since}."]
        due = [one for one in self._session._due if one.document.lower() == document.name.lower() and one.reason]
        raise NotUpdated(document.name, self._section, self._since, [*wanted, *(one.reason for one in due)])


def has_changed(before: str, now: Document, section: str | None) -> bool:
    """Returns True if a document, or a section by slug or title, has changed in substance: more than blanks and ids."""
    if section is None:
        return _substance(before) != _substance(now.text)
    is_yaml = now._answer.format == "yaml"
    was, is_ = _section(before, section, is_yaml), _section(now.text, section, is_yaml)
    if is_ is None:
        # Only the server finds this heading: then any change of the document counts, in favour of the agent.
        known = any(section.lower() in (one.slug.lower(), one.title.lower()) for one in now.sections)
        return known and _substance(before) != _substance(now.text)
    return was is None or _substance(was) != _substance(is_)


def _substance(text: str) -> str:
    return " ".join(re.sub(r"<!--\s*id:.*?-->", "", text, flags=re.DOTALL).split())


def _section(text: str, name: str, is_yaml: bool) -> str | None:
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
            if found is None and _is_called(heading[1] if is_yaml else heading[2], name):
                found, level = [], depth
        if found is not None:
            found.append(line)
    return None if found is None else "\n".join(found)


def _is_called(title: str, name: str) -> bool:
    explicit = re.search(r"<!--\s*id:\s*(\S+?)\s*-->", title)
    title = re.sub(r"\s*#*\s*$", "", re.sub(r"<!--.*?-->", "", title)).strip()
    slug = re.sub(r"[\W_]+", "-", title.lower()).strip("-")
    return (
        name in (title, slug) or name.lower() in (title.lower(), slug) or (explicit is not None and explicit[1] == name)
    )
