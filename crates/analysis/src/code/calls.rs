//! Table of the calls by which programs start commands, delete directories or run text as code.

use std::{collections::HashMap, sync::LazyLock};

use super::language::Language::{self, Go, Java, JavaScript, Perl, Php, Python, Ruby, Rust};

/// Meaning of a call's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallMeaning {
    /// A command line, or a program and its arguments.
    Starts,
    /// A path that is deleted with everything below it, or code that is run.
    Itself,
}

/// Calls of one language. An empty list of owners allows any owner, and none.
struct CallTableRow {
    language: Language,
    owners: &'static str,
    names: &'static str,
    does: CallMeaning,
}

const fn row(language: Language, owners: &'static str, names: &'static str, does: CallMeaning) -> CallTableRow {
    CallTableRow { language, owners, names, does }
}

use CallMeaning::{Itself, Starts};

const ROWS: [CallTableRow; 22] = [
    row(
        Python,
        "os",
        "system popen execl execle execlp execlpe execv execve execvp execvpe posix_spawn startfile",
        Starts,
    ),
    row(Python, "os", "spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe", Starts),
    row(Python, "subprocess sp", "call", Starts),
    row(Python, "pty pexpect", "spawn", Starts),
    row(Python, "", "run Popen check_call check_output getoutput getstatusoutput system popen", Starts),
    row(Python, "", "create_subprocess_shell create_subprocess_exec", Starts),
    row(Python, "", "rmtree exec eval", Itself),
    row(JavaScript, "", "exec execSync execFile execFileSync execAsync spawn spawnSync", Starts),
    row(JavaScript, "", "execa execaSync execaCommand execaCommandSync", Starts),
    row(JavaScript, "", "rmSync rmdirSync rimraf rimrafSync removeSync eval", Itself),
    row(JavaScript, "fs promises fsPromises fsp", "rm rmdir remove", Itself),
    row(Ruby, "", "system exec spawn popen popen2 popen2e popen3 capture2 capture2e capture3 sh run", Starts),
    row(
        Ruby,
        "",
        "rm_rf rm_r rmtree remove_dir remove_entry remove_entry_secure eval instance_eval class_eval",
        Itself,
    ),
    row(Php, "", "exec shell_exec system passthru popen proc_open pcntl_exec fromShellCommandline Process", Starts),
    row(Php, "", "eval", Itself),
    row(Perl, "", "system exec popen", Starts),
    row(Perl, "", "rmtree remove_tree eval", Itself),
    row(Go, "exec syscall os", "Command CommandContext Exec StartProcess", Starts),
    row(Go, "os", "RemoveAll", Itself),
    row(Rust, "Command", "new", Starts),
    row(Rust, "", "remove_dir_all", Itself),
    row(Java, "", "exec ProcessBuilder", Starts),
];

/// Rows by each of their names.
static BY_NAME: LazyLock<HashMap<&str, Vec<&CallTableRow>>> = LazyLock::new(|| {
    let mut rows: HashMap<&str, Vec<&CallTableRow>> = HashMap::new();
    for row in &ROWS {
        row.names.split(' ').for_each(|name| rows.entry(name).or_default().push(row));
    }
    rows
});

/// Returns the names of all calls in the table.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    BY_NAME.keys().copied()
}

/// Returns the meaning of a call by its path; where the language is not known, by the rows of any language.
pub(super) fn meaning(path: &str, language: Option<Language>) -> Option<CallMeaning> {
    let mut parts = path.rsplit(['.', ':', '>', '\\', '&', '?']).filter(|part| !part.is_empty());
    let rows = BY_NAME.get(parts.next()?)?;
    let owner = parts.next().map(|owner| owner.trim_end_matches('-').trim_start_matches('$'));
    let fits = |row: &&&CallTableRow| {
        let belongs = || owner.is_some_and(|owner| row.owners.split(' ').any(|known| known == owner));
        language.is_none_or(|language| language == row.language) && (row.owners.is_empty() || belongs())
    };
    rows.iter().find(fits).map(|row| row.does)
}
