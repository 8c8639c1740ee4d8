//! What becomes of each element of three texts, and the text that comes of it.

use std::collections::{HashMap, VecDeque};

use super::{
    Conflict, ConflictKind, MergeError, of_three, order,
    own::{Own, join},
};
use crate::sidecar::document::{
    Document, Format, ItemState, Kind, Limits,
    identity::{Pairs, Said, pair},
};

/// An element, by where it is in each text.
#[derive(Debug, Clone, Copy)]
struct Element {
    base: Option<usize>,
    ours: Option<usize>,
    theirs: Option<usize>,
}

impl Element {
    /// Whether neither side has removed it.
    fn lives(self) -> bool {
        self.base.is_none() || (self.ours.is_some() && self.theirs.is_some())
    }
}

/// A text with its structure and what its elements say.
struct Read<'a> {
    document: &'a Document,
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

/// Three texts, and which elements they share.
pub(super) struct Plan<'a> {
    base: Read<'a>,
    ours: Read<'a>,
    theirs: Read<'a>,
    elements: Vec<Element>,
    /// The element of each part of each text.
    of: [Vec<usize>; 3],
}

impl<'a> Plan<'a> {
    /// Finds out which element is which.
    pub fn new(base: &'a Document, ours: &'a Document, theirs: &'a Document) -> Self {
        let read = |document: &'a Document| Read { document, said: Said::of(document) };
        let (base, ours, theirs) = (read(base), read(ours), read(theirs));
        let pairs = |side: &Read<'a>| pair((base.document, &base.said), (side.document, &side.said));
        let (in_ours, in_theirs): (Pairs, Pairs) = (pairs(&ours), pairs(&theirs));
        let count = base.document.nodes.len();
        let mut elements: Vec<Element> =
            (0..count).map(|at| Element { base: Some(at), ours: in_ours.to[at], theirs: in_theirs.to[at] }).collect();
        let mut of_ours: Vec<usize> = Vec::with_capacity(ours.document.nodes.len());
        // What both sides added alike, at the same place or under the same name, is one.
        let mut added: HashMap<Addition<'_>, VecDeque<usize>> = HashMap::new();
        for (at, from) in in_ours.from.iter().enumerate() {
            of_ours.push(from.unwrap_or(elements.len()));
            if from.is_none() {
                let parent = ours.document.nodes[at].parent.map(|parent| of_ours[parent]);
                added.entry(Addition::of(&ours, at, parent)).or_default().push_back(elements.len());
                elements.push(Element { base: None, ours: Some(at), theirs: None });
            }
        }
        let mut of_theirs: Vec<usize> = Vec::with_capacity(theirs.document.nodes.len());
        for (at, from) in in_theirs.from.iter().enumerate() {
            let parent = theirs.document.nodes[at].parent.map(|parent| of_theirs[parent]);
            let twin = || added.get_mut(&Addition::of(&theirs, at, parent)).and_then(VecDeque::pop_front);
            let element = from.or_else(twin).unwrap_or(elements.len());
            of_theirs.push(element);
            if element == elements.len() {
                elements.push(Element { base: None, ours: None, theirs: None });
            }
            elements[element].theirs = Some(at);
        }
        Self { base, ours, theirs, elements, of: [(0..count).collect(), of_ours, of_theirs] }
    }

    /// The merged text.
    pub fn join(&self, end: &str, limits: &Limits) -> Result<String, MergeError> {
        let mut conflicts = Vec::new();
        let mut texts: Vec<Option<String>> = Vec::with_capacity(self.elements.len());
        for element in &self.elements {
            texts.push(self.text_of(*element).unwrap_or_else(|kind| {
                conflicts.push(self.conflict(kind, *element));
                None
            }));
        }
        if !conflicts.is_empty() {
            return Err(MergeError::Conflicts(conflicts));
        }
        let parents: Vec<Option<usize>> = self.elements.iter().map(|element| self.parent_of(*element)).collect();
        for (element, parent) in self.elements.iter().zip(&parents) {
            // It has come into what one side removed.
            if let Some(parent) = parent.filter(|parent| texts[*parent].is_none())
                && element.lives()
            {
                let gone = self.elements[parent];
                let by = if gone.ours.is_none() { ConflictKind::RemovedByOurs } else { ConflictKind::RemovedByTheirs };
                let mut conflict = self.conflict(by, *element);
                conflict.section = self.section_of(gone);
                conflicts.push(conflict);
            }
        }
        if !conflicts.is_empty() {
            return Err(MergeError::Conflicts(conflicts));
        }
        let order = self.order(&parents, &texts);
        if order.len() != texts.iter().flatten().count() {
            return Err(MergeError::Conflicts(vec![whole(ConflictKind::Moved)]));
        }
        let merged = self.write(&order, &texts, end);
        self.read_again(&merged, &order, &texts, limits)?;
        Ok(merged)
    }

    /// An element's own lines in the end; none for one that goes.
    fn text_of(&self, element: Element) -> Result<Option<String>, ConflictKind> {
        let (base, ours, theirs) = (
            element.base.map(|at| Own::of(self.base.document, at)),
            element.ours.map(|at| Own::of(self.ours.document, at)),
            element.theirs.map(|at| Own::of(self.theirs.document, at)),
        );
        match (base, ours, theirs) {
            (Some(base), Some(ours), Some(theirs)) => join(&base, &ours, &theirs).map(Some),
            (Some(base), Some(ours), None) if !ours.says_as(&base) => Err(ConflictKind::RemovedByTheirs),
            (Some(base), None, Some(theirs)) if !theirs.says_as(&base) => Err(ConflictKind::RemovedByOurs),
            (Some(_), ..) | (None, None, None) => Ok(None),
            (None, Some(ours), Some(theirs)) if !ours.says_as(&theirs) => Err(ConflictKind::Words),
            (None, Some(one), _) | (None, None, Some(one)) => Ok(Some(one.all.to_owned())),
        }
    }

    /// What an element lies within in the end.
    fn parent_of(&self, element: Element) -> Option<usize> {
        let parents = self.each(element, |read, at| read.document.nodes[at].parent);
        let within = |side: usize| parents[side].map(|parent| parent.map(|parent| self.of[side][parent]));
        let (base, ours, theirs) = (within(0), within(1), within(2));
        match (base, ours, theirs) {
            (Some(base), Some(ours), Some(theirs)) => of_three(base, ours, theirs),
            (_, Some(parent), _) | (_, None, Some(parent)) | (Some(parent), None, None) => parent,
            (None, None, None) => None,
        }
    }

    fn each<T>(&self, element: Element, what: impl Fn(&Read<'a>, usize) -> T) -> [Option<T>; 3] {
        [
            element.base.map(|at| what(&self.base, at)),
            element.ours.map(|at| what(&self.ours, at)),
            element.theirs.map(|at| what(&self.theirs, at)),
        ]
    }

    /// What lives, in the order of the merged text.
    fn order(&self, parents: &[Option<usize>], texts: &[Option<String>]) -> Vec<usize> {
        let mut within: HashMap<Option<usize>, [Vec<usize>; 3]> = HashMap::new();
        for (side, (read, of)) in [&self.base, &self.ours, &self.theirs].into_iter().zip(&self.of).enumerate() {
            for (at, element) in of.iter().enumerate() {
                let there = read.document.nodes[at].parent.map(|parent| of[parent]);
                if texts[*element].is_some() && parents[*element] == there {
                    within.entry(there).or_default()[side].push(*element);
                }
            }
        }
        let is_markdown = self.base.document.format == Format::Markdown;
        let rank = |element: &usize| match self.kind(self.elements[*element]) {
            Kind::Front => 0,
            // What stands below a heading is its own, so sections come last.
            Kind::Section if is_markdown => 2,
            Kind::Close => 3,
            _ => 1,
        };
        let mut children = |parent: Option<usize>| -> Vec<usize> {
            let [base, ours, theirs] = within.remove(&parent).unwrap_or_default();
            let mut children = order::join(&base, &ours, &theirs);
            children.sort_by_key(rank);
            children
        };
        let mut out = Vec::with_capacity(self.elements.len());
        let mut open = children(None);
        open.reverse();
        while let Some(element) = open.pop() {
            out.push(element);
            open.extend(children(Some(element)).into_iter().rev());
        }
        out
    }

    fn kind(&self, element: Element) -> Kind {
        let kinds = self.each(element, |read, at| read.document.nodes[at].kind);
        kinds.into_iter().flatten().next().unwrap_or(Kind::Prose)
    }

    fn write(&self, order: &[usize], texts: &[Option<String>], end: &str) -> String {
        let mut out = String::new();
        let mut above = None;
        for element in order {
            let at = self.elements[*element];
            let blanks = self.each(at, |read, at| {
                &read.document.text[read.document.nodes[at].start..read.document.nodes[at].own.start]
            });
            let blanks = match blanks {
                [Some(base), Some(ours), Some(theirs)] => of_three(base, ours, theirs),
                [_, one, other] => one.or(other).unwrap_or_default(),
            };
            out.push_str(blanks);
            // A paragraph beside a new neighbour would be read as a part of it.
            let touches = |element: usize| matches!(self.kind(self.elements[element]), Kind::Prose | Kind::Section);
            let apart = self.base.document.format == Format::Markdown
                && above.is_some_and(|above| touches(above) || touches(*element));
            if apart && blanks.is_empty() && !self.are_neighbours(above, *element) {
                out.push_str(end);
            }
            out.push_str(texts[*element].as_deref().unwrap_or_default());
            if !out.ends_with('\n') {
                out.push_str(end);
            }
            above = Some(*element);
        }
        let tail = |read: &Read<'a>| {
            let document = read.document;
            &document.text[document.nodes.last().map_or(0, |last| last.own.end)..]
        };
        out.push_str(of_three(tail(&self.base), tail(&self.ours), tail(&self.theirs)));
        out
    }

    /// Whether one stands right behind the other on a side.
    fn are_neighbours(&self, above: Option<usize>, below: usize) -> bool {
        let element = self.elements[below];
        let before = |at: Option<usize>, of: &[usize]| at.and_then(|at| at.checked_sub(1)).map(|at| of[at]);
        above.is_some() && (before(element.ours, &self.of[1]) == above || before(element.theirs, &self.of[2]) == above)
    }

    /// Refuses a text that is read as something else than what was put into it.
    fn read_again(
        &self,
        merged: &str,
        order: &[usize],
        texts: &[Option<String>],
        limits: &Limits,
    ) -> Result<(), MergeError> {
        let document = Document::parse(merged, self.base.document.format, limits)?;
        let same = document.nodes.len() == order.len()
            && order.iter().enumerate().all(|(at, element)| {
                let meant = texts[*element].as_deref().unwrap_or_default();
                document.nodes[at].kind == self.kind(self.elements[*element])
                    && document.own(at).trim_end() == meant.trim_end()
            });
        if same { Ok(()) } else { Err(MergeError::Conflicts(vec![whole(ConflictKind::Layout)])) }
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
        let item = words.filter(|_| self.kind(element) != Kind::Section);
        Conflict { kind, section: self.section_of(element), item, base, ours, theirs }
    }
}

fn whole(kind: ConflictKind) -> Conflict {
    Conflict { kind, section: String::new(), item: None, base: None, ours: None, theirs: None }
}
