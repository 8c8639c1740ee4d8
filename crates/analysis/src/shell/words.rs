//! Evaluation of shell words. In: a word's node. Out: the text that a shell would make of it, without running anything:
//! quotes, backslashes, braces, and variables whose value the script itself sets.

use std::ops::Range;

use tree_sitter::Node;

use super::{
    parse::{DEEPEST, Word},
    reader::Reader,
};

/// Separator where a shell would split a word after expansion.
pub(super) const SPLIT: char = '\u{1f}';

/// Most words that one word may expand to.
const MOST_WORDS: usize = 64;

/// Longest replacement in `${NAME/FROM/TO}`, in bytes.
const LONGEST_REPLACEMENT: usize = 64;

/// Most bytes that the variables of one script may expand to.
const MOST_EXPANDED: usize = 256 * 1024;

impl Reader<'_> {
    /// Returns the words of a node: several for braces, or an unquoted variable that holds several; none if it is
    /// empty.
    pub(super) fn words(&mut self, node: Node<'_>, depth: usize) -> Vec<Word> {
        let word = self.word(node, depth);
        if word.text.contains(SPLIT) {
            let parts = word.text.split(SPLIT).filter(|part| !part.is_empty()).take(MOST_WORDS);
            let mut parts: Vec<Word> = parts.map(Word::plain).collect();
            if let Some(first) = parts.first_mut() {
                first.runs.clone_from(&word.runs);
            }
            return parts;
        }
        let vanishes = word.text.is_empty() && word.raw.starts_with('$') && word.runs.is_empty();
        if vanishes {
            return Vec::new();
        }
        let mut whole = Vec::new();
        if word.raw.contains('{') && !word.raw.contains(['"', '\'', '$', '\\']) {
            braces(&word.raw, &mut whole);
        }
        if whole.len() > 1 { whole.iter().map(|text| Word::plain(text)).collect() } else { vec![word] }
    }

    pub(super) fn word(&mut self, node: Node<'_>, depth: usize) -> Word {
        let mut word = Word { raw: self.source(node).to_owned(), ..Word::default() };
        self.evaluate(node, &mut word, depth, false);
        word
    }

    fn evaluate(&mut self, node: Node<'_>, word: &mut Word, depth: usize, quoted: bool) {
        if depth > DEEPEST {
            self.parsed.deep = true;
            return;
        }
        match node.kind() {
            "raw_string" => {
                let source = self.source(node);
                word.text.push_str(source.strip_prefix('\'').unwrap_or(source).trim_end_matches('\''));
            }
            "ansi_c_string" => {
                word.text.push_str(&unescape(self.source(node).trim_start_matches('$').trim_matches('\'')));
            }
            "command_substitution" | "process_substitution" => {
                let (output, programs) = self.substitution(node, depth);
                if let Some(output) = output.filter(|_| node.kind() == "command_substitution") {
                    self.insert(output.trim_end_matches('\n'), word, quoted);
                }
                word.runs.extend(programs);
            }
            "expansion" | "simple_expansion" => {
                // The grammar attributes a blank before a quoted variable to the variable.
                let bare = self.source(node).trim_start();
                word.text.push_str(self.source(node).strip_suffix(bare).unwrap_or_default());
                match expand(bare, |name| self.value(name)) {
                    Some(value) => self.insert(&value, word, quoted),
                    // A variable that is not set leaves nothing in `r${x}m`.
                    None if self.naming => {}
                    None => word.text.extend(bare.chars().filter(|c| !matches!(c, '{' | '}'))),
                }
                self.inside(node, depth);
            }
            "string" | "translated_string" | "concatenation" | "command_name" => {
                let (before, made_of_parts) = (self.naming, node.child(0).is_some_and(|c| c.kind() == "concatenation"));
                self.naming |= node.kind() == "command_name" && made_of_parts;
                self.parts(node, word, depth, quoted || node.kind().ends_with("string"));
                self.naming = before;
            }
            "string_content" => self.literal(node.byte_range(), word, true),
            _ => self.literal(node.byte_range(), word, quoted),
        }
    }

    /// Evaluates the children of a node; the source between them is text too.
    fn parts(&mut self, node: Node<'_>, word: &mut Word, depth: usize, quoted: bool) {
        let mut cursor = node.walk();
        let mut at = node.start_byte();
        for child in node.children(&mut cursor) {
            self.literal(at..child.start_byte(), word, quoted);
            if child.is_named() {
                self.evaluate(child, word, depth + 1, quoted);
            } else if child.kind() == "\"" {
                // The grammar attributes a blank before the closing quote to the quote.
                self.literal(child.start_byte()..child.end_byte() - 1, word, quoted);
            } else if child.kind() != "$" {
                self.literal(child.byte_range(), word, quoted);
            }
            at = child.end_byte();
        }
        self.literal(at..node.end_byte(), word, quoted);
    }

    /// Returns the value of a variable, where the script or every shell sets it.
    fn value(&self, name: &str) -> Option<String> {
        if let Some(value) = self.variables.get(name) {
            return Some(value.clone());
        }
        match name {
            "IFS" => Some(" ".to_owned()),
            "SHELL" | "BASH" | "0" => Some("sh".to_owned()),
            _ => None,
        }
    }

    /// Appends the value of an expansion. Unquoted, the value is split at blanks and at the script's separators.
    fn insert(&mut self, value: &str, word: &mut Word, quoted: bool) {
        self.spent += value.len();
        if self.spent > MOST_EXPANDED {
            self.parsed.deep = true;
            return;
        }
        if quoted {
            word.text.push_str(value);
        } else {
            let separators = self.variables.get("IFS").map_or("", String::as_str);
            let parted = |c: char| if c.is_whitespace() || separators.contains(c) { SPLIT } else { c };
            word.text.extend(value.chars().map(parted));
        }
    }

    /// Appends source text with its backslashes resolved.
    fn literal(&self, range: Range<usize>, word: &mut Word, quoted: bool) {
        let mut rest = self.script.get(range).unwrap_or_default();
        while let Some(at) = rest.find('\\') {
            let (before, escape) = rest.split_at(at);
            word.text.push_str(before);
            let next = escape.chars().nth(1);
            let escapes = next.filter(|next| !quoted || matches!(next, '"' | '\\' | '$' | '`' | '\n'));
            match escapes {
                Some('\n') => {}
                Some(next) => word.text.push(next),
                None => word.text.push('\\'),
            }
            rest = escape.get(1 + escapes.map_or(0, char::len_utf8)..).unwrap_or_default();
        }
        word.text.push_str(rest);
    }
}

/// Expands `$NAME` or `${NAME…}`, with the forms of `…` that scripts use to assemble text.
fn expand(source: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let inner = source.strip_prefix('$')?;
    let inner = inner.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(inner);
    let inner = inner.trim_start_matches('!');
    let length = inner.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count().max(1);
    let (name, form) = inner.split_at_checked(length)?;
    let known = value(if name == "*" { "@" } else { name });
    // Variables that every login sets take no default.
    let set = matches!(name, "HOME" | "TMPDIR" | "PATH" | "PWD" | "USER");
    let cut = |text: &str| text.trim_matches(['"', '\'']).to_owned();
    match form.as_bytes() {
        [] | [b'[', ..] => known,
        [b':', b'-' | b'=', ..] if set => known.or_else(|| Some(format!("${name}"))),
        [b':', b'-' | b'=', ..] => known.filter(|value| !value.is_empty()).or_else(|| form.get(2..).map(cut)),
        [b'-' | b'=', ..] if !set => known.or_else(|| form.get(1..).map(cut)),
        [b':', b'+', ..] => form.get(2..).filter(|_| set || known.is_some()).map(cut),
        [b':', digit, ..] if digit.is_ascii_digit() || *digit == b' ' => {
            // The values of these variables always begin with a slash.
            let value = known.or_else(|| matches!(name, "HOME" | "PATH" | "PWD").then(|| "/".to_owned()))?;
            let mut numbers = form.get(1..)?.split(':').map(|number| number.trim().parse::<usize>());
            let from = numbers.next()?.ok()?;
            let take = numbers.next().unwrap_or(Ok(usize::MAX)).ok()?;
            Some(value.chars().skip(from).take(take).collect())
        }
        [b'/', ..] => {
            let all = form.starts_with("//");
            let (from, to) = form.trim_start_matches('/').split_once('/').unwrap_or((form.trim_start_matches('/'), ""));
            let known = known.filter(|_| !from.is_empty() && to.len() <= LONGEST_REPLACEMENT)?;
            Some(if all { known.replace(from, to) } else { known.replacen(from, to, 1) })
        }
        // `${NAME:?}` and cut-off pieces of a login's variables stand for the variable.
        [b':', b'?', ..] | [b'?', ..] => known.or_else(|| set.then(|| format!("${name}"))),
        [b'%' | b'#', ..] => {
            let piece = form.trim_start_matches(['%', '#']);
            let cut = |value: String| match form.as_bytes() {
                [b'%', ..] => value.strip_suffix(piece).map_or(value.clone(), str::to_owned),
                _ => value.strip_prefix(piece).map_or(value.clone(), str::to_owned),
            };
            known.map(cut).or_else(|| set.then(|| format!("${name}")))
        }
        [b',', ..] => known.map(|value| value.to_lowercase()),
        [b'^', ..] => known.map(|value| value.to_uppercase()),
        _ => None,
    }
}

/// Expands braces: the words that `a{b,c}d` stands for. The text itself where it has no braces, or a sequence such as
/// `{1..9}`.
fn braces(text: &str, words: &mut Vec<String>) {
    let mut waiting = vec![text.to_owned()];
    while let Some(text) = waiting.pop() {
        let list = text.match_indices('{').find_map(|(open, _)| {
            let rest = text.get(open + 1..)?;
            let length = rest.find(['}', '{'])?;
            let list = rest.get(..length)?;
            (rest.as_bytes().get(length) == Some(&b'}') && list.contains(',')).then_some((open, length))
        });
        let Some((open, length)) = list.filter(|_| waiting.len() + words.len() < MOST_WORDS) else {
            words.push(text);
            continue;
        };
        let (before, rest) = text.split_at(open);
        let after = rest.get(length + 2..).unwrap_or_default();
        let parts = rest.get(1..=length).unwrap_or_default().split(',').take(MOST_WORDS);
        let whole: Vec<String> = parts.map(|part| format!("{before}{part}{after}")).collect();
        waiting.extend(whole.into_iter().rev());
    }
}

/// Resolves the escapes of `$'…'`, `echo -e` and `printf`: `\n`, `\xHH`, `\NNN`, `\uHHHH` and single characters.
pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let escape = escape.get(1..).unwrap_or_default();
        let Some(sign) = escape.chars().next() else { break };
        let after = escape.get(sign.len_utf8()..).unwrap_or_default();
        let (digits, radix, from) = match sign {
            'x' => (2, 16, after),
            'u' => (4, 16, after),
            'U' => (8, 16, after),
            '0' => (3, 8, after),
            '1'..='7' => (3, 8, escape),
            _ => (0, 10, after),
        };
        let count = from.chars().take(digits).take_while(|c| c.is_digit(radix)).count();
        let (number, left) = from.split_at_checked(count).unwrap_or(("", from));
        match sign {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'a' | 'e' | 'E' | 'b' | 'f' | 'v' | 'c' => {}
            _ if digits > 0 => out.extend(u32::from_str_radix(number, radix).ok().and_then(char::from_u32)),
            other => out.push(other),
        }
        rest = left;
    }
    out.push_str(rest);
    out
}
