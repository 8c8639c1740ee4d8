//! `cost_control`: the spending limits of a shadow.

use std::time::Duration;

use super::super::{
    keys::{Keys, Record},
    number::{Decimal, Time, decimal, whole},
    shape::{Flag, OffShape},
    text::{Text, text},
};
use umbra_domain::{BatchRules, CostControl, Mode, ModelSpec, NanoUsd, Provider, nearest::nearest};

/// Time between reviews of the same shadow, agent and trigger, unless the shadow says otherwise or is active.
const DEFAULT_COOLDOWN: Duration = Duration::from_hours(2);
/// Advice where a cap is out of bounds, since people write 0 for "never".
const SWITCH_OFF: &str = "; to switch the shadow off, write `enabled: false`";

/// Declares `cost_control` within a shadow of this mode and model. Without the key every limit is at its default.
pub(super) fn declare(keys: &mut Keys<'_>, mode: Option<Mode>, model: Option<&ModelSpec>) -> CostControl {
    let about = "Spending limits. Caps are exact, over all replicas.";
    let default = || CostControl {
        cooldown: if mode == Some(Mode::Active) { Duration::ZERO } else { DEFAULT_COOLDOWN },
        ..CostControl::unlimited()
    };
    let read = |keys: &mut Keys<'_>| Some(record(keys, default(), mode, model));
    keys.optional("cost_control", about, Record(read)).unwrap_or_else(default)
}

fn record(keys: &mut Keys<'_>, default: CostControl, mode: Option<Mode>, model: Option<&ModelSpec>) -> CostControl {
    let batch = keys
        .optional(
            "batch",
            "Bounds of a batch: small events of one agent are collected and share one review; off unless set. Each \
             event is judged by itself; together they cost one review.",
            OffShape(Record(|keys: &mut Keys<'_>| Some(batch(keys)))),
        )
        .flatten();
    let cap = || whole(1..=1_000_000).hint(SWITCH_OFF);
    let cost = CostControl {
        max_reviews_per_day: keys.optional("max_reviews_per_day", "Most reviews a day.", cap()),
        max_reviews_per_target_per_day: keys.optional(
            "max_reviews_per_target_per_day",
            "Most reviews a day of each agent.",
            cap(),
        ),
        max_usd_per_day: keys.optional(
            "max_usd_per_day",
            "Most USD a day. The worst case is reserved before each call and settled after it.",
            // The minimum is the cost of the cheapest call: a thousandth of a cent.
            decimal("an amount in USD", 0.000_01..=1_000_000.0, NanoUsd::from_usd),
        ),
        max_tokens_per_day: keys.optional(
            "max_tokens_per_day",
            "Most tokens a day, read and written.",
            whole(1..=10_000_000_000).hint(SWITCH_OFF),
        ),
        skip_if_task_cost_below: keys.optional(
            "skip_if_task_cost_below",
            "Cost of a task, in USD, below which no event of it is reviewed. An unknown cost passes.",
            usd(),
        ),
        cooldown: keys
            .optional(
                "cooldown",
                "Time between reviews of the same shadow, agent and trigger (2h unless set; 0s for active and with \
                 batch).",
                Time(Duration::ZERO..=Duration::from_hours(720)),
            )
            .unwrap_or(if batch.is_some() { Duration::ZERO } else { default.cooldown }),
        sample_ppm: keys
            .optional("sample", "Share of matching events that are reviewed, 0 to 1 (1 unless set).", share())
            .unwrap_or(default.sample_ppm),
        time_zone: keys
            .optional("time_zone", "Time zone of the calendar day: an IANA name (UTC unless set).", time_zone())
            .unwrap_or(default.time_zone),
        allow_costly_model: keys
            .optional("allow_costly_model", "True to lift the mandate of cheap models (false unless set).", Flag)
            .unwrap_or(default.allow_costly_model),
        batch,
    };
    if batch.is_some() && mode == Some(Mode::Active) {
        keys.fault(
            "batch",
            "an active shadow cannot batch: its verdict cannot wait for other events",
            "leave batch out, or write mode: review",
        );
    }
    let unpriced = model.filter(|spec| spec.prices.is_none() && spec.provider != Provider::Checks);
    if let (Some(spec), true) = (unpriced, keys.has("max_usd_per_day")) {
        keys.fault(
            "max_usd_per_day",
            format!("the model `{}` has no prices, so max_usd_per_day cannot be kept", spec.alias),
            "declare input_usd_per_mtok and output_usd_per_mtok in `models`, or set a cap of tokens or reviews",
        );
    }
    cost
}

/// Declares the bounds of a batch.
fn batch(keys: &mut Keys<'_>) -> BatchRules {
    let max_events = keys.optional("max_events", "Most events in one review (8 unless set).", whole(2..=50));
    let max_chars = keys.optional(
        "max_chars",
        "Most characters of a batch's texts (12000 unless set). An event with more characters is reviewed by itself.",
        whole(100..=200_000),
    );
    let max_wait = keys.optional(
        "max_wait",
        "Longest time that the first event of a batch waits for others (30s unless set).",
        Time(Duration::from_millis(100)..=Duration::from_hours(24)),
    );
    BatchRules {
        max_events: max_events.unwrap_or(8),
        max_chars: max_chars.unwrap_or(12_000),
        max_wait: max_wait.unwrap_or(Duration::from_secs(30)),
    }
}

/// Shape of an amount of money, 0 or more.
pub(super) fn usd() -> Decimal<NanoUsd> {
    decimal("an amount in USD", 0.0..=1_000_000.0, NanoUsd::from_usd)
}

/// Shape of a share, read in millionths.
fn share() -> Decimal<u32> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1,000,000 by the bounds")]
    decimal("a share", 0.0..=1.0, |share| {
        let ppm = (share * 1e6).round() as u32;
        // A share above 0 that rounds to 0 is refused.
        (ppm > 0 || share == 0.0).then_some(ppm)
    })
}

/// Shape of the name of a time zone, as the database of zones spells it.
fn time_zone() -> Text<String> {
    text("the name of a time zone", 64, |name| {
        let zones = jiff::tz::db();
        if let Ok(zone) = zones.get(name) {
            return Ok(zone.iana_name().unwrap_or(name).to_owned());
        }
        let known: Vec<String> = zones.available().map(|zone| zone.as_str().to_owned()).collect();
        Err(match nearest(name, known.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "write an IANA name such as Europe/Berlin, America/New_York or UTC".to_owned(),
        })
    })
}
