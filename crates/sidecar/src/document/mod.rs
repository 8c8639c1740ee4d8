//! Working documents: an agent's todo, its spec, its notes. Text and edits in, texts out; pure.
//!
//! A document is its text. [`Document`] lays a structure over it (`parse`: front matter, sections, items with their state)
//! and leaves every byte where it is: what is not edited is written back as it came, whatever it may be.
//!
//! - [`edit`] changes what an edit names, found by `address`, and nothing else.
//! - [`merge`] joins two texts that come from the same one, by lines and items, or says what contradicts itself.
//! - [`revision`] is the history: etags, entries that replay from the first text to the last, whether a section moved on.
//! - [`merge_base`] finds the state of a history that a text was made from that came back from a file.
//! - [`Progress`] is how far a section has come: whether it says anything, and what is open in it.
//! - [`patch`] is the difference of two texts in lines; [`name`] what documents and their files may be called, and how a
//!   file that somebody else changed is read back.
//!
//! Every step is bounded by [`Limits`] and takes time in proportion to the text, or nearly. Texts are what the caller keeps:
//! secrets are gone from them before they come here, and what is said by [`std::fmt::Display`] repeats none of them.

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

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Markdown, with YAML before it or not.
    Markdown,
    /// YAML alone: keys at its first column are its sections, elements of lists its items.
    Yaml,
}

/// What a document may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text.
    pub bytes: usize,
    /// Sections, those within others too.
    pub sections: usize,
    /// Items, those within others too.
    pub items: usize,
    /// Items within each other.
    pub depth: usize,
    /// Edits at a time.
    pub edits: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 256 * 1024, sections: 500, items: 5_000, depth: 16, edits: 100 }
    }
}

/// A text is more than a document may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Too long.
    #[error("the document would have {bytes} bytes, at most {most} are kept; move what is done elsewhere")]
    Bytes {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// Too many sections.
    #[error("the document would have more than {most} sections; split it")]
    Sections {
        /// How many there may be.
        most: usize,
    },
    /// Too many items.
    #[error("the document would have more than {most} items; split it, or remove what is done")]
    Items {
        /// How many there may be.
        most: usize,
    },
    /// Items too deep within each other.
    #[error("line {line} stands more than {most} items deep; make a section of it")]
    Depth {
        /// Counted from 1.
        line: usize,
        /// How deep they may be.
        most: usize,
    },
}

/// What an element of a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    /// The line that opens front matter.
    Front,
    /// A key of front matter, or of a mapping of YAML, with its value.
    Entry,
    /// The line that closes front matter.
    Close,
    /// A heading.
    Section,
    /// An element of a list, without what lies within it.
    Item,
    /// Anything else: a paragraph, a fence, a comment, a table.
    Prose,
}

/// An element: blank lines before it, its own lines, and then what lies within it.
#[derive(Debug, Clone)]
struct Node {
    kind: Kind,
    /// What it lies within; `None` is the document.
    parent: Option<usize>,
    /// 1 to 6 for sections, 0 for others.
    level: usize,
    /// Where its blank lines begin.
    start: usize,
    /// Where its own lines are.
    own: Range<usize>,
    /// The first element behind it that does not lie within it.
    until: usize,
}

/// A text, and where its sections and items are.
#[derive(Clone)]
pub struct Document {
    text: String,
    format: Format,
    /// In the order of the text, which they cover but for blank lines at its end.
    nodes: Vec<Node>,
    /// For each section, in order: its element and its slug.
    slugs: Vec<(usize, String)>,
}

/// A section, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Section {
    /// What edits call it: its explicit id, or its title in small letters and dashes; namesakes are numbered.
    pub slug: String,
    /// As it stands there.
    pub title: String,
    /// 1 to 6.
    pub level: usize,
    /// What it holds, without the sections within it.
    pub items: Vec<Item>,
}

/// An item, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Item {
    /// Of those in its section, counted from 1: what edits may call it by.
    pub index: usize,
    /// Its explicit id (`<!-- id: x -->`).
    pub id: Option<String>,
    /// `None` for one without a box.
    pub state: Option<ItemState>,
    /// Its words, on one line.
    pub text: String,
    /// Items that it lies within.
    pub depth: usize,
}

impl Document {
    /// Reads a text. Any text is a document, within limits.
    ///
    /// # Errors
    /// It is more than a document may be.
    pub fn parse(text: impl Into<String>, format: Format, limits: &Limits) -> Result<Self, LimitError> {
        parse::parse(text.into(), format, limits)
    }

    /// The text, byte by byte as it came.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How it is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What stands before the first heading, under an empty slug, if items do; then the sections in order.
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

    /// The items of a section, without those of sections within it.
    fn items_within(&self, section: Option<usize>) -> Vec<usize> {
        let inside = section.map_or(0..self.nodes.len(), |at| at + 1..self.nodes[at].until);
        let own = inside.take_while(|at| self.nodes[*at].kind != Kind::Section);
        own.filter(|at| self.nodes[*at].kind == Kind::Item).collect()
    }

    /// How many items an item lies within.
    fn depth(&self, at: usize) -> usize {
        let within = |at: &usize| self.nodes[*at].parent;
        std::iter::successors(within(&at), within).take_while(|at| self.nodes[*at].kind == Kind::Item).count()
    }

    fn own(&self, at: usize) -> &str {
        &self.text[self.nodes[at].own.clone()]
    }

    /// The title of a section, or the key of an entry.
    fn title(&self, at: usize) -> &str {
        let own = self.own(at);
        match (self.format, self.nodes[at].kind) {
            (Format::Yaml, _) | (_, Kind::Entry) => lines::key(own.trim_start()).unwrap_or_default(),
            _ => lines::heading(own).map_or_else(|| own.lines().next().unwrap_or_default().trim(), |(_, title)| title),
        }
    }

    fn id(&self, at: usize) -> Option<&str> {
        matches!(self.nodes[at].kind, Kind::Section | Kind::Item).then(|| lines::explicit_id(self.own(at)))?
    }

    fn marker(&self, at: usize) -> Option<lines::Marker> {
        if self.nodes[at].kind != Kind::Item {
            return None;
        }
        match self.format {
            Format::Markdown => lines::Marker::of(self.own(at)),
            Format::Yaml => lines::Marker::of_yaml(self.own(at)),
        }
    }

    /// The words of an item, and its state.
    fn item(&self, at: usize) -> (String, Option<ItemState>) {
        let marker = self.marker(at);
        let text = marker.as_ref().map_or(0, |marker| marker.text);
        (lines::substance(&self.own(at)[text..]), marker.and_then(|marker| marker.state))
    }

    /// How its lines end, for those that come in.
    fn line_end(&self) -> &'static str {
        line_end(&self.text)
    }

    /// The slug of a section; nothing for what stands before the first.
    fn slug(&self, section: Option<usize>) -> &str {
        let found = section.and_then(|at| self.slugs.binary_search_by_key(&at, |(at, _)| *at).ok());
        found.map_or("", |place| &self.slugs[place].1)
    }
}

impl fmt::Debug for Document {
    /// What agents wrote is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({} bytes, {} elements)", self.text.len(), self.nodes.len())
    }
}

/// How the first line of a text ends.
fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}
