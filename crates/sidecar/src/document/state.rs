//! How far a document has come: whether a section of it says anything, and what is still open.

use super::{Document, Format, ItemState, Kind, Limits, yaml};

/// How far a document, or a section with those within it, has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Whether it says nothing: neither items nor words but titles, comments and front matter.
    pub is_empty: bool,
    /// Items with a box, also those in quotes; what stands in fences and comments is none. YAML has no boxes.
    pub tasks: usize,
    /// Those of them that are open.
    pub open: usize,
}

impl Progress {
    /// Whether something was to be done, and nothing of it is left: a text without any task is no finished work.
    pub fn is_complete(&self) -> bool {
        self.tasks > 0 && self.open == 0
    }
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
        let mut states: Vec<ItemState> = inside.clone().filter_map(|at| self.marker(at)?.state).collect();
        states.extend(inside.clone().flat_map(|at| self.quoted(at)));
        let open = states.iter().filter(|state| **state == ItemState::Open).count();
        Some(Progress { is_empty: !inside.clone().any(|at| self.says_something(at)), tasks: states.len(), open })
    }

    /// The states of the items that a quote holds.
    fn quoted(&self, at: usize) -> Vec<ItemState> {
        let own = self.own(at);
        if self.nodes[at].kind != Kind::Prose || self.format != Format::Markdown || !own.trim_start().starts_with('>') {
            return Vec::new();
        }
        // Its signs gone, whatever it quotes is a text of its own.
        let bare = own.lines().flat_map(|line| [line.trim_start_matches([' ', '\t', '>']), "\n"]).collect::<String>();
        let limits = Limits { bytes: usize::MAX, sections: usize::MAX, items: usize::MAX, depth: usize::MAX, edits: 0 };
        let read = Self::parse(bare, self.format, &limits).ok();
        read.map_or_else(Vec::new, |read| (0..read.nodes.len()).filter_map(|at| read.marker(at)?.state).collect())
    }

    fn says_something(&self, at: usize) -> bool {
        words(&self.says(at)).next().is_some()
    }

    /// What an element says, without comments. Titles and front matter of markdown say nothing, nor does a key without value.
    pub(super) fn says(&self, at: usize) -> String {
        let own = self.own(at);
        match (self.format, self.nodes[at].kind) {
            (Format::Markdown, Kind::Item) => without_comments(&self.item(at).0),
            (Format::Markdown, Kind::Prose) => without_comments(own),
            (Format::Yaml, Kind::Item) => own.replacen(yaml::comment(own), "", 1),
            (Format::Yaml, Kind::Prose) if !own.trim_start().starts_with('#') => own.to_owned(),
            (Format::Yaml, Kind::Section | Kind::Entry) => {
                let own = own.replacen(yaml::comment(own), "", 1);
                let value = own.split_once(':').map_or("", |(_, value)| value);
                if matches!(value.trim(), "null" | "Null" | "NULL") { String::new() } else { value.to_owned() }
            }
            _ => String::new(),
        }
    }
}

/// The words of a text, in small letters.
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
