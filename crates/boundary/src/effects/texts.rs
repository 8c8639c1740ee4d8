//! Texts that hold more than they seem: arguments in lines or in a form, orders in XML, modes of files, commands behind
//! shell signs. In: a text. Out: its content. Each text is read once, from its beginning to its end.

use super::{
    lexicon::verb,
    lists::{LISTS, among},
    name::words,
    vocabulary::{self, WordKind},
};
use umbra_domain::Effect;

/// Signs behind which a shell starts a command.
const SIGNS: [&str; 7] = [";", "|", "&", "`", "$(", "\n", "\r"];
/// Most lines, tags or signs that are read.
const MOST: usize = 2_000;

/// True if a command follows a sign of a shell: `x; rm -rf y`.
pub(super) fn hides_a_command(text: &str) -> bool {
    SIGNS.iter().any(|sign| {
        text.split(sign).skip(1).take(MOST).any(|rest| is_program(rest.trim_start_matches([' ', '&', '|'])))
    })
}

/// True if a text begins with a program's name, and an option, a path or an address.
pub(super) fn is_command(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let (Some(_), Some(second)) = (words.next(), words.next()) else { return false };
    is_program(text) && (second.starts_with(['-', '/', '~']) || second.contains("://"))
}

fn is_program(text: &str) -> bool {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '/' || c == '_')).unwrap_or(text.len());
    let program = text.get(..end).unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let ends = text
        .get(end..)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', ';', '|', '&', '\n', '`', ')', '<', '>']));
    ends && among(&LISTS.commands.shell_programs, program)
}

/// Names and values of lines such as `key: value`; none if there is no such line.
pub(super) fn lines(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    for line in text.lines().take(MOST) {
        let line = line.trim_start_matches([' ', '\t', '-']).trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once(':') else { continue };
        let named = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.\"'$".contains(c));
        if named && (value.is_empty() || value.starts_with(' ')) {
            let value = value.trim().trim_matches(['"', '\'', '|', '>']);
            found.push((key.trim_matches(['"', '\'']), value));
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Text of a form: `a=1&_method=DELETE`.
pub(super) fn form(text: &str) -> Option<&str> {
    let text = text.strip_prefix('?').unwrap_or(text);
    let plain = text.len() < 8_192
        && text.contains('=')
        && !text.contains(|c: char| c.is_whitespace() || "(){}<>\"'".contains(c));
    let named = |part: &str| {
        part.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.[]%$".contains(c))
        })
    };
    (plain && text.split('&').all(named)).then_some(text)
}

/// Names and contents of XML elements and attributes: `<action>delete</action>`, `<do action="delete"/>`. The first
/// element of a SOAP message's body, and the name of a call's method, count as `method`.
pub(super) fn elements(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    if !text.starts_with('<') {
        return found;
    }
    let mut in_body = false;
    for tag in text.split('<').skip(1).take(MOST) {
        let (opening, after) = tag.split_once('>').unwrap_or((tag, ""));
        let end = opening.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(opening.len());
        let (name, attributes) = opening.split_at(end);
        let local = name.rsplit(':').next().unwrap_or(name);
        if in_body && !local.is_empty() && !local.starts_with('!') {
            found.push(("method", local));
            in_body = false;
        }
        in_body |= local == "Body";
        if !local.is_empty() && !after.trim().is_empty() {
            found.push((if local == "methodName" { "method" } else { local }, after.trim()));
        }
        let mut rest = attributes;
        while let Some((name, value)) = rest.split_once('=') {
            let quote = value.chars().next().filter(|c| ['"', '\''].contains(c));
            let Some((value, after)) = quote.and_then(|quote| value.get(1..)?.split_once(quote)) else { break };
            found.push((name.trim(), value));
            rest = after;
        }
    }
    found
}

/// True if a text is a code and no program: `USD`, `E11.9`, `en-US`. A name without a verb counts as well.
pub(super) fn is_data(text: &str) -> bool {
    let plain = text.len() < 48 && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_:/+.".contains(c));
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let parted = text.match_indices('.').all(|(at, _)| {
        digit(text.get(..at).and_then(|before| before.chars().next_back()))
            && digit(text.get(at + 1..).and_then(|after| after.chars().next()))
    });
    let quiet = |word: &String| {
        verb(word).is_none_or(|verb| verb.act.effect() == Effect::Read)
            && vocabulary::word(word) != Some(WordKind::Verb)
    };
    plain && parted && !is_program(text) && words(text).iter().all(quiet)
}

/// True if a file is opened for writing: `w`, `a+`, `xb`, `O_RDWR|O_CREAT`.
pub(super) fn opens_to_write(text: &str) -> bool {
    let short = text.len() < 5 && text.chars().all(|c| "rwaxcbteU+".contains(c));
    let flags = ["O_RDONLY", "O_CLOEXEC", "O_NONBLOCK", "O_DIRECTORY", "O_NOFOLLOW", "O_PATH", "O_BINARY", "O_NOATIME"];
    let named = |flag: &str| flag.starts_with("O_") && !flags.contains(&flag);
    short && text.contains(['w', 'a', 'x', '+']) && !text.contains("ea")
        || text.to_ascii_uppercase().split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(named)
}

/// True if a text gives permissions of a file: `0755`, `u+w`.
pub(super) fn is_right(text: &str) -> bool {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let octal = (3..=5).contains(&digits.len()) && digits.chars().all(|c| ('0'..='7').contains(&c));
    let clause = |part: &str| {
        let rest = part.trim_start_matches(|c: char| "ugoa".contains(c));
        let letters = rest.strip_prefix(['+', '-', '=']);
        letters.is_some_and(|letters| !letters.is_empty() && letters.chars().all(|c| "rwxXst".contains(c)))
    };
    octal || text.split(',').all(clause)
}

/// True if a text is an HTTP request as sent over the wire, and writes.
pub(super) fn asks_by_http(text: &str) -> bool {
    let Some((method, target)) = text.split_once(' ') else { return false };
    let wired = target
        .lines()
        .next()
        .is_some_and(|line| line.trim_end().ends_with("HTTP/1.1") || line.trim_end().ends_with("HTTP/1.0"));
    let writes = ["POST", "PUT", "PATCH", "DELETE"].contains(&method);
    writes && (target.starts_with('/') || target.starts_with("http"))
        || wired && !["GET", "HEAD", "OPTIONS"].contains(&method)
}
