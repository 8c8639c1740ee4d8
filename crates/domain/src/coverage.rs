//! Coverage of a task: which of its steps a model judged, which the built-in checks alone looked at, and why.

use std::{collections::BTreeMap, fmt::Write};

use serde::Serialize;

use super::SkipReason;

/// Coverage of one step of a task, by all shadows together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub struct StepCoverage {
    /// True if a shadow watches the step, or a review of the whole task covers it.
    pub watched: bool,
    /// True if a model gave a verdict on the step, alone or as part of the whole task.
    pub judged: bool,
    /// True if the built-in checks looked at the step.
    pub checked: bool,
    /// True if a review of the step has not ended.
    pub open: bool,
    /// Reasons for which shadows skipped the step, each once.
    pub skipped: Vec<SkipReason>,
}

/// Coverage of a task's steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Coverage {
    /// Steps of the task.
    pub steps: u64,
    /// Steps on which a model gave a verdict, alone or as part of the whole task.
    pub judged: u64,
    /// Steps at which the built-in checks alone looked.
    pub checked: u64,
    /// Steps that no model judged and whose review has not ended.
    pub open: u64,
    /// Steps that no shadow watches.
    pub unwatched: u64,
    /// Steps that no model judged, by each reason for which a shadow skipped them.
    #[schema(value_type = std::collections::HashMap<String, u64>)]
    pub skipped: BTreeMap<&'static str, u64>,
    /// These counts in words.
    #[schema(example = "1 of 4 steps judged, 3 below the cost floor")]
    pub summary: String,
    /// Watched steps that neither a model nor the checks have looked at.
    #[serde(skip)]
    unseen: u64,
    /// Watched steps that no model judged, except those that a sample alone left to the checks.
    #[serde(skip)]
    unjudged: u64,
}

impl Coverage {
    /// Computes the coverage of steps, each with its number of repetitions.
    pub fn of(steps: impl IntoIterator<Item = (StepCoverage, u64)>) -> Self {
        let mut coverage = Self::default();
        for (step, n) in steps {
            coverage.add(&step, n);
        }
        coverage.summary = coverage.words();
        coverage
    }

    /// True if neither a model nor the checks looked at some watched step.
    pub fn is_unseen(&self) -> bool {
        self.unseen > 0
    }

    /// True if each watched step was judged by a model, or left to the checks by a sample alone.
    pub fn is_judged(&self) -> bool {
        self.unjudged == 0
    }

    fn add(&mut self, step: &StepCoverage, n: u64) {
        let StepCoverage { watched, judged, checked, open, skipped } = step;
        self.steps += n;
        if *judged {
            self.judged += n;
            return;
        }
        let sampled_out = *checked && !open && **skipped == [SkipReason::NotSampled];
        for (counter, counts) in [
            (&mut self.checked, *checked),
            (&mut self.open, *open),
            (&mut self.unwatched, !watched),
            (&mut self.unseen, *watched && !checked),
            (&mut self.unjudged, *watched && !sampled_out),
        ] {
            *counter += if counts { n } else { 0 };
        }
        for reason in skipped {
            *self.skipped.entry(reason.as_str()).or_default() += n;
        }
    }

    fn words(&self) -> String {
        let plural = if self.steps == 1 { "" } else { "s" };
        let mut words = format!("{} of {} step{plural} judged", self.judged, self.steps);
        let reasons = SkipReason::ALL
            .into_iter()
            .map(|reason| (self.skipped.get(reason.as_str()).copied().unwrap_or_default(), reason.in_words()));
        let others = [(self.open, "under review"), (self.unwatched, "not watched by a shadow")];
        for (n, what) in reasons.chain(others).filter(|(n, _)| *n > 0) {
            let _ = write!(words, ", {n} {what}");
        }
        if self.checked > 0 {
            let _ = write!(words, "; only the built-in checks examined {}", self.checked);
        }
        words
    }
}
