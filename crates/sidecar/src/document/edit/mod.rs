//! What may be done to a document, by section and item. An edit is a splice of the text; what it left untouched is
//! looked at again afterwards, and an edit that would turn it into something else is refused.

mod items;
mod keys;
mod sections;
mod splice;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Document, Format, ItemState, LimitError, Limits,
    yaml::{self, YamlError},
};

pub use super::address::ItemRef;

/// Where an item goes that comes in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Right before this one.
    Before(ItemRef),
    /// Behind this one and what lies within it.
    After(ItemRef),
    /// Within this one, as its last.
    Within(ItemRef),
}

/// One edit. `section` is a slug, or a title that only one section has; empty is what stands before the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Edit {
    /// A new section behind another one and those within it; at the end where none is named.
    AddSection {
        /// Its heading.
        title: String,
        /// 1 to 6; that of the section before it, or 2.
        #[serde(default)]
        level: Option<usize>,
        /// The section that it follows.
        #[serde(default)]
        after: Option<String>,
        /// What it holds.
        #[serde(default)]
        body: String,
    },
    /// What a section holds, with the sections within it; its heading stays.
    ReplaceSection {
        /// Which.
        section: String,
        /// In place of what it holds.
        body: String,
    },
    /// A section goes, with the sections within it.
    RemoveSection {
        /// Which.
        section: String,
    },
    /// A section is called otherwise.
    RenameSection {
        /// Which.
        section: String,
        /// Its new heading.
        title: String,
    },
    /// An item behind the last one of a section.
    AppendItem {
        /// Which.
        section: String,
        /// One paragraph.
        text: String,
        /// Where none is given: open, or without a box, as its neighbours are; without neighbours, open where the document has
        /// items with boxes.
        #[serde(default)]
        state: Option<ItemState>,
    },
    /// An item beside or within another one.
    InsertItem {
        /// Which section.
        section: String,
        /// Where.
        place: Place,
        /// One paragraph.
        text: String,
        /// As that of [`Edit::AppendItem`].
        #[serde(default)]
        state: Option<ItemState>,
    },
    /// Other words for an item; its state and what lies within it stay.
    ReplaceItem {
        /// Which section.
        section: String,
        /// Which item.
        item: ItemRef,
        /// One paragraph.
        text: String,
    },
    /// An item goes, with those within it.
    RemoveItem {
        /// Which section.
        section: String,
        /// Which item.
        item: ItemRef,
    },
    /// Checks an item, unchecks it, or drops it. One without a box gets one.
    SetState {
        /// Which section.
        section: String,
        /// Which item.
        item: ItemRef,
        /// What became of it.
        state: ItemState,
    },
    /// A key of front matter, which is made where there is none; in YAML a key at the first column.
    SetKey {
        /// Its name.
        key: String,
        /// Its value; `null` is a value too.
        value: serde_json::Value,
    },
    /// A key goes, with its value.
    RemoveKey {
        /// Its name.
        key: String,
    },
    /// A paragraph at the end of a section, before those within it; at the end of the text where none is named.
    AppendText {
        /// Which.
        #[serde(default)]
        section: Option<String>,
        /// Any text.
        text: String,
    },
}

/// An edit cannot be made. The words repeat nothing of the document; the fields may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// No section has that slug or title.
    #[error("there is no such section, but {} others", exist.len())]
    UnknownSection {
        /// The slugs of those that there are.
        exist: Vec<String>,
    },
    /// Several sections have that title.
    #[error("{} sections have that title; name one by its slug", slugs.len())]
    AmbiguousSection {
        /// Their slugs.
        slugs: Vec<String>,
    },
    /// Nothing in the section is what was meant.
    #[error("none of the section's {items} items is that one")]
    UnknownItem {
        /// The section's slug.
        section: String,
        /// How many items it has.
        items: usize,
    },
    /// Several items of the section are what was meant.
    #[error("{} items of the section match; say `index`, or give it an id (`<!-- id: x -->`)", indexes.len())]
    AmbiguousItem {
        /// The section's slug.
        section: String,
        /// Their places, counted from 1.
        indexes: Vec<usize>,
    },
    /// Another element has the id that comes in.
    #[error("something else in the document has that id (`<!-- id: x -->`) already; give it another one, or none")]
    TakenId,
    /// Neither id nor index nor words.
    #[error("say which item: by `id`, `index` or `text`")]
    NoItemNamed,
    /// What comes in says nothing.
    #[error("`{0}` is empty")]
    Empty(&'static str),
    /// A heading is one line, and does not look like another level.
    #[error("a title is one line of text")]
    Title,
    /// A level is none of 1 to 6.
    #[error("a level is one of 1 to 6")]
    Level,
    /// What comes in would be read as more than it is given as, or would change how other parts are read.
    #[error(
        "the text would reach beyond its place: close its fences and comments, indent its lists, and keep headings below that of the section"
    )]
    BeyondItsPlace,
    /// Such an edit means nothing in YAML.
    #[error("a document in YAML has no boxes, paragraphs or levels; set keys, or edit items")]
    NotInYaml,
    /// Front matter, or YAML, is faulty or would be.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// There is no such key.
    #[error("there is no such key")]
    UnknownKey,
    /// The document would be too large.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Too many edits at once.
    #[error("{given} edits at once, at most {most} are made")]
    TooMany {
        /// How many there are.
        given: usize,
        /// How many there may be.
        most: usize,
    },
}

/// An edit of several that cannot be made; none is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("edit {index}: {cause}")]
pub struct EditFault {
    /// Its place among the edits, counted from 0.
    pub index: usize,
    /// Why.
    pub cause: EditError,
}

/// Makes edits one after the other: all of them, or none.
///
/// # Errors
/// The first that cannot be made.
pub fn apply(document: &Document, edits: &[Edit], limits: &Limits) -> Result<Document, EditFault> {
    if edits.len() > limits.edits {
        let cause = EditError::TooMany { given: edits.len(), most: limits.edits };
        return Err(EditFault { index: limits.edits, cause });
    }
    let mut edited = document.clone();
    for (index, edit) in edits.iter().enumerate() {
        edited = edited.edit(edit, limits).map_err(|cause| EditFault { index, cause })?;
    }
    Ok(edited)
}

impl Document {
    /// Refuses ids that several have, as far as they had none of their own before.
    fn shares_no_id(&self, before: &Self) -> Result<(), EditError> {
        let count = |document: &Self| {
            let mut count: HashMap<String, usize> = HashMap::new();
            let ids = (0..document.nodes.len()).filter_map(|at| document.id(at));
            ids.for_each(|id| *count.entry(id.to_owned()).or_default() += 1);
            count
        };
        let was = count(before);
        let comes_twice =
            |(id, count): (&String, &usize)| *count > 1 && *count > was.get(id).copied().unwrap_or_default();
        if count(self).iter().any(comes_twice) { Err(EditError::TakenId) } else { Ok(()) }
    }

    fn edit(&self, edit: &Edit, limits: &Limits) -> Result<Self, EditError> {
        let splice = match edit {
            Edit::AddSection { title, level, after, body } => {
                self.add_section(title, *level, after.as_deref(), body)?
            }
            Edit::ReplaceSection { section, body } => self.replace_section(section, body)?,
            Edit::RemoveSection { section } => {
                let at = self.find_section(section)?.ok_or(EditError::Empty("section"))?;
                self.cut(at)
            }
            Edit::RenameSection { section, title } => self.rename_section(section, title)?,
            Edit::AppendItem { section, text, state } => {
                let section = self.find_section(section)?;
                self.append_item(section, text, *state)?
            }
            Edit::InsertItem { section, place, text, state } => {
                let section = self.find_section(section)?;
                self.insert_item(section, place, text, *state)?
            }
            Edit::ReplaceItem { section, item, text } => {
                let at = self.find_item(self.find_section(section)?, item)?;
                self.replace_item(at, text)?
            }
            Edit::RemoveItem { section, item } => self.cut(self.find_item(self.find_section(section)?, item)?),
            Edit::SetState { section, item, state } => {
                let at = self.find_item(self.find_section(section)?, item)?;
                self.set_state(at, *state)?
            }
            Edit::SetKey { key, value } => self.set_key(key, value)?,
            Edit::RemoveKey { key } => self.cut(self.find_key(key).ok_or(EditError::UnknownKey)?),
            Edit::AppendText { section, text } => self.append_text(section.as_deref(), text)?,
        };
        let edited = self.spliced(&splice, limits)?;
        edited.shares_no_id(self)?;
        if self.format == Format::Yaml {
            yaml::read(&edited.text)?;
        }
        match edit {
            Edit::SetKey { key, value } => edited.holds(key, Some(value))?,
            Edit::RemoveKey { key } => edited.holds(key, None)?,
            _ => {}
        }
        Ok(edited)
    }
}
