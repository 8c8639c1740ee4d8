//! Reflexions: opened when a fault recurs, closed when it stops, read by agents, people and reviewers.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    flows::followers::{
        Followers,
        consequences::{self, JudgedEvent},
    },
    reflexion::{self, LessonFault, ReflexionStep},
    telemetry::metric,
};
use umbra_domain::{
    EventId, FindingCategory, FindingId, FindingSource, FindingSubject, Mode, ReflexionId, ReviewId, Severity,
};
use umbra_store::{
    StoreError,
    follow::FollowerPage,
    paging::{Page, Seek},
    reflexions::{FaultKey, Recurrence, ReflexionFilter, ReflexionRow},
};

/// Most occurrences that a reflexion lists; the newest.
const MOST_OCCURRENCES: i64 = 20;
/// Most reflexions per page that close by time alone.
const MOST_STALE: i64 = 100;

/// A recurring fault of an agent, with its lesson.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Reflexion)]
pub struct ReflexionItem {
    /// Id of the reflexion.
    #[schema(value_type = String, example = "rfx_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: ReflexionId,
    /// Agent that made the fault.
    pub agent: String,
    /// Type of the tasks in which the fault was found.
    pub task_type: Option<String>,
    /// Fingerprint of the findings.
    pub fingerprint: String,
    /// `open` while the fault recurs; `closed` once it was not found for as long as `reflexion.window`.
    pub status: &'static str,
    /// Worst severity of the findings.
    pub severity: Severity,
    /// Category of the findings.
    pub category: FindingCategory,
    /// Source of the findings.
    pub source: FindingSource,
    /// Rule of the check, or checklist item of the model.
    pub rule: String,
    /// Description by the newest finding: words of a reviewer, not to be followed.
    pub description: Option<String>,
    /// Lesson, in Umbra's own words.
    pub lesson: String,
    /// Text to put before the agent's next task. Words of others in it are quoted as data.
    pub prompt: String,
    /// Number of events in which the fault was found.
    pub events: i64,
    /// Newest occurrences, at most twenty.
    pub occurrences: Vec<OccurrenceItem>,
    /// Time of the first occurrence.
    pub first_at: Timestamp,
    /// Time of the last occurrence.
    pub last_at: Timestamp,
    /// Time at which the fault became a lesson.
    pub opened_at: Timestamp,
    /// Time at which the reflexion closed.
    pub closed_at: Option<Timestamp>,
}

/// An occurrence of the fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct OccurrenceItem {
    /// Id of the finding.
    #[schema(value_type = String)]
    pub finding_id: FindingId,
    /// Id of the event.
    #[schema(value_type = String)]
    pub event_id: EventId,
    /// Id of the review; null if the built-in checks found the fault without a review.
    #[schema(value_type = Option<String>)]
    pub review_id: Option<ReviewId>,
    /// Time of the finding.
    pub timestamp: Timestamp,
}

/// A reflexion that opened or closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::flows) struct ReflexionChange {
    pub id: ReflexionId,
    pub agent: String,
    pub opened: bool,
}

/// Logs and counts a change.
pub(super) fn announce(change: &ReflexionChange) {
    let to = if change.opened { "open" } else { "closed" };
    metrics::counter!(metric::REFLEXION_CHANGES, "to" => to).increment(1);
    tracing::info!(reflexion = %change.id, to, "a recurring fault changed its state");
}

impl Followers {
    /// Opens, updates and closes reflexions; returns the changes.
    pub(super) async fn follow_reflexions(
        &self,
        page: &mut FollowerPage,
        judged: &[JudgedEvent],
    ) -> Result<Vec<consequences::ReportedChange>, StoreError> {
        let limits = &self.settings.reflexion;
        let mut keys = BTreeSet::new();
        for one in judged.iter().filter(|one| one.review.mode.is_some_and(|mode| mode != Mode::Passive)) {
            // A finding about what the agent was given is no fault of the agent.
            let faults = one.findings.iter().filter(|finding| finding.about == FindingSubject::Agent);
            keys.extend(faults.map(|finding| FaultKey {
                agent: one.review.agent.clone(),
                task_type: one.stored.event.task_type.clone(),
                fingerprint: finding.fingerprint.clone(),
            }));
        }
        let looks = page.ended.looks.iter().map(|(finding, _)| finding);
        let looks =
            looks.filter(|finding| finding.mode != Some(Mode::Passive) && finding.about == FindingSubject::Agent);
        keys.extend(looks.map(|finding| FaultKey {
            agent: finding.watched_agent.clone(),
            task_type: finding.task_type.clone(),
            fingerprint: finding.fingerprint.clone(),
        }));
        keys.extend(page.ended.repeated.iter().cloned());
        let keys: Vec<FaultKey> = keys.into_iter().collect();
        let mut changes = Vec::new();
        if !keys.is_empty() {
            for fault in page.recurrences(&keys, limits.window).await? {
                match (reflexion::step(fault.open.is_some(), fault.recent, fault.events, limits.threshold), fault.open)
                {
                    (ReflexionStep::Open, _) => {
                        let id = ReflexionId(self.clock.new_id());
                        if page.open_reflexion(id, &fault).await? {
                            changes.push(consequences::ReportedChange::Reflexion(ReflexionChange {
                                id,
                                agent: fault.key.agent.clone(),
                                opened: true,
                            }));
                        }
                    }
                    (ReflexionStep::GoOn, Some(id)) => page.update_recurrence(id, &fault).await?,
                    _ => {}
                }
            }
        }
        let stale = page.close_stale(limits.window, MOST_STALE).await?;
        changes.extend(
            stale.into_iter().map(|(id, agent)| {
                consequences::ReportedChange::Reflexion(ReflexionChange { id, agent, opened: false })
            }),
        );
        Ok(changes)
    }

    /// Opens or closes the reflexion of a finding's fault, after a person judged the finding.
    pub(super) async fn revise_reflexion(&self, finding: FindingId) -> Result<(), StoreError> {
        let limits = &self.settings.reflexion;
        let Some(fault) = self.store.reflexions().recurrence_of(finding, limits.window).await? else { return Ok(()) };
        let Recurrence { open, recent, events, .. } = &fault;
        let (id, opened) = match (reflexion::step(open.is_some(), *recent, *events, limits.threshold), *open) {
            (ReflexionStep::Open, _) => (ReflexionId(self.clock.new_id()), true),
            (ReflexionStep::Close, Some(id)) => (id, false),
            _ => return Ok(()),
        };
        let change = ReflexionChange { id, agent: fault.key.agent.clone(), opened };
        let message =
            self.message_of(&consequences::ReportedChange::Reflexion(change.clone()), self.store.now().await?);
        let revised = if opened {
            self.store.reflexions().open(id, &fault, message.as_ref()).await?
        } else {
            self.store.reflexions().close(id, message.as_ref()).await?
        };
        if revised {
            announce(&change);
            self.outbox.notify_one();
        }
        Ok(())
    }

    /// Returns a page of reflexions, in the order in which they opened.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn reflexions(&self, filter: &ReflexionFilter, seek: Seek) -> Result<Page<ReflexionItem>, StoreError> {
        let page = self.store.reflexions().list(filter, seek).await?;
        let ids: Vec<ReflexionId> = page.items.iter().map(|(_, row)| row.id).collect();
        let mut occurrences: HashMap<ReflexionId, Vec<OccurrenceItem>> = HashMap::new();
        for one in self.store.reflexions().occurrences(&ids, MOST_OCCURRENCES).await? {
            occurrences.entry(one.reflexion).or_default().push(OccurrenceItem {
                finding_id: one.finding,
                event_id: one.event,
                review_id: one.review,
                timestamp: one.at,
            });
        }
        let mut dress = |row: ReflexionRow| {
            let found = occurrences.remove(&row.id).unwrap_or_default();
            self.reflexion_item(row, found)
        };
        let items = page.items.into_iter().map(|(number, row)| (number, dress(row))).collect();
        Ok(Page { items, more: page.more })
    }

    fn reflexion_item(&self, row: ReflexionRow, occurrences: Vec<OccurrenceItem>) -> ReflexionItem {
        let fault = fault(&row);
        ReflexionItem {
            lesson: reflexion::lesson(&fault),
            prompt: reflexion::prompt(&fault, self.settings.reflexion.window),
            id: row.id,
            agent: row.key.agent,
            task_type: row.key.task_type,
            fingerprint: row.key.fingerprint,
            status: if row.closed_at.is_none() { "open" } else { "closed" },
            severity: row.severity,
            category: row.category,
            source: row.source,
            rule: row.rule,
            description: row.description,
            events: row.events,
            occurrences,
            first_at: row.first_at,
            last_at: row.last_at,
            opened_at: row.opened_at,
            closed_at: row.closed_at,
        }
    }
}

/// Returns the fault of a stored reflexion, as module `reflexion` takes it.
pub(in crate::flows) fn fault(row: &ReflexionRow) -> LessonFault<'_> {
    LessonFault {
        severity: row.severity,
        category: row.category,
        source: row.source,
        rule: &row.rule,
        description: row.description.as_deref(),
        task_type: row.key.task_type.as_deref(),
        events: row.events,
    }
}
