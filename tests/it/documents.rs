//! Pages that are written from the program itself: commands (`docs/cli.md`) and settings (`docs/configuration.md`).
#![expect(clippy::expect_used, clippy::disallowed_methods, reason = "a test may panic; UMBRA_UPDATE is its own")]

use std::{fmt::Write, fs, path::Path};

use clap::{Command, CommandFactory};
use serde_json::Value;
use umbra::cli::Cli;
use umbra_config::{DEFAULT_SETTINGS, settings_schema};

/// Longest line of a page, in characters.
const WIDTH: usize = 118;

/// Compares a page with its written form, or writes it where `UMBRA_UPDATE` is set.
fn hold(page: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    if std::env::var_os("UMBRA_UPDATE").is_some() {
        fs::write(&path, text).expect("it is written");
    }
    let written = fs::read_to_string(&path).expect(page);
    assert!(written == text, "docs/{page} is out of date: UMBRA_UPDATE=1 cargo test --test it documents writes it");
}

/// Appends a paragraph or a list item, wrapped; lines after the first are indented.
pub(crate) fn wrapped(page: &mut String, text: &str, indent: &str) {
    let mut length = 0;
    for word in text.split_whitespace() {
        let chars = word.chars().count();
        if length > 0 && length + 1 + chars > WIDTH {
            let _ = write!(page, "\n{indent}{word}");
            length = indent.len() + chars;
        } else {
            let blank = if length == 0 { "" } else { " " };
            let _ = write!(page, "{blank}{word}");
            length += blank.len() + chars;
        }
    }
    page.push('\n');
}

/// Appends a command with its options, and its subcommands after it.
fn describe(page: &mut String, path: &str, command: &mut Command) {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(page, "\n## `{path}`\n");
    wrapped(page, &about, "");
    let own = |one: &&clap::Arg| !one.is_hide_set() && !is_common(one);
    let arguments: Vec<_> = command.get_arguments().filter(own).collect();
    if !arguments.is_empty() {
        page.push('\n');
    }
    for argument in arguments {
        let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
        let values = argument.get_possible_values();
        let values: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
        let is_flag = !argument.get_action().takes_values();
        let choice = if values.is_empty() || is_flag { String::new() } else { format!(" ({})", values.join(", ")) };
        wrapped(page, &format!("- `{argument}`: {help}{choice}"), "  ");
    }
    let after = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    for paragraph in after.iter().flat_map(|after| after.split("\n\n")) {
        page.push('\n');
        wrapped(page, paragraph, "");
    }
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        let path = format!("{path} {}", inner.get_name());
        describe(page, &path, inner);
    }
}

/// True for options that every command takes: they are listed once.
fn is_common(argument: &clap::Arg) -> bool {
    let program = Cli::command();
    let mut common = program.get_arguments().filter(|own| own.is_global_set());
    ["help", "version"].contains(&argument.get_id().as_str()) || common.any(|own| own.get_id() == argument.get_id())
}

#[test]
fn the_page_of_commands_is_written_from_the_program() {
    let mut page = "# Commands\n\n".to_owned();
    let about = "Written from the program; the option `--help` of each command says the same. Commands work beside a \
                 running server and without one, except those with `--server`, which ask a running one.";
    wrapped(&mut page, about, "");
    page.push_str("\n## Options of every command\n\n");
    let mut program = Cli::command();
    program.build();
    for argument in program.get_arguments().filter(|argument| argument.is_global_set()) {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        wrapped(&mut page, &format!("- `{argument}`: {help}"), "  ");
    }
    describe(&mut page, "umbra", &mut program);
    hold("cli.md", &page);
}

/// Kind of value that a schema allows, in a word.
fn kind(schema: &Value) -> String {
    let words = |list: &Vec<Value>| {
        let words: Vec<String> =
            list.iter().map(|word| word.as_str().map_or(word.to_string(), ToOwned::to_owned)).collect();
        words.join(" | ")
    };
    if let Some(list) = schema.get("enum").and_then(Value::as_array) {
        return words(list);
    }
    if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
        return any.iter().map(kind).collect::<Vec<_>>().join(", or ");
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => "list".to_owned(),
        Some("object") => "mapping".to_owned(),
        Some("string") if schema.get("pattern").is_some_and(|pattern| pattern.to_string().contains("ms|s|m")) => {
            "duration".to_owned()
        }
        Some(other) => other.to_owned(),
        None => "value".to_owned(),
    }
}

/// Appends the keys of a section, those of its mappings among them.
fn settings(page: &mut String, path: &str, schema: &Value, defaults: &Value) {
    let keys = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (key, schema) in keys {
        let path = format!("{path}.{key}");
        let default = defaults.get(key).unwrap_or(&Value::Null);
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let default_text = match default {
            Value::Null | Value::Object(_) => String::new(),
            Value::String(text) => format!(", default `{text}`"),
            other => format!(", default `{other}`"),
        };
        wrapped(page, &format!("- `{path}` ({}{default_text}): {about}", kind(schema)), "  ");
        settings(page, &path, schema, default);
    }
}

#[test]
fn the_page_of_settings_is_written_from_their_declarations() {
    let schema = settings_schema();
    let defaults: Value = serde_saphyr::from_str(DEFAULT_SETTINGS).expect("YAML");
    let mut page = String::from(
        "# Settings\n\nWritten from the declarations. A settings file is YAML (`--config FILE`, `UMBRA_CONFIG`);\n\
         [config/umbra.default.yaml](../config/umbra.default.yaml) has every default with its reason. In the environment a\n\
         setting is `UMBRA__SECTION__KEY`. Order: defaults, file, environment, command line.\n",
    );
    for (section, schema) in schema.get("properties").and_then(Value::as_object).expect("sections") {
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let _ = write!(page, "\n## {section}\n\n");
        wrapped(&mut page, about, "");
        page.push('\n');
        settings(&mut page, section, schema, defaults.get(section).unwrap_or(&Value::Null));
    }
    hold("configuration.md", &page);
}

/// Paths of a page that must exist: targets of links, and files of the repository in backticks.
fn paths_of(text: &str) -> Vec<(String, bool)> {
    const FOLDERS: [&str; 9] = ["src", "crates", "tests", "docs", "scripts", "deploy", "clients", "examples", "fuzz"];
    let linked = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(|target| (target, true));
    let quoted = text.split('`').skip(1).step_by(2).filter(|span| {
        let (folder, rest) = span.split_once('/').unwrap_or_default();
        let plain = rest.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        FOLDERS.contains(&folder) && plain && !rest.is_empty()
    });
    let all = linked.chain(quoted.map(|span| (span, false)));
    let all = all.filter(|(target, _)| !target.contains("://") && !target.starts_with('#'));
    all.map(|(target, is_link)| (target.split('#').next().unwrap_or_default().to_owned(), is_link)).collect()
}

#[test]
fn links_and_paths_of_pages_lead_to_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut faults, mut checked) = (Vec::new(), 0);
    for folder in [root.to_owned(), root.join("docs")] {
        for page in fs::read_dir(&folder).expect("a folder").map(|page| page.expect("a file").path()) {
            if page.extension().is_none_or(|end| end != "md") {
                continue;
            }
            let outside_code: Vec<String> = {
                let text = fs::read_to_string(&page).expect("it is read");
                text.split("```").step_by(2).map(ToOwned::to_owned).collect()
            };
            for (path, is_link) in outside_code.iter().flat_map(|text| paths_of(text)) {
                checked += 1;
                let base = if is_link { &folder } else { root };
                if !base.join(&path).exists() {
                    faults.push(format!("{}: {path} does not exist", page.display()));
                }
            }
        }
    }
    assert!(checked > 100 && faults.is_empty(), "{checked} paths\n{}", faults.join("\n"));
}
