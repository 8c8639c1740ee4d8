//! The text that comes of three: the order of its elements, and the blank lines between them.

use std::collections::HashMap;

use super::{
    Conflict, ConflictKind, MergeError, of_three, order,
    plan::{Plan, Read, SIDES},
};
use crate::document::{Document, Format, Kind, Limits, yaml::YamlError};

/// An element, or an end of the text.
type Beside = Option<usize>;

impl Plan<'_> {
    /// Writes what lives, within what it lies, and reads it again.
    pub(super) fn write(
        &self,
        within: &[Option<usize>],
        own: &[Option<String>],
        end: &str,
        limits: &Limits,
    ) -> Result<String, MergeError> {
        let order = self.order(within, own);
        if order.len() != own.iter().flatten().count() {
            return Err(whole(ConflictKind::Moved));
        }
        let (mut out, mut above) = (String::new(), None);
        for element in &order {
            out.push_str(&self.between(above, Some(*element), end));
            out.push_str(own[*element].as_deref().unwrap_or_default());
            if !out.ends_with('\n') {
                out.push_str(end);
            }
            above = Some(*element);
        }
        out.push_str(&self.between(above, None, end));
        let read = Document::parse(out, self.format(), limits)?;
        if self.is_meant(&read, &order, own) { Ok(read.text) } else { Err(whole(ConflictKind::Layout)) }
    }

    fn format(&self) -> Format {
        self.texts[0].document.format
    }

    /// What lives, in the order of the merged text.
    fn order(&self, within: &[Option<usize>], own: &[Option<String>]) -> Vec<usize> {
        let mut inside: HashMap<Option<usize>, [Vec<usize>; 3]> = HashMap::new();
        for (side, (read, of)) in self.texts.iter().zip(&self.of).enumerate() {
            for (at, element) in of.iter().enumerate() {
                let there = read.document.nodes[at].parent.map(|parent| of[parent]);
                if own[*element].is_some() && within[*element] == there {
                    inside.entry(there).or_default()[side].push(*element);
                }
            }
        }
        let is_markdown = self.format() == Format::Markdown;
        let rank = |element: &usize| match self.kind(*element) {
            Kind::Front => 0,
            // What stands below a heading is its own, so sections come last.
            Kind::Section if is_markdown => 2,
            Kind::Close => 3,
            _ => 1,
        };
        let mut children = |parent: Option<usize>| -> Vec<usize> {
            let [base, ours, theirs] = inside.remove(&parent).unwrap_or_default();
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

    /// The blank lines between two that stand beside each other in the end: those that stood between them, or what is usual
    /// there.
    fn between(&self, above: Beside, below: Beside, end: &str) -> String {
        let place = |text: usize, element: usize| self.elements[element].at[text];
        let behind = |text: usize| above.map_or(Some(0), |above| place(text, above).map(|at| at + 1));
        let before = |text: usize| below.map_or(Some(self.of[text].len()), |below| place(text, below));
        let there = |text: usize| behind(text).filter(|next| before(text) == Some(*next));
        let blanks = |text: usize, at: usize| blanks_before(&self.texts[text], at);
        let stood = [0, 1, 2].map(|text| there(text).map(|at| blanks(text, at)));
        let found = match stood {
            [Some(base), Some(ours), Some(theirs)] => Some(of_three(base, ours, theirs)),
            [base, ours, theirs] => ours.or(theirs).or(base),
        };
        if let Some(found) = found {
            return found.to_owned();
        }
        // They are new neighbours. A heading keeps the blank lines around it; others are no further apart than from their
        // former neighbours, but paragraphs would be read as one without a blank line.
        let first = |at: &dyn Fn(usize) -> Option<usize>| {
            SIDES.into_iter().find_map(|text| at(text).map(|at| blanks(text, at))).unwrap_or_default()
        };
        let (behind, before) = (first(&behind), first(&before));
        let is_markdown = self.format() == Format::Markdown;
        let heads = |beside: Beside| beside.is_none_or(|element| self.kind(element) == Kind::Section);
        let blanks = match () {
            () if heads(below) => before,
            () if is_markdown && heads(above) => behind,
            () if behind.len() < before.len() => behind,
            () => before,
        };
        let parts =
            |beside: Beside| beside.is_some_and(|element| matches!(self.kind(element), Kind::Prose | Kind::Section));
        let apart = is_markdown && above.is_some() && below.is_some() && (parts(above) || parts(below));
        if apart && blanks.is_empty() { end.to_owned() } else { blanks.to_owned() }
    }

    /// Whether a text is read as what was put into it.
    fn is_meant(&self, read: &Document, order: &[usize], own: &[Option<String>]) -> bool {
        let is_faulty = |document: &Document| {
            matches!(document.front_matter(), Err(YamlError::Syntax { .. } | YamlError::Involved))
        };
        let same = |(at, element): (usize, &usize)| {
            let meant = own[*element].as_deref().unwrap_or_default();
            read.nodes[at].kind == self.kind(*element) && read.own(at).trim_end() == meant.trim_end()
        };
        read.nodes.len() == order.len()
            && order.iter().enumerate().all(same)
            && (!is_faulty(read) || self.texts.iter().any(|text| is_faulty(text.document)))
    }
}

/// The blank lines before an element of a text, or at its end.
fn blanks_before<'a>(read: &Read<'a>, at: usize) -> &'a str {
    let document = read.document;
    match document.nodes.get(at) {
        Some(node) => &document.text[node.start..node.own.start],
        None => &document.text[document.nodes.last().map_or(0, |last| last.own.end)..],
    }
}

fn whole(kind: ConflictKind) -> MergeError {
    let conflict = Conflict { kind, section: String::new(), item: None, base: None, ours: None, theirs: None };
    MergeError::Conflicts(vec![conflict])
}
