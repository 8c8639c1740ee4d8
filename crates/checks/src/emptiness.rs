//! Check for outputs without content: empty, courtesies alone, or a refusal; and for placeholders in an output or in a
//! tool's arguments. In: an event. Out: hits. A long answer that also declines something is no refusal.

use std::{ops::Range, sync::LazyLock};

use super::{literal_scanner::LiteralScanner, refusals::declines};
use crate::word_lists;
use umbra_domain::{CheckName, Event, FieldName, Hit, Severity};

/// Longest refusal, in bytes; a longer text says something else as well.
const LONGEST_REFUSAL: usize = 700;
/// Most placeholders that are reported one by one.
const MOST_PLACEHOLDERS: usize = 5;

/// Returns hits for a worthless output, and for parts that are left out.
pub(super) fn hits(event: &Event) -> Vec<Hit> {
    let mut hits = Vec::new();
    if let Some(output) = event.output.as_deref()
        && let Some((rule, description)) = judge(output)
    {
        let end = output.floor_char_boundary(output.len().min(200));
        let field = FieldName::fixed("output");
        hits.push(Hit::new(CheckName::Emptiness, rule, Severity::Warning, field, 0..end, description));
    }
    event.for_each_text(|field, text| {
        if field.as_str() == "output" || field.is_tool_argument() {
            placeholders(text, |rule, severity, at, description| {
                hits.push(Hit::new(CheckName::Emptiness, rule, severity, field.clone(), at, description));
            });
        }
    });
    hits
}

fn judge(output: &str) -> Option<(&'static str, &'static str)> {
    let text = output.trim();
    if text.is_empty() {
        return Some(("empty_output", "The output is empty."));
    }
    if text.len() > LONGEST_REFUSAL {
        return None;
    }
    if ["null", "undefined", "nan", "[object object]", "(null)"].contains(&text.to_ascii_lowercase().as_str()) {
        return Some(("content_free", "The output is only a placeholder for a missing value, such as `null`."));
    }
    // A list without items and a dash for nothing are answers.
    if matches!(text, "[]" | "{}" | "-" | "–" | "—") {
        return None;
    }
    if !text.chars().any(char::is_alphanumeric) && !text.chars().any(|c| c as u32 > 0x2190) {
        return Some(("content_free", "The output consists only of punctuation."));
    }
    let plain = text.replace('’', "'");
    let bare = plain.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    if word_lists::lines("master_keys").any(|key| key == bare) && !(bare == "sure" || bare == "okay")
        || matches!(text.to_lowercase().as_str(), "sure:" | "okay:")
    {
        return Some(("content_free", "The output is an opening phrase with nothing after it."));
    }
    if is_courtesy(&plain) {
        return Some(("content_free", "The output consists only of courtesies."));
    }
    declines(&plain).then_some(("refused", "The output declines the task."))
}

/// True if every sentence could stand in any answer, and at least one offers or hopes something.
fn is_courtesy(text: &str) -> bool {
    const FILLERS: [&str; 7] = ["sure", "certainly", "of course", "absolutely", "okay", "thanks", "thank you"];
    let mut offers = false;
    let mut sentences = text.split(['.', '!', '?', '\n']).map(str::trim).filter(|sentence| !sentence.is_empty());
    let all = sentences.all(|sentence| {
        let lower = sentence.to_lowercase();
        let offer = word_lists::lines("offers").any(|offer| lower.starts_with(offer)) && !lower.contains([':', ';']);
        offers |= offer;
        offer || FILLERS.contains(&lower.trim_end_matches(','))
    });
    all && offers
}

/// Calls `visit` for each text that stands in place of content.
fn placeholders(text: &str, mut visit: impl FnMut(&'static str, Severity, Range<usize>, &'static str)) {
    static SIGNS: LazyLock<LiteralScanner> = LazyLock::new(|| {
        LiteralScanner::new([
            "lorem ipsum dolor",
            "...",
            "…",
            "[insert ",
            "[your ",
            "todo: ",
            "todo ",
            "your code here",
            "implementation goes here",
        ])
    });
    let (mut seen, mut past) = (0, 0);
    SIGNS.find(text, |sign, at| {
        if at.start < past {
            return true;
        }
        let from = text.ceil_char_boundary(at.start.saturating_sub(LONGEST_LINE));
        let to = text.floor_char_boundary((at.end + LONGEST_LINE).min(text.len()));
        let before = text.get(from..at.start).unwrap_or_default();
        let behind = text.get(at.end..to).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(from, |end| from + end + 1);
        let line_end = behind.find('\n').map_or(to, |end| at.end + end);
        let line = text.get(line_start..line_end).filter(|line| line.len() <= LONGEST_LINE).unwrap_or_default();
        let found = match sign {
            0 => Some(("placeholder", Severity::Warning, at.clone(), "Filler text replaces the content.")),
            1 | 2 if is_elision(line) => {
                let what = "A comment replaces code that is left out.";
                Some(("left_out", Severity::Warning, line_start..line_end, what))
            }
            3 | 4 => bracket(text, at.start)
                .map(|span| ("placeholder", Severity::Info, span, "A placeholder is not filled in.")),
            5 | 6 if is_comment(line) && plans(line) => {
                Some(("to_do", Severity::Info, line_start..line_end, "A comment marks an unfinished part."))
            }
            7 | 8 if is_comment(line) => {
                let what = "A comment replaces code that is left out.";
                Some(("left_out", Severity::Warning, line_start..line_end, what))
            }
            _ => None,
        };
        if let Some((rule, severity, span, description)) = found {
            past = span.end;
            visit(rule, severity, span, description);
            seen += 1;
        }
        seen < MOST_PLACEHOLDERS
    });
}

/// Longest line that is one comment, in bytes.
const LONGEST_LINE: usize = 300;

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    ["//", "#", "--", "/*", "*", "<!--", "{/*", ";", "%", "\"\"\""].iter().any(|mark| line.starts_with(mark))
}

/// True for comments such as `// ... rest of the code unchanged`, `# ... existing code ...`,
/// `(... remaining methods stay the same ...)`.
fn is_elision(line: &str) -> bool {
    const LEFT: [&str; 8] =
        ["rest of", "existing", "remaining", "previous", "same as", "unchanged", "other ", "omitted"];
    let bare = line.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '.' && c != '…' && c != '#' && c != '/');
    let lower = line.to_lowercase();
    (is_comment(line) || bare.starts_with("...") || bare.starts_with('…'))
        && lower.len() <= 120
        && LEFT.iter().any(|word| lower.contains(word))
        && word_lists::lines("elided_things").any(|word| lower.contains(word))
}

fn plans(line: &str) -> bool {
    let lower = line.to_lowercase();
    ["implement", "fill", "add ", "complete", "replace", "handle", "finish", "write"]
        .iter()
        .any(|verb| lower.contains(verb))
}

/// Returns the range of a bracketed placeholder that is no link: `[Insert date]`, `[Your name]`.
fn bracket(text: &str, start: usize) -> Option<Range<usize>> {
    let rest = text.get(start..)?;
    let end = rest.char_indices().take(48).find(|(_, c)| matches!(c, ']' | '\n'))?;
    let after = rest.get(end.0 + 1..).unwrap_or_default();
    (end.1 == ']' && !after.starts_with(['(', '[', ':'])).then(|| start..start + end.0 + 1)
}
