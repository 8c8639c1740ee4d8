//! Endings of code. In: the end of a text, and its last line. Out: whether it is code, and the break, if it breaks off.

use memchr::memmem;

use super::{Break, END, SAMPLE};
use umbra_analysis::code::{Content, Language, content, is_open};

pub(super) const OPEN: Break = ("cut_code", "The code ends in the middle of a statement or block.");

/// True if most lines outside of fences look like code.
pub(super) fn is(text: &str) -> bool {
    if memmem::find(text.as_bytes(), b"```").is_some() || text.contains("](") || text.contains("\n## ") {
        return false;
    }
    let (mut lines, mut coded) = (0, 0);
    for line in text.lines().rev().filter(|line| !line.trim().is_empty()).take(SAMPLE) {
        lines += 1;
        coded += usize::from(looks_coded(line));
    }
    lines >= 3 && coded * 2 > lines
}

fn looks_coded(line: &str) -> bool {
    const STARTS: [&str; 34] = [
        "import ", "from ", "def ", "class ", "return", "if ", "for ", "while ", "fn ", "func ", "let ", "const ",
        "var ", "use ", "pub ", "package ", "#include", "//", "/*", "*/", "} ", "async ", "await ", "export ", "type ",
        "struct ", "impl ", "try:", "except", "else", "@", "raise ", "with ", "self.",
    ];
    let trimmed = line.trim();
    line.starts_with("    ") && !trimmed.starts_with(['-', '*'])
        || line.starts_with('\t')
        || trimmed.ends_with(['{', '}', ';', '(', ')', ',', ']']) && !trimmed.ends_with(".)")
        || STARTS.iter().any(|start| trimmed.starts_with(start))
        || assigns(trimmed)
}

/// True for a line with ` = `, `:=` or `=>`.
pub(super) fn assigns(line: &str) -> bool {
    let bytes = line.as_bytes();
    let at = |place: Option<usize>| place.and_then(|place| bytes.get(place)).copied().unwrap_or_default();
    line.match_indices('=').any(|(place, _)| {
        let (before, after) = (at(place.checked_sub(1)), at(Some(place + 1)));
        before == b':' || after == b'>' || before == b' ' && after == b' '
    })
}

/// Returns the break of code that breaks off.
pub(super) fn broken(text: &str, last: &str) -> Option<Break> {
    let single = last.split_whitespace().count() == 1;
    let keyword = ["pass", "break", "continue", "return", "end", "else:", "done", "fi", "esac"].contains(&last);
    let word = single && !keyword && last.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
    let comment = (last.starts_with("//") || last.starts_with("# "))
        && last.ends_with(|c: char| c.is_alphanumeric())
        && text.trim_end().ends_with(last);
    let asks = last.ends_with(',') && !last.starts_with("//") && !last.starts_with('#');
    (word || asks || comment || goes_on(text, last) || opens_more(text)).then_some(OPEN)
}

/// Returns the break of a text that is known to be a program. Its last line may be a word, a comment or an element of a
/// list, so only unclosed constructs count.
pub(super) fn broken_program(text: &str, last: &str, language: Option<Language>) -> Option<Break> {
    let open = match language {
        Some(Language::Shell) => last.ends_with(['|', '\\']) || last.ends_with("&&"),
        Some(language) => goes_on(text, last) || lacks_body(last, language),
        None => goes_on(text, last) || cuts_mapping(text, last),
    };
    (open || is_open(text, language)).then_some(OPEN)
}

/// True if a text breaks off by the grammar of the language that its lines show.
pub(super) fn breaks_off(text: &str, last: &str) -> bool {
    if cuts_mapping(text, last) {
        return true;
    }
    (text.starts_with("#!") || is(text))
        && match content(text) {
            Content::Code(Some(language)) => lacks_body(last, language) || is_open(text, Some(language)),
            _ => false,
        }
}

/// True for the head of a block or function whose body, or the sign before it, is missing.
fn lacks_body(last: &str, language: Language) -> bool {
    let (heads, signs): (&[&str], &[char]) = match language {
        Language::Python => {
            (&["for ", "while ", "if ", "elif ", "with ", "def ", "class ", "async def "], &[':', '\\'])
        }
        Language::Go => (&["func "], &['{']),
        Language::Rust => (&["fn ", "pub fn "], &['{', ';', '}']),
        Language::JavaScript => (&["function ", "export function ", "async function "], &['{', ';']),
        _ => return false,
    };
    heads.iter().any(|head| last.starts_with(head)) && !last.contains(signs)
}

/// True if a text of `key: value` lines (YAML) ends with a word that is neither a key nor a value: outside of texts of
/// several lines, a line has a colon or begins an item, and items are alike.
fn cuts_mapping(text: &str, last: &str) -> bool {
    let lines = || text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    let is_pair = |line: &str| {
        line.split_once(':').is_some_and(|(key, rest)| {
            !key.trim_start_matches([' ', '-']).contains(' ') && (rest.is_empty() || rest.starts_with(' '))
        })
    };
    let pairs = lines().filter(|line| is_pair(line)).count();
    let begins_text = |line: &str| line.ends_with(['|', '>']) || line.ends_with("|-") || line.ends_with(">-");
    let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    let plain = |line: &str| line.trim_start().strip_prefix("- ").is_some_and(|item| !item.contains(':'));
    pairs * 4 > lines().count() * 3
        && !lines().any(begins_text)
        && match last.strip_prefix("- ") {
            Some(item) => is_word(item) && lines().filter(|line| plain(line)).count() == 1,
            None => is_word(last),
        }
}

/// True if the last line needs a continuation: an operator, a declaration or the head of a block without the rest, a
/// text in three quotes.
fn goes_on(text: &str, last: &str) -> bool {
    let declares = ["var ", "let ", "const ", "from ", "def ", "class ", "func ", "fn ", "async ", "export ", "await "]
        .iter()
        .any(|start| last.starts_with(start))
        && !last.contains(['=', '(', '{', ';', ':'])
        && !last.contains(" import ");
    // In Python the head of a block ends with a colon, like the heads before it.
    let head =
        ["for ", "while ", "if ", "elif ", "with ", "def ", "class "].iter().any(|start| last.starts_with(start))
            && !last.contains([':', '(', '{', ';'])
            && text.lines().filter(|line| line.ends_with(':')).count() > 1;
    let operator = last.ends_with(['=', '+', '-', '&', '|', '\\', '(', '[', '{', '<', '?', ':'])
        || last.ends_with('.') && !ends_sentence(last);
    let operator =
        operator && !last.starts_with("//") && !last.starts_with('#') && !last.ends_with("++") && !last.ends_with("--");
    let quoted = text.matches("\"\"\"").count() % 2 == 1 && text.len() < END;
    declares || head || operator || quoted
}

/// True if a line ends with three words, as a sentence in a value does.
fn ends_sentence(line: &str) -> bool {
    let is_word = |word: &str| word.trim_end_matches(['.', ',']).bytes().all(|byte| byte.is_ascii_alphabetic());
    line.split(' ').rev().take(3).filter(|word| is_word(word)).count() == 3
}

/// True if more brackets are opened than closed, outside of strings and comments.
fn opens_more(text: &str) -> bool {
    let mut depth = 0_i32;
    for line in text.lines() {
        let mut quote = None;
        let mut previous = ' ';
        // `://` begins no comment.
        let mut addressed = false;
        let paired = line.matches('\'').count() % 2 == 0;
        for c in line.chars() {
            match (quote, c) {
                (Some(open), c) if c == open && previous != '\\' => quote = None,
                (None, '"' | '`') => quote = Some(c),
                // An apostrophe opens a string only if it is not within a word.
                (None, '\'') if !previous.is_alphanumeric() && paired => quote = Some(c),
                (None, '#') if previous == ' ' || previous == '\t' => break,
                (None, '/') if previous == '/' && !addressed => break,
                (None, '(' | '[' | '{') => depth += 1,
                // A text that begins in the middle closes brackets that it never opened.
                (None, ')' | ']' | '}') => depth = (depth - 1).max(0),
                _ => {}
            }
            addressed = c == '/' && (previous == ':' || addressed && previous == '/');
            previous = if previous == '\\' && c == '\\' { ' ' } else { c };
        }
    }
    depth > 0
}
