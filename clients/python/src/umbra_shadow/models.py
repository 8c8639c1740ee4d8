"""Requests and answers of the API, generated from `openapi/umbra.json` by `scripts/client_models.sh`."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from pydantic import AwareDatetime, ConfigDict, Field
from umbra_shadow._model import Judgement, Model, NamedTool, SidecarAnswer


class Acknowledgement(Model):
    """Author of a change by hand, and a note. The body may be left out."""

    model_config = ConfigDict(
        extra="forbid",
    )
    by: str | None = None
    """Person who acknowledges or resets the breaker; the id of the key unless set."""
    note: str | None = None
    """Note for other people."""


class AddSection(Model):
    """Adds a section behind another section and its subsections, or at the end."""

    after: str | None = None
    """Slug or title of the section to follow. Default: the end of the document."""
    body: str | None = None
    """Content below the heading."""
    level: int | None = None
    """Heading level, 1 to 6. Default: the level of the section that it follows, or 2."""
    op: Literal["add_section"] = "add_section"
    title: str
    """Text of the heading."""


class AppendText(Model):
    """Adds a paragraph at the end of a section, before its subsections, or at the end of the document."""

    op: Literal["append_text"] = "append_text"
    section: str | None = None
    """Slug or title of the section. Default: the end of the document."""
    text: str
    """Text to add."""


class ApprovalAnswer(Model):
    """Approval that a call waits for. Ask again with the same `call_id`, or with the same arguments."""

    expires_at: AwareDatetime
    """End of its validity."""
    id: str
    """Approval id, for `POST /v1/approvals/{id}`."""


class ApprovalRequest(Model):
    """A person's answer to an approval request."""

    model_config = ConfigDict(
        extra="forbid",
    )
    decision: Literal["approve", "deny"] | str
    """Decision about the call."""
    reason: str | None = None
    """Reason, kept in the audit and as the `note` of the approval. The agent reads that of a denial."""


class BreakerReset(Model):
    """Reset of a breaker by hand."""

    at: AwareDatetime
    """When the breaker was reset."""
    by: str | None = None
    """Name of the person or key."""
    note: str | None = None
    """Note of the reset."""


class Coverage(Model):
    """Coverage of a task's steps."""

    checked: int
    """Steps at which the built-in checks alone looked."""
    judged: int
    """Steps on which a model gave a verdict, alone or as part of the whole task."""
    open: int
    """Steps that no model judged and whose review has not ended."""
    skipped: dict[str, int]
    """Steps that no model judged, by each reason for which a shadow skipped them."""
    steps: int
    """Steps of the task."""
    summary: str
    """These counts in words."""
    unwatched: int
    """Steps that no shadow watches."""


class DatabaseStatus(Model):
    """State of the database."""

    state: str
    """`ok`: it answered this request."""
    version: str
    """Version of Postgres."""


class DocumentChange1(Model):
    """The whole text was replaced."""

    kind: Literal["put"] | str


class EndRequest(Model):
    """The end of a run."""

    model_config = ConfigDict(
        extra="forbid",
    )
    agent: str | None = None
    """Agent of the run; without it, the runs of this name of every agent are ended."""
    reason: str
    """Reason, kept in the audit."""


class EventAssessment(Model):
    """Assessment of one event by a review."""

    assessment: Literal["APPROVE", "CHECKED", "INCONCLUSIVE", "SUGGEST", "FLAG"] | str
    """Assessment of the event."""
    decided_by: Literal["assessment", "checks", "checks_only", "on_inconclusive", "on_timeout", "second_call", "unconfirmed", "on_unfounded", "given", "skipped", "no_active_shadow"] | str | None = (
        None
    )
    """The rule behind the assessment."""
    event_id: str
    """The event."""
    notes: list[str]
    """Notes for readers."""
    recommendation: str
    """Recommendation for the event."""
    score: int | None = None
    """The model's score, 0-100."""


class ExecutionSource(Model):
    """A source that has a say on execution."""

    execution: Literal["live", "shadow"] | str
    """Execution that the source asks for."""
    expires_at: AwareDatetime | None = None
    """Time at which it ends by itself."""
    name: str
    """Name of the source: the override's scope and value, the run, the variable or the environment."""
    reason: str | None = None
    """Reason, if one was given."""
    source: str
    """Kind of source: `run`, `parent_run`, `override`, `settings`, `variable` or `environment`."""


class FieldError(Model):
    """Fault at one place of the input."""

    code: str
    """Stable, machine-readable code."""
    detail: str
    """Description of the fault and its remedy."""
    pointer: str
    """JSON pointer (RFC 6901) into the body; a parameter's name after `?` for the query."""


class FindingEvidence(Model):
    """Position of a finding's evidence in the event."""

    end: int
    """One past its last byte."""
    field: str
    """The event's field, such as `output` or `tool.args.command`."""
    quote: str
    """The text there, verbatim from the stored (redacted) field."""
    start: int
    """First byte of the quote in the field's stored text (UTF-8)."""


class GuardedMessage(Model):
    """Text with its role."""

    content: str
    """Text of the message."""
    role: str | None = None
    """`user`, `assistant` (the default), `tool` or `system`."""


class Hunk(Model):
    """Lines that are removed, and lines that are added in their place."""

    added: list[str]
    """Added lines, with line ends."""
    at: int
    """Number of lines before it in the first text."""
    removed: list[str]
    """Removed lines, with line ends."""


class ItemRef(Model):
    """
    Reference to an item of a section: by explicit id, by index, or by text.

    A text selects the item with exactly this text. If no item has it, the only one that contains it, in any case.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    id: str | None = None
    """`x` of `<!-- id: x -->`."""
    index: int | None = None
    """Position among the section's items, counted from 1; nested items count too."""
    text: str | None = None
    """Text of the item, or a part of it. Together with an index: the whole text of the item at that index."""


class Need(Model):
    """A problem that needs a person."""

    kind: str
    """`shadow`, `webhook`, `checks` or `telemetry`."""
    name: str
    """Name of the shadow, the webhook or the service."""
    problem: str
    """Problem in words."""
    remedy: str
    """Remedy."""


class NewToolCall(Model):
    """A tool call."""

    args: Any | None = None
    """Arguments, any JSON."""
    error: Any | None = None
    """Error: text; other JSON is kept as its text."""
    exit_code: int | None = None
    """Exit code of the program that the tool ran; any but 0 is a failure."""
    name: str
    """Name of the tool."""
    result: Any | None = None
    """Result: text; other JSON is kept as its text."""


class NoteRequest(Model):
    """A person's note for an agent."""

    model_config = ConfigDict(
        extra="forbid",
    )
    text: str
    """Text for the agent."""


class OccurrenceItem(Model):
    """An occurrence of the fault."""

    event_id: str
    """Id of the event."""
    finding_id: str
    """Id of the finding."""
    review_id: str | None = None
    """Id of the review; null if the built-in checks found the fault without a review."""
    timestamp: AwareDatetime
    """Time of the finding."""


class PatternQuery(Model):
    """Task to find patterns for."""

    model_config = ConfigDict(
        extra="forbid",
    )
    agent: str | None = None
    """Agent of the patterns; without it, patterns of all agents, for keys that may read everything."""
    limit: int | None = None
    """Most patterns; 5 by default, at most 20."""
    modes: list[str] = []
    """Modes, for the same rules."""
    route: str | None = None
    """Route, for the rules that decide which tools may be offered."""
    task: str
    """Text of the task."""


class Place1(Model):
    """Directly before this item."""

    before: ItemRef
    """Directly before this item."""


class Place2(Model):
    """Behind this item and its nested items."""

    after: ItemRef
    """Behind this item and its nested items."""


class Place3(Model):
    """Nested in this item, as the last one."""

    within: ItemRef
    """Nested in this item, as the last one."""


class ProbeStatus(Model):
    """Probes of models since the servers' start, which count for no shadow."""

    calls: int
    """Calls that were made."""
    usd: float
    """Money spent on the calls, in US dollars; the worst case if a model may have charged and did not say."""


class Problem(Model):
    """Problem details by RFC 9457, with a `code` and the faults by place."""

    code: str
    """Stable, machine-readable code: branch on this."""
    detail: str
    """Description of this occurrence and its remedy."""
    errors: list[FieldError] = Field(default=[], validate_default=True)
    """Faults that have a place in the input."""
    instance: str | None = None
    """`urn:umbra:request:` and the request's id, as in `x-request-id` and in the log."""
    status: int
    """HTTP status."""
    title: str
    """Meaning of the code."""
    type: str
    """`urn:umbra:problem:` and the code."""


class ProviderStatus(Model):
    """Provider of a model."""

    consecutive_failures: int
    """Failures since the last success."""
    last_error: str | None = None
    """Last failure, in words."""
    model: str
    """Name of the model at the provider."""
    name: str
    """Aliases of the models that lead to this provider."""
    provider: str
    """Wire protocol."""
    retry_in_ms: int | None = None
    """Milliseconds until the provider is tried again."""
    state: Literal["ok", "open", "half_open", "no_key", "checks"] | str
    """`ok`, `open`, `half_open`, `no_key` or `checks`."""


class PutDocument(Model):
    """Text to put."""

    model_config = ConfigDict(
        extra="forbid",
    )
    by: str | None = None
    """Author of the change; the session's agent unless given."""
    format: Literal["markdown", "yaml"] | str | None = None
    """Format of the text; markdown, unless the name ends in `.yaml`."""
    text: str
    """Whole text of the document."""


class QueueStatus(Model):
    """Queue of reviews."""

    oldest_age_seconds: float
    """Seconds for which the oldest waiting review has been due."""
    queued: int
    """Reviews that wait."""
    running: int
    """Reviews that run, over all processes."""


class RemoveItem(Model):
    """Removes an item with its nested items."""

    item: ItemRef
    """Item to remove."""
    op: Literal["remove_item"] = "remove_item"
    section: str
    """Slug or title of the section."""


class RemoveKey(Model):
    """Removes a key with its value."""

    key: str
    """Name of the key."""
    op: Literal["remove_key"] = "remove_key"


class RemoveSection(Model):
    """Removes a section with its subsections."""

    op: Literal["remove_section"] = "remove_section"
    section: str
    """Slug or title of the section."""


class RenameSection(Model):
    """Renames a section."""

    op: Literal["rename_section"] = "rename_section"
    section: str
    """Slug or title of the section."""
    title: str
    """Text of the new heading."""


class ReplaceItem(Model):
    """Replaces the text of an item; its state and nested items stay."""

    item: ItemRef
    """Item to change."""
    op: Literal["replace_item"] = "replace_item"
    section: str
    """Slug or title of the section."""
    text: str
    """New text, one paragraph."""


class ReplaceSection(Model):
    """Replaces the content of a section, subsections included; the heading stays."""

    body: str
    """New content."""
    op: Literal["replace_section"] = "replace_section"
    section: str
    """Slug or title of the section."""


class Reported(Model):
    """A stored outcome."""

    audit_seq: int
    """Number of the outcome's row in the audit."""
    call_id: str
    """Id of the call."""
    expected: bool
    """True if the call was decided to run. If false, a call ran that should not have."""
    replayed: bool
    """True if the same outcome was reported before."""


class Run(Model):
    """A run."""

    agent: str
    """Agent of the run."""
    changed_at: AwareDatetime
    """Time of the last call that changed the run."""
    execution: Literal["live", "shadow"] | str
    """Execution of the run's next call, overrides of single tools aside."""
    named: bool
    """True if the caller chose the name; false for the default run of a session or a process."""
    run: str
    """Name of the run."""
    session: str | None = None
    """Session of the run's last call."""
    started_by: str | None = None
    """Run that started this run."""
    stays_in_shadow: bool
    """True if the run is in shadow only because it began there, or was started by a run in shadow: other calls run."""


class RunList(Model):
    """Runs."""

    items: list[Run]
    """Runs with the newest calls first."""


class RunName(Model):
    """Name of a run, with its agent."""

    agent: str
    """Agent of the run."""
    run: str
    """Name of the run."""


class RunsEnded(Model):
    """Runs that were ended."""

    ended: list[RunName]
    """Agent and name of each run."""


class SetKey(Model):
    """Sets a key of front matter, which is created if missing; in YAML, a key at the first column."""

    key: str
    """Name of the key."""
    op: Literal["set_key"] = "set_key"
    value: Any
    """New value; `null` is written as a value."""


class SetState(Model):
    """Sets the state of an item: open, done or dropped. An item without a box gets one."""

    item: ItemRef
    """Item to change."""
    op: Literal["set_state"] = "set_state"
    section: str
    """Slug or title of the section."""
    state: Literal["open", "done", "dropped"] | str
    """New state."""


class ShadowBreaker(Model):
    """Recommendation of one shadow about an agent."""

    consecutive_rejections: int
    """Verified rejections in a row."""
    recommendation: Literal["closed", "half_open", "open"] | str
    """Recommendation of the shadow."""
    reviews: list[str]
    """Reviews that rejected, oldest first."""
    shadow: str
    """Name of the shadow."""
    since: AwareDatetime | None = None
    """Start of the present recommendation."""
    stuck: int
    """Rejections of the same output; 0 if no output was rejected twice."""


class ShadowStatus(Model):
    """A shadow's day so far."""

    checked_today: int
    """Reviews of today that were found clean by the built-in checks alone (CHECKED)."""
    day: date
    """Local day of the shadow."""
    enabled: bool
    """False if the shadow is switched off."""
    health: str
    """`ok`, or the obstacle that keeps the shadow's events from being judged by its model, in words."""
    max_reviews_per_day: int | None = None
    """Most reviews per day; null for no cap."""
    max_usd_per_day: float | None = None
    """Most money per day, in US dollars; null for no cap."""
    mode: Literal["passive", "review", "active"] | str
    """Mode of the shadow."""
    model: str
    """Alias of the shadow's model."""
    name: str
    """Name of the shadow."""
    reviewer: str
    """`model`, or `checks` where the built-in checks review alone."""
    reviews_today: int
    """Reviews reserved today."""
    skips_today: dict[str, int]
    """Matched events that were not reviewed, by reason."""
    tokens_today: int
    """Tokens spent today."""
    usd_held: float
    """Money held for calls under way, in US dollars."""
    usd_today: float
    """Money spent today, in US dollars."""


class ShedRange(Model):
    """A range of events that the built-in checks skipped."""

    events: int
    """Number of events."""
    from_: AwareDatetime = Field(..., alias="from")
    """Time of receipt of the first event."""
    until: AwareDatetime
    """Time of receipt of the last event."""


class SpoolStatus(Model):
    """State of the spool of one or more servers."""

    bytes: int
    """Bytes of the spool on the disk."""
    events: int
    """Events in the spool."""
    max_bytes: int
    """Most bytes that the spool may have."""
    oldest_age_seconds: int
    """Age of the oldest event, in seconds."""
    state: str
    """
    `ready`, `filing` (events wait for the database), `full` (no more events are taken), `failing` (the spool's
    folder cannot be written) or `off`.
    """


class StubAnswer(Model):
    """Answer in the place of a tool."""

    contract: str | None = None
    """Contract that the stub comes from, as `tool@version`."""
    fault: str | None = None
    """Code of the simulated fault that the contract asks for at a rate: `result` is the error."""
    is_fallback: bool | None = None
    """True if the result is the `stub_fallback` of the call."""
    result: Any
    """Result that the tool would have returned, any JSON."""
    validated_against: str | None = None
    """Source of the schema that the result fits: `contract`, `output_schema`, `recorded_results` or `nothing`."""


class Tally(Model):
    """Counts of the guardrail's verdicts."""

    allow: int
    """Calls and messages without an objection."""
    block: int
    """Calls and messages that were blocked."""
    warn: int
    """Calls and messages with a warning."""


class TaskRecommendation(Model):
    """Recommendation for a whole task."""

    assessment: Literal["APPROVE", "CHECKED", "INCONCLUSIVE", "SUGGEST", "FLAG"] | str | None = (
        None
    )
    """
    The strictest assessment of any review; APPROVE only if each watched step was judged by a model, or left to the
    built-in checks by a sample. Null without any review, and while reviews of unjudged steps are open.
    """
    reasons: list[str]
    """Reasons: the opinions against the task, the strictest first, or the steps that were not judged."""
    recommendation: str
    """Recommended action."""


class TelemetryStatus(Model):
    """Calls that one instrumentation of a service told of, since its first export."""

    cut: int
    """Calls of which the exporter dropped attributes."""
    model_calls: int
    """Calls of models."""
    reason: str | None = None
    """Reason for the last refusal."""
    rejected: int
    """Spans and logs that were refused."""
    scope: str
    """Instrumentation scope; empty for refusals."""
    seen_at: AwareDatetime
    """Time of the last export."""
    service: str
    """Name of the service."""
    tool_calls: int
    """Calls of tools."""
    without_content: int
    """Calls of models that came without content."""


class TokenCount(Model):
    """Tokens of a call."""

    input: int | None = None
    """Tokens read."""
    output: int | None = None
    """Tokens written."""


class ToolAnnotations(Model):
    """
    Hints of a server about its tool, by their names in the Model Context Protocol (`ToolAnnotations`, 2025-11-25). An
    absent hint was not given.
    """

    destructiveHint: bool | None = None
    """The tool may destroy data; only meaningful for a tool that is not read-only."""
    idempotentHint: bool | None = None
    """Repeating the same call changes nothing more."""
    openWorldHint: bool | None = None
    """The tool reaches beyond a closed set of things: the web, other people."""
    readOnlyHint: bool | None = None
    """The tool changes nothing."""


class ToolCall(Model):
    """A tool call."""

    args: Any | None = None
    """Arguments, any JSON."""
    error: str | None = None
    """Error: text; other JSON is kept as its text."""
    exit_code: int | None = None
    """Exit code of the program that the tool ran; any but 0 is a failure."""
    name: str
    """Name of the tool."""
    result: str | None = None
    """Result: text; other JSON is kept as its text."""


class ToolDefinition(Model):
    """Tool definition, as in `tools/list` of the Model Context Protocol, with the name of its server."""

    annotations: ToolAnnotations | None = None
    """Hints by its server."""
    description: str | None = None
    """Description by its server."""
    inputSchema: dict[str, Any] | None = None
    """JSON Schema of the arguments."""
    name: str
    """Name of the tool on its server."""
    outputSchema: dict[str, Any] | None = None
    """JSON Schema of the result; not used."""
    server: str | None = None
    """Server that offers the tool."""
    title: str | None = None
    """Title for people; not used."""


class ToolName(NamedTool):
    """Name of a tool. Shown as `server.name`, or as the name alone if no server is known."""

    name: str
    """Name of the tool at the server."""
    server: str | None = None
    """Server that offers the tool."""


class Acknowledged(Model):
    """A breaker that a person takes care of."""

    acknowledged: bool
    """True if a person has acknowledged the breaker since it opened."""
    acknowledged_at: AwareDatetime | None = None
    """Time of the acknowledgement."""
    acknowledged_by: str | None = None
    """Name of the person or key that acknowledged it."""
    agent: str
    """Name of the agent."""
    consecutive_rejections: int
    """Verified rejections in a row, by the shadow with the most."""
    half_open_at: AwareDatetime | None = None
    """Time at which an open breaker becomes half open."""
    note: str | None = None
    """Note of the acknowledgement."""
    reasons: list[str]
    """Reasons, in sentences."""
    recommendation: Literal["closed", "half_open", "open"] | str
    """
    Strictest recommendation of the shadows: `open` to hold the agent back, `half_open` to let it try, `closed` to
    let it work.
    """
    reset: BreakerReset | None = None
    """Last reset by hand."""
    shadows: list[ShadowBreaker]
    """Breakers of the single shadows."""
    since: AwareDatetime | None = None
    """Start of the present recommendation; null if the breaker was never other than closed."""
    stuck: int
    """
    Rejections of the same output, by the shadow with the most; 0 if no output was rejected twice. Such copies count
    once among the rejections in a row.
    """
    threshold: int
    """Number of rejections in a row, or of the same output, that opens the breaker."""
    already_acknowledged: bool
    """True if the breaker was acknowledged before: the first acknowledgement stays, and this one changed nothing."""


class AppendItem(Model):
    """Adds an item behind the last one of a section."""

    op: Literal["append_item"] = "append_item"
    section: str
    """Slug or title of the section."""
    state: Literal["open", "done", "dropped"] | str | None = None
    """
    State of the item. Default: open if its neighbours have boxes, else no box. Without neighbours: open if any
    item of the document has a box.
    """
    text: str
    """Text of the item, one paragraph."""


class Approval(Model):
    """An approval, as the API shows it."""

    agent: str
    """The agent that calls."""
    answered_at: AwareDatetime | None = None
    """When a person answered."""
    answered_by: str | None = None
    """Key of that person, where keys are required."""
    arguments: dict[str, Any] | None = None
    """The arguments of the call, redacted; null once erased."""
    asked_at: AwareDatetime
    """When the approval was requested."""
    call_id: str | None = None
    """The caller's id of the waiting call."""
    execution: Literal["live", "shadow"] | str | None = None
    """Execution of the call: the approval of a rehearsed call (`shadow`) counts in rehearsals alone."""
    expires_at: AwareDatetime
    """When the approval expires."""
    id: str
    """Approval id."""
    note: str | None = None
    """Note of that person; the agent reads that of a denial."""
    reason: str | None = None
    """Reason of the rule."""
    rule: str | None = None
    """The rule that asks."""
    run: str | None = None
    """The run of the call."""
    session: str | None = None
    """The session of the call."""
    state: Literal["pending", "approved", "denied", "used", "expired"] | str
    """State of the approval."""
    tool: str
    """The tool that is called."""


class BatchError(Model):
    """Reason why one event of a batch is not stored."""

    code: str
    """Code of the problem that the event would have had alone."""
    detail: str
    """Description of the fault and its remedy."""
    errors: list[FieldError] = Field(default=[], validate_default=True)
    """Faults, each with its place."""
    status: int
    """HTTP status that the event would have had alone."""


class Breaker(Model):
    """Breaker of an agent: a recommendation to hold it back, or not."""

    acknowledged: bool
    """True if a person has acknowledged the breaker since it opened."""
    acknowledged_at: AwareDatetime | None = None
    """Time of the acknowledgement."""
    acknowledged_by: str | None = None
    """Name of the person or key that acknowledged it."""
    agent: str
    """Name of the agent."""
    consecutive_rejections: int
    """Verified rejections in a row, by the shadow with the most."""
    half_open_at: AwareDatetime | None = None
    """Time at which an open breaker becomes half open."""
    note: str | None = None
    """Note of the acknowledgement."""
    reasons: list[str]
    """Reasons, in sentences."""
    recommendation: Literal["closed", "half_open", "open"] | str
    """
    Strictest recommendation of the shadows: `open` to hold the agent back, `half_open` to let it try, `closed` to
    let it work.
    """
    reset: BreakerReset | None = None
    """Last reset by hand."""
    shadows: list[ShadowBreaker]
    """Breakers of the single shadows."""
    since: AwareDatetime | None = None
    """Start of the present recommendation; null if the breaker was never other than closed."""
    stuck: int
    """
    Rejections of the same output, by the shadow with the most; 0 if no output was rejected twice. Such copies count
    once among the rejections in a row.
    """
    threshold: int
    """Number of rejections in a row, or of the same output, that opens the breaker."""


class BreakerAdvice(Model):
    """Recommendation about an agent whose breaker is not closed."""

    reasons: list[str]
    """Reasons, in sentences."""
    recommendation: Literal["closed", "half_open", "open"] | str
    """`open` to hold the agent back, `half_open` to let it try."""


class CheckBacklog(Model):
    """Backlog of the built-in checks on events that no review looks at."""

    oldest_age_seconds: float
    """Seconds since receipt of the oldest of these events."""
    ranges: list[ShedRange]
    """Ranges of skipped events, the newest first, at most twenty."""
    shed: int
    """Events that the checks skipped within a day, because too many waited."""
    waiting: int
    """Events that the checks have not reached yet."""


class CloseRequest(Model):
    """End of a session."""

    model_config = ConfigDict(
        extra="forbid",
    )
    outcome: Literal["succeeded", "failed"] | str | None = None
    """
    Outcome of the session's task. If given, the calls of the session become a pattern; otherwise they do so once
    reviews approve the task.
    """


class Disposition(Model):
    """Outcome of an event for one shadow, as callers see it."""

    mode: Literal["passive", "review", "active"] | str
    """Mode of the shadow."""
    outcome: Literal["queued", "batched", "skipped"] | str
    """Outcome of the pair."""
    reason: Literal["shadow_disabled", "loop_guard", "not_sampled", "cost_below_floor", "cooldown", "target_cap", "daily_cap", "token_cap", "usd_cap", "overload", "provider_unavailable", "erased"] | str | None = (
        None
    )
    """Reason, if the event was skipped."""
    review_id: str | None = None
    """Review, if the event was queued or batched."""
    shadow: str
    """Name of the shadow."""
    trigger: Literal["code_written", "security_risk", "task_complete", "error", "all"] | str
    """Trigger by which the event matched."""


class DocumentChange3(Model):
    """A change that started from an older state was merged."""

    from_: str = Field(..., alias="from")
    """Etag of the older state."""
    kind: Literal["merge"] | str
    said: list[Hunk] | None = None
    """For a file of the workspace: the patch from the state after the merge to the text of the file."""


class DocumentDue(Model):
    """Document that is not in order, by an enforced rule."""

    document: str
    """Name of the document."""
    needs: Literal["exists", "updated", "complete"] | str
    """Requirement of the rule."""
    reason: str
    """Reason that the rule gives."""
    rule: str
    """Name of the rule."""
    section: str | None = None
    """Section that the rule names, if any."""
    verdict: Literal["allow", "warn", "block"] | str
    """Verdict until the requirement is met."""


class DocumentState(Model):
    """A document of a session, without its text."""

    done_items: int
    """Number of done items."""
    etag: str
    """Tag that identifies the text."""
    format: Literal["markdown", "yaml"] | str
    """Syntax of the document."""
    name: str
    """Name of the document."""
    open_items: int
    """Number of open items."""
    version: int
    """Number of changes."""


class Effective(Model):
    """Effective execution, with its sources."""

    execution: Literal["live", "shadow"] | str
    """Live or shadow."""
    overruled: list[ExecutionSource]
    """Other sources, in order of precedence."""
    won: ExecutionSource
    """Source that decided."""


class EventBody(Model):
    """Content of an event."""

    agent: str
    """Name of the watched agent."""
    attempt: int | None = None
    """Number of the attempt at the same output, from 1."""
    cost_usd: float | None = None
    """Cost of this action, in US dollars."""
    duration_ms: int | None = None
    """Duration of the action, in milliseconds."""
    input: str | None = None
    """Input of the agent: text; other JSON is kept as its text."""
    metadata: dict[str, Any] | None = None
    """Any data of the sender."""
    occurred_at: AwareDatetime | None = None
    """Start of the action, by the sender's clock."""
    output: str | None = None
    """Output of the agent: text; other JSON is kept as its text."""
    session_id: str | None = None
    """Session of the agent."""
    status: str | None = None
    """Status at the end of the action: `ok`, `error`, …"""
    stop_reason: str | None = None
    """Reason why the model stopped: `stop`, `length`, …"""
    supersedes: str | None = None
    """Event whose output this one replaces."""
    task: str | None = None
    """Instruction that the agent was given."""
    task_cost_usd: float | None = None
    """Cost of the whole task so far, in US dollars."""
    task_id: str | None = None
    """Piece of work that the event belongs to."""
    task_type: str | None = None
    """Kind of task."""
    tokens: TokenCount | None = None
    """Tokens that the action used."""
    tool: ToolCall | None = None
    """Tool call and its result."""


class EventVerdict(Model):
    """Verdict on an event by its active shadows."""

    decided_by: Literal["assessment", "checks", "checks_only", "on_inconclusive", "on_timeout", "second_call", "unconfirmed", "on_unfounded", "given", "skipped", "no_active_shadow"] | str | None = (
        None
    )
    """
    The rule that decided, or why there is no verdict; null while it is pending, and in verdicts from before Umbra
    kept it.
    """
    event_id: str
    """The event."""
    reasons: list[str]
    """Reasons, in sentences."""
    recommendation: str | None = None
    """Recommendation to the agent or its owner."""
    review_id: str | None = None
    """Review that decided."""
    shadow: str | None = None
    """The shadow that decided."""
    verdict: Literal["accepted", "rejected", "pending", "not_reviewed"] | str
    """Accepted and rejected are final; pending may change until `verdict_by`."""
    verdict_by: AwareDatetime | None = None
    """Latest time of the decision; null where no active shadow reviews the event."""


class ExcludedTool(Model):
    """A tool that may not be offered."""

    reason: str
    """Reason in words."""
    tool: ToolName
    """Name of the tool."""


class Feedback(Model):
    """Feedback on a finding."""

    model_config = ConfigDict(
        extra="forbid",
    )
    note: str | None = None
    """Reason; without it, an earlier note stays."""
    status: Literal["open", "confirmed", "false_positive", "resolved"] | str | None = (
        None
    )
    """New status; without it, the status stays."""


class Finding(Model):
    """A finding."""

    about: Literal["agent", "given"] | str
    """`given` if the finding is about what the agent was given, not about the agent's own work."""
    category: str
    """Category."""
    description: str
    """One or two sentences."""
    event_id: str
    """Event of the finding; if several events repeat it, the first."""
    evidence: FindingEvidence | None = None
    """Evidence; null where no quote was found in the text."""
    fingerprint: str
    """Fingerprint that findings of the same fault share."""
    id: str
    """Finding id."""
    mode: Literal["passive", "review", "active"] | str | None = None
    """The shadow's mode."""
    note: str | None = None
    """Note of the judgement."""
    occurrences: int
    """
    Events of this agent with this fingerprint up to then, repeats of this finding included. Findings of passive
    shadows are counted apart.
    """
    recommendation: str
    """Recommendation to the agent or its owner."""
    review_id: str | None = None
    """Review that found it; null if a look of the built-in checks found it."""
    rule: str
    """The check's rule, or the model's checklist item."""
    severity: Literal["info", "warning", "critical"] | str
    """Severity."""
    shadow: str
    """The shadow."""
    source: str
    """`check` or `model`."""
    status: str
    """People's judgement: open, confirmed, `false_positive` or resolved."""
    task_id: str | None = None
    """The event's task."""
    timestamp: AwareDatetime
    """When the finding was made."""
    trigger: Literal["code_written", "security_risk", "task_complete", "error", "all"] | str | None = (
        None
    )
    """The trigger by which the event matched."""
    verified: bool
    """True if the evidence stands in the text, or a second call of the model agreed on what cannot be quoted."""
    watched_agent: str
    """The watched agent."""


class Guard(Model):
    """Verdict of the rules on one call."""

    explain: list[str] = []
    """One line for each rule that matched, in the order of the file."""
    mode: Literal["enforce", "audit"] | str | None = None
    """Mode of the rule in `rule`; absent if none matched."""
    policy_version: str
    """Digest of all rules: equal versions mean equal rules."""
    reason: str | None = None
    """Reason that the rule gives."""
    rule: str | None = None
    """Rule that decided `verdict`; if no enforced rule matched, the rule that decided `would`."""
    taints: list[str] = []
    """Labels that the call adds to its session, in order, each once."""
    verdict: Literal["allow", "warn", "ask", "block"] | str
    """Gravest verdict of the matching rules that are enforced."""
    would: Literal["allow", "warn", "ask", "block"] | str
    """Gravest verdict if the rules in audit mode were enforced too. Never milder than `verdict`."""
    would_rule: str | None = None
    """Rule that decided `would`, if that is another one."""


class InsertItem(Model):
    """Adds an item beside another one, or nested in it."""

    op: Literal["insert_item"] = "insert_item"
    place: Place1 | Place2 | Place3
    """Position of the new item."""
    section: str
    """Slug or title of the section."""
    state: Literal["open", "done", "dropped"] | str | None = None
    """State of the item, with the default of [`Edit::AppendItem`]."""
    text: str
    """Text of the item, one paragraph."""


class Item(Model):
    """An item, as the API shows it."""

    depth: int
    """Number of items that enclose it."""
    id: str | None = None
    """Explicit id (`<!-- id: x -->`)."""
    index: int
    """Position among the section's items, counted from 1. Edits can refer to it."""
    state: Literal["open", "done", "dropped"] | str | None = None
    """State of the box; `None` for an item without a box."""
    text: str
    """Text, on one line."""


class MadeCall(Model):
    """Call that was made in a session."""

    ok: bool | None = None
    """True if the call succeeded; absent while its result is unknown."""
    rejected: bool | None = None
    """True if the rules blocked the call."""
    tool: ToolName
    """Tool that was called."""


class NewEvent(Model):
    """An event as it is posted. `agent` and one of `output`, `tool`, `input` are required."""

    agent: str
    """Name of the watched agent."""
    attempt: int | None = None
    """Number of the attempt at the same output, from 1."""
    cost_usd: float | None = None
    """Cost of this action, in US dollars."""
    duration_ms: int | None = None
    """Duration of the action, in milliseconds."""
    input: Any | None = None
    """Input of the agent: text; other JSON is kept as its text."""
    metadata: dict[str, Any] | None = None
    """Any data of the sender."""
    occurred_at: AwareDatetime | None = None
    """Start of the action, by the sender's clock."""
    output: Any | None = None
    """Output of the agent: text; other JSON is kept as its text."""
    session_id: str | None = None
    """Session of the agent."""
    status: str | None = None
    """Status at the end of the action: `ok`, `error`, …"""
    stop_reason: str | None = None
    """Reason why the model stopped: `stop`, `length`, …"""
    supersedes: str | None = None
    """Event whose output this one replaces."""
    task: str | None = None
    """Instruction that the agent was given."""
    task_cost_usd: float | None = None
    """Cost of the whole task so far, in US dollars."""
    task_id: str | None = None
    """Piece of work that the event belongs to."""
    task_type: str | None = None
    """Kind of task."""
    tokens: TokenCount | None = None
    """Tokens that the action used."""
    tool: NewToolCall | None = None
    id: str | None = None
    """Your own id of the event: the idempotency key, kept 72 h. The same id with other content is refused."""
    triggers: list[Literal["code_written", "security_risk", "task_complete", "error"] | str] | None = (
        None
    )
    """Kinds of action that the event shows; Umbra adds those that it detects."""


class NewPattern(Model):
    """A way in which a task was done, as reported by a client."""

    model_config = ConfigDict(
        extra="forbid",
    )
    agent: str
    """Agent that did the task."""
    cost_usd: float | None = None
    """Cost, in dollars."""
    ms: int | None = None
    """Duration, in milliseconds."""
    outcome: Literal["succeeded", "failed"] | str | None = None
    """Result of the task; success if absent."""
    prompt: str | None = None
    """Prompt that was used."""
    session: str | None = None
    """Session in which the task was done."""
    summary: str | None = None
    """Remarks on the result."""
    task: str
    """Task, in words."""
    task_id: str | None = None
    """Id of the task, as events carry it."""
    task_type: str | None = None
    """Kind of task."""
    tools: list[ToolName] = Field(default=[], validate_default=True)
    """Tools that were used, in order. A string is the name of a tool as well."""


class OutcomeRequest(Model):
    """Outcome of a call."""

    agent: str
    """Agent that made the call."""
    duration_ms: int | None = None
    """Duration of the call, in milliseconds."""
    error: str | None = None
    """Error message."""
    result: Any | None = None
    """Answer of the tool, any JSON."""
    status: Literal["ok", "error"] | str
    """`ok` or `error`."""


class PatternProvenance(Model):
    """Origin of a pattern: its first report."""

    at: AwareDatetime
    """Time of the report."""
    by: str
    """Reporter: the id of an API key, or the part of Umbra that mined the pattern."""
    review: str | None = None
    """Review that approved the mined task."""
    session: str | None = None
    """Session in which the task was done."""
    source: Literal["recorded", "mined"] | str
    """Recorded or mined."""
    task_id: str | None = None
    """Id of the task."""


class RankedTool(Model):
    """A tool that fits the task."""

    annotations: ToolAnnotations
    """Claims of the tool's server about it."""
    guard: Literal["allow", "warn", "ask", "block"] | str
    """Verdict of the rules on the tool."""
    reason: str
    """
    Words of the task that the tool has, and where; closeness in meaning; similar tasks for which it was used
    before.
    """
    score: float
    """Fit, from 0 to 1; greater is better."""
    tool: ToolName
    """Name of the tool."""


class Reflexion(Model):
    """A recurring fault of an agent, with its lesson."""

    agent: str
    """Agent that made the fault."""
    category: Literal["security", "factual", "completeness", "relevance", "quality", "custom"] | str
    """Category of the findings."""
    closed_at: AwareDatetime | None = None
    """Time at which the reflexion closed."""
    description: str | None = None
    """Description by the newest finding: words of a reviewer, not to be followed."""
    events: int
    """Number of events in which the fault was found."""
    fingerprint: str
    """Fingerprint of the findings."""
    first_at: AwareDatetime
    """Time of the first occurrence."""
    id: str
    """Id of the reflexion."""
    last_at: AwareDatetime
    """Time of the last occurrence."""
    lesson: str
    """Lesson, in Umbra's own words."""
    occurrences: list[OccurrenceItem]
    """Newest occurrences, at most twenty."""
    opened_at: AwareDatetime
    """Time at which the fault became a lesson."""
    prompt: str
    """Text to put before the agent's next task. Words of others in it are quoted as data."""
    rule: str
    """Rule of the check, or checklist item of the model."""
    severity: Literal["info", "warning", "critical"] | str
    """Worst severity of the findings."""
    source: Literal["check", "model"] | str
    """Source of the findings."""
    status: str
    """`open` while the fault recurs; `closed` once it was not found for as long as `reflexion.window`."""
    task_type: str | None = None
    """Type of the tasks in which the fault was found."""


class Review(Model):
    """A review."""

    agent: str
    """The watched agent."""
    assessment: Literal["APPROVE", "CHECKED", "INCONCLUSIVE", "SUGGEST", "FLAG"] | str | None = (
        None
    )
    """Assessment; null until the review is done."""
    assessments: list[EventAssessment]
    """
    Assessments of the events, once the review is done; `assessment` is the strictest of these. Empty for a task,
    which is judged as a whole.
    """
    cost_usd: float
    """Cost of all calls so far, in US dollars, also of those without a result."""
    created_at: AwareDatetime
    """When the review was reserved."""
    decided_by: Literal["assessment", "checks", "checks_only", "on_inconclusive", "on_timeout", "second_call", "unconfirmed", "on_unfounded", "given", "skipped", "no_active_shadow"] | str | None = (
        None
    )
    """The rule behind the assessment; null until the review is done, and in reviews from before Umbra kept it."""
    events: list[str]
    """Events under review; for a task, those that requested the review."""
    failure: str | None = None
    """The last failure, in words."""
    findings: list[Finding] | None = None
    """Findings of the review; only where one review is asked for."""
    finished_at: AwareDatetime | None = None
    """When the review ended."""
    id: str
    """Review id."""
    latency_ms: int | None = None
    """Time from lease to result, in milliseconds."""
    mode: Literal["passive", "review", "active"] | str | None = None
    """The shadow's mode."""
    model: str | None = None
    """The model's alias; null where the checks reviewed alone."""
    notes: list[str]
    """Notes for readers: what was left out, why the review is inconclusive."""
    prompt_version: int | None = None
    """Version of the prompt; null where no model was asked."""
    reason: Literal["shadow_disabled", "loop_guard", "not_sampled", "cost_below_floor", "cooldown", "target_cap", "daily_cap", "token_cap", "usd_cap", "overload", "provider_unavailable", "erased"] | str | None = (
        None
    )
    """Why the review was given up."""
    recommendation: str | None = None
    """Recommendation to the agent or its owner."""
    reviewer: Literal["model", "checks"] | str | None = None
    """The reviewer: a model, or the built-in checks alone."""
    scope: Literal["event", "batch", "trajectory"] | str | None = None
    """Scope: an event, a batch of events, or a whole task."""
    score: int | None = None
    """The model's score, 0-100."""
    shadow: str
    """The shadow."""
    shadow_version: str
    """Hash of the shadow's configuration under which the review runs."""
    started_at: AwareDatetime | None = None
    """When a worker first leased the review."""
    state: Literal["queued", "running", "done", "failed", "released"] | str | None = (
        None
    )
    """State."""
    task_id: str | None = None
    """The event's task."""
    trigger: Literal["code_written", "security_risk", "task_complete", "error", "all"] | str | None = (
        None
    )
    """The trigger by which the event matched."""
    usage: TokenCount
    """Tokens of the calls behind the result."""


class Ruling(Judgement):
    """Ruling of the guardrail on one moment of a session."""

    checked_by: Literal["rule", "check", "model"] | str | None = None
    """Origin of the decision."""
    decision: Literal["allow", "warn", "block"] | str
    """Gravest verdict of the matching rules that are enforced."""
    due: list[DocumentDue] = Field(default=[], validate_default=True)
    """Documents that are not in order."""
    explain: list[str] = []
    """One line for each rule that matched: calls, documents, texts, models, each in the order of its file."""
    needs_approval: bool | None = None
    """
    True if the decision is `block` only until a person approves the call. `POST /v1/decide` asks for the approval,
    and runs the call once it is given.
    """
    reason: str | None = None
    """Reason for the decision."""
    rule: str | None = None
    """Enforced rule that decided; absent if none matched, or if no rule made the decision."""
    taints: list[str] = []
    """Labels that the call adds to its session, in order, each once."""
    would: Literal["allow", "warn", "block"] | str
    """Gravest verdict if the rules in audit mode were enforced too. Never milder than `decision`."""
    would_rule: str | None = None
    """Rule that decided `would`, if that is graver than `decision`."""


class Section(Model):
    """A section, as the API shows it."""

    items: list[Item]
    """Items of the section, without those of its subsections."""
    level: int
    """Heading level, 1 to 6; 0 for the part before the first heading."""
    slug: str
    """Name for edits: the explicit id, or the title in small letters and dashes. Repeated names are numbered."""
    title: str
    """Title, as written."""


class SelectRequest(Model):
    """Task to select tools for."""

    agent: str | None = None
    """Agent, where there is no session."""
    always_include: list[str | ToolName] | None = None
    """Tools that are always included, if they may be offered."""
    deadline_ms: int | None = None
    """
    Longest wait of the caller, in milliseconds. Rules without a model take at most the setting `sidecar.deadline`;
    rules in words may take longer, up to this. With 0, the answer comes from memory.
    """
    limit: int | None = None
    """Most tools in the answer; ten unless given. Where fewer fit, the list is filled up with others."""
    modes: list[str] | None = None
    """Modes that the agent is in."""
    query: str | None = None
    """Task, in words; the session's task unless given."""
    route: str | None = None
    """Route that the agent is on."""
    session: str | None = None
    """Session whose tools and rules count."""
    tools: list[ToolDefinition] | None = None
    """Tools to choose from, as in `tools/list`; the session's unless given."""


class Session(Model):
    """A session as stored, with everything that a step needs, so that any process can take the next step."""

    agent: str
    """Agent of the session."""
    calls: list[MadeCall] = Field(default=[], validate_default=True)
    """Calls that were made, with their results, in order: the source of patterns. The latest 64 at most."""
    chain: str | None = None
    """Digest of all steps so far, in order."""
    closed_at: AwareDatetime | None = None
    """Time at which the session ended."""
    closed_because: str | None = None
    """Reason for the end: `closed` by the agent, or `idle`."""
    files: str | None = None
    """
    Folder of the session's documents as files (`NAME.md` or `NAME.yaml`), relative to the server's workspace
    (`sidecar.workspace`). Absent if the documents are not files.
    """
    id: str
    """Id of the session."""
    messages: int
    """Messages so far."""
    model: str | None = None
    """Model that the agent runs on, if known."""
    modes: list[str]
    """Current modes of the agent, the outermost first."""
    notes: list[str] = []
    """Notes of people that wait for the next turn or message."""
    notices: list[str] = []
    """
    Notices about the document files that wait for the next turn or message: the latest 16, and before them the
    number of omitted ones.
    """
    notices_left_out: int | None = None
    """Number of omitted notices."""
    objectives: list[Literal["tool_selection", "todo_enforcement", "guardrail", "pattern_capture"] | str]
    """Services of the sidecar in this session."""
    opened_at: AwareDatetime
    """Time at which the session began."""
    outcome: Literal["succeeded", "failed"] | str | None = None
    """Result that the agent reported at the end."""
    route: str | None = None
    """Current route of the agent."""
    rulings: Tally
    """Counts of the guardrail's verdicts so far."""
    seen_at: AwareDatetime
    """Time of the last use."""
    state: Literal["open", "closed"] | str
    """State of the session."""
    taints: list[str]
    """Labels that rules put on the session."""
    task: str | None = None
    """Task, in words."""
    task_id: str | None = None
    """Id of the task, as events carry it."""
    tools: int
    """Number of tools shown at the beginning."""
    tools_digest: str | None = None
    """Digest of the set of tools; absent if there are none."""
    turns: int
    """Turns so far."""


class SessionRequest(Model):
    """Session to begin."""

    agent: str
    """Agent of the session."""
    deadline_ms: int | None = None
    """Longest wait of the caller, in milliseconds; five seconds by default, since many tools are read."""
    documents: dict[str, Any] | None = None
    """Documents by name: a text, or `{"format": "markdown" or "yaml", "text": …}`."""
    folder: str | None = None
    """
    Folder of the server's workspace (`sidecar.workspace`) in which the documents are files, such as `apps/site`; it
    must exist. By default the workspace itself.
    """
    model: str | None = None
    """Model that the agent runs on, stored with the session."""
    modes: list[str] | None = None
    """Modes that the agent is in, the outermost first."""
    objectives: list[Literal["tool_selection", "todo_enforcement", "guardrail", "pattern_capture"] | str] | None = (
        None
    )
    """Parts of the sidecar that serve the session; all unless given."""
    route: str | None = None
    """Route that the agent is on."""
    task: str | None = None
    """Task, in words: tools and patterns are found by it."""
    task_id: str | None = None
    """Task id of the agent's events."""
    tools: list[ToolDefinition] | None = None
    """
    Tools that the agent may be shown, as in `tools/list` of the Model Context Protocol, each with the name of its
    server.
    """


class SessionSummary(Model):
    """Answer to a close: the session, and what was kept of it."""

    degraded: bool
    """True if part of the answer is missing."""
    documents: list[DocumentState]
    """Documents of the session."""
    patterns: int
    """Patterns that were kept of the session."""
    session: Session | None = None
    """The session; null if it was not available."""
    warnings: list[str]
    """Missing parts, and other remarks."""


class SessionView(Session):
    """Session with its documents."""

    documents: list[DocumentState]
    """Documents of the session, without their texts."""


class SidecarCall(Model):
    """Call of a tool. `name` is accepted instead of `tool`."""

    arguments: dict[str, Any] | None = None
    """Arguments of the call."""
    tool: str | ToolName
    """Tool: its name as a text, or with its server."""


class SidecarResult(Model):
    """Outcome of a call."""

    content: Any | None = None
    """Answer of the tool."""
    ok: bool | None = None
    """False if the call failed; true unless given."""
    tool: str | ToolName
    """Tool that was called."""


class Status(Model):
    """Status of the service."""

    check_backlog: CheckBacklog
    """Events that the built-in checks have yet to look at by themselves, and events that they skipped."""
    database: DatabaseStatus
    """State of the database."""
    needs: list[Need]
    """Problems that keep the service from judging or telling, with their remedies."""
    now: AwareDatetime
    """Time of the database."""
    probes: ProbeStatus
    """Probes of models."""
    providers: list[ProviderStatus]
    """Providers of the models."""
    queue: QueueStatus
    """Queue of reviews."""
    servers: int
    """Number of processes that serve on this database."""
    shadows: list[ShadowStatus]
    """Shadows, each with its day so far."""
    spool: SpoolStatus | None = None
    """Events in the local spools of the servers; null if no server reports one."""
    telemetry: list[TelemetryStatus]
    """Services that export OpenTelemetry, the last seen first."""
    version: str
    """Umbra's version."""


class Tool(Model):
    """A tool."""

    annotations: ToolAnnotations | None = None
    """Hints of the Model Context Protocol. They, too, can only raise the effect."""
    description: str | None = None
    """Description by the server. It can raise the effect of the tool but never lower it, whichever server is named."""
    input_schema: dict[str, Any] | None = None
    """JSON Schema of the arguments."""
    name: str
    """
    Name of the tool on its server: letters, digits and visible signs of ASCII. Spellings of a name are the same
    tool: `mcp__stripe__create_refund`, `stripe.createRefund` and `Stripe/create-refund`.
    """
    output_schema: dict[str, Any] | None = None
    """JSON Schema of the result."""
    server: str | None = None
    """Server that offers the tool. Without it, rules and effects for this name on any server apply."""


class ToolChoice(Model):
    """Tools that fit a task."""

    allowed: list[ToolName] | None = None
    """All tools that may be offered now, fitting or not; null in the record of a turn, which does not keep them."""
    confidence: float | None = None
    """Probability that the first tool is the right one, from 0 to 1. Below about 0.4, offer all that is allowed."""
    excluded: list[ExcludedTool]
    """All tools that may not be offered now; fifty of them in the record of a turn."""
    ranked: list[RankedTool]
    """Tools that may be offered, best first: as many as `limit` says, and those of `always_include`."""


class TriggerMark(Model):
    """Trigger of an event, with its reason."""

    name: Literal["code_written", "security_risk", "task_complete", "error", "all"] | str
    """Kind of the action."""
    source: Literal["declared", "derived"] | str
    """Declared by the sender or derived by Umbra."""
    why: str
    """Reason in one sentence; for a declared trigger "named by the sender"."""


class TurnRequest(Model):
    """Next step of an agent."""

    always_include: list[str | ToolName] | None = None
    """Tools that are always included, if they may be offered."""
    deadline_ms: int | None = None
    """
    Longest wait of the caller, in milliseconds. Rules without a model take at most the setting `sidecar.deadline`;
    rules in words may take longer, up to this. With 0, the answer comes from memory.
    """
    intent: str | None = None
    """Aim of the step, in words; the session's task unless given."""
    limit: int | None = None
    """Most tools in the answer; ten unless given. Where fewer fit, the list is filled up with others."""
    modes: list[str] | None = None
    """Modes that the agent is in from now on."""
    planned_calls: list[SidecarCall] | None = None
    """Calls that the agent is about to make."""
    route: str | None = None
    """Route that the agent is on from now on."""


class AcceptedEvent(Model):
    """Answer to a posted event."""

    breaker: BreakerAdvice | None = None
    """Recommendation about the agent; only where its breaker is not closed."""
    dispositions: list[Disposition]
    """Disposition for each shadow that watches the event; empty where none does."""
    durability: str
    """
    `committed`: the event survives a crash of the server and the database. `local`: it survives a crash of this
    server, on whose disk it waits for the database.
    """
    id: str
    """Id of the event."""
    received_at: AwareDatetime
    """Time of receipt."""
    spooled: bool | None = None
    """
    True while the database is away: the event is stored, and its dispositions are decided, once the database is
    back.
    """
    triggers: list[TriggerMark]
    """Triggers of the event, each with its source."""
    verdict: EventVerdict | None = None
    """Verdict by the active shadows; only where one reviews the event, or the request waits."""


class Attachment(Model):
    """Answer to an attach: a session, or none; then the agent goes on without one."""

    degraded: bool
    """True if part of the answer is missing."""
    documents: list[DocumentState]
    """Documents of the session."""
    id: str | None = None
    """
    Id of the session; null if it could not be kept, which `warnings` explain: go on without the sidecar, and try
    again later.
    """
    policy_version: str
    """Version of all rules in force, by their text."""
    session: Session | None = None
    """The session; null if it could not be kept."""
    warnings: list[str]
    """Missing parts, and other remarks."""


class BatchItem(Model):
    """Answer to one event of a batch."""

    breaker: BreakerAdvice | None = None
    """Recommendation about the agent, if the event is stored; only where the breaker is not closed."""
    dispositions: list[Disposition] | None = None
    """Disposition for each shadow, if the event is stored."""
    error: BatchError | None = None
    """Reason why the event is not stored."""
    id: str | None = None
    """Id of the event, if it is stored."""
    index: int
    """Position in the batch, from 0."""
    spooled: bool | None = None
    """True while the database is away: the event is stored once that is back."""


class BatchResult(Model):
    """Answer to a batch, event by event."""

    accepted: int
    """Number of newly stored events."""
    rejected: int
    """Number of events that were not stored; each result says why."""
    replayed: int
    """Number of events that were stored before under the same id."""
    results: list[BatchItem]
    """Results in the order of the batch."""


class DecideAnswer(Model):
    """Decision about a call. Run the call only if `decision` is `execute`."""

    approval: ApprovalAnswer | None = None
    """Approval to wait for, if `decision` is `ask`."""
    audit_seq: int | None = None
    """Row of the decision in the audit; absent where reads are not audited, or nothing could be written."""
    call_id: str
    """The caller's own id."""
    contract: str | None = None
    """The contract, as `tool@version`."""
    decision: Literal["execute", "stub", "ask", "block"] | str
    """Decision for the call."""
    decision_id: str
    """Decision id; the same again for the same call."""
    detail: str | None = None
    """The reason in words, with what to do."""
    effect: Literal["read", "write", "destructive"] | str
    """Effect of the call."""
    effect_source: Literal["arguments", "contract", "override", "declared", "annotations", "classifier", "unknown"] | str
    """Source of the effect."""
    execution: Literal["live", "shadow"] | str
    """Live or shadow: calls run, or are rehearsed."""
    explain: list[str]
    """Steps of the decision, for a person."""
    guard: Guard
    """Verdict of the rules."""
    merge: dict[str, Any] | None = None
    """
    Changes to lay over the result of a read that runs: what this run has rehearsed. The path `items` leads to a
    record or, if `key` names a field, to a list of records. `patch`: fields to lay over those of a record,
    recursively, by its key. `remove`: keys of items to drop. `put`: items that replace the one with their key, or
    are appended, unless the path `more` says that other pages follow. `text`: changes of a text at `items`: `edits`
    (`oldText`, `newText`, first occurrence), lines to `remove` and to `add`.
    """
    reason: str | None = None
    """
    Code of the reason why the call may not run: `policy`, `invalid_arguments`, `no_contract`, `uninterceptable`,
    `approval_required`, `approval_denied`, `unavailable`, `deadline`, `overloaded` and others; for a repeated call
    also `call_finished` (its outcome is stored) and `execution_changed` (calls do not run any more).
    """
    replayed: bool | None = None
    """True if the call was decided before. The audit has the decision once."""
    sandbox: str | None = None
    """Address where the call can be tried without consequences (the contract's `sandbox`), if `decision` is `stub`."""
    stub: StubAnswer | None = None
    """Answer in the tool's place, if `decision` is `stub`."""
    warning: str | None = None
    """Warning about a call that may run nevertheless."""


class DecideRequest(Model):
    """A call of a tool that needs a decision."""

    agent: str
    """Agent that makes the call."""
    arguments: dict[str, Any] | None = None
    """Arguments of the call."""
    call_id: str
    """
    The caller's own id of the call. Sent again, it gets the same decision, but the call does not run again once its
    outcome is stored or calls no longer run. Use a new id for each call, and the same one only to ask again after a
    lost answer.
    """
    deadline_ms: int | None = None
    """Longest wait of the caller, in milliseconds; at most the setting `boundary.deadline`."""
    declared_effect: Literal["read", "write", "destructive"] | str | None = None
    """
    Effect of the tool: `read`, `write` or `destructive`. A key with the scope `declare`, or any caller of a server
    without keys, is believed, unless a contract or an operator's `effects` says otherwise. From other callers it
    counts only where it is graver than the known effect.
    """
    default_run: bool | None = None
    """
    True if the client made up the name of the run, one for each process. Such a run, like one that is a session,
    ends when shadow is lifted. A run with a chosen name that began in shadow stays there until it is ended.
    """
    faults: bool | None = None
    """True if stubs of the run sometimes return the faults that contracts name; the first call of the run sets it."""
    modes: list[str] | None = None
    """Modes that the agent is in, for rules; the outermost first."""
    parent_run: str | None = None
    """Run that started this one: calls that are in shadow there are in shadow here."""
    route: str | None = None
    """Route that the agent works on, for rules."""
    run: str | None = None
    """Run of the call: stubs of a run share their state. Without it, the session is the run."""
    seed: str | None = None
    """Seed that makes the stubs of a run repeatable; the first call of the run sets it."""
    session: str | None = None
    """Session of the call."""
    stub_fallback: dict[str, Any] | None = None
    """
    Result of a stub where no contract gives one, `{"result": ...}` with any JSON; used in shadow only. It goes
    before samples of schemas and recorded results.
    """
    stub_override: Any | None = None
    """Result that a stub must return, any JSON; used in shadow only."""
    tool: Tool
    """Tool to be called."""
    traceparent: str | None = None
    """W3C trace context (`00-<32 hex digits>-<16>-<2>`), kept in the audit; any other text is ignored."""
    uninterceptable: list[str] | None = None
    """Ways to write that the session has and that cannot be intercepted: the session is refused shadow."""


class DocumentView(DocumentState):
    """Document of a session."""

    degraded: bool
    """True if parts of the answer are missing."""
    merged: bool
    """True if the document had changed since the state that the change started from, and both changes are in it."""
    sections: list[Section]
    """Content of the document, by sections and items."""
    stored: bool
    """True if the document is stored. Otherwise `warnings` say why, and nothing has changed."""
    text: str | None = None
    """Text as it was put, without hidden characters and credentials; null where it is unknown (`stored: false`)."""
    warnings: list[str]
    """Warnings about missing parts."""


class EventBatch(Model):
    """Many events."""

    events: list[NewEvent]
    """Up to 1,000 events."""


class EventView(EventBody):
    """A stored event."""

    conflicts_with: str | None = None
    """
    Event that has the same `id` by the sender but other content; it was stored first, while this one waited in a
    spool.
    """
    dispositions: list[Disposition]
    """Disposition for each shadow that watches the event."""
    id: str
    """Id of the event."""
    marks: list[dict[str, Any]]
    """Marks of the screening: secrets (redacted) and hidden characters (removed)."""
    received_at: AwareDatetime
    """Time of receipt."""
    reviews: list[Review]
    """Reviews of the event, with the assessments of this event in `assessments`."""
    triggers: list[TriggerMark]
    """Triggers of the event, each with its source."""


class GuardRequest(Model):
    """Message or call to judge."""

    agent: str | None = None
    """Agent, where there is no session."""
    call: SidecarCall | None = None
    """Call that is about to be made; one of `message` and `call`."""
    deadline_ms: int | None = None
    """
    Longest wait of the caller, in milliseconds. Rules without a model take at most the setting `sidecar.deadline`;
    rules in words may take longer, up to this. With 0, the answer comes from memory.
    """
    message: str | GuardedMessage | None = None
    """Message that is about to be sent: a text, or a text with its role."""
    modes: list[str] | None = None
    """Modes that the agent is in."""
    route: str | None = None
    """Route that the agent is on."""
    session: str | None = None
    """Session of the message or call: its labels and documents count."""


class GuardRuling(Ruling):
    """Ruling of the guardrail on one call, result or message."""

    effect: Literal["read", "write", "destructive"] | str | None = None
    """Effect of the call."""
    tool: ToolName | None = None
    """Tool of the call or the result."""


class MessageAnswer(Judgement):
    """Answer to a message."""

    calls: list[GuardRuling]
    """
    Rulings on the calls that were made, in order. Behind the reported calls stand those of which only a result was
    reported, with the arguments that the last turn planned for them.
    """
    decision: Literal["allow", "warn", "block"] | str
    """Gravest decision of the rulings below."""
    degraded: bool
    """True if part of the answer is missing."""
    documents_due: list[DocumentDue]
    """Documents that are not in order."""
    inputs: str
    """Digest of the message and of the state that it was judged on."""
    message: int
    """Number of the message, from 1; 0 if the session was not available."""
    policy_version: str
    """Version of all rules in force, by their text."""
    results: list[GuardRuling]
    """Rulings on the results, in order."""
    said: GuardRuling
    """Ruling on the text of the message."""
    taints: list[str]
    """Labels of the session by now."""
    warnings: list[str]
    """Missing parts, and other remarks."""


class MessageRequest(Model):
    """Message, with the calls that were made and their results."""

    content: str | None = None
    """Text of the message."""
    deadline_ms: int | None = None
    """
    Longest wait of the caller, in milliseconds. Rules without a model take at most the setting `sidecar.deadline`;
    rules in words may take longer, up to this. With 0, the answer comes from memory.
    """
    modes: list[str] | None = None
    """Modes that the agent is in from now on."""
    results: list[SidecarResult] | None = None
    """Results of those calls."""
    role: str
    """`user`, `assistant`, `tool` or `system`."""
    route: str | None = None
    """Route that the agent is on from now on."""
    tool_calls: list[SidecarCall] | None = None
    """Calls that were made."""


class PatchDocument(Model):
    """Edits to make."""

    model_config = ConfigDict(
        extra="forbid",
    )
    by: str | None = None
    """Author of the edits; the session's agent unless given."""
    edits: list[AddSection | ReplaceSection | RemoveSection | RenameSection | AppendItem | InsertItem | ReplaceItem | RemoveItem | SetState | SetKey | RemoveKey | AppendText]
    """Edits in order; all are made, or none."""


class Pattern(Model):
    """A way in which tasks were done, with its numbers of successes and failures."""

    agent: str
    """Agent that did the task."""
    cost_usd: float | None = None
    """Total cost of the uses that reported one, in dollars; absent if none did."""
    failures: int
    """Number of uses that failed."""
    id: str
    """Id of the pattern."""
    ms: int | None = None
    """Total duration of the uses that reported one, in milliseconds; absent if none did."""
    prompt: str | None = None
    """Prompt that was used."""
    provenance: PatternProvenance
    """Origin of the pattern."""
    reason: str | None = None
    """Reason for which the pattern is not active, in Umbra's words; absent if it is active."""
    status: Literal["active", "retired", "quarantined"] | str
    """Status of the pattern."""
    successes: int
    """Number of uses that succeeded."""
    summary: str | None = None
    """Remarks of the first report."""
    task: str
    """Task, in words."""
    task_type: str | None = None
    """Kind of task."""
    tools: list[ToolName]
    """Tools that were used, in order."""


class RecordedPattern(Model):
    """Answer to a recorded pattern."""

    degraded: bool
    """True if part of the answer is missing."""
    new: bool
    """True if the pattern was not known before."""
    pattern: Pattern | None = None
    """The pattern as it is by now; null if it could not be kept."""
    warnings: list[str]
    """Missing parts."""


class Selection(ToolChoice):
    """Answer to a request for tools alone."""

    degraded: bool
    """True if part of the answer is missing."""
    policy_version: str
    """Version of all rules in force, by their text."""
    warnings: list[str]
    """Missing parts, and other remarks."""


class TrajectoryEvent(EventView):
    """A stored event with its findings."""

    findings: list[Finding]
    """
    Findings of its reviews, and of looks of the built-in checks. A repeated finding names the first event that had
    it.
    """


class TrajectoryStep(TrajectoryEvent):
    """Step of a task: an event with its place in the work."""

    parent_id: str | None = None
    """Step of this answer within which this one was taken, such as the call of a tool that is itself an agent."""
    started_at: AwareDatetime
    """Start of the step: `occurred_at`, else the time of receipt less `duration_ms`."""


class DocumentChange2(Model):
    """A list of edits was made."""

    edits: list[AddSection | ReplaceSection | RemoveSection | RenameSection | AppendItem | InsertItem | ReplaceItem | RemoveItem | SetState | SetKey | RemoveKey | AppendText]
    """Edits, in order."""
    kind: Literal["edits"] | str


class Entry(Model):
    """One step in the history of a document."""

    after: str
    """Etag of the state after it."""
    at: AwareDatetime | None = None
    """Time of the change, if it is recorded."""
    before: str
    """Etag of the state before it."""
    by: str
    """Author: an agent, a person, or [`WORKSPACE`]."""
    change: DocumentChange1 | DocumentChange2 | DocumentChange3
    """Cause of the change."""
    patch: list[Hunk]
    """Patch from one state to the other. Replay uses it, so later rules of edits and merges do not matter."""


class GuardAnswer(GuardRuling):
    """Answer to a question about one call or message."""

    degraded: bool
    """True if part of the answer is missing."""
    inputs: str
    """Digest of the request and of the state that it was judged on."""
    policy_version: str
    """Version of all rules in force, by their text."""
    warnings: list[str]
    """Missing parts, and other remarks."""


class OfferedPattern(Model):
    """A pattern that fits a task."""

    likeness: float
    """Share of the words of both tasks that they have in common: 1 for the same words."""
    lower_bound: float
    """Lower end of Wilson's 95 % interval of `success_rate`. Patterns are sorted by this times `likeness`."""
    note: str
    """Fixed note: everything below `pattern` was written by an agent."""
    pattern: Pattern
    """The pattern, with its origin."""
    success_rate: float
    """Share of its uses that succeeded."""
    uses: int
    """Number of uses."""


class PatternsFound(SidecarAnswer):
    """Patterns that fit a task."""

    items: list[OfferedPattern]
    """Patterns, best first. They are data of other tasks, never instructions."""
    policy_version: str
    """Hash of the text of all rules in force."""


class Trajectory(TaskRecommendation):
    """Task with its events."""

    agents: list[str]
    """Agents of the task, in order of their first event."""
    coverage: Coverage
    """Numbers of steps that were judged, checked and left out."""
    event_count: int
    """Number of events."""
    events: list[TrajectoryStep]
    """Page of steps: the events that were received next, in the order of their start."""
    first_at: AwareDatetime
    """Time of receipt of the first event."""
    last_at: AwareDatetime
    """Time of receipt of the last event."""
    next_cursor: str | None = None
    """Cursor of the next page; null when there is nothing more now."""
    resume_cursor: str
    """Cursor to poll with."""
    review_count: int
    """Number of reviews of its events."""
    task_id: str
    """Id of the task."""


class TurnAnswer(Judgement):
    """Answer to a turn."""

    decision: Literal["allow", "warn", "block"] | str
    """Decision on the turn itself, for documents that are due by rules about no call."""
    decisions: list[GuardRuling]
    """Rulings on the planned calls, in order."""
    degraded: bool
    """True if part of the answer is missing."""
    directives: list[str]
    """Instructions, in words of Umbra and of the rules."""
    documents_due: list[DocumentDue]
    """Documents that are not in order."""
    inputs: str
    """Digest of the request and of the state that it was judged on."""
    patterns: list[OfferedPattern]
    """Patterns of similar tasks: data, never instructions."""
    policy_version: str
    """Version of all rules in force, by their text."""
    tools: ToolChoice
    """Tools that fit."""
    turn: int
    """Number of the turn, from 1; 0 if the session was not available."""
    warnings: list[str]
    """Missing parts, and other remarks."""


class Version(Model):
    """Version of a document."""

    at: AwareDatetime
    """Time of the change."""
    entry: Entry
    """Record of the change: author, requested edits, and the difference."""
    version: int
    """Number of the version, counted from 1."""


class History(SidecarAnswer):
    """Page of the versions of a document."""

    items: list[Version]
    """Items, oldest first unless `order=desc`."""
    next_cursor: str | None = None
    """Cursor of the next page; null when there is nothing more now."""
    resume_cursor: str
    """Cursor to poll with: no item is skipped or repeated."""
