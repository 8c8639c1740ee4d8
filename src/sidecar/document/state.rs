//! How far a document has come: whether a section of it says anything, and what is still open.

use super::{Document, Format, ItemState, Kind, yaml};

/// How far a document, or a section with those within it, has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Whether it says nothing: neither items nor words but titles, comments and front matter.
    pub is_empty: bool,
    /// Items that are open.
    pub open: usize,
}

impl Document {
    /// The slug of a section, by its slug or title. `None` where there is no such section, or where several have the title.
    pub fn slug_of(&self, name: &str) -> Option<&str> {
        self.find_section(name).ok()?.map(|at| self.slug(Some(at)))
    }

    /// How far it has come; of one section by its slug or title, with those within it. `None` where there is no such
    /// section, or where several have the title.
    pub fn progress(&self, section: Option<&str>) -> Option<Progress> {
        let inside = match section {
            None => 0..self.nodes.len(),
            Some(name) => {
                let at = self.find_section(name).ok()??;
                at..self.nodes[at].until
            }
        };
        let is_open = |at: &usize| self.marker(*at).is_some_and(|marker| marker.state == Some(ItemState::Open));
        let open = inside.clone().filter(is_open).count();
        Some(Progress { is_empty: !inside.clone().any(|at| self.says_something(at)), open })
    }

    fn says_something(&self, at: usize) -> bool {
        match self.nodes[at].kind {
            Kind::Item => has_words(&self.item(at).0),
            Kind::Prose if self.format == Format::Yaml => !self.own(at).trim_start().starts_with('#'),
            Kind::Prose => has_words(self.own(at)),
            // What stands behind a key is its value; the title of a section of markdown is nothing that it says.
            Kind::Section if self.format == Format::Yaml => {
                let own = self.own(at);
                let own = own.replacen(yaml::comment(own), "", 1);
                let value = own.split_once(':').map_or("", |(_, value)| value);
                has_words(value) && !matches!(value.trim(), "null" | "Null" | "NULL")
            }
            Kind::Section | Kind::Front | Kind::Entry | Kind::Close => false,
        }
    }
}

/// Whether a text has words outside of comments.
fn has_words(text: &str) -> bool {
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        if before.contains(char::is_alphanumeric) {
            return true;
        }
        rest = comment.split_once("-->").map_or("", |(_, after)| after);
    }
    rest.contains(char::is_alphanumeric)
}
