//! Check for outputs that break off. In: an event; only its output and its stop reason are read. Out: at most one hit.
//! The check knows the endings of prose, lists, tables, code, JSON and Markdown, and ignores short answers, which need
//! no full stop. Phrases about being cut off are rows of `rules/truncation.toml`.

mod code;
mod prose;

use memchr::memmem;

use umbra_analysis::code::{Content, content};
use umbra_domain::{CheckName, Event, FieldName, Hit, OutputForm, Severity};

/// Bytes at the end that a hit covers.
const TAIL: usize = 80;

/// Returns a hit if the output breaks off.
pub(super) fn hit(event: &Event) -> Option<Hit> {
    let output = event.output.as_deref()?;
    let text = output.trim_end();
    let (rule, description) = match event.stop_reason.as_deref() {
        Some(reason) if is_limit(reason) => ("stopped_at_limit", "The model stopped at its token limit."),
        _ => broken_off(text, event.output_form())?,
    };
    let end = text.len();
    let span = text.ceil_char_boundary(end.saturating_sub(TAIL))..end;
    let field = FieldName::fixed("output");
    Some(Hit::new(CheckName::Truncation, rule, Severity::Warning, field, span, description))
}

/// True for stop reasons of a token limit, in the providers' names.
fn is_limit(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    ["length", "max_tokens", "max_output_tokens", "token_limit", "model_length", "max_length"]
        .contains(&reason.as_str())
        || reason == "model_context_window_exceeded"
}

/// Bytes at a text's end that are read; larger constructs are found by their fence or as JSON.
const END: usize = 8 * 1024;
/// Lines from the end by which code is told from prose.
const SAMPLE: usize = 60;

/// True if a fenced block is open at the end (`CommonMark` 4.5). Models nest blocks in fences of the same length, so a
/// fence with a language always opens, and a bare one closes the innermost possible block.
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

/// True if the text ends within a tag: `<Card title="x"`.
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

/// Returns the break of a text that breaks off.
fn broken_off(text: &str, form: OutputForm) -> Option<Break> {
    let start = text.trim_start();
    if start.starts_with(['{', '[']) {
        match serde_json::from_str::<serde::de::IgnoredAny>(start) {
            Ok(_) => return None,
            Err(error) if error.is_eof() => {
                return Some(("cut_json", "The output is JSON that ends before it is complete."));
            }
            Err(_) => {}
        }
    }
    if has_open_fence(text) {
        return Some(("unclosed_fence", "The output ends inside an unclosed code block."));
    }
    if text.contains("<!--")
        && text.rfind("<!--").is_some_and(|open| !text.get(open..).unwrap_or_default().contains("-->"))
    {
        return Some(("cut_comment", "The output ends inside an unclosed comment."));
    }
    let last = text.lines().next_back()?.trim();
    if last.starts_with("```") || last.starts_with("~~~") || is_short_answer(text) {
        return None;
    }
    // All other breaks show near the end.
    let text = text.get(text.ceil_char_boundary(text.len().saturating_sub(END))..)?;
    if form != OutputForm::Text
        && memmem::find(text.as_bytes(), b"```").is_none()
        && let Content::Code(language) = content(text)
    {
        return code::broken_program(text, last, language);
    }
    if has_open_tag(text) {
        return Some(("cut_tag", "The output ends inside an unclosed tag."));
    }
    if code::breaks_off(text, last) {
        return Some(code::OPEN);
    }
    if code::is(text) { code::broken(text, last) } else { prose::broken(text, last) }
}

/// True for a word, a number, a name, a title: texts that cannot be half of something.
fn is_short_answer(text: &str) -> bool {
    if text.len() >= 90 {
        return false;
    }
    let markup = text.starts_with('<') && text.contains("</");
    let words = text.split_whitespace().count();
    let announces = text.ends_with(':') && text.starts_with(char::is_uppercase) && words > 3;
    let short = words < 9 && !text.contains('\n') && !text.contains(". ") && !text.contains('。');
    let marked = text.matches("**").count() % 2 == 1 && text.contains(" **") || text.matches('`').count() % 2 == 1;
    short && !markup && !announces && !marked && !prose::dangles(text)
}
