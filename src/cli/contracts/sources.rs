//! Lists the tools that code in a folder registers without a guard or a contract.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::Serialize;
use walkdir::{DirEntry, WalkDir};

use umbra_boundary::contract::{
    Contracts,
    source::{Language, Registered, WRAPPED, scan},
};
use umbra_domain::ToolName;

/// Largest part of a file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Most files of a folder.
const MAX_FILES: usize = 50_000;
/// Folders with third-party code.
const FOREIGN: [&str; 9] =
    ["node_modules", "site-packages", "venv", "env", "__pycache__", "dist", "build", "target", "vendor"];

/// Missing protection of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MissingProtection {
    /// No guard asks for a decision before it is called.
    Guard,
    /// No contract describes its stub.
    Contract,
}

/// A tool without a guard or a contract.
#[derive(Debug, Serialize)]
pub(super) struct Unguarded {
    /// Path of the file.
    pub file: String,
    /// Line, name and registering call.
    #[serde(flatten)]
    pub found: Registered,
    /// Missing protections.
    pub missing: Vec<MissingProtection>,
}

impl std::fmt::Display for Unguarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, found: Registered { line, name, by, .. }, missing } = self;
        if by == WRAPPED {
            return write!(f, "{file}:{line}: calls `{name}` around its guard ({WRAPPED})");
        }
        let lacks = match missing.as_slice() {
            [MissingProtection::Guard] => {
                "no guard: add @umbra.tool(...) below the registration, or put its server behind `umbra mcp`"
            }
            [MissingProtection::Contract] => "no contract",
            _ => "no guard and no contract",
        };
        write!(f, "{file}:{line}: {by} registers `{name}`, which has {lacks}")
    }
}

/// Returns the tools that code in a folder registers without a guard or a contract, in order of files.
pub(super) fn unguarded(folder: &Path, contracts: &Contracts) -> anyhow::Result<Vec<Unguarded>> {
    let mut found = Vec::new();
    for file in files(folder)? {
        let language = file.extension().and_then(|end| Language::of_extension(end.to_str()?));
        let Some(language) = language else { continue };
        let mut bytes = Vec::new();
        File::open(&file)
            .and_then(|opened| opened.take(MAX_FILE_BYTES).read_to_end(&mut bytes))
            .with_context(|| format!("{} cannot be read", file.display()))?;
        let tools = scan(&String::from_utf8_lossy(&bytes), language);
        let shown = file.display().to_string();
        for tool in tools {
            let lacks = [
                (!tool.is_guarded).then_some(MissingProtection::Guard),
                (tool.by != WRAPPED && !has_contract(contracts, &tool.name)).then_some(MissingProtection::Contract),
            ];
            let missing: Vec<MissingProtection> = lacks.into_iter().flatten().collect();
            if !missing.is_empty() {
                found.push(Unguarded { file: shown.clone(), found: tool, missing });
            }
        }
    }
    Ok(found)
}

/// True if a contract covers a tool of that name on any server.
fn has_contract(contracts: &Contracts, name: &str) -> bool {
    contracts.find(&ToolName::bare(name)).is_some()
        || contracts.all().any(|contract| {
            let tool = &contract.contract().tool;
            let last = tool.rsplit('.').next().unwrap_or(tool);
            last == name
                || last != "*" && globset::Glob::new(last).is_ok_and(|glob| glob.compile_matcher().is_match(name))
        })
}

/// Returns the files of a folder in order, without links, hidden files and third-party code.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let is_own = |entry: &DirEntry| {
        let name = entry.file_name().to_string_lossy();
        let is_foreign = entry.file_type().is_dir() && FOREIGN.contains(&name.as_ref());
        entry.depth() == 0 || !(name.starts_with('.') || is_foreign)
    };
    let mut files = Vec::new();
    for entry in WalkDir::new(folder).into_iter().filter_entry(is_own) {
        let entry = entry.with_context(|| format!("{} cannot be read", folder.display()))?;
        if entry.file_type().is_file() {
            files.push(entry.into_path());
        }
        anyhow::ensure!(
            files.len() <= MAX_FILES,
            "{} has more than {MAX_FILES} files: name a smaller folder",
            folder.display()
        );
    }
    files.sort();
    Ok(files)
}
