//! `umbra bench checks`: measures the built-in checks on labelled texts, beside a bag-of-words classifier.
//!
//! Each `NAME*.jsonl` file has a row `{text, label, source?, id?}` each line, or `{event, labels}` for triggers. The
//! result is how well the check of that name tells bad from benign (it flags with a hit of at least `warning`), also by
//! source, and how many megabytes a second one core checks.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::{json, value::RawValue};

use super::{
    super::{CommandFailure, GlobalOptions, answer, answer_json, complain, usage},
    labelled::{self, LabelledEvent, LabelledText},
    scores::RowJudgement,
    sets::{Set, SetsOutput},
    speed::Speed,
};
use crate::ingest;
use umbra_domain::{CheckName, Severity, Trigger};

/// Labelled sets to measure on.
#[derive(Debug, Args)]
pub(in crate::cli) struct ChecksBenchOptions {
    /// Labelled sets, or folders of them: secrets*.jsonl, commands*.jsonl, injection*.jsonl, … for the checks of these
    /// names, triggers*.jsonl for triggers of events.
    #[arg(required = true, value_name = "DIR")]
    paths: Vec<PathBuf>,
    /// Judge every set by this check, whatever the name of the set.
    #[arg(long, value_name = "NAME", value_parser = named_check)]
    check: Option<CheckName>,
    #[command(flatten)]
    output: SetsOutput,
    /// Do not measure throughput, which takes seconds (minutes in a debug build).
    #[arg(long)]
    skip_throughput: bool,
}

/// Name of the set of events that are labelled with their triggers.
const TRIGGERS: &str = "triggers";

pub(in crate::cli) fn run(global: &GlobalOptions, options: &ChecksBenchOptions) -> Result<(), CommandFailure> {
    // Texts are judged by the rules that the settings name.
    global.quiet_setup()?;
    let mut sets = Vec::new();
    let mut texts = Vec::new();
    for (name, files) in labelled::files(&options.paths)? {
        if name == TRIGGERS && options.check.is_none() {
            let mut events = Vec::new();
            for file in &files {
                events.extend(labelled::events(file)?);
            }
            sets.extend(of_triggers(&events, options.output.mistakes)?);
            continue;
        }
        let Some(check) = options.check.or_else(|| own_check(&name)) else {
            complain(&format!(
                "{name}: left out because no check has this name; --check NAME judges the set by one check"
            ));
            continue;
        };
        let mut rows = Vec::new();
        for file in &files {
            rows.extend(labelled::rows(file)?);
        }
        let said: Vec<RowJudgement> = rows.iter().map(|row| said(check, &row.text)).collect();
        sets.push(Set::of(name, check.as_str().to_owned(), &rows, &said, options.output.mistakes));
        texts.extend(rows.into_iter().map(|row| row.text));
    }
    if sets.is_empty() {
        return usage(format!("no set has the name of a check; {}", known_checks()));
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let speed = (!options.skip_throughput && !texts.is_empty()).then(|| Speed::measure(&texts));
    options.output.draw("Built-in checks on labelled texts", &sets)?;
    if global.json {
        let rate = speed.as_ref().map(|speed| speed.joined);
        return answer_json(&json!({"sets": sets, "mb_per_s_core": rate, "throughput": speed}));
    }
    options.output.show(&sets);
    if let Some(speed) = speed {
        answer(&speed.lines());
    }
    Ok(())
}

fn named_check(word: &str) -> Result<CheckName, String> {
    own_check(word).ok_or_else(|| format!("check {word:?} not found; {}", known_checks()))
}

fn known_checks() -> String {
    let names: Vec<&str> = CheckName::ALL.into_iter().map(CheckName::as_str).collect();
    format!("the checks: {}", names.join(", "))
}

/// Returns the check that judges a set of this name.
fn own_check(set: &str) -> Option<CheckName> {
    match set {
        "truncated" => Some(CheckName::Truncation),
        "pii" => CheckName::parse("pii").or_else(|| CheckName::parse("personal_data")),
        other => CheckName::parse(other),
    }
}

/// Judges a text by one check. Rows rank by their most severe hit, then by the number of hits. Hits of severity `info`
/// alone flag nothing.
fn said(check: CheckName, text: &str) -> RowJudgement {
    let screened = umbra_checks::screen(umbra_checks::example(check, text));
    let hits = umbra_checks::review(&screened.event, &screened.marks, &BTreeSet::from([check]));
    let gravest = hits.iter().map(|hit| hit.severity).max();
    let count = u32::try_from(hits.len().min(999)).unwrap_or_default();
    let flagged = gravest >= Some(Severity::Warning);
    RowJudgement {
        flagged,
        abstained: gravest.is_some() && !flagged,
        rank: gravest.map_or(0.0, |severity| f64::from(severity.code()) * 1_000.0 + f64::from(count) + 1_000.0),
    }
}

/// Returns a set for each trigger, measured on events that show it and events that do not.
fn of_triggers(events: &[LabelledEvent], mistakes: bool) -> Result<Vec<Set>, CommandFailure> {
    let mut derived = Vec::with_capacity(events.len());
    for one in events {
        derived.push(triggers_of(&one.event).with_context(|| format!("{}: event", one.place))?);
        if let Some(unknown) = one.labels.keys().find(|name| Trigger::parse_named(name).is_none()) {
            let known: Vec<&str> = Trigger::NAMED.into_iter().map(Trigger::as_str).collect();
            let known = known.join(", ");
            return Err(anyhow!("{}: labels: trigger {unknown:?} not found; the triggers: {known}", one.place).into());
        }
    }
    let mut sets = Vec::new();
    for trigger in Trigger::NAMED {
        let (mut rows, mut said) = (Vec::new(), Vec::new());
        for (one, triggers) in events.iter().zip(&derived) {
            let Some(bad) = one.labels.get(trigger.as_str()).copied() else { continue };
            let (id, source, text) = (one.id.clone(), one.source.clone(), one.event.get().to_owned());
            rows.push(LabelledText { id, text, bad, source });
            let flagged = triggers.contains(&trigger);
            said.push(RowJudgement { flagged, abstained: false, rank: f64::from(u8::from(flagged)) });
        }
        if !rows.is_empty() {
            let name = format!("{TRIGGERS}.{}", trigger.as_str());
            sets.push(Set::of(name, TRIGGERS.to_owned(), &rows, &said, mistakes));
        }
    }
    Ok(sets)
}

/// Returns the triggers that are derived from an event, whatever its sender declared.
fn triggers_of(event: &RawValue) -> anyhow::Result<Vec<Trigger>> {
    let incoming = ingest::event_alone(event.get().as_bytes(), &ingest::Limits::default()).map_err(|faults| {
        let told: Vec<String> =
            faults.iter().map(|fault| format!("{} {}", fault.pointer, fault.detail).trim_start().to_owned()).collect();
        anyhow!("{}", told.join("; "))
    })?;
    let mut event = incoming.event;
    event.triggers.clear();
    Ok(umbra_checks::screen(event).triggers.into_iter().map(|mark| mark.name).collect())
}
