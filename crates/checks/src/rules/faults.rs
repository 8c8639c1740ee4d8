//! Validation of rows before they are put in force. In: a row, and the rows before it. Out: its faults, each with the
//! member at fault.

use regex::Regex;

use super::{BUILT_IN, allow::compiled};
use crate::{
    commands::CallPattern,
    secrets::{SHORTEST_LITERAL, pattern},
};
use umbra_domain::{CheckName, CheckRule, MatchPlace, RuleFault, nearest::nearest};

/// Checks whose rows may have expressions.
const OF_TEXTS: [CheckName; 6] = [
    CheckName::Secrets,
    CheckName::Commands,
    CheckName::Injection,
    CheckName::Truncation,
    CheckName::Emptiness,
    CheckName::Pii,
];

/// Returns the faults of a row in a user's file. `earlier` are the rows of the files before it.
pub fn faults(row: &CheckRule, earlier: &[CheckRule]) -> Vec<RuleFault> {
    let mut faults = RowFaults(Vec::new());
    let known = || BUILT_IN.iter().chain(earlier).filter(|known| known.id == row.id);
    if row.has_patterns() {
        faults.finding(row);
    } else {
        faults.changing(row, known().next().is_some());
        if known().next().is_none() {
            let ids = BUILT_IN.iter().chain(earlier).map(|known| known.id.as_str());
            let help = match nearest(&row.id, ids) {
                Some(meant) => format!("did you mean `{meant}`? A rule of your own needs `regex` or `commands`"),
                None => {
                    "`umbra rules list` names every rule; a rule of your own needs `regex` or `commands`".to_owned()
                }
            };
            faults.push("id", None, format!("no rule has the id `{}`", row.id), help);
        }
    }
    if let (Some(said), Some(known)) = (row.check, known().next())
        && said != known.check()
    {
        let message = format!("`{}` is a rule of the check {}", row.id, known.check().as_str());
        faults.push("check", None, message, "choose another id, or leave `check` out");
    }
    for list in &row.allowlists {
        for regex in &list.regexes {
            faults.expression("allowlists", regex);
        }
    }
    faults.0
}

struct RowFaults(Vec<RuleFault>);

impl RowFaults {
    fn push(&mut self, key: &'static str, index: Option<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.0.push(RuleFault { key, index, message: message.into(), help: help.into() });
    }

    fn expression(&mut self, key: &'static str, regex: &str) -> Option<Regex> {
        let read = compiled(regex);
        if let Err(error) = &read {
            let error = error.to_string();
            let what = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let what = format!("the expression {regex:?} cannot be read: {what}");
            self.push(key, None, what, "the syntax is that of RE2: docs.rs/regex");
        }
        read.ok()
    }

    /// Checks a row with a pattern or an expression of its own.
    fn finding(&mut self, row: &CheckRule) {
        let check = row.check();
        let key = if row.regex.is_some() { "regex" } else { "assigned" };
        let regex = pattern(row).and_then(|regex| self.expression(key, &regex));
        if regex.as_ref().is_some_and(|regex| regex.is_match("")) {
            self.push(key, None, "the expression matches the empty text", "write what must be there");
        }
        if !OF_TEXTS.contains(&check) {
            let message = format!("the check {} looks at no single text", check.as_str());
            let of_texts: Vec<&str> = OF_TEXTS.iter().map(|check| check.as_str()).collect();
            self.push("check", None, message, format!("rules may be added to {}", of_texts.join(", ")));
        }
        if check != CheckName::Commands && !row.commands.is_empty() {
            self.push("commands", None, "patterns of calls belong to the check commands", "write check = \"commands\"");
        }
        for (index, text) in row.commands.iter().enumerate() {
            if let Err(error) = CallPattern::parse(text) {
                self.push("commands", Some(index), error, "write a program and words, such as \"kubectl delete ns\"");
            }
        }
        if row.regex.is_some() && row.assigned.is_some() {
            self.push("assigned", None, "it stands in place of `regex`", "leave one of them out");
        }
        if check != CheckName::Injection {
            let of_orders = [("scope", row.scope.is_some()), ("softened_by", !row.softened_by.is_empty())];
            self.unfit(&of_orders, "only rules about injection have it");
        }
        if check == CheckName::Secrets {
            self.credential(row, regex.as_ref().map(Regex::captures_len));
            return;
        }
        let of_credentials = [
            ("begins", row.begins.is_some()),
            ("checksum", row.checksum.is_some()),
            ("secretGroup", row.secret_group.is_some()),
            ("entropy", row.entropy.is_some()),
            ("assigned", row.assigned.is_some()),
        ];
        self.unfit(&of_credentials, "only rules about credentials have it");
    }

    /// Notes a fault for each member that has no meaning in the row.
    fn unfit(&mut self, members: &[(&'static str, bool)], why: &str) {
        for (key, _) in members.iter().filter(|(_, there)| *there) {
            self.push(key, None, why, "leave it out");
        }
    }

    fn credential(&mut self, row: &CheckRule, groups: Option<usize>) {
        let anchored = row.assigned.is_some() || row.begins.is_some_and(|begins| begins != MatchPlace::Free);
        if anchored && (row.keywords.is_empty() || row.keywords.iter().any(|word| word.len() < SHORTEST_LITERAL)) {
            let key = if row.keywords.is_empty() { "begins" } else { "keywords" };
            let message = format!("a match at a keyword needs keywords of {SHORTEST_LITERAL} bytes or more");
            self.push(key, None, message, "write such keywords, or begins = \"free\"");
        }
        if let (Some(group), Some(groups)) = (row.secret_group, groups)
            && group >= groups
        {
            let message = format!("the expression has no group {group}");
            self.push("secretGroup", None, message, format!("it has {} groups", groups - 1));
        }
    }

    /// Checks a row that changes another row.
    fn changing(&mut self, row: &CheckRule, is_known: bool) {
        let of_finding = [
            ("keywords", !row.keywords.is_empty()),
            ("begins", row.begins.is_some()),
            ("checksum", row.checksum.is_some()),
            ("secretGroup", row.secret_group.is_some()),
            ("entropy", row.entropy.is_some()),
            ("scope", row.scope.is_some()),
            ("softened_by", !row.softened_by.is_empty()),
        ];
        for (key, _) in of_finding.into_iter().filter(|(_, there)| *there) {
            self.push(key, None, "it belongs to a rule that says what it finds", "add `regex`, or leave it out");
        }
        let changes = row.enabled.is_some()
            || row.severity.is_some()
            || row.description.is_some()
            || !row.allowlists.is_empty()
            || !row.hits.is_empty()
            || !row.misses.is_empty();
        if is_known && !changes {
            let help = "write `enabled = false`, `severity`, `allowlists`, or a `regex` in its place";
            self.push("id", None, "the row changes nothing", help);
        }
    }
}
