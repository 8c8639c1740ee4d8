"""A sidecar without a server, for tests of its users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._core import Core
from .._fake import FakeRequest, FakeRule, FakeServer, FakeStep, check_step
from .._terms import DefinitionLike, Objective
from .sidecar import AsyncSidecar

if TYPE_CHECKING:
    from .client import AsyncUmbra


class AsyncFakeSidecar(AsyncSidecar):
    """A :class:`AsyncSidecar` without a server, with the same methods and answers, for tests of its users::

        def no_mail(at):
            if at.calls("send_*"):
                return "block", "mail is off"

        async with AsyncFakeSidecar(rules=[no_mail]) as s:
            await agent(s)
        assert s.asked("message")[-1]["content"] == "done"

    The arguments are those of :class:`AsyncSidecar`, and ``rules``: functions that judge every step. The gravest
    verdict holds, under the name of its function. :meth:`script` sets members of the next answers of a step,
    ``is_away`` takes the server away, and :meth:`asked` returns the recorded requests. Names of tools are compared
    as the server compares them, and a wrong request is refused as the server refuses it. Tools are ranked, and
    patterns found, by the words that they share with the query. Supported edits are those of items, states and
    whole sections in markdown. Nothing is merged: a change to a document that has changed meanwhile is a conflict.
    """

    def __init__(
        self,
        agent: str | None = None,
        *,
        rules: Sequence[FakeRule] = (),
        task: str | None = None,
        task_id: str | None = None,
        route: str | None = None,
        modes: Sequence[str] | None = None,
        objectives: Sequence[Objective] | None = None,
        tools: Sequence[DefinitionLike] = (),
        documents: Mapping[str, str | Mapping[str, Any]] | None = None,
        folder: str | None = None,
        model: str | None = None,
        id: str | None = None,
        close: bool = True,
        deadline: float | None = None,
        strict: bool = False,
        client: AsyncUmbra | None = None,
    ) -> None:
        self._server = FakeServer(rules)
        super().__init__(
            agent,
            task=task,
            task_id=task_id,
            route=route,
            modes=modes,
            objectives=objectives,
            tools=tools,
            documents=documents,
            folder=folder,
            model=model,
            id=id,
            close=close,
            deadline=deadline,
            strict=strict,
            client=client,
        )

    def _reach(self, client: AsyncUmbra | None) -> tuple[Core, bool]:
        core, _ = super()._reach(client)
        return self._server.core(core.config), True

    async def _release(self) -> None:
        self._server.end()
        await super()._release()

    @property
    def is_away(self) -> bool:
        """True if the server does not answer. Set it to degrade every answer."""
        return self._server.is_away

    @is_away.setter
    def is_away(self, away: bool) -> None:
        self._server.is_away = away
        self._attach_after = 0.0

    @property
    def requests(self) -> list[FakeRequest]:
        """All requests in order, answered or not."""
        return self._server.requests

    def asked(self, step: FakeStep) -> list[Mapping[str, Any]]:
        """Returns the bodies of a step's requests; for documents with ``name``, ``method`` and the text or edits."""
        check_step(step)
        return [one.body for one in self.requests if one.step == step]

    def script(self, step: FakeStep, **members: Any) -> None:
        """Sets members of the answer to the next such step; repeated calls set those of the steps after it."""
        self._server.script(step, members)
