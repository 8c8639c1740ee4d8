//! Classification of a tool's arguments by name: commands, texts of files, descriptions. In: a field's path, and the
//! file that the call is about. Out: the form in which the text is read.

use serde_json::Value;

use crate::word_lists;
use umbra_analysis::code::Language;
use umbra_domain::{Event, FieldName, OutputForm, Trigger};

/// Arguments that hold a command, whatever the tool's name.
pub(super) const COMMAND_KEYS: [&str; 8] =
    ["command", "cmd", "script", "commands", "shell_command", "bash", "cmdline", "command_line"];

/// Returns the language of the file whose text an argument holds, by the file's name.
pub(super) fn source_of(field: &FieldName, written: Option<&str>) -> Option<Language> {
    let ending = written.filter(|_| is_listed(field, "content_arguments"))?.rsplit_once('.')?.1;
    Language::named(ending)
}

/// Returns the form in which an argument is read: a script where a script file is written, code where the sender
/// declares that code was written.
pub(super) fn argument_form(event: &Event, field: &FieldName, written: Option<&str>) -> OutputForm {
    let declared = event.triggers.contains(&Trigger::CodeWritten) && is_listed(field, "content_arguments");
    match source_of(field, written) {
        Some(Language::Shell) => OutputForm::Shell,
        None if declared && !written.is_some_and(is_document) => OutputForm::Code,
        _ => OutputForm::Text,
    }
}

/// Returns the last name of a field's path.
pub(super) fn key_of(field: &FieldName) -> &str {
    field.as_str().rsplit('.').find(|part| part.parse::<usize>().is_err()).unwrap_or_default()
}

/// True if an argument holds no command, even where the tool runs commands.
pub(super) fn describes(field: &FieldName) -> bool {
    is_listed(field, "describing_arguments")
}

/// True if the last name of a field's path is one of these.
pub(super) fn is_key(field: &FieldName, names: &[&str]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(key_of(field)))
}

/// True if a list of `rules/words.toml` has the last name of a field's path.
fn is_listed(field: &FieldName, list: &str) -> bool {
    word_lists::lists(list, &key_of(field).to_ascii_lowercase())
}

/// True if a file is a document for readers.
pub(super) fn is_document(path: &str) -> bool {
    let ending = path.rsplit('.').next().unwrap_or_default();
    ["md", "mdx", "rst", "adoc", "txt", "markdown", "html"].contains(&ending)
}

/// Returns the file that a call is about.
pub(super) fn path_of(args: &Value) -> Option<&str> {
    ["path", "file_path", "filePath", "filename", "file", "target_file"].iter().find_map(|key| args.get(key)?.as_str())
}
