//! Session of the sidecar: one agent at one piece of work, as stored between two steps.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Effect, PatternOutcome, SessionId, ToolAnnotations, ToolName, contract::is_default};

words! {
    /// Service that a sidecar provides for an agent.
    #[derive(PartialOrd, Ord, ToSchema)]
    pub enum Objective {
        /// Recommends tools that fit the task.
        ToolSelection = "tool_selection",
        /// Reports documents that are due.
        TodoEnforcement = "todo_enforcement",
        /// Judges calls and messages by the rules.
        Guardrail = "guardrail",
        /// Records what worked, and offers it for similar tasks.
        PatternCapture = "pattern_capture",
    }
}

words! {
    /// State of a session.
    #[derive(ToSchema)]
    pub enum SessionState {
        /// The session takes steps.
        Open = "open",
        /// The session was closed, or was unused for as long as `sidecar.idle_close` says.
        Closed = "closed",
    }
}

/// A session as stored, with everything that a step needs, so that any process can take the next step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Id of the session.
    #[schema(value_type = String, example = "ses_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: SessionId,
    /// Agent of the session.
    pub agent: String,
    /// Task, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Id of the task, as events carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Current route of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Current modes of the agent, the outermost first.
    pub modes: Vec<String>,
    /// Services of the sidecar in this session.
    pub objectives: Vec<Objective>,
    /// Model that the agent runs on, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Labels that rules put on the session.
    pub taints: Vec<String>,
    /// Number of tools shown at the beginning.
    pub tools: usize,
    /// Digest of the set of tools; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_digest: Option<String>,
    /// State of the session.
    pub state: SessionState,
    /// Turns so far.
    pub turns: u32,
    /// Messages so far.
    pub messages: u32,
    /// Counts of the guardrail's verdicts so far.
    pub rulings: Tally,
    /// Calls that were made, with their results, in order: the source of patterns. The latest 64 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<MadeCall>,
    /// Folder of the session's documents as files (`NAME.md` or `NAME.yaml`), relative to the server's workspace
    /// (`sidecar.workspace`). Absent if the documents are not files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = ".umbra/ses_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub files: Option<String>,
    /// Notes of people that wait for the next turn or message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Notices about the document files that wait for the next turn or message: the latest 16, and before them the
    /// number of omitted ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Number of omitted notices.
    #[serde(default, skip_serializing_if = "is_default")]
    pub notices_left_out: u32,
    /// Time at which the session began.
    pub opened_at: Timestamp,
    /// Time of the last use.
    pub seen_at: Timestamp,
    /// Time at which the session ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// Reason for the end: `closed` by the agent, or `idle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_because: Option<String>,
    /// Result that the agent reported at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<PatternOutcome>,
    /// Digest of all steps so far, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
}

/// Returns the digest of a step and all steps before it: 32 hex digits. `body` is the stored content of the step.
pub fn step_digest(before: Option<&str>, number: i32, kind: StepKind, body: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("umbra 2026 the steps of a session");
    for part in [before.unwrap_or_default(), &number.to_string(), kind.as_str(), body] {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        hasher.update(&length.to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex().chars().take(32).collect()
}

/// Most calls that a session remembers.
pub const MOST_CALLS: usize = 64;
/// Most notes, and most notices, that wait to be told.
const MOST_NOTICES: usize = 16;

impl Session {
    /// Returns a new session of an agent of which nothing else is known.
    pub fn begin(id: SessionId, agent: &str, now: Timestamp) -> Self {
        Self {
            id,
            agent: agent.to_owned(),
            task: None,
            task_id: None,
            route: None,
            modes: Vec::new(),
            objectives: Objective::ALL.to_vec(),
            model: None,
            taints: Vec::new(),
            tools: 0,
            tools_digest: None,
            state: SessionState::Open,
            turns: 0,
            messages: 0,
            rulings: Tally::default(),
            calls: Vec::new(),
            files: None,
            notes: Vec::new(),
            notices: Vec::new(),
            notices_left_out: 0,
            opened_at: now,
            seen_at: now,
            closed_at: None,
            closed_because: None,
            outcome: None,
            chain: None,
        }
    }

    /// True if the sidecar provides this service in the session.
    pub fn has_objective(&self, objective: Objective) -> bool {
        self.objectives.contains(&objective)
    }

    /// Adds labels, each once and in order.
    pub fn add_taints(&mut self, taints: impl IntoIterator<Item = String>) {
        for taint in taints {
            if !self.taints.contains(&taint) {
                self.taints.push(taint);
            }
        }
    }

    /// Remembers a call that was made; forgets the oldest beyond [`MOST_CALLS`].
    pub fn add_call(&mut self, call: MadeCall) {
        if self.calls.len() == MOST_CALLS {
            self.calls.remove(0);
        }
        self.calls.push(call);
    }

    /// Keeps a person's note for the next turn or message. Returns false if too many notes wait already.
    pub fn add_note(&mut self, text: String) -> bool {
        let has_room = self.notes.len() < MOST_NOTICES;
        if has_room {
            self.notes.push(text);
        }
        has_room
    }

    /// Takes everything that waits to be told: people's notes, then notices.
    pub fn take_messages(&mut self) -> Vec<String> {
        let notes = std::mem::take(&mut self.notes).into_iter().map(|note| format!("A person says: {note}"));
        notes.chain(std::mem::take(&mut self.notices)).collect()
    }

    /// Keeps a notice for the next turn or message. Beyond the limit, the oldest notices are counted and dropped.
    pub fn add_notice(&mut self, what: String) {
        if self.notices.is_empty() {
            self.notices_left_out = 0;
        }
        self.notices.push(what);
        let first = usize::from(self.notices_left_out > 0);
        if self.notices.len() > first + MOST_NOTICES {
            self.notices_left_out = self.notices_left_out.saturating_add(1);
            let more = format!("{} more notices about this session's files were left out", self.notices_left_out);
            self.notices.splice(..=first, [more]);
        }
    }
}

/// Counts of the guardrail's verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Tally {
    /// Calls and messages without an objection.
    pub allow: u32,
    /// Calls and messages with a warning.
    pub warn: u32,
    /// Calls and messages that were blocked.
    pub block: u32,
}

/// Call that was made in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MadeCall {
    /// Tool that was called.
    pub tool: ToolName,
    /// True if the call succeeded; absent while its result is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// True if the rules blocked the call.
    #[serde(default)]
    pub rejected: bool,
}

/// Tool that an agent may be shown, as its server lists it, without hidden characters and credentials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShownTool {
    /// Name of the tool.
    pub name: ToolName,
    /// Description by the tool's server.
    pub description: String,
    /// Names and descriptions of the arguments.
    pub parameters: Vec<(String, String)>,
    /// Effect of the tool, as the boundary sees it.
    pub effect: Effect,
    /// Annotations by the tool's server.
    pub annotations: ToolAnnotations,
}

words! {
    /// Kind of a step of a session.
    #[derive(ToSchema)]
    pub enum StepKind {
        /// The agent asked what to do next.
        Turn = "turn",
        /// The agent reported a message, or calls and their results.
        Message = "message",
        /// The agent asked about one call or message.
        Guard = "guard",
        /// The session was closed.
        Close = "close",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionId;

    #[test]
    fn notices_beyond_the_limit_are_counted() {
        let mut session = Session::begin(SessionId(uuid::Uuid::nil()), "a", Timestamp::UNIX_EPOCH);
        let tell =
            |session: &mut Session, count: usize| (0..count).for_each(|n| session.add_notice(format!("notice {n}")));
        tell(&mut session, MOST_NOTICES);
        assert_eq!((session.notices.len(), session.notices[0].as_str()), (MOST_NOTICES, "notice 0"));
        session.notices.clear();
        tell(&mut session, MOST_NOTICES + 3);
        assert!(session.notices[0].contains("3 more notices"), "{:?}", session.notices);
        assert_eq!((session.notices.len(), session.notices[1].as_str()), (MOST_NOTICES + 1, "notice 3"));
        session.notices.clear();
        tell(&mut session, 1);
        assert_eq!(session.notices, ["notice 0"], "what was told is not counted again");
    }
}
