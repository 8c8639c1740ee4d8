//! Which section and which item an edit means.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Document, Kind, edit::EditError, lines};

/// An item of a section: by its explicit id, by its place, or by its words.
///
/// Words mean the item that says exactly this; if none does, the only one that has them in it, in any case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemRef {
    /// `x` of `<!-- id: x -->`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its words, or some of them. Beside an index they have to be those of the item at that place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Counted from 1 among the section's items, those within others too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
}

impl Document {
    /// The element of a section; none for what stands before the first, which has an empty name.
    pub(super) fn find_section(&self, name: &str) -> Result<Option<usize>, EditError> {
        if name.is_empty() {
            return Ok(None);
        }
        if let Some((at, _)) = self.slugs.iter().find(|(_, slug)| slug == name) {
            return Ok(Some(*at));
        }
        let titled: Vec<_> = self.slugs.iter().filter(|(at, _)| self.title(*at) == name.trim()).collect();
        match titled[..] {
            [(at, _)] => Ok(Some(*at)),
            [] => Err(EditError::UnknownSection { exist: self.slugs.iter().map(|(_, slug)| slug.clone()).collect() }),
            _ => Err(EditError::AmbiguousSection { slugs: titled.into_iter().map(|(_, slug)| slug.clone()).collect() }),
        }
    }

    /// The element of an item of a section.
    pub(super) fn find_item(&self, section: Option<usize>, wanted: &ItemRef) -> Result<usize, EditError> {
        let items = self.items_within(section);
        let matching: Vec<usize> = match wanted {
            ItemRef { id: Some(id), .. } => places(&items, |at| self.id(at) == Some(id)),
            ItemRef { index: Some(index), text, .. } => {
                let words = text.as_deref().map(lines::substance);
                let place = index.checked_sub(1).filter(|place| *place < items.len());
                place
                    .filter(|place| words.is_none_or(|words| self.item(items[*place]).0 == words))
                    .into_iter()
                    .collect()
            }
            ItemRef { text: Some(text), .. } => {
                let words = lines::substance(text);
                let exact = places(&items, |at| self.item(at).0 == words);
                let (some, small) = (!words.is_empty(), words.to_lowercase());
                if exact.is_empty() && some {
                    places(&items, |at| self.item(at).0.to_lowercase().contains(&small))
                } else {
                    exact
                }
            }
            ItemRef { .. } => return Err(EditError::NoItemNamed),
        };
        match matching[..] {
            [place] => Ok(items[place]),
            [] => Err(EditError::UnknownItem { section: self.slug(section).to_owned(), items: items.len() }),
            _ => Err(EditError::AmbiguousItem {
                section: self.slug(section).to_owned(),
                indexes: matching.into_iter().map(|place| place + 1).collect(),
            }),
        }
    }

    /// The element of a key of front matter, or of a key of YAML at its first column.
    pub(super) fn find_key(&self, key: &str) -> Option<usize> {
        let wanted = match self.format {
            super::Format::Markdown => Kind::Entry,
            super::Format::Yaml => Kind::Section,
        };
        let is_first = |at: &usize| self.nodes[*at].parent.is_none_or(|above| self.nodes[above].kind != Kind::Entry);
        (0..self.nodes.len()).find(|at| self.nodes[*at].kind == wanted && is_first(at) && self.title(*at) == key)
    }
}

fn places(items: &[usize], is_meant: impl Fn(usize) -> bool) -> Vec<usize> {
    items.iter().enumerate().filter(|(_, at)| is_meant(**at)).map(|(place, _)| place).collect()
}
