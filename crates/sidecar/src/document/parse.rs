//! Parses lines into elements, in one pass. The rules follow `CommonMark` 0.31, but are our own: a markdown parser that
//! builds a tree does not tell where every byte belongs, and agents indent less exactly than the standard asks.
//!
//! An item is nested in the last item that is indented at least two columns less. An indented line after a list belongs
//! to its item; a line at the first column ends the list. The content of fences and comments is not interpreted.

use std::collections::HashMap;

use super::{
    Document, DocumentElement, DocumentLimits, ElementKind, Format, LimitError,
    lines::{self, CODE, Enclosure, Marker, STEP},
};

/// Longest slug, in bytes.
const MOST_SLUG: usize = 64;

/// Parses a whole text.
pub(super) fn parse(text: String, format: Format, limits: &DocumentLimits) -> Result<Document, LimitError> {
    if text.len() > limits.bytes {
        let (bytes, most) = (text.len(), limits.bytes);
        return Err(LimitError(format!(
            "the document would have {bytes} bytes, and {most} are allowed: move finished parts elsewhere"
        )));
    }
    let mut reader = DocumentParser { text: &text, limits: *limits, ..DocumentParser::default() };
    match format {
        Format::Yaml => reader.read_yaml(0..text.len(), ElementKind::Section)?,
        Format::Markdown => reader.read_markdown()?,
    }
    let mut nodes = reader.nodes;
    close(&mut nodes);
    let mut document = Document { text, format, nodes, slugs: Vec::new() };
    document.slugs = slugs(&document);
    Ok(document)
}

/// Sets the end of each element.
fn close(nodes: &mut [DocumentElement]) {
    for at in (0..nodes.len()).rev() {
        nodes[at].until = nodes[at].until.max(at + 1);
        if let Some(parent) = nodes[at].parent {
            nodes[parent].until = nodes[parent].until.max(nodes[at].until);
        }
    }
}

/// Returns the slug of each section: its id, or its title. A repeated slug becomes `name-2`, or the next free number.
fn slugs(document: &Document) -> Vec<(usize, String)> {
    let mut next: HashMap<String, usize> = HashMap::new();
    let sections = (0..document.nodes.len()).filter(|at| document.nodes[*at].kind == ElementKind::Section);
    let mut named = |at| {
        let base = document.id(at).map_or_else(|| slug(document.title(at)), str::to_owned);
        let mut name = base.clone();
        while next.contains_key(&name) {
            let number = next.entry(base.clone()).or_default();
            *number += 1;
            name = format!("{base}-{number}");
        }
        next.insert(name.clone(), 1);
        (at, name)
    };
    sections.map(&mut named).collect()
}

/// Returns a title as small letters and digits of any script, joined by dashes.
pub(super) fn slug(title: &str) -> String {
    let mut out = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if out.len() + c.len_utf8() > MOST_SLUG {
            break;
        }
        if c.is_alphanumeric() {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(out.trim_end_matches('-').len());
    if out.is_empty() { "section".into() } else { out }
}

/// Parser state: the elements so far, and those that enclose the current line.
#[derive(Default)]
struct DocumentParser<'a> {
    text: &'a str,
    limits: DocumentLimits,
    nodes: Vec<DocumentElement>,
    /// End of the text that belongs to elements, in bytes.
    taken: usize,
    /// Sections that enclose the line, outermost first.
    sections: Vec<usize>,
    /// YAML keys that enclose the line, outermost first, with their columns.
    keys: Vec<(usize, usize)>,
    /// Items that enclose the line, outermost first, with their columns.
    items: Vec<(usize, usize)>,
    /// True if the next line may continue the last element.
    runs_on: bool,
    counts: (usize, usize),
}

impl<'a> DocumentParser<'a> {
    /// Returns the lines of a part of the text, each with its start and end.
    fn lines(&self, part: std::ops::Range<usize>) -> impl Iterator<Item = (usize, usize, &'a str)> + use<'a> {
        let mut at = part.start;
        self.text[part].split_inclusive('\n').map(move |line| {
            at += line.len();
            (at - line.len(), at, line)
        })
    }

    fn push(&mut self, kind: ElementKind, parent: Option<usize>, level: usize, own: std::ops::Range<usize>) -> usize {
        let start = std::mem::replace(&mut self.taken, own.end);
        self.runs_on = matches!(kind, ElementKind::Item | ElementKind::Prose);
        self.nodes.push(DocumentElement { kind, parent, level, start, own, until: 0 });
        self.nodes.len() - 1
    }

    /// Adds a line to the last element.
    fn extend(&mut self, end: usize) {
        if let Some(last) = self.nodes.last_mut() {
            last.own.end = end;
            self.taken = end;
        }
    }

    /// Ends the items that do not enclose a line at this column, and returns the element that does.
    fn within(&mut self, column: usize, step: usize) -> Option<usize> {
        while self.items.last().is_some_and(|(_, indent)| indent + step > column) {
            self.items.pop();
        }
        self.items.last().map(|(at, _)| *at).or_else(|| self.sections.last().copied())
    }

    fn push_section(&mut self, level: usize, own: std::ops::Range<usize>) -> Result<(), LimitError> {
        self.counts.0 += 1;
        if self.counts.0 > self.limits.sections {
            let most = self.limits.sections;
            return Err(LimitError(format!("the document would have more than {most} sections: split it")));
        }
        self.items.clear();
        while self.sections.last().is_some_and(|at| self.nodes[*at].level >= level) {
            self.sections.pop();
        }
        let at = self.push(ElementKind::Section, self.sections.last().copied(), level, own);
        self.sections.push(at);
        Ok(())
    }

    fn push_item(
        &mut self,
        indent: usize,
        parent: Option<usize>,
        own: std::ops::Range<usize>,
    ) -> Result<(), LimitError> {
        self.counts.1 += 1;
        if self.counts.1 > self.limits.items {
            let most = self.limits.items;
            let advice = "split it, or remove finished items";
            return Err(LimitError(format!("the document would have more than {most} items: {advice}")));
        }
        let start = own.start;
        let at = self.push(ElementKind::Item, parent, 0, own);
        self.items.push((at, indent));
        if self.items.len() > self.limits.depth {
            let line = self.text[..start].matches('\n').count() + 1;
            let most = self.limits.depth;
            return Err(LimitError(format!("line {line} is nested more than {most} items deep: make it a section")));
        }
        Ok(())
    }

    fn read_markdown(&mut self) -> Result<(), LimitError> {
        let from = self.read_front()?;
        let mut enclosure: Option<Enclosure> = None;
        for (start, end, line) in self.lines(from..self.text.len()) {
            if let Some(open) = enclosure {
                self.extend(end);
                if open.ends(line) {
                    enclosure = None;
                }
            } else if lines::is_blank(line) {
                self.runs_on = false;
            } else if let Some((opened, still_open)) = Enclosure::opened(line) {
                let parent = self.within(lines::indent(line).0, STEP);
                self.push(ElementKind::Prose, parent, 0, start..end);
                self.runs_on = false;
                enclosure = still_open.then_some(opened);
            } else {
                self.read_line(start, end, line)?;
            }
        }
        Ok(())
    }

    /// Reads a line of markdown outside of fences and comments.
    fn read_line(&mut self, start: usize, end: usize, line: &str) -> Result<(), LimitError> {
        let (column, _) = lines::indent(line);
        let in_item = self.items.last().is_some_and(|(_, indent)| indent + STEP <= column);
        if let Some((level, _)) = lines::heading(line).filter(|_| !in_item) {
            return self.push_section(level, start..end);
        }
        let last = self.nodes.last().filter(|_| self.runs_on);
        let prose = last.filter(|last| last.kind == ElementKind::Prose);
        if let (Some(level), Some(title)) = (lines::underline(line), prose.filter(|_| self.items.is_empty()))
            && is_title(&self.text[title.own.clone()])
        {
            let own = title.own.start..end;
            self.taken = title.start;
            self.nodes.pop();
            return self.push_section(level, own);
        }
        let marker = Marker::of(line).filter(|marker| {
            let is_code = self.items.is_empty() && column >= CODE;
            // In a paragraph, another number at the start of a line is part of its sentence (CommonMark 0.31, 5.3).
            let interrupts = prose.is_none() || matches!(&line[marker.bullet.clone()], "-" | "*" | "+" | "1." | "1)");
            !is_code && interrupts
        });
        if let Some(marker) = marker {
            let parent = self.within(marker.indent, STEP);
            return self.push_item(marker.indent, parent, start..end);
        }
        let stands_alone = lines::is_break(line);
        let quotes = line.trim_start().starts_with('>');
        let joins = |last: &DocumentElement| last.kind == ElementKind::Prose || !quotes;
        if !stands_alone && last.is_some_and(joins) {
            self.extend(end);
        } else {
            let parent = self.within(column, STEP);
            self.push(ElementKind::Prose, parent, 0, start..end);
            self.runs_on = !stands_alone;
        }
        Ok(())
    }

    /// Reads front matter, if the text opens with it, and returns its end.
    fn read_front(&mut self) -> Result<usize, LimitError> {
        let fence = |line: &str, sign: &str| line.trim_end() == sign;
        let mut lines = self.lines(0..self.text.len());
        let Some((_, opened, _)) = lines.next().filter(|(.., line)| fence(line, "---")) else { return Ok(0) };
        let Some((closes, end, _)) = lines.find(|(.., line)| fence(line, "---") || fence(line, "...")) else {
            return Ok(0);
        };
        let front = self.push(ElementKind::Front, None, 0, 0..opened);
        self.sections.push(front);
        self.read_yaml(opened..closes, ElementKind::Entry)?;
        self.push(ElementKind::Close, Some(front), 0, closes..end);
        self.runs_on = false;
        self.sections.clear();
        self.keys.clear();
        self.items.clear();
        Ok(end)
    }

    /// Detaches comments at the first column from the key above: they belong to the key below.
    fn release_comments(&mut self) {
        for node in self.nodes.iter_mut().rev() {
            if node.kind != ElementKind::Prose || node.parent.is_none() || self.text[node.own.clone()].starts_with(' ')
            {
                break;
            }
            node.parent = None;
        }
    }

    /// Returns the element that encloses a YAML line at this column: an item, or the last key left of `least`.
    fn within_yaml(&mut self, column: usize, least: usize) -> Option<usize> {
        while self.items.last().is_some_and(|(_, indent)| *indent >= column) {
            self.items.pop();
        }
        let key = self.keys.iter().rev().find(|(_, indent)| *indent < least);
        self.items.last().or(key).map(|(at, _)| *at).or_else(|| self.sections.last().copied())
    }

    /// Reads YAML. Keys become entries that enclose their content. Keys at the first column become elements of kind
    /// `keys`: sections of a document with items, or entries of front matter, where lists belong to their key. A
    /// mapping within an item belongs to the item.
    fn read_yaml(&mut self, part: std::ops::Range<usize>, keys: ElementKind) -> Result<(), LimitError> {
        let has_items = keys == ElementKind::Section;
        // Column of the line that opened the current block scalar.
        let mut block: Option<usize> = None;
        for (start, end, line) in self.lines(part) {
            let (column, begin) = lines::indent(line);
            if lines::is_blank(line) {
                continue;
            }
            block = block.filter(|outer| column > *outer);
            let is_comment = line[begin..].starts_with('#');
            let has_last = self
                .nodes
                .last()
                .is_some_and(|last| matches!(last.kind, ElementKind::Section | ElementKind::Entry | ElementKind::Item));
            if block.is_some() && has_last {
                self.extend(end);
                continue;
            }
            let in_item = self.items.first().is_some_and(|(_, indent)| *indent < column);
            if lines::key(&line[begin..]).is_some() && !in_item {
                self.push_key(if column == 0 { keys } else { ElementKind::Entry }, column, start..end)?;
            } else if let Some(marker) = Marker::of_yaml(line).filter(|_| has_items) {
                let parent = self.within_yaml(column, column + 1);
                self.push_item(marker.indent, parent, start..end)?;
            } else if has_last
                && (column > 0 || line.starts_with(['-', ']', '}']))
                && !(is_comment && (column == 0 || has_items))
            {
                if self.items.is_empty() && Marker::of_yaml(line).is_some() {
                    self.items.push((self.nodes.len() - 1, column));
                }
                self.extend(end);
            } else {
                let parent = self.within_yaml(column, column);
                self.push(ElementKind::Prose, parent, 0, start..end);
            }
            block = lines::opens_block(line).then_some(column).filter(|_| !is_comment);
        }
        Ok(())
    }

    fn push_key(&mut self, kind: ElementKind, column: usize, own: std::ops::Range<usize>) -> Result<(), LimitError> {
        self.items.clear();
        while self.keys.last().is_some_and(|(_, indent)| *indent >= column) {
            self.keys.pop();
        }
        if kind == ElementKind::Section {
            self.release_comments();
            self.push_section(1, own)?;
        } else {
            let parent = self.keys.last().map(|(at, _)| *at).or_else(|| self.sections.last().copied());
            self.push(kind, parent, 0, own);
        }
        self.keys.push((self.nodes.len() - 1, column));
        Ok(())
    }
}

/// True if a paragraph is a single line that an underline can turn into a heading.
fn is_title(own: &str) -> bool {
    own.trim_end().lines().count() == 1 && lines::indent(own).0 < CODE && !own.trim_start().starts_with(['>', '|'])
}
