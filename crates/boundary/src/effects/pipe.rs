//! Judges pipelines of languages for logs and metrics: Kusto, Splunk, Loki and others. In: a text. Out: whether it is
//! such a pipeline, and whether each of its stages is known to be read-only. An unknown stage may delete, send, store,
//! or run a program.

use super::{
    functions::is_known,
    lexicon::verb,
    lists::{LISTS, among},
};
use umbra_domain::Effect;

/// Most stages that are judged.
const MOST: usize = 500;
/// True if a text can only be a pipeline: it names an index as such languages do, or one of its stages opens with a
/// known word.
pub(super) fn is_pipeline(text: &str) -> bool {
    let small = text.get(..text.floor_char_boundary(2_000)).unwrap_or_default();
    let named = ["index=", "sourcetype=", "index =", "_sourceCategory="].iter().any(|sign| small.contains(sign));
    let opened = || stages(text, false).into_iter().skip(1).any(|stage| is_stage(first(stage)) && stage.contains(' '));
    text.contains('|') && (named || opened())
}

/// True if every stage of a pipeline is known to be read-only, whether or not a backslash escapes quotes.
pub(super) fn is_read_only(text: &str) -> bool {
    let expands = text.contains('`') && !text.trim_start().starts_with('{');
    !expands && [false, true].into_iter().all(|escapes| looks_if(text, escapes))
}

fn looks_if(text: &str, escapes: bool) -> bool {
    let all = stages(text, escapes);
    all.len() <= MOST
        && all.iter().enumerate().all(|(at, stage)| {
            let stage = stage.trim_start_matches(|c: char| c.is_whitespace() || "=~>!([".contains(c));
            at == 0 && opens(stage) || at > 0 && stage_looks(stage)
        })
}

/// True if a pipeline that may be prose has a stage that is an order: `index | delete`.
pub(super) fn orders(text: &str) -> bool {
    stages(text, false).into_iter().skip(1).take(MOST).any(|stage| {
        let word = first(stage);
        let acts = |word: &str| verb(word).is_some_and(|verb| !verb.noun && verb.act.effect() > Effect::Read);
        let known = "collect map mcollect meventcollect outputcsv outputlookup outputtext runshellscript script sendalert sendemail \
                     summaryindex tscollect";
        !is_stage(word) && acts(word) || among(known, word)
    })
}

/// True if the first stage is a search or a table, and no function.
fn opens(stage: &str) -> bool {
    let plain = !matches!(first(stage), "delete" | "invoke" | "evaluate" | "script" | "run" | "map" | "externaldata");
    plain && !stage.contains("externaldata")
}

fn stage_looks(stage: &str) -> bool {
    let word = first(stage);
    let rest = stage.get(word.len()..).unwrap_or_default().trim_start();
    if word == "evaluate" {
        // `evaluate hint.distribution=per_node bag_unpack(x)`
        let plugin = rest.split_whitespace().find(|word| !word.starts_with("hint.")).unwrap_or_default();
        return among(&LISTS.pipelines.plugins, plugin.split('(').next().unwrap_or_default());
    }
    // `level="error"`, `status >= 500`: a label is compared.
    let compared = !word.is_empty() && rest.starts_with(['=', '!', '<', '>']);
    // `|= "text"` without its sign.
    let quoted = stage.starts_with(['"', '\'', '`']);
    let counts = !word.is_empty() && rest.starts_with('(') && is_known(word);
    word.is_empty() && stage.trim().is_empty() || is_stage(word) || compared || quoted || counts
}

fn is_stage(word: &str) -> bool {
    among(&LISTS.pipelines.stages, &word.to_ascii_lowercase())
}

fn first(stage: &str) -> &str {
    let stage = stage.trim_start_matches(|c: char| c.is_whitespace() || "([".contains(c));
    let end = stage.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-' || c == '@' || c == '.'));
    stage.get(..end.unwrap_or(stage.len())).unwrap_or_default()
}

/// Stages of a text, between pipe signs outside strings.
fn stages(text: &str, escapes: bool) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut from, mut quote) = (0, None);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (c, quote) {
            ('\\', Some(_)) if escapes => drop(chars.next()),
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            ('|', None) => {
                found.push(text.get(from..at).unwrap_or_default());
                from = at + 1;
            }
            _ => {}
        }
        if found.len() > MOST {
            break;
        }
    }
    found.push(text.get(from..).unwrap_or_default());
    found
}
