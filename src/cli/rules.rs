//! `umbra rules`: lists and explains the rules of the built-in checks, and tests files of rules against their examples.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::anyhow;
use clap::Subcommand;
use serde_json::{Value, json};

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, table, usage};
use crate::app::{Setup, read_rules};
use umbra_checks::{MisjudgedExample, Rules, misjudged};
use umbra_config::Loaded;
use umbra_domain::{CheckName, CheckRule, Sample, Severity, nearest::nearest};

pub(super) const NOTES: &str = "\
The settings name files of rules (TOML): checks: {rules: [mine.toml]}. A file adds rules, changes rules of the same id,
and switches rules off; a gitleaks.toml is such a file. `umbra schema rules` prints the JSON Schema of a file, and
docs/rules.md shows an example.";

#[derive(Debug, Subcommand)]
pub(super) enum RulesAction {
    /// List all rules: the built-in ones, and those of the files that the settings name.
    List {
        /// Only the rules of this check.
        #[arg(long, value_name = "NAME", value_parser = check)]
        check: Option<CheckName>,
    },
    /// Show the keywords, expressions and examples of a rule.
    Explain {
        /// Id of the rule, as findings name it: `aws_access_key`, or `secrets.aws_access_key`.
        id: String,
    },
    /// Judge the examples (hits, misses) of files of rules; exit 1 if one is judged differently from its row.
    Test {
        /// Files of rules, each applied over those before it; without one, those that the settings name.
        files: Vec<PathBuf>,
    },
}

fn check(name: &str) -> Result<CheckName, String> {
    CheckName::parse(name).ok_or_else(|| {
        let all: Vec<&str> = CheckName::ALL.into_iter().map(CheckName::as_str).collect();
        format!("check not found; the checks: {}", all.join(", "))
    })
}

pub(super) fn run(global: &GlobalOptions, action: RulesAction) -> Result<(), CommandFailure> {
    let setup = global.setup(None)?;
    match action {
        RulesAction::List { check } => list(global, &setup, check),
        RulesAction::Explain { id } => explain(global, &setup, &id),
        RulesAction::Test { files } => test(global, &setup, files),
    }
}

/// Origin of a rule.
fn origin(row: &CheckRule) -> &str {
    if row.place.is_empty() { "built in" } else { &row.place }
}

fn severity(row: &CheckRule) -> &'static str {
    let usual = if row.check() == CheckName::Secrets { "critical" } else { "warning" };
    row.severity.map_or(usual, Severity::as_str)
}

fn as_json(row: &CheckRule) -> Value {
    let texts = |samples: &[Sample]| samples.iter().map(Sample::text).collect::<Vec<_>>();
    json!({"id": row.id, "check": row.check(), "description": row.description, "severity": severity(row),
        "enabled": row.enabled != Some(false), "origin": origin(row), "keywords": row.keywords, "regex": row.regex,
        "assigned": row.assigned, "commands": row.commands, "hits": texts(&row.hits), "misses": texts(&row.misses)})
}

fn list(global: &GlobalOptions, setup: &Setup, check: Option<CheckName>) -> Result<(), CommandFailure> {
    let rules = Rules::of(&setup.rules);
    let mut rows: Vec<&CheckRule> =
        rules.rows().iter().filter(|row| check.is_none_or(|check| row.check() == check)).collect();
    rows.sort_by_key(|row| (row.check(), &row.id));
    // A rule may have several rows, one for each sentence that it finds.
    rows.dedup_by_key(|row| &row.id);
    let mut table = table::new(&["check", "rule", "severity", "origin", "finds"]);
    for row in &rows {
        let severity = if row.enabled == Some(false) { "off" } else { severity(row) };
        let description = row.description.as_deref().unwrap_or_default();
        table.add_row([row.check().as_str(), &row.id, severity, origin(row), description]);
    }
    global.print(&rows.into_iter().map(as_json).collect::<Vec<_>>(), || table.to_string())
}

fn explain(global: &GlobalOptions, setup: &Setup, id: &str) -> Result<(), CommandFailure> {
    let rules = Rules::of(&setup.rules);
    let name = id.rsplit('.').next().unwrap_or(id);
    let rows: Vec<&CheckRule> = rules.rows().iter().filter(|row| row.id == name).collect();
    let Some(first) = rows.first() else {
        let known = rules.rows().iter().map(|row| row.id.as_str());
        let help = match nearest(name, known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "`umbra rules list` names every rule".to_owned(),
        };
        return Err(anyhow!("rule `{name}` not found; {help}").into());
    };
    if global.json {
        return answer_json(&rows.into_iter().map(as_json).collect::<Vec<_>>());
    }
    answer(&format!("{}.{}", first.check().as_str(), first.id));
    let state = if first.enabled == Some(false) { "off" } else { severity(first) };
    answer(&format!("  {state}, {}", origin(first)));
    for row in &rows {
        answer(&format!("  {}", row.description.as_deref().unwrap_or("(no description)")));
        let regex = row.regex.as_ref().or(row.assigned.as_ref()).cloned();
        let samples = |samples: &[Sample]| samples.iter().map(|sample| table::plain(&sample.text())).collect();
        for (what, texts) in [
            ("keyword", row.keywords.clone()),
            ("command", row.commands.clone()),
            ("regex", regex.into_iter().collect()),
            ("finds", samples(&row.hits)),
            ("not", samples(&row.misses)),
        ] {
            for text in texts {
                answer(&format!("  {what:<8} {text}"));
            }
        }
    }
    if !rows.iter().any(|row| row.has_patterns()) {
        answer("  This rule is judged by code and has no expression.");
    }
    answer(&format!("Switch the rule off with a file of rules:\n  [[rules]]\n  id = \"{name}\"\n  enabled = false"));
    Ok(())
}

fn test(global: &GlobalOptions, setup: &Setup, files: Vec<PathBuf>) -> Result<(), CommandFailure> {
    let paths = if files.is_empty() { setup.settings.checks.rules.clone() } else { files };
    if paths.is_empty() {
        return usage("name a file of rules: umbra rules test FILE");
    }
    let Loaded { value: read, warnings } = read_rules(&paths)?;
    let rules = Rules::of(&read);
    let named: BTreeSet<&str> = read.iter().flat_map(|file| &file.rules).map(|row| row.id.as_str()).collect();
    // Examples of a row that changes a rule of the checks are judged together with the rule's own. Of several rows of a
    // rule, the last one counts.
    let rows = rules.rows().iter().filter(|row| named.contains(row.id.as_str()));
    let rows: BTreeMap<&str, &CheckRule> = rows.map(|row| (row.id.as_str(), row)).collect();
    Rules::of(&read).install();
    let wrong: Vec<(&CheckRule, MisjudgedExample)> =
        rows.values().flat_map(|row| misjudged(row).into_iter().map(move |wrong| (*row, wrong))).collect();
    let examples: usize = rows.values().map(|row| row.hits.len() + row.misses.len()).sum();
    let without = rows.values().filter(|row| row.has_patterns() && row.hits.is_empty()).count();
    if global.json {
        let wrong: Vec<Value> = wrong
            .iter()
            .map(|(row, wrong)| json!({"rule": row.id, "place": row.place, "text": wrong.text, "is_hit": wrong.is_hit, "found": wrong.found}))
            .collect();
        answer_json(
            &json!({"rules": rows.len(), "examples": examples, "without_hits": without, "wrong": wrong, "warnings": warnings}),
        )?;
    } else {
        for warning in &warnings {
            complain(&warning.to_string());
        }
        for (row, wrong) in &wrong {
            answer(&told(row, wrong));
        }
        let rest =
            if without == 0 { String::new() } else { format!("; {without} rules without a hit among their examples") };
        answer(&format!("{} rules, {examples} examples, {} misjudged{rest}", rows.len(), wrong.len()));
    }
    if wrong.is_empty() { Ok(()) } else { Err(CommandFailure::AlreadyReported) }
}

/// Renders a line about a misjudged example.
fn told(row: &CheckRule, wrong: &MisjudgedExample) -> String {
    let text = table::plain(&wrong.text);
    let others: Vec<&str> = wrong.found.iter().map(String::as_str).filter(|rule| *rule != row.id).collect();
    let why = match (wrong.is_hit, others.is_empty()) {
        (false, _) => "a miss is reported".to_owned(),
        (true, _) if row.enabled == Some(false) => "the rule is off, and its examples are reported".to_owned(),
        (true, false) => format!("a hit is reported only by {}", others.join(", ")),
        (true, true) if wrong.is_placeholder => {
            "a hit looks like a placeholder, which no rule about credentials reports: write random letters".to_owned()
        }
        (true, true) => "a hit is not reported".to_owned(),
    };
    format!("{}: {}: {why}: {text}", row.place, row.id)
}
