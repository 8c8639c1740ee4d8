//! One shadow: its keys, and the relations between them and its model.

use std::{collections::BTreeSet, time::Duration};

use super::{
    super::{
        keys::{Keys, Record, Shape},
        number::{Time, whole},
        shape::{Flag, List, word},
        text::{free_text, host_pattern, printable},
    },
    Models, NAME, cost, watch,
};
use umbra_domain::{
    CheckName, Datamark, Mode, Provider, ReviewScope, Severity, Shadow, Trigger, WatchRule,
    verdict::{FallbackVerdict, UnfoundedFlag, VerdictRules},
};

/// Most characters of a shadow's criteria in all.
const MAX_CRITERIA_CHARS: usize = 4_000;
/// Most hosts that a shadow allows.
const MAX_ALLOWED_HOSTS: usize = 200;
/// Most watch rules of a shadow.
const MAX_WATCH_RULES: usize = 100;
/// Characters of an event that a model is shown, unless the shadow says otherwise.
const DEFAULT_INPUT_CHARS: u32 = 24_000;

/// Declares a shadow's keys.
pub(super) fn declare(keys: &mut Keys<'_>, models: &Models<'_>) -> Option<Shadow> {
    let name = keys.required(NAME, "Unique name of the shadow.", printable("a shadow's name", 100));
    let model = keys.required(
        "model",
        "The model that reviews: an alias from the settings' `models`, or a built-in one.",
        printable("a model's alias", 64),
    );
    let mode = keys.required(
        "mode",
        "passive: kept out of the feed. review: comments that people and orchestrators see. active: may also reject \
         an output; senders can wait for its verdict.",
        word(&Mode::ALL, Mode::as_str),
    );
    let rule = Record(watch::declare);
    let watch = keys.required(
        "watch",
        "Rules for the events that the shadow reviews.",
        List { len: 1..=MAX_WATCH_RULES, single: false, item: rule },
    );
    let spec = model.as_ref().and_then(|alias| models.specs.get(alias));
    let cost_control = cost::declare(keys, mode, spec);
    let criteria: Vec<String> = keys.or_default(
        "criteria",
        "Further criteria of a review, in words: a text or a list of texts.",
        List { len: 1..=50, single: true, item: free_text(MAX_CRITERIA_CHARS) },
    );
    let checks = keys.optional(
        "checks",
        "Built-in checks that run: all (default), none, or a list.",
        List { len: 0..=CheckName::ALL.len(), single: true, item: checks_shape() },
    );
    let allowed_hosts = keys.optional(
        "allowed_hosts",
        "The hosts that watched agents may reach, as `api.acme.io`, `*.acme.io` or an address; the check outside_hosts \
         reports others. Without it only hosts that exist to catch data, and disguised ones, are reported.",
        List { len: 0..=MAX_ALLOWED_HOSTS, single: true, item: host_pattern() },
    );
    let flag_at = keys.optional(
        "flag_at",
        "Severity of a finding from which a review ends with FLAG (critical unless set).",
        word(&[Severity::Warning, Severity::Critical], Severity::as_str),
    );
    let max_input_chars = keys.optional(
        "max_input_chars",
        "Most characters of an event that the model is shown (24000 unless set).",
        whole(1_000..=200_000),
    );
    let (datamark, canary) = protocol(keys);
    let enabled = keys.optional("enabled", "True if the shadow runs (true unless set).", Flag);
    let verdict = verdict(keys, mode);
    let scope = scope(keys, mode, watch.as_deref(), cost_control.batch.is_some());
    let redact = keys.optional("redact", "Secrets are always redacted before anything is stored: true.", Flag);
    if redact == Some(false) {
        keys.fault("redact", "redaction cannot be switched off", "write redact: true, or leave it out");
    }
    if let Some(batch) = cost_control.batch
        && batch.max_chars > max_input_chars.unwrap_or(DEFAULT_INPUT_CHARS)
    {
        let message = format!("a batch may have {} characters, more than max_input_chars", batch.max_chars);
        keys.warn("cost_control", message, "lower cost_control.batch.max_chars, or raise max_input_chars");
    }
    let checks: BTreeSet<CheckName> =
        checks.map_or_else(|| CheckName::ALL.into(), |named| named.into_iter().flatten().copied().collect());
    check_criteria(keys, &criteria);
    if let Some(alias) = &model {
        check_model(keys, alias, models, cost_control.allow_costly_model);
    }
    if spec.is_some_and(|spec| spec.provider == Provider::Checks) && checks.is_empty() {
        keys.fault(
            "checks",
            "the shadow has no model and no checks, so it would review nothing",
            "name checks, or a model",
        );
    }
    Some(Shadow {
        name: name?,
        model: model?,
        mode: mode?,
        watch: watch?,
        cost_control,
        criteria,
        checks,
        allowed_hosts,
        flag_at: flag_at.unwrap_or(Severity::Critical),
        max_input_chars: max_input_chars.unwrap_or(DEFAULT_INPUT_CHARS),
        datamark,
        canary,
        scope,
        verdict,
        enabled: enabled.unwrap_or(true),
    })
}

/// Declares the defences against prompt injection in the reviewed text: data marks and the canary.
fn protocol(keys: &mut Keys<'_>) -> (Datamark, bool) {
    let datamark = keys.or_default(
        "datamark",
        "Marks that show the model the reviewed text as data. lines (unless set): each line begins with a random mark. \
         words: a sign stands for each space as well; harder to overlook, but up to twice the tokens, and small models \
         quote worse. off: tags alone.",
        word(&Datamark::ALL, Datamark::as_str),
    );
    let canary = keys.optional(
        "canary",
        "True if each call holds a planted fault, and a reply that misses it is INCONCLUSIVE (true unless set). false \
         is for small models that cannot follow this protocol.",
        Flag,
    );
    (datamark, canary.unwrap_or(true))
}

/// Declares the rules of an active shadow's verdict. On other shadows these keys are faults, since they give no
/// verdict.
fn verdict(keys: &mut Keys<'_>, mode: Option<Mode>) -> VerdictRules {
    let default = VerdictRules::default();
    let otherwise = || word(&FallbackVerdict::ALL, FallbackVerdict::as_str);
    let rules = VerdictRules {
        within: keys
            .optional(
                "verdict_within",
                "Active: longest time after the event in which a result counts (20s unless set).",
                Time(Duration::from_millis(100)..=Duration::from_hours(1)),
            )
            .unwrap_or(default.within),
        on_timeout: keys
            .optional("on_timeout", "Active: verdict where no result comes in time (accept unless set).", otherwise())
            .unwrap_or(default.on_timeout),
        on_inconclusive: keys
            .optional(
                "on_inconclusive",
                "Active: verdict of a review in which no model judged: INCONCLUSIVE, or CHECKED where the built-in \
                 checks alone looked and found nothing (accept unless set).",
                otherwise(),
            )
            .unwrap_or(default.on_inconclusive),
        on_unfounded: keys
            .optional(
                "on_unfounded",
                "Active: verdict of a model's FLAG that rests on no quote found in the text, once the model was asked \
                 for one again: suggest (unless set), or reject.",
                word(&UnfoundedFlag::ALL, UnfoundedFlag::as_str),
            )
            .unwrap_or(default.on_unfounded),
    };
    for key in ["verdict_within", "on_timeout", "on_inconclusive", "on_unfounded"] {
        if mode.is_some_and(|mode| mode != Mode::Active) && keys.has(key) {
            keys.fault(key, "only an active shadow gives verdicts", "write mode: active, or leave the key out");
        }
    }
    rules
}

/// Declares the scope of one review, and notes the keys that do not fit a review of a whole task.
fn scope(keys: &mut Keys<'_>, mode: Option<Mode>, watch: Option<&[WatchRule]>, batch: bool) -> ReviewScope {
    let scope = keys.optional(
        "scope",
        "Scope of one review. event (unless set), or trajectory: the whole task, when its task_complete arrives.",
        word(&[ReviewScope::Event, ReviewScope::Trajectory], ReviewScope::as_str),
    );
    if scope != Some(ReviewScope::Trajectory) {
        return ReviewScope::Event;
    }
    if mode == Some(Mode::Active) {
        let message = "a verdict is about one event and cannot be about a whole task";
        keys.fault("scope", message, "write mode: review, or scope: event");
    }
    if batch {
        let message = "a review with scope: trajectory covers a whole task already";
        keys.fault("cost_control", message, "leave out cost_control.batch, or write scope: event");
    }
    if watch.is_some_and(|rules| rules.iter().any(|rule| !rule.triggers.contains(&Trigger::TaskComplete))) {
        let message =
            "a review with scope: trajectory begins with task_complete, and a watch rule does not name that trigger";
        keys.fault("watch", message, "write triggers: [task_complete]");
    }
    ReviewScope::Trajectory
}

/// Shape of one word of `checks`, read as the checks that it stands for.
fn checks_shape() -> impl Shape<Value = &'static [CheckName]> {
    static ALL: [CheckName; CheckName::ALL.len()] = CheckName::ALL;
    let each: Vec<&'static [CheckName]> = ALL.chunks(1).collect();
    word(&each, |checks| checks.first().map_or("", |check| check.as_str())).or("all", &ALL).or("none", &[])
}

fn check_criteria(keys: &mut Keys<'_>, criteria: &[String]) {
    let chars: usize = criteria.iter().map(|text| text.chars().count()).sum();
    if chars > MAX_CRITERIA_CHARS {
        let message = format!("the criteria have {chars} characters, which is too many");
        keys.fault("criteria", message, format!("write at most {MAX_CRITERIA_CHARS} characters in all"));
    }
}

/// Checks that the model is one that a shadow may name, at an allowed price.
fn check_model(keys: &mut Keys<'_>, alias: &str, models: &Models<'_>, costly_allowed: bool) {
    let escape = (!costly_allowed).then_some("write cost_control.allow_costly_model: true");
    if let Some((message, help)) = models.refusal(alias, escape) {
        keys.fault("model", message, help);
    }
}
