//! Input of a review, checked by the built-in checks: one event, the events of a batch, or the steps of a task. Of a
//! long task every step is checked, up to a bound, and the first, the last and the marked steps are kept.

use std::collections::VecDeque;

use crate::flows::{
    active_configuration::ActiveConfiguration,
    events::{accept::is_own_traffic, context_of},
    reviews::{Reviews, recall::ReviewerContext},
};
use umbra_domain::{Assessment, EventId, Hit, ReviewScope, Severity, Shadow, StoredEvent, Trigger};
use umbra_review::{Baseline, EventInput, Judgement, ReviewSubject, StepInput, TaskInput};
use umbra_store::{
    Store, StoreError,
    installation::Installation,
    jobs::Job,
    results::EventContext,
    steps::{EventUnderReview, TaskStep},
};

/// Steps of a task that are kept: the first, the last, and the worst of the marked steps between.
const HEAD: usize = 10;
const TAIL: usize = 20;
const MARKED: usize = 20;
/// Most steps of a task that are checked, half of them from its beginning and half from its end.
const EXAMINED: i64 = 2_000;
/// Steps per read.
const PAGE: i64 = 50;

/// Input of a review: events, and the hits of the checks.
pub(super) struct ReviewInput {
    pub scope: ReviewScope,
    /// Events in order of receipt.
    pages: Vec<CheckedEvent>,
    /// Number of events, or of all steps of the task.
    total: usize,
    /// True if an event looks like Umbra's own traffic.
    pub own_traffic: bool,
    notes: Vec<String>,
}

/// An event with the hits of the checks.
struct CheckedEvent {
    /// Position of the event in its batch or task, from 1.
    number: usize,
    event: EventId,
    trigger: Trigger,
    stored: StoredEvent,
    hits: Vec<Hit>,
    /// Baseline and reminders for the reviewer.
    recalled: ReviewerContext,
}

impl ReviewInput {
    /// Loads the input of a job; `None` if none of its events is left. `payload` spares the read of a single event.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn load(
        store: &Store,
        installation: &Installation,
        shadow: &Shadow,
        job: &Job,
        payload: Option<Vec<u8>>,
    ) -> Result<Option<Self>, StoreError> {
        let held = match (job.scope, payload) {
            (ReviewScope::Event, Some(payload)) => {
                vec![EventUnderReview { event: job.event, trigger: job.trigger, payload }]
            }
            _ => store.events().events_under_review(job.review).await?,
        };
        if job.scope == ReviewScope::Trajectory {
            let task = held.iter().find_map(|held| read(&held.payload)?.event.task_id);
            return match task {
                Some(task) => of_task(store, shadow, job.trigger, &task).await.map(Some),
                None => Ok(None),
            };
        }
        let mut own_traffic = false;
        let page = |(index, held): (usize, EventUnderReview)| {
            let stored = read(&held.payload)?;
            let hits = umbra_checks::by_shadow(&stored, shadow);
            own_traffic |= is_own_traffic(installation, &stored.event, &held.payload);
            Some(CheckedEvent {
                number: index + 1,
                event: held.event,
                trigger: held.trigger,
                stored,
                hits,
                recalled: ReviewerContext::default(),
            })
        };
        let pages: Vec<CheckedEvent> = held.into_iter().enumerate().filter_map(page).collect();
        let total = pages.len();
        Ok((total > 0).then_some(Self { scope: job.scope, pages, total, own_traffic, notes: Vec::new() }))
    }

    /// Adds the reviewer's context: baseline and reminders to a single event, baselines to the events of a batch,
    /// nothing to the steps of a task.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn remember(
        &mut self,
        reviews: &Reviews,
        rules: &ActiveConfiguration,
        shadow: &Shadow,
    ) -> Result<(), StoreError> {
        if self.scope == ReviewScope::Trajectory {
            return Ok(());
        }
        for page in &mut self.pages {
            let event = &page.stored.event;
            page.recalled.baseline = reviews.usual(rules, shadow, event).await?;
            if self.scope == ReviewScope::Event {
                page.recalled.memory = reviews.reminders(rules, shadow, event, &page.hits).await?;
            }
        }
        Ok(())
    }

    /// Returns the events with the baselines of their agents; `None` for the steps of a task.
    pub fn usual(&self) -> impl Iterator<Item = (EventId, Option<Baseline>)> {
        self.pages.iter().map(|page| (page.event, page.recalled.baseline))
    }

    /// Returns the input as `umbra_review` takes it.
    pub fn review_subject(&self) -> ReviewSubject<'_> {
        match (self.scope, self.pages.as_slice()) {
            (ReviewScope::Trajectory, pages) => ReviewSubject::Trajectory(TaskInput {
                steps: pages.iter().map(|page| StepInput { number: page.number, subject: subject(page) }).collect(),
                total: self.total,
                notes: self.notes.clone(),
            }),
            (ReviewScope::Event, [page, ..]) => ReviewSubject::Event(subject(page)),
            (_, pages) => ReviewSubject::Batch(pages.iter().map(subject).collect()),
        }
    }

    /// Returns the events, in order.
    pub fn events(&self) -> impl Iterator<Item = EventId> {
        self.pages.iter().map(|page| page.event)
    }

    /// Returns the events that the review is filed with: none for the steps of a task.
    pub fn held_by(&self) -> impl Iterator<Item = EventId> {
        self.events().take(if self.scope == ReviewScope::Trajectory { 0 } else { usize::MAX })
    }

    /// Returns those of the events in [`Self::held_by`] that the checks alone reject.
    pub fn rejected(&self, shadow: &Shadow) -> Vec<EventId> {
        let flags = |judgements: Vec<Judgement>| judgements.iter().any(|one| one.assessment == Assessment::Flag);
        let rejected = self.pages.iter().filter(|page| flags(ReviewSubject::Event(subject(page)).of_checks(shadow)));
        rejected.map(|page| page.event).filter(|event| self.held_by().any(|held| held == *event)).collect()
    }

    /// Returns agent, task and trigger of an event.
    pub fn place(&self, event: EventId) -> Option<EventContext> {
        let page = self.pages.iter().find(|page| page.event == event)?;
        Some(context_of(&page.stored.event, page.trigger))
    }
}

fn subject(page: &CheckedEvent) -> EventInput<'_> {
    let CheckedEvent { event: event_id, trigger, stored, hits, recalled, .. } = page;
    let ReviewerContext { baseline, memory } = recalled;
    EventInput { event_id: *event_id, event: &stored.event, trigger: *trigger, hits, baseline: *baseline, memory }
}

fn read(payload: &[u8]) -> Option<StoredEvent> {
    serde_json::from_slice(payload).ok()
}

async fn of_task(store: &Store, shadow: &Shadow, trigger: Trigger, task: &str) -> Result<ReviewInput, StoreError> {
    let half = EXAMINED / 2;
    let (total, edge) = store.events().task_length(task, half).await?;
    let mut excerpt = Excerpt::default();
    let mut looping = umbra_checks::Loops::default();
    let (mut behind, mut number, mut skipped) = (0, 0, 0);
    loop {
        let steps = store.events().steps(task, behind, PAGE).await?;
        let Some(last) = steps.last() else { break };
        behind = last.seq;
        for TaskStep { event, payload, .. } in steps {
            number += 1;
            let Some(stored) = read(&payload) else { continue };
            let mut hits = umbra_checks::by_shadow(&stored, shadow);
            let repeated = looping.observe(&stored.event);
            hits.extend(repeated.filter(|hit| shadow.checks.contains(&hit.check)));
            excerpt.take(CheckedEvent { number, event, trigger, stored, hits, recalled: ReviewerContext::default() });
        }
        // Of a task with more steps than are checked, the middle is skipped.
        if total > EXAMINED
            && skipped == 0
            && i64::try_from(number).is_ok_and(|number| number >= half)
            && let Some(edge) = edge.filter(|edge| *edge > behind)
        {
            skipped = usize::try_from(total - EXAMINED).unwrap_or(0);
            number += skipped;
            behind = edge;
            looping = umbra_checks::Loops::default();
        }
        if i64::try_from(number - skipped).is_ok_and(|seen| seen >= EXAMINED + PAGE) {
            break;
        }
    }
    let mut notes = Vec::new();
    if skipped > 0 {
        notes.push(format!(
            "{skipped} steps in the middle of the task were not examined: the task has more than {EXAMINED} steps."
        ));
    }
    if excerpt.dropped > 0 {
        notes.push(format!("{} more steps with marks are not listed: only the gravest {MARKED} are.", excerpt.dropped));
    }
    let pages = excerpt.finish();
    Ok(ReviewInput { scope: ReviewScope::Trajectory, pages, total: number, own_traffic: false, notes })
}

/// The first steps, the last, and the worst of the marked steps between.
#[derive(Default)]
struct Excerpt {
    head: Vec<CheckedEvent>,
    marked: Vec<CheckedEvent>,
    tail: VecDeque<CheckedEvent>,
    /// Marked steps that were dropped for lack of room.
    dropped: usize,
}

impl Excerpt {
    fn take(&mut self, page: CheckedEvent) {
        if self.head.len() < HEAD {
            self.head.push(page);
            return;
        }
        self.tail.push_back(page);
        let older = if self.tail.len() > TAIL { self.tail.pop_front() } else { None };
        if let Some(older) = older.filter(|page| worst(page) >= Some(Severity::Warning)) {
            self.marked.push(older);
            // The sort is stable: of equally bad steps the first stay.
            self.marked.sort_by_key(|page| std::cmp::Reverse(worst(page)));
            if self.marked.len() > MARKED {
                self.marked.truncate(MARKED);
                self.dropped += 1;
            }
        }
    }

    fn finish(self) -> Vec<CheckedEvent> {
        let mut pages: Vec<CheckedEvent> = self.head.into_iter().chain(self.marked).chain(self.tail).collect();
        pages.sort_by_key(|page| page.number);
        pages
    }
}

fn worst(page: &CheckedEvent) -> Option<Severity> {
    page.hits.iter().map(|hit| hit.severity).max()
}
