//! Start and end of a session.

use std::sync::Arc;

use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::{
    AgentFilter, RequestPartFault, Sidecar, cleaned,
    documents::{begun, format_of, parsed},
    judge::EvaluationContext,
    request_deadline::RequestDeadline,
    select::{listed, shown, usable},
    step::{StateSnapshot, StepRecord},
    workspace::SessionFiles,
};
use crate::{
    flows::{rounds::pause, serialise::to_json},
    ingest::{AttachRequest, ToolDefinition},
};
use umbra_domain::{PatternOutcome, Session, SessionId, SessionState, StepKind};
use umbra_sidecar::{
    document::{
        Format, ItemState,
        name::{Name, export_folder},
        revision::Etag,
    },
    tools::Catalogue,
};
use umbra_store::{
    StoreError,
    documents::StoredDocument,
    paging::Page,
    sessions::{LockedSession, NewTools, OpenSessionOutcome, SessionFilter},
};

/// Pause between looks for idle sessions.
const BETWEEN_LOOKS: std::time::Duration = std::time::Duration::from_secs(5);
/// Most sessions that are closed per look.
const PAGE: i64 = 100;
/// Longest time to begin or end a session: reading and indexing many tools takes longer than a step may, and happens
/// once.
const TO_ATTACH: std::time::Duration = std::time::Duration::from_secs(5);

/// A document of a session, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DocumentState {
    /// Name of the document.
    pub name: String,
    /// Syntax of the document.
    #[schema(value_type = Format)]
    pub format: String,
    /// Number of changes.
    pub version: i32,
    /// Tag that identifies the text.
    pub etag: String,
    /// Number of open items.
    pub open_items: usize,
    /// Number of done items.
    pub done_items: usize,
}

impl DocumentState {
    /// Returns the state of a document.
    pub fn of(document: &StoredDocument) -> Self {
        let mut counts = [0, 0];
        let sections = parsed(&document.text, &document.format).map(|read| read.sections()).unwrap_or_default();
        for item in sections.iter().flat_map(|section| &section.items) {
            match item.state {
                Some(ItemState::Open) => counts[0] += 1,
                Some(ItemState::Done) => counts[1] += 1,
                _ => {}
            }
        }
        Self {
            name: document.name.clone(),
            format: document.format.clone(),
            version: document.version,
            etag: Etag::of(&document.text).to_string(),
            open_items: counts[0],
            done_items: counts[1],
        }
    }
}

/// Answer to an attach: a session, or none; then the agent goes on without one.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Attachment {
    /// Id of the session; null if it could not be kept, which `warnings` explain: go on without the sidecar, and try
    /// again later.
    #[schema(value_type = Option<String>, example = "ses_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: Option<SessionId>,
    /// The session; null if it could not be kept.
    pub session: Option<Session>,
    /// Documents of the session.
    pub documents: Vec<DocumentState>,
    /// Version of all rules in force, by their text.
    pub policy_version: String,
    /// True if part of the answer is missing.
    pub degraded: bool,
    /// Missing parts, and other remarks.
    pub warnings: Vec<String>,
}

/// Answer to a close: the session, and what was kept of it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SessionSummary {
    /// The session; null if it was not available.
    pub session: Option<Session>,
    /// Documents of the session.
    pub documents: Vec<DocumentState>,
    /// Patterns that were kept of the session.
    pub patterns: u32,
    /// True if part of the answer is missing.
    pub degraded: bool,
    /// Missing parts, and other remarks.
    pub warnings: Vec<String>,
}

/// Reason why no session begins.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Parts of the request cannot be used.
    #[error("the session has invalid parts")]
    Faults(Vec<RequestPartFault>),
    /// The agent has as many open sessions as it may have.
    #[error("this agent has {0} open sessions, the most it may have (sidecar.max_sessions_per_agent): close a session")]
    TooMany(u32),
    /// A value cannot be stored, by a bug in Umbra.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reason why a session takes no step.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// There is no such session.
    #[error("session not found; ids look like ses_ and 32 hex digits")]
    Unknown,
    /// The session is closed.
    #[error("the session is closed: attach a new one with POST /v1/sessions")]
    Closed,
    /// A value cannot be stored, by a bug in Umbra.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reason why a note is not kept.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// As many notes wait as may.
    #[error("the session has the most notes that may wait: the agent receives them with its next turn or message")]
    TooMany,
    /// The session cannot take the note.
    #[error(transparent)]
    Step(#[from] StepError),
}

/// Warning for a session that could not be closed in time.
const NOT_CLOSED: &str =
    "the session is not closed yet: this server tries again, and idle sessions close by themselves";

/// Returns the answer for a session that was not available.
fn not_had(patience: RequestDeadline<'_>) -> SessionSummary {
    let (degraded, warnings) = patience.end();
    SessionSummary { session: None, documents: Vec::new(), patterns: 0, degraded, warnings }
}

impl Sidecar {
    /// Begins a session.
    ///
    /// # Errors
    /// See [`AttachError`]. A session that cannot be kept is no error: the answer says so.
    pub async fn attach(&self, asked: Instant, request: AttachRequest) -> Result<Attachment, AttachError> {
        let mut faults = Vec::new();
        for (part, count, most) in [
            ("tools", request.tools.len(), self.settings.sidecar.max_tools),
            ("documents", request.documents.len(), self.settings.sidecar.max_documents),
        ] {
            if count > most {
                let fault = format!("may have {most} entries here (sidecar.max_{part})");
                faults.push(RequestPartFault::new(part, fault));
            }
        }
        let mut documents = Vec::new();
        for (name, sent) in &request.documents {
            match Self::first_document(name, sent.format.as_deref().map(format_of), &sent.text) {
                Ok(document) => documents.push(document),
                Err(fault) => faults.push(RequestPartFault { part: format!("documents/{name}"), ..fault }),
            }
        }
        documents.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(twins) = documents.windows(2).find(|pair| pair[0].name == pair[1].name) {
            faults.push(RequestPartFault::new(
                format!("documents/{}", twins[1].name),
                "two documents have this name: give each its own name",
            ));
        }
        let id = SessionId(self.clock.new_id());
        let files = self.folder_of(id, request.folder.as_deref()).unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
        if !faults.is_empty() {
            return Err(AttachError::Faults(faults));
        }
        let (usable, left_out) = usable(&request.tools);
        let tools = if usable.is_empty() { None } else { Some(self.read_tools(&usable)?) };
        let session = Session {
            task: request.task.as_deref().map(cleaned),
            task_id: request.task_id.as_deref().map(cleaned),
            route: request.route.as_deref().map(cleaned),
            modes: request.modes.iter().map(|mode| cleaned(mode)).collect(),
            objectives: request.objectives,
            model: request.model.as_deref().map(cleaned),
            tools: usable.len(),
            tools_digest: tools.as_ref().map(|(digest, _)| digest.clone()),
            files,
            ..Session::begin(id, &self.boundary.name_of(&request.agent), self.clock.now())
        };
        let mut patience = self.patience(asked, request.deadline_ms).at_least(TO_ATTACH);
        for warning in left_out {
            patience.warn(warning);
        }
        let kept = tools.as_ref().map(|(digest, body)| NewTools { digest, body });
        let most = self.settings.sidecar.max_sessions_per_agent;
        let opening = self.store.sessions().open(&session, kept, &documents, most);
        let attached = patience.ask("the session is not stored: go on without the sidecar", opening).await;
        if attached == Some(OpenSessionOutcome::TooMany) {
            return Err(AttachError::TooMany(most));
        }
        let documents: Vec<StoredDocument> = documents.iter().map(begun).collect();
        if attached.is_some() && self.has_place(session.files.as_deref(), &mut patience).await {
            self.write_files(SessionFiles::new(session.files.clone()).plan(&documents), &mut patience).await;
        }
        let documents = documents.iter().map(DocumentState::of).collect();
        let (degraded, warnings) = patience.end();
        let policy_version = self.policy_version();
        let session = attached.map(|_| session);
        if let Some(session) = &session {
            self.seen.keep(session, true);
        }
        let id = session.as_ref().map(|session| session.id);
        Ok(Attachment { id, session, documents, policy_version, degraded, warnings })
    }

    /// Returns the folder of a new session's files, if this server has a workspace or the request names a folder.
    fn folder_of(&self, id: SessionId, within: Option<&str>) -> Result<Option<String>, RequestPartFault> {
        if self.files.is_none() && within.is_none() {
            return Ok(None);
        }
        let session = Name::parse(&id.to_string()).map_err(|error| RequestPartFault::new("folder", error))?;
        let folder = export_folder(within, &session).map_err(|error| RequestPartFault::new("folder", error))?;
        if cleaned(&folder) != folder {
            return Err(RequestPartFault::new("folder", "looks like a credential, or has hidden characters"));
        }
        Ok(Some(folder))
    }

    /// Serialises and indexes the tools of a new session. Returns the digest of their text, and the text.
    fn read_tools(&self, tools: &[ToolDefinition]) -> Result<(String, String), StoreError> {
        tokio::task::block_in_place(|| {
            let tools = shown(tools, &self.boundary.rules.load().tools);
            let body = to_json("session.tools", &tools)?;
            let digest: String = blake3::hash(body.as_bytes()).to_hex().chars().take(32).collect();
            if self.catalogue_made(&digest).is_none() {
                let catalogue = Catalogue::of(tools.into_iter().map(listed).collect());
                self.embed_later("", &catalogue);
                self.keep_catalogue(&digest, &Arc::new(catalogue));
            }
            Ok((digest, body))
        })
    }

    /// Ends a session: patterns are kept of it, and its documents stay as they are.
    ///
    /// # Errors
    /// There is no such session.
    pub async fn close(
        &self,
        asked: Instant,
        id: SessionId,
        outcome: Option<PatternOutcome>,
        may: AgentFilter<'_>,
    ) -> Result<SessionSummary, StepError> {
        let patience = self.patience(asked, None).at_least(TO_ATTACH);
        // Before the wait: a caller that gives up waiting has ended the session all the same.
        if self.seen.get(id).is_some_and(|session| may(&session.agent)) {
            self.ends.remember(id, outcome);
        }
        self.close_now(id, outcome, may, patience).await
    }

    async fn close_now(
        &self,
        id: SessionId,
        outcome: Option<PatternOutcome>,
        may: AgentFilter<'_>,
        mut patience: RequestDeadline<'_>,
    ) -> Result<SessionSummary, StepError> {
        let summary = match patience.ask(NOT_CLOSED, self.store.sessions().step(id)).await {
            None => return Ok(not_had(patience)),
            Some(Some(step)) if may(&step.session.agent) => self.end(step, "closed", outcome, patience).await?,
            Some(_) => {
                self.ends.forget(id);
                return Err(StepError::Unknown);
            }
        };
        if !summary.degraded {
            self.ends.forget(id);
        }
        Ok(summary)
    }

    /// Keeps a person's note for the agent, delivered with its next turn or message.
    ///
    /// # Errors
    /// There is no such session, it is closed, as many notes wait as may, or the database does not answer.
    pub async fn leave_note(&self, id: SessionId, text: &str) -> Result<Session, NoteError> {
        let step = self.store.sessions().step(id).await.map_err(StepError::Store)?;
        let mut step = step.ok_or(StepError::Unknown)?;
        if !step.is_open() {
            return Err(StepError::Closed.into());
        }
        if !step.session.add_note(cleaned(text)) {
            return Err(NoteError::TooMany);
        }
        let session = step.session.clone();
        step.keep().await.map_err(StepError::Store)?;
        Ok(session)
    }

    /// Returns a page of sessions.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn sessions(&self, filter: &SessionFilter) -> Result<Page<Session>, StoreError> {
        self.read(self.store.sessions().list(filter)).await
    }

    /// Returns a session with its documents; `None` if there is none that the caller may see.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn session(
        &self,
        id: SessionId,
        may: AgentFilter<'_>,
    ) -> Result<Option<(Session, Vec<DocumentState>)>, StoreError> {
        let found = self.read(self.store.sessions().get(id)).await?.filter(|(session, _)| may(&session.agent));
        Ok(found.map(|(session, documents)| (session, documents.iter().map(DocumentState::of).collect())))
    }

    async fn end(
        &self,
        step: LockedSession,
        because: &str,
        outcome: Option<PatternOutcome>,
        mut patience: RequestDeadline<'_>,
    ) -> Result<SessionSummary, StoreError> {
        let Some((mut step, mut held)) = self.read_session_files(step, NOT_CLOSED, &mut patience).await else {
            return Ok(not_had(patience));
        };
        let documents = step.documents.iter().map(DocumentState::of).collect();
        if !step.is_open() {
            return Ok(self.ended(step, outcome, documents, patience).await);
        }
        self.seen.forget(step.session.id);
        step.session.state = SessionState::Closed;
        step.session.closed_at = Some(step.now);
        step.session.closed_because = Some(because.to_owned());
        step.session.outcome = outcome;
        // There is no next turn to deliver the notices with.
        let mut notices = step.session.take_messages();
        notices.extend(
            held.moving().map(|file| format!("{file} was still being written: its change is not part of the document")),
        );
        for notice in &notices {
            patience.warn(notice.clone());
        }
        let session = step.session.clone();
        let (rules, boundary) = (self.rules.load_full(), self.boundary.rules.load_full());
        let before = StateSnapshot::of(&EvaluationContext::of((&rules, &boundary.tools), &session, None), Some(&step));
        let (asked, answered) =
            (serde_json::json!({"because": because}), serde_json::json!({"documents": documents, "warnings": notices}));
        let recorded = StepRecord::new(&asked, before, Vec::new(), &answered, &rules)?;
        let recorded = to_json("session_step.body", &recorded)?;
        let writes = held.plan(&step.documents);
        let closed = patience.ask(NOT_CLOSED, step.write(StepKind::Close, &recorded)).await;
        // After the write: the step has let its connection go, and a session that is closed twice leaves one pattern.
        let patterns = match closed {
            Some(_) => {
                self.write_files(writes, &mut patience).await;
                self.capture(&session, outcome, &mut patience).await
            }
            None => 0,
        };
        let (degraded, warnings) = patience.end();
        Ok(SessionSummary { session: Some(session), documents, patterns, degraded, warnings })
    }

    /// Answers the end of a session that is closed already: an outcome that the agent reports only now, such as after
    /// the session was closed for being idle, counts once.
    async fn ended(
        &self,
        mut step: LockedSession,
        outcome: Option<PatternOutcome>,
        documents: Vec<DocumentState>,
        mut patience: RequestDeadline<'_>,
    ) -> SessionSummary {
        let is_new = outcome.is_some() && step.session.outcome.is_none();
        let mut patterns = 0;
        if is_new {
            step.session.outcome = outcome;
        }
        let session = step.session.clone();
        if is_new && patience.ask("the outcome is not stored", step.keep()).await.is_some() {
            patterns = self.capture(&session, outcome, &mut patience).await;
        }
        let (degraded, warnings) = patience.end();
        SessionSummary { session: Some(session), documents, patterns, degraded, warnings }
    }

    /// Closes sessions whose end was requested and not stored, and idle sessions, until `stop`.
    pub async fn close_idle_until(self, stop: CancellationToken) {
        while pause(&stop, BETWEEN_LOOKS).await {
            for (id, outcome) in self.ends.waiting() {
                let patience = self.patience(Instant::now(), None).at_least(TO_ATTACH);
                // The caller that ended the session was allowed to.
                if let Err(error) = self.close_now(id, outcome, &|_| true, patience).await {
                    tracing::debug!(%error, session = %id, "a session is not closed yet; the next round tries again");
                }
            }
            if let Err(error) = self.close_idle().await {
                tracing::debug!(%error, "idle sessions are not closed yet; the next round tries again");
            }
        }
    }

    async fn close_idle(&self) -> Result<(), StoreError> {
        let after = self.settings.sidecar.idle_close;
        for id in self.store.sessions().idle_sessions(after.as_secs_f64(), PAGE).await? {
            let Some(step) = self.store.sessions().step(id).await? else { continue };
            // The session may have been used since.
            let idle = step.now.duration_since(step.session.seen_at);
            if step.is_open() && idle.unsigned_abs() >= after {
                let patience = self.patience(Instant::now(), None).at_least(TO_ATTACH);
                self.end(step, "idle", None, patience).await?;
            }
        }
        Ok(())
    }
}
