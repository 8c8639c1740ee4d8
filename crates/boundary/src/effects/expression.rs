//! Judges the calls in an expression, by the grammar that languages share: a name, and behind it an opening bracket.
//! In: a text. Out: whether all calls are known to compute, and whether the text as a whole is one call.

use super::{
    functions::{is_known, is_step},
    graphql,
    name::acts,
};

/// Most calls that are judged; a text with more may do anything.
const MOST: usize = 1_000;

/// True if every call in a text is known to compute.
pub(super) fn computes(text: &str) -> bool {
    let mut calls = calls(text);
    calls.by_ref().take(MOST).all(|name| name.is_some_and(is_known)) && calls.next().is_none() && !text.contains("__")
}

/// True if a text is one call, or a chain of calls, from its beginning to its end: `os.remove('x')`, `f(1)(2)`.
pub(super) fn is_call(text: &str) -> bool {
    let text = text.trim().trim_end_matches(';');
    let bare = ["new ", "await ", "return "].into_iter().find_map(|word| text.strip_prefix(word)).unwrap_or(text);
    let Some(open) = bare.find('(').filter(|_| bare.ends_with(')')) else { return false };
    let callee = bare.get(..open).unwrap_or_default();
    callee.starts_with(|c: char| c.is_ascii_alphabetic() || "_$'\"".contains(c))
        && callee.chars().all(|c| c.is_ascii_alphanumeric() || "_.$[]'\"".contains(c))
}

/// True if a text is a query in the shell of a database, by its first word: `db.users.find()`, `g.V()`.
pub(super) fn is_chain(text: &str) -> bool {
    let text = text.trim_start();
    let root = text.split(['.', '[', '(']).next().unwrap_or_default();
    let start = root.trim_end();
    ["db", "g", "r", "rs", "sh"].contains(&start)
        && text.get(root.len()..).is_some_and(|rest| rest.starts_with(['.', '[']))
        && text.contains('(')
}

/// True if such a query is read-only: one statement of known steps.
pub(super) fn is_read_only_chain(text: &str) -> bool {
    let stores = ["$out", "$merge", "$where", "$function", "$accumulator", "function", "=>"];
    // Braces hold a program there: `g.V().map{it}`.
    let closes_over = text.trim_start().starts_with('g') && text.contains('{');
    !closes_over
        && calls(text).take(MOST + 1).enumerate().all(|(at, name)| at < MOST && name.is_some_and(is_step))
        && !text.trim_end().trim_end_matches(';').contains(';')
        && !stores.iter().any(|word| text.contains(word))
}

/// Names of the calls in a text, directly before the bracket; `None` for a call without a name.
fn calls(text: &str) -> impl Iterator<Item = Option<&str>> {
    text.match_indices('(').filter_map(|(open, _)| {
        let before = text.get(..open)?;
        let last = before.chars().next_back()?;
        if last == ')' || last == ']' || last == '\'' || last == '"' {
            return Some(None);
        }
        // Bounded: no name is longer.
        let from = before.ceil_char_boundary(before.len().saturating_sub(64));
        let near = before.get(from..)?;
        let start = near
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
            .map_or(0, |at| at + near.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8));
        let name = near.get(start..)?;
        (!name.is_empty()).then_some(Some(name))
    })
}

/// True if a text is a script of several steps with a call that is not known to compute.
pub(super) fn is_script(text: &str) -> bool {
    text.contains('(') && text.contains([';', '=', '|']) && !graphql::is_graphql(text) && !computes(text)
}

/// True if a template or spreadsheet evaluates a call in a text (`{{ f() }}`, `${x.y()}`, `=F()`), or an order
/// (`{{delete}}`, `${jndi:ldap://x}`).
pub(super) fn is_template(text: &str) -> bool {
    let filled = ["{{", "${", "#{", "<%", "{%"].iter().any(|mark| text.contains(mark));
    // A placeholder within a placeholder makes a word that the text does not show: `${${lower:j}ndi:x}`.
    let pieces: Vec<&str> = text.split("${").skip(1).take(MOST).collect();
    let nested = pieces.split_last().is_some_and(|(_, before)| before.iter().any(|piece| !piece.contains('}')));
    let placed = || {
        nested
            || places(text)
                .take(MOST)
                .any(|place| is_looked_up(place) || acts(place.trim_start_matches(['#', '/', '&', '>', ' '])))
    };
    (filled || text.starts_with('=')) && !computes(text)
        || text.starts_with('=') && text.contains('|')
        || filled && placed()
}

/// Contents of a template's placeholders, up to the next bracket.
fn places(text: &str) -> impl Iterator<Item = &str> {
    ["{{", "${"].into_iter().flat_map(move |mark| {
        text.split(mark).skip(1).map(|rest| {
            let near = rest.get(..rest.floor_char_boundary(200)).unwrap_or_default();
            near.get(..near.find('}').unwrap_or(near.len())).unwrap_or_default()
        })
    })
}

/// True if a placeholder is filled by a lookup elsewhere: `jndi:ldap://x`, `script:js:x`, `${lower:j}ndi:x`.
fn is_looked_up(place: &str) -> bool {
    place.split_once(':').is_some_and(|(name, rest)| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric())
            && (rest.contains(':') || rest.contains("//"))
    })
}
