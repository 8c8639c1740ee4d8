"""The companion of an agent's session, for Python 3.10 or newer and without dependencies. It stands beside ``umbra.py``,
whose client, key and log it shares, and where its main names are found as well (``umbra.sidecar``).

    async with umbra.sidecar(agent="coder", task="fix the date bug", documents={"todo": "# Todo\\n\\n## Plan\\n"}) as s:
        turn = await s.turn(intent="search the code")
        with s.guardrails("enforce"):
            ...                                             # tools that umbra.tool decorates are held to the rules
        await s.ensure_updated("todo", section="Plan")

What is asked for goes in as dictionaries, as JSON has it; what is answered is frozen dataclasses. ``degraded`` and
``warnings`` of each say what is missing: a server that is away stops no agent. :class:`FakeSidecar` is the same without a
server, for tests.
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
