//! Resolves the section, item or key that an edit names to an element of the document.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Document, ElementKind, edit::EditError, lines};

/// Reference to an item of a section: by explicit id, by index, or by text.
///
/// A text selects the item with exactly this text. If no item has it, the only one that contains it, in any case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = r#"an item, such as {"text": "find the bug"} or {"index": 1}"#)]
pub struct ItemRef {
    /// `x` of `<!-- id: x -->`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Text of the item, or a part of it. Together with an index: the whole text of the item at that index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Position among the section's items, counted from 1; nested items count too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
}

impl Document {
    /// Returns the element of a section by slug or title; `None` for an empty name, the part before the first section.
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

    /// Returns the element of the item that `wanted` refers to.
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
            [] => Err(EditError::UnknownItem(items.len())),
            _ => Err(EditError::AmbiguousItem(matching.len())),
        }
    }

    /// Returns the element of a front matter key, or of a YAML key at the first column.
    pub(super) fn find_key(&self, key: &str) -> Option<usize> {
        let wanted = match self.format {
            super::Format::Markdown => ElementKind::Entry,
            super::Format::Yaml => ElementKind::Section,
        };
        let is_first =
            |at: &usize| self.nodes[*at].parent.is_none_or(|above| self.nodes[above].kind != ElementKind::Entry);
        (0..self.nodes.len()).find(|at| self.nodes[*at].kind == wanted && is_first(at) && self.title(*at) == key)
    }
}

fn places(items: &[usize], is_meant: impl Fn(usize) -> bool) -> Vec<usize> {
    items.iter().enumerate().filter(|(_, at)| is_meant(**at)).map(|(place, _)| place).collect()
}
