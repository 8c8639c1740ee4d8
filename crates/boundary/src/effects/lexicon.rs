//! Verbs of tools and their actions. In: a word. Out: its verb and form. Lists of words, and the little grammar that
//! English verbs have.

use std::{collections::HashMap, sync::LazyLock};

use super::lists::{LISTS, among};
use umbra_domain::Effect;

/// Action of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Thinking about the input: `validate`, `compare`.
    Compute,
    /// Fetching what exists.
    Read,
    /// Asking in a language that may also change things: SQL, GraphQL.
    Query,
    /// Starting something: `run`, `launch`.
    Run,
    /// Doing whatever the input says: `execute`, `invoke`.
    RunInput,
    /// Adding or changing.
    Change,
    /// Removing, or an action that cannot be taken back.
    Destroy,
}

impl Act {
    /// Effect of the verb by itself.
    pub fn effect(self) -> Effect {
        match self {
            Self::Compute | Self::Read | Self::Query => Effect::Read,
            Self::Run | Self::Change => Effect::Write,
            Self::RunInput | Self::Destroy => Effect::Destructive,
        }
    }
}

/// A known verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verb {
    /// Base form.
    pub word: &'static str,
    pub act: Act,
    /// True if the word is as often a noun or an adjective: `release`, `order`, `open`.
    pub noun: bool,
}

/// Form of a verb in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerbForm {
    /// `delete`
    Base,
    /// `deletes`
    Third,
    /// `deleting`
    Ing,
    /// `deleted`
    Past,
}

/// Actions, by their names in `data/effects.toml`; a verb that is in two lists counts by the first.
const ACTS: [(Act, &str); 7] = [
    (Act::Compute, "compute"),
    (Act::Read, "look"),
    (Act::Query, "query"),
    (Act::Run, "run"),
    (Act::RunInput, "obey"),
    (Act::Change, "change"),
    (Act::Destroy, "destroy"),
];

type Lexicon = HashMap<&'static str, Verb>;

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| {
    let mut lexicon = Lexicon::new();
    for (act, verbs) in ACTS.into_iter().filter_map(|(act, name)| Some((act, LISTS.verbs.get(name)?))) {
        for (words, noun) in [(&verbs.alone, false), (&verbs.nouns, true)] {
            for word in words.split_whitespace() {
                lexicon.entry(word).or_insert(Verb { word, act, noun });
            }
        }
    }
    lexicon
});

/// Verb of a word in a name. Names are terse: only base forms are verbs there; `updates` or `deleted` describe a thing.
pub(super) fn verb(word: &str) -> Option<Verb> {
    if let Some(verb) = LEXICON.get(word) {
        return Some(*verb);
    }
    if among(&LISTS.forms.no_verbs, word) {
        return None;
    }
    let below = |prefix| word.strip_prefix(prefix).and_then(|rest| LEXICON.get(rest)).copied();
    let again = LISTS.forms.again.split_whitespace().find_map(below).filter(|verb| !verb.noun || verb.act != Act::Read);
    let undone = || {
        let verb = LISTS.forms.against.split_whitespace().find_map(below)?;
        // Reversing a removal is a change; reversing a read makes no word.
        matches!(verb.act, Act::Change | Act::Run | Act::Destroy).then_some(Verb { act: Act::Change, ..verb })
    };
    again.or_else(undone).or_else(|| run_together(word))
}

/// The verb of a name without borders between its words, such as `deletefile`.
fn run_together(word: &str) -> Option<Verb> {
    LISTS.forms.objects.split_whitespace().find_map(|object| {
        let start =
            word.strip_suffix('s').unwrap_or(word).strip_suffix(object).or_else(|| word.strip_suffix(object))?;
        LEXICON.get(start).copied()
    })
}

/// Verb that two neighbouring words form together.
pub(super) fn phrase(first: &str, second: &str) -> Option<Verb> {
    ACTS.into_iter().find_map(|(act, name)| {
        let (word, seconds) = LISTS.phrases.get(name)?.get_key_value(first)?;
        among(seconds, second).then_some(Verb { word, act, noun: false })
    })
}

/// True if two neighbouring words form a noun.
pub(super) fn compound(first: &str, second: &str) -> bool {
    let second = second.strip_suffix('s').unwrap_or(second);
    LISTS.compounds.get(first).is_some_and(|seconds| among(seconds, second))
}

/// Adjusts a verb to its objects: resolving a name is a lookup, verifying a domain changes what may be done with it.
pub(super) fn with_objects<'a>(verb: Verb, mut objects: impl Iterator<Item = &'a str>) -> Verb {
    let known = ACTS.into_iter().find_map(|(act, name)| Some((act, LISTS.objects.get(name)?.get(verb.word)?)));
    match known {
        Some((act, nouns)) if objects.any(|object| among(nouns, object)) => Verb { act, ..verb },
        _ => verb,
    }
}

/// Verb of a word in a sentence, and its form.
pub(super) fn inflected(word: &str) -> Option<(Verb, VerbForm)> {
    if let Some(verb) = verb(word) {
        return Some((verb, VerbForm::Base));
    }
    if let Some(base) = LISTS.participles.get(word) {
        return verb(base).map(|verb| (verb, VerbForm::Past));
    }
    for (ending, form) in [("s", VerbForm::Third), ("ed", VerbForm::Past), ("ing", VerbForm::Ing)] {
        let Some(stem) = word.strip_suffix(ending).filter(|stem| stem.len() >= 2) else { continue };
        if let Some(verb) = stems(stem, ending).iter().find_map(|stem| verb(stem)) {
            return Some((verb, form));
        }
    }
    None
}

/// Possible stems of a word before its ending.
fn stems(stem: &str, ending: &str) -> Vec<String> {
    let mut stems = vec![stem.to_owned()];
    if ending == "s" {
        // publish-es, appl-ies
        stems.extend(stem.strip_suffix("ie").map(|short| format!("{short}y")));
        stems.extend(stem.strip_suffix('e').map(str::to_owned));
        return stems;
    }
    stems.push(format!("{stem}e"));
    if ending == "ed" {
        stems.extend(stem.strip_suffix('i').map(|short| format!("{short}y")));
    }
    let mut last = stem.chars().rev();
    if let (Some(one), Some(two)) = (last.next(), last.next())
        && one == two
        && let Some(short) = stem.strip_suffix(one)
    {
        // dropp-ed, submitt-ing
        stems.push(short.to_owned());
    }
    stems
}
