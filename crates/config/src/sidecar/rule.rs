//! Rules of the sidecar file about documents, about texts, and in words that a model judges.

use std::time::Duration;

use super::{
    super::{
        fault::listed,
        keys::{Keys, Record},
        number::Time,
        rules::{MAX_RULES, RuleHead, head, reason, tools},
        shape::{List, word},
        text::printable,
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
    keys.or_default(
        DOCUMENTS,
        "Rules about documents that must be in order before the agent goes on.",
        List { len: 0..=MAX_RULES, single: false, item },
    )
}

/// Declares `texts`.
pub(super) fn texts(keys: &mut Keys<'_>) -> Vec<TextRule> {
    keys.or_default(
        TEXTS,
        "Rules about the contents of texts, judged by the built-in checks.",
        List { len: 0..=MAX_RULES, single: false, item: Record(text) },
    )
}

/// Declares `models`.
pub(super) fn models(keys: &mut Keys<'_>, shadow: NameRule<'_>) -> Vec<ModelRule> {
    let item = Record(|keys: &mut Keys<'_>| model(keys, shadow));
    keys.or_default(
        MODELS,
        "Policies in words: a model judges messages and calls by them. The model can raise the verdict of the other \
         rules, and never lower it.",
        List { len: 0..=MAX_MODEL_RULES, single: false, item },
    )
}

fn document(keys: &mut Keys<'_>, check: NameRule<'_>) -> Option<DocumentRule> {
    let RuleHead { name, mode, agents, routes, modes } = head(keys);
    let tools = tools(keys, "Tools (names or globs): the rule is then about calls of these alone.");
    let of = keys.optional(
        "of",
        "Steps that the rule is about: turn (its start), message (an answer: a message of the agent's own that comes \
         without calls), call; each of them unless set.",
        List { len: 1..=DocumentOf::ALL.len(), single: true, item: word(&DocumentOf::ALL, DocumentOf::as_str) },
    );
    let of = of.unwrap_or_default();
    if !tools.is_empty() && of.iter().any(|of| *of != DocumentOf::Call) {
        keys.fault("of", "a rule with tools applies only to calls", "leave out `tools`, or write of: call");
    }
    let document = keys.required("document", "The document's name, such as todo.", printable("a document's name", 64));
    let section = keys.optional(
        "section",
        "A section of the document, by slug or title, with the sections within it; the whole document unless set.",
        printable("a section's name", 200),
    );
    let needs = keys.required(
        "needs",
        "exists: the document is there, and a section is not empty. updated: it was changed in substance, by words or \
         an item's state. complete: there are items with boxes, and none of them is open. A missing document or \
         section fulfils none of these.",
        word(&DocumentNeed::ALL, DocumentNeed::as_str),
    );
    let since = keys.optional(
        "since",
        "For updated: a change since the last turn began (turn, unless set), or since the sidecar was attached \
         (session).",
        word(&Since::ALL, Since::as_str),
    );
    let verdict = verdict(keys, "Verdict until the need is met: warn (the agent goes on, and is told), or block.");
    let reason = reason(keys, "Reason of the verdict, and advice, for the agent.");
    if let Some(Err(problem)) = document.as_deref().map(check) {
        keys.fault("document", problem, "write a name such as todo, spec or notes");
    }
    if since.is_some() && needs.is_some_and(|needs| needs != DocumentNeed::Updated) {
        keys.fault("since", "since applies only to needs: updated", "write needs: updated, or leave since out");
    }
    let (name, document, needs, verdict) = (name?, document?, needs?, verdict?);
    let reason = reason.unwrap_or_else(|| {
        let of = section.as_ref().map(|section| format!(" ({section})")).unwrap_or_default();
        let state = match needs {
            DocumentNeed::Exists => "must exist and have content",
            DocumentNeed::Updated => "must be updated first",
            DocumentNeed::Complete => "must have no open items",
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
        "Texts that are checked: message, call (its arguments), result (the answer of a tool); every one unless set.",
        List { len: 1..=TextOf::ALL.len(), single: true, item: word(&TextOf::ALL, TextOf::as_str) },
    );
    let checks = keys.required(
        "checks",
        "Built-in checks that examine the texts.",
        List { len: 1..=CheckName::ALL.len(), single: true, item: word(&CheckName::ALL, CheckName::as_str) },
    );
    let severity = keys.optional(
        "severity",
        "Least severity of a finding that counts: info, warning (unless set) or critical.",
        word(&[Severity::Info, Severity::Warning, Severity::Critical], Severity::as_str),
    );
    let verdict =
        verdict(keys, "Verdict where a check finds something: warn (the agent goes on, and is told), or block.");
    let reason = reason(keys, "Reason of the verdict, for the agent.");
    let of = of.unwrap_or_default();
    for (index, check) in checks.iter().flatten().enumerate() {
        let seen: Vec<&str> =
            TextOf::ALL.into_iter().filter(|kind| kind.is_seen_by(*check)).map(TextOf::as_str).collect();
        if seen.is_empty() {
            let message =
                format!("`{}` compares a call with text about it, and a step has only one of them", check.as_str());
            keys.fault_of("checks", Some(index), message, "leave it to a shadow's `checks`");
        } else if !of.is_empty() && !of.iter().any(|kind| kind.is_seen_by(*check)) {
            let message = format!("`{}` checks none of these texts", check.as_str());
            keys.fault_of("checks", Some(index), message, format!("it checks {}", listed(&seen)));
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
        "Tools (names or globs): the rule is then about calls of these alone. Unless set, about messages and calls \
         alike.",
    );
    let shadow = keys.required(
        "shadow",
        "The shadow that judges by its criteria, with its model and within its caps.",
        printable("a shadow's name", 100),
    );
    let deadline = keys.optional(
        "deadline",
        "Longest wait for the model's answer (1s unless set). Where none comes, the verdict of the other rules stands.",
        Time(SHORTEST..=LONGEST),
    );
    let verdict = verdict(keys, "Verdict where the rule is violated: warn (the agent goes on, and is told), or block.");
    let reason = reason(keys, "Reason of the verdict, for the agent.");
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
