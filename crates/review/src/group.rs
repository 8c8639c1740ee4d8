//! Subject of one model call: an event, a batch of events each judged by itself, or the steps of a task judged as a
//! whole. In: the subject, then a model's reply. Out: a prompt, and a judgement for each item. Never: a quote of one
//! event that counts for another's verdict in a batch.

use minijinja::{Value, context};

use super::{
    EventInput, Judgement, ModelReply, Prompt, PromptError, ShownItem, assess,
    excerpt::grouped,
    prompt::{self, GROUP_FACTS, PromptSection, baseline, facts, fit, items, refuse_known, render, system, tag},
    reply,
    sections::{EventSection, sections},
};
use umbra_domain::{Event, ReviewScope, Shadow};

/// Most facts that a task's prompt lists over all its steps.
const MAX_FACTS: usize = 24;

/// Subject of one review.
#[derive(Clone)]
pub enum ReviewSubject<'a> {
    /// One event.
    Event(EventInput<'a>),
    /// Events that share a call. Each is judged by itself, with its own nonce and tag.
    Batch(Vec<EventInput<'a>>),
    /// A task, judged as a whole.
    Trajectory(TaskInput<'a>),
}

/// A task, by the steps that the model is shown.
#[derive(Clone)]
pub struct TaskInput<'a> {
    /// Steps that are shown, in order. Steps with hits of a warning or worse are among them.
    pub steps: Vec<StepInput<'a>>,
    /// Number of steps of the task.
    pub total: usize,
    /// Notes for people on parts of the task that were not looked at.
    pub notes: Vec<String>,
}

/// One step of a task.
#[derive(Clone, Copy)]
pub struct StepInput<'a> {
    /// Number of the step, counted from 1.
    pub number: usize,
    /// Event of the step.
    pub subject: EventInput<'a>,
}

impl TaskInput<'_> {
    fn subjects(&self) -> Vec<(Option<usize>, EventInput<'_>)> {
        self.steps.iter().map(|step| (Some(step.number), step.subject)).collect()
    }

    fn unseen(&self) -> usize {
        self.total.saturating_sub(self.steps.len())
    }

    /// Adds notes on the steps that a judgement rests on.
    fn with_coverage_notes(&self, mut judgement: Judgement, by_model: bool) -> Judgement {
        let unseen = self.unseen();
        if unseen > 0 && by_model {
            judgement.notes.push(format!(
                "The task has {} steps; the model was shown {}: the first, the last and those that a check marked.",
                grouped(self.total),
                grouped(self.steps.len())
            ));
        }
        judgement.notes.extend(self.notes.iter().cloned());
        judgement
    }
}

impl ReviewSubject<'_> {
    /// Returns the scope of the review.
    pub fn scope(&self) -> ReviewScope {
        match self {
            Self::Event(_) => ReviewScope::Event,
            Self::Batch(_) => ReviewScope::Batch,
            Self::Trajectory(_) => ReviewScope::Trajectory,
        }
    }

    /// Returns the events that the model is shown.
    pub fn events(&self) -> Vec<&Event> {
        match self {
            Self::Event(subject) => vec![subject.event],
            Self::Batch(subjects) => subjects.iter().map(|subject| subject.event).collect(),
            Self::Trajectory(task) => task.steps.iter().map(|step| step.subject.event).collect(),
        }
    }

    /// Returns a batch of the events at these places; anything else whole.
    #[must_use]
    pub fn part(&self, places: &[usize]) -> Self {
        match self {
            Self::Batch(subjects) => Self::Batch(places.iter().filter_map(|at| subjects.get(*at)).copied().collect()),
            whole => whole.clone(),
        }
    }

    /// Returns the number of judgements.
    pub fn items(&self) -> usize {
        if let Self::Batch(subjects) = self { subjects.len() } else { 1 }
    }

    /// Writes the prompt; `nonce` draws 32 hex digits in lower case, at random.
    ///
    /// # Errors
    /// See [`PromptError`].
    pub fn prompt(&self, shadow: &Shadow, nonce: &mut impl FnMut() -> String) -> Result<Prompt, PromptError> {
        match self {
            Self::Event(subject) => prompt::prompt(shadow, subject, &nonce()),
            Self::Batch(subjects) => of_batch(shadow, subjects, nonce),
            Self::Trajectory(task) => of_task(shadow, task, &nonce()),
        }
    }

    /// Judges by the built-in checks alone.
    pub fn of_checks(&self, shadow: &Shadow) -> Vec<Judgement> {
        match self {
            Self::Event(subject) => vec![assess::of_checks(shadow, subject)],
            Self::Batch(subjects) => subjects.iter().map(|subject| assess::of_checks(shadow, subject)).collect(),
            Self::Trajectory(task) => {
                let subjects: Vec<EventInput> = task.steps.iter().map(|step| step.subject).collect();
                vec![task.with_coverage_notes(assess::of_checks_over(shadow, &subjects), false)]
            }
        }
    }

    /// Judges by the checks and a model's reply to `prompt`.
    pub fn of_reply(&self, shadow: &Shadow, prompt: &Prompt, reply: ModelReply) -> Vec<Judgement> {
        match self {
            Self::Event(subject) => vec![assess::of_reply(shadow, subject, prompt, reply)],
            Self::Batch(subjects) => assess::of_batch_reply(shadow, subjects, prompt, reply),
            Self::Trajectory(task) => {
                vec![task.with_coverage_notes(assess::of_reply_over(shadow, &task.subjects(), prompt, reply), true)]
            }
        }
    }
}

fn of_batch(
    shadow: &Shadow,
    subjects: &[EventInput],
    nonce: &mut impl FnMut() -> String,
) -> Result<Prompt, PromptError> {
    let (items, shown) = items(shadow, subjects, GROUP_FACTS, nonce)?;
    let user = render("batch", context! { count => items.len(), items })?;
    let schema = reply::schema(ReviewScope::Batch).clone();
    Ok(Prompt { system: system(shadow, ReviewScope::Batch)?, user, schema, shown })
}

fn of_task(shadow: &Shadow, task: &TaskInput, nonce: &str) -> Result<Prompt, PromptError> {
    let Some(first) = task.steps.first() else { return Err(PromptError::Empty) };
    let tag = tag(nonce, &first.subject)?;
    let all: Vec<Vec<EventSection>> = task.steps.iter().map(|step| sections(step.subject.event)).collect();
    all.iter().try_for_each(|sections| refuse_known(sections, nonce, &tag))?;
    let mut own = ShownItem::new(shadow, nonce);
    let parts = all.iter().zip(&task.steps).flat_map(|(sections, step)| {
        let part =
            |section| PromptSection { step: Some(step.number), section, hits: step.subject.hits, marks: &own.marks };
        sections.iter().map(part)
    });
    let parts: Vec<PromptSection> = parts.collect();
    let mut fitted = fit(&parts, shadow.max_input_chars as usize).into_iter();
    let (mut steps, mut left_out, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for (step, sections) in task.steps.iter().zip(&all) {
        let (texts, omitted): (Vec<Value>, Vec<_>) = fitted.by_ref().take(sections.len()).unzip();
        left_out.extend(omitted.into_iter().flatten());
        let facts = facts(step.subject.hits, GROUP_FACTS).into_iter();
        known.extend(facts.map(|fact| format!("step {}: {fact}", step.number)));
        steps.push(context! { number => step.number, sections => texts });
    }
    let more = known.len().saturating_sub(MAX_FACTS);
    known.truncate(MAX_FACTS);
    if more > 0 {
        known.push(format!("{} more", grouped(more)));
    }
    let trigger = task.steps.last().map_or("", |step| step.subject.trigger.as_str());
    let user = render(
        "trajectory",
        context! {
            fence => own.fence(&tag),
            trigger,
            total => grouped(task.total),
            shown => grouped(task.steps.len()),
            unseen => task.unseen(),
            facts => known,
            omitted => left_out.iter().map(ToString::to_string).collect::<Vec<_>>(),
            baseline => task.steps.last().and_then(|step| step.subject.baseline).map(baseline),
            steps,
        },
    )?;
    (own.omitted, own.unseen_steps) = (left_out, task.unseen());
    let schema = reply::schema(ReviewScope::Trajectory).clone();
    Ok(Prompt { system: system(shadow, ReviewScope::Trajectory)?, user, schema, shown: vec![own] })
}
