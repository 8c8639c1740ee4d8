//! What a statement does beside what it opens with: functions that it calls, with brackets and without, and statements that
//! begin within it. In: tokens. Out: whether any of that may do something.

use super::{
    among, functions, name,
    statement::{OPENINGS, is},
    tokens::Token,
};
use umbra_domain::Effect;

/// Most functions of a statement that are looked at. With more, anything may be there.
const MOST: usize = 1_000;
/// Words by which a second statement begins, beside those by which any does.
const SECOND: &str = "break bulk close continue dbcc deny disable enable goto if open print raiserror readtext receive reconfigure \
    revert save send throw updatetext waitfor while writetext";
/// What is a whole statement by itself.
const ALONE: [&str; 9] =
    ["begin", "checkpoint", "commit", "discard", "reconfigure", "revert", "rollback", "shutdown", "vacuum"];
/// Words by which a statement goes on.
const GOES_ON: &str = "and as asc between by case collate cross desc else end escape except exists fetch filter for from full group having in \
    inner intersect interval is join lateral left like ilike limit natural not null offset on or order outer over partition qualify range right \
    rows select set similar tablesample then union using when where window with within separator values";

/// Whether a statement calls what is not known to compute. A schema's function is its owner's, whatever it is called.
pub(super) fn calls_unknown(tokens: &[Token<'_>]) -> bool {
    let named = |at: usize, list: &[&str]| at.checked_sub(1).is_some_and(|at| is(tokens, at, list));
    // In SPARQL a dot ends what is said of a thing.
    let of_graph = is(tokens, 0, &["prefix", "base", "construct"])
        || is(tokens, 0, &["select"]) && tokens.contains(&Token::Mark('{'));
    let mut functions = 0;
    tokens.windows(2).enumerate().any(|(at, pair)| {
        let [Token::Word(name) | Token::Name(name), Token::Mark('(')] = pair else { return false };
        functions += 1;
        let dot = at.checked_sub(1).is_some_and(|before| tokens.get(before) == Some(&Token::Mark('.')));
        let schemas = ["pg_catalog", "safe", "sys", "net", "hash", "db", "point", "duration", "date", "datetime"];
        let owned = dot && !of_graph && !named(at - 1, &schemas);
        // `with t(a, b) as`, `as t(a, b)`: names of columns.
        let columns = named(at, &["as", "with", "recursive"]) || is_columns(tokens, at + 1);
        // `table(f)` calls what it is given.
        let given = name.eq_ignore_ascii_case("table") && !of_graph && !is_of_known(tokens, at + 2);
        functions > MOST || owned || given || !columns && !functions::is_known(name)
    })
}

/// Whether a bracket names the columns of what is defined behind it: `t(a, b) as (`.
fn is_columns(tokens: &[Token<'_>], open: usize) -> bool {
    let end = (open + 1..open + 64).find(|at| tokens.get(*at) == Some(&Token::Mark(')')));
    end.is_some_and(|end| is(tokens, end + 1, &["as"]) && tokens.get(end + 2) == Some(&Token::Mark('(')))
}

/// Whether what stands in a bracket is a text, or a call of what is known.
fn is_of_known(tokens: &[Token<'_>], at: usize) -> bool {
    match tokens.get(at) {
        Some(Token::Text) => true,
        Some(Token::Word(name)) => tokens.get(at + 1) == Some(&Token::Mark('(')) && functions::is_known(name),
        _ => false,
    }
}

/// What changes something without a bracket: the next value of a sequence, a pragma as a table.
pub(super) fn draws(tokens: &[Token<'_>]) -> Option<(Effect, &'static str)> {
    if !is(tokens, 0, &["select", "values", "with", "explain", "return"]) {
        return None;
    }
    (1..tokens.len()).find_map(|at| {
        let Some(Token::Word(word) | Token::Name(word)) = tokens.get(at) else { return None };
        let small = word.to_ascii_lowercase();
        let next = small == "next" && is(tokens, at + 1, &["value"]) && is(tokens, at + 2, &["for"]);
        if next || small == "nextval" {
            return Some((Effect::Write, "nextval"));
        }
        let shown = |name: &str| functions::is_pragma(name, false);
        small.strip_prefix("pragma_").is_some_and(|name| !shown(name)).then_some((Effect::Destructive, "pragma"))
    })
}

/// Whether a function is called by its name alone, as far as that can be told: `t.purge` is a column, or called with the
/// row; behind `from` it is a table.
pub(super) fn calls_by_name(tokens: &[Token<'_>]) -> bool {
    if !is(tokens, 0, &["select", "values", "with", "explain", "return"]) {
        return false;
    }
    let of_dual = (1..tokens.len()).any(|at| is(tokens, at, &["from"]) && is(tokens, at + 1, &["dual"]));
    let bare = of_dual || !(1..tokens.len()).any(|at| is(tokens, at, &["from"]));
    let dot = |at: usize| tokens.get(at) == Some(&Token::Mark('.'));
    (1..tokens.len()).any(|at| {
        let Some(Token::Word(word) | Token::Name(word)) = tokens.get(at) else { return false };
        let owned = dot(at - 1) && !dot(at + 1);
        let start = (0..4).fold(at, |at, _| if at > 1 && dot(at - 1) { at - 2 } else { at });
        let of_table = start > 0 && is(tokens, start - 1, &["from", "join", "table", "of", "as"]);
        let called = tokens.get(at + 1) == Some(&Token::Mark('('));
        let named = owned && !of_table && !called;
        let package = named && of_dual && !["currval", "level"].iter().any(|known| word.eq_ignore_ascii_case(known));
        let alone = bare && !owned && !called && !is(tokens, at - 1, &["as"]) && is(tokens, 0, &["select", "values"]);
        package || (named || alone) && name::acts(word)
    })
}

/// Whether a query of a graph asks another server, which may do anything; that of labels is everybody's.
pub(super) fn starts_service(tokens: &[Token<'_>]) -> bool {
    let of_graph = tokens.contains(&Token::Mark('{'));
    let renamed = (0..tokens.len()).any(|at| is(tokens, at, &["prefix"]) && is(tokens, at + 1, &["wikibase"]));
    of_graph
        && (1..tokens.len()).any(|at| {
            let labels = is(tokens, at + 1, &["wikibase"]) && is(tokens, at + 3, &["label"]) && !renamed;
            let asks = matches!(tokens.get(at + 1), Some(Token::Mark('<' | '?' | '$') | Token::Word(_)));
            is(tokens, at, &["service"]) && asks && !labels
        })
}

/// Whether a second statement follows without a sign between, as some dialects have it: `select 1 exec f`.
pub(super) fn begins_another(first: &str, tokens: &[Token<'_>]) -> bool {
    let from = match first {
        "select" | "values" | "with" => 0,
        // `show create table t` opens with two words, and so does `explain delete from t`.
        "show" if is(tokens, 1, &["create", "open", "table", "index"]) => 3,
        "show" | "desc" | "describe" => 1,
        // What writes, and is explained, is not run; who explains parts statements by a sign.
        "explain" => match (1..tokens.len()).find(|at| is(tokens, *at, &["select", "with", "values"])) {
            Some(at) => at,
            None => return false,
        },
        _ => return false,
    };
    is_two(tokens.get(from..).unwrap_or_default())
}

fn is_two(tokens: &[Token<'_>]) -> bool {
    let part = |word: &str| among(GOES_ON, &word.to_ascii_lowercase());
    let ended = |before: &Token<'_>| match before {
        Token::Word(word) => !part(word),
        Token::Name(_) | Token::Text | Token::Mark(')' | '*' | ']') => true,
        Token::Mark(_) => false,
    };
    (1..tokens.len()).any(|at| {
        let (Some(before), Some(Token::Word(word))) = (tokens.get(at - 1), tokens.get(at)) else { return false };
        if !ended(before) {
            return false;
        }
        let after = tokens.get(at + 1);
        if is(tokens, at, &ALONE) && matches!(after, None | Some(Token::Word(_))) {
            return true;
        }
        let follows = match after {
            Some(Token::Word(word)) => !part(word),
            Some(Token::Name(_) | Token::Text | Token::Mark('@')) => true,
            _ => false,
        };
        let small = word.to_ascii_lowercase();
        let joins = ["match", "optional", "unwind"].contains(&small.as_str());
        follows && !joins && (among(OPENINGS, &small) || among(SECOND, &small))
    })
}
