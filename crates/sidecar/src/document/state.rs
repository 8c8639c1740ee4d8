//! Progress of a document: whether a section has content, and how many tasks are open.

use super::{Document, DocumentLimits, ElementKind, Format, ItemState, UNLIMITED, yaml};

/// Progress of a document, or of a section with its subsections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// True if there are no words except in titles, comments and front matter.
    pub is_empty: bool,
    /// Items with a box, in quotes too, but not in fences and comments. YAML has no boxes.
    pub tasks: usize,
    /// Items with a box that are open.
    pub open: usize,
}

impl Progress {
    /// True if there are tasks and none is open. A text without tasks is not complete.
    pub fn is_complete(&self) -> bool {
        self.tasks > 0 && self.open == 0
    }
}

impl Document {
    /// Returns the slug of a section by its slug or title; `None` if no section or several match.
    pub fn slug_of(&self, name: &str) -> Option<&str> {
        self.find_section(name).ok()?.map(|at| self.slug(Some(at)))
    }

    /// Returns the progress of the document, or of a section by its slug or title, subsections included. `None` if no
    /// section or several match.
    pub fn progress(&self, section: Option<&str>) -> Option<Progress> {
        let inside = match section {
            None => 0..self.nodes.len(),
            Some(name) => {
                let at = self.find_section(name).ok()??;
                at..self.nodes[at].until
            }
        };
        let mut states: Vec<ItemState> = inside.clone().filter_map(|at| self.marker(at)?.state).collect();
        states.extend(inside.clone().flat_map(|at| self.quoted(at)));
        let open = states.iter().filter(|state| **state == ItemState::Open).count();
        Some(Progress { is_empty: !inside.clone().any(|at| self.says_something(at)), tasks: states.len(), open })
    }

    /// Returns the states of the items in a quote.
    fn quoted(&self, at: usize) -> Vec<ItemState> {
        let own = self.own(at);
        if self.nodes[at].kind != ElementKind::Prose
            || self.format != Format::Markdown
            || !own.trim_start().starts_with('>')
        {
            return Vec::new();
        }
        // Without its signs, the quote is parsed as a text of its own.
        let bare = own.lines().flat_map(|line| [line.trim_start_matches([' ', '\t', '>']), "\n"]).collect::<String>();
        let read = Self::parse(bare, self.format, &DocumentLimits { depth: usize::MAX, ..UNLIMITED }).ok();
        read.map_or_else(Vec::new, |read| (0..read.nodes.len()).filter_map(|at| read.marker(at)?.state).collect())
    }

    fn says_something(&self, at: usize) -> bool {
        words(&self.says(at)).next().is_some()
    }

    /// Returns the content of an element, without comments. Titles, front matter of markdown and keys without value
    /// have none.
    pub(super) fn says(&self, at: usize) -> String {
        let own = self.own(at);
        match (self.format, self.nodes[at].kind) {
            (Format::Markdown, ElementKind::Item) => without_comments(&self.item(at).0),
            (Format::Markdown, ElementKind::Prose) => without_comments(own),
            (Format::Yaml, ElementKind::Item) => own.replacen(yaml::comment(own), "", 1),
            (Format::Yaml, ElementKind::Prose) if !own.trim_start().starts_with('#') => own.to_owned(),
            (Format::Yaml, ElementKind::Section | ElementKind::Entry) => {
                let own = own.replacen(yaml::comment(own), "", 1);
                let value = own.split_once(':').map_or("", |(_, value)| value);
                if matches!(value.trim(), "null" | "Null" | "NULL") { String::new() } else { value.to_owned() }
            }
            _ => String::new(),
        }
    }
}

/// Returns the words of a text, in small letters.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

fn without_comments(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, comment)) = rest.split_once("<!--") {
        out.extend([before, " "]);
        rest = comment.split_once("-->").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}
