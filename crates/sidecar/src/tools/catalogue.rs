//! Index of a set of tools. In: tools as their servers list them. Out: for a word, the tools that have it, with their
//! fields and weight.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use super::{embedding::Embedding, parameter::Parameter};
use crate::word_stems::{StemmedWord, words};
use umbra_domain::{CheckName, Effect, Event, Severity, ToolAnnotations, ToolName};

/// Names of the fields that can match, in the order of [`FIELDS`].
pub(super) const FIELD_NAMES: [&str; 3] = ["name", "description", "parameters"];
/// Most bytes of a text that are read.
const MOST_BYTES: usize = 8 * 1024;

/// Weight of a field. A field is the set of its words: a repeated word counts once and does not make the field longer,
/// so repetition brings no more than one honest mention. Counting up to three would find the right tool for one more
/// request in a hundred (of a public set), and would lift tools that repeat words by a third. Chosen with `umbra bench
/// tools` on halves of two public sets; either half would have chosen about the same.
struct Field {
    weight: f64,
    /// Length normalization: 0 for none, 1 for weights in inverse proportion to the length (b of BM25).
    length: f64,
    /// Most words that count, from the beginning.
    most_words: usize,
}

const FIELDS: [Field; 3] = [
    Field { weight: 3.0, length: 0.3, most_words: 16 },
    Field { weight: 1.0, length: 0.5, most_words: 100 },
    Field { weight: 0.5, length: 0.75, most_words: 200 },
];

/// A tool as its server lists it, with the effect that the boundary gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Name of the tool.
    pub name: ToolName,
    /// Description by its server.
    pub description: String,
    /// Parameters of the tool.
    pub parameters: Vec<Parameter>,
    /// Effect on the world.
    pub effect: Effect,
    /// Annotations by its server; passed on, and used for nothing.
    pub annotations: ToolAnnotations,
}

/// An index of tools.
#[derive(Debug)]
pub struct Catalogue {
    /// Tools in order of names: the place of a tool settles equal scores.
    tools: Vec<Tool>,
    /// Direction of each tool, by place; empty for a tool whose texts give orders.
    meanings: Vec<Embedding>,
    /// Text on the purpose of each tool, by place; `None` for a tool whose texts give orders.
    summaries: Vec<Option<String>>,
    /// Places of the tools with a joined name.
    named: HashMap<String, Range<usize>>,
    /// Places of the tools of all servers, by their name without the server.
    owned: HashMap<String, Vec<usize>>,
    /// Tools that have a stem, by stem, in order of places.
    postings: HashMap<String, Vec<Posting>>,
}

/// A tool that has a word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posting {
    pub place: usize,
    /// Sum of the weights of the fields that have it, each divided by its length norm.
    pub weight: f64,
    /// One bit for each of [`FIELDS`] that has it.
    pub fields: u8,
}

impl Catalogue {
    /// Builds an index of these tools. Their order does not matter.
    pub fn of(mut tools: Vec<Tool>) -> Self {
        tools.sort_by_cached_key(|tool| {
            (tool.name.joined(), tool.name.clone(), tool.description.clone(), tool.parameters.clone(), tool.effect)
        });
        // A tool that is listed twice is offered once.
        tools.dedup();
        let (fields, (meanings, summaries)): (Vec<_>, _) = tools.iter().map(read_tool).unzip();
        let averages = [0, 1, 2].map(|field| average_length(fields.iter().map(|of| &of[field])));
        let (mut postings, mut named) =
            (HashMap::<String, Vec<Posting>>::new(), HashMap::<String, Range<usize>>::new());
        let mut owned = HashMap::<String, Vec<usize>>::new();
        for (place, (tool, fields)) in tools.iter().zip(fields).enumerate() {
            let name = tool.name.normal();
            named.entry(tool.name.joined()).or_insert(place..place).end = place + 1;
            if name.server.is_some() {
                owned.entry(name.own).or_default().push(place);
            }
            for (at, (words, (field, average))) in fields.into_iter().zip(FIELDS.iter().zip(averages)).enumerate() {
                let weight = field.weight / length_norm(field.length, words.len(), average);
                for word in words {
                    let of_stem = postings.entry(word.stem).or_default();
                    match of_stem.last_mut().filter(|last| last.place == place) {
                        Some(last) => {
                            last.weight += weight;
                            last.fields |= 1 << at;
                        }
                        None => of_stem.push(Posting { place, weight, fields: 1 << at }),
                    }
                }
            }
        }
        Self { tools, meanings, summaries, named, owned, postings }
    }

    /// Returns the tools that a call without a server may mean: those with this name, one for each server.
    pub fn meant(&self, name: &ToolName) -> Vec<&ToolName> {
        let normal = name.normal();
        if normal.server.is_some() || self.named.contains_key(&name.joined()) {
            return Vec::new();
        }
        let places = self.owned.get(&normal.own).into_iter().flatten();
        let mut meant: Vec<&ToolName> = places.filter_map(|place| self.tool(*place)).map(|tool| &tool.name).collect();
        meant.dedup_by_key(|name| name.joined());
        meant
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// True if there are no tools.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns all tools, by place.
    pub(super) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    pub(super) fn tool(&self, place: usize) -> Option<&Tool> {
        self.tools.get(place)
    }

    /// Returns a text on the purpose of each tool: its name and the first sentence of its description. In the order of
    /// [`SelectionRequest::closeness`](super::SelectionRequest::closeness); `None` for a tool whose texts give orders.
    pub fn summaries(&self) -> &[Option<String>] {
        &self.summaries
    }

    /// Returns the direction of each tool, by place.
    pub(super) fn meanings(&self) -> &[Embedding] {
        &self.meanings
    }

    pub(super) fn with(&self, stem: &str) -> &[Posting] {
        self.postings.get(stem).map_or(&[], Vec::as_slice)
    }

    /// Returns the places of the tools with a joined name.
    pub(super) fn named(&self, joined: &str) -> Range<usize> {
        self.named.get(joined).cloned().unwrap_or_default()
    }
}

/// Returns the number by which the weight of a field is divided for its length.
#[expect(clippy::cast_precision_loss, reason = "counts of words")]
pub(super) fn length_norm(b: f64, length: usize, average: f64) -> f64 {
    if average > 0.0 { 1.0 - b + b * length as f64 / average } else { 1.0 }
}

/// Words of the fields of a tool, each once, in their order.
type FieldWords = [Vec<StemmedWord>; 3];

/// Reads the texts of a tool. Returns the words of its fields, its direction and its summary.
fn read_tool(tool: &Tool) -> (FieldWords, (Embedding, Option<String>)) {
    let name = match &tool.name.server {
        Some(server) => format!("{server} {}", tool.name.name),
        None => tool.name.name.clone(),
    };
    let parameters: Vec<&str> =
        tool.parameters.iter().flat_map(|one| [one.name.as_str(), one.description.as_str()]).collect();
    let (description, parameters) = (cut(&tool.description), parameters.join("\n"));
    let parameters = cut(&parameters);
    let [of_name, of_description, of_parameters] = &FIELDS;
    let name_words = distinct(&name, of_name.most_words);
    if gives_orders(&format!("{description}\n{parameters}")) {
        return ([name_words, Vec::new(), Vec::new()], (Embedding::default(), None));
    }
    let mut meaning = Embedding::default();
    let summary = first_sentence(description);
    for text in [&name, summary] {
        meaning.turn(1.0, &Embedding::of(&distinct(text, of_description.most_words)));
    }
    let words =
        [name_words, distinct(description, of_description.most_words), distinct(parameters, of_parameters.most_words)];
    (words, (meaning, Some(format!("{name}: {summary}"))))
}

#[expect(clippy::cast_precision_loss, reason = "counts of words")]
fn average_length<'a>(all: impl ExactSizeIterator<Item = &'a Vec<StemmedWord>>) -> f64 {
    let tools = all.len().max(1);
    all.map(Vec::len).sum::<usize>() as f64 / tools as f64
}

/// Returns the first words of a text, each once.
fn distinct(text: &str, most: usize) -> Vec<StemmedWord> {
    let mut known = HashSet::new();
    words(text).take(most).filter(|word| known.insert(word.stem.clone())).collect()
}

/// Returns the first sentence of a description. The rest counts by words alone, so it cannot change the meaning.
fn first_sentence(text: &str) -> &str {
    let text = text.trim_start();
    let mut ends = text.match_indices(['.', '!', '?', ':', '\n']).map(|(at, _)| at + 1);
    let end = ends.find(|end| text.get(*end..).is_some_and(|rest| rest.starts_with(char::is_whitespace)));
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MOST_BYTES)).unwrap_or_default()
}

/// True if a text speaks to the model or hides characters. Such a text does not describe a tool.
fn gives_orders(text: &str) -> bool {
    let event = Event { input: Some(text.to_owned()), ..Event::default() };
    let stored = umbra_checks::screen(event);
    let which = [CheckName::Injection, CheckName::Hidden].into();
    umbra_checks::review(&stored.event, &stored.marks, &which).iter().any(|hit| hit.severity >= Severity::Warning)
}
