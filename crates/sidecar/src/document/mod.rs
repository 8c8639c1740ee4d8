//! Working documents of a session: an agent's todo, spec and notes. Text and edits in, texts out; pure.
//!
//! A document is its text. [`Document`] adds a structure (`parse`: front matter, sections, items with their state) and
//! keeps every byte: text that is not edited is written back unchanged.
//!
//! - [`edit`] changes the sections and items that an edit names (found by `address`), and nothing else.
//! - [`merge`] joins two texts with a common base, by lines and items, or lists the conflicts.
//! - [`revision`] is the history: etags, entries that replay from the first text to the last, changes of sections.
//! - [`merge_base`] finds the state of a history that a text from a file was made from.
//! - [`Progress`] tells whether a section is empty, and how many of its tasks are open.
//! - [`patch`] is the line difference of two texts.
//! - [`name`] holds the names of documents and their files.
//!
//! Every step is bounded by [`DocumentLimits`] and takes time about in proportion to the text. The caller removes
//! secrets from texts first. Messages by [`std::fmt::Display`] repeat nothing of a text.

mod address;
pub mod edit;
mod lines;
pub mod merge;
pub mod merge_base;
pub mod name;
mod parse;
pub mod patch;
pub mod revision;
mod state;
#[cfg(test)]
mod tests;
mod yaml;

use std::{fmt, ops::Range};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use lines::ItemState;
pub use state::Progress;
pub use yaml::YamlError;

/// Syntax of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Markdown, with or without YAML front matter.
    Markdown,
    /// YAML alone: keys at the first column are sections, elements of lists are items.
    Yaml,
}

/// Limits of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentLimits {
    /// Bytes of text.
    pub bytes: usize,
    /// Sections, nested ones included.
    pub sections: usize,
    /// Items, nested ones included.
    pub items: usize,
    /// Nesting depth of items.
    pub depth: usize,
    /// Edits in one request.
    pub edits: usize,
}

/// Limits that no text exceeds, except of depth.
const UNLIMITED: DocumentLimits =
    DocumentLimits { bytes: usize::MAX, sections: usize::MAX, items: usize::MAX, depth: 16, edits: 0 };

impl Default for DocumentLimits {
    fn default() -> Self {
        Self { bytes: 256 * 1024, sections: 500, items: 5_000, depth: 16, edits: 100 }
    }
}

/// A text exceeds a limit; the message says which, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LimitError(String);

/// Kind of an element of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ElementKind {
    /// The line that opens front matter.
    Front,
    /// A key of front matter, or of a mapping of YAML, with its value.
    Entry,
    /// The line that closes front matter.
    Close,
    /// A heading.
    Section,
    /// An element of a list, without its nested elements.
    Item,
    /// Anything else: a paragraph, a fence, a comment, a table.
    Prose,
}

/// An element: blank lines before it, its own lines, and then its nested elements.
#[derive(Debug, Clone)]
struct DocumentElement {
    kind: ElementKind,
    /// Enclosing element; `None` at the top of the document.
    parent: Option<usize>,
    /// Heading level, 1 to 6; 0 for elements other than sections.
    level: usize,
    /// Start of the blank lines before it, in bytes.
    start: usize,
    /// Byte range of its own lines.
    own: Range<usize>,
    /// Index of the first element behind it that is not nested in it.
    until: usize,
}

/// A text, and the positions of its sections and items.
#[derive(Clone)]
pub struct Document {
    text: String,
    format: Format,
    /// Elements in the order of the text, which they cover except for blank lines at its end.
    nodes: Vec<DocumentElement>,
    /// Element and slug of each section, in order.
    slugs: Vec<(usize, String)>,
}

/// A section, as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Section {
    /// Name for edits: the explicit id, or the title in small letters and dashes. Repeated names are numbered.
    pub slug: String,
    /// Title, as written.
    pub title: String,
    /// Heading level, 1 to 6; 0 for the part before the first heading.
    pub level: usize,
    /// Items of the section, without those of its subsections.
    pub items: Vec<Item>,
}

/// An item, as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Item {
    /// Position among the section's items, counted from 1. Edits can refer to it.
    pub index: usize,
    /// Explicit id (`<!-- id: x -->`).
    pub id: Option<String>,
    /// State of the box; `None` for an item without a box.
    pub state: Option<ItemState>,
    /// Text, on one line.
    pub text: String,
    /// Number of items that enclose it.
    pub depth: usize,
}

impl Document {
    /// Parses a text. Any text within the limits is a document.
    ///
    /// # Errors
    /// The text exceeds a limit.
    pub fn parse(text: impl Into<String>, format: Format, limits: &DocumentLimits) -> Result<Self, LimitError> {
        parse::parse(text.into(), format, limits)
    }

    /// Returns the text, byte for byte as it came.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the syntax.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the sections in order. Items before the first heading come first, under an empty slug.
    pub fn sections(&self) -> Vec<Section> {
        let front = Section { slug: String::new(), title: String::new(), level: 0, items: self.items_of(None) };
        let listed = self.slugs.iter().map(|(at, slug)| Section {
            slug: slug.clone(),
            title: self.title(*at).to_owned(),
            level: self.nodes[*at].level,
            items: self.items_of(Some(*at)),
        });
        Some(front).filter(|front| !front.items.is_empty()).into_iter().chain(listed).collect()
    }

    fn items_of(&self, section: Option<usize>) -> Vec<Item> {
        let shown = |(place, at): (usize, usize)| {
            let (text, state) = self.item(at);
            Item { index: place + 1, id: self.id(at).map(str::to_owned), state, text, depth: self.depth(at) }
        };
        self.items_within(section).into_iter().enumerate().map(shown).collect()
    }

    /// Returns the items of a section, without those of its subsections.
    fn items_within(&self, section: Option<usize>) -> Vec<usize> {
        let inside = section.map_or(0..self.nodes.len(), |at| at + 1..self.nodes[at].until);
        let own = inside.take_while(|at| self.nodes[*at].kind != ElementKind::Section);
        own.filter(|at| self.nodes[*at].kind == ElementKind::Item).collect()
    }

    /// Counts the items that enclose an item.
    fn depth(&self, at: usize) -> usize {
        let within = |at: &usize| self.nodes[*at].parent;
        std::iter::successors(within(&at), within).take_while(|at| self.nodes[*at].kind == ElementKind::Item).count()
    }

    fn own(&self, at: usize) -> &str {
        &self.text[self.nodes[at].own.clone()]
    }

    /// Returns the title of a section, or the key of an entry.
    fn title(&self, at: usize) -> &str {
        let own = self.own(at);
        match (self.format, self.nodes[at].kind) {
            (Format::Yaml, _) | (_, ElementKind::Entry) => lines::key(own.trim_start()).unwrap_or_default(),
            _ => lines::heading(own).map_or_else(|| own.lines().next().unwrap_or_default().trim(), |(_, title)| title),
        }
    }

    fn id(&self, at: usize) -> Option<&str> {
        matches!(self.nodes[at].kind, ElementKind::Section | ElementKind::Item)
            .then(|| lines::explicit_id(self.own(at)))?
    }

    fn marker(&self, at: usize) -> Option<lines::Marker> {
        if self.nodes[at].kind != ElementKind::Item {
            return None;
        }
        match self.format {
            Format::Markdown => lines::Marker::of(self.own(at)),
            Format::Yaml => lines::Marker::of_yaml(self.own(at)),
        }
    }

    /// Returns text and state of an item.
    fn item(&self, at: usize) -> (String, Option<ItemState>) {
        let marker = self.marker(at);
        let text = marker.as_ref().map_or(0, |marker| marker.text);
        (lines::substance(&self.own(at)[text..]), marker.and_then(|marker| marker.state))
    }

    /// Returns the line end for new lines, that of the first line.
    fn line_end(&self) -> &'static str {
        line_end(&self.text)
    }

    /// Returns the slug of a section; empty for the part before the first section.
    fn slug(&self, section: Option<usize>) -> &str {
        let found = section.and_then(|at| self.slugs.binary_search_by_key(&at, |(at, _)| *at).ok());
        found.map_or("", |place| &self.slugs[place].1)
    }
}

impl fmt::Debug for Document {
    /// Shows sizes only: the text was written by agents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({} bytes, {} elements)", self.text.len(), self.nodes.len())
    }
}

/// Returns the line end of a text's first line.
fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}
