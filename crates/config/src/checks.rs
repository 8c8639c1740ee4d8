//! Reader of the built-in checks' rule files: TOML in, rules or every fault at once out. The format is that of gitleaks
//! with members of our own, so a gitleaks file loads as it is. Members of gitleaks without a meaning here give a
//! warning.
//!
//! The caller judges expressions and patterns: it passes the judgement in as [`RowRule`].

use std::{collections::BTreeMap, path::Path};

use super::{
    Loaded, Report,
    fault::{Faults, quoted},
    file::read_checked,
    keys::{Keys, Record, Shape, document},
    number::{decimal, whole},
    shape::{Flag, List, MappingShape, refuse, word},
    text::{Text, free_text, text},
    toml::parse,
    tree::{Node, NodeValue},
    twins::refuse_twins,
};
use umbra_domain::{
    AllowList, AllowTarget, CheckName, CheckRule, Checksum, MatchPlace, RuleFault, RuleFile, Sample, Severity,
    TextScope,
};

/// Most rules in a file; gitleaks' own file has some two hundred.
const MAX_ROWS: usize = 5_000;
/// Most items in one list of a rule.
const MAX_ITEMS: usize = 10_000;
/// Longest expression or example, in characters.
const MAX_TEXT: usize = 16_384;

/// Judges one rule and returns its faults.
pub type RowRule<'a> = &'a dyn Fn(&CheckRule) -> Vec<RuleFault>;

/// Reads a rule file.
pub fn read(path: &Path, judge: RowRule<'_>) -> Result<Loaded<RuleFile>, Report> {
    let name = path.display().to_string();
    read_checked(path, parse, |root, faults| {
        refuse_twins(root, &["rules"], "id", faults, str::to_owned, |id, line| {
            let help = format!("the row at line {line} has this id: put both into one row");
            (format!("the id {} occurs twice", quoted(id)), help)
        });
        Record(|keys: &mut Keys<'_>| file(keys, &name, judge)).read(root, faults)
    })
}

/// Returns the JSON Schema (draft 2020-12) of a rule file, for editors.
pub fn rules_schema() -> serde_json::Value {
    document("Umbra rules", Record(|keys: &mut Keys<'_>| file(keys, "", &|_| Vec::new())).schema())
}

/// Declares the top-level keys of a rule file.
#[expect(clippy::unnecessary_wraps, reason = "a record may be faulty; this one has no key that must be there")]
fn file(keys: &mut Keys<'_>, name: &str, judge: RowRule<'_>) -> Option<RuleFile> {
    let terms = keys.optional(
        "terms",
        "Parts of expressions and patterns, by the name that stands for them in braces, as in {name}.",
        MappingShape { max: MAX_ITEMS, key: is_term, value: free_text(MAX_TEXT) },
    );
    let terms = terms.unwrap_or_default();
    let item = Record(|keys: &mut Keys<'_>| row(keys, name, &terms, judge));
    let rules = keys.optional(
        "rules",
        "The rules. A rule with `regex`, `assigned` or `commands` is added, or replaces the rule with the same id; any \
         other changes the rule with the same id.",
        List { len: 0..=MAX_ROWS, single: false, item },
    );
    let lists = [
        keys.optional("allowlists", "Matches that no rule about credentials reports.", list_of(Record(allow_list))),
        keys.optional("allowlist", "`allowlists` as a single table.", list_of(Record(allow_list))),
    ];
    for key in ["title", "description", "minVersion"] {
        keys.optional(key, "Of gitleaks: a text for people, without effect here.", free_text(MAX_TEXT));
    }
    keys.optional(
        "extend",
        "Of gitleaks: the rules that the file builds on. Umbra's own rules always hold.",
        Record(extend),
    );
    let rules = rules.into_iter().flatten().flatten().collect();
    Some(RuleFile { terms, rules, allowlists: lists.into_iter().flatten().flatten().flatten().collect() })
}

/// Declares gitleaks' table `extend`, which names the rules that a file builds on. None of its keys has an effect here.
#[expect(clippy::unnecessary_wraps, reason = "the shape of a record that cannot be incomplete")]
fn extend(keys: &mut Keys<'_>) -> Option<()> {
    keys.optional("useDefault", "Of gitleaks: true to build on its own rules. Umbra's own rules always hold.", Flag);
    let path = keys.optional(
        "path",
        "Of gitleaks: the path of another file; name it in checks.rules instead.",
        free_text(MAX_TEXT),
    );
    if path.is_some() {
        keys.warn("path", "the file named here is not read", "name that file in checks.rules, before this one");
    }
    let off = keys.optional("disabledRules", "Of gitleaks: those of its own rules that are switched off.", texts());
    if off.is_some() {
        keys.warn(
            "disabledRules",
            "gitleaks' own rules are not part of Umbra",
            "to switch off a rule of Umbra, write a row with `enabled = false`",
        );
    }
    Some(())
}

/// Declares one rule. `Some(None)` for a rule that has no meaning here.
#[expect(clippy::option_option, reason = "a record that is read well may have to be left out")]
fn row(
    keys: &mut Keys<'_>,
    file: &str,
    terms: &BTreeMap<String, String>,
    judge: RowRule<'_>,
) -> Option<Option<CheckRule>> {
    let id = keys.required("id", "Name in findings, and in markers such as [secret:id].", id());
    let place = format!("{file}:{}", keys.place("id").line);
    let mut rule = CheckRule { id: id.unwrap_or_default(), place, ..CheckRule::default() };
    rule.check = keys.optional(
        "check",
        "Check that the rule belongs to. Unless set: commands for a rule with `commands`, secrets for all others.",
        word(&CheckName::ALL, CheckName::as_str),
    );
    rule.description = keys.optional(
        "description",
        "For secrets and pii: name of the matched data, such as \"an Acme token\". For other checks: sentence of the \
         finding, in which {command} stands for the call.",
        free_text(2_000),
    );
    rule.severity = keys.optional(
        "severity",
        "Severity of a finding: info, warning or critical. Unless set: critical for secrets, warning for all others.",
        word(&Severity::ALL, Severity::as_str),
    );
    rule.enabled = keys.optional("enabled", "false switches the rule off.", Flag);
    rule.keywords = keys.or_default(
        "keywords",
        "Texts, one of which is in every match, in letters of either case. Without keywords every text is \
             searched.",
        texts(),
    );
    rule.regex = keys.optional(
        "regex",
        "A regular expression (RE2). The first group that took part in the match, if there is one, is the credential.",
        free_text(MAX_TEXT),
    );
    rule.assigned = keys.optional(
        "assigned",
        "In place of `regex`: the form of a value that the first keyword is assigned, as in KEYWORD_TOKEN=value.",
        free_text(MAX_TEXT),
    );
    rule.commands = keys.or_default(
        "commands",
        "Patterns of calls, such as \"kubectl delete ns|namespace\" or \"git push -f|--force\".",
        texts(),
    );
    rule.begins = keys.optional(
        "begins",
        "Position where a match begins: free (anywhere, unless set), keyword (at a keyword that begins a word), word \
         (up to 80 letters before a keyword), anywhere (at a keyword, after any text).",
        word(&MatchPlace::ALL, MatchPlace::as_str),
    );
    of_orders(keys, &mut rule);
    rule.checksum = keys.optional(
        "checksum",
        "A checksum at the end of the token: github.",
        word(&Checksum::ALL, Checksum::as_str),
    );
    rule.secret_group = keys.optional("secretGroup", "The group that is the credential.", whole(0..=99));
    rule.entropy = keys.optional(
        "entropy",
        "Least Shannon entropy of a credential, in bits a byte.",
        decimal("an entropy", 0.0..=8.0, Some),
    );
    rule.hits = keys.or_default("hits", "Examples that the rule finds; the parts of an array are joined.", samples());
    rule.misses = keys.or_default("misses", "Examples that the rule does not find.", samples());
    let lists = [
        keys.optional("allowlists", "Matches that the rule does not report.", list_of(Record(allow_list))),
        keys.optional("allowlist", "`allowlists` as a single table.", list_of(Record(allow_list))),
    ];
    rule.allowlists = lists.into_iter().flatten().flatten().flatten().collect();
    if not_taken_over(keys) && !rule.has_patterns() {
        keys.warn("id", "a rule that has only a path is ignored", "remove the rule");
        return Some(None);
    }
    if rule.id.is_empty() {
        return None;
    }
    rule.expand(terms);
    for fault in judge(&rule) {
        keys.fault_of(fault.key, fault.index, fault.message, fault.help);
    }
    Some(Some(rule))
}

/// Declares the keys that only rules of injection have.
fn of_orders(keys: &mut Keys<'_>, rule: &mut CheckRule) {
    rule.scope = keys.optional(
        "scope",
        "Texts in which a rule of injection counts: all (the output, and the texts that the agent was given; unless \
         set), outside (the texts that the agent was given), tools (results and errors of tools).",
        word(&TextScope::ALL, TextScope::as_str),
    );
    rule.softened_by = keys.or_default(
        "softened_by",
        "Words of the same sentence that make a finding of injection one degree milder.",
        texts(),
    );
}

/// Declares gitleaks' keys that have no effect here and warns of each. Returns true if the rule is about paths.
fn not_taken_over(keys: &mut Keys<'_>) -> bool {
    for (key, why) in [
        ("path", "texts of agents have no path"),
        ("tags", "findings carry no tags"),
        ("required", "rules are judged each by itself"),
        ("skipReport", "every finding is reported"),
    ] {
        if keys.optional(key, "Of gitleaks: not taken over.", Any).is_some() {
            keys.warn(key, format!("`{key}` is ignored: {why}"), "the rest of the row applies");
        }
    }
    keys.has("path")
}

/// Declares one allow list: matches that are not reported. `Some(None)` for a list that cannot be applied here.
#[expect(
    clippy::option_option,
    clippy::unnecessary_wraps,
    reason = "the shape of a record; one that is read well may have to be left out"
)]
fn allow_list(keys: &mut Keys<'_>) -> Option<Option<AllowList>> {
    let regexes =
        keys.optional("regexes", "Expressions: the list applies if one of them is found in the target.", texts());
    let stopwords = keys.optional("stopwords", "Texts: the list applies if one of them is in the credential.", texts());
    let regex_target = keys.optional(
        "regexTarget",
        "Text in which `regexes` are searched: secret (unless set), match or line.",
        word(&AllowTarget::ALL, AllowTarget::as_str),
    );
    let all = keys.optional(
        "condition",
        "OR (unless set): `regexes` or `stopwords` must match. AND: both must match.",
        word(&[false, true], |all| if all { "AND" } else { "OR" }),
    );
    let all = all.unwrap_or_default();
    keys.optional("description", "A note for people, without effect.", free_text(MAX_TEXT));
    let mut left_out = false;
    for key in ["paths", "commits", "targetRules"] {
        if keys.optional(key, "Of gitleaks: not taken over.", texts()).is_some() {
            let message = format!("`{key}` is ignored: it does not apply to texts of agents");
            // With AND, or for named rules, the rest of the list would exempt more than was meant.
            left_out |= all || key == "targetRules";
            keys.warn(key, message, if left_out { "the list is ignored" } else { "the rest of the list applies" });
        }
    }
    let (regexes, stopwords) = (regexes.unwrap_or_default(), stopwords.unwrap_or_default());
    Some((!left_out).then_some(AllowList { regexes, stopwords, regex_target, all }))
}

/// Checks that a name may stand in braces. Digits there would read as a repetition.
fn is_term(name: &str) -> Result<(), &'static str> {
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if plain && !name.is_empty() { Ok(()) } else { Err("use lower-case letters and `_`") }
}

fn id() -> Text<String> {
    text("an id", 100, |text| {
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if plain { Ok(text.to_owned()) } else { Err("use letters, digits, `_` and `-`".to_owned()) }
    })
}

fn texts() -> List<Text<String>> {
    List { len: 0..=MAX_ITEMS, single: true, item: free_text(MAX_TEXT) }
}

fn list_of<S: Shape>(item: S) -> List<S> {
    List { len: 0..=MAX_ITEMS, single: true, item }
}

fn samples() -> List<OneSample> {
    List { len: 0..=MAX_ITEMS, single: false, item: OneSample }
}

/// Shape of an example: a text, or an array of its parts.
struct OneSample;

impl Shape for OneSample {
    type Value = Sample;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<Sample> {
        let parts = match &node.kind {
            NodeValue::Text(text) => return Some(Sample::Whole(text.clone())),
            NodeValue::List(parts) => {
                parts.iter().map(|part| if let NodeValue::Text(text) = &part.kind { Some(text.clone()) } else { None })
            }
            _ => return refuse(node, "is not an example", "write a text, or an array of its parts", faults),
        };
        let parts: Option<Vec<String>> = parts.collect();
        if parts.is_none() {
            faults.fault(node.at, "a part of the example is not a text", "write an array of texts");
        }
        parts.map(Sample::Parts)
    }

    fn schema(&mut self) -> serde_json::Value {
        serde_json::json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
    }
}

/// Shape that accepts any value and drops it.
struct Any;

impl Shape for Any {
    type Value = ();

    fn read(&mut self, _: &Node, _: &mut Faults) -> Option<()> {
        Some(())
    }

    fn schema(&mut self) -> serde_json::Value {
        serde_json::json!({})
    }
}
