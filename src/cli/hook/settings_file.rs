//! Settings file of a host: our entries are put in and taken out, and every other byte stays: comments, order, line
//! ends, a link to another place.
//!
//! Before the first change the file is copied (`NAME.before-umbra`). Taking our entries out again gives that copy back,
//! if nothing else has changed since; otherwise only our entries are removed.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstObject, CstRootNode},
};
use serde_json::Value;
use tempfile::NamedTempFile;

use umbra_hooks::installation::SettingsForm;

/// Mark before UTF-8.
const MARK: char = '\u{feff}';

/// List in the settings, `hooks.EVENT`, with the entry that we want in it.
pub type Wanted = (String, Value);

/// Text of a settings file with our entries: exactly these, in place of any earlier ones.
///
/// # Errors
/// The text is not JSON with comments, or has something else where lists of hooks belong.
pub fn with_entries(
    text: &str,
    form: SettingsForm,
    wanted: &[Wanted],
    is_ours: &dyn Fn(&Value) -> bool,
) -> anyhow::Result<String> {
    let blank = text.trim().is_empty();
    let root = parsed(if blank { "{}\n" } else { text })?;
    let top = root.object_value().context("its top level is not an object")?;
    let is_versioned = matches!(form, SettingsForm::Flat | SettingsForm::OwnFile);
    if is_versioned && top.get("version").is_none() {
        top.append("version", CstInputValue::Number("1".to_owned()));
    }
    let hooks = match form {
        SettingsForm::GroupsAtTop => top,
        _ => top.object_value_or_create("hooks").context("`hooks` is not an object")?,
    };
    remove_from(&hooks, &|event, entry| {
        is_ours(entry) && !wanted.iter().any(|(name, own)| name == event && own == entry)
    });
    for (event, entry) in wanted {
        let list = hooks.array_value_or_create(event).with_context(|| format!("`hooks.{event}` is not a list"))?;
        let is_there = list.elements().iter().any(|element| element.to_serde_value().as_ref() == Some(entry));
        if !is_there {
            // First, since some hosts let a call run if an earlier hook allows it.
            list.insert(0, input(entry));
        }
    }
    Ok(marked_like(text, root.to_string()))
}

/// Puts the mark before UTF-8 back that some systems write.
fn marked_like(text: &str, written: String) -> String {
    if text.starts_with(MARK) { format!("{MARK}{written}") } else { written }
}

/// Text of a settings file without our entries, and without lists that are empty then.
///
/// # Errors
/// The text is not JSON with comments.
pub fn without_entries(text: &str, form: SettingsForm, is_ours: &dyn Fn(&Value) -> bool) -> anyhow::Result<String> {
    if text.trim().is_empty() {
        return Ok(text.to_owned());
    }
    let root = parsed(text)?;
    if let Some(hooks) = lists_of(&root, form) {
        let removed = remove_from(&hooks, &|_, entry| is_ours(entry));
        if removed
            && form != SettingsForm::GroupsAtTop
            && hooks.properties().is_empty()
            && let Some(property) = root.object_value().and_then(|top| top.get("hooks"))
        {
            property.remove();
        }
    }
    Ok(marked_like(text, root.to_string()))
}

/// Returns our entries in a settings file, with their events.
pub fn entries(text: &str, form: SettingsForm, is_ours: &dyn Fn(&Value) -> bool) -> Vec<(String, Value)> {
    let Ok(root) = parsed(text) else { return Vec::new() };
    let lists = lists_of(&root, form).map(|hooks| lists(&hooks)).unwrap_or_default();
    let of_list = |(event, list): (String, CstArray)| {
        let ours = list.elements().into_iter().filter_map(|element| element.to_serde_value());
        ours.filter(|entry| is_ours(entry)).map(|entry| (event.clone(), entry)).collect::<Vec<_>>()
    };
    lists.into_iter().flat_map(of_list).collect()
}

/// Reads a settings file; a missing one is empty.
///
/// # Errors
/// The file cannot be read, or is not UTF-8.
pub fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// Writes a file whole or not at all. A link stays one: the file that it names is replaced. Permissions stay.
///
/// # Errors
/// The file is read-only, or its folder cannot be written.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().context("the path has no folder")?;
    let told = || format!("{} cannot be written; nothing was changed", target.display());
    fs::create_dir_all(folder).with_context(told)?;
    let permissions = fs::metadata(&target).map(|known| known.permissions()).ok();
    if permissions.as_ref().is_some_and(fs::Permissions::readonly) {
        bail!("{} is read-only; nothing was changed", target.display());
    }
    // A new file is its owner's alone: settings hold keys.
    let written = NamedTempFile::new_in(folder).and_then(|mut draft| {
        draft.write_all(text.as_bytes())?;
        permissions.map_or(Ok(()), |permissions| draft.as_file().set_permissions(permissions))?;
        draft.as_file().sync_all()?;
        Ok(draft.persist(&target)?)
    });
    written.map(drop).with_context(told)
}

/// Keeps the text of a file before its first change, with the permissions of the file.
///
/// # Errors
/// As [`write`].
pub fn keep_copy(path: &Path, text: &str) -> anyhow::Result<()> {
    let copy = copy_of(path);
    write(&copy, text)?;
    let permissions = fs::metadata(path).map(|known| known.permissions());
    permissions.and_then(|permissions| fs::set_permissions(&copy, permissions)).context("the copy of the settings")
}

/// Returns the place of the copy that was made before the first change.
pub fn copy_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".before-umbra");
    path.with_file_name(name)
}

/// Reads a settings file's text; `None` if it is not JSON with comments.
pub fn value(text: &str) -> Option<Value> {
    parsed(text).ok()?.to_serde_value()
}

fn parsed(text: &str) -> anyhow::Result<CstRootNode> {
    let text = text.strip_prefix(MARK).unwrap_or(text);
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| anyhow::anyhow!("not JSON: {error}"))
}

/// Returns the object whose members are the lists of hooks.
fn lists_of(root: &CstRootNode, form: SettingsForm) -> Option<CstObject> {
    let top = root.object_value()?;
    if form == SettingsForm::GroupsAtTop { Some(top) } else { top.object_value("hooks") }
}

/// Removes entries, and lists that are empty then; returns true if any was removed.
fn remove_from(hooks: &CstObject, unwanted: &dyn Fn(&str, &Value) -> bool) -> bool {
    let mut removed = false;
    for (event, list) in lists(hooks) {
        let elements = list.elements();
        let unwanted = elements
            .into_iter()
            .filter(|element| element.to_serde_value().is_some_and(|entry| unwanted(&event, &entry)));
        let mut any = false;
        for element in unwanted.collect::<Vec<_>>() {
            element.remove();
            any = true;
        }
        removed |= any;
        if any
            && list.elements().is_empty()
            && let Some(property) = hooks.get(&event)
        {
            property.remove();
        }
    }
    removed
}

fn lists(hooks: &CstObject) -> Vec<(String, CstArray)> {
    let list = |property: jsonc_parser::cst::CstObjectProp| Some((property.decoded_name()?, property.array_value()?));
    hooks.properties().into_iter().filter_map(list).collect()
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}
