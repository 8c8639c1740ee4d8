"""Documents of a session, and the duty to keep them up to date."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from .. import models
from .._documents import DocumentBase, UpToDateBase
from .._requests import Request
from .._session import Format, edits_of
from .._terms import EditLike, present
from ..errors import APIError

if TYPE_CHECKING:
    from .sidecar import AsyncSidecar


class AsyncDocument(DocumentBase):
    """A document of a session, in the state of the last read or change; :meth:`AsyncSidecar.document` returns one.

    A change applies to the last known state (``If-Match`` is sent). Changes that others made meanwhile are merged with
    it, item by item, or the whole change is refused with :class:`Conflict`. While the server is away the text stays in
    the last known state, the answer is ``degraded``, and a change is not ``stored``, which the log warns of once.
    """

    _session: AsyncSidecar

    async def read(self) -> models.DocumentView:
        """Reads the document again."""
        try:
            return self._take(await self._ask(self._request("GET", repeatable=True)))
        except APIError as refused:
            if refused.status != 404:
                raise
            return self._missing()

    async def edit(self, *edits: EditLike, by: str | None = None) -> models.DocumentView:
        """Makes edits by section and item, all of them or none. ``by`` is the author, the agent unless given.

        An edit is ``{"op": "append_item", "section": "plan", "text": "..."}``, or a model such as
        :class:`models.AppendItem`. Each ``op`` with its members, of which those in brackets may be missing::

            add_section      title, [level], [after], [body]
            replace_section  section, body
            remove_section   section
            rename_section   section, title
            append_item      section, text, [state]
            insert_item      section, place, text, [state]
            replace_item     section, item, text
            remove_item      section, item
            set_state        section, item, state
            set_key          key, value
            remove_key       key
            append_text      text, [section]

        ``section`` and ``after`` are the slug or the title of a section, ``state`` is ``open``, ``done`` or
        ``dropped``, ``item`` is ``{"text": ...}``, ``{"index": 1}`` or ``{"id": ...}``, and ``place`` is
        ``{"before": item}``, ``{"after": item}`` or ``{"within": item}``. Keys are those of front matter, or of YAML.

        Raises :class:`Conflict` if the document has changed meanwhile in the same places, and :class:`APIError` if an
        edit cannot be made.
        """
        body = {"edits": edits_of(edits), **present(by=by)}
        return self._take(await self._ask(self._request("PATCH", body=body, headers=self._match())))

    async def put(self, text: str, *, by: str | None = None, format: Format | None = None) -> models.DocumentView:
        """Replaces the whole text, or creates the document; otherwise as :meth:`edit`."""
        body = {"text": text, **present(by=by, format=format)}
        headers = self._match() or {"If-None-Match": "*"}
        return self._take(await self._ask(self._request("PUT", body=body, headers=headers)))

    async def history(self, cursor: str | None = None) -> models.History:
        """Returns a page of the versions, oldest first; ``cursor`` is the ``next_cursor`` of the page before."""
        request = self._request("GET", "history", params=present(cursor=cursor), repeatable=True)
        return await self._session._of_session(models.History, request)

    async def _ask(self, request: Request) -> models.DocumentView:
        try:
            return await self._session._of_session(models.DocumentView, request, self._unchanged(request))
        except APIError as refused:
            raise self._refusal(refused) from None


class AsyncUpToDate(UpToDateBase):
    """Check that a document has changed, now or within a block. See :meth:`AsyncSidecar.ensure_updated`."""

    _session: AsyncSidecar

    async def check(self) -> AsyncDocument:
        """Returns the document. Raises :class:`NotUpdated` unless it was changed."""
        document = await self._session.document(self._document)
        self._check(document)
        return document

    async def __aenter__(self) -> AsyncDocument:
        document = await self._session.document(self._document)
        self._before = document.text
        return document

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.check()
