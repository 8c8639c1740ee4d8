"""Client of Umbra, which watches AI agents work: events and findings, decisions about calls of tools, and sidecars.

    from umbra_shadow import Umbra

    umbra = Umbra(agent="billing")

    @umbra.tool(effect="write", stub={"status": "sent", "id": "stub-1"})
    def send_email(to: str, subject: str) -> dict:
        ...

:class:`Umbra` and :class:`AsyncUmbra` have the same methods. Answers are models of :mod:`umbra_shadow.models`.
:class:`FakeSidecar` and :class:`AsyncFakeSidecar` are sidecars without a server, for tests.
"""

from . import models
from ._async.client import AsyncUmbra
from ._async.documents import AsyncDocument
from ._async.fake import AsyncFakeSidecar
from ._async.guardrails import AsyncGuardrails
from ._async.resources import AsyncFindingStream, AsyncListing
from ._async.sidecar import AsyncSidecar
from ._fake import FakeRequest, FakeRule, FakeStep, FakeVerdict, Moment
from ._patterns import quote_patterns
from ._requests import VERSION as __version__
from ._session import SessionStep
from ._sync.client import Umbra
from ._sync.documents import Document
from ._sync.fake import FakeSidecar
from ._sync.guardrails import Guardrails
from ._sync.resources import FindingStream, Listing
from ._sync.sidecar import Sidecar
from .errors import (
    APIError,
    ApprovalRequired,
    Blocked,
    Conflict,
    Contradiction,
    NotUpdated,
    ResultWithheld,
    SessionOver,
    StubFault,
    UmbraError,
    Unavailable,
    UndecidedCall,
)

__all__ = [
    "APIError",
    "ApprovalRequired",
    "AsyncDocument",
    "AsyncFakeSidecar",
    "AsyncFindingStream",
    "AsyncGuardrails",
    "AsyncListing",
    "AsyncSidecar",
    "AsyncUmbra",
    "Blocked",
    "Conflict",
    "Contradiction",
    "Document",
    "FakeRequest",
    "FakeRule",
    "FakeSidecar",
    "FakeStep",
    "FakeVerdict",
    "FindingStream",
    "Guardrails",
    "Listing",
    "Moment",
    "NotUpdated",
    "ResultWithheld",
    "SessionOver",
    "SessionStep",
    "Sidecar",
    "StubFault",
    "Umbra",
    "UmbraError",
    "Unavailable",
    "UndecidedCall",
    "__version__",
    "models",
    "quote_patterns",
]
