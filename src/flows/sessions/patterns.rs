//! Patterns (ways in which tasks were done): recorded by agents, or mined from sessions that went well; stored, indexed
//! in memory, and shown for similar tasks as data, not as instructions.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::{Sidecar, cleaned, request_deadline::RequestDeadline};
use crate::flows::{rounds::pause, serialise::to_json};
use umbra_domain::{
    Assessment, NewPattern, Objective, Pattern, PatternId, PatternOutcome, PatternProvenance, PatternSource, ReviewId,
    Session, ToolName,
};
use umbra_policy::AgentContext;
use umbra_sidecar::{
    patterns::{self, MinedStep, OfferedPattern, PatternIndex},
    tools::{Memory, Task},
};
use umbra_store::{
    StoreError,
    paging::Page,
    patterns::{PatternFilter, PatternRow, Patterns},
};

/// Most patterns in the answer to a turn.
pub(super) const PATTERNS: usize = 3;
/// Pause between looks for patterns of other processes.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Time that is read again before the newest known change, since a late commit may carry an earlier time.
const OVERLAP: SignedDuration = SignedDuration::from_secs(10);

/// Patterns known to this process.
pub(super) struct PatternCache {
    most: usize,
    shelf: RwLock<PatternIndex>,
    /// Memories by agent, so that no agent's tools are ranked by another agent's patterns.
    memories: RwLock<HashMap<String, Arc<Memory>>>,
    all: Mutex<LoadedPatterns>,
}

#[derive(Default)]
struct LoadedPatterns {
    patterns: BTreeMap<PatternId, Pattern>,
    newest: Option<Timestamp>,
}

impl PatternCache {
    pub fn new(most: usize) -> Self {
        Self { most, shelf: RwLock::new(PatternIndex::new(most)), memories: RwLock::default(), all: Mutex::default() }
    }

    /// Returns the earlier results of an agent's tools.
    pub fn memory(&self, agent: &str) -> Arc<Memory> {
        let known = self.memories.read().get(agent).cloned();
        known.unwrap_or_else(|| Arc::new(patterns::memory(&[])))
    }

    fn learn(&self, changed: Vec<Pattern>, anew: bool) {
        let mut all = self.all.lock();
        let mut offered = self.shelf.write();
        if anew {
            all.patterns.clear();
            *offered = PatternIndex::new(self.most);
        }
        let mut moved = BTreeSet::new();
        for pattern in changed {
            if all.patterns.get(&pattern.id) != Some(&pattern) {
                moved.insert(pattern.agent.clone());
                offered.put(pattern.clone());
                all.patterns.insert(pattern.id, pattern);
            }
        }
        drop(offered);
        let mut of_moved: BTreeMap<&str, Vec<Pattern>> = BTreeMap::new();
        for pattern in all.patterns.values().filter(|pattern| moved.contains(&pattern.agent)) {
            of_moved.entry(&pattern.agent).or_default().push(pattern.clone());
        }
        let learnt = of_moved.into_iter().map(|(agent, of)| (agent.to_owned(), Arc::new(patterns::memory(&of))));
        let learnt: Vec<_> = learnt.collect();
        let mut memories = self.memories.write();
        if anew {
            memories.clear();
        }
        memories.extend(learnt);
    }
}

/// Origin of a pattern.
#[derive(Debug, Clone, Copy)]
pub(super) struct PatternOrigin<'t> {
    /// Recorded or mined.
    pub source: PatternSource,
    /// Id of an API key, or the part of Umbra that mined the pattern.
    pub by: &'t str,
    /// Review that approved the task.
    pub review: Option<ReviewId>,
}

impl<'t> PatternOrigin<'t> {
    fn of(source: PatternSource, by: &'t str) -> Self {
        Self { source, by, review: None }
    }
}

/// Answer to a recorded pattern.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RecordedPattern {
    /// The pattern as it is by now; null if it could not be kept.
    pub pattern: Option<Pattern>,
    /// True if the pattern was not known before.
    pub new: bool,
    /// True if part of the answer is missing.
    pub degraded: bool,
    /// Missing parts.
    pub warnings: Vec<String>,
}

impl Sidecar {
    /// Keeps a recorded pattern, or counts it if it is known. The caller checks it by [`patterns::faults`] first.
    pub async fn record_pattern(&self, asked: Instant, new: NewPattern, by: &str) -> RecordedPattern {
        let mut patience = self.patience(asked, None);
        if !patterns::can_be_found(&new) {
            let warning = "the pattern is not stored: `task` has no word that distinguishes it from other tasks";
            return RecordedPattern { pattern: None, new: false, degraded: false, warnings: vec![warning.to_owned()] };
        }
        let teller = PatternOrigin::of(PatternSource::Recorded, by);
        let told = patience.ask("the pattern is not stored", self.keep(new, teller)).await.flatten();
        let (degraded, warnings) = patience.end();
        let (pattern, new) = told.map_or((None, false), |(pattern, new)| (Some(pattern), new));
        RecordedPattern { pattern, new, degraded, warnings }
    }

    /// Keeps a pattern, or counts it if it is known. Returns it, and true if it is new; `None` if it counts nothing.
    async fn keep(&self, new: NewPattern, teller: PatternOrigin<'_>) -> Result<Option<(Pattern, bool)>, StoreError> {
        let mut telling = self.store.patterns().begin_recording().await?;
        let mut patterns = telling.patterns();
        if let Some(task) = &new.task_id {
            patterns.lock_tasks(std::slice::from_ref(task)).await?;
        }
        let kept = self.keep_among(&mut patterns, new, teller).await?;
        telling.commit().await?;
        self.known.learn(kept.iter().map(|(pattern, _)| pattern.clone()).collect(), false);
        Ok(kept)
    }

    /// Keeps a pattern within a transaction that has locked the pattern's task. A mined pattern counts nothing if its
    /// task was counted before, nor does a mined failure of an unknown pattern.
    pub(super) async fn keep_among(
        &self,
        patterns: &mut Patterns<'_>,
        mut new: NewPattern,
        teller: PatternOrigin<'_>,
    ) -> Result<Option<(Pattern, bool)>, StoreError> {
        new.agent = self.boundary.name_of(&new.agent);
        let screened = patterns::screen(new);
        let (agent, task) = (screened.pattern.agent.clone(), screened.pattern.task_id.clone());
        let (mined, went_well) =
            (teller.source == PatternSource::Mined, screened.pattern.outcome == PatternOutcome::Succeeded);
        if let Some(task) = task.as_deref().filter(|_| mined)
            && patterns.is_counted(&agent, task).await?
        {
            return Ok(None);
        }
        let key = hex::encode(patterns::dedup_key(&screened.pattern));
        let (known, at) = patterns.known(&key).await?;
        let known: Option<Pattern> = known.as_deref().and_then(|body| serde_json::from_str(body).ok());
        let is_new = known.is_none();
        if is_new && mined && !went_well {
            return Ok(None);
        }
        let before = known.as_ref().map_or(0, |known| known.successes);
        let pattern = match known {
            // A quarantined text does not count as a use of the pattern that it resembles.
            Some(known) if screened.quarantine.is_some() => known,
            Some(known) => patterns::record_use(&known, &screened.pattern.used(teller.source)),
            None => {
                let (source, by, review) = (teller.source, cleaned(teller.by), teller.review);
                let origin = PatternProvenance { source, by, session: None, task_id: None, review, at };
                patterns::begin(PatternId(self.clock.new_id()), screened, origin)
            }
        };
        write(patterns, &key, &pattern).await?;
        if let Some(task) = task {
            let more = pattern.successes.saturating_sub(before);
            patterns.count(&key, &agent, &task, Some(more)).await?;
        }
        Ok(Some((pattern, is_new)))
    }

    /// Takes back the successes that a task counted, since its reviews flag it. Returns true if the task was ever
    /// counted.
    pub(super) async fn retract_among(
        &self,
        patterns: &mut Patterns<'_>,
        task: &str,
        changed: &mut Vec<Pattern>,
    ) -> Result<bool, StoreError> {
        let counted = patterns.counted(task).await?;
        for one in counted.iter().filter(|one| one.successes > 0) {
            let (known, _) = patterns.known(&one.key).await?;
            let Some(known) = known.and_then(|body| serde_json::from_str::<Pattern>(&body).ok()) else { continue };
            let pattern = patterns::retract(&known, one.successes);
            write(patterns, &one.key, &pattern).await?;
            patterns.count(&one.key, &pattern.agent, task, None).await?;
            changed.push(pattern);
        }
        Ok(!counted.is_empty())
    }

    /// Adds patterns that were changed here to those known.
    pub(super) fn learn(&self, changed: Vec<Pattern>) {
        self.known.learn(changed, false);
    }

    /// Returns patterns of tasks like the session's, or like its agent's intent: of the same agent, with tools that the
    /// rules allow now.
    pub(super) fn offers(&self, intent: Option<&str>, session: &Session, limit: usize) -> Vec<OfferedPattern> {
        let (route, modes, taints) = (session.route.as_deref(), &session.modes, &session.taints);
        let like = |text: &str| self.search(text, Some(&session.agent), route, modes, taints, limit);
        let mut offered: Vec<OfferedPattern> =
            session.task.as_deref().into_iter().chain(intent).flat_map(like).collect();
        offered.sort_by(|a, b| (b.likeness * b.lower_bound).total_cmp(&(a.likeness * a.lower_bound)));
        let mut met = BTreeSet::new();
        offered.retain(|one| met.insert(one.pattern.id));
        offered.truncate(limit);
        offered
    }

    /// Returns patterns of tasks like this one.
    pub fn search(
        &self,
        task: &str,
        agent: Option<&str>,
        route: Option<&str>,
        modes: &[String],
        taints: &[String],
        limit: usize,
    ) -> Vec<OfferedPattern> {
        let (rules, boundary) = (self.rules.load(), self.boundary.rules.load());
        let allowed = |tool: &ToolName| {
            let effect = boundary.tools.effect_as_known(tool, "", None);
            let agent = agent.unwrap_or_default();
            rules.limits.allows(tool, effect, &AgentContext { agent, route, modes, taints, session: None })
        };
        let offered = self.known.shelf.read();
        offered.search(&Task::of(&cleaned(task)), agent, allowed, limit)
    }

    /// Returns a page of patterns.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_patterns(&self, filter: &PatternFilter) -> Result<Page<Pattern>, StoreError> {
        let Page { items, more } = self.read(self.store.patterns().list(filter)).await?;
        let read = |(seq, body): (i64, String)| Some((seq, serde_json::from_str(&body).ok()?));
        Ok(Page { items: items.into_iter().filter_map(read).collect(), more })
    }

    /// Keeps the pattern of a session: its successful calls, in order, if nothing in it was to be stopped. Returns the
    /// number of patterns kept.
    ///
    /// The agent reports the success at the end, or the verdicts about the task show it; without either, no pattern is
    /// kept. A task that had a session is left to it: its events are not mined ([`super::trajectories`]).
    pub(super) async fn capture(
        &self,
        session: &Session,
        outcome: Option<PatternOutcome>,
        patience: &mut RequestDeadline<'_>,
    ) -> u32 {
        let task = session.task.as_deref().unwrap_or_default();
        if !session.has_objective(Objective::PatternCapture) || task.trim().is_empty() {
            return 0;
        }
        let steps = session.calls.iter().map(|call| MinedStep {
            tool: Some(call.tool.clone()),
            ok: call.ok == Some(true),
            rejected: call.rejected,
            summary: None,
        });
        let steps: Vec<MinedStep> = steps.collect();
        let done = NewPattern {
            agent: session.agent.clone(),
            task: task.to_owned(),
            session: Some(session.id.to_string()),
            task_id: session.task_id.clone(),
            ..NewPattern::default()
        };
        let Some(mut mined) = patterns::mine(done, &steps) else { return 0 };
        let source = match outcome {
            Some(outcome) => {
                mined.outcome = outcome;
                PatternSource::Recorded
            }
            None if self.approved(session, patience).await => PatternSource::Mined,
            None => return 0,
        };
        let keeping = self.keep(mined, PatternOrigin::of(source, "sidecar"));
        let kept = patience.ask("the pattern of this session is not stored", keeping).await.flatten();
        u32::from(kept.is_some())
    }

    /// True if all reviews of the session's task approve it.
    async fn approved(&self, session: &Session, patience: &mut RequestDeadline<'_>) -> bool {
        let Some(task) = session.task_id.clone() else { return false };
        let asking = self.store.events().task_parts(std::slice::from_ref(&task), None);
        let parts = patience.ask("the reviews of the task could not be read", asking).await.unwrap_or_default();
        parts.iter().filter_map(|part| part.worst).max() == Some(Assessment::Approve)
    }

    /// Follows the patterns of other processes, and deletes those beyond the limit, until `stop`.
    pub async fn follow_patterns_until(self, stop: CancellationToken) {
        loop {
            if let Err(error) = self.follow_patterns().await {
                tracing::debug!(
                    %error,
                    "patterns stored by other processes are not read yet; the next round tries again"
                );
            }
            if !pause(&stop, BETWEEN_LOOKS).await {
                return;
            }
        }
    }

    async fn follow_patterns(&self) -> Result<(), StoreError> {
        let most = i64::try_from(self.settings.sidecar.keep_patterns).unwrap_or(i64::MAX);
        let (newest, known) = {
            let all = self.known.all.lock();
            (all.newest, all.patterns.len())
        };
        let since = newest.map(|newest| newest.saturating_sub(OVERLAP).unwrap_or(Timestamp::MIN));
        let mut changed = self.store.patterns().since(since, most).await?;
        // Fewer rows than are known: some were erased, and must not be offered any more.
        let anew = usize::try_from(changed.count).is_ok_and(|count| count < known);
        if anew {
            changed = self.store.patterns().since(None, most).await?;
        }
        if changed.count > most {
            self.store.patterns().forget(most).await?;
        }
        if let Some((at, _)) = changed.rows.last() {
            self.known.all.lock().newest = Some(*at);
        }
        let read = changed.rows.iter().filter_map(|(_, body)| serde_json::from_str(body).ok()).collect();
        self.known.learn(read, anew);
        Ok(())
    }
}

async fn write(patterns: &mut Patterns<'_>, key: &str, pattern: &Pattern) -> Result<(), StoreError> {
    let body = to_json("pattern.body", pattern)?;
    let row = PatternRow {
        key,
        id: pattern.id,
        agent: &pattern.agent,
        task_id: pattern.provenance.task_id.as_deref(),
        state: pattern.status.as_str(),
        body: &body,
    };
    patterns.write(row).await
}
