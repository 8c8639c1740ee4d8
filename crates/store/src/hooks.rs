//! Hooks of coding agents: sessions of their hosts, and calls without a result yet.

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    StoreError,
    aggregates::HookStore,
    sql::{self, record},
};

/// Event of a session, to be noted.
#[derive(Debug, Clone)]
pub struct HookNote<'a> {
    /// Agent of the session; for a subagent, that of the main agent.
    pub agent: &'a str,
    /// The host's id of the session.
    pub session: &'a str,
    /// Name of the host.
    pub host: &'a str,
    /// Name of another host, if the payload shows one.
    pub shown_host: Option<&'a str>,
    /// `observe` or `enforce`.
    pub mode: &'a str,
    /// Name of the event.
    pub event: &'a str,
    /// The host's id of the turn.
    pub turn: Option<&'a str>,
    /// Prompt that begins a turn, redacted.
    pub prompt: Option<&'a str>,
    /// True for the announcement of a call.
    pub is_call: bool,
}

/// Turn of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookTurn {
    /// Id of the turn's task.
    pub task_id: String,
    /// Prompt of the turn, redacted.
    pub task: Option<String>,
}

record!(HookTurn: task_id, task);

/// Call that was announced.
#[derive(Debug, Clone)]
pub struct AnnouncedCall<'a> {
    /// Agent or subagent of the call.
    pub agent: &'a str,
    /// The host's id of the session, with that of a subagent behind it.
    pub session: &'a str,
    /// Id of the call.
    pub call_id: &'a str,
    /// Keyed hash of tool and arguments.
    pub digest: &'a [u8; 32],
    /// Id of the turn's task.
    pub task_id: &'a str,
    /// True if the boundary decided the call.
    pub decided: bool,
    /// Event to file if no result comes, redacted.
    pub event: Vec<u8>,
}

/// Call that was announced and not reported yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// Id of the call.
    pub call_id: String,
    /// True if the boundary decided the call.
    pub decided: bool,
    /// Event to file if no result comes; `None` if it is filed already.
    pub event: Option<Vec<u8>>,
}

record!(OpenCall: call_id, decided, event);

/// Hooks of a host and agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct HookedHost {
    /// Name of the host.
    pub host: String,
    /// Another host, by what its payloads show: it runs this host's hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown_host: Option<String>,
    /// Name of the agent.
    pub agent: String,
    /// `observe` or `enforce`.
    pub mode: String,
    /// Sessions so far.
    pub sessions: i64,
    /// Calls that were announced.
    pub calls: i64,
    /// Calls that ran in `enforce` without a decision.
    pub undecided: i64,
    /// Time of the last event.
    pub seen_at: Timestamp,
}

record!(HookedHost: host, shown_host, agent, mode, sessions, calls, undecided, seen_at);

impl HookStore<'_> {
    /// Notes an event of a session, and returns the session's turn.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn note(self, note: &HookNote<'_>) -> Result<HookTurn, StoreError> {
        sql::one(
            &self.0.work,
            "/* hooks.note */
             INSERT INTO hook_session AS s
                 (agent, session, host, shown_host, mode, event, prompts, task_id, task, calls)
             VALUES ($1, $2, $3, $4, $5, $6, $8, $2 || '/' || coalesce($7, $8::text), $9, $10)
             ON CONFLICT (agent, session) DO UPDATE SET
                 host = $3, shown_host = coalesce($4, s.shown_host), mode = $5, event = $6, seen_at = clock(),
                 prompts = s.prompts + $8, calls = s.calls + $10,
                 task_id = CASE WHEN $7 IS NOT NULL OR $8 > 0 THEN $2 || '/' || coalesce($7, (s.prompts + $8)::text)
                                ELSE s.task_id END,
                 task = CASE WHEN $8 > 0 THEN $9 ELSE s.task END,
                 held = CASE WHEN $8 > 0 THEN 0 ELSE s.held END
             RETURNING task_id, task",
            (
                note.agent,
                note.session,
                note.host,
                note.shown_host,
                note.mode,
                note.event,
                note.turn,
                i32::from(note.prompt.is_some()),
                note.prompt,
                i64::from(note.is_call),
            ),
        )
        .await
    }

    /// Stores a call whose result is still to come. A call that is announced twice is stored once.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn announce(self, call: &AnnouncedCall<'_>) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* hooks.announce */ INSERT INTO hook_call (agent, session, call_id, digest, task_id, decided, event)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (agent, session, call_id) DO NOTHING",
            (call.agent, call.session, call.call_id, call.digest.as_slice(), call.task_id, call.decided, &call.event),
        )
        .await
    }

    /// Settles a call whose event is filed; `digest` is that of the arguments which the host will report.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn settle(self, agent: &str, session: &str, call_id: &str, digest: &[u8; 32]) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* hooks.settle */ UPDATE hook_call SET event = NULL, digest = $4
             WHERE agent = $1 AND session = $2 AND call_id = $3",
            (agent, session, call_id, digest.as_slice()),
        )
        .await
    }

    /// Takes the call that a result belongs to: by its id, or, for a host without ids, the oldest call with the same
    /// tool and arguments. A call that did not run stays until its turn ends, since a host may tell of it again.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn take(
        self,
        agent: &str,
        session: &str,
        call_id: Option<&str>,
        digest: &[u8; 32],
    ) -> Result<Option<OpenCall>, StoreError> {
        sql::optional(
            &self.0.work,
            "/* hooks.take */ WITH c AS (
                 SELECT id, call_id, decided, event FROM hook_call WHERE agent = $1 AND session = $2
                     AND CASE WHEN $3::text IS NULL THEN digest = $4 ELSE call_id = $3 END
                 ORDER BY event IS NULL, id LIMIT 1 FOR UPDATE SKIP LOCKED),
             gone AS (DELETE FROM hook_call WHERE id IN (SELECT id FROM c WHERE event IS NOT NULL))
             SELECT call_id, decided, event FROM c",
            (agent, session, call_id, digest.as_slice()),
        )
        .await
    }

    /// Takes all calls of a turn that has ended: their results do not come any more.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn take_all(self, agent: &str, session: &str) -> Result<Vec<OpenCall>, StoreError> {
        sql::all(
            &self.0.work,
            "/* hooks.take_all */ WITH gone AS (
                 DELETE FROM hook_call WHERE agent = $1 AND session = $2 RETURNING id, call_id, decided, event)
             SELECT call_id, decided, event FROM gone ORDER BY id",
            (agent, session),
        )
        .await
    }

    /// Takes calls that were announced long ago: their sessions have died. Returns each with its agent.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn take_stale(self, age: std::time::Duration, most: i64) -> Result<Vec<(String, OpenCall)>, StoreError> {
        let rows: Vec<(String, String, bool, Option<Vec<u8>>)> = sql::all(
            &self.0.work,
            "/* hooks.take_stale */ DELETE FROM hook_call WHERE id IN (
                 SELECT id FROM hook_call WHERE called_at < clock() - make_interval(secs => $1)
                 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)
             RETURNING agent, call_id, decided, event",
            (age.as_secs_f64(), most),
        )
        .await?;
        Ok(rows
            .into_iter()
            .map(|(agent, call_id, decided, event)| (agent, OpenCall { call_id, decided, event }))
            .collect())
    }

    /// Counts a result in enforce that no decision came before.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn count_undecided(self, agent: &str, session: &str) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* hooks.undecided */ UPDATE hook_session SET undecided = undecided + 1 WHERE agent = $1 AND session = $2",
            (agent, session),
        )
        .await
    }

    /// Returns the sidecar's session of a host's session.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn companion(self, agent: &str, session: &str) -> Result<Option<Uuid>, StoreError> {
        let id: Option<Option<Uuid>> = sql::optional(
            &self.0.work,
            "/* hooks.companion */ SELECT sidecar FROM hook_session WHERE agent = $1 AND session = $2",
            (agent, session),
        )
        .await?;
        Ok(id.flatten())
    }

    /// Keeps the sidecar's session of a host's session.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn keep_companion(self, agent: &str, session: &str, id: Uuid) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* hooks.keep_companion */ UPDATE hook_session SET sidecar = $3 WHERE agent = $1 AND session = $2",
            (agent, session, id),
        )
        .await
    }

    /// Counts that the end of the turn is held; returns false if it was held `most` times already.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn hold(self, agent: &str, session: &str, most: i32) -> Result<bool, StoreError> {
        sql::changed(
            &self.0.work,
            "/* hooks.hold */ UPDATE hook_session SET held = held + 1 WHERE agent = $1 AND session = $2 AND held < $3",
            (agent, session, most),
        )
        .await
    }

    /// True if hooks in enforce were heard of within the last day.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn enforces(self) -> Result<bool, StoreError> {
        sql::one(
            &self.0.work,
            "/* hooks.enforces */ SELECT EXISTS (SELECT FROM hook_session
             WHERE seen_at > clock() - interval '1 day' AND mode = 'enforce')",
            (),
        )
        .await
    }

    /// Lists hosts with their agents and modes, the last seen first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list(self) -> Result<Vec<HookedHost>, StoreError> {
        sql::all(
            &self.0.work,
            "/* hooks.list */ SELECT host, shown_host, agent, mode, count(*) AS sessions,
                 sum(calls)::bigint AS calls, sum(undecided)::bigint AS undecided, max(seen_at) AS seen_at
             FROM hook_session GROUP BY host, shown_host, agent, mode ORDER BY max(seen_at) DESC LIMIT 200",
            (),
        )
        .await
    }
}
