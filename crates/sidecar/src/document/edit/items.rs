//! Edits of items. A new item takes the style of its neighbours.

use super::{EditError, Place, splice::Splice};
use crate::document::{
    Document, ElementKind, Format, ItemState,
    lines::{self, Marker},
    yaml,
};

impl Document {
    /// Formats one paragraph as the lines of an item; later lines are indented to the text of the first.
    pub(super) fn item_lines(&self, lead: &str, text: &str) -> Result<String, EditError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(EditError::Empty("text"));
        }
        if self.format == Format::Yaml {
            return Ok(format!("{lead}{}", yaml::plain(text)));
        }
        let body = Marker::of(lead).map_or(lead.len(), |marker| marker.prefix);
        let under: String = lead[..body].chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let mut lines = text.lines().filter(|line| !lines::is_blank(line));
        let first = lines.next().unwrap_or_default();
        let rest = lines.flat_map(|line| [self.line_end(), &under, line.trim()]);
        Ok([lead, first.trim()].into_iter().chain(rest).collect())
    }

    /// Returns the indentation, bullet and box of a new item beside this one, in the same style.
    pub(super) fn lead_beside(&self, at: usize, further: i64, state: Option<ItemState>) -> String {
        let own = self.own(at);
        let Some(Marker { bullet, prefix, state: its, .. }) = self.marker(at) else { return "- ".into() };
        let sign = &own[bullet.clone()];
        let next = sign.trim_end_matches(['.', ')']).parse::<i64>().map(|number| number + further);
        let sign = next.map_or_else(|_| sign.to_owned(), |next| format!("{next}{}", &sign[sign.len() - 1..]));
        let gap = if prefix > bullet.end { &own[bullet.end..prefix] } else { " " };
        let state = state.or(its.map(|_| ItemState::Open)).map(ItemState::sign);
        [&own[..bullet.start], &sign, gap, state.unwrap_or_default(), if state.is_some() { " " } else { "" }].concat()
    }

    pub(super) fn append_item(
        &self,
        section: Option<usize>,
        text: &str,
        state: Option<ItemState>,
    ) -> Result<Splice, EditError> {
        self.no_box_in_yaml(state)?;
        let last = self.items_within(section).into_iter().rev().find(|at| self.depth(*at) == 0);
        if let Some(last) = last {
            let lines = self.item_lines(&self.lead_beside(last, 1, state), text)?;
            return Ok(self.insert(self.nodes[last].until, &lines, false, Some(1)));
        }
        // Without a neighbour, the new item follows the document: a box if any item has one.
        let has_tasks = (0..self.nodes.len()).any(|at| self.marker(at).is_some_and(|marker| marker.state.is_some()));
        let state = state.or(has_tasks.then_some(ItemState::Open));
        let lead = state.map_or("- ".to_owned(), |state| format!("- {} ", state.sign()));
        let lead = if self.format == Format::Yaml { format!("  {lead}") } else { lead };
        let lines = self.item_lines(&lead, text)?;
        Ok(self.insert(self.own_until(section), &lines, self.format == Format::Markdown, Some(1)))
    }

    /// Returns the element behind a section's own content: its first subsection, or the element behind it.
    pub(super) fn own_until(&self, section: Option<usize>) -> usize {
        let inside = section.map_or(0..self.nodes.len(), |at| at + 1..self.nodes[at].until);
        inside.clone().find(|at| self.nodes[*at].kind == ElementKind::Section).unwrap_or(inside.end)
    }

    pub(super) fn no_box_in_yaml(&self, state: Option<ItemState>) -> Result<(), EditError> {
        if self.format == Format::Yaml && state.is_some() { Err(EditError::NotInYaml) } else { Ok(()) }
    }

    pub(super) fn insert_item(
        &self,
        section: Option<usize>,
        place: &Place,
        text: &str,
        state: Option<ItemState>,
    ) -> Result<Splice, EditError> {
        self.no_box_in_yaml(state)?;
        match place {
            Place::Before(item) => {
                let at = self.find_item(section, item)?;
                let lines = self.item_lines(&self.lead_beside(at, 0, state), text)?;
                let from = self.nodes[at].own.start;
                let by = [&lines, self.line_end()].concat();
                Ok(Splice { from, to: from, by, touched: at..at, left: Some(1) })
            }
            Place::After(item) => {
                let at = self.find_item(section, item)?;
                let lines = self.item_lines(&self.lead_beside(at, 1, state), text)?;
                Ok(self.insert(self.nodes[at].until, &lines, false, Some(1)))
            }
            Place::Within(item) => {
                let at = self.find_item(section, item)?;
                let inside = (at + 1..self.nodes[at].until).rev();
                let child =
                    inside.clone().find(|in_it| self.nodes[*in_it].parent == Some(at) && self.marker(*in_it).is_some());
                let lead = child.map_or_else(
                    || format!("{}{}", self.under(at), self.lead_beside(at, 0, state).trim_start()),
                    |child| self.lead_beside(child, 1, state),
                );
                Ok(self.insert(self.nodes[at].until, &self.item_lines(&lead, text)?, false, Some(1)))
            }
        }
    }

    /// Returns blanks up to the column behind an item's bullet, where its box or text begins.
    pub(super) fn under(&self, at: usize) -> String {
        let (own, marker) = (self.own(at), self.marker(at));
        let to = marker
            .map_or(0, |marker| if marker.prefix > marker.bullet.end { marker.prefix } else { marker.bullet.end + 1 });
        let indent: String = own.chars().take(to).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        format!("{indent:to$}")
    }

    pub(super) fn replace_item(&self, at: usize, text: &str) -> Result<Splice, EditError> {
        let (own, node) = (self.own(at), &self.nodes[at]);
        let marker = self.marker(at).ok_or(EditError::NoItemNamed)?;
        let gap = &own[marker.text..];
        let gap = &gap[..gap.len() - gap.trim_start_matches([' ', '\t']).len()];
        let joined = marker.state.is_some() || marker.prefix == marker.bullet.end;
        let gap = if joined && gap.is_empty() { " " } else { gap };
        // An item keeps its explicit id.
        let named = self.id(at).filter(|id| lines::explicit_id(text) != Some(id));
        let text = named.map_or_else(|| text.to_owned(), |id| format!("{} <!-- id: {id} -->", text.trim()));
        let lead = [&own[..marker.text], gap].concat();
        let by = [&self.item_lines(&lead, &text)?, self.ending(own)].concat();
        Ok(Splice { from: node.own.start, to: node.own.end, by, touched: at..at + 1, left: Some(1) })
    }

    /// Returns the document's line end if these lines have one, else nothing.
    pub(super) fn ending(&self, own: &str) -> &'static str {
        if own.ends_with('\n') { self.line_end() } else { "" }
    }

    pub(super) fn set_state(&self, at: usize, state: ItemState) -> Result<Splice, EditError> {
        self.no_box_in_yaml(Some(state))?;
        let start = self.nodes[at].own.start;
        let marker = self.marker(at).ok_or(EditError::NoItemNamed)?;
        let (from, to) = (start + marker.prefix, start + marker.text);
        let by = match marker.state {
            Some(its) if its == state => self.text[from..to].to_owned(),
            Some(_) => state.sign().to_owned(),
            None if marker.prefix == marker.bullet.end => format!(" {}", state.sign()),
            None => format!("{} ", state.sign()),
        };
        Ok(Splice { from, to, by, touched: at..at + 1, left: Some(1) })
    }
}
