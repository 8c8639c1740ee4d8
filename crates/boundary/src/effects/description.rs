//! Reads a tool's description. In: the text of its author. Out: the verb that opens it, and what else it says the tool
//! does.
//!
//! A description also speaks of other tools, of what its reader should do, and of what the tool does not do. So a verb
//! counts only where the tool is its subject: at the head of a sentence, beside such a verb (`fetches the page and
//! saves it`), or after `it` and `this tool`; and not after `not` or `without`.

use super::{
    lexicon::{Act, Verb, VerbForm, inflected, phrase, with_objects},
    lists::{LISTS, among},
    name::light,
};
use umbra_domain::Effect;

/// Longest part of a description that is read, in bytes.
const MAX_BYTES: usize = 16 * 1024;
/// Most words before the verb of a sentence.
const MAX_OPENING: usize = 14;

/// A word of a description.
#[derive(Debug)]
struct DescriptionWord {
    /// Lower-case text of the word.
    text: String,
    /// Last punctuation mark between the word before and this one.
    mark: char,
    /// True if the word is written in capitals.
    capitals: bool,
}

/// A description as sentences of words.
#[derive(Debug)]
pub(super) struct Description(Vec<Vec<DescriptionWord>>);

/// Verb whose subject is the tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct SubjectVerb {
    pub verb: Verb,
    /// True if the word can hardly be a noun.
    pub sure: bool,
}

impl Description {
    pub fn of(text: &str) -> Self {
        Self(sentences(text))
    }

    /// Verb that opens the description.
    pub fn opening(&self) -> Option<SubjectVerb> {
        let (_, said, _) = head(self.0.first()?)?;
        Some(said)
    }

    /// True if something holds at a word of a sentence.
    fn any(&self, holds: impl Fn(&[DescriptionWord], usize) -> bool) -> bool {
        self.0.iter().any(|sentence| (0..sentence.len()).any(|at| holds(sentence, at)))
    }

    /// True if the description says that nothing is changed.
    pub fn read_only(&self) -> bool {
        self.any(|sentence, at| {
            let (one, two) = (text(sentence, at), text(sentence, at + 1));
            let said = matches!(one, "read-only" | "readonly") || (one == "read" && two == "only");
            let conditional =
                ["in", "if", "when", "disable", "disabled", "except"].contains(&text_before(sentence, at, 1));
            said && !conditional && !negated(sentence, at)
        })
    }

    /// True if the description says that only selects can be run.
    pub fn selects_only(&self) -> bool {
        let beside = ["only", "queries", "query", "statement", "statements"];
        self.read_only()
            || self.any(|sentence, at| {
                sentence.get(at).is_some_and(|word| word.capitals && word.text == "select")
                    && !negated(sentence, at)
                    && (beside.contains(&text(sentence, at + 1)) || text_before(sentence, at, 1) == "only")
            })
    }

    /// True if one of these words is in the first two sentences.
    pub fn mentions(&self, words: &str) -> bool {
        self.0.iter().take(2).flatten().any(|word| among(words, &word.text))
    }

    /// True if the description says that the action cannot be undone.
    pub fn irrevocable(&self) -> bool {
        self.any(|sentence, at| match text(sentence, at) {
            "undone" | "reversed" => ["cannot", "can't", "not"].iter().any(|no| within(sentence, at, 3, no)),
            "irreversible" | "irreversibly" | "destructive" => !negated(sentence, at),
            _ => false,
        })
    }

    /// Verb of the most severe action that the tool is said to take; none if all are reads.
    pub fn worst_verb(&self) -> Option<Verb> {
        let mut gravest: Option<Verb> = None;
        let mut note = |verb: Verb| {
            if among(&LISTS.descriptions.harmless, verb.word) {
                return;
            }
            if gravest.is_none_or(|known| known.act.effect() < verb.act.effect()) {
                gravest = Some(verb);
            }
        };
        for (index, sentence) in self.0.iter().enumerate() {
            if let Some((at, said, form)) = head(sentence)
                && (index == 0 || form == VerbForm::Third)
            {
                // The opening word says what the tool does: `Reserve tickets`.
                let opens = index == 0
                    && at + 1 < sentence.len()
                    && !among(&LISTS.descriptions.not_done, text(sentence, at + 1));
                if (said.sure || opens) && !negated(sentence, at) {
                    note(said.verb);
                }
                beside(sentence, at, form, &mut note);
            }
            done_by_it(sentence, &mut note);
            note_passives(sentence, &mut note);
            if let Some(verb) = kept_on_disk(sentence) {
                note(verb);
            }
        }
        gravest.filter(|verb| verb.act.effect() > Effect::Read)
    }
}

fn text(sentence: &[DescriptionWord], at: usize) -> &str {
    sentence.get(at).map_or("", |word| word.text.as_str())
}

fn text_before(sentence: &[DescriptionWord], at: usize, steps: usize) -> &str {
    at.checked_sub(steps).map_or("", |at| text(sentence, at))
}

fn within(sentence: &[DescriptionWord], at: usize, steps: usize, wanted: &str) -> bool {
    (1..=steps).any(|step| text_before(sentence, at, step) == wanted)
}

fn negated(sentence: &[DescriptionWord], at: usize) -> bool {
    (1..=3).any(|step| among(&LISTS.descriptions.negations, text_before(sentence, at, step)))
}

/// Verb at a place, adjusted by the words that it takes.
fn verb_at(sentence: &[DescriptionWord], at: usize) -> Option<(Verb, VerbForm)> {
    let (verb, form) = inflected(text(sentence, at))?;
    let following = || sentence.iter().skip(at + 1).map(|word| word.text.as_str());
    if let Some(both) = phrase(verb.word, text(sentence, at + 1)) {
        return Some((both, form));
    }
    let verb = with_objects(verb, following().take(8));
    Some((light(verb, following()), form))
}

/// True if a word that can be a noun is a verb here.
fn is_sure(sentence: &[DescriptionWord], at: usize, verb: Verb, form: VerbForm) -> bool {
    let plural = form == VerbForm::Third && among(&LISTS.descriptions.plurals, verb.word);
    let taken =
        sentence.get(at + 1).is_some_and(|next| next.mark == ' ' && among(&LISTS.descriptions.determiners, &next.text));
    (!verb.noun && !plural) || taken
}

/// First verb of a sentence, if only fillers precede it.
fn head(sentence: &[DescriptionWord]) -> Option<(usize, SubjectVerb, VerbForm)> {
    for at in 0..sentence.len().min(MAX_OPENING) {
        let word = text(sentence, at);
        let lets = among(&LISTS.descriptions.letting, word)
            && (word.ends_with('s') || ["you", "user", "users", "agents", "to"].contains(&text(sentence, at + 1)));
        if lets || among(&LISTS.descriptions.fillers, word) {
            continue;
        }
        let (verb, form) = verb_at(sentence, at).filter(|(_, form)| *form != VerbForm::Past)?;
        return Some((at, SubjectVerb { verb, sure: is_sure(sentence, at, verb, form) }, form));
    }
    None
}

/// Notes the verbs of the same form beside the one at `from`: `get or create`, `fetches the page and saves it`.
fn beside(sentence: &[DescriptionWord], from: usize, form: VerbForm, note: &mut impl FnMut(Verb)) {
    // While only verbs stand between commas, each of them continues the chain.
    let mut chain = true;
    for at in from + 1..sentence.len() {
        let word = text(sentence, at);
        if among(&LISTS.descriptions.between, word) {
            continue;
        }
        let found = verb_at(sentence, at).filter(|(_, own)| *own == form);
        let mut before = at - 1;
        while before > from
            && !among(&LISTS.descriptions.joints, text(sentence, before))
            && among(&LISTS.descriptions.between, text(sentence, before))
        {
            before -= 1;
        }
        let marked = sentence.get(at).is_some_and(|word| matches!(word.mark, ',' | '/' | '&' | '+'));
        let joined = among(&LISTS.descriptions.joints, text(sentence, before)) || (marked && chain);
        if let Some((verb, _)) = found
            && joined
            && !negated(sentence, at)
            && is_sure(sentence, at, verb, form)
        {
            note(verb);
        }
        chain &= found.is_some();
    }
}

/// Notes verbs whose subject is `it` or `this tool`.
fn done_by_it(sentence: &[DescriptionWord], note: &mut impl FnMut(Verb)) {
    for at in 0..sentence.len() {
        let is_subject = match text(sentence, at) {
            "it" | "this" => true,
            "action" | "call" | "calling" | "command" | "endpoint" | "function" | "method" | "operation"
            | "request" | "tool" => matches!(text_before(sentence, at, 1), "this" | "the"),
            _ => false,
        };
        if !is_subject {
            continue;
        }
        let mut next = at + 1;
        while !matches!(text(sentence, next), "and" | "either" | "or")
            && (among(&LISTS.descriptions.between, text(sentence, next))
                || matches!(text(sentence, next), "be" | "is" | "used"))
        {
            next += 1;
        }
        let Some((verb, form)) = verb_at(sentence, next) else { continue };
        let acts = match form {
            VerbForm::Third => true,
            // `this update` is a noun; `it will update` and `is used to update` hold verbs.
            VerbForm::Base => next > at + 1,
            VerbForm::Ing | VerbForm::Past => false,
        };
        if acts && is_sure(sentence, next, verb, form) && !negated(sentence, next) {
            note(verb);
            beside(sentence, next, form, note);
        }
    }
}

/// Notes what happens to the things of others: `will be deleted`, `gets deleted`.
fn note_passives(sentence: &[DescriptionWord], note: &mut impl FnMut(Verb)) {
    for at in 1..sentence.len() {
        let Some((verb, VerbForm::Past)) = inflected(text(sentence, at)) else { continue };
        let steps = if among(&LISTS.descriptions.between, text_before(sentence, at, 1)) { 2 } else { 1 };
        let told = match text_before(sentence, at, steps) {
            "be" => (1..=2).any(|more| text_before(sentence, at, steps + more) == "will"),
            "gets" => true,
            _ => false,
        };
        if told && among(&LISTS.descriptions.suffered, verb.word) && !negated(sentence, at) {
            note(verb);
        }
    }
}

/// Verb of a download that does not end in the answer.
fn kept_on_disk(sentence: &[DescriptionWord]) -> Option<Verb> {
    let at = (0..sentence.len()).find(|at| {
        matches!(inflected(text(sentence, *at)), Some((verb, form)) if verb.word == "download" && form != VerbForm::Past)
    })?;
    let kept = (at + 1..sentence.len()).any(|place| {
        let word = text(sentence, place);
        word == "locally"
            || (among(&LISTS.descriptions.disks, word)
                && (1..=4).any(|step| place > at + step && text_before(sentence, place, step) == "to"))
    });
    kept.then_some(Verb { word: "download", act: Act::Change, noun: false })
}

/// Splits a text into sentences of words. An identifier such as `delete_file` is one word, and no verb.
fn sentences(text: &str) -> Vec<Vec<DescriptionWord>> {
    let chars: Vec<char> = text.get(..text.floor_char_boundary(MAX_BYTES)).unwrap_or_default().chars().collect();
    let mut all = Vec::new();
    let mut sentence: Vec<DescriptionWord> = Vec::new();
    let mut word = String::new();
    let mut mark = ' ';
    for (at, c) in chars.iter().copied().chain(['\n', '\n']).enumerate() {
        let next = chars.get(at + 1).copied().unwrap_or('\n');
        let inside = !word.is_empty() && next.is_alphanumeric() && matches!(c, '-' | '\'' | '’' | '.' | '_');
        if c.is_alphanumeric() || c == '_' || inside {
            word.push(if c == '’' { '\'' } else { c });
            continue;
        }
        if !word.is_empty() {
            let capitals = word.len() > 1 && word.chars().all(|c| !c.is_lowercase());
            let text = std::mem::take(&mut word).to_lowercase();
            sentence.push(DescriptionWord { text, mark, capitals });
            mark = ' ';
        }
        if !c.is_whitespace() {
            mark = c;
        }
        let item = c == '\n' && (matches!(next, '\n' | '-' | '*' | '#' | '•') || next.is_ascii_digit());
        let ends = matches!(c, '.' | '!' | '?') && (next.is_whitespace() || matches!(next, '"' | ')' | '*' | '`'));
        if (item || ends || c == ';') && !sentence.is_empty() {
            all.push(std::mem::take(&mut sentence));
            mark = ' ';
        }
    }
    if !sentence.is_empty() {
        all.push(sentence);
    }
    all
}
