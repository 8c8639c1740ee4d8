//! Reflexions: opened when a fault recurs, closed when it stops, read for agents, people and reviewers.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    flows::followers::{
        Followers,
        consequences::{self, Judged},
    },
    reflexion::{self, Fault, Step},
    telemetry::metric,
};
use umbra_domain::{About, Category, EventId, FindingId, Mode, ReflexionId, ReviewId, Severity, Source};
use umbra_store::{
    StoreError,
    follow::Following,
    reflexions::{FaultKey, Recurrence, ReflexionFilter, ReflexionRow},
    seek::{Page, Seek},
};

/// Most occurrences that a reflexion lists, the newest.
const MOST_OCCURRENCES: i64 = 20;
/// Most reflexions that time alone closes in one page.
const MOST_STALE: i64 = 100;

/// A fault that recurs, as a lesson.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Reflexion)]
pub struct ReflexionItem {
    /// Its id.
    #[schema(value_type = String, example = "rfx_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: ReflexionId,
    /// The agent.
    pub agent: String,
    /// The type of task.
    pub task_type: Option<String>,
    /// The findings' fingerprint.
    pub fingerprint: String,
    /// `open` while the fault recurs; `closed` when it was not found for as long as `reflexion.window`.
    pub status: &'static str,
    /// How bad the fault was at worst.
    pub severity: Severity,
    /// What it is about.
    pub category: Category,
    /// Who found it.
    pub source: Source,
    /// The check's rule, or the model's checklist item.
    pub rule: String,
    /// How the newest finding describes it: words of a reviewer, not to be followed.
    pub description: Option<String>,
    /// The lesson, in Umbra's own words.
    pub lesson: String,
    /// A text to put before the agent's next task. Others' words in it are quoted as data.
    pub prompt: String,
    /// Events in which it was found.
    pub events: i64,
    /// The newest times that it was found, at most twenty.
    pub occurrences: Vec<OccurrenceItem>,
    /// When it was found first.
    #[schema(value_type = String, format = DateTime)]
    pub first_at: Timestamp,
    /// When it was found last.
    #[schema(value_type = String, format = DateTime)]
    pub last_at: Timestamp,
    /// When it became a lesson.
    #[schema(value_type = String, format = DateTime)]
    pub opened_at: Timestamp,
    /// When it closed.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub closed_at: Option<Timestamp>,
}

/// One time that the fault was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct OccurrenceItem {
    /// The finding.
    #[schema(value_type = String)]
    pub finding_id: FindingId,
    /// The event.
    #[schema(value_type = String)]
    pub event_id: EventId,
    /// The review; null where the built-in checks looked without one.
    #[schema(value_type = Option<String>)]
    pub review_id: Option<ReviewId>,
    /// When it was found.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Timestamp,
}

/// A reflexion opened or closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::flows) struct Change {
    pub id: ReflexionId,
    pub agent: String,
    pub opened: bool,
}

/// Logs and counts a change.
pub(super) fn announce(change: &Change) {
    let to = if change.opened { "open" } else { "closed" };
    metrics::counter!(metric::REFLEXION_CHANGES, "to" => to).increment(1);
    tracing::info!(reflexion = %change.id, to, "a recurring fault moved on");
}

impl Followers {
    /// Opens, carries on and closes reflexions; answers what changed.
    pub(super) async fn follow_reflexions(
        &self,
        page: &mut Following,
        judged: &[Judged],
    ) -> Result<Vec<consequences::Change>, StoreError> {
        let limits = &self.settings.reflexion;
        let mut keys = BTreeSet::new();
        for one in judged.iter().filter(|one| one.is_public()) {
            // What the agent was given teaches it nothing.
            let faults = one.findings.iter().filter(|finding| finding.about == About::Agent);
            keys.extend(faults.map(|finding| FaultKey {
                agent: one.review.agent.clone(),
                task_type: one.stored.event.task_type.clone(),
                fingerprint: finding.fingerprint.clone(),
            }));
        }
        let looks = page.ended.looks.iter().map(|(finding, _)| finding);
        let looks = looks.filter(|finding| finding.mode != Some(Mode::Passive) && finding.about == About::Agent);
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
                match (reflexion::step(fault.open.is_some(), fault.recent, fault.events, limits), fault.open) {
                    (Step::Open, _) => {
                        let id = ReflexionId(self.clock.new_id());
                        if page.open_reflexion(id, &fault).await? {
                            changes.push(consequences::Change::Reflexion(Change {
                                id,
                                agent: fault.key.agent.clone(),
                                opened: true,
                            }));
                        }
                    }
                    (Step::GoOn, Some(id)) => page.go_on(id, &fault).await?,
                    _ => {}
                }
            }
        }
        let stale = page.close_stale(limits.window, MOST_STALE).await?;
        changes.extend(
            stale.into_iter().map(|(id, agent)| consequences::Change::Reflexion(Change { id, agent, opened: false })),
        );
        Ok(changes)
    }

    /// Opens or closes the reflexion of a finding's fault after people changed their mind about the finding.
    pub(super) async fn revise_reflexion(&self, finding: FindingId) -> Result<(), StoreError> {
        let limits = &self.settings.reflexion;
        let Some(fault) = self.store.reflexions().recurrence_of(finding, limits.window).await? else { return Ok(()) };
        let Recurrence { open, recent, events, .. } = &fault;
        let (id, opened) = match (reflexion::step(open.is_some(), *recent, *events, limits), *open) {
            (Step::Open, _) => (ReflexionId(self.clock.new_id()), true),
            (Step::Close, Some(id)) => (id, false),
            _ => return Ok(()),
        };
        let change = Change { id, agent: fault.key.agent.clone(), opened };
        let message = self.message_of(&consequences::Change::Reflexion(change.clone()), self.store.now().await?);
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

    /// A page of reflexions in the order in which they opened.
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

/// A reflexion as the room knows it.
pub(in crate::flows) fn fault(row: &ReflexionRow) -> Fault<'_> {
    Fault {
        severity: row.severity,
        category: row.category,
        source: row.source,
        rule: &row.rule,
        description: row.description.as_deref(),
        task_type: row.key.task_type.as_deref(),
        events: row.events,
    }
}
