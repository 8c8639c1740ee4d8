//! Strict reader of plain command lines: words and quotes, joined by `|`, `;`, `&&` and the like. Refuses
//! substitutions, lists in braces that begin a word or belong to an option, and writes to files. `*`, `$NAME` and other
//! braces stay as written, though a shell may make several words of them; of an expanded `$NAME` the sign becomes
//! [`EXPANDS`], unless the value is that of a known place, such as `$HOME`. The grammar behind the rest of this folder
//! guesses where it does not understand; this reader must not.

/// Sign of an expansion in a word of [`parse_plain_line`]: its value is not known, and may be options or several words.
pub const EXPANDS: char = '\u{fffc}';

/// Variables whose values are places, names or numbers.
const KNOWN: [&str; 12] =
    ["HOME", "HOSTNAME", "LINENO", "LOGNAME", "OLDPWD", "PWD", "RANDOM", "SECONDS", "SHELL", "TMPDIR", "USER", "?"];

/// Returns the sign that stands for a `$`, before the rest of the line.
fn sign(rest: &std::iter::Peekable<std::str::Chars<'_>>) -> char {
    let rest: String = rest.clone().take(16).collect();
    let expands = rest.starts_with(|c: char| c.is_ascii_alphanumeric() || "_@*#?!-$".contains(c));
    let is_known = KNOWN.iter().any(|name| {
        rest.strip_prefix(name).is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    });
    if expands && !is_known { EXPANDS } else { '$' }
}

/// Returns the commands of a plain line, each as its unquoted words, the program first; `None` for any other line.
/// Linear.
pub fn parse_plain_line(line: &str) -> Option<Vec<Vec<String>>> {
    let mut found = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut chars = line.trim().chars().peekable();
    while let Some(c) = chars.next() {
        let add = |word: &mut Option<String>, c: char| word.get_or_insert_default().push(c);
        match c {
            '\'' => {
                word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => add(&mut word, c),
                    }
                }
            }
            '"' => {
                word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '`' => return None,
                        '$' if chars.peek().is_some_and(|next| "({[".contains(*next)) => return None,
                        '$' => {
                            let sign = sign(&chars);
                            add(&mut word, sign);
                        }
                        '\\' => {
                            let next = chars.next()?;
                            if !"\"\\$`".contains(next) {
                                add(&mut word, '\\');
                            }
                            add(&mut word, next);
                        }
                        c => add(&mut word, c),
                    }
                }
            }
            '\\' => add(&mut word, chars.next().filter(|next| *next != '\n' && *next != '\r')?),
            '$' if chars.peek().is_some_and(|next| "({['\"".contains(*next)) => return None,
            '$' => {
                let sign = sign(&chars);
                add(&mut word, sign);
            }
            // A list in braces becomes several words, and any of them may be an option.
            '{' if chars.peek() != Some(&'}') && word.as_ref().is_none_or(|word| word.starts_with('-')) => return None,
            '<' if word.is_none() && chars.peek().is_some_and(|next| !"<&(>".contains(*next)) => {}
            '>' => {
                // `2>`: the number is no word.
                if word.as_ref().is_some_and(|word| word != "1" && word != "2") {
                    return None;
                }
                word = None;
                discarded(&mut chars)?;
            }
            '`' | '(' | ')' | '<' => return None,
            '&' if chars.peek() == Some(&'>') => {
                chars.next();
                end(&mut found, &mut word);
                discarded(&mut chars)?;
            }
            ';' | '|' | '&' | '\n' | '\r' => {
                end(&mut found, &mut word);
                found.push(Vec::new());
            }
            c if c.is_whitespace() => end(&mut found, &mut word),
            c => add(&mut word, c),
        }
    }
    end(&mut found, &mut word);
    found.retain(|words| !words.is_empty());
    Some(found)
}

fn end(found: &mut [Vec<String>], word: &mut Option<String>) {
    if let (Some(last), Some(word)) = (found.last_mut(), word.take()) {
        last.push(word);
    }
}

/// Reads the target of a redirected output after `>`. Returns `None` unless it is `/dev/null` or another descriptor.
fn discarded(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<()> {
    let mut target = String::new();
    while let Some(c) = chars.next_if(|c| !c.is_whitespace() && !";|)".contains(*c)) {
        target.push(c);
        if target.len() > 16 {
            return None;
        }
    }
    if target.is_empty() {
        while chars.next_if(|c| *c == ' ').is_some() {}
        while let Some(c) = chars.next_if(|c| !c.is_whitespace() && !";|&)".contains(*c)) {
            target.push(c);
            if target.len() > 16 {
                return None;
            }
        }
    }
    ["/dev/null", "&1", "&2", ">/dev/null"].contains(&target.as_str()).then_some(())
}
