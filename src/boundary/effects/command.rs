//! Whether a command of a shell only looks. In: a text that is sent as a command. Out: whether every program in it is known
//! to print and nothing else, and nothing is written by redirection. What is not known does not only look.

use super::lexicon::{Act, verb};

/// Programs that print, whatever they are given.
const PRINTING: &str = "basename cat cmp cut df dir dirname du echo egrep false fgrep file free grep groups head id jq \
    less lsof ls lsblk lscpu md5sum more nl printenv printf ps pwd readlink realpath sha1sum sha256sum stat strings tac tail \
    test tr true uname uptime wc whereis which who whoami";
/// Programs that print, given one of these words first.
const PRINTING_WITH: [(&str, &str); 6] = [
    ("docker", "images inspect logs ps stats top version"),
    ("git", "blame cat-file describe diff log ls-files ls-tree rev-parse shortlog show status"),
    ("helm", "get history list ls show status version"),
    ("kubectl", "api-resources describe explain get logs top version"),
    ("npm", "ls list outdated view"),
    ("systemctl", "cat is-active is-enabled list-units show status"),
];

/// Whether a command only looks.
pub(super) fn looks(command: &str) -> bool {
    // What runs within, writes elsewhere or goes on in another line is not followed.
    if ["`", "$(", "<(", ">", "\n", "\r"].iter().any(|mark| command.contains(mark)) {
        return false;
    }
    command.split(['|', ';', '&']).map(str::trim).filter(|part| !part.is_empty()).all(one)
}

fn one(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let (Some(program), rest) = (words.next(), words.clone()) else { return true };
    let program = program.rsplit('/').next().unwrap_or(program);
    let written = |word: &str| word.starts_with("--output") || word == "-o" || word.starts_with("--open");
    if rest.clone().any(written) {
        return false;
    }
    if PRINTING.split_whitespace().any(|known| known == program) {
        return true;
    }
    if program == "find" {
        let acts = ["-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls"];
        return !rest.clone().any(|word| acts.contains(&word));
    }
    if let Some((_, known)) = PRINTING_WITH.iter().find(|(name, _)| *name == program) {
        return words.next().is_some_and(|word| known.split_whitespace().any(|one| one == word));
    }
    // `get users`, `LIST`: a command of a service of its own.
    verb(&program.to_lowercase()).is_some_and(|verb| !verb.noun && verb.act == Act::Look)
}
