//! Edits of a document, by section and item. An edit is a splice of the text. The result is parsed again, and an edit
//! that changes how other parts are read is refused.

mod items;
mod keys;
mod sections;
mod splice;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Document, DocumentLimits, Format, ItemState, LimitError,
    yaml::{self, YamlError},
};

pub use super::address::ItemRef;

/// Position of a new item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Directly before this item.
    Before(ItemRef),
    /// Behind this item and its nested items.
    After(ItemRef),
    /// Nested in this item, as the last one.
    Within(ItemRef),
}

/// One edit. `section` is a slug, or a title that only one section has. Empty means the part before the first section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Edit {
    /// Adds a section behind another section and its subsections, or at the end.
    AddSection {
        /// Text of the heading.
        title: String,
        /// Heading level, 1 to 6. Default: the level of the section that it follows, or 2.
        #[serde(default)]
        level: Option<usize>,
        /// Slug or title of the section to follow. Default: the end of the document.
        #[serde(default)]
        after: Option<String>,
        /// Content below the heading.
        #[serde(default)]
        body: String,
    },
    /// Replaces the content of a section, subsections included; the heading stays.
    ReplaceSection {
        /// Slug or title of the section.
        section: String,
        /// New content.
        body: String,
    },
    /// Removes a section with its subsections.
    RemoveSection {
        /// Slug or title of the section.
        section: String,
    },
    /// Renames a section.
    RenameSection {
        /// Slug or title of the section.
        section: String,
        /// Text of the new heading.
        title: String,
    },
    /// Adds an item behind the last one of a section.
    AppendItem {
        /// Slug or title of the section.
        section: String,
        /// Text of the item, one paragraph.
        text: String,
        /// State of the item. Default: open if its neighbours have boxes, else no box. Without neighbours: open if any
        /// item of the document has a box.
        #[serde(default)]
        state: Option<ItemState>,
    },
    /// Adds an item beside another one, or nested in it.
    InsertItem {
        /// Slug or title of the section.
        section: String,
        /// Position of the new item.
        place: Place,
        /// Text of the item, one paragraph.
        text: String,
        /// State of the item, with the default of [`Edit::AppendItem`].
        #[serde(default)]
        state: Option<ItemState>,
    },
    /// Replaces the text of an item; its state and nested items stay.
    ReplaceItem {
        /// Slug or title of the section.
        section: String,
        /// Item to change.
        item: ItemRef,
        /// New text, one paragraph.
        text: String,
    },
    /// Removes an item with its nested items.
    RemoveItem {
        /// Slug or title of the section.
        section: String,
        /// Item to remove.
        item: ItemRef,
    },
    /// Sets the state of an item: open, done or dropped. An item without a box gets one.
    SetState {
        /// Slug or title of the section.
        section: String,
        /// Item to change.
        item: ItemRef,
        /// New state.
        state: ItemState,
    },
    /// Sets a key of front matter, which is created if missing; in YAML, a key at the first column.
    SetKey {
        /// Name of the key.
        key: String,
        /// New value; `null` is written as a value.
        value: serde_json::Value,
    },
    /// Removes a key with its value.
    RemoveKey {
        /// Name of the key.
        key: String,
    },
    /// Adds a paragraph at the end of a section, before its subsections, or at the end of the document.
    AppendText {
        /// Slug or title of the section. Default: the end of the document.
        #[serde(default)]
        section: Option<String>,
        /// Text to add.
        text: String,
    },
}

/// Reason why an edit cannot be made. The message repeats nothing of the document; the fields may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// No section has that slug or title.
    #[error("section not found; the document has {} sections", exist.len())]
    UnknownSection {
        /// Slugs of the existing sections.
        exist: Vec<String>,
    },
    /// Several sections have that title.
    #[error("{} sections have this title: name a section by its slug", slugs.len())]
    AmbiguousSection {
        /// Slugs of these sections.
        slugs: Vec<String>,
    },
    /// No item of the section matches the reference.
    #[error("item not found; the section has {0} items")]
    UnknownItem(usize),
    /// Several items of the section match the reference.
    #[error("{0} items of the section match: give `index`, or give the item an id (`<!-- id: x -->`)")]
    AmbiguousItem(usize),
    /// Another element has the same explicit id.
    #[error("another element of the document has this id (`<!-- id: x -->`): use a different id, or none")]
    TakenId,
    /// The reference has neither id nor index nor text.
    #[error("name the item by `id`, `index` or `text`")]
    NoItemNamed,
    /// The named field is empty, or a key with a line break.
    #[error("`{0}` is empty")]
    Empty(&'static str),
    /// A title is empty, has several lines, or would not read back as the same heading.
    #[error("a title must be one line of text")]
    Title,
    /// A heading level is not 1 to 6.
    #[error("a level must be 1 to 6")]
    Level,
    /// The new text would reach beyond its place, or change how other parts are read.
    #[error(
        "the text would change other parts of the document: close its fences and comments, indent its lists, and keep \
         its headings below the heading of the section"
    )]
    BeyondItsPlace,
    /// The edit does not exist for YAML documents.
    #[error("a YAML document has no boxes, paragraphs or levels: set keys, or edit items")]
    NotInYaml,
    /// Front matter or YAML is faulty, or would become so.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// No key has that name.
    #[error("key not found in the document")]
    UnknownKey,
    /// The document would exceed a limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Too many edits at once.
    #[error("the request has {given} edits, and {most} are allowed: send fewer")]
    TooMany {
        /// Number of edits given.
        given: usize,
        /// Most edits at once.
        most: usize,
    },
}

/// First edit of a list that cannot be made; none of the list is made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("edit {index}: {cause}")]
pub struct EditFault {
    /// Position in the list, counted from 0.
    pub index: usize,
    /// Reason.
    pub cause: EditError,
}

/// Applies edits one after the other: all of them, or none.
///
/// # Errors
/// The first edit that cannot be made.
pub fn apply(document: &Document, edits: &[Edit], limits: &DocumentLimits) -> Result<Document, EditFault> {
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
    /// Rejects explicit ids that occur more than once, unless they occurred as often before.
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

    fn edit(&self, edit: &Edit, limits: &DocumentLimits) -> Result<Self, EditError> {
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
        let edited = self.apply_splice(&splice, limits)?;
        edited.shares_no_id(self)?;
        if self.format == Format::Yaml {
            yaml::read(&edited.text)?;
        }
        match edit {
            Edit::SetKey { key, value } => edited.check_key(key, Some(value))?,
            Edit::RemoveKey { key } => edited.check_key(key, None)?,
            _ => {}
        }
        Ok(edited)
    }
}
