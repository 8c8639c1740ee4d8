//! Needs of the service: what keeps it from judging or telling, with what a person can do about it. One list, which the
//! status, the command line, the page and the alerts show.

use serde::Serialize;
use utoipa::ToSchema;

use super::status::{CheckBacklog, ShadowStatus};
use umbra_domain::SkipReason;
use umbra_store::{
    status::LastHour,
    webhooks::{Addressee, Backlog},
};

/// Fewest reviews of the last hour from which it is concluded that none is judged.
const FEWEST_REVIEWS: i64 = 3;

/// Words of a health that tells of a spent cap.
const ARE_SPENT: &str = " are spent: ";

/// Something that a person has to see to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Need {
    /// `shadow`, `webhook` or `checks`.
    pub kind: &'static str,
    /// Name of the shadow or the webhook.
    pub name: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: &'static str,
}

impl Need {
    /// Every kind, for the metric.
    pub const KINDS: [&'static str; 3] = ["shadow", "webhook", "checks"];
}

/// The health of a shadow in words, whose model could be asked: `ok`, or what keeps its events from being judged.
pub(super) fn health(shadow: &ShadowStatus, hour: &LastHour) -> String {
    let skipped = |reason: SkipReason| shadow.skips_today.get(reason.as_str()).copied().unwrap_or_default();
    for (reason, cap) in [
        (SkipReason::DailyCap, "reviews (max_reviews_per_day)"),
        (SkipReason::UsdCap, "money (max_usd_per_day)"),
        (SkipReason::TokenCap, "tokens (max_tokens_per_day)"),
    ] {
        let spent = reason != SkipReason::DailyCap
            || shadow.max_reviews_per_day.is_some_and(|cap| shadow.reviews_today >= i64::from(cap));
        if spent && skipped(reason) > 0 {
            return format!("the day's {cap}{ARE_SPENT}{} events were not judged", skipped(reason));
        }
    }
    if shadow.reviewer == "model" && hour.ended >= FEWEST_REVIEWS && hour.judged == 0 {
        let why = hour.failure.as_deref().unwrap_or("its model gave no verdict");
        return format!("none of its {} reviews of the last hour was judged: {why}", hour.ended);
    }
    "ok".to_owned()
}

/// The needs of these shadows, of webhooks, and of the built-in checks.
pub(super) fn needs(
    shadows: &[ShadowStatus],
    checks: &CheckBacklog,
    (backlogs, gone): (Vec<Backlog>, &[Addressee]),
) -> Vec<Need> {
    let ailing = shadows.iter().filter(|shadow| shadow.enabled && shadow.health != "ok");
    let of_shadows = ailing.map(|shadow| {
        let health = shadow.health.clone();
        let (problem, remedy) = if health.contains(ARE_SPENT) {
            (health, "raise the cap or lower the sample in the shadows file")
        } else if shadow.reviewer == "checks" {
            let alone = format!("the built-in checks review alone: {health}");
            (alone, "give its model a key, or say model: checks in the shadows file where they are enough")
        } else {
            (health, "correct its model's name, address or key in the settings, or wait for its provider")
        };
        Need { kind: "shadow", name: shadow.name.clone(), problem, remedy }
    });
    let failing = backlogs.into_iter().filter_map(|backlog| {
        let failure = backlog.failure?;
        Some(Need {
            kind: "webhook",
            problem: format!("{} messages wait: {failure}", backlog.waiting),
            name: backlog.endpoint,
            remedy: "correct its address or its receiver; what waits is sent then",
        })
    });
    let gone = gone.iter().map(|gone| Need {
        kind: "webhook",
        name: gone.endpoint.clone(),
        problem: "it answered 410, and is sent nothing more".to_owned(),
        remedy: "take it out of the settings, or send a dead letter again, which asks it again",
    });
    let shed = (checks.shed > 0).then(|| Need {
        kind: "checks",
        name: "looks".to_owned(),
        problem: format!("the built-in checks passed over {} events within a day: too many waited", checks.shed),
        remedy: "give them a larger share of the processor (looks in the settings), or add a server",
    });
    of_shadows.chain(failing).chain(gone).chain(shed).collect()
}
