//! Patterns of tasks without a session, mined from posted events.
//!
//! One process of a cluster follows the reviews that ended, and examines their tasks. A task is *approved* if the event
//! that completes it was reviewed, no review of its events is open, and all of them approve, apart from those of
//! passive shadows; without a review of its end, the result of a task is unknown. A task is *flagged* if any of these
//! reviews says FLAG.
//!
//! The calls of an agent in an approved task, in order, become its pattern, once per task and only if the agent had no
//! session for the task. A flagged task is a failure of the patterns that it was counted for, else of a known pattern
//! with the same calls. All of it commits with the number up to which reviews were followed: exactly once.

use std::collections::BTreeSet;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Sidecar, patterns::PatternOrigin};
use crate::flows::rounds::{FailureLog, pause_of_follower};
use umbra_domain::{
    Assessment, EventId, Mode, NanoUsd, NewPattern, Pattern, PatternOutcome, PatternSource, ReviewId, StoredEvent,
    ToolCall, ToolName, Trigger,
};
use umbra_sidecar::patterns::{self, MinedStep};
use umbra_store::{
    StoreError,
    events::received_at,
    follow::{Follower, FollowerPage},
    steps::TaskStep,
    trajectories::AssessedReview,
};

/// Reviews per transaction.
const PAGE: i64 = 20;
/// Most steps of a task that are read, and most opinions about it; a longer task makes no pattern worth following.
const MOST_STEPS: usize = 200;
/// Steps per read.
const STEPS: i64 = 50;

/// Result of the reviews of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskResult {
    Approved,
    Flagged,
}

impl TaskResult {
    /// Returns the result of the opinions about a task's events, the strictest first; `None` if it is neither, or not
    /// yet.
    fn of(opined: &[AssessedReview]) -> Option<Self> {
        let said = || opined.iter().filter_map(|one| one.assessment);
        if said().max() == Some(Assessment::Flag) {
            return Some(Self::Flagged);
        }
        let whole = opined.len() < MOST_STEPS && opined.iter().all(|one| !one.open);
        (whole && said().max() == Some(Assessment::Approve)).then_some(Self::Approved)
    }
}

impl Sidecar {
    /// Mines the tasks that reviews approve, until `stop`.
    pub async fn mine_until(self, stop: CancellationToken) {
        let mut news = self.verdicts.waiters.news.subscribe();
        let mut log = FailureLog::new(
            "patterns of approved tasks cannot be stored",
            "patterns of approved tasks are stored again",
        );
        loop {
            let mined = self.mine_tasks().await;
            log.note(&mined);
            if !pause_of_follower(&stop, &mut news, &mined).await {
                return;
            }
        }
    }

    /// Mines the tasks of the next reviews that ended; returns true if there are more.
    async fn mine_tasks(&self) -> Result<bool, StoreError> {
        if !self.settings.sidecar.mine_trajectories {
            self.store.reviews().skip_following(Follower::Patterns).await?;
            return Ok(false);
        }
        let Some(mut page) = self.store.reviews().follow(Follower::Patterns, PAGE).await? else { return Ok(false) };
        let tasks = tasks_of(&mut page).await?;
        let mut changed = Vec::new();
        if !tasks.is_empty() {
            page.patterns().lock_tasks(&tasks).await?;
        }
        for task in &tasks {
            self.mine_task(&mut page, task, &mut changed).await?;
        }
        let more = page.ended.more;
        page.commit().await?;
        self.learn(changed);
        Ok(more)
    }

    async fn mine_task(
        &self,
        page: &mut FollowerPage,
        task: &str,
        changed: &mut Vec<Pattern>,
    ) -> Result<(), StoreError> {
        let most = i64::try_from(MOST_STEPS).unwrap_or(i64::MAX);
        let opined = page.opined(task, most).await?;
        let Some(ended) = TaskResult::of(&opined) else { return Ok(()) };
        if ended == TaskResult::Flagged && self.retract_among(&mut page.patterns(), task, changed).await? {
            return Ok(());
        }
        let Some(steps) = steps_of(page, task).await? else { return Ok(()) };
        let Some(review) = reviewed_to_its_end(&steps, &opined) else { return Ok(()) };
        let agents: BTreeSet<&str> = steps.iter().map(|(_, stored)| stored.event.agent.as_str()).collect();
        for agent in agents {
            if page.patterns().has_session(&self.boundary.name_of(agent), task).await? {
                continue;
            }
            let own: Vec<&(EventId, StoredEvent)> =
                steps.iter().filter(|(_, stored)| stored.event.agent == agent).collect();
            let Some(mut mined) = pattern_of(agent, task, &own) else { continue };
            if ended == TaskResult::Flagged {
                mined.outcome = PatternOutcome::Failed;
            }
            let teller = PatternOrigin { source: PatternSource::Mined, by: "trajectory", review: Some(review) };
            let kept = self.keep_among(&mut page.patterns(), mined, teller).await?;
            changed.extend(kept.map(|(pattern, _)| pattern));
        }
        Ok(())
    }
}

/// Returns the tasks of the events that were reviewed in this page, in order.
async fn tasks_of(page: &mut FollowerPage) -> Result<Vec<String>, StoreError> {
    if page.ended.reviews.is_empty() {
        return Ok(Vec::new());
    }
    let events = page.events().await?;
    let reviews = page.ended.reviews.iter().filter(|review| review.mode != Some(Mode::Passive));
    let payloads = reviews.flat_map(|review| &review.events).filter_map(|event| events.get(event));
    let tasks: BTreeSet<String> = payloads
        .filter_map(|(_, payload)| serde_json::from_slice::<StoredEvent>(payload).ok()?.event.task_id)
        .collect();
    Ok(tasks.into_iter().collect())
}

/// Returns the steps of a task in order; `None` if there are too many.
async fn steps_of(page: &mut FollowerPage, task: &str) -> Result<Option<Vec<(EventId, StoredEvent)>>, StoreError> {
    let (mut steps, mut behind) = (Vec::new(), 0);
    loop {
        let read = page.steps(task, behind, STEPS).await?;
        let Some(last) = read.last() else { return Ok(Some(steps)) };
        behind = last.seq;
        if steps.len() + read.len() > MOST_STEPS {
            return Ok(None);
        }
        let stored = |step: TaskStep| {
            let StoredEvent { mut event, triggers, .. } = serde_json::from_slice(&step.payload).ok()?;
            // Of a call only its tool and its success are kept.
            if let Some(tool) = &mut event.tool {
                (tool.args, tool.result) = (Value::Null, None);
            }
            Some((step.event, StoredEvent { event, triggers, marks: Vec::new() }))
        };
        steps.extend(read.into_iter().filter_map(stored));
    }
}

/// Returns the latest review of the event that completes a task.
fn reviewed_to_its_end(steps: &[(EventId, StoredEvent)], opined: &[AssessedReview]) -> Option<ReviewId> {
    let completes =
        |event: EventId| steps.iter().any(|(id, stored)| *id == event && has(stored, Trigger::TaskComplete));
    let of_the_end = opined.iter().filter(|one| one.assessment.is_some() && completes(one.event));
    of_the_end.map(|one| one.review).max()
}

fn has(stored: &StoredEvent, trigger: Trigger) -> bool {
    stored.triggers.iter().any(|mark| mark.name == trigger)
}

/// Returns the calls of an agent in a task, as a pattern that succeeded.
fn pattern_of(agent: &str, task_id: &str, own: &[&(EventId, StoredEvent)]) -> Option<NewPattern> {
    let events = || own.iter().map(|(_, stored)| &stored.event);
    let task =
        events().find_map(|event| event.task.as_deref()).or_else(|| events().find_map(|event| event.input.as_deref()));
    let steps: Vec<MinedStep> = own.iter().map(|(_, stored)| step_of(stored)).collect();
    let costs = events().filter_map(|event| event.cost_usd);
    let in_all = events().rev().find_map(|event| event.task_cost_usd);
    let (first, last) = (own.first()?.0, own.last()?.0);
    let took = received_at(last).duration_since(received_at(first));
    let done = NewPattern {
        agent: agent.to_owned(),
        task_type: events().find_map(|event| event.task_type.clone()),
        task: task?.to_owned(),
        task_id: Some(task_id.to_owned()),
        cost_usd: in_all.or_else(|| costs.reduce(|sum: NanoUsd, one| sum + one)),
        ms: u64::try_from(took.as_millis()).ok(),
        ..NewPattern::default()
    };
    patterns::mine(done, &steps)
}

fn step_of(stored: &StoredEvent) -> MinedStep {
    let event = &stored.event;
    // Decision of the boundary about the call, if its client reports it.
    let decision = event.metadata.get("decision").and_then(Value::as_str).unwrap_or_default();
    MinedStep {
        tool: event.tool.as_ref().map(|tool| ToolName::bare(tool.name.clone())),
        ok: decision != "stub"
            && !has(stored, Trigger::Error)
            && !event.tool.as_ref().is_some_and(ToolCall::has_failed),
        rejected: matches!(decision, "block" | "ask"),
        summary: event.output.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbra_domain::{Event, TriggerMark, TriggerSource, clock::Clock};

    fn opined(of: &[(Option<Assessment>, bool)]) -> Vec<AssessedReview> {
        let clock = Clock::system();
        let (review, event) = (ReviewId(clock.new_id()), EventId(clock.new_id()));
        of.iter()
            .map(|(assessment, open)| AssessedReview { review, event, open: *open, assessment: *assessment })
            .collect()
    }

    #[test]
    fn a_task_is_approved_by_all_reviews_and_flagged_by_one() {
        use Assessment::{Approve, Flag, Inconclusive, Suggest};
        for (said, ended) in [
            (&[] as &[(Option<Assessment>, bool)], None),
            (&[(None, false)], None),
            (&[(Some(Approve), false)], Some(TaskResult::Approved)),
            // A review without an assessment does not count.
            (&[(Some(Approve), false), (None, false)], Some(TaskResult::Approved)),
            (&[(Some(Approve), false), (None, true)], None),
            (&[(Some(Inconclusive), false), (Some(Approve), false)], None),
            (&[(Some(Suggest), false), (Some(Approve), false)], None),
            (&[(Some(Flag), false), (Some(Approve), false), (None, true)], Some(TaskResult::Flagged)),
        ] {
            assert_eq!(TaskResult::of(&opined(said)), ended, "{said:?}");
        }
        assert_eq!(
            TaskResult::of(&opined(&vec![(Some(Approve), false); MOST_STEPS])),
            None,
            "not all of them are read"
        );
    }

    #[test]
    fn step_is_ok_unless_an_error_or_decision_contradicts() {
        let call = |error: Option<&str>, decision: Option<&str>, failed: bool| {
            let tool = ToolCall { name: "db.explain".to_owned(), error: error.map(Into::into), ..ToolCall::default() };
            let mut event = Event { tool: Some(tool), ..Event::default() };
            event.metadata.extend(decision.map(|word| ("decision".to_owned(), word.into())));
            let mark = TriggerMark { name: Trigger::Error, source: TriggerSource::Derived, why: String::new() };
            let step = step_of(&StoredEvent {
                event,
                triggers: failed.then_some(mark).into_iter().collect(),
                marks: Vec::new(),
            });
            (step.ok, step.rejected)
        };
        assert_eq!(call(None, None, false), (true, false));
        assert_eq!(call(None, Some("execute"), false), (true, false));
        assert_eq!(call(Some("no such table"), None, false), (false, false));
        assert_eq!(call(None, None, true), (false, false));
        assert_eq!(call(None, Some("stub"), false), (false, false), "it did not run");
        assert!(call(None, Some("block"), false).1);
        assert!(call(None, Some("ask"), false).1);
    }
}
