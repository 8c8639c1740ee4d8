//! Which element of one text is which of another that came from it.
//!
//! In this order, each step among what the ones before left: by explicit id; sections and keys by their path of titles, then
//! sections by title; items and paragraphs by section, what they lie within, state and words, then by section and words, first
//! in the order of both texts and then in any (they were moved), then by words anywhere; what says nearly the same in the same
//! section: at least six words of ten in common, and no figure that only one of them has, since `step 7` is not `step 8`; at
//! last by place: what stands between the same neighbours, the first for the first.
//!
//! What the place alone tells is only supposed. Whoever puts one item in the place of another does what whoever rewords it
//! does: nobody can know which it was. Of namesakes in equal numbers the first is the first; where their number has changed, which
//! of them went cannot be known either.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::Hash,
};

use super::{
    Document, Format, ItemState, Kind, lines,
    patch::{align, longest_rising},
};

/// Most words that a likeness is reckoned from.
const MOST_WORDS: usize = 64;
/// How many of the same section an element is held against.
const MOST_CANDIDATES: usize = 32;
/// Bytes of what encloses an element that tell it from others; all of it for each would take the square of the text.
const BEGINNING: usize = 200;
/// Least share of words that two have in common, in tenths.
const LEAST_TENTHS: usize = 6;
/// Least share of words that have to stay for a mark to be about them still, in tenths.
const SAME_MATTER_TENTHS: usize = 8;

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
            let path = match (node.kind, node.parent) {
                (Kind::Section | Kind::Entry, Some(parent)) => {
                    format!("{}\n{}", said.paths[parent], beginning(&words))
                }
                (Kind::Section | Kind::Entry, None) => beginning(&words).to_owned(),
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
    /// Elements of the first text that are paired by place alone.
    pub supposed: Vec<bool>,
}

/// Pairs the elements of a text with those of one that came from it.
pub(super) fn pair(base: (&Document, &Said), side: (&Document, &Said)) -> Pairs {
    let (a, b) = (base.0, side.0);
    let count = a.nodes.len();
    let mut pairs = Pairs { to: vec![None; count], from: vec![None; b.nodes.len()], supposed: vec![false; count] };
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
    pairs.by_place(a, b);
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
    is_titled.then_some((node.kind, node.level, &said.paths[at]))
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
        let key_of = |at, step| key(base, at, base.1.section[at], step);
        let key_of_side = |at, step| key(side, at, home[at], step);
        for step in 0..2 {
            self.in_order(base.0, side.0, |at| key_of(at, step), |at| key_of_side(at, step));
        }
        for step in 0..3 {
            self.by(base.0, side.0, |at| key_of(at, step), |at| key_of_side(at, step));
        }
    }

    /// Pairs what has the same key and stands in the same order, between what is paired already.
    fn in_order<'a>(
        &mut self,
        base: &Document,
        side: &Document,
        key: impl Fn(usize) -> Option<Key<'a>>,
        key_of_side: impl Fn(usize) -> Option<Key<'a>>,
    ) {
        let stands = |at: usize, paired: Option<usize>, key: Option<Key<'a>>| match (paired, key) {
            (Some(paired), _) => Stands::Paired(paired),
            (None, Some(key)) => Stands::Says(key),
            (None, None) => Stands::Alone(at),
        };
        let of_base: Vec<_> = (0..self.to.len()).map(|at| stands(at, self.to[at].map(|_| at), key(at))).collect();
        let new = self.to.len();
        let of_side: Vec<_> = (0..self.from.len()).map(|at| stands(new + at, self.from[at], key_of_side(at))).collect();
        for (a, b) in align(&of_base, &of_side) {
            if self.to[a].is_none() && may_be(base.id(a), side.id(b)) {
                self.set(a, b);
            }
        }
    }

    /// Pairs what is left between the same neighbours within the same element, kind by kind, the first with the first.
    fn by_place(&mut self, base: &Document, side: &Document) {
        let within = |document: &Document| {
            let mut within: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
            for (at, node) in document.nodes.iter().enumerate() {
                within.entry(node.parent).or_default().push(at);
            }
            within
        };
        let (in_base, in_side) = (within(base), within(side));
        // An element stands before what lies within it, and may have been paired just now.
        for parent in std::iter::once(None).chain((0..self.to.len()).map(Some)) {
            let Some(there) = parent.map_or(Some(None), |at| self.to[at].map(Some)) else { continue };
            let (Some(left), Some(right)) = (in_base.get(&parent), in_side.get(&there)) else { continue };
            let rank: HashMap<usize, usize> = right.iter().enumerate().map(|(rank, b)| (*b, rank)).collect();
            let to = |a: &usize| self.to[*a].and_then(|b| rank.get(&b).copied());
            let shared: Vec<_> = left.iter().enumerate().filter_map(|(rank, a)| Some((rank, to(a)?))).collect();
            let (mut from_a, mut from_b) = (0, 0);
            for (to_a, to_b) in longest_rising(&shared).into_iter().chain([(left.len(), right.len())]) {
                self.by_place_between(base, side, &left[from_a..to_a], &right[from_b..to_b]);
                (from_a, from_b) = (to_a + 1, to_b + 1);
            }
        }
    }

    fn by_place_between(&mut self, base: &Document, side: &Document, left: &[usize], right: &[usize]) {
        // Keys have names: another name is another key.
        let kinds = [Kind::Item, Kind::Prose, Kind::Section];
        let with_place = if base.format == Format::Yaml { &kinds[..2] } else { &kinds };
        for kind in with_place {
            let open = |at: &usize| self.to[*at].is_none() && base.nodes[*at].kind == *kind;
            let left: Vec<usize> = left.iter().copied().filter(open).collect();
            let open = |at: &usize| self.from[*at].is_none() && side.nodes[*at].kind == *kind;
            let right: Vec<usize> = right.iter().copied().filter(open).collect();
            for (a, b) in left.into_iter().zip(right) {
                if base.nodes[a].level == side.nodes[b].level && may_be(base.id(a), side.id(b)) {
                    self.set(a, b);
                    self.supposed[a] = true;
                }
            }
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
        self.alike(base.0, side.0, &left, &right, |a, b| likeness(&in_left[a], &in_right[b], LEAST_TENTHS));
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
            let score = |a: usize, b: usize| of_left[a].likeness(&of_right[b], LEAST_TENTHS);
            self.alike(base.0, side.0, &left, &right, score);
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

/// Where an element stands among others, for comparing.
#[derive(PartialEq, Eq, Hash)]
enum Stands<'a> {
    /// It is that one of the first text.
    Paired(usize),
    Says(Key<'a>),
    /// Nothing is like it.
    Alone(usize),
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

    fn likeness(&self, other: &Self, least_tenths: usize) -> Option<usize> {
        (self.figures == other.figures).then(|| likeness(&self.all, &other.all, least_tenths))?
    }
}

/// Whether other words are about the same matter: nearly all stay, with all figures.
pub(super) fn same_matter(a: &str, b: &str) -> bool {
    Words::of(a).likeness(&Words::of(b), SAME_MATTER_TENTHS).is_some()
}

/// Whether one may be the other in other words.
pub(super) fn alike(a: &str, b: &str) -> bool {
    Words::of(a).likeness(&Words::of(b), LEAST_TENTHS).is_some()
}

/// What two have in common, in thousandths of what they have (Dice); nothing below the least share.
fn likeness(a: &HashSet<&str>, b: &HashSet<&str>, least_tenths: usize) -> Option<usize> {
    let all = a.len() + b.len();
    let both = 2 * a.intersection(b).count();
    (both * 10 >= all * least_tenths && both > 0).then(|| both * 1_000 / all)
}
