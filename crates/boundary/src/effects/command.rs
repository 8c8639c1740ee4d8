//! Judges commands. In: a line of a shell, or a list of arguments. Out: true if every program in it is known to print
//! only, with options that are harmless there. Unknown programs and options are not read-only.

use super::{
    aws,
    lexicon::{Act, verb},
    lists::{LISTS, among},
    programs, request,
    statement::{StatementVerdict, judge},
};
use umbra_analysis::shell::{EXPANDS, parse_plain_line};
use umbra_domain::Effect;

/// True if a line of a shell is read-only.
pub(super) fn is_read_only(line: &str) -> bool {
    parse_plain_line(line).is_some_and(|all| all.iter().all(|words| one(words, all.len() == 1)))
}

/// The same for a text that may be in another language: only known programs count.
pub(super) fn prints(line: &str) -> bool {
    parse_plain_line(line).is_some_and(|all| !all.is_empty() && all.iter().all(|words| one(words, false)))
}

/// True if a list of arguments, the program first, is read-only.
pub(super) fn is_read_only_argv(words: &[String]) -> bool {
    !words.is_empty() && one(words, true)
}

/// True if arguments are read-only behind the words of a tool's name: `git_log` with `--oneline`.
pub(super) fn is_read_only_behind_name(name: &[String], arguments: &[String]) -> bool {
    !name.is_empty() && one(&[name, arguments].concat(), false)
}

/// True if a text is a Redis command that is not read-only, or one in capitals like that of another store: `PUT x`.
pub(super) fn is_redis_order(text: &str) -> bool {
    let words: Vec<String> = text.split_whitespace().take(8).map(ToOwned::to_owned).collect();
    let Some((first, rest)) = words.split_first() else { return false };
    let is_loud = |word: &str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    let (loud, small) = (is_loud(first), first.to_ascii_lowercase());
    let known = among(&LISTS.commands.redis_acts, &small) && (loud || !among(&LISTS.commands.redis_prose, &small));
    let paired =
        loud && among(&LISTS.commands.redis_pairs, &small) && rest.first().is_some_and(|second| is_loud(second));
    let acts = || verb(&small).is_some_and(|verb| verb.act.effect() > Effect::Read);
    known || paired && !is_read_only_redis(&words) || loud && (1..4).contains(&rest.len()) && acts()
}

/// True if a Redis command is read-only.
pub(super) fn is_read_only_redis(words: &[String]) -> bool {
    words.first().is_some_and(|first| {
        let first = first.to_ascii_lowercase();
        let both = words.get(1).map(|second| format!("{first}.{}", second.to_ascii_lowercase()));
        !words.iter().any(|word| word.contains(['\r', '\n']) || word.eq_ignore_ascii_case("store"))
            && (among(&LISTS.commands.redis, &first) || both.is_some_and(|both| among(&LISTS.commands.redis, &both)))
    })
}

fn one(words: &[String], alone: bool) -> bool {
    let Some((program, rest)) = words.split_first() else { return true };
    // A program of that name in another folder may be another program.
    let installed = ["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/"];
    let program = installed.iter().find_map(|folder| program.strip_prefix(folder)).unwrap_or(program);
    if words.iter().any(|word| word.contains(EXPANDS)) && !programs::only_prints(program) {
        // The value may be an option that writes, or a program.
        return false;
    }
    if let Some(prints) = programs::prints(program, rest) {
        return prints;
    }
    match program {
        "aws" => aws::is_read_only(rest),
        "awk" | "gawk" | "mawk" => awk(rest),
        "curl" => request::is_read_only_curl(rest),
        "find" => rest
            .iter()
            .all(|word| !word.starts_with('-') || among(&LISTS.commands.found, word) || programs::is_number(word)),
        "mysql" | "psql" | "sqlite3" => database(rest),
        "sed" => sed(rest),
        "tar" => rest.split_first().is_some_and(|(how, rest)| {
            let how = how.strip_prefix('-').unwrap_or(how);
            how.contains('t')
                && how.chars().all(|c| "tvfzjJ".contains(c))
                // A colon names another machine, which a program is run to reach.
                && rest.iter().all(|word| !word.starts_with('-') && !word.contains(':'))
        }),
        "xargs" => xargs(rest),
        // `get users`, `LIST`: a command of some service.
        _ => {
            alone
                && rest.iter().all(|word| word.chars().all(|c| c.is_alphanumeric() || "_.*:/".contains(c)))
                && verb(&program.to_lowercase()).is_some_and(|verb| {
                    !verb.noun && verb.act == Act::Read && !["download", "fetch", "scrape"].contains(&verb.word)
                })
        }
    }
}

/// True if a database client is given only statements that read: `psql -h db -c 'select 1'`,
/// `sqlite3 a.db 'select 1'`.
fn database(rest: &[String]) -> bool {
    let (mut words, mut asked, mut named) = (rest.iter(), false, false);
    while let Some(word) = words.next() {
        let reads = |text: Option<&String>| text.is_some_and(|text| judge(text) == StatementVerdict::Reads);
        match word.as_str() {
            "-c" | "-e" | "--command" | "--execute" if !reads(words.next()) => return false,
            "-c" | "-e" | "--command" | "--execute" => asked = true,
            "-h" | "-U" | "-d" | "-p" | "-u" | "-D" | "-P" => drop(words.next()),
            "-t" | "-A" | "-X" | "-q" | "-w" | "-N" | "-B" | "-s" | "-readonly" | "-json" | "-csv" | "-header" => {}
            option if option.starts_with('-') => return false,
            text if text.contains(char::is_whitespace) && !reads(Some(word)) => return false,
            text if text.contains(char::is_whitespace) => asked = true,
            _ if named => return false,
            _ => named = true,
        }
    }
    asked
}

/// True if an awk program only prints: it starts nothing, and writes and reads no other file.
fn awk(rest: &[String]) -> bool {
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-F" | "-v" => drop(words.next()),
            option if option.starts_with("-F") => {}
            option if option.starts_with('-') => return false,
            program => {
                let acts = ["system", "getline", "close", "fflush", ">", "|", "@", "print -"];
                return !acts.iter().any(|act| program.contains(act)) && words.all(|file| !file.starts_with('-'));
            }
        }
    }
    false
}

/// True if a sed script is one command that prints, or replaces in what is printed.
fn sed(rest: &[String]) -> bool {
    let mut script = None;
    for word in rest {
        match word.strip_prefix('-') {
            Some(option) if !option.chars().all(|c| "nErsuz".contains(c)) || option.is_empty() => return false,
            Some(_) => {}
            None => script = script.or(Some(word)),
        }
    }
    script.is_some_and(|script| {
        let command = script.trim_start_matches(|c: char| c.is_ascii_digit() || "$,~+ ".contains(c));
        if ["p", "d", "q", "="].contains(&command) {
            return true;
        }
        if let Some((pattern, after)) = command.strip_prefix('/').and_then(|rest| rest.rsplit_once('/')) {
            return !pattern.contains('/') && ["p", "d", "q", "="].contains(&after);
        }
        let mut chars = command.chars();
        let (Some('s'), Some(mark)) = (chars.next(), chars.next()) else { return false };
        let parts: Vec<&str> = chars.as_str().split(mark).collect();
        let plain = !mark.is_alphanumeric() && !command.contains(['\\', '\n', ';', '{']);
        plain && matches!(parts.as_slice(), [_, _, flags] if flags.chars().all(|c| c.is_ascii_digit() || "gpiI".contains(c)))
    })
}

/// True if the program that xargs runs only prints, whatever arguments follow: `xargs -0 -n 1 grep x`.
fn xargs(rest: &[String]) -> bool {
    let mut words = rest;
    while let Some((first, after)) = words.split_first().filter(|(first, _)| first.starts_with('-')) {
        words = match first.as_str() {
            "-n" | "-P" | "-I" | "-L" | "-d" => after.get(1..).unwrap_or_default(),
            "-0" | "-r" | "-t" => after,
            option if option.chars().skip(2).all(|c| c.is_ascii_digit()) && option.len() > 2 => after,
            _ => return false,
        };
    }
    words.first().is_none_or(|program| programs::only_prints(program)) && one(words, false)
}
