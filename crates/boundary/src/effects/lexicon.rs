//! Verbs of tools and their actions. In: a word. Out: its verb and form. Lists of words, and the little grammar that
//! English verbs have.

use std::{collections::HashMap, sync::LazyLock};

use super::lists::LISTS;
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

/// Two words with a meaning of their own; the second may be one of several.
const PHRASES: [(&str, &str, Act); 17] = [
    ("back", "up", Act::Change),
    ("check", "all box checkbox in item off out task todo", Act::Change),
    ("clean", "up", Act::Destroy),
    ("extract", "all archive archives file files tar tarball zip", Act::Change),
    ("format", "device disk disks drive partition volume", Act::Destroy),
    ("get", "rid", Act::Destroy),
    ("look", "up", Act::Read),
    ("place", "bet bets bid bids order orders trade trades", Act::Destroy),
    ("power", "down off", Act::Destroy),
    ("roll", "back", Act::Destroy),
    ("shut", "down", Act::Destroy),
    ("sign", "in off out up", Act::Change),
    ("take", "screenshot snapshot", Act::Read),
    ("tear", "down", Act::Destroy),
    ("turn", "off on", Act::Change),
    ("wait", "for", Act::Read),
    ("who", "am", Act::Read),
];

/// Pairs of words that form a noun, whatever verb they hold.
const COMPOUNDS: [(&str, &str); 10] = [
    ("access", "control"),
    ("check", "run suite"),
    ("code", "review scanning"),
    ("deploy", "key"),
    ("feature join merge pull", "request"),
    ("job test workflow", "run"),
    ("agent model prompt", "eval"),
    ("place", "detail"),
    ("release", "note"),
    ("status", "check update"),
];

/// Objects of `resolve` that are looked up. Anything else that is resolved is closed, merged or ended.
const NAMED: &str = "address addresses dns domain domains handle handles host hostname hostnames hosts id identifier \
    identifiers ids library libraries name names path paths reference references symbol symbols uri uris url urls";

/// Objects of `verify` that are verified for good: their owner may do more afterwards.
const PROVEN: &str = "account code domain email identity otp payment phone user webhook";

/// Objects of `convert` that are converted for good: a lead becomes a customer.
const WON: &str = "deal draft lead leads opportunity quote subscriber trial";

/// Objects of `show` that disturb a person.
const SHOWN: &str = "alert dialog message modal notification popup prompt toast";

/// Objects of `ping` that notify people.
const HEARERS: &str = "channel everyone group here member members people person role team user users";

/// Words that look like a prefix and a verb, and are none.
const NO_VERBS: [&str; 9] =
    ["autocomplete", "design", "devote", "offend", "offset", "prefix", "preset", "remark", "resort"];

/// Prefixes that keep a verb's action: `bulk_delete`, `redeploy`.
const AGAIN: [&str; 7] = ["re", "bulk", "batch", "multi", "auto", "mass", "pre"];
/// Prefixes that reverse a verb's action: `unassign`, `disconnect`.
const AGAINST: [&str; 4] = ["un", "dis", "de", "off"];
/// Objects that follow a verb in a name without borders between its words: `deletefile`.
const OBJECTS: [&str; 33] = [
    "all",
    "branch",
    "collection",
    "comment",
    "data",
    "directory",
    "discussion",
    "document",
    "email",
    "entities",
    "entity",
    "event",
    "file",
    "folder",
    "issue",
    "item",
    "message",
    "node",
    "object",
    "observation",
    "order",
    "page",
    "post",
    "product",
    "project",
    "record",
    "relation",
    "repo",
    "repository",
    "row",
    "table",
    "task",
    "user",
];

/// Past participles that do not end in `ed`.
const PARTICIPLES: [(&str, &str); 12] = [
    ("sent", "send"),
    ("written", "write"),
    ("overwritten", "overwrite"),
    ("rewritten", "rewrite"),
    ("made", "make"),
    ("paid", "pay"),
    ("sold", "sell"),
    ("bought", "buy"),
    ("withdrawn", "withdraw"),
    ("begun", "begin"),
    ("reset", "reset"),
    ("put", "put"),
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
    if NO_VERBS.contains(&word) {
        return None;
    }
    let below = |prefix: &&str| word.strip_prefix(*prefix).and_then(|rest| LEXICON.get(rest)).copied();
    let again = AGAIN.iter().find_map(below).filter(|verb| !verb.noun || verb.act != Act::Read);
    let undone = || {
        let verb = AGAINST.iter().find_map(below)?;
        // Reversing a removal is a change; reversing a read makes no word.
        matches!(verb.act, Act::Change | Act::Run | Act::Destroy).then_some(Verb { act: Act::Change, ..verb })
    };
    again.or_else(undone).or_else(|| run_together(word))
}

/// The verb of a name without borders between its words, such as `deletefile`.
fn run_together(word: &str) -> Option<Verb> {
    OBJECTS.iter().find_map(|object| {
        let start =
            word.strip_suffix('s').unwrap_or(word).strip_suffix(*object).or_else(|| word.strip_suffix(*object))?;
        LEXICON.get(start).copied()
    })
}

/// Verb that two neighbouring words form together.
pub(super) fn phrase(first: &str, second: &str) -> Option<Verb> {
    let (word, _, act) =
        PHRASES.into_iter().find(|(one, others, _)| *one == first && others.split(' ').any(|two| two == second))?;
    Some(Verb { word, act, noun: false })
}

/// True if two neighbouring words form a noun.
pub(super) fn compound(first: &str, second: &str) -> bool {
    let second = second.strip_suffix('s').unwrap_or(second);
    COMPOUNDS
        .into_iter()
        .any(|(ones, twos)| ones.split(' ').any(|one| one == first) && twos.split(' ').any(|two| two == second))
}

/// Adjusts a verb to its objects: resolving a name is a lookup, verifying a domain changes what may be done with it.
pub(super) fn with_objects<'a>(verb: Verb, mut objects: impl Iterator<Item = &'a str>) -> Verb {
    let (nouns, act) = match verb.word {
        "resolve" => (NAMED, Act::Read),
        "verify" => (PROVEN, Act::Change),
        "convert" => (WON, Act::Change),
        "ping" => (HEARERS, Act::Change),
        "display" | "show" => (SHOWN, Act::Change),
        _ => return verb,
    };
    let about = objects.any(|object| nouns.split_whitespace().any(|noun| noun == object));
    if about { Verb { act, ..verb } } else { verb }
}

/// Verb of a word in a sentence, and its form.
pub(super) fn inflected(word: &str) -> Option<(Verb, VerbForm)> {
    if let Some(verb) = verb(word) {
        return Some((verb, VerbForm::Base));
    }
    if let Some((_, base)) = PARTICIPLES.iter().find(|(participle, _)| *participle == word) {
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
