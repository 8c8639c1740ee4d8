//! Says whether an output breaks off. In: an event; of its texts only the output, and the stop reason. Out: at most one
//! hit. It knows what an ending looks like in prose, lists, tables, code, JSON and Markdown, and keeps silent on
//! short answers, which need no full stop.

use std::ops::Range;

use memchr::memmem;

use crate::domain::{CheckName, Event, FieldName, Hit, Severity};

/// How much of the end a hit covers, in bytes.
const TAIL: usize = 80;

/// The output's hit, if it breaks off.
pub(super) fn hit(event: &Event) -> Option<Hit> {
    let output = event.output.as_deref()?;
    let text = output.trim_end();
    let (rule, description) = match event.stop_reason.as_deref() {
        Some(reason) if is_limit(reason) => {
            ("stopped_at_limit", "The model stopped because it reached its limit of tokens.")
        }
        _ => broken_off(text)?,
    };
    let end = text.len();
    let span: Range<usize> = text.ceil_char_boundary(end.saturating_sub(TAIL))..end;
    Some(Hit {
        check: CheckName::Truncation,
        rule: rule.to_owned(),
        severity: Severity::Warning,
        field: FieldName::fixed("output"),
        start: span.start,
        end: span.end,
        description: description.to_owned(),
    })
}

/// Stop reasons of a limit, as providers name them.
fn is_limit(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    ["length", "max_tokens", "max_output_tokens", "token_limit", "model_length", "max_length"]
        .contains(&reason.as_str())
        || reason == "model_context_window_exceeded"
}

/// How much of a text's end is looked at, in bytes; what encloses more is found by its fence or as JSON.
const END: usize = 8 * 1024;
/// Lines from the end by which code is told from prose.
const SAMPLE: usize = 60;

/// Whether a fenced block is open at the end (`CommonMark` 4.5). Models nest blocks in blocks of the same length, so a fence
/// with a language always opens, and a bare one closes the innermost that it can.
fn has_open_fence(text: &str) -> bool {
    let holds = |mark: &str| memmem::find(text.as_bytes(), mark.as_bytes()).is_some();
    if !holds("```") && !holds("~~~") {
        return false;
    }
    let mut open: Vec<(char, usize)> = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches([' ', '\t', '>']);
        let Some(mark) = line.chars().next().filter(|c| matches!(c, '`' | '~')) else { continue };
        let length = line.chars().take_while(|c| *c == mark).count();
        let rest = line.get(length..).unwrap_or_default().trim();
        if length < 3 || mark == '`' && rest.contains('`') {
            continue;
        }
        match open.last() {
            Some((inner, least)) if rest.is_empty() => {
                if *inner == mark && length >= *least {
                    open.pop();
                }
            }
            Some((inner, least)) if *inner != mark || length < *least => {}
            _ => open.push((mark, length)),
        }
    }
    !open.is_empty()
}

/// Whether the text ends within a tag: `<Card title="x"`.
fn has_open_tag(text: &str) -> bool {
    text.rfind('<').is_some_and(|at| {
        let tag = text.get(at + 1..).unwrap_or_default();
        let name = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).count();
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let attribute = tag.contains("=\"") || tag.contains("='") || tag.starts_with('/');
        name > 0
            && !tag.contains('>')
            && attribute
            && before.is_none_or(|c| c.is_whitespace() || matches!(c, '>' | '}' | '('))
    })
}

type Break = (&'static str, &'static str);

/// How the text breaks off, if it does.
fn broken_off(text: &str) -> Option<Break> {
    let start = text.trim_start();
    if start.starts_with(['{', '[']) {
        match serde_json::from_str::<serde::de::IgnoredAny>(start) {
            Ok(_) => return None,
            Err(error) if error.is_eof() => {
                return Some(("cut_json", "The output begins as JSON and ends before it is complete."));
            }
            Err(_) => {}
        }
    }
    if has_open_fence(text) {
        return Some(("unclosed_fence", "A fenced block is opened and not closed."));
    }
    if text.contains("<!--")
        && text.rfind("<!--").is_some_and(|open| !text.get(open..).unwrap_or_default().contains("-->"))
    {
        return Some(("cut_comment", "A comment is opened and not closed."));
    }
    let last = text.lines().next_back()?.trim();
    if let Some(cut) = cut_line(text, last) {
        return Some(cut);
    }
    if last.starts_with("```") || last.starts_with("~~~") || is_short_answer(text) {
        return None;
    }
    // Everything else shows near the end.
    let text = text.get(text.ceil_char_boundary(text.len().saturating_sub(END))..)?;
    if has_open_tag(text) {
        return Some(("cut_tag", "A tag is opened at the end and not closed."));
    }
    if is_code(text) { code(text, last) } else { prose(text, last) }
}

/// What a last line alone shows: a cut that is announced, an address, a string or an element that stays open, an item
/// that is but its mark.
fn cut_line(text: &str, last: &str) -> Option<Break> {
    if announces_cut(last) {
        return Some(("announced_cut", "The output says itself that a part of it is left out."));
    }
    if last.rfind("](http").is_some_and(|open| !last.get(open..).unwrap_or_default().contains([')', ' '])) {
        return Some(("cut_link", "The address of a link is opened at the end and not closed."));
    }
    let bare = last.trim_end_matches(['.', ')']);
    let numbered =
        !bare.is_empty() && bare.len() < 4 && bare.len() < last.len() && bare.bytes().all(|b| b.is_ascii_digit());
    if (numbered || matches!(last, "-" | "*" | "•")) && list_items(text).len() > 1 {
        return Some(("cut_list", "The last item of a list has no text."));
    }
    let declares = ["const ", "let ", "var "].iter().any(|start| last.starts_with(start)) && assigns(last);
    if declares && last.matches('"').count() % 2 == 1 && !last.contains(['\'', '`', '/']) {
        return Some(MID_CODE);
    }
    (text.starts_with('<') && has_open_element(last))
        .then_some(("cut_tag", "An element is opened at the end and not closed."))
}

/// `[truncated]`, `(output truncated)`, `1203 more lines omitted`.
fn announces_cut(last: &str) -> bool {
    let tail = last.get(last.ceil_char_boundary(last.len().saturating_sub(TAIL))..).unwrap_or_default();
    let tail = tail.to_ascii_lowercase();
    let bracketed = tail.ends_with("truncated]") || tail.ends_with("truncated)") || tail.ends_with("truncated...]");
    let counted = ["omitted", "not shown", "truncated"].iter().any(|end| tail.trim_end_matches('.').ends_with(end))
        && tail.split_once(" more ").is_some_and(|(count, _)| count.ends_with(|c: char| c.is_ascii_digit()));
    bracketed || counted
}

/// Whether a line of markup ends in the text of an element that it opened.
fn has_open_element(last: &str) -> bool {
    let Some((tags, text)) = last.rsplit_once('>') else { return false };
    let tag = tags.rsplit('<').next().unwrap_or_default();
    text.ends_with(char::is_alphanumeric)
        && tag.starts_with(|c: char| c.is_ascii_alphabetic())
        && !tag.ends_with('/')
        && !["br", "hr", "img", "input"].iter().any(|void| tag.starts_with(void))
        && last.contains("</")
}

/// A word, a number, a name, a title: nothing that could be half of something.
fn is_short_answer(text: &str) -> bool {
    !text.contains('\n')
        && text.len() < 90
        && text.split_whitespace().count() < 9
        && !text.contains(". ")
        && !text.contains('。')
        && !dangles(text)
}

const MID_SENTENCE: Break = ("cut_sentence", "The output ends in the middle of a sentence or a word.");
const MID_CODE: Break = ("cut_code", "The code ends with something still open.");

/// Whether the last word asks for another.
fn dangles(text: &str) -> bool {
    const CONNECTIVES: &[&str] = &[
        "a",
        "an",
        "the",
        "and",
        "or",
        "but",
        "of",
        "to",
        "for",
        "with",
        "from",
        "as",
        "is",
        "are",
        "was",
        "were",
        "be",
        "that",
        "which",
        "who",
        "because",
        "if",
        "when",
        "while",
        "than",
        "into",
        "between",
        "your",
        "its",
        "our",
        "my",
        "their",
        "these",
        "like",
        "including",
        "via",
        "per",
        "can",
        "will",
        "should",
        "may",
        "must",
        "through",
        "whose",
        "und",
        "der",
        "für",
        "mit",
        "des",
        "les",
        "et",
        "una",
        "della",
    ];
    let last = text.rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
    CONNECTIVES.contains(&last.to_ascii_lowercase().as_str())
        || text.ends_with([',', '(', '[', '{', '=', '+', '&', '\\', '–'])
        || [" >", " <", " ||", " *", "应该", "以及", "因为", "或者", "并且", "如果"]
            .iter()
            .any(|open| text.ends_with(open))
}

/// Whether most lines read as code outside of fences.
fn is_code(text: &str) -> bool {
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

/// ` = `, `:=` or `=>`.
fn assigns(line: &str) -> bool {
    let bytes = line.as_bytes();
    let at = |place: Option<usize>| place.and_then(|place| bytes.get(place)).copied().unwrap_or_default();
    line.match_indices('=').any(|(place, _)| {
        let (before, after) = (at(place.checked_sub(1)), at(Some(place + 1)));
        before == b':' || after == b'>' || before == b' ' && after == b' '
    })
}

fn code(text: &str, last: &str) -> Option<Break> {
    let single = last.split_whitespace().count() == 1;
    let keyword = ["pass", "break", "continue", "return", "end", "else:", "done", "fi", "esac"].contains(&last);
    let word = single && !keyword && last.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
    let declares = ["var ", "let ", "const ", "from ", "def ", "class ", "func ", "fn ", "async ", "export ", "await "]
        .iter()
        .any(|start| last.starts_with(start))
        && !last.contains(['=', '(', '{', ';', ':'])
        && !last.contains(" import ");
    let operator = last.ends_with(['=', '+', '-', ',', '.', '&', '|', '\\', '(', '[', '{', '<', '?', ':'])
        && !last.starts_with("//")
        && !last.starts_with('#')
        && !last.ends_with("++")
        && !last.ends_with("--");
    let comment = (last.starts_with("//") || last.starts_with("# "))
        && last.ends_with(|c: char| c.is_alphanumeric())
        && text.trim_end().ends_with(last);
    let quoted = text.matches("\"\"\"").count() % 2 == 1 && text.len() < END;
    (word || declares || operator || comment || quoted || opens_more(text)).then_some(MID_CODE)
}

/// Whether more brackets are opened than closed, strings and comments aside.
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
                // An apostrophe opens a string only where a word does not go on.
                (None, '\'') if !previous.is_alphanumeric() && paired => quote = Some(c),
                (None, '#') if previous == ' ' || previous == '\t' => break,
                (None, '/') if previous == '/' && !addressed => break,
                (None, '(' | '[' | '{') => depth += 1,
                // What begins in the middle closes what it never opened.
                (None, ')' | ']' | '}') => depth = (depth - 1).max(0),
                _ => {}
            }
            addressed = c == '/' && (previous == ':' || addressed && previous == '/');
            previous = if previous == '\\' && c == '\\' { ' ' } else { c };
        }
    }
    depth > 0
}

fn prose(text: &str, last: &str) -> Option<Break> {
    if last.starts_with('#') && text.lines().count() > 1 {
        return Some(("cut_section", "The output ends with a heading and nothing under it."));
    }
    if last.starts_with('|') {
        return (!last.ends_with('|')).then_some(("cut_table", "The last row of a table is not complete."));
    }
    let paragraph = text.rsplit("\n\n").next().unwrap_or(text);
    let before_last = paragraph.rmatch_indices('\n').nth(1).map_or(0, |(at, _)| at + 1);
    if unbalanced(paragraph.get(before_last..).unwrap_or(paragraph)) {
        return Some(("cut_bracket", "A bracket, quotation or emphasis is opened at the end and not closed."));
    }
    if last.ends_with([':', '：']) && last.split_whitespace().count() > 3 {
        return Some(("cut_announcement", "The output announces something and ends."));
    }
    let rule = last.len() > 2 && last.bytes().all(|b| matches!(b, b'+' | b'-' | b'=' | b'|'));
    if rule || [":(", ";(", ":-("].iter().any(|face| last.ends_with(face)) {
        return None;
    }
    if last.ends_with(" >") || last.ends_with(" <") || last.ends_with(" ||") {
        return Some(MID_SENTENCE);
    }
    if is_ending(last) {
        return None;
    }
    if dangles(last) {
        return Some(MID_SENTENCE);
    }
    let items = list_items(text);
    if is_item(last) && items.len() > 1 {
        let (_, others) = items.split_last()?;
        let unpunctuated = others.iter().filter(|item| !is_ending(item)).count();
        return (unpunctuated * 2 < others.len()).then_some(MID_SENTENCE);
    }
    if is_place(last) || is_signature(text, last) || is_record(text, last) || is_block(text) {
        return None;
    }
    // A key or a head that ends in a colon is no sentence.
    let sentences = text.lines().map(str::trim).filter(|line| is_sentence(line)).count();
    let words = last.split_whitespace().count() + last.chars().filter(|c| is_unspaced(*c)).count() / 2;
    // A report of one line needs no full stop.
    let lone =
        sentences == 0 && !last.contains(". ") && !text.contains('\n') && is_spaced(last) && words < LONGEST_REPORT;
    (sentences > 0 || words >= 9 && !lone).then_some(MID_SENTENCE)
}

/// Whether a line ends as prose does, and not as the rows and heads of layouts; prose has empty lines, too.
fn is_sentence(line: &str) -> bool {
    let head = line.ends_with(':') && (line.ends_with("):") || line.split_whitespace().count() < 4);
    is_ending(line) && !head && !line.ends_with(['|', '}', ';', ']', '>'])
}

/// Words of a report in one line.
const LONGEST_REPORT: usize = 14;

fn is_spaced(line: &str) -> bool {
    !line.chars().any(is_unspaced)
}

/// Whether a line ends as a sentence, a quotation, a link or a mark does.
fn is_ending(line: &str) -> bool {
    line.chars().next_back().is_none_or(|c| {
        !(c.is_alphanumeric()
            || matches!(c, ',' | '-' | '–' | '(' | '[' | '{' | '/' | '\\' | '=' | '&' | '@' | '+' | '$' | '#' | '<'))
            || line.ends_with("etc")
    })
}

/// Whether brackets, quotes, code marks or bold marks are open at the end of a paragraph.
fn unbalanced(paragraph: &str) -> bool {
    let (mut ticks, mut stars) = (0, 0);
    let [mut round, mut square, mut curly, mut quotes] = [0_i32; 4];
    let mut star = false;
    for c in paragraph.chars() {
        // Two stars are one mark, three are a mark and one of another kind.
        star = c == '*' && !star;
        match c {
            '*' if !star => stars += 1,
            '`' => ticks += 1,
            '(' => round += 1,
            ')' => round -= 1,
            '[' => square += 1,
            ']' => square -= 1,
            '{' => curly += 1,
            '}' => curly -= 1,
            '“' => quotes += 1,
            '”' => quotes -= 1,
            _ => {}
        }
    }
    ticks % 2 == 1
        || square > 0
        || curly > 0
        || quotes > 0
        || round > 0 && !is_bracketless(paragraph)
        || stars % 2 == 1 && ticks == 0
}

/// Whether round brackets need no partner here: in faces, and behind the numbers of a list.
fn is_bracketless(paragraph: &str) -> bool {
    let smiley = [":(", ";(", ":-("].iter().any(|face| paragraph.contains(face));
    let enumerated = paragraph.lines().any(|line| {
        line.trim_start()
            .split(')')
            .next()
            .is_some_and(|head| !head.is_empty() && head.len() < 4 && head.chars().all(char::is_alphanumeric))
    });
    smiley || enumerated
}

/// Letters of scripts that set no spaces between words: Chinese, Japanese, Thai; two of them are about a word.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.bytes().take_while(u8::is_ascii_digit).count();
    line.starts_with("- ")
        || line.starts_with("* ")
        || line.starts_with("+ ")
        || line.starts_with("• ")
        || number > 0 && line.get(number..).is_some_and(|rest| rest.starts_with(". ") || rest.starts_with(") "))
}

fn list_items(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| is_item(line)).collect()
}

/// Whether the last word is an address or a path, which ends without a mark.
fn is_place(last: &str) -> bool {
    let word = last.rsplit(char::is_whitespace).next().unwrap_or_default();
    let address = word.trim_start_matches(['<', '(', '[', '"', '\'', '*', '`']);
    let scheme = address.bytes().take_while(u8::is_ascii_alphanumeric).count();
    address.get(scheme..).is_some_and(|rest| rest.starts_with("://")) && word.len() > 14 && word.is_ascii()
        || word.starts_with('/') && word.len() > 4
        || word.contains('@') && word.contains('.')
}

/// A name under a letter.
fn is_signature(text: &str, last: &str) -> bool {
    let words = last.split_whitespace().count();
    let before = text.lines().rev().skip(1).map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let closing = CLOSINGS.iter().any(|closing| before.trim_end_matches(',').eq_ignore_ascii_case(closing));
    words <= 4 && (closing || before.ends_with(',') && before.split_whitespace().count() <= 4)
}

/// What letters close with.
const CLOSINGS: [&str; 12] = [
    "best regards",
    "kind regards",
    "regards",
    "best",
    "best wishes",
    "sincerely",
    "yours sincerely",
    "cheers",
    "thanks",
    "viele grüße",
    "mit freundlichen grüßen",
    "cordialement",
];

/// An indented block that a line announced: a command, or a piece of code.
fn is_block(text: &str) -> bool {
    let mut lines = text.lines().rev().filter(|line| !line.trim().is_empty());
    let block =
        lines.by_ref().take(SAMPLE).take_while(|line| line.starts_with("    ") || line.starts_with('\t')).count();
    let announced = text.lines().rev().filter(|line| !line.trim().is_empty()).nth(block);
    block > 0 && announced.is_some_and(|line| line.trim_end().ends_with(':'))
}

/// Lines of `name: value`, or short lines all alike, none of which ends with a mark.
fn is_record(text: &str, last: &str) -> bool {
    let pair = |line: &str| {
        line.split_once(": ")
            .or_else(|| line.split_once('：'))
            .is_some_and(|(name, _)| name.len() < 40 && !name.contains(". "))
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let unmarked = lines.iter().filter(|line| !is_ending(line)).count();
    lines.len() > 1
        && (pair(last) && lines.iter().filter(|line| pair(line)).count() * 2 > lines.len()
            || unmarked * 4 > lines.len() * 3 && last.split_whitespace().count() < 9)
}
