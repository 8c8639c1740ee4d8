//! Needs of the service: problems that keep it from judging or telling, with remedies for a person. The status, the
//! command line, the page and the alerts show this one list.

use serde::Serialize;
use utoipa::ToSchema;

use super::status::{CheckBacklog, ShadowStatus};
use umbra_domain::SkipReason;
use umbra_otel::content_switch;
use umbra_store::{
    otel::TelemetryStatus,
    status::LastHour,
    webhooks::{Addressee, OutboxStatus},
};

/// Fewest ended reviews of the last hour from which a shadow without a verdict has a need.
const FEWEST_REVIEWS: i64 = 3;

/// A problem that needs a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Need {
    /// `shadow`, `webhook`, `checks` or `telemetry`.
    pub kind: &'static str,
    /// Name of the shadow, the webhook or the service.
    pub name: String,
    /// Problem in words.
    pub problem: String,
    /// Remedy.
    pub remedy: &'static str,
}

impl Need {
    /// All kinds, for the metric.
    pub const KINDS: [&'static str; 4] = ["shadow", "webhook", "checks", "telemetry"];
}

/// Problem of a shadow, with its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowProblem {
    /// Problem in words.
    pub problem: String,
    /// Remedy.
    pub remedy: &'static str,
}

/// Returns the obstacle that keeps a shadow's events from being judged: a fault of its model, else a spent cap, else a
/// last hour without a verdict.
pub(super) fn shadow_problem(shadow: &ShadowStatus, hour: &LastHour) -> Option<ShadowProblem> {
    let of_model = "correct its model's name, address or key in the settings, or wait for its provider";
    if shadow.health != "ok" {
        let key = "give its model a key, or write model: checks in the shadows file if the built-in checks are enough";
        let remedy = if shadow.reviewer == "checks" { key } else { of_model };
        return Some(ShadowProblem { problem: shadow.health.clone(), remedy });
    }
    let skipped = |reason: SkipReason| shadow.skips_today.get(reason.as_str()).copied().unwrap_or_default();
    let reviews_spent = shadow.max_reviews_per_day.is_some_and(|cap| shadow.reviews_today >= i64::from(cap));
    for (reason, is_spent, cap) in [
        (SkipReason::DailyCap, reviews_spent, "reviews (max_reviews_per_day)"),
        (SkipReason::UsdCap, true, "money (max_usd_per_day)"),
        (SkipReason::TokenCap, true, "tokens (max_tokens_per_day)"),
    ] {
        if is_spent && skipped(reason) > 0 {
            let problem =
                format!("the cap of the day for {cap} is reached: {} events were not judged", skipped(reason));
            return Some(ShadowProblem { problem, remedy: "raise the cap or lower the sample in the shadows file" });
        }
    }
    if shadow.reviewer == "model" && hour.ended >= FEWEST_REVIEWS && hour.judged == 0 {
        let why = hour.failure.as_deref().unwrap_or("the model gave no verdict");
        let problem = format!("the model judged none of the {} reviews of the last hour: {why}", hour.ended);
        return Some(ShadowProblem { problem, remedy: of_model });
    }
    None
}

/// Lists the needs of these shadows, of webhooks, of the built-in checks, and of services that export telemetry.
pub(super) fn needs(
    shadows: &[ShadowStatus],
    checks: &CheckBacklog,
    telemetry: &[TelemetryStatus],
    (backlogs, gone): (Vec<OutboxStatus>, &[Addressee]),
) -> Vec<Need> {
    let of_shadows = shadows.iter().filter(|shadow| shadow.enabled).filter_map(|shadow| {
        let ShadowProblem { problem, remedy } = shadow.ailment.clone()?;
        Some(Need { kind: "shadow", name: shadow.name.clone(), problem, remedy })
    });
    let failing = backlogs.into_iter().filter_map(|backlog| {
        let failure = backlog.failure?;
        Some(Need {
            kind: "webhook",
            problem: format!("{} messages wait: {failure}", backlog.waiting),
            name: backlog.endpoint,
            remedy: "correct its address, or repair its receiver; the waiting messages are then sent",
        })
    });
    let gone = gone.iter().map(|gone| Need {
        kind: "webhook",
        name: gone.endpoint.clone(),
        problem: "the endpoint answered 410 Gone and receives no more messages".to_owned(),
        remedy: "remove the webhook from the settings, or send a dead letter again, which tries the endpoint again",
    });
    let shed = (checks.shed > 0).then(|| Need {
        kind: "checks",
        name: "looks".to_owned(),
        problem: format!("the built-in checks skipped {} events within a day because too many waited", checks.shed),
        remedy: "give the checks a larger share of the processor (looks in the settings), or add a server",
    });
    // Most calls of models come without content.
    let is_silent = |service: &&TelemetryStatus| {
        service.model_calls > 0 && service.without_content.saturating_mul(2) > service.model_calls
    };
    let silent = telemetry.iter().filter(is_silent).map(|service| Need {
        kind: "telemetry",
        name: service.service.clone(),
        problem: format!(
            "{} of {} calls of models came without content ({})",
            service.without_content, service.model_calls, service.scope
        ),
        remedy: content_switch(&service.scope),
    });
    let refused = telemetry.iter().filter(|service| service.rejected > 0).map(|service| Need {
        kind: "telemetry",
        name: service.service.clone(),
        problem: format!(
            "{} spans or logs were refused: {}",
            service.rejected,
            service.reason.as_deref().unwrap_or("no reason is known")
        ),
        remedy: "correct the exporter, or give it a key for its agents; exporters do not tell of this themselves",
    });
    of_shadows.chain(failing).chain(gone).chain(shed).chain(silent).chain(refused).collect()
}
