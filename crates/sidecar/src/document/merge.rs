//! Three-way merge of documents, by lines and items. In: the base text and both sides. Out: one text with the changes
//! of both, or every conflict.
//!
//! An item is the same in two texts if it has the same explicit id or the same words. Its indentation, bullet, box and
//! words are then merged separately, so one side can tick an item that the other moves. Changes of different lines
//! never conflict, not even of neighbouring lines. If both sides insert at the same place, ours comes first. A conflict
//! is a line that one side removed or replaced and the other changed, or a line that would end up in another item or
//! section than its author put it into. So no change is lost, and no line moves to another parent.

use std::{cmp::Reverse, collections::HashMap, iter::Peekable, ops::Range, slice::Iter};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Document, DocumentLimits, ElementKind, Format, LimitError, line_end, lines, merge_base::is_made_of, patch::align,
    yaml::YamlError,
};

/// Kind of conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConflictKind {
    /// The sides have different words or content.
    Words,
    /// The sides have different states of an item.
    State,
    /// Our side removed an element that their side changed or added to.
    RemovedByOurs,
    /// Their side removed an element that our side changed or added to.
    RemovedByTheirs,
    /// The merged text would be read differently: a fence or comment is left open, the YAML is invalid, or an element
    /// lies within another item or section.
    Layout,
}

/// One place where the two sides conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Conflict {
    /// Kind of conflict.
    pub kind: ConflictKind,
    /// Slug of the section; empty before the first section, and for a conflict of the whole document.
    pub section: String,
    /// Text of the item or paragraph, or the key; none for a section.
    pub item: Option<String>,
    /// Text in the base, with its box.
    pub base: Option<String>,
    /// Text on our side.
    pub ours: Option<String>,
    /// Text on their side.
    pub theirs: Option<String>,
}

/// Reason why two texts cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The sides conflict at these places.
    #[error("both sides changed the document, and {} places conflict: read the document again, and resolve the \
             conflicts", .0.len())]
    Conflicts(Vec<Conflict>),
    /// A side, or the merged text, exceeds a limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// Merges two texts that came from `base`. If both are equal, or one side changed nothing, the other is the result.
///
/// # Errors
/// The sides conflict, or a text exceeds `limits`.
pub fn merge(
    base: &str,
    ours: &str,
    theirs: &str,
    format: Format,
    limits: &DocumentLimits,
) -> Result<String, MergeError> {
    if ours == theirs || base == theirs {
        return Ok(Document::parse(ours, format, limits)?.text);
    }
    if base == ours {
        return Ok(Document::parse(theirs, format, limits)?.text);
    }
    let either = |base, ours, theirs| of_three(base, ours, theirs).unwrap_or(ours);
    let end = either(line_end(base), line_end(ours), line_end(theirs));
    let is_ended = |text: &str| text.ends_with('\n');
    let ended = of_three(is_ended(base), is_ended(ours), is_ended(theirs)).unwrap_or_default();
    // A changed line end is not a change of each line.
    let read = |text: &str| {
        let mut text = if line_end(text) == end { text.to_owned() } else { with_ends(text, end) };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push_str(end);
        }
        Document::parse(text, format, &DocumentLimits { bytes: limits.bytes.saturating_mul(2), ..*limits })
    };
    let documents = [read(base)?, read(ours)?, read(theirs)?];
    let mut merged = Merge::new(documents.each_ref().map(MergeText::new)).join(limits)?;
    if !ended && merged.ends_with(end) {
        merged.truncate(merged.len() - end.len());
    }
    Ok(Document::parse(merged, format, limits)?.text)
}

/// Returns the value that only one side changed, or both alike; `None` if they differ.
fn of_three<T: PartialEq + Copy>(base: T, ours: T, theirs: T) -> Option<T> {
    if ours == base {
        Some(theirs)
    } else if theirs == base || ours == theirs {
        Some(ours)
    } else {
        None
    }
}

fn with_ends(text: &str, end: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines
        .flat_map(|line| match line.strip_suffix('\n') {
            Some(line) => [line.strip_suffix('\r').unwrap_or(line), end],
            None => [line, ""],
        })
        .collect()
}

/// Index of a text: base, ours, theirs.
type Side = usize;
const BASE: Side = 0;
const OURS: Side = 1;
const THEIRS: Side = 2;

/// Most lines of a side that one line of the base is compared with.
const MOST_CANDIDATES: usize = 32;

/// Identity of a line: side and line number. A line that derives from the base has the place of the base line.
type LineId = (Side, usize);
/// Place of a blank line that the merge adds.
const NOWHERE: LineId = (BASE, usize::MAX);

struct MergeLine<'d> {
    text: &'d str,
    /// Element that the line belongs to; `None` for a blank line.
    node: Option<usize>,
    /// Parts that are merged separately: text before the box, box, words. Only the first line of an item has all three.
    parts: [&'d str; 3],
}

/// A text in lines.
struct MergeText<'d> {
    document: &'d Document,
    lines: Vec<MergeLine<'d>>,
    /// First line of each element.
    first: Vec<usize>,
    /// Key of each line for the alignment. An item's box and indentation are not part of it.
    keys: Vec<String>,
}

impl<'d> MergeText<'d> {
    fn new(document: &'d Document) -> Self {
        let mut text = Self { document, lines: Vec::new(), first: vec![0; document.nodes.len()], keys: Vec::new() };
        let (mut at, mut next) = (0, 0);
        for line in document.text.split_inclusive('\n') {
            while document.nodes.get(next).is_some_and(|node| node.own.end <= at) {
                next += 1;
            }
            let node = document.nodes.get(next).filter(|node| node.own.contains(&at)).map(|_| next);
            let begins = node.filter(|node| document.nodes[*node].own.start == at);
            let marker = begins.and_then(|node| document.marker(node));
            let (prefix, words) = marker.as_ref().map_or((0, 0), |marker| (marker.prefix, marker.text));
            let words = words.min(line.len());
            let key = match begins.and_then(|node| document.id(node)) {
                Some(id) => format!("#{id}"),
                None if marker.is_some() => format!("- {}", lines::substance(&line[words..])),
                None => line.to_owned(),
            };
            if let Some(node) = begins {
                text.first[node] = text.lines.len();
            }
            let parts = [&line[..prefix.min(words)], &line[prefix.min(words)..words], &line[words..]];
            text.lines.push(MergeLine { text: line, node, parts });
            text.keys.push(key);
            at += line.len();
        }
        text
    }

    fn kind(&self, line: usize) -> Option<ElementKind> {
        self.lines[line].node.map(|node| self.document.nodes[node].kind)
    }

    /// Returns kind and level of a line's element, and the line's indentation in columns.
    fn level(&self, line: usize) -> Option<(ElementKind, usize, usize)> {
        let node = &self.document.nodes[self.lines[line].node?];
        Some((node.kind, node.level, lines::indent(self.lines[line].text).0))
    }

    /// Returns the first line of the element that encloses a line.
    fn parent(&self, line: usize) -> Option<usize> {
        let parent = self.document.nodes[self.lines[line].node?].parent?;
        Some(self.first[parent])
    }

    fn joined(&self, lines: Range<usize>) -> String {
        self.lines[lines].iter().map(|line| line.text).collect()
    }
}

/// Order of elements inserted at one place: by kind, then by indentation, deepest first.
type Rank = (u8, Reverse<usize>);

/// Lines of the base, and the lines of a side in their place.
#[derive(Debug, Clone)]
struct Hunk {
    base: Range<usize>,
    side: Range<usize>,
}

struct Merge<'d> {
    texts: [MergeText<'d>; 3],
    /// Changes from the base, by side.
    hunks: [Vec<Hunk>; 3],
    /// Line of the side that matches a line of the base, by side and line of the base.
    to: [Vec<Option<usize>>; 3],
    /// Place of each line, by side and line.
    places: [Vec<LineId>; 3],
    merged: Vec<(String, LineId)>,
    /// True if the last merged line belongs to a paragraph.
    ends_with_prose: bool,
    conflicts: Vec<Conflict>,
}

impl<'d> Merge<'d> {
    fn new(texts: [MergeText<'d>; 3]) -> Self {
        let count = texts[BASE].lines.len();
        let mut merge = Self {
            places: [0, 1, 2].map(|side| (0..texts[side].lines.len()).map(|line| (side, line)).collect()),
            to: [0, 1, 2].map(|side| if side == BASE { (0..count).map(Some).collect() } else { vec![None; count] }),
            hunks: Default::default(),
            texts,
            merged: Vec::new(),
            ends_with_prose: false,
            conflicts: Vec::new(),
        };
        for side in [OURS, THEIRS] {
            merge.compare(side);
        }
        merge
    }

    fn compare(&mut self, side: Side) {
        let (base, text) = (&self.texts[BASE], &self.texts[side]);
        let ends = (base.lines.len(), text.lines.len());
        let (mut from, mut to) = (0, 0);
        for (a, b) in align(&base.keys, &text.keys).into_iter().chain([ends]) {
            if from < a || to < b {
                self.change(side, from..a, to..b);
            }
            if (a, b) != ends {
                self.to[side][a] = Some(b);
                self.places[side][b] = (BASE, a);
            }
            (from, to) = (a + 1, b + 1);
        }
    }

    /// Notes lines that a side has in place of base lines. An item with corrected or added words is still the same.
    fn change(&mut self, side: Side, base: Range<usize>, lines: Range<usize>) {
        let (was, is) = (&self.texts[BASE], &self.texts[side]);
        let words = |text: &MergeText<'d>, at: usize| {
            (text.kind(at) == Some(ElementKind::Item)).then(|| text.lines[at].parts[2])
        };
        let (mut to, mut same) = (lines.start, Vec::new());
        for a in base.clone() {
            let Some(old) = words(was, a) else { continue };
            let candidates = (to..lines.end).take(MOST_CANDIDATES);
            if let Some(b) = candidates.into_iter().find(|b| words(is, *b).is_some_and(|new| is_made_of(old, new))) {
                same.push((a, b));
                to = b + 1;
            }
        }
        let (mut from, mut to) = (base.start, lines.start);
        for (a, b) in same {
            self.replace(side, from..a, to..b);
            self.to[side][a] = Some(b);
            self.places[side][b] = (BASE, a);
            (from, to) = (a + 1, b + 1);
        }
        self.replace(side, from..base.end, to..lines.end);
    }

    /// Notes replaced lines. If kinds and levels match, each base line is paired with its replacement, and the
    /// remaining lines are new.
    fn replace(&mut self, side: Side, base: Range<usize>, lines: Range<usize>) {
        let (was, is) = (&self.texts[BASE], &self.texts[side]);
        let mut pairs = base.clone().zip(lines.clone());
        if base.len() > lines.len() || !pairs.all(|(a, b)| was.level(a) == is.level(b)) {
            self.hunks[side].push(Hunk { base, side: lines });
            return;
        }
        for (a, b) in base.clone().zip(lines.clone()) {
            self.hunks[side].push(Hunk { base: a..a + 1, side: b..b + 1 });
            self.places[side][b] = (BASE, a);
        }
        let new = lines.start + base.len()..lines.end;
        if !new.is_empty() {
            self.hunks[side].push(Hunk { base: base.end..base.end, side: new });
        }
    }

    fn join(mut self, limits: &DocumentLimits) -> Result<String, MergeError> {
        let hunks = std::mem::take(&mut self.hunks);
        let (mut ours, mut theirs) = (hunks[OURS].iter().peekable(), hunks[THEIRS].iter().peekable());
        let mut at = 0;
        while let Some(mut region) = first_of(&mut ours, &mut theirs) {
            let (mut by_us, mut by_them) = (Vec::new(), Vec::new());
            while let Some(hunk) =
                next_within(&mut ours, &region, &mut by_us).or_else(|| next_within(&mut theirs, &region, &mut by_them))
            {
                region = region.start.min(hunk.start)..region.end.max(hunk.end);
            }
            self.keep(at..region.start);
            at = region.end;
            match (&by_us[..], &by_them[..]) {
                (hunks, []) => self.take(OURS, region.clone(), side_of(hunks, &region)),
                ([], hunks) => self.take(THEIRS, region.clone(), side_of(hunks, &region)),
                (us, them) => self.merge_replaced_lines(region, us, them),
            }
        }
        self.keep(at..self.texts[BASE].lines.len());
        if self.conflicts.is_empty() {
            let text: String = self.merged.iter().map(|(line, _)| line.as_str()).collect();
            let read = Document::parse(text, self.texts[BASE].document.format, limits)?;
            self.check(&read);
            if self.conflicts.is_empty() {
                return Ok(read.text);
            }
        }
        Err(MergeError::Conflicts(self.conflicts))
    }

    /// Adds lines that both sides kept, each part as the side that changed it has it.
    fn keep(&mut self, lines: Range<usize>) {
        for at in lines {
            let of = |side: Side| self.to[side][at].and_then(|line| self.texts[side].lines.get(line));
            let (Some(base), Some(ours), Some(theirs)) = (of(BASE), of(OURS), of(THEIRS)) else { continue };
            let part = |part: usize| of_three(base.parts[part], ours.parts[part], theirs.parts[part]);
            match [part(0), part(1), part(2)] {
                [Some(before), Some(state), Some(words)] => {
                    self.put([before, state, words].concat(), BASE, at);
                }
                [_, state, _] => {
                    let kind = if state.is_some() { ConflictKind::Words } else { ConflictKind::State };
                    let [ours, theirs] = [OURS, THEIRS].map(|side| self.to[side][at].unwrap_or_default());
                    self.conflict(kind, at..at + 1, [ours..ours + 1, theirs..theirs + 1]);
                }
            }
        }
    }

    /// Adds lines that one side put in place of base lines; a base line that the other side changed is a conflict.
    fn take(&mut self, side: Side, region: Range<usize>, lines: Range<usize>) {
        let other = OURS + THEIRS - side;
        for at in region {
            let Some(there) = self.to[other][at] else { continue };
            if self.texts[other].lines[there].text != self.texts[BASE].lines[at].text {
                let kind = if lines.is_empty() { removed_by(side) } else { ConflictKind::Words };
                let mut sides = [lines.clone(), there..there + 1];
                if side == THEIRS {
                    sides.reverse();
                }
                self.conflict(kind, at..at + 1, sides);
            }
        }
        self.push(side, lines);
    }

    /// Joins lines that both sides put in place of the same lines, or notes a conflict.
    fn merge_replaced_lines(&mut self, region: Range<usize>, by_us: &[&Hunk], by_them: &[&Hunk]) {
        let (ours, theirs) = (side_of(by_us, &region), side_of(by_them, &region));
        if by_us.iter().chain(by_them).all(|hunk| hunk.side.is_empty()) {
            self.take(OURS, region.clone(), 0..0);
            self.take(THEIRS, region, 0..0);
        } else if self.texts[OURS].joined(ours.clone()) == self.texts[THEIRS].joined(theirs.clone()) {
            self.push(OURS, ours);
        } else if region.is_empty() {
            self.insert(ours, theirs);
        } else if ours.is_empty() {
            for hunk in by_them {
                self.conflict(ConflictKind::RemovedByOurs, hunk.base.clone(), [0..0, hunk.side.clone()]);
            }
        } else if theirs.is_empty() {
            for hunk in by_us {
                self.conflict(ConflictKind::RemovedByTheirs, hunk.base.clone(), [hunk.side.clone(), 0..0]);
            }
        } else {
            self.conflict(ConflictKind::Words, region, [ours, theirs]);
        }
    }

    /// Joins lines that both sides inserted at one place: a common beginning once, then ours before theirs. Keys come
    /// first, then items (deepest first), paragraphs and sections, so that each stays within its parent.
    fn insert(&mut self, ours: Range<usize>, theirs: Range<usize>) {
        let line = |side: Side, at: usize| &self.texts[side].lines[at];
        let alike = ours.clone().zip(theirs.clone()).take_while(|(a, b)| line(OURS, *a).text == line(THEIRS, *b).text);
        let shared = alike.enumerate().filter(|(_, (at, _))| line(OURS, *at).node.is_some()).last();
        let shared = shared.map_or(0, |(nth, _)| nth + 1);
        for at in 0..shared {
            self.places[THEIRS][theirs.start + at] = (OURS, ours.start + at);
        }
        self.push(OURS, ours.start..ours.start + shared);
        let mut us = self.elements(OURS, ours.start + shared..ours.end).into_iter().peekable();
        let mut them = self.elements(THEIRS, theirs.start + shared..theirs.end).into_iter().peekable();
        loop {
            let theirs_first = them.peek().is_some_and(|(rank, _)| us.peek().is_none_or(|(ours, _)| rank < ours));
            let (side, next) = if theirs_first { (THEIRS, them.next()) } else { (OURS, us.next()) };
            let Some((_, lines)) = next else { return };
            self.push(side, lines);
        }
    }

    /// Splits lines into elements, each with its rank and the blank lines before it.
    fn elements(&self, side: Side, lines: Range<usize>) -> Vec<(Rank, Range<usize>)> {
        let text = &self.texts[side];
        let mut elements: Vec<(Rank, Range<usize>)> = Vec::new();
        let mut from = lines.start;
        for at in lines.clone() {
            let begins = text.lines[at].node.is_some_and(|node| text.first[node] == at);
            if begins {
                let rank = match text.kind(at) {
                    Some(ElementKind::Front | ElementKind::Entry | ElementKind::Close) => (0, Reverse(0)),
                    Some(ElementKind::Section) => (3, Reverse(0)),
                    Some(ElementKind::Item) => (1, Reverse(lines::indent(text.lines[at].text).0)),
                    _ => (2, Reverse(0)),
                };
                elements.push((rank, from..at + 1));
            } else if text.lines[at].node.is_some() {
                match elements.last_mut() {
                    Some((_, element)) => element.end = at + 1,
                    // The rest of an element that begins before these lines.
                    None => elements.push(((0, Reverse(0)), from..at + 1)),
                }
            } else {
                continue;
            }
            from = at + 1;
        }
        if from < lines.end {
            elements.push(((3, Reverse(0)), from..lines.end));
        }
        elements
    }

    fn push(&mut self, side: Side, lines: Range<usize>) {
        for at in lines {
            self.put(self.texts[side].lines[at].text.to_owned(), side, at);
        }
    }

    /// Adds a line to the merged text. A blank line keeps a paragraph apart from a neighbour that it did not have
    /// before.
    fn put(&mut self, line: String, side: Side, at: usize) {
        let text = &self.texts[side];
        let begins = text.lines[at].node.is_some_and(|node| text.first[node] == at);
        if let Some((above, place)) = self.merged.last()
            && begins
            && text.document.format == Format::Markdown
            && !lines::is_blank(above)
            && at.checked_sub(1).is_none_or(|before| self.places[side][before] != *place)
            && (text.kind(at) == Some(ElementKind::Prose) || self.ends_with_prose)
        {
            self.merged.push((line_end(above).to_owned(), NOWHERE));
        }
        self.ends_with_prose = text.kind(at) == Some(ElementKind::Prose);
        self.merged.push((line, self.places[side][at]));
    }

    /// Notes a conflict if a merged line is read as another kind, or within another element, than on its side.
    fn check(&mut self, read: &Document) {
        let text = MergeText::new(read);
        if text.lines.len() != self.merged.len()
            || is_faulty(read) && !self.texts.iter().any(|text| is_faulty(text.document))
        {
            return self.conflict(ConflictKind::Layout, 0..0, [0..0, 0..0]);
        }
        let mut by_place: HashMap<LineId, [Option<usize>; 3]> = HashMap::new();
        for side in [BASE, OURS, THEIRS] {
            for (line, place) in self.places[side].iter().enumerate() {
                by_place.entry(*place).or_default()[side] = Some(line);
            }
        }
        for (line, (_, place)) in self.merged.iter().enumerate() {
            let there = by_place.get(place).copied().unwrap_or_default();
            let parent = |side: Side| {
                let line = there[side]?;
                Some(self.texts[side].parent(line).map(|parent| self.places[side][parent]))
            };
            let found: Vec<Option<LineId>> = [BASE, OURS, THEIRS].into_iter().filter_map(parent).collect();
            let meant = match found[..] {
                [base, ours, theirs] => of_three(base, ours, theirs).unwrap_or(ours),
                [.., last] => last,
                [] => None,
            };
            let kinds = [BASE, OURS, THEIRS].into_iter().filter_map(|side| Some(self.texts[side].kind(there[side]?)));
            let is = text.parent(line).and_then(|parent| self.merged.get(parent)).map(|(_, place)| *place);
            if text.lines[line].node.is_none() || is == meant && kinds.into_iter().any(|kind| kind == text.kind(line)) {
                continue;
            }
            let side = if there[THEIRS].is_some() && there[OURS].is_none() { THEIRS } else { OURS };
            let at = there[side].unwrap_or_default();
            let gone = |by: Side| matches!(meant, Some((BASE, parent)) if self.to[by][parent].is_none());
            let kind = [OURS, THEIRS].into_iter().find(|by| gone(*by)).map_or(ConflictKind::Layout, removed_by);
            let mut sides = [0..0, 0..0];
            sides[side - 1] = at..at + 1;
            let stood = there[BASE].map_or(0..0, |base| base..base + 1);
            self.conflict(kind, stood, sides);
            return;
        }
    }

    fn conflict(&mut self, kind: ConflictKind, base: Range<usize>, sides: [Range<usize>; 2]) {
        let [ours, theirs] = sides;
        let all = [(BASE, base), (OURS, ours), (THEIRS, theirs)];
        let says = |(side, lines): &(Side, Range<usize>)| {
            let text = self.texts[*side].joined(lines.clone());
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let begins = |(side, lines): &(Side, Range<usize>)| {
            lines.clone().find_map(|line| Some((*side, self.texts[*side].lines[line].node?)))
        };
        let (section, item) = all.iter().find_map(begins).map_or((String::new(), None), |(side, node)| {
            let document = self.texts[side].document;
            let within = |at: &usize| document.nodes[*at].parent;
            let section =
                std::iter::successors(Some(node), within).find(|at| document.nodes[*at].kind == ElementKind::Section);
            let item = match document.nodes[node].kind {
                ElementKind::Section => None,
                ElementKind::Entry => Some(document.title(node).to_owned()),
                _ => Some(document.item(node).0),
            };
            (document.slug(section).to_owned(), item)
        });
        let [base, ours, theirs] = all.each_ref().map(says);
        self.conflicts.push(Conflict { kind, section, item, base, ours, theirs });
    }
}

/// Returns the lines of the base that the next change of either side replaces.
fn first_of(ours: &mut Peekable<Iter<'_, Hunk>>, theirs: &mut Peekable<Iter<'_, Hunk>>) -> Option<Range<usize>> {
    let next = [ours.peek(), theirs.peek()].map(|hunk| hunk.map(|hunk| (hunk.base.start, hunk.base.end)));
    next.into_iter().flatten().min().map(|(start, end)| start..end)
}

/// Takes the next hunk of a side if it overlaps the region, or inserts at the same place.
fn next_within<'h>(
    hunks: &mut Peekable<Iter<'h, Hunk>>,
    region: &Range<usize>,
    found: &mut Vec<&'h Hunk>,
) -> Option<Range<usize>> {
    let touches = |base: &Range<usize>| base == region || base.start < region.end && region.start < base.end;
    let hunk = hunks.next_if(|hunk| touches(&hunk.base))?;
    found.push(hunk);
    Some(hunk.base.clone())
}

/// Returns the lines of a side that stand in place of a region of the base.
fn side_of(hunks: &[&Hunk], region: &Range<usize>) -> Range<usize> {
    let (Some(first), Some(last)) = (hunks.first(), hunks.last()) else { return 0..0 };
    first.side.start - (first.base.start - region.start)..last.side.end + (region.end - last.base.end)
}

fn removed_by(side: Side) -> ConflictKind {
    if side == OURS { ConflictKind::RemovedByOurs } else { ConflictKind::RemovedByTheirs }
}

/// True if the YAML of a document cannot be read.
fn is_faulty(document: &Document) -> bool {
    matches!(document.front_matter(), Err(YamlError::Syntax { .. } | YamlError::Involved))
}
