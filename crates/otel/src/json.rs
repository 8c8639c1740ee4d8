//! JSON within attributes, which limits of exporters cut.

use std::{borrow::Cow, iter::Peekable, str::Chars};

use serde_json::Value;

/// Deepest nesting that is read.
const DEPTH: usize = 64;
/// Longest sign of a cut, in bytes.
const SIGN_OF_CUT: usize = 60;

/// Reads an object or a list. One whose end is missing is closed where it was cut; what stands unfinished there, a name
/// without a value, is left out. Returns `None` for any other text.
pub(crate) fn lenient(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    if depth(text) > DEPTH {
        return None;
    }
    let whole = with_whole_characters(text);
    let text = &*whole;
    let read = |text: &str| serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&closed(text)?).ok());
    let is_python = ["{'", "[{'", "['", "[("].iter().any(|opening| text.starts_with(opening));
    if is_python {
        return from_python(text).filter(|text| depth(text) <= DEPTH).and_then(|text| read(&text));
    }
    read(text).or_else(|| read(without_sign_of_cut(text)?))
}

/// Replaces escapes that are half of a character: senders in JavaScript cut a text between its two halves.
pub(crate) fn with_whole_characters(json: &str) -> Cow<'_, str> {
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut halves = Vec::new();
    let mut at = 0;
    while let Some(next) = json.get(at..).and_then(|rest| rest.find('\\')) {
        at += next;
        at += match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                halves.push(at);
                6
            }
            // A backslash before a character of several bytes is no JSON.
            _ => 1 + json.get(at + 1..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8),
        };
    }
    if halves.is_empty() {
        return Cow::Borrowed(json);
    }
    let mut whole = json.to_owned();
    for at in halves {
        whole.replace_range(at..at + 6, "\\ufffd");
    }
    Cow::Owned(whole)
}

/// Returns a text without the sign that a sender put where the rest was cut: `...[TRUNCATED: original length 9]`.
fn without_sign_of_cut(text: &str) -> Option<&str> {
    let start = text.rfind("...").or_else(|| text.rfind('…'))?;
    (text.len() - start < SIGN_OF_CUT).then(|| text.get(..start)).flatten()
}

/// Returns Python's notation of an object or a list as JSON.
fn from_python(text: &str) -> Option<String> {
    let mut json = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => json.push_str(&python_string(c, &mut chars)?),
            '(' => json.push('['),
            ')' | ']' | '}' => {
                // `(1,)`
                json.truncate(json.trim_end_matches([',', ' ']).len());
                json.push(if c == '}' { c } else { ']' });
            }
            'A'..='Z' | 'a'..='z' => {
                let mut word = String::from(c);
                while let Some(c) = chars.next_if(char::is_ascii_alphabetic) {
                    word.push(c);
                }
                json.push_str(match &*word {
                    "None" => "null",
                    "True" => "true",
                    "False" => "false",
                    "e" => "e",
                    _ => return None,
                });
            }
            _ => json.push(c),
        }
    }
    Some(json)
}

/// Returns a string of Python as one of JSON. One that was cut has no end.
fn python_string(quote: char, chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut text = String::new();
    let mut is_open = true;
    while let Some(c) = chars.next() {
        match c {
            _ if c == quote => {
                is_open = false;
                break;
            }
            '\\' => {
                let Some(escape) = chars.next() else { break };
                let digits = match escape {
                    'x' => 2,
                    'u' => 4,
                    'U' => 8,
                    _ => 0,
                };
                let code: String = chars.by_ref().take(digits).collect();
                text.push(match escape {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'x' | 'u' | 'U' => {
                        let code = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                        code.unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                    other => other,
                });
            }
            c => text.push(c),
        }
    }
    let mut json = serde_json::to_string(&text).ok()?;
    if is_open {
        json.pop();
    }
    Some(json)
}

/// Returns the deepest nesting, strings aside.
fn depth(text: &str) -> usize {
    let (mut deepest, mut now, mut in_string, mut escaped) = (0_usize, 0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                now += 1;
                deepest = deepest.max(now);
            }
            b'}' | b']' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Closes a text that was cut. A string that was cut keeps its beginning if it is a value.
fn closed(text: &str) -> Option<String> {
    // For each open bracket, the end of the last complete item in it.
    let mut open: Vec<(char, usize)> = Vec::new();
    let (mut in_string, mut escaped, mut is_value, mut escape_at) = (false, false, true, 0);
    for (at, c) in text.char_indices() {
        if in_string {
            match c {
                _ if escaped => escaped = false,
                '\\' => {
                    escaped = true;
                    escape_at = at;
                }
                '"' => {
                    in_string = false;
                    if is_value && let Some((_, complete)) = open.last_mut() {
                        *complete = at + 1;
                    }
                }
                _ => {}
            }
            continue;
        }
        match c {
            '"' => in_string = true,
            '{' | '[' => {
                is_value = c == '[';
                open.push((if c == '{' { '}' } else { ']' }, at + 1));
            }
            '}' | ']' => {
                open.pop();
                if let Some((closing, complete)) = open.last_mut() {
                    *complete = at + 1;
                    is_value = *closing == ']';
                }
            }
            ':' => is_value = true,
            ',' => {
                if let Some((closing, complete)) = open.last_mut() {
                    *complete = at;
                    is_value = *closing == ']';
                }
            }
            _ => {}
        }
    }
    let (_, complete) = *open.last()?;
    let mut whole = if in_string && is_value {
        // `\u00` has no end yet: an escape near the cut goes.
        let near = text.len().saturating_sub(escape_at) < 6 && text.get(escape_at..)?.starts_with('\\');
        let end = if near { escape_at } else { text.len() };
        format!("{}\"", text.get(..end)?)
    } else {
        text.get(..complete)?.to_owned()
    };
    whole.extend(open.iter().rev().map(|(closing, _)| *closing));
    Some(whole)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::lenient;

    #[test]
    fn a_text_that_was_cut_is_read_as_far_as_it_goes() {
        for (text, value) in [
            (r#"{"a": [1, {"b": "c"}]}"#, json!({"a": [1, {"b": "c"}]})),
            (
                r#"[{"role":"user","parts":[{"content":"do th"#,
                json!([{"role": "user", "parts": [{"content": "do th"}]}]),
            ),
            (r#"[{"role":"user","par"#, json!([{"role": "user"}])),
            (r#"[{"role":"user","content":"#, json!([{"role": "user"}])),
            (r#"[{"role":"user"},"#, json!([{"role": "user"}])),
            (r#"{"a":"b\u00"#, json!({"a": "b"})),
            (r#"{"a":"b\"#, json!({"a": "b"})),
            (r#"{"a":"\ud83d\ude00\ud83d"}"#, json!({"a": "😀\u{fffd}"})),
            (r#"{"a":"\\ud83d\ude00é"}"#, json!({"a": "\\ud83d\u{fffd}é"})),
            (r#"{"a":"b\ud83d"#, json!({"a": "b\u{fffd}"})),
            (r#"{"a":{"b":12"#, json!({"a": {}})),
            (r#"[{"a":"b"},...[TRUNCATED: original length 99]"#, json!([{"a": "b"}])),
            (r#"[{"a":"b"},{"c":...[TRUNCATED: original length 99]"#, json!([{"a": "b"}, {}])),
            (r"{'a': 'it\'s', 'b': (1, None), 'c': True}", json!({"a": "it's", "b": [1, null], "c": true})),
            ("{'a': \"it's\", 'b': (1,), 'c': '\\u00e9", json!({"a": "it's", "b": [1], "c": "é"})),
        ] {
            assert_eq!(lenient(text), Some(value), "{text}");
        }
        for text in ["", "text", "\"text\"", "12", &"[".repeat(1_000), "{'a': Message(role=<Role.USER>)}"] {
            assert_eq!(lenient(text), None, "{text}");
        }
    }
}
