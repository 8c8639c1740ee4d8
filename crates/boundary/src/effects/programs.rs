//! Programs that only print, with the options that keep it so. In: a program and its arguments. Out: true if the
//! program and all of its options are known. An unknown option may load a configuration, run a program, or write.

use super::lists::{LISTS, Program, among};

/// Subcommands that print only without a further word, except for the one word in the third place.
const ALONE: [(&str, &str, &str); 3] =
    [("terraform", "providers", "schema"), ("kubectl", "cluster-info", ""), ("crontab", "-l", "")];
/// True if a program has subcommands, some of which print: `kubectl`, `git`.
pub(super) fn has_commands(program: &str) -> bool {
    program == "aws" || LISTS.programs.known.get(program).is_some_and(|known| known.words.contains(char::is_whitespace))
}

/// True if a program only prints, whatever its arguments.
pub(super) fn only_prints(program: &str) -> bool {
    among(&LISTS.programs.printing, program)
}

/// True if a program only prints with these arguments; none for an unknown program.
pub(super) fn prints(program: &str, rest: &[String]) -> Option<bool> {
    if only_prints(program) {
        let acts = ["--output", "--pager", "--open", "--exec", "--in-place", "--delete"];
        return Some(!rest.iter().any(|word| acts.iter().any(|one| word.starts_with(one))));
    }
    if let Some((_, letters)) = LISTS.programs.bare.get_key_value(program) {
        let shows = |word: &String| match word.strip_prefix('-') {
            Some(option) => option.chars().all(|c| letters.contains(c)),
            None => program == "date" && word.starts_with('+') || program == "less" && !word.starts_with('+'),
        };
        return Some(rest.iter().all(shows));
    }
    if among(&LISTS.programs.versioned, program)
        && matches!(rest, [only] if ["--version", "-V", "-v", "version"].contains(&only.as_str()))
    {
        return Some(true);
    }
    match program {
        // An element of an array that is named here is evaluated.
        "[" | "test" => {
            return Some(
                rest.iter().all(|word| !word.starts_with('-') || is_number(word) || among(&LISTS.programs.tests, word)),
            );
        }
        "printf" => return Some(rest.iter().all(|word| !word.starts_with('-'))),
        _ => {}
    }
    let name = if program == "pip3" { "pip" } else { program };
    let known = LISTS.programs.known.get(name)?;
    if program == "git" && lists(rest) {
        return Some(true);
    }
    let Some(rest) = behind_subcommand(name, known, rest) else { return Some(false) };
    let Some(operands) = operands(known, rest) else { return Some(false) };
    Some(program != "uniq" || operands.len() < 2)
}

/// True if a git command only lists, since it names nothing: `git branch -a`, `git remote -v`.
fn lists(rest: &[String]) -> bool {
    let known = "-a -r -v -vv -l --all --list --remotes --show-current --verbose";
    let rest = if rest.first().is_some_and(|word| word == "-C") { rest.get(2..).unwrap_or_default() } else { rest };
    rest.split_first()
        .is_some_and(|(first, after)| among("branch remote tag", first) && after.iter().all(|word| among(known, word)))
}

/// Arguments behind the subcommand, if that only prints.
fn behind_subcommand<'w>(name: &str, program: &Program, mut rest: &'w [String]) -> Option<&'w [String]> {
    if program.words.is_empty() {
        return Some(rest);
    }
    // Options before the subcommand that tell where it works.
    let takes: &[&str] = match name {
        "git" => &["-C"],
        "kubectl" | "helm" => &["-n", "--namespace", "--context", "--kube-context"],
        _ => &[],
    };
    while let Some((first, after)) = rest.split_first() {
        if takes.contains(&first.as_str()) {
            rest = after.get(1..).unwrap_or_default();
        } else if first == "--no-pager" || takes.iter().any(|one| first.starts_with(&format!("{one}="))) {
            rest = after;
        } else {
            break;
        }
    }
    let (first, after) = rest.split_first()?;
    let both = || after.first().map(|second| format!("{first}.{second}"));
    if let Some((.., then)) = ALONE.iter().find(|(program, word, _)| *program == name && word == first) {
        let second = after.iter().find(|word| !word.starts_with('-'));
        return second.is_none_or(|second| second == then).then_some(after);
    }
    if among(&program.words, first) {
        return Some(after);
    }
    both().filter(|both| among(&program.words, both)).and_then(|_| after.get(1..))
}

/// Arguments that are no options; none if an option is unknown.
fn operands<'w>(program: &Program, rest: &'w [String]) -> Option<Vec<&'w String>> {
    let mut found = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            found.extend(words);
            break;
        }
        if !word.starts_with('-') || word == "-" || is_number(word) {
            found.push(word);
            continue;
        }
        let name = word.split('=').next().unwrap_or_default();
        let valued = among(&program.options, &format!("{name}="));
        let takes = if valued || among(&program.options, name) {
            valued && name == word
        } else if word.starts_with("--") {
            return None;
        } else {
            takes_next(&program.letters, word)?
        };
        if takes {
            words.next()?;
        }
    }
    Some(found)
}

/// True if letters such as `-an` take the next word; none if one of them is unknown.
fn takes_next(letters: &str, word: &str) -> Option<bool> {
    let mut own = word.chars().skip(1);
    while let Some(c) = own.next() {
        if c == ':' {
            return None;
        }
        let behind = letters.split_once(c)?.1;
        if behind.starts_with(':') {
            return Some(own.next().is_none());
        }
    }
    Some(false)
}

pub(super) fn is_number(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
}
