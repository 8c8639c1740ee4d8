//! What becomes of each element of three texts: its own lines, and what it lies within.

use std::collections::{HashMap, VecDeque};

use super::{
    Conflict, ConflictKind, MergeError, of_three,
    own::{Own, join},
};
use crate::document::{
    Document, ItemState, Kind, Limits,
    identity::{Pairs, Said, pair},
};

/// The places of the sides among the three texts.
const OURS: usize = 1;
const THEIRS: usize = 2;
pub(super) const SIDES: [usize; 2] = [OURS, THEIRS];

/// An element, by where it is in each text: base, ours, theirs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element {
    pub at: [Option<usize>; 3],
    /// Whether the place alone says that it is what it was.
    supposed: [bool; 3],
}

impl Element {
    fn new(at: [Option<usize>; 3]) -> Self {
        Self { at, supposed: [false; 3] }
    }

    /// Whether neither side has removed it.
    fn lives(self) -> bool {
        let [base, ours, theirs] = self.at;
        base.is_none() || (ours.is_some() && theirs.is_some())
    }
}

/// What an element lies within; the document itself if nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Within(Option<usize>);

/// A text with its structure and what its elements say.
pub(super) struct Read<'a> {
    pub document: &'a Document,
    said: Said,
}

/// What makes two additions one.
#[derive(PartialEq, Eq, Hash)]
enum Addition<'a> {
    /// The same name.
    Named(Kind, &'a str),
    /// The same words at the same place.
    Said(Kind, usize, Option<usize>, Option<ItemState>, &'a str),
}

impl<'a> Addition<'a> {
    fn of(read: &'a Read<'_>, at: usize, parent: Option<usize>) -> Self {
        let node = &read.document.nodes[at];
        match read.document.id(at) {
            Some(id) => Self::Named(node.kind, id),
            None => Self::Said(node.kind, node.level, parent, read.said.state[at], &read.said.words[at]),
        }
    }
}

/// Three texts, base, ours and theirs, and which elements they share.
pub(super) struct Plan<'a> {
    pub texts: [Read<'a>; 3],
    pub elements: Vec<Element>,
    /// The element of each part of each text.
    pub of: [Vec<usize>; 3],
}

impl<'a> Plan<'a> {
    /// Finds out which element is which.
    pub fn new(base: &'a Document, ours: &'a Document, theirs: &'a Document) -> Self {
        let read = |document: &'a Document| Read { document, said: Said::of(document) };
        let (base, ours, theirs) = (read(base), read(ours), read(theirs));
        let pairs = |side: &Read<'a>| pair((base.document, &base.said), (side.document, &side.said));
        let (in_ours, in_theirs): (Pairs, Pairs) = (pairs(&ours), pairs(&theirs));
        let count = base.document.nodes.len();
        let known = |at: usize| Element {
            at: [Some(at), in_ours.to[at], in_theirs.to[at]],
            supposed: [false, in_ours.supposed[at], in_theirs.supposed[at]],
        };
        let mut elements: Vec<Element> = (0..count).map(known).collect();
        let mut of_ours: Vec<usize> = Vec::with_capacity(ours.document.nodes.len());
        // What both sides added alike, at the same place or under the same name, is one.
        let mut added: HashMap<Addition<'_>, VecDeque<usize>> = HashMap::new();
        for (at, from) in in_ours.from.iter().enumerate() {
            of_ours.push(from.unwrap_or(elements.len()));
            if from.is_none() {
                let parent = ours.document.nodes[at].parent.map(|parent| of_ours[parent]);
                added.entry(Addition::of(&ours, at, parent)).or_default().push_back(elements.len());
                elements.push(Element::new([None, Some(at), None]));
            }
        }
        let mut of_theirs: Vec<usize> = Vec::with_capacity(theirs.document.nodes.len());
        for (at, from) in in_theirs.from.iter().enumerate() {
            let parent = theirs.document.nodes[at].parent.map(|parent| of_theirs[parent]);
            let twin = || added.get_mut(&Addition::of(&theirs, at, parent)).and_then(VecDeque::pop_front);
            let element = from.or_else(twin).unwrap_or(elements.len());
            of_theirs.push(element);
            if element == elements.len() {
                elements.push(Element::new([None; 3]));
            }
            elements[element].at[THEIRS] = Some(at);
        }
        Self { texts: [base, ours, theirs], elements, of: [(0..count).collect(), of_ours, of_theirs] }
    }

    /// The merged text.
    pub fn join(&self, end: &str, limits: &Limits) -> Result<String, MergeError> {
        let (mut own, mut conflicts) = (Vec::with_capacity(self.elements.len()), Vec::new());
        for element in &self.elements {
            own.push(self.text_of(*element).unwrap_or_else(|kind| {
                conflicts.push(self.conflict(kind, *element));
                None
            }));
        }
        if conflicts.is_empty() {
            let within: Vec<Option<usize>> = self.elements.iter().map(|element| self.parent_of(*element)).collect();
            conflicts.extend((0..within.len()).filter_map(|element| self.misplaced(element, &within, &own)));
            if conflicts.is_empty() {
                return self.write(&within, &own, end, limits);
            }
        }
        Err(MergeError::Conflicts(conflicts))
    }

    /// An element's own lines in the end; none for one that goes.
    fn text_of(&self, element: Element) -> Result<Option<String>, ConflictKind> {
        match self.each(element, |read, at| Own::of(read.document, at)) {
            [Some(base), Some(ours), Some(theirs)] => join(&base, &ours, &theirs).map(Some),
            [Some(base), Some(ours), None] if !ours.says_as(&base) => Err(ConflictKind::RemovedByTheirs),
            [Some(base), None, Some(theirs)] if !theirs.says_as(&base) => Err(ConflictKind::RemovedByOurs),
            [Some(_), ..] | [None, None, None] => Ok(None),
            [None, Some(ours), Some(theirs)] if !ours.says_as(&theirs) => Err(ConflictKind::Words),
            [None, Some(one), _] | [None, None, Some(one)] => Ok(Some(one.all.to_owned())),
        }
    }

    /// What an element lies within, in each text that has it.
    fn parents(&self, element: Element) -> [Option<Within>; 3] {
        let parent = |text: usize| {
            let at = element.at[text]?;
            Some(Within(self.texts[text].document.nodes[at].parent.map(|parent| self.of[text][parent])))
        };
        [parent(0), parent(OURS), parent(THEIRS)]
    }

    /// What an element lies within in the end.
    fn parent_of(&self, element: Element) -> Option<usize> {
        let parent = match self.parents(element) {
            [Some(base), Some(ours), Some(theirs)] => Some(of_three(base, ours, theirs)),
            [base, ours, theirs] => ours.or(theirs).or(base),
        };
        parent?.0
    }

    /// What is wrong with the place of an element that lives.
    fn misplaced(&self, at: usize, within: &[Option<usize>], own: &[Option<String>]) -> Option<Conflict> {
        let element = Some(self.elements[at]).filter(|element| element.lives())?;
        let parents = self.parents(element);
        let came = |side: &usize| parents[*side].is_some() && parents[*side] != parents[0];
        let other = |side: usize| OURS + THEIRS - side;
        // One moved what the other put something else in the place of, perhaps.
        if SIDES.iter().any(|side| came(side) && element.supposed[other(*side)]) {
            return Some(self.conflict(ConflictKind::Reworded, element));
        }
        let parent = within[at]?;
        let around = self.elements[parent];
        if own[parent].is_none() {
            let by_ours = around.at[OURS].is_none();
            let kind = if by_ours { ConflictKind::RemovedByOurs } else { ConflictKind::RemovedByTheirs };
            return Some(Conflict { section: self.section_of(around), ..self.conflict(kind, element) });
        }
        // One put it into what the other put something else in the place of, perhaps.
        let by = SIDES.into_iter().find(|side| came(side) && around.supposed[other(*side)])?;
        let conflict = self.conflict(ConflictKind::Reworded, around);
        let Conflict { ours, theirs, .. } = self.conflict(ConflictKind::Reworded, element);
        Some(if by == OURS { Conflict { ours, ..conflict } } else { Conflict { theirs, ..conflict } })
    }

    pub(super) fn each<T>(&self, element: Element, what: impl Fn(&Read<'a>, usize) -> T) -> [Option<T>; 3] {
        let of = |text: usize| element.at[text].map(|at| what(&self.texts[text], at));
        [of(0), of(1), of(2)]
    }

    pub(super) fn kind(&self, element: usize) -> Kind {
        let kinds = self.each(self.elements[element], |read, at| read.document.nodes[at].kind);
        kinds.into_iter().flatten().next().unwrap_or(Kind::Prose)
    }

    fn section_of(&self, element: Element) -> String {
        let sections = self.each(element, |read, at| {
            let is_section = read.document.nodes[at].kind == Kind::Section;
            let section = if is_section { Some(at) } else { read.said.section[at] };
            read.document.slug(section).to_owned()
        });
        sections.into_iter().flatten().next().unwrap_or_default()
    }

    fn conflict(&self, kind: ConflictKind, element: Element) -> Conflict {
        let [base, ours, theirs] = self.each(element, |read, at| read.document.own(at).trim().to_owned());
        let words = self.each(element, |read, at| read.said.words[at].clone()).into_iter().flatten().next();
        let is_section = self.each(element, |read, at| read.document.nodes[at].kind == Kind::Section);
        let item = words.filter(|_| !is_section.contains(&Some(true)));
        Conflict { kind, section: self.section_of(element), item, base, ours, theirs }
    }
}
