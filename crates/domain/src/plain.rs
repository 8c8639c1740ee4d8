//! Escaping of text that agents or models wrote, for pages.

use std::fmt::Write;

/// Escapes text for one line of markdown, in a table too, without any markup that would act.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '!' | '~' => {
                out.push('\\');
                out.push(c);
            }
            // As entities: not every reader of markdown accepts a backslash here.
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() || is_hidden(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Quotes text as a YAML scalar that may stand in an HTML comment: on one line, without `--`.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '-' if out.ends_with('-') => {
                out.pop();
                out.push_str("\\x2d\\x2d");
            }
            // Characters that YAML does not allow, or that a reader would not see.
            c if c.is_control() || is_hidden(c) || matches!(c, '\u{FFFE}' | '\u{FFFF}') => {
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// True if the character is invisible, or reorders other characters.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn links_are_escaped_to_plain_text() {
        assert_eq!(plain("[x](javascript:alert)"), r"\[x\](javascript:alert)");
        assert_eq!(plain("<javascript:alert>"), "&lt;javascript:alert&gt;");
    }
}
