//! A review, from its lease to its findings: the built-in checks, then the model, then one transaction.
//!
//! The checks' findings stand, whatever becomes of the model. A failure is a row with a reason, never an approval.

use std::sync::Arc;

use jiff::SignedDuration;
use tokio::time::Instant;

use crate::{
    flows::{
        active_configuration::ActiveConfiguration,
        reviews::{
            Reviews,
            call_budget::CallBudget,
            conversation::{Conversation, ModelOutcome},
            redacted, retry_while_unavailable,
            review_input::ReviewInput,
        },
    },
    telemetry::metric,
};
use umbra_config::Settings;
use umbra_domain::{
    Assessment, FindingId, Mode, Redacted, ReviewScope, Reviewer, Shadow, SkipReason, verdict::DecidedBy,
};
use umbra_review::{FallRules, Judgement};
use umbra_store::{
    StoreError,
    jobs::Job,
    results::{NewFinding, NewPart, NewResult},
};

/// Longest single wait for the model of a review whose checks have found something.
const LONGEST_WITH_HITS: std::time::Duration = std::time::Duration::from_secs(10);
/// Pause of a review whose model this process does not know, unlike the process that reserved the review.
const NOT_HERE: std::time::Duration = std::time::Duration::from_secs(5);

/// Outcome of one attempt at a review.
type ReviewOutcome = ModelOutcome<Box<NewResult>>;

impl Reviews {
    /// Performs one leased review to its end or its next wait. Failures are rows and log lines, not errors.
    pub async fn perform(self, job: Job, payload: Option<Vec<u8>>) {
        let started = Instant::now();
        let ended = match self.walk(&job, payload, started).await {
            Ok(ended) => ended,
            Err(error) => {
                // The lease is ours until this process leaves or falls silent; putting the job back is faster.
                tracing::warn!(review = %job.review, %error, "a review could not continue");
                let delay = std::time::Duration::from_secs(2);
                let why = error.to_string();
                drop(
                    retry_while_unavailable(|| self.store.queue().put_back(job.review, job.lease, delay, &why, true))
                        .await,
                );
                "failed"
            }
        };
        metrics::counter!(metric::REVIEW_ENDS, "end" => ended).increment(1);
    }

    async fn walk(&self, job: &Job, payload: Option<Vec<u8>>, started: Instant) -> Result<&'static str, StoreError> {
        let (store, rules) = (&self.store, self.rules.load_full());
        let Some(shadow) = self.verdicts.shadow_of(job.version).await? else {
            return self.give_up(job, "UTC", SkipReason::ShadowDisabled, "the shadow's version no longer exists").await;
        };
        let zone = &shadow.cost_control.time_zone;
        let Some(mut dossier) = ReviewInput::load(&self.store, &self.installation, &shadow, job, payload).await? else {
            return self.give_up(job, zone, SkipReason::ProviderUnavailable, "the event no longer exists").await;
        };
        dossier.remember(self, &rules, &shadow).await?;
        if job.priority == Mode::Active.priority() && job.lease.attempt <= 1 {
            // A rejection by the checks waits for no model.
            for event in dossier.rejected(&shadow) {
                self.verdicts.ended(event, true).await;
            }
        }
        match self.judge(&rules, &shadow, job, &dossier, started).await? {
            ReviewOutcome::Judged(result) => self.finish(job, &dossier, &result, started).await,
            ReviewOutcome::Retry { delay, why, counted } => {
                let why = umbra_checks::redact(&why);
                store.queue().put_back(job.review, job.lease, delay, why.as_str(), counted).await?;
                Ok("retried")
            }
            ReviewOutcome::GiveUp { reason, why } => self.give_up(job, zone, reason, &why).await,
            ReviewOutcome::LeaseLost => Ok("fenced"),
        }
    }

    async fn judge(
        &self,
        rules: &Arc<ActiveConfiguration>,
        shadow: &Shadow,
        job: &Job,
        dossier: &ReviewInput,
        started: Instant,
    ) -> Result<ReviewOutcome, StoreError> {
        let Settings { queue, baseline, .. } = &*self.settings;
        let fall = FallRules { min_scores: baseline.min_scores, spreads: baseline.spreads };
        let give_up_after = SignedDuration::try_from(queue.give_up_after).unwrap_or(SignedDuration::MAX);
        let matter = dossier.review_subject();
        let of_checks = || matter.of_checks(shadow);
        let result = |mut judgements: Vec<Judgement>, model: Option<&str>, tokens| {
            for ((event, usual), judgement) in dossier.usual().zip(&mut judgements) {
                umbra_review::compare(shadow, event, usual, &fall, judgement);
            }
            ReviewOutcome::Judged(Box::new(self.result(dossier, judgements, model, tokens, started)))
        };
        if dossier.own_traffic {
            let mut judgements = of_checks();
            for judgement in &mut judgements {
                judgement.notes.push("The event looks like Umbra's own traffic: no model was called.".to_owned());
            }
            return Ok(result(judgements, None, (0, 0)));
        }
        if rules.gateway.spec(&shadow.model).is_none() && self.age(job) < give_up_after {
            let why = format!(
                "the model {} is not declared in the settings of the server that took the review",
                shadow.model
            );
            return Ok(ReviewOutcome::Retry { delay: NOT_HERE, why, counted: false });
        }
        if let Err(why) = rules.gateway.reviewer(&shadow.model) {
            let mut judgements = of_checks();
            for judgement in &mut judgements {
                judgement.notes.push(format!("Reviewed only by the built-in checks: {why}."));
            }
            return Ok(result(judgements, None, (0, 0)));
        }
        let asked = if i64::from(job.lease.attempt) > i64::from(queue.max_attempts) {
            ModelOutcome::GiveUp {
                reason: SkipReason::ProviderUnavailable,
                why: "the review was started too often without finishing".into(),
            }
        } else {
            let (store, gateway) = (&self.store, &*rules.gateway);
            let (budget, installation) = (CallBudget::Review(store, job), Some(&self.installation));
            Conversation { gateway, shadow, budget, installation }.ask(&matter).await?
        };
        let without_model = |judgements, reason, why: String| match opinions(judgements, &why) {
            Some(judgements) => result(judgements, None, (0, 0)),
            None => ReviewOutcome::GiveUp { reason, why },
        };
        Ok(match asked {
            ModelOutcome::Judged((judgements, tokens)) => result(judgements, Some(&shadow.model), tokens),
            ModelOutcome::Retry { delay, why, counted } => {
                let judgements = of_checks();
                // A model that may add to the checks' findings does not hold them back for long.
                let found = judgements.iter().any(|judgement| !judgement.assessment.is_clean());
                // Nor does a review wait for a moment after it has to give up.
                let back = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
                let late = self.age(job).saturating_add(back) >= give_up_after;
                if found && delay > LONGEST_WITH_HITS || late {
                    without_model(judgements, SkipReason::ProviderUnavailable, why)
                } else {
                    ReviewOutcome::Retry { delay, why, counted }
                }
            }
            ModelOutcome::GiveUp { reason, why } => without_model(of_checks(), reason, why),
            ModelOutcome::LeaseLost => ReviewOutcome::LeaseLost,
        })
    }

    /// Builds the result of a review; its assessment is the strictest of its parts.
    fn result(
        &self,
        dossier: &ReviewInput,
        judgements: Vec<Judgement>,
        model: Option<&str>,
        tokens: (u64, u64),
        started: Instant,
    ) -> NewResult {
        let mut parts = Vec::with_capacity(judgements.len());
        let mut findings = Vec::new();
        let mut reviewer = Reviewer::Checks;
        for (event, judgement) in dossier.events().zip(judgements.into_iter().map(redacted)) {
            let Judgement { assessment, decided_by, score, recommendation, notes, .. } = judgement;
            reviewer = judgement.reviewer;
            for finding in judgement.findings {
                let fingerprint = umbra_review::fingerprint(&finding);
                let Some(place) = dossier.place(finding.event_id) else { continue };
                let (id, recommendation) = (FindingId(self.clock.new_id()), recommendation.clone());
                findings.push(NewFinding { id, finding, place, recommendation, fingerprint });
            }
            parts.push(NewPart { event, assessment, decided_by, score, recommendation, notes });
        }
        let assessment = parts.iter().map(|part| part.assessment).max().unwrap_or(Assessment::Inconclusive);
        let strictest = parts.iter().find(|part| part.assessment == assessment);
        NewResult {
            assessment,
            decided_by: strictest.map_or(DecidedBy::Assessment, |part| part.decided_by),
            score: parts.iter().filter_map(|part| part.score).min(),
            recommendation: strictest.map(|part| part.recommendation.clone()).unwrap_or_default(),
            reviewer: if model.is_some() { reviewer } else { Reviewer::Checks },
            model: model.map(ToOwned::to_owned),
            prompt_version: model.map(|_| umbra_review::PROMPT_VERSION),
            tokens,
            latency_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            notes: notes_of(&parts),
            findings,
            parts: if dossier.scope == ReviewScope::Batch { parts } else { Vec::new() },
        }
    }

    async fn finish(
        &self,
        job: &Job,
        dossier: &ReviewInput,
        result: &NewResult,
        started: Instant,
    ) -> Result<&'static str, StoreError> {
        let finished = retry_while_unavailable(|| self.store.reviews().finish(job.review, job.lease, result)).await?;
        let Some((seq, _)) = finished else {
            tracing::info!(review = %job.review, "the lease of a review was lost; its result is dropped");
            return Ok("fenced");
        };
        tracing::debug!(review = %job.review, seq, assessment = result.assessment.as_str(), "reviewed");
        metrics::histogram!(metric::REVIEW_SECONDS).record(started.elapsed().as_secs_f64());
        metrics::counter!(metric::REVIEWS, "shadow" => job.shadow.clone(),
            "assessment" => result.assessment.as_str(), "reviewer" => result.reviewer.as_str())
        .increment(1);
        for NewFinding { finding, .. } in &result.findings {
            metrics::counter!(metric::FINDINGS, "shadow" => job.shadow.clone(),
                "severity" => finding.severity.as_str(),
                "source" => if finding.source == umbra_domain::FindingSource::Check { "check" } else { "model" })
            .increment(1);
        }
        let is_active = job.priority == Mode::Active.priority();
        self.verdicts.ended(job.event, is_active).await;
        for other in dossier.held_by().filter(|event| *event != job.event) {
            self.verdicts.ended(other, is_active).await;
        }
        Ok("done")
    }

    async fn give_up(&self, job: &Job, zone: &str, reason: SkipReason, why: &str) -> Result<&'static str, StoreError> {
        let why: Redacted = umbra_checks::redact(why);
        retry_while_unavailable(|| self.store.queue().give_up(job.review, job.lease, reason, why.as_str(), zone))
            .await?;
        // Unit and cooldown were returned, so remembered refusals may not hold any more.
        self.rules.load().memory.forget();
        self.verdicts.ended(job.event, job.priority == Mode::Active.priority()).await;
        Ok("given_up")
    }

    /// Returns the time since the review was started; waiting in a batch or a queue does not count.
    fn age(&self, job: &Job) -> SignedDuration {
        self.clock.now().duration_since(job.started_at)
    }
}

/// Returns the judgements of the checks for a review without its model: clean ones become inconclusive. `None` if all
/// are clean.
fn opinions(mut judgements: Vec<Judgement>, why: &str) -> Option<Vec<Judgement>> {
    if judgements.iter().all(|judgement| judgement.assessment.is_clean()) {
        return None;
    }
    for judgement in &mut judgements {
        judgement.assessment = judgement.assessment.max(Assessment::Inconclusive);
        judgement.notes.push(format!("The model gave no verdict: {why}."));
    }
    Some(judgements)
}

/// Collects the notes of all parts, each once; a note that not all parts share names its event.
fn notes_of(parts: &[NewPart]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        for note in &part.notes {
            let shared = parts.iter().all(|other| other.notes.contains(note));
            let note = if shared { note.clone() } else { format!("Event {} of {}: {note}", index + 1, parts.len()) };
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}
