//! Edits of whole sections, and of text in them.

use super::{EditError, splice::Splice};
use crate::document::{Document, Format, UNLIMITED, lines, yaml};

impl Document {
    pub(super) fn heading(&self, level: usize, title: &str) -> Result<String, EditError> {
        let title = title.trim();
        if self.format == Format::Yaml {
            return Ok(format!("{}:", yaml::plain(title)));
        }
        let heading = format!("{} {title}", "#".repeat(level));
        let reads_back = lines::heading(&heading).is_some_and(|(_, read)| read == title);
        let fits = !title.is_empty() && !title.contains(['\n', '\r']) && reads_back;
        if fits { Ok(heading) } else { Err(EditError::Title) }
    }

    pub(super) fn add_section(
        &self,
        title: &str,
        level: Option<usize>,
        after: Option<&str>,
        body: &str,
    ) -> Result<Splice, EditError> {
        let last = self.slugs.last().map(|(at, _)| *at);
        let (beside, until) = match after {
            Some(name) => {
                let at = self.find_section(name)?;
                (at, at.map_or_else(|| self.first_section(), |at| self.nodes[at].until))
            }
            None => (last, self.nodes.len()),
        };
        let level = level.or(beside.map(|at| self.nodes[at].level)).unwrap_or(2);
        if !(1..=6).contains(&level) {
            return Err(EditError::Level);
        }
        self.holds_below(level, body)?;
        let heading = self.heading(level, title)?;
        let body = body.trim_matches(['\r', '\n']);
        let gap = if self.format == Format::Yaml { "\n" } else { "\n\n" };
        let lines = if body.trim().is_empty() { heading } else { [&heading, gap, body].concat() };
        Ok(self.insert(until, &lines, true, None))
    }

    pub(super) fn first_section(&self) -> usize {
        self.slugs.first().map_or(self.nodes.len(), |(at, _)| *at)
    }

    /// Rejects content that a section of this level cannot hold: headings of its level or above, open fences or
    /// comments.
    pub(super) fn holds_below(&self, level: usize, body: &str) -> Result<(), EditError> {
        let read = Self::parse(format!("\n{body}"), self.format, &UNLIMITED)?;
        let beside = read.slugs.iter().any(|(at, _)| read.nodes[*at].level <= level);
        // Text that is added behind it later must still be read as itself.
        let followed = Self::parse(format!("\n{body}\n\n# x\n"), self.format, &UNLIMITED)?;
        let is_open = self.format == Format::Markdown && followed.slugs.len() == read.slugs.len();
        if beside || is_open { Err(EditError::BeyondItsPlace) } else { Ok(()) }
    }

    pub(super) fn replace_section(&self, section: &str, body: &str) -> Result<Splice, EditError> {
        let at = self.find_section(section)?.ok_or(EditError::Empty("section"))?;
        let node = &self.nodes[at];
        self.holds_below(node.level, body)?;
        let (end, heading) = (self.line_end(), node.own.clone());
        let body = body.trim_matches(['\r', '\n']);
        let mut by = self.text[heading.clone()].trim_end_matches(['\r', '\n']).to_owned();
        by.push_str(end);
        if !body.trim().is_empty() {
            if self.format == Format::Markdown {
                by.push_str(end);
            }
            by.extend(body.lines().flat_map(|line| [line, end]));
        }
        Ok(Splice { from: heading.start, to: self.end_of(at), by, touched: at + 1..node.until, left: None })
    }

    pub(super) fn rename_section(&self, section: &str, title: &str) -> Result<Splice, EditError> {
        let at = self.find_section(section)?.ok_or(EditError::Empty("section"))?;
        let own = self.nodes[at].own.clone();
        let was = self.title(at);
        let heading = self.heading(self.nodes[at].level, title)?;
        let line = &self.text[own.clone()];
        // A heading keeps its style, and a key the text behind it.
        let by = match (self.format, line.find(was)) {
            (Format::Yaml, Some(begin)) => {
                let behind = line[begin + was.len()..].trim_start_matches(['"', '\'']);
                format!("{}{behind}", heading.trim_end_matches(':'))
            }
            (Format::Markdown, Some(begin)) if !was.is_empty() => {
                [&line[..begin], title.trim(), &line[begin + was.len()..]].concat()
            }
            _ => [heading.as_str(), self.line_end()].concat(),
        };
        Ok(Splice { from: own.start, to: own.end, by, touched: at..at + 1, left: Some(1) })
    }

    pub(super) fn append_text(&self, section: Option<&str>, text: &str) -> Result<Splice, EditError> {
        if self.format == Format::Yaml {
            return Err(EditError::NotInYaml);
        }
        if text.trim().is_empty() {
            return Err(EditError::Empty("text"));
        }
        let until = match section {
            None => {
                self.holds_below(0, text)?;
                self.nodes.len()
            }
            Some(name) => {
                let at = self.find_section(name)?;
                self.holds_below(at.map_or(0, |at| self.nodes[at].level), text)?;
                self.own_until(at)
            }
        };
        Ok(self.insert(until, text.trim_matches(['\r', '\n']), true, None))
    }
}
