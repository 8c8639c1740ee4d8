//! Judges expressions and programs that are to be evaluated, in any language. In: a text. Out: true if it consists of
//! operands between operators, assigns nothing, and calls only functions that are known to compute. A command such as
//! `rm x` is two operands without an operator, and so is a statement such as `del x`. Linear.

use super::{
    functions::is_known,
    lists::{LISTS, among},
    name::acts,
};

/// Longest expression that is judged, in bytes.
const MOST: usize = 16 * 1024;
/// Operators, the longest first; then operators that assign.
const SIGNS: [&str; 22] = [
    "===", "!==", "&&", "||", "??", "==", "!=", "<=", ">=", "=>", "**", "//", "::", "<>", "->", "+", "-", "*", "/",
    "%", "<", ">",
];
const ASSIGNING: [&str; 20] = [
    ">>>=", "<<=", ">>=", "**=", "&&=", "||=", "??=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", ":=", "<-", "=~",
    "++", "--",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'t> {
    Word(&'t str),
    Number,
    Text,
    Sign(&'t str),
}

/// An open bracket.
struct Open {
    /// True if an operator that is a word precedes it: `by (`.
    behind_word: bool,
    /// True if labels are matched in it: `up{job="x"}`.
    matches: bool,
}

/// True if a text is an expression that only computes or reads.
pub(super) fn reads(text: &str) -> bool {
    let text = text.trim().trim_end_matches(';');
    if text.len() > MOST || text.contains(['`', '\\', '#']) || text.contains("__") {
        return false;
    }
    // `location.replace('x')` loads another page, and is called like `replace` of a text.
    let small = text.to_ascii_lowercase();
    if small.contains("replace") && ["location", "['", "[\""].iter().any(|place| small.contains(place)) {
        return false;
    }
    pieces(text).is_some_and(|pieces| fits(&pieces))
}

fn fits(pieces: &[(Piece<'_>, bool)]) -> bool {
    let mut open: Vec<Open> = Vec::new();
    let mut closed_word = false;
    let piece = |at: Option<usize>| at.and_then(|at| pieces.get(at)).map(|(piece, _)| *piece);
    for (at, (own, glued)) in pieces.iter().enumerate() {
        let before = piece(at.checked_sub(1));
        let after = piece(Some(at + 1));
        let follows = before.is_some_and(is_operand);
        let of_word = matches!(before, Some(Piece::Word(word)) if is_operator(word));
        let fits = match *own {
            Piece::Word(word) if is_operator(word) => true,
            Piece::Word(word) => {
                let key = after == Some(Piece::Sign(":")) && !matches!(before, Some(Piece::Sign("?")));
                let called = after == Some(Piece::Sign("("));
                let own = before == Some(Piece::Sign(".")) || before == Some(Piece::Sign("?."));
                let small = word.to_ascii_lowercase();
                let reaches =
                    among(&LISTS.code.beyond, &small) || word == "Function" || acts(word) && !known(&small, own);
                let may_follow = !follows || of_word || before == Some(Piece::Number);
                may_follow && (key || !reaches) && (!called || known(&small, own))
            }
            Piece::Number | Piece::Text => {
                !follows || of_word || before == Some(Piece::Number) && *own == Piece::Number
            }
            Piece::Sign("(" | "[") => {
                // `) (` stands behind `by (x)`; any other call behind a bracket has no name.
                let unnamed = matches!(before, Some(Piece::Sign(")" | "]" | "}") | Piece::Text | Piece::Number));
                let called = *own == Piece::Sign("(") && unnamed;
                open.push(Open { behind_word: of_word, matches: false });
                !called || closed_word
            }
            Piece::Sign("{") => {
                let matches = *glued && matches!(before, Some(Piece::Word(_)));
                let fits = !follows || matches || closed_word;
                open.push(Open { behind_word: false, matches });
                fits
            }
            Piece::Sign(")" | "]" | "}") => {
                let Some(last) = open.pop() else { return false };
                closed_word = last.behind_word;
                continue;
            }
            Piece::Sign("=" | "=~" | "!~") => {
                open.last().is_some_and(|last| last.matches) && after == Some(Piece::Text)
            }
            Piece::Sign(";") => after == Some(Piece::Sign("}")),
            Piece::Sign(sign) => !ASSIGNING.contains(&sign),
        };
        if !fits {
            return false;
        }
        closed_word = false;
    }
    open.is_empty()
}

/// True if a function is known to be read-only. As a method of an object (`own`), it may not be one that changes the
/// object.
fn known(small: &str, own: bool) -> bool {
    let looks = among(&LISTS.code.looking, small) || is_known(small) && !(own && among(&LISTS.code.of_others, small));
    looks && !among("fetch exec set", small)
}

fn is_operator(word: &str) -> bool {
    // `Function` turns a text into a program.
    word != "Function" && among(&LISTS.code.operators, &word.to_ascii_lowercase())
}

fn is_operand(piece: Piece<'_>) -> bool {
    match piece {
        Piece::Word(word) => !is_operator(word),
        Piece::Number | Piece::Text | Piece::Sign(")" | "]" | "}") => true,
        Piece::Sign(_) => false,
    }
}

/// Splits a text into pieces, each with true if no blank precedes it; `None` if a string has no end.
fn pieces(text: &str) -> Option<Vec<(Piece<'_>, bool)>> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut glued = false;
    while let Some(c) = rest.chars().next() {
        let (piece, length) = if c == '"' || c == '\'' {
            (Piece::Text, rest.get(1..)?.find(c)? + 2)
        } else if c.is_alphanumeric() || matches!(c, '_' | '$') {
            let inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
            let decimal = c.is_ascii_digit();
            let end = rest.find(|c: char| !(inner(c) || decimal && c == '.')).unwrap_or(rest.len());
            (if decimal { Piece::Number } else { Piece::Word(rest.get(..end)?) }, end)
        } else if c.is_whitespace() {
            rest = rest.get(c.len_utf8()..)?;
            glued = false;
            continue;
        } else {
            let own = |sign: &&str| rest.starts_with(*sign);
            let sign = SIGNS.iter().take(2).find(|sign| own(sign));
            let sign = sign
                .or_else(|| ASSIGNING.iter().find(|sign| own(sign)))
                .or_else(|| SIGNS.iter().find(|sign| own(sign)));
            let length = sign
                .map_or(if rest.starts_with("!~") || rest.starts_with("?.") { 2 } else { c.len_utf8() }, |sign| {
                    sign.len()
                });
            (Piece::Sign(rest.get(..length)?), length)
        };
        found.push((piece, glued));
        glued = true;
        rest = rest.get(length..)?;
    }
    Some(found)
}
