//! A review, from its lease to its findings: the built-in checks, then the model, then one transaction.
//!
//! Whatever becomes of the model, what the checks found stands. A failure is a row with a reason, never an approval.

use std::sync::Arc;

use jiff::SignedDuration;
use tokio::time::Instant;

use super::{
    Pipeline, Rules,
    call::{Asked, Conversation, Purse},
};
use crate::{
    checks,
    domain::{Assessment, EventId, FindingId, Mode, Redacted, ReviewId, Reviewer, Shadow, SkipReason, StoredEvent},
    llm::Readiness,
    review::{self, Judgement, Subject},
    store::{
        StoreError,
        events::received_at,
        jobs::Job,
        results::{NewFinding, NewResult},
    },
    telemetry::metric,
};

/// How long a review whose checks have found something waits for its model at a time.
const LONGEST_WITH_HITS: std::time::Duration = std::time::Duration::from_secs(10);
/// Between looks for a model that this process does not know, though the one that reserved the review did.
const NOT_HERE: std::time::Duration = std::time::Duration::from_secs(5);

/// Performs reviews.
#[derive(Clone)]
pub struct Worker {
    pipeline: Pipeline,
}

/// What a review's walk came to.
enum End {
    Result(Box<NewResult>),
    Later { delay: std::time::Duration, why: String, counted: bool },
    GivenUp { reason: SkipReason, why: String },
    Fenced,
}

impl Worker {
    /// A worker of this pipeline.
    pub fn new(pipeline: Pipeline) -> Self {
        Self { pipeline }
    }

    /// Performs one leased review to its end or its next wait. Failures are rows and log lines, not errors.
    pub async fn perform(self, job: Job, payload: Option<Vec<u8>>) {
        let started = Instant::now();
        let ended = match self.walk(&job, payload, started).await {
            Ok(ended) => ended,
            Err(error) => {
                // The lease stays with us until we leave or fall silent; putting the job back is the fast way.
                tracing::warn!(review = %job.review, %error, "a review could not go on");
                let delay = std::time::Duration::from_secs(2);
                drop(self.pipeline.store.put_back(job.review, job.lease, delay, &error.to_string(), true).await);
                "failed"
            }
        };
        metrics::counter!(metric::REVIEW_ENDS, "end" => ended).increment(1);
    }

    async fn walk(&self, job: &Job, payload: Option<Vec<u8>>, started: Instant) -> Result<&'static str, StoreError> {
        let Pipeline { store, rules, .. } = &self.pipeline;
        let rules = rules.load_full();
        let Some(shadow) = self.shadow(&rules, job).await? else {
            return self.give_up(job, "UTC", SkipReason::ShadowDisabled, "the shadow's version is gone").await;
        };
        let zone = &shadow.cost_control.time_zone;
        let payload = match payload {
            Some(payload) => Some(payload),
            None => store.payload(job.event).await?,
        };
        let Some(stored) = payload.and_then(|bytes| serde_json::from_slice::<StoredEvent>(&bytes).ok()) else {
            return self.give_up(job, zone, SkipReason::ProviderUnavailable, "the event is gone").await;
        };
        match self.judge(&rules, &shadow, job, &stored, started).await? {
            End::Result(result) => self.finish(job, &stored, &result, started).await,
            End::Later { delay, why, counted } => {
                let why = checks::redact(&why);
                store.put_back(job.review, job.lease, delay, why.as_str(), counted).await?;
                Ok("retried")
            }
            End::GivenUp { reason, why } => self.give_up(job, zone, reason, &why).await,
            End::Fenced => Ok("fenced"),
        }
    }

    /// The shadow as it was when the review was reserved.
    async fn shadow(&self, rules: &Rules, job: &Job) -> Result<Option<Arc<Shadow>>, StoreError> {
        match rules.pinned(job.version) {
            Some(shadow) => Ok(Some(shadow)),
            None => Ok(self.pipeline.store.version(job.version).await?.map(Arc::new)),
        }
    }

    async fn judge(
        &self,
        rules: &Arc<Rules>,
        shadow: &Shadow,
        job: &Job,
        stored: &StoredEvent,
        started: Instant,
    ) -> Result<End, StoreError> {
        let hits = checks::review(&stored.event, &stored.marks, &shadow.checks);
        let recalled = self.pipeline.recall(rules, shadow, &stored.event, &hits).await?;
        let subject = Subject {
            event_id: job.event,
            event: &stored.event,
            trigger: job.trigger,
            hits: &hits,
            baseline: recalled.baseline,
            memory: &recalled.memory,
        };
        let of_checks = || review::of_checks(shadow, &subject);
        let result = |mut judgement, model: Option<&str>, tokens| {
            review::compare(shadow, recalled.baseline, &self.pipeline.habits.fall, &mut judgement);
            End::Result(Box::new(self.result(judgement, model, tokens, started)))
        };
        if rules.gateway.spec(&shadow.model).is_none() && self.age(job.review) < self.pipeline.patience.age {
            let why = format!("the model {} is not declared in the process that took the review", shadow.model);
            return Ok(End::Later { delay: NOT_HERE, why, counted: false });
        }
        if let Readiness::ChecksOnly { why } = rules.gateway.reviewer(&shadow.model) {
            let mut judgement = of_checks();
            judgement.notes.push(format!("Reviewed by the built-in checks alone: {why}."));
            return Ok(result(judgement, None, (0, 0)));
        }
        let asked = if job.lease.attempt > self.pipeline.patience.attempts {
            Asked::Never {
                reason: SkipReason::ProviderUnavailable,
                why: "it was begun too often without an end".into(),
            }
        } else {
            let (store, gateway) = (&self.pipeline.store, &*rules.gateway);
            Conversation { store, gateway, shadow, purse: Purse::Review(job) }.ask(&subject).await?
        };
        Ok(match asked {
            Asked::Judged(judgement, tokens) => result(judgement, Some(&shadow.model), tokens),
            Asked::Later { delay, why, counted } => {
                let judgement = of_checks();
                // What the checks found is not kept back for long by a model that may add to it.
                let stands = judgement.assessment != Assessment::Approve && delay > LONGEST_WITH_HITS;
                // Nor does anything wait for a moment that lies behind the end of patience.
                let back = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
                if stands || self.age(job.review).saturating_add(back) >= self.pipeline.patience.age {
                    self.without_model(judgement, SkipReason::ProviderUnavailable, why, started)
                } else {
                    End::Later { delay, why, counted }
                }
            }
            Asked::Never { reason, why } => self.without_model(of_checks(), reason, why, started),
            Asked::Fenced => End::Fenced,
        })
    }

    /// What the checks found stands without the model; where they found nothing, nothing is concluded.
    fn without_model(&self, mut judgement: Judgement, reason: SkipReason, why: String, started: Instant) -> End {
        if judgement.assessment == Assessment::Approve {
            return End::GivenUp { reason, why };
        }
        judgement.notes.push(format!("The model gave no opinion: {why}."));
        End::Result(Box::new(self.result(judgement, None, (0, 0), started)))
    }

    fn result(&self, judgement: Judgement, model: Option<&str>, tokens: (u64, u64), started: Instant) -> NewResult {
        // What a model says may repeat what it saw; what it saw was redacted, and so is what it says.
        let clean = |text: &str| checks::redact(text).as_str().to_owned();
        let findings = judgement.findings.into_iter().map(|mut finding| {
            finding.description = clean(&finding.description);
            let fingerprint = review::fingerprint(&finding);
            NewFinding { id: FindingId(self.pipeline.clock.new_id()), finding, fingerprint }
        });
        NewResult {
            assessment: judgement.assessment,
            score: judgement.score,
            recommendation: clean(&judgement.recommendation),
            reviewer: if model.is_some() { judgement.reviewer } else { Reviewer::Checks },
            model: model.map(ToOwned::to_owned),
            tokens,
            latency_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            notes: judgement.notes.iter().map(|note| clean(note)).collect(),
            findings: findings.collect(),
        }
    }

    async fn finish(
        &self,
        job: &Job,
        stored: &StoredEvent,
        result: &NewResult,
        started: Instant,
    ) -> Result<&'static str, StoreError> {
        let task_type = stored.event.task_type.as_deref();
        let Some((seq, _)) = self.pipeline.store.finish(job.review, job.lease, task_type, result).await? else {
            tracing::info!(review = %job.review, "the lease was lost meanwhile; the result is dropped");
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
                "source" => if finding.source == crate::domain::Source::Check { "check" } else { "model" })
            .increment(1);
        }
        self.pipeline.ended(job.event, job.priority == Mode::Active.priority()).await;
        Ok("done")
    }

    async fn give_up(&self, job: &Job, zone: &str, reason: SkipReason, why: &str) -> Result<&'static str, StoreError> {
        let why: Redacted = checks::redact(why);
        self.pipeline.store.give_up(job.review, job.lease, reason, why.as_str(), zone).await?;
        // The unit may have returned: a cap that was spent a moment ago may not be any more.
        self.pipeline.rules.load().memory.forget();
        self.pipeline.ended(job.event, job.priority == Mode::Active.priority()).await;
        Ok("given_up")
    }

    fn age(&self, review: ReviewId) -> SignedDuration {
        self.pipeline.clock.now().duration_since(received_at(EventId(review.0)))
    }
}
