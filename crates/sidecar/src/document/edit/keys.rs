//! Edits of front matter, and of keys of YAML.

use serde_json::{Map, Value};

use super::{EditError, splice::Splice};
use crate::document::{
    Document, ElementKind, Format,
    yaml::{self, YamlError},
};

impl Document {
    pub(super) fn set_key(&self, key: &str, value: &Value) -> Result<Splice, EditError> {
        if key.trim().is_empty() || key.contains(['\n', '\r']) {
            return Err(EditError::Empty("key"));
        }
        let (end, line) = (self.line_end(), format!("{}: {}", yaml::plain(key), yaml::flow(value)));
        if let Some(at) = self.find_key(key) {
            let (own, range) = (self.own(at), self.nodes[at].own.clone());
            let by = [&line, yaml::comment(own), self.ending(own)].concat();
            return Ok(Splice {
                from: range.start,
                to: self.end_of(at),
                by,
                touched: at..self.nodes[at].until,
                left: Some(1),
            });
        }
        if self.format == Format::Yaml {
            return Ok(self.insert(self.nodes.len(), &line, false, Some(1)));
        }
        if let Some(close) = self.nodes.iter().position(|node| node.kind == ElementKind::Close) {
            return Ok(self.insert(close, &line, false, Some(1)));
        }
        let gap = if self.text.is_empty() || self.text.starts_with(['\n', '\r']) { "" } else { end };
        let by = ["---", end, &line, end, "---", end, gap].concat();
        Ok(Splice { from: 0, to: 0, by, touched: 0..0, left: Some(3) })
    }

    /// Checks that a key reads back as this value, or is absent for `None`.
    pub(super) fn check_key(&self, key: &str, value: Option<&Value>) -> Result<(), EditError> {
        if self.front_matter()?.and_then(|mut front| front.remove(key)).as_ref() == value {
            return Ok(());
        }
        Err(YamlError::NotKept.into())
    }

    /// Returns the keys and values of front matter, or of a YAML document; `None` for markdown without front matter.
    ///
    /// # Errors
    /// The text is no YAML, or no mapping.
    pub fn front_matter(&self) -> Result<Option<Map<String, Value>>, YamlError> {
        if self.format == Format::Yaml {
            return yaml::read(&self.text).map(Some);
        }
        let close = self.nodes.iter().find(|node| node.kind == ElementKind::Close);
        let Some((front, close)) = self.nodes.first().zip(close) else { return Ok(None) };
        yaml::read(&self.text[front.own.end..close.own.start]).map(Some)
    }

    /// Rejects a YAML document that cannot be parsed, so that its author learns of it at once. Markdown always passes:
    /// a leading `---` may be a thematic break, and front matter is parsed when a key of it is edited.
    ///
    /// # Errors
    /// The YAML is faulty, for example with a tab as indentation or a repeated key.
    pub fn check(&self) -> Result<(), YamlError> {
        match self.format {
            Format::Yaml => yaml::read(&self.text).map(drop).or_else(|error| match error {
                YamlError::NoMapping => Ok(()),
                error => Err(error),
            }),
            Format::Markdown => Ok(()),
        }
    }
}
