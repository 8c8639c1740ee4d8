//! Which element of one text is which of another that came from it.
//!
//! In this order, each step among what the ones before left: by explicit id; sections and keys by their path of titles, then by
//! title; items and paragraphs by section, what they lie within, state and words, then by section and words, then by words
//! anywhere (they were moved); at last what says nearly the same in the same section: at least six words of ten in common,
//! and no figure that only one of them has, since `step 7` is not `step 8`. Among namesakes the first is the first.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::Hash,
};

use super::{Document, ItemState, Kind, lines};

/// Most words that a likeness is reckoned from.
const MOST_WORDS: usize = 64;
/// How many of the same section an element is held against.
const MOST_CANDIDATES: usize = 32;
/// Bytes of what encloses an element that tell it from others; all of it for each would take the square of the text.
const BEGINNING: usize = 200;
/// Least share of words that two have in common, in tenths.
const LEAST_TENTHS: usize = 6;

/// What the elements of a document say, for comparing.
pub(super) struct Said {
    /// Without indentation, box, names and superfluous blanks.
    pub words: Vec<String>,
    pub state: Vec<Option<ItemState>>,
    /// The section of each.
    pub section: Vec<Option<usize>>,
    paths: Vec<String>,
}

impl Said {
    pub fn of(document: &Document) -> Self {
        let count = document.nodes.len();
        let mut said = Self {
            words: Vec::with_capacity(count),
            state: Vec::with_capacity(count),
            section: Vec::with_capacity(count),
            paths: Vec::with_capacity(count),
        };
        for (at, node) in document.nodes.iter().enumerate() {
            let (words, state) = match node.kind {
                Kind::Item => document.item(at),
                Kind::Section | Kind::Entry => (lines::substance(document.title(at)), None),
                Kind::Front | Kind::Close => (String::new(), None),
                Kind::Prose => (lines::substance(document.own(at)), None),
            };
            let parent_section = node.parent.and_then(|parent| match document.nodes[parent].kind {
                Kind::Section => Some(parent),
                _ => said.section[parent],
            });
            let path = match (node.kind, parent_section) {
                (Kind::Section, Some(parent)) => format!("{}\n{}", said.paths[parent], beginning(&words)),
                (Kind::Section, None) => beginning(&words).to_owned(),
                _ => String::new(),
            };
            said.section.push(parent_section);
            said.paths.push(path);
            said.words.push(words);
            said.state.push(state);
        }
        said
    }
}

/// For each element of one text its place in the other, and back.
pub(super) struct Pairs {
    pub to: Vec<Option<usize>>,
    pub from: Vec<Option<usize>>,
}

/// Pairs the elements of a text with those of one that came from it.
pub(super) fn pair(base: (&Document, &Said), side: (&Document, &Said)) -> Pairs {
    let (a, b) = (base.0, side.0);
    let mut pairs = Pairs { to: vec![None; a.nodes.len()], from: vec![None; b.nodes.len()] };
    pairs.by(base.0, side.0, |at| named(a, at), |at| named(b, at));
    pairs.by(a, b, |at| titled(a, base.1, at), |at| titled(b, side.1, at));
    let is = |document: &Document, at: usize, kind| document.nodes[at].kind == kind;
    pairs.by(
        a,
        b,
        |at| is(a, at, Kind::Section).then_some(base.1.words[at].as_str()),
        |at| is(b, at, Kind::Section).then_some(side.1.words[at].as_str()),
    );
    pairs.alike_sections(base, side);
    pairs.contents(base, side);
    pairs.alike_contents(base, side);
    pairs
}

/// What an element is called.
fn named(document: &Document, at: usize) -> Option<(Kind, &str)> {
    document.id(at).map(|id| (document.nodes[at].kind, id))
}

/// The path of a section, or the name of what front matter is made of.
fn titled<'a>(document: &'a Document, said: &'a Said, at: usize) -> Option<(Kind, usize, &'a str)> {
    let node = &document.nodes[at];
    let is_titled = matches!(node.kind, Kind::Front | Kind::Close | Kind::Entry | Kind::Section);
    let name = if node.kind == Kind::Section { &said.paths[at] } else { &said.words[at] };
    is_titled.then_some((node.kind, node.level, name))
}

/// What tells an item or a paragraph from others, ever less from step to step: kind, section, surroundings, words.
type Key<'a> = (Kind, Option<Option<usize>>, Option<(&'a str, Option<ItemState>)>, &'a str);

fn key<'a>((document, said): (&'a Document, &'a Said), at: usize, home: Option<usize>, step: usize) -> Option<Key<'a>> {
    let node = &document.nodes[at];
    let above = node.parent.map_or("", |parent| beginning(&said.words[parent]));
    let exact = (step == 0).then_some((above, said.state[at]));
    let is_content = matches!(node.kind, Kind::Item | Kind::Prose);
    is_content.then(|| (node.kind, (step < 2).then_some(home), exact, said.words[at].as_str()))
}

/// What a section holds, for comparing.
fn held<'a>((document, said): (&'a Document, &'a Said), at: usize) -> HashSet<&'a str> {
    (at + 1..document.nodes[at].until).take(MOST_WORDS).map(|at| said.words[at].as_str()).collect()
}

impl Pairs {
    fn set(&mut self, a: usize, b: usize) {
        self.to[a] = Some(b);
        self.from[b] = Some(a);
    }

    /// Pairs what has the same key, the first with the first. What has a name of its own is no other's.
    fn by<K: Hash + Eq>(
        &mut self,
        base: &Document,
        side: &Document,
        key: impl Fn(usize) -> Option<K>,
        key_of_side: impl Fn(usize) -> Option<K>,
    ) {
        let mut waiting: HashMap<K, VecDeque<usize>> = HashMap::new();
        for b in (0..self.from.len()).filter(|b| self.from[*b].is_none()) {
            if let Some(key) = key_of_side(b) {
                waiting.entry(key).or_default().push_back(b);
            }
        }
        for a in (0..self.to.len()).filter(|a| self.to[*a].is_none()).collect::<Vec<_>>() {
            let Some(found) = key(a).and_then(|key| waiting.get_mut(&key)) else { continue };
            if let Some(b) = found.front().copied().filter(|b| may_be(base.id(a), side.id(*b))) {
                found.pop_front();
                self.set(a, b);
            }
        }
    }

    /// Items and paragraphs by what they say.
    fn contents(&mut self, base: (&Document, &Said), side: (&Document, &Said)) {
        // Sections of the other text by their numbers in the base; what is new there is like nothing.
        let new = self.to.len();
        let home: Vec<Option<usize>> =
            side.1.section.iter().map(|section| section.map(|at| self.from[at].unwrap_or(new))).collect();
        for step in 0..3 {
            self.by(base.0, side.0, |at| key(base, at, base.1.section[at], step), |at| key(side, at, home[at], step));
        }
    }

    /// Sections that were renamed: those that hold much the same.
    fn alike_sections(&mut self, base: (&Document, &Said), side: (&Document, &Said)) {
        let open = |document: &Document, paired: &[Option<usize>]| -> Vec<usize> {
            let sections = document.slugs.iter().map(|(at, _)| *at);
            sections.filter(|at| paired[*at].is_none()).collect()
        };
        let (left, right) = (open(base.0, &self.to), open(side.0, &self.from));
        let in_left: Vec<_> = left.iter().map(|at| held(base, *at)).collect();
        let in_right: Vec<_> = right.iter().map(|at| held(side, *at)).collect();
        self.alike(base.0, side.0, &left, &right, |a, b| likeness(&in_left[a], &in_right[b]));
    }

    /// Items and paragraphs that were reworded, section by section.
    fn alike_contents(&mut self, base: (&Document, &Said), side: (&Document, &Said)) {
        let mut groups: HashMap<(Kind, Option<usize>), [Vec<usize>; 2]> = HashMap::new();
        let is_content = |kind| matches!(kind, Kind::Item | Kind::Prose);
        for (at, node) in base.0.nodes.iter().enumerate() {
            if is_content(node.kind) && self.to[at].is_none() {
                groups.entry((node.kind, base.1.section[at])).or_default()[0].push(at);
            }
        }
        for (at, node) in side.0.nodes.iter().enumerate() {
            let section = side.1.section[at];
            if is_content(node.kind)
                && self.from[at].is_none()
                && let Some(home) = section.map_or(Some(None), |section| self.from[section].map(Some))
                && let Some(group) = groups.get_mut(&(node.kind, home))
            {
                group[1].push(at);
            }
        }
        for [left, right] in groups.into_values() {
            let of_left: Vec<_> = left.iter().map(|at| Words::of(&base.1.words[*at])).collect();
            let of_right: Vec<_> = right.iter().map(|at| Words::of(&side.1.words[*at])).collect();
            self.alike(base.0, side.0, &left, &right, |a, b| {
                let (a, b) = (&of_left[a], &of_right[b]);
                (a.figures == b.figures).then(|| likeness(&a.all, &b.all))?
            });
        }
    }

    /// Pairs what is most alike first, then what stands nearest; each with few that stand about where it does.
    fn alike(
        &mut self,
        base: &Document,
        side: &Document,
        left: &[usize],
        right: &[usize],
        score: impl Fn(usize, usize) -> Option<usize>,
    ) {
        let mut found = Vec::new();
        for (rank, a) in left.iter().enumerate() {
            let from = rank.saturating_sub(MOST_CANDIDATES / 2).min(right.len().saturating_sub(MOST_CANDIDATES));
            for (place, b) in right.iter().enumerate().skip(from).take(MOST_CANDIDATES) {
                if may_be(base.id(*a), side.id(*b))
                    && let Some(score) = score(rank, place)
                {
                    found.push((std::cmp::Reverse(score), rank.abs_diff(place), *a, *b));
                }
            }
        }
        found.sort_unstable();
        for (.., a, b) in found {
            if self.to[a].is_none() && self.from[b].is_none() {
                self.set(a, b);
            }
        }
    }
}

/// Whether two may be the same by their names: not if both have one, since those that are equal were paired first.
fn may_be(a: Option<&str>, b: Option<&str>) -> bool {
    a.is_none() || b.is_none() || a == b
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(BEGINNING)]
}

/// The words of a text, and those of them that have digits.
struct Words<'a> {
    all: HashSet<&'a str>,
    figures: HashSet<&'a str>,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let all: HashSet<_> = words.take(MOST_WORDS).collect();
        let has_digit = |word: &&&str| word.contains(|c: char| c.is_ascii_digit());
        Self { figures: all.iter().filter(has_digit).copied().collect(), all }
    }
}

/// What two have in common, in thousandths of what they have (Dice); nothing below the least share.
fn likeness(a: &HashSet<&str>, b: &HashSet<&str>) -> Option<usize> {
    let all = a.len() + b.len();
    let both = 2 * a.intersection(b).count();
    (both * 10 >= all * LEAST_TENTHS && both > 0).then(|| both * 1_000 / all)
}
