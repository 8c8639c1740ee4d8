//! Judges one event, or several in one call ([`Matter`]): what the built-in checks hit and what a model replies become an assessment.
//!
//! In: a shadow, a stored (redacted) event with its hits, later a model's reply. Out: a prompt, a judgement, a
//! finding's fingerprint. It never calls a model, reads no clock and stores nothing: the pipeline calls the model
//! between [`prompt()`] and [`of_reply`].
//!
//! # How a judgement comes about
//! 1. [`of_checks`] grades the hits alone. This is the floor: nothing that a model says goes below it. Where no model is
//!    asked it is the judgement, and a clean one is CHECKED: APPROVE is a model's word.
//! 2. [`prompt()`] lays the event out as labelled blocks of data. Their tag is drawn from a nonce that the reviewed
//!    text cannot know, so no text can close its block; each line within has a mark of the call (`datamark`). Before the
//!    data stands a planted fault (`canary`), after it the nonce. What does not fit is left out in place and counted.
//! 3. [`of_reply`] reads the reply. A reply that was refused, cut off, unreadable, or came without the nonce or
//!    the planted fault is no verdict: the checks' assessment stands, and INCONCLUSIVE replaces an approval.
//!
//! 4. [`compare`] holds the score against what the agent usually reaches.
//!
//! # What a model's word is worth
//! The reviewed text may talk the model into anything, so each direction has its lock.
//! - **Down**: APPROVE stands only with a clean floor, everything shown, each quote found in the stored text, a score
//!   that does not contradict it, and no word of events or steps that were not shown. Otherwise it becomes INCONCLUSIVE.
//! - **Up**: FLAG stands on a quote that is found in what the agent did. What cannot be quoted, off the task or missing,
//!   rejects where a second call agrees that knows nothing of the first. A FLAG without either is asked for once more;
//!   then it counts as SUGGEST, unless the shadow says `on_unfounded: reject`. So text that frames an innocent agent can
//!   cause a comment, not a rejection out of thin air. [`Judgement::follow_up`] says what is to be asked.
//! - What an agent was given, or quotes of it, is no fault of the agent's: SUGGEST at most, be it hit by a check or found
//!   by a model.
//! - A finding without a quote does not undo an approval by itself (what is missing cannot be quoted). One whose quote is
//!   not in the text does: the reviewer saw something that is not there.

mod advice;
mod assess;
mod baseline;
mod canary;
mod claims;
mod datamark;
mod evidence;
mod excerpt;
mod fingerprint;
mod given;
mod group;
mod members;
mod memory;
mod prompt;
mod rejection;
mod reply;
mod sections;
#[cfg(test)]
mod tests;

use std::fmt;

use umbra_domain::{Assessment, Event, EventId, Finding, Hit, Reviewer, Trigger, verdict::DecidedBy};

pub use assess::{of_checks, of_reply, score_stands};
pub use baseline::{FallRules, compare, score_of_checks};
pub use fingerprint::fingerprint;
pub use group::{Matter, Step, Trajectory};
pub use memory::{Case, Lesson, recall};
pub use prompt::{Omission, PROMPT_VERSION, Prompt, PromptError, Shown, prompt, repair_prompt, worst_prompt_bytes};
pub use rejection::FollowUp;
pub use reply::CRITERIA;

/// How every block's tag begins. An incoming event that holds it is a copy of a reviewer's prompt, or poses as one.
pub const FENCE_MARK: &str = "umbra-fence";

/// What is to be judged.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The event's id.
    pub event_id: EventId,
    /// The event as it is stored: normalised and redacted.
    pub event: &'a Event,
    /// The trigger by which the shadow matched.
    pub trigger: Trigger,
    /// What the built-in checks hit, those of the shadow's `checks` only.
    pub hits: &'a [Hit],
    /// What this agent usually scores for this type of task, if that is known.
    pub baseline: Option<Baseline>,
    /// What the reviewer is reminded of: lines from [`recall`].
    pub memory: &'a [String],
}

/// An agent's earlier scores (0 to 100) for one type of task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Baseline {
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub spread: f64,
    /// How many there were.
    pub count: u32,
}

/// What came back from a model.
#[derive(Clone, Copy)]
pub struct ModelReply<'a> {
    /// The reply's text.
    pub text: &'a str,
    /// Whether the provider stopped it at the limit of output tokens.
    pub cut_off: bool,
    /// Whether the provider or the model refused.
    pub refused: bool,
}

/// What a review concludes, and on what grounds. `Debug` shows no text.
#[derive(Clone, PartialEq)]
pub struct Judgement {
    /// The conclusion.
    pub assessment: Assessment,
    /// The model's score, 0 to 100; `None` where no verdict of a model counts.
    pub score: Option<u8>,
    /// What to do, in one to three sentences.
    pub recommendation: String,
    /// What was found: the checks' findings first, each part worst first.
    pub findings: Vec<Finding>,
    /// [`Reviewer::Model`] wherever a model was asked, even when its reply is no verdict.
    pub reviewer: Reviewer,
    /// For people: why it is inconclusive, what the model was not shown, what of its reply does not count.
    pub notes: Vec<String>,
    /// The rule behind the assessment.
    pub decided_by: DecidedBy,
    /// Question that one more call is to settle, once. Until then the assessment is what this reply alone allows.
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
