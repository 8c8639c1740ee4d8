//! `umbra promote`: raises a shadow's mode once people have found its findings right often enough.

use clap::Args;
use serde_json::json;

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, usage};
use crate::{app::Setup, findings::Precision, flows::followers::feedback::ShadowPrecision};
use umbra_config::{Models, settings::Promote, shadows::set_mode};
use umbra_domain::{Mode, Shadow};

/// Shadow to promote, and its new mode.
#[derive(Debug, Args)]
pub(super) struct PromoteOptions {
    /// Name of the shadow.
    shadow: String,
    /// New mode: passive, review or active. Without it, the next one up.
    #[arg(long, value_name = "MODE", value_parser = mode)]
    to: Option<Mode>,
    /// Promote even if its findings have not been found right often enough.
    #[arg(long)]
    force: bool,
}

fn mode(word: &str) -> Result<Mode, &'static str> {
    Mode::parse(word).ok_or("write passive, review or active")
}

pub(super) async fn run(global: &GlobalOptions, options: PromoteOptions) -> Result<(), CommandFailure> {
    let setup = global.quiet_setup()?;
    let shadows = setup.shadows().map_err(|report| {
        complain(&report.to_string());
        CommandFailure::AlreadyReported
    })?;
    let Some(shadow) = shadows.value.iter().find(|shadow| shadow.name == options.shadow) else {
        let names: Vec<&str> = shadows.value.iter().map(|shadow| shadow.name.as_str()).collect();
        return usage(format!("shadow {:?} not found; the shadows: {}", options.shadow, names.join(", ")));
    };
    let to = wanted(shadow, options.to)?;
    let (_, database) = global.open_existing().await?;
    let counts = database.store.findings().judged_counts(&[&shadow.name]).await;
    database.close().await;
    let precision = ShadowPrecision::of(shadow, &counts?);
    let refusal = if to > shadow.mode { refusal(&precision.in_force, &setup.settings.promote) } else { None };
    let forced = refusal.is_some() && options.force;
    let changed = match &refusal {
        Some(why) if !forced => Err(why.clone()),
        _ => change(&setup, shadow, to),
    };
    let (line, problem) = (changed.as_ref().ok().copied(), changed.err());
    let file = setup.settings.shadows.path.clone().unwrap_or_default();
    if global.json {
        let Promote { floor, min_feedback } = setup.settings.promote;
        let from = shadow.mode;
        answer_json(&json!({
            "shadow": shadow.name, "from": from, "to": to, "promoted": line.is_some(), "forced": forced,
            "precision": precision, "floor": floor, "min_feedback": min_feedback,
            "change": line.map(|line| json!({"file": file.display().to_string(), "line": line, "from": from, "to": to})),
            "reason": problem,
        }))?;
    } else {
        answer(&format!("{}: {}", shadow.name, in_words(&precision.in_force)));
        if let Some(why) = refusal.filter(|_| forced) {
            complain(&format!("umbra: forced, although {why}"));
        }
        if let Some(line) = line {
            answer(&format!(
                "{}:{line}: mode: {} instead of {}. SIGHUP or POST /v1/admin/reload puts the change in force.",
                file.display(),
                to.as_str(),
                shadow.mode.as_str()
            ));
        }
    }
    match problem {
        None => Ok(()),
        Some(problem) => {
            complain(&format!("umbra: not promoted: {problem}"));
            Err(CommandFailure::AlreadyReported)
        }
    }
}

fn wanted(shadow: &Shadow, to: Option<Mode>) -> Result<Mode, CommandFailure> {
    let to = match (to, shadow.mode) {
        (Some(to), _) => to,
        (None, Mode::Passive) => Mode::Review,
        (None, Mode::Review) => Mode::Active,
        (None, Mode::Active) => return usage(format!("{} is already active, the highest mode", shadow.name)),
    };
    if to == shadow.mode { usage(format!("{} is already {}", shadow.name, to.as_str())) } else { Ok(to) }
}

/// Returns the reason why feedback does not permit the promotion.
fn refusal(measured: &Precision, rules: &Promote) -> Option<String> {
    if measured.judged < i64::from(rules.min_feedback) {
        return Some(format!(
            "people have judged {} findings of the shadow, and promote.min_feedback requires {}: give feedback by \
             PATCH /v1/findings/{{id}} with {{\"status\": \"confirmed\"}} or \"false_positive\", or promote with \
             --force",
            measured.judged, rules.min_feedback
        ));
    }
    let share = measured.precision.unwrap_or(0.0);
    (share < rules.floor).then(|| {
        format!(
            "the shadow's precision of {share} is below promote.floor ({}): improve the shadow, or promote with \
             --force",
            rules.floor
        )
    })
}

/// Changes the shadow's mode in its file; returns the line, or why it was not changed and what to do.
fn change(setup: &Setup, shadow: &Shadow, to: Mode) -> Result<usize, String> {
    let Some(path) = &setup.settings.shadows.path else {
        return Err(format!(
            "the built-in example is in force and cannot be changed: put the shadows into a file of your own, with \
             `mode: {}` for {}, and name that file by --shadows",
            to.as_str(),
            shadow.name
        ));
    };
    let specs = setup.models();
    let models = Models { specs: &specs, ceiling: setup.settings.cheap_model.max_output_usd_per_mtok };
    set_mode(path, &shadow.name, to, &models)
}

fn in_words(measured: &Precision) -> String {
    let Precision { judged, right, precision, low, high, .. } = measured;
    match precision {
        None => "no findings judged by people yet".to_owned(),
        Some(share) => {
            let percent = |share: f64| format!("{:.1} %", share * 100.0);
            format!(
                "{right} of {judged} judged findings were right: {} (95 % interval {} to {})",
                percent(*share),
                percent(*low),
                percent(*high)
            )
        }
    }
}
