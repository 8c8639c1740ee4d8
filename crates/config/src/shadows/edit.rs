//! Changes the mode of one shadow in its file, and no other byte.
//!
//! The tree gives the place of the word. The new text is read before it replaces the file. Where the word cannot be
//! replaced alone (it stands behind an alias, say), nothing is written, and the error says what to write.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use tempfile::NamedTempFile;

use super::{AGENTS, Models, NAME, load};
use crate::{
    fault::{Faults, SourcePosition},
    file::read_text,
    tree::{Node, NodeValue, parse},
};
use umbra_domain::Mode;

/// Sets the mode of the shadow `name` in the file at `path`. Returns the changed line, from 1.
///
/// # Errors
/// Nothing was changed; the text says why, and what to do instead.
pub fn set_mode(path: &Path, name: &str, to: Mode, models: &Models<'_>) -> Result<usize, String> {
    let file = path.display().to_string();
    let text = read_text(path).map_err(|_| missing(&file))?;
    let (changed, line) = with_mode(&file, &text, name, to, models)?;
    let mode = to.as_str();
    replace(path, &changed)
        .map_err(|cause| format!("{file} cannot be changed ({cause}): write `mode: {mode}` in line {line} yourself"))?;
    Ok(line)
}

fn missing(file: &str) -> String {
    format!("{file} has no shadow of this name")
}

/// Returns the text with another mode for one shadow, and the line that differs.
pub(crate) fn with_mode(
    file: &str,
    text: &str,
    name: &str,
    to: Mode,
    models: &Models<'_>,
) -> Result<(String, usize), String> {
    let mode = mode_of(text, name).ok_or_else(|| missing(file))?;
    let line = mode.at.line;
    let entangled = || {
        let mode = to.as_str();
        format!(
            "the mode in line {line} of {file} cannot be replaced by itself: write `mode: {mode}` for this shadow \
             yourself"
        )
    };
    let NodeValue::Text(word) = &mode.kind else { return Err(entangled()) };
    let start = offset(text, mode.at).ok_or_else(entangled)?;
    let start = start + text.get(start..).map_or(0, |rest| usize::from(rest.starts_with(['"', '\''])));
    let rest = text.get(start..).and_then(|rest| rest.strip_prefix(word.as_str())).ok_or_else(entangled)?;
    let changed = format!("{}{}{rest}", text.get(..start).unwrap_or_default(), to.as_str());
    let faulty = |report| format!("the file would have faults with this mode:\n{report}");
    let before = load(file, text, models).map_err(faulty)?.value;
    let after = load(file, &changed, models).map_err(faulty)?.value;
    let alone = before.len() == after.len()
        && before.iter().zip(&after).all(|(old, new)| if new.name == name { new.mode == to } else { old == new });
    if alone { Ok((changed, line)) } else { Err(entangled()) }
}

fn mode_of(text: &str, name: &str) -> Option<Node> {
    let root = parse(0, text, &mut Faults::default())?;
    let NodeValue::List(agents) = &root.get(AGENTS)?.kind else { return None };
    let named = |node: &&Node| node.get(NAME).is_some_and(|known| known.kind == NodeValue::Text(name.to_owned()));
    agents.iter().find(named)?.get("mode").cloned()
}

/// Returns the byte offset of a place.
fn offset(text: &str, at: SourcePosition) -> Option<usize> {
    let start = text.split_inclusive('\n').take(at.line.checked_sub(1)?).map(str::len).sum::<usize>();
    let line = text.get(start..)?;
    let bom = if start == 0 && line.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let column = at.column.checked_sub(1)?;
    line.get(bom..)?.char_indices().nth(column).map(|(byte, _)| start + bom + byte)
}

/// Replaces a file's text: whole or not at all, with the file's permissions. A symbolic link stays one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let mut beside = NamedTempFile::new_in(path.parent().unwrap_or(&path))?;
    beside.write_all(text.as_bytes())?;
    beside.as_file().set_permissions(fs::metadata(&path)?.permissions())?;
    beside.as_file().sync_all()?;
    beside.persist(&path)?;
    Ok(())
}
