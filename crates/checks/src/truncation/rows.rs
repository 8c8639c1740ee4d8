//! How texts end that are made of rows and keys: comma-separated values, YAML, scripts of a shell, SQL, XML. In: the end of a
//! text, and its last line. Out: that it is such a text, and how it breaks off, if it does. Each is known by its first
//! lines, and only where all of them agree.

use super::Break;

const ROW: Break = ("cut_row", "The last row of a table is not complete.");
const KEY: Break = ("cut_key", "The document ends in the middle of an entry.");
const SCRIPT: Break = ("cut_code", "The script ends with something still open.");
const STATEMENT: Break = ("cut_statement", "The last statement is not complete.");
const TAG: Break = ("cut_tag", "An element is opened at the end and not closed.");

/// Lines from the end that are looked at.
const MOST: usize = 400;

/// How a text ends.
pub(super) enum Ending {
    Whole,
    Cut(Break),
}

/// How a text of rows or keys ends; `None` where it is none.
pub(super) fn ending(text: &str, last: &str) -> Option<Ending> {
    let ends = |cut: bool, how: Break| Some(if cut { Ending::Cut(how) } else { Ending::Whole });
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let lines = lines.get(lines.len().saturating_sub(MOST)..).unwrap_or_default();
    if lines.iter().any(|line| line.starts_with("```") || line.starts_with("#!") && lines.len() < 3) {
        return None;
    }
    if lines.first().is_some_and(|first| is_shell(first)) && lines.len() > 1 {
        return ends(script(lines, last), SCRIPT);
    }
    if is_values(lines) {
        return ends(values(lines), ROW);
    }
    if is_markup(text) {
        return ends(markup(text), TAG);
    }
    if is_sql(lines) {
        return ends(statement(text), STATEMENT);
    }
    if is_keys(lines) && key(lines) {
        return ends(true, KEY);
    }
    None
}

/// What parts the cells of a table's first line.
fn sign(first: &str) -> char {
    [',', ';', '\t'].into_iter().find(|sign| first.contains(*sign)).unwrap_or(',')
}

fn cells(line: &str, sign: char) -> usize {
    let mut quoted = false;
    1 + line
        .chars()
        .filter(|c| {
            quoted ^= *c == '"';
            *c == sign && !quoted
        })
        .count()
}

/// Rows of the same number of cells, three at least, none of which is a sentence or code.
fn is_values(lines: &[&str]) -> bool {
    let Some((_, whole)) = lines.split_last() else { return false };
    let sign = whole.first().map_or(',', |first| sign(first));
    let count = whole.first().map_or(0, |first| cells(first, sign));
    let plain = |line: &str| {
        !line.starts_with([' ', '\t', '-', '*', '{', '[', '(', '<', '|'])
            && !line.ends_with([',', ';', '{', '}', ')', '.'])
            && !line.contains(", ")
            && !line.contains(" = ")
    };
    whole.len() >= 3 && count >= 2 && whole.iter().all(|line| cells(line, sign) == count && plain(line))
}

/// The last row has fewer cells than the others, or its last cell is the beginning of what all others say there.
fn values(lines: &[&str]) -> bool {
    let Some((last, whole)) = lines.split_last() else { return false };
    let sign = whole.first().map_or(',', |first| sign(first));
    let count = whole.first().map_or(0, |first| cells(first, sign));
    if cells(last, sign) != count {
        return cells(last, sign) < count;
    }
    if sign != ',' && last.ends_with(sign) {
        return true;
    }
    let end = |line: &str| line.rsplit(sign).next().unwrap_or_default().to_owned();
    let (own, rows) = (end(last), whole.get(1..).unwrap_or_default());
    let same = rows.first().map(|first| end(first)).filter(|first| rows.iter().all(|row| end(row) == *first));
    same.is_some_and(|same| same.len() > own.len() && same.starts_with(&own) && rows.len() >= 2)
}

fn is_shell(first: &str) -> bool {
    let opens = ["if [", "for ", "while "].iter().any(|word| first.starts_with(word));
    opens && (first.ends_with("; then") || first.ends_with("; do"))
        || first.starts_with("#!")
            && ["sh", "bash", "zsh", "dash", "ksh"].iter().any(|shell| first.trim_end().ends_with(shell))
}

/// A quote or a block is open, or the last line asks for more.
fn script(lines: &[&str], last: &str) -> bool {
    let (mut depth, mut here) = (0_i32, false);
    let mut quote = None;
    for line in lines.iter().filter(|line| !line.starts_with("#!")) {
        let mut before = ' ';
        for c in line.chars() {
            match (quote, c) {
                (Some(open), c) if c == open && before != '\\' => quote = None,
                (None, '"' | '\'') if before != '\\' => quote = Some(c),
                (None, '#') if before == ' ' => break,
                _ => {}
            }
            before = c;
        }
        here |= line.contains("<<") && !line.contains("<<<");
        for word in line.split([' ', '\t', ';']).filter(|_| quote.is_none()) {
            depth += match word {
                "if" | "do" | "case" => 1,
                "fi" | "done" | "esac" => -1,
                _ => 0,
            };
        }
    }
    // What a here-document holds is no script.
    if here {
        return false;
    }
    let loops =
        last.starts_with("for ") || last.starts_with("while ") || last.starts_with("if ") || last.starts_with("until ");
    let opens =
        loops && !last.ends_with("do") && !last.ends_with("then") && !last.contains("; do") && !last.contains("; then");
    quote.is_some() || depth > 0 || opens || last.ends_with(['|', '\\']) || last.ends_with("&&")
}

/// Statements that end with a semicolon, the first of which begins as one.
fn is_sql(lines: &[&str]) -> bool {
    const VERBS: [&str; 8] =
        ["INSERT INTO ", "UPDATE ", "CREATE ", "ALTER ", "DELETE FROM ", "DROP ", "BEGIN", "GRANT "];
    let first = lines.iter().find(|line| !line.starts_with("--")).map_or("", |line| line.trim_start());
    VERBS.iter().any(|verb| first.get(..verb.len()).is_some_and(|head| head.eq_ignore_ascii_case(verb)))
        && lines.iter().any(|line| line.trim_end().ends_with(';'))
}

/// The last of several statements has no end, where all others have.
fn statement(text: &str) -> bool {
    let last = text.rsplit(';').next().unwrap_or_default();
    let said: Vec<&str> =
        last.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--")).collect();
    !said.is_empty()
}

/// A document of elements, whose first one is no page's: browsers close what a page leaves open.
fn is_markup(text: &str) -> bool {
    let start = text.trim_start();
    let name = start.get(1..).unwrap_or_default();
    start.starts_with('<')
        && (start.starts_with("<?xml") || name.starts_with(|c: char| c.is_ascii_alphabetic()))
        && text.contains("</")
}

/// The text ends within a name or a text of an element.
fn markup(text: &str) -> bool {
    match text.rfind(['<', '>']).map(|at| text.split_at(at)) {
        Some((_, rest)) if rest.starts_with('<') => true,
        Some((before, rest)) => {
            let tag = before.rsplit('<').next().unwrap_or_default();
            let words = rest.trim_start_matches('>').trim();
            let void =
                ["br", "hr", "img", "input", "meta", "link", "p", "li", "!"].iter().any(|name| tag.starts_with(name));
            !words.is_empty() && tag.starts_with(|c: char| c.is_ascii_alphabetic()) && !tag.ends_with('/') && !void
        }
        None => false,
    }
}

/// Keys with values or lines below, as in YAML.
fn is_keys(lines: &[&str]) -> bool {
    let Some((_, whole)) = lines.split_last() else { return false };
    let keyed = |line: &&&str| {
        let line = line.trim_start_matches([' ', '-']);
        line.split_once(':').is_some_and(|(name, value)| {
            !name.is_empty()
                && name.len() < 40
                && (value.is_empty() || value.starts_with(' '))
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./\"'".contains(&b))
        })
    };
    let nested = whole.iter().any(|line| line.starts_with("  ") && line.contains(':'));
    whole.len() >= 3 && nested && whole.iter().filter(keyed).count() * 4 >= whole.len() * 3
}

/// The last line is neither a key nor an item, or has a name that is cut where its neighbours say it whole.
fn key(lines: &[&str]) -> bool {
    let Some((last, whole)) = lines.split_last() else { return false };
    let depth = |line: &str| line.len() - line.trim_start().len();
    let bare = last.trim_start_matches([' ', '-']);
    let block = whole
        .iter()
        .rev()
        .find(|line| depth(line) < depth(last))
        .is_some_and(|line| line.trim_end().ends_with(['|', '>']));
    let words = bare.split_whitespace().count();
    let item = last.trim_start().starts_with("- ");
    // `- uses: act`: an action is OWNER/NAME.
    let cut = bare.strip_prefix("uses: ").is_some_and(|name| !name.contains('@') && !name.starts_with("./"));
    cut || !block
        && !item
        && !bare.contains(':')
        && words == 1
        && bare.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
