//! Judges GraphQL. In: a text. Out: whether it is a query, holds a mutation, or subscribes. Nothing is executed.

/// Most words `mutation` in a text that are judged. With more, anything may be there.
const MOST: usize = 1_000;

/// True if a text is a GraphQL query.
pub(super) fn is_graphql(text: &str) -> bool {
    let opens = |word: &str| {
        let rest = text.strip_prefix(word).map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || "{(@".contains(c)))
    };
    text.starts_with('{') || text.contains('{') && ["query", "fragment"].into_iter().any(opens)
}

/// True if a text subscribes: `subscription { x }`.
pub(super) fn subscribes(text: &str) -> bool {
    let ends = text.trim_end().ends_with('}');
    ends && text.match_indices("subscription").take(MOST).any(|(at, word)| {
        let before = text.get(text.ceil_char_boundary(at.saturating_sub(64))..at).unwrap_or_default().trim_end();
        let from = at + word.len();
        let rest = text.get(from..text.floor_char_boundary(from + 300)).unwrap_or_default();
        let head = rest.find(['{', '(', '@']).and_then(|end| rest.get(..end));
        let named = |head: &str| {
            let ended = head.is_empty() || head.starts_with(|c: char| c.is_whitespace() || c == '#');
            ended && head.split_whitespace().count() < 2
        };
        (before.is_empty() || before.ends_with('}')) && head.is_some_and(named)
    })
}

/// True if a text holds a GraphQL mutation: the word outside every brace and string, before a brace.
pub(super) fn is_mutation(text: &str) -> bool {
    if !text.contains("mutation") || !text.contains('{') {
        return false;
    }
    let (mut depth, mut comment, mut seen) = (0_usize, false, 0);
    let mut after = 0;
    for (at, c) in text.char_indices() {
        match c {
            '\n' => comment = false,
            _ if comment || at < after => {}
            '"' => after = at + string(text.get(at..).unwrap_or_default()),
            '#' => comment = true,
            '{' | '(' => depth += 1,
            '}' | ')' => depth = depth.saturating_sub(1),
            'm' if depth == 0 => {
                // Bounded: the word may occur often.
                let rest = text.get(at..text.floor_char_boundary(at + 300)).unwrap_or_default();
                let before = text.get(..at).and_then(|text| text.chars().next_back());
                let behind = rest.strip_prefix("mutation").map(|rest| rest.chars().next().unwrap_or(' '));
                let opens = before.is_none_or(|c| c.is_whitespace() || c == '}' || c == ',')
                    && behind.is_some_and(|c| c.is_whitespace() || matches!(c, '{' | '(' | '@' | '#'));
                // Prose has words between `mutation` and a brace: a mutation has a name there, and variables.
                let head = rest.find(['{', '(']).and_then(|end| rest.get(..end));
                seen += usize::from(opens);
                if seen > MOST || opens && head.is_some_and(|head| head.split_whitespace().count() < 4) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// Length of a GraphQL string with its quotes, in bytes.
fn string(text: &str) -> usize {
    let quotes = if text.starts_with("\"\"\"") { "\"\"\"" } else { "\"" };
    let mut from = quotes.len();
    while let Some(found) = text.get(from..).and_then(|rest| rest.find(['\\', '"'])) {
        let at = from + found;
        let rest = text.get(at..).unwrap_or_default();
        if rest.starts_with(quotes) {
            return at + quotes.len();
        }
        // An escaped character, or a single quote mark within three, does not end the string.
        from = at + rest.chars().take(if rest.starts_with('\\') { 2 } else { 1 }).map(char::len_utf8).sum::<usize>();
    }
    text.len()
}
