"""Client of the sidecar, the companion of an agent's session, for Python 3.10 or newer and without dependencies. The
package uses the client, the key and the log of ``umbra.py`` beside it; its main names are found there as well
(``umbra.sidecar``).

    async with umbra.sidecar(agent="coder", task="fix the date bug", documents={"todo": "# Todo\\n\\n## Plan\\n"}) as s:
        turn = await s.turn(intent="search the code")
        with s.guardrails("enforce"):
            ...                                             # rules apply to tools that umbra.tool decorates
        await s.ensure_updated("todo", section="Plan")

Requests take dictionaries, in the form of JSON; answers are frozen dataclasses. ``degraded`` and ``warnings`` of an
answer tell that parts are missing, and which: a server that is away stops no agent. :class:`FakeSidecar` is a sidecar
without a server, for tests.
"""

from .answers import (
    Answer,
    Call,
    Decision,
    DocumentAnswer,
    DocumentDue,
    DocumentState,
    DocumentText,
    Edit,
    ExcludedTool,
    GuardAnswer,
    History,
    Item,
    ItemRef,
    MessageAnswer,
    OfferedPattern,
    Pattern,
    PatternsFound,
    Provenance,
    RankedTool,
    RecordedPattern,
    Result,
    Ruling,
    Said,
    Section,
    Selection,
    SessionState,
    Summary,
    ToolChoice,
    ToolDefinition,
    ToolName,
    ToolRef,
    Turn,
    Version,
    quote_patterns,
)
from .documents import Document, UpToDate
from .errors import (
    Conflict,
    Contradiction,
    NotUpdated,
    ResultWithheld,
    SessionOver,
    SidecarError,
    SidecarRefused,
    SidecarUnavailable,
)
from .fake import FakeSidecar, Moment, Recorded, Rule, Verdict
from .guardrails import Guardrails
from .session import Sidecar, sidecar

__all__ = [
    "Answer",
    "Call",
    "Conflict",
    "Contradiction",
    "Decision",
    "Document",
    "DocumentAnswer",
    "DocumentDue",
    "DocumentState",
    "DocumentText",
    "Edit",
    "ExcludedTool",
    "FakeSidecar",
    "GuardAnswer",
    "Guardrails",
    "History",
    "Item",
    "ItemRef",
    "MessageAnswer",
    "Moment",
    "NotUpdated",
    "OfferedPattern",
    "Pattern",
    "PatternsFound",
    "Provenance",
    "RankedTool",
    "Recorded",
    "RecordedPattern",
    "Result",
    "ResultWithheld",
    "Rule",
    "Ruling",
    "Said",
    "Section",
    "SessionOver",
    "Selection",
    "SessionState",
    "Sidecar",
    "SidecarError",
    "SidecarRefused",
    "SidecarUnavailable",
    "Summary",
    "ToolChoice",
    "ToolDefinition",
    "ToolName",
    "ToolRef",
    "Turn",
    "UpToDate",
    "Verdict",
    "Version",
    "quote_patterns",
    "sidecar",
]
