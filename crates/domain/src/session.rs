//! A session of the sidecar: one agent at one piece of work, as it is kept between two steps.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Effect, PatternOutcome, SessionId, ToolAnnotations, ToolName};

words! {
    /// What a sidecar does for an agent.
    #[derive(PartialOrd, Ord, ToSchema)]
    pub enum Objective {
        /// It says which tools fit.
        ToolSelection = "tool_selection",
        /// It says which documents are due.
        TodoEnforcement = "todo_enforcement",
        /// It holds calls and messages against the rules.
        Guardrail = "guardrail",
        /// It keeps what worked, and offers it for the next task like it.
        PatternCapture = "pattern_capture",
    }
}

words! {
    /// Whether a session goes on.
    #[derive(ToSchema)]
    pub enum SessionState {
        /// It takes steps.
        Open = "open",
        /// It was closed, or nobody used it for as long as `sidecar.idle_close` says.
        Closed = "closed",
    }
}

/// A session, as it is kept: everything that a step needs, so that any process can take the next one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Its id.
    #[schema(value_type = String, example = "ses_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: SessionId,
    /// Whose it is.
    pub agent: String,
    /// What is to be done, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The task that events name, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The route that the agent is on by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The modes that it is in by now, the outermost first.
    pub modes: Vec<String>,
    /// What the sidecar does here.
    pub objectives: Vec<Objective>,
    /// The model that the agent runs on, as far as it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What clings to the session: labels that rules put on it.
    pub taints: Vec<String>,
    /// Tools that were shown at the beginning.
    pub tools: usize,
    /// Names the set of tools; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_digest: Option<String>,
    /// Whether it goes on.
    pub state: SessionState,
    /// Turns so far.
    pub turns: u32,
    /// Messages so far.
    pub messages: u32,
    /// What the guardrail said so far.
    pub rulings: Tally,
    /// Calls that were made, and what came of them, in order: what a pattern is made of. The latest, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<MadeCall>,
    /// The folder with its documents as files, from the server's workspace (`sidecar.workspace`): `NAME.md` or `NAME.yaml`
    /// each. Absent where they are no files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = ".umbra/ses_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub files: Option<String>,
    /// Notes of people that are yet to be told, with the next turn or message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What became of these files and is yet to be told, with the next turn or message: the latest 16, before them how many more
    /// there were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Notices that are not among them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub notices_left_out: u32,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    pub opened_at: Timestamp,
    /// When it was used last.
    #[schema(value_type = String, format = DateTime)]
    pub seen_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub closed_at: Option<Timestamp>,
    /// What ended it: `closed` by its agent, or `idle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_because: Option<String>,
    /// What its agent said at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<PatternOutcome>,
    /// Names all steps so far, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
}

/// What names a step and all before it: 32 hex digits. `body` is what is kept of it.
pub fn chained(before: Option<&str>, number: i32, kind: StepKind, body: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("umbra 2026 the steps of a session");
    for part in [before.unwrap_or_default(), &number.to_string(), kind.as_str(), body] {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        hasher.update(&length.to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex().chars().take(32).collect()
}

/// Most calls that a session remembers.
pub const MOST_CALLS: usize = 64;
/// Most of what is yet to be told.
const MOST_NOTICES: usize = 16;

impl Session {
    /// A session that begins, of an agent of which nothing else is known.
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

    /// Whether the sidecar does this here.
    pub fn has(&self, objective: Objective) -> bool {
        self.objectives.contains(&objective)
    }

    /// Adds labels, each once and in order.
    pub fn taint(&mut self, taints: impl IntoIterator<Item = String>) {
        for taint in taints {
            if !self.taints.contains(&taint) {
                self.taints.push(taint);
            }
        }
    }

    /// Remembers a call that was made.
    pub fn remember(&mut self, call: MadeCall) {
        if self.calls.len() == MOST_CALLS {
            self.calls.remove(0);
        }
        self.calls.push(call);
    }

    /// Keeps a person's note for the next turn or message; false where as many wait as may.
    pub fn note(&mut self, text: String) -> bool {
        let has_room = self.notes.len() < MOST_NOTICES;
        if has_room {
            self.notes.push(text);
        }
        has_room
    }

    /// Takes everything that is yet to be told: people's notes, then notices.
    pub fn take_told(&mut self) -> Vec<String> {
        let notes = std::mem::take(&mut self.notes).into_iter().map(|note| format!("A person says: {note}"));
        notes.chain(std::mem::take(&mut self.notices)).collect()
    }

    /// Keeps something to be told with the next turn or message.
    pub fn notice(&mut self, what: String) {
        if self.notices.is_empty() {
            self.notices_left_out = 0;
        }
        self.notices.push(what);
        let first = usize::from(self.notices_left_out > 0);
        if self.notices.len() > first + MOST_NOTICES {
            self.notices_left_out = self.notices_left_out.saturating_add(1);
            let more = format!("of the files of this session there was more to say, {} times", self.notices_left_out);
            self.notices.splice(..=first, [more]);
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// How often the guardrail said what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Tally {
    /// Nothing stood against it.
    pub allow: u32,
    /// A warning.
    pub warn: u32,
    /// It was not to be done.
    pub block: u32,
}

/// A call that was made in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MadeCall {
    /// Which tool.
    pub tool: ToolName,
    /// Whether it succeeded; absent while nobody has said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// Whether the rules said that it should not be made.
    #[serde(default)]
    pub rejected: bool,
}

/// A tool that an agent may be shown, as its server lists it: without hidden characters and credentials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShownTool {
    /// What it is called.
    pub name: ToolName,
    /// What its server says of it.
    pub description: String,
    /// Names and descriptions of its arguments.
    pub parameters: Vec<(String, String)>,
    /// What it does to the world, as the boundary sees it.
    pub effect: Effect,
    /// What its server claims beside.
    pub annotations: ToolAnnotations,
}

words! {
    /// What kind of step a session took.
    #[derive(ToSchema)]
    pub enum StepKind {
        /// The agent asked what to do next.
        Turn = "turn",
        /// The agent said what was said or done.
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
    fn what_is_not_told_for_its_number_is_counted() {
        let mut session = Session::begin(SessionId(uuid::Uuid::nil()), "a", Timestamp::UNIX_EPOCH);
        let tell = |session: &mut Session, count: usize| (0..count).for_each(|n| session.notice(format!("notice {n}")));
        tell(&mut session, MOST_NOTICES);
        assert_eq!((session.notices.len(), session.notices[0].as_str()), (MOST_NOTICES, "notice 0"));
        session.notices.clear();
        tell(&mut session, MOST_NOTICES + 3);
        assert!(session.notices[0].contains("3 times"), "{:?}", session.notices);
        assert_eq!((session.notices.len(), session.notices[1].as_str()), (MOST_NOTICES + 1, "notice 3"));
        session.notices.clear();
        tell(&mut session, 1);
        assert_eq!(session.notices, ["notice 0"], "what was told is not counted again");
    }
}
