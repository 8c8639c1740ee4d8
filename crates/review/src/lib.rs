//! Judges one event, or several in one call ([`ReviewSubject`]): hits of the built-in checks and a model's reply become
//! an assessment.
//!
//! In: a shadow, a stored (redacted) event with its hits, later a model's reply. Out: a prompt, a judgement, a
//! finding's fingerprint. The crate calls no model, reads no clock and stores nothing: the caller asks the model
//! between [`prompt()`] and [`of_reply`].
//!
//! # How a judgement comes about
//! 1. [`of_checks`] grades the hits alone. This is the floor: no reply of a model goes below it. If no model is asked,
//!    it is the judgement, and a clean one is CHECKED: only a model can APPROVE.
//! 2. [`prompt()`] lays the event out as labelled blocks of data. Their tag is drawn from a nonce that the reviewed
//!    text cannot know, so no text can close its block; each line within has a mark of the call (`datamark`). A planted
//!    fault (`canary`) stands before the data, the nonce after it. Text that does not fit is left out in place and
//!    counted.
//! 3. [`of_reply`] reads the reply. A reply that was refused, cut off, unreadable, or came without the nonce or the
//!    planted fault is no verdict: the checks' assessment stands, and INCONCLUSIVE replaces an approval.
//! 4. [`compare`] compares the score with the agent's usual scores.
//!
//! # Weight of a model's verdict
//! The reviewed text may talk the model into anything, so each direction is guarded.
//! - **Down**: APPROVE stands only with a clean floor, everything shown, each quote found in the stored text, a score
//!   that does not contradict it, and no claim about events or steps that were not shown. Otherwise it is INCONCLUSIVE.
//! - **Up**: FLAG stands on a quote that is found in what the agent did. A fault that cannot be quoted (work off the
//!   task, or missing) rejects if a second, independent call agrees. A FLAG without either is asked for once more; then
//!   it counts as SUGGEST, unless the shadow says `on_unfounded: reject`. So a text that frames an innocent agent can
//!   cause a comment, but no rejection without grounds. [`Judgement::follow_up`] holds the question for the next call.
//! - A text that an agent was given, or a quote of it, is no fault of the agent's: SUGGEST at most, whether a check hit
//!   it or a model found it.
//! - A finding without a quote does not undo an approval by itself (missing work cannot be quoted). A finding whose
//!   quote is not in the text does: the reviewer saw something that is not there.

mod advice;
mod assess;
mod authorship;
mod baseline;
mod canary;
mod claims;
mod datamark;
mod evidence;
mod excerpt;
mod fingerprint;
mod group;
mod members;
mod prompt;
mod rejection;
mod reminders;
mod reply;
mod sections;
#[cfg(test)]
mod tests;

use std::fmt;

use umbra_domain::{Assessment, Event, EventId, Finding, Hit, Reviewer, Trigger, verdict::DecidedBy};

pub use assess::{of_checks, of_reply, score_stands};
pub use baseline::{FallRules, compare, score_of_checks};
pub use fingerprint::fingerprint;
pub use group::{ReviewSubject, StepInput, TaskInput};
pub use prompt::{
    OmittedText, PROMPT_VERSION, Prompt, PromptError, ShownItem, prompt, repair_prompt, worst_prompt_bytes,
};
pub use rejection::FollowUp;
pub use reminders::{JudgedFinding, Lesson, select_reminders};
pub use reply::CRITERIA;

/// Beginning of every block's tag. An incoming event that holds it is a copy of a reviewer's prompt, or poses as one.
pub const FENCE_MARK: &str = "umbra-fence";

/// One event to judge, with its context.
#[derive(Clone, Copy)]
pub struct EventInput<'a> {
    /// Id of the event.
    pub event_id: EventId,
    /// Event as stored: normalised and redacted.
    pub event: &'a Event,
    /// Trigger by which the shadow matched.
    pub trigger: Trigger,
    /// Hits of the built-in checks, those of the shadow's `checks` only.
    pub hits: &'a [Hit],
    /// Usual scores of this agent for this type of task, if known.
    pub baseline: Option<Baseline>,
    /// Reminders for the reviewer: lines from [`select_reminders`].
    pub memory: &'a [String],
}

/// An agent's earlier scores (0 to 100) for one type of task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Baseline {
    /// Mean score.
    pub mean: f64,
    /// Standard deviation of the scores.
    pub spread: f64,
    /// Number of scores.
    pub count: u32,
}

/// Reply of a model.
#[derive(Clone, Copy)]
pub struct ModelReply<'a> {
    /// Text of the reply.
    pub text: &'a str,
    /// True if the provider stopped the reply at the limit of output tokens.
    pub cut_off: bool,
    /// True if the provider or the model refused.
    pub refused: bool,
}

/// Conclusion of a review, with its grounds. `Debug` shows no text.
#[derive(Clone, PartialEq)]
pub struct Judgement {
    /// Assessment of the subject.
    pub assessment: Assessment,
    /// Score by the model, 0 to 100; `None` if no verdict of a model counts.
    pub score: Option<u8>,
    /// Recommendation, in one to three sentences.
    pub recommendation: String,
    /// Findings: those of the checks first, each part worst first.
    pub findings: Vec<Finding>,
    /// [`Reviewer::Model`] wherever a model was asked, even if its reply is no verdict.
    pub reviewer: Reviewer,
    /// Notes for people: why it is inconclusive, what the model was not shown, what of its reply does not count.
    pub notes: Vec<String>,
    /// Rule behind the assessment.
    pub decided_by: DecidedBy,
    /// Question for one more call, if any. Until it is settled, the assessment is what this reply alone allows.
    pub follow_up: Option<FollowUp>,
}

impl fmt::Debug for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judgement")
            .field("assessment", &self.assessment)
            .field("score", &self.score)
            .field("reviewer", &self.reviewer)
            .field("findings", &self.findings.len())
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}
