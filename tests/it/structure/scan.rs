//! Splits Rust text into code, literals and comments without parsing it, and finds the paths that the code names. The
//! results keep the lines of the text.

/// True if a character may be part of a name.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns Rust's text twice: with comments and literals blanked, and with all but the literals blanked.
pub fn split(text: &str) -> (String, String) {
    let chars: Vec<char> = text.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let (mut code, mut literals) = (String::new(), String::new());
    let mut index = 0;
    while index < chars.len() {
        let hashes = chars[index + 1..].iter().take_while(|c| **c == '#').count();
        let starts_word = index == 0 || !is_word(at(index - 1)) || matches!(at(index - 1), 'b' | 'c');
        let (length, is_literal) = match (at(index), at(index + 1)) {
            ('/', '/') => (chars[index..].iter().take_while(|c| **c != '\n').count(), false),
            ('/', '*') => (block_comment(&chars[index..]), false),
            ('"', _) => (quoted(&chars[index..], '"'), true),
            ('r', '"' | '#') if starts_word && at(index + 1 + hashes) == '"' => (raw(&chars[index..], hashes), true),
            ('\'', '\\') => (quoted(&chars[index..], '\''), true),
            ('\'', _) if at(index + 2) == '\'' => (3, true),
            _ => (0, false),
        };
        let end = (index + length.max(1)).min(chars.len());
        for c in &chars[index..end] {
            let blank = if *c == '\n' { '\n' } else { ' ' };
            code.push(if length == 0 { *c } else { blank });
            literals.push(if is_literal { *c } else { blank });
        }
        index = end;
    }
    (code, literals)
}

/// Returns the length of a block comment, nested ones included.
fn block_comment(chars: &[char]) -> usize {
    let (mut open, mut index) = (0_usize, 0);
    while index < chars.len() {
        match chars[index..] {
            ['/', '*', ..] => (open, index) = (open + 1, index + 2),
            ['*', '/', ..] if open == 1 => return index + 2,
            ['*', '/', ..] => (open, index) = (open - 1, index + 2),
            _ => index += 1,
        }
    }
    index
}

/// Returns the length of a literal that ends at the first mark without a backslash.
fn quoted(chars: &[char], mark: char) -> usize {
    let mut index = 1;
    while index < chars.len() && chars[index] != mark {
        index += if chars[index] == '\\' { 2 } else { 1 };
    }
    index + 1
}

/// Returns the length of a raw string literal.
fn raw(chars: &[char], hashes: usize) -> usize {
    let body = hashes + 2;
    let ends = |index: &usize| {
        chars[*index] == '"' && chars[index + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    (body..chars.len()).find(ends).map_or(chars.len(), |index| index + 1 + hashes)
}

/// Returns every path in code with its line; `use a::{b, c::d}` gives `a::b` and `a::c::d`.
pub fn paths(code: &str) -> Vec<(usize, Vec<String>)> {
    let mut tokens: Vec<(usize, String)> = Vec::new();
    for (line, number) in code.lines().zip(1..) {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let word = rest.chars().take_while(|c| is_word(*c)).map(char::len_utf8).sum();
            let length = if word > 0 {
                word
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            let (token, after) = rest.split_at(length);
            rest = after;
            let opens_a_path =
                token == "::" && tokens.last().is_none_or(|(_, last)| last == "use" || !last.starts_with(is_word));
            if !token.trim().is_empty() && !opens_a_path {
                tokens.push((number, token.to_owned()));
            }
        }
    }
    let mut found = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        index = path_from(&tokens, index, &[], &mut found);
    }
    found
}

/// Reads one path, or skips a token that begins none. A lone word is a path only after `use`.
fn path_from(
    tokens: &[(usize, String)],
    start: usize,
    prefix: &[String],
    found: &mut Vec<(usize, Vec<String>)>,
) -> usize {
    let token = |index: usize| tokens.get(index).map_or("", |(_, text)| text.as_str());
    let mut path = prefix.to_vec();
    let mut index = start;
    while token(index).starts_with(is_word) {
        path.push(token(index).to_owned());
        index += 1;
        if token(index) != "::" {
            break;
        }
        index += 1;
        if token(index) == "{" {
            index += 1;
            while !matches!(token(index), "}" | "") {
                index = path_from(tokens, index, &path, found);
            }
            return index + 1;
        }
    }
    let is_used = start > 0 && token(start - 1) == "use";
    if index > start && (path.len() > 1 || is_used) {
        found.push((tokens.get(start).map_or(0, |(line, _)| *line), path));
    }
    index.max(start + 1)
}
