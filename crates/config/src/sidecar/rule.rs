//! Rules of the sidecar file about documents, about texts, and in words that a model judges.

use std::time::Duration;

use super::{
    super::{
        fault::{Faults, listed, quoted},
        keys::{Keys, Record},
        number::Time,
        rules::{MAX_RULES, NAME, RuleHead, head, reason, tools},
        shape::{List, word},
        text::printable,
        tree::{Kind, Node},
    },
    DOCUMENTS, MODELS, NameRule, TEXTS,
};
use umbra_domain::{
    CheckName, Severity,
    sidecar::{DocumentNeed, DocumentOf, DocumentRule, ModelRule, SidecarVerdict, Since, TextOf, TextRule},
};

/// Most rules in words: each may cost a model call.
const MAX_MODEL_RULES: usize = 32;
/// Shortest, longest and default time that a rule in words waits for its model.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(10);
const USUAL: Duration = Duration::from_secs(1);

/// Declares `documents`.
pub(super) fn documents(keys: &mut Keys<'_>, name: NameRule<'_>) -> Vec<DocumentRule> {
    let item = Record(|keys: &mut Keys<'_>| document(keys, name));
    let rules = keys.optional(
        DOCUMENTS,
        "Documents that have to be in order before the agent goes on.",
        List { len: 0..=MAX_RULES, single: false, item },
    );
    rules.unwrap_or_default()
}

/// Declares `texts`.
pub(super) fn texts(keys: &mut Keys<'_>) -> Vec<TextRule> {
    let rules = keys.optional(
        TEXTS,
        "What no text may have in it, by the built-in checks.",
        List { len: 0..=MAX_RULES, single: false, item: Record(text) },
    );
    rules.unwrap_or_default()
}

/// Declares `models`.
pub(super) fn models(keys: &mut Keys<'_>, shadow: NameRule<'_>) -> Vec<ModelRule> {
    let item = Record(|keys: &mut Keys<'_>| model(keys, shadow));
    let rules = keys.optional(
        MODELS,
        "Policies in words, which a model holds messages and calls against. It can raise what the other rules say, and \
         never lower it.",
        List { len: 0..=MAX_MODEL_RULES, single: false, item },
    );
    rules.unwrap_or_default()
}

/// Notes a fault for each name that a rule of the tools file has already. Reads the nodes, so the fault stands among
/// the other faults of its rule.
pub(super) fn refuse_taken(root: &Node, lists: &[&str], taken: &dyn Fn(&str) -> bool, faults: &mut Faults) {
    for list in lists {
        let Some(Kind::List(rules)) = root.get(list).map(|node| &node.kind) else { continue };
        for (index, rule) in rules.iter().enumerate() {
            let Some(Node { kind: Kind::Text(name), at }) = rule.get(NAME) else { continue };
            if taken(name) {
                let message = format!("the name {} is taken", quoted(name));
                let help = "a rule of the tools file has it, and holds here too; choose another";
                faults.within(format!(".{list}[{index}].{NAME}"), |faults| faults.fault(*at, message, help));
            }
        }
    }
}

fn document(keys: &mut Keys<'_>, check: NameRule<'_>) -> Option<DocumentRule> {
    let RuleHead { name, mode, agents, routes, modes } = head(keys);
    let tools = tools(keys, "Tools (names or globs): then it is about calls of these alone.");
    let of = keys.optional(
        "of",
        "The steps that it is about: turn (its start), message (an answer: a message of the agent's own that comes without \
         calls), call; each of them unless set.",
        List { len: 1..=DocumentOf::ALL.len(), single: true, item: word(&DocumentOf::ALL, DocumentOf::as_str) },
    );
    let of = of.unwrap_or_default();
    if !tools.is_empty() && of.iter().any(|of| *of != DocumentOf::Call) {
        keys.fault("of", "a rule with tools is about calls alone", "leave out `tools`, or write of: call");
    }
    let document = keys.required("document", "The document's name, such as todo.", printable("a document's name", 64));
    let section = keys.optional(
        "section",
        "A section of it, by slug or title, with those within it; the whole document unless set.",
        printable("a section's name", 200),
    );
    let needs = keys.required(
        "needs",
        "exists: it is there, and a section not empty. updated: it was changed in substance, by words or an item's state. \
         complete: it has items with boxes, and none of them is open. What is not there fulfils none of these.",
        word(&DocumentNeed::ALL, DocumentNeed::as_str),
    );
    let since = keys.optional(
        "since",
        "Of updated: changed since the last turn began (turn, unless set), or since the sidecar was attached (session).",
        word(&Since::ALL, Since::as_str),
    );
    let verdict = verdict(keys, "What is said until then: warn (the agent goes on, and is told), or block.");
    let reason = reason(keys, "Why, and what to do, for the agent that is told.");
    if let Some(Err(problem)) = document.as_deref().map(check) {
        keys.fault("document", problem, "write a name such as todo, spec or notes");
    }
    if since.is_some() && needs.is_some_and(|needs| needs != DocumentNeed::Updated) {
        keys.fault("since", "only what has to be updated has a since", "write needs: updated, or leave it out");
    }
    let (name, document, needs, verdict) = (name?, document?, needs?, verdict?);
    let reason = reason.unwrap_or_else(|| {
        let of = section.as_ref().map(|section| format!(" ({section})")).unwrap_or_default();
        let state = match needs {
            DocumentNeed::Exists => "has to be there and say something",
            DocumentNeed::Updated => "has to be updated first",
            DocumentNeed::Complete => "has to have no open item left",
        };
        format!("the document {document}{of} {state}")
    });
    let since = since.unwrap_or_default();
    Some(DocumentRule {
        name,
        mode,
        agents,
        routes,
        modes,
        of,
        tools,
        document,
        section,
        needs,
        since,
        verdict,
        reason,
    })
}

fn text(keys: &mut Keys<'_>) -> Option<TextRule> {
    let RuleHead { name, mode, agents, routes, modes } = head(keys);
    let of = keys.optional(
        "of",
        "The texts that are looked at: message, call (its arguments), result (what a tool answered); every one unless set.",
        List { len: 1..=TextOf::ALL.len(), single: true, item: word(&TextOf::ALL, TextOf::as_str) },
    );
    let checks = keys.required(
        "checks",
        "The built-in checks that look.",
        List { len: 1..=CheckName::ALL.len(), single: true, item: word(&CheckName::ALL, CheckName::as_str) },
    );
    let severity = keys.optional(
        "severity",
        "The least severity that counts: info, warning (unless set) or critical.",
        word(&[Severity::Info, Severity::Warning, Severity::Critical], Severity::as_str),
    );
    let verdict =
        verdict(keys, "What is said where they see something: warn (the agent goes on, and is told), or block.");
    let reason = reason(keys, "Why, for the agent that is told.");
    let of = of.unwrap_or_default();
    for (index, check) in checks.iter().flatten().enumerate() {
        let seen: Vec<&str> =
            TextOf::ALL.into_iter().filter(|kind| kind.is_seen_by(*check)).map(TextOf::as_str).collect();
        if seen.is_empty() {
            let message =
                format!("`{}` needs a call and what was said of it, and a moment has one of them", check.as_str());
            keys.fault_of("checks", Some(index), message, "leave it to a shadow's `checks`");
        } else if !of.is_empty() && !of.iter().any(|kind| kind.is_seen_by(*check)) {
            let message = format!("`{}` looks at none of these texts", check.as_str());
            keys.fault_of("checks", Some(index), message, format!("it looks at {}", listed(&seen)));
        }
    }
    let (name, checks, verdict) = (name?, checks?, verdict?);
    Some(TextRule {
        reason: reason.unwrap_or_else(|| format!("the policy {name} says {}", verdict.as_str())),
        name,
        mode,
        agents,
        routes,
        modes,
        of,
        checks,
        severity: severity.unwrap_or(Severity::Warning),
        verdict,
    })
}

fn model(keys: &mut Keys<'_>, known: NameRule<'_>) -> Option<ModelRule> {
    let RuleHead { name, mode, agents, routes, modes } = head(keys);
    let tools = tools(
        keys,
        "Tools (names or globs): then it is about calls of these alone. Unless set, about messages and calls alike.",
    );
    let shadow = keys.required(
        "shadow",
        "The shadow that judges by its criteria, with its model and within its caps.",
        printable("a shadow's name", 100),
    );
    let deadline = keys.optional(
        "deadline",
        "How long its answer is waited for (1s unless set). Where none comes, the other rules' word stands.",
        Time(SHORTEST..=LONGEST),
    );
    let verdict = verdict(keys, "What is said where it is violated: warn (the agent goes on, and is told), or block.");
    let reason = reason(keys, "Why, for the agent that is told.");
    if let Some(Err(problem)) = shadow.as_deref().map(known) {
        keys.fault("shadow", problem, "name a shadow of the shadows file that has criteria and a model");
    }
    let (name, shadow, verdict) = (name?, shadow?, verdict?);
    Some(ModelRule {
        reason: reason.unwrap_or_else(|| format!("the policy {name} says {}", verdict.as_str())),
        name,
        mode,
        agents,
        routes,
        modes,
        tools,
        shadow,
        deadline: deadline.unwrap_or(USUAL),
        verdict,
    })
}

/// Declares `verdict`.
fn verdict(keys: &mut Keys<'_>, about: &str) -> Option<SidecarVerdict> {
    keys.required("verdict", about, word(&SidecarVerdict::OF_RULES, SidecarVerdict::as_str))
}
