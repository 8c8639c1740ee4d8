//! What an output says itself about being cut off: markers of tools and people, a model's reason for stopping, and
//! promises of more than follows. In: a text and its last line. Out: whether it says that something is left out.

use super::{Break, is_limit, prose};

const ANNOUNCED: Break = ("announced_cut", "The output says itself that a part of it is left out.");
const LIMIT: Break = ("stopped_at_limit", "The model stopped because it reached its limit of tokens.");
const PROMISED: Break = ("cut_list", "The output announces more items than it has.");
const PARTS: Break = ("cut_parts", "The output is one of several parts, and not the last.");

/// How much of a line's end is looked at, in bytes.
const TAIL: usize = 160;

/// What a text says about its own end.
pub(super) fn cut(text: &str, last: &str) -> Option<Break> {
    let tail = last.get(last.ceil_char_boundary(last.len().saturating_sub(TAIL))..)?.to_lowercase();
    if is_marked(&tail) || is_counted(&tail) || is_told(&tail, text) {
        return Some(ANNOUNCED);
    }
    if is_part(text, last) {
        return Some(PARTS);
    }
    breaks_promise(text).then_some(PROMISED)
}

/// Words by which a marker says that something is missing, in some languages.
const MISSING: [&str; 27] = [
    "truncated",
    "truncation",
    "cut",
    "cut off",
    "snip",
    "snipped",
    "clipped",
    "omitted",
    "elided",
    "continued",
    "to be continued",
    "continues",
    "gekürzt",
    "abgeschnitten",
    "fortsetzung folgt",
    "tronqué",
    "suite",
    "à suivre",
    "truncado",
    "recortado",
    "sigue",
    "continúa",
    "continua",
    "troncato",
    "обрезано",
    "сокращено",
    "afgekapt",
];

/// The same in scripts without spaces.
const MISSING_UNSPACED: [&str; 7] = ["省略", "続く", "続き", "未完", "截断", "待续", "待續"];

/// `[…]`, `(cut)`, `<output truncated>`, `-- snip --`, `--More--`; or nothing but such words.
fn is_marked(tail: &str) -> bool {
    const ELLIPSES: [&str; 5] = ["[...]", "[…]", "(...)", "(…)", "<...>"];
    let tail = tail.trim_end_matches(['.', '…', ' ']);
    // `-- More -- (45%)`
    let pager = tail.starts_with("--") && tail.trim_matches(|c: char| !c.is_alphabetic()) == "more";
    if tail.is_empty() || pager {
        return true;
    }
    let closed = tail.chars().next_back();
    if ELLIPSES.iter().any(|mark| tail.ends_with(mark)) {
        return true;
    }
    let inner = match closed {
        Some(']') => tail.rsplit('[').next(),
        Some(')' | '）') => tail.rsplit(['(', '（']).next(),
        Some('>') => tail.rsplit('<').next(),
        Some('-' | '*' | '=') if tail.starts_with(['-', '*', '=', '#', '/']) => Some(tail),
        _ if tail.chars().count() < 28 => Some(tail),
        _ => None,
    };
    let Some(inner) = inner.filter(|inner| inner.len() < tail.len() || inner.chars().count() < 40) else {
        return false;
    };
    let bare = inner.trim_matches(|c: char| !c.is_alphabetic());
    let bracketed = inner.len() < tail.len();
    let says = |word: &str| {
        let rest = bare.strip_suffix(word).or_else(|| bare.strip_prefix(word).filter(|_| bracketed));
        // `output truncated`, `suite au prochain message`; of an unmarked line nothing but the words.
        rest.is_some_and(|rest| {
            rest.is_empty()
                || (bracketed || NOUNS.contains(&rest.trim())) && !rest.starts_with(char::is_alphabetic)
                || bracketed && rest.ends_with([' ', ':'])
        })
    };
    MISSING.iter().any(|word| says(word))
        || MISSING_UNSPACED.iter().any(|word| bare.contains(word) && bare.chars().count() < 12)
}

/// What is said to be truncated, in a line of its own.
const NOUNS: [&str; 9] = ["output", "text", "message", "log", "file", "response", "result", "content", "ausgabe"];

/// `... 1203 more lines`, `and 25 more`, `12 lines omitted`, `(12 lines hidden)`, `lines 1-23`.
fn is_counted(tail: &str) -> bool {
    let words: Vec<&str> = tail.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let number = |word: &&str| word.bytes().all(|b| b.is_ascii_digit());
    let at_end = words.get(words.len().saturating_sub(6)..).unwrap_or_default();
    let gone = at_end.iter().any(|word| ["omitted", "hidden", "truncated", "skipped", "skipping"].contains(word));
    let unit = at_end.iter().any(|word| ["lines", "characters", "chars", "bytes", "rows", "items"].contains(word));
    let counted = at_end.iter().any(number);
    let elided = tail.contains("...") || tail.contains('…') || tail.starts_with("and ") || tail.starts_with('(');
    let more = at_end.windows(2).any(|pair| matches!(pair, [count, "more"] if number(count)));
    let shown = tail.contains(" more ") && tail.trim_end_matches('.').ends_with("not shown");
    let pager = matches!(words.as_slice(), ["lines", from, to] if number(from) && number(to));
    counted && (unit && gone || more && elided || shown) || pager
}

/// What tools and models say in a sentence: the first half of each pair, and behind it the second.
const SAID: [(&str, &str); 20] = [
    ("only the first", " shown"),
    ("showing only the first", ""),
    ("showing first", " of "),
    ("output truncated", ""),
    ("file truncated", ""),
    ("log truncated", ""),
    ("cut off because", ""),
    ("transfer closed with", "remaining"),
    ("early eof", ""),
    ("unexpected eof", ""),
    ("unexpected end of json input", ""),
    ("unexpected end of file", ""),
    ("hit the", " length limit"),
    ("ran out of tokens", ""),
    ("out of tokens", "continue"),
    ("like me to continue", ""),
    ("continue with the remaining", ""),
    ("to save on context only part", ""),
    ("part follows", "message"),
    ("to be continued", ""),
];

fn is_told(tail: &str, text: &str) -> bool {
    let said = SAID.iter().any(|(first, then)| {
        tail.find(first).is_some_and(|at| tail.get(at + first.len()..).is_some_and(|rest| rest.contains(then)))
    });
    // `// ... rest of the code`: what a model writes instead of it.
    let lazy = tail.trim_start_matches(['/', '#', '-', '*', ' ', '<', '!']);
    let elided = lazy.starts_with("...") || lazy.starts_with('…') || lazy.ends_with("...") || lazy.ends_with('…');
    let rest = ["rest of the ", "existing code", "remains the same", "same as before", "other methods"];
    said || elided && lazy.len() < 80 && rest.iter().any(|words| lazy.contains(words)) && text.len() < 1 << 20
}

/// Whether a text is a provider's answer that says why it stopped: `"finish_reason": "length"`.
pub(super) fn limit(text: &str) -> Option<Break> {
    stopped(text).then_some(LIMIT)
}

/// An answer of a provider that says why it stopped.
fn stopped(text: &str) -> bool {
    memchr::memmem::find_iter(text.as_bytes(), b"eason\"").any(|at| {
        let name =
            text.get(text.floor_char_boundary(at.saturating_sub(8))..at).unwrap_or_default().to_ascii_lowercase();
        let value = text.get(at + 6..).unwrap_or_default().trim_start_matches([' ', ':', '"']);
        let value = value.split('"').next().unwrap_or_default();
        ["finishr", "finish_r", "stopr", "stop_r", "done_r"].iter().any(|end| name.ends_with(end)) && is_limit(value)
    })
}

/// `Part 1 of 2`, `Step 2/4` as the last of them, `(1/3)`.
fn is_part(text: &str, last: &str) -> bool {
    let line = text.lines().rev().take(12).find_map(|line| {
        let line = line.trim_start_matches(['#', '*', ' ', '[', '(']);
        let opens = ["Part ", "Step ", "part ", "step "].iter().find_map(|word| line.strip_prefix(word));
        let bare = text.starts_with('(') && text.starts_with(&format!("({line}"));
        opens.or_else(|| bare.then_some(line))
    });
    let Some(line) = line else { return false };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let first = digits(line);
    let rest = line.get(first..).unwrap_or_default();
    let Some(rest) = rest.strip_prefix('/').or_else(|| rest.strip_prefix(" of ")) else { return false };
    let number = |part: Option<&str>| part.and_then(|part| part.parse::<u32>().ok());
    let (at, all) = (number(line.get(..first)), number(rest.get(..digits(rest))));
    !last.is_empty() && at.zip(all).is_some_and(|(at, all)| at >= 1 && at < all && all <= 20)
}

/// Numbers as words, from two on: English, German, French, Spanish.
const NUMBERS: [[&str; 4]; 9] = [
    ["two", "zwei", "deux", "dos"],
    ["three", "drei", "trois", "tres"],
    ["four", "vier", "quatre", "cuatro"],
    ["five", "fünf", "cinq", "cinco"],
    ["six", "sechs", "six", "seis"],
    ["seven", "sieben", "sept", "siete"],
    ["eight", "acht", "huit", "ocho"],
    ["nine", "neun", "neuf", "nueve"],
    ["ten", "zehn", "dix", "diez"],
];

fn number(word: &str) -> Option<usize> {
    let lower = word.to_lowercase();
    let spelt = NUMBERS.iter().position(|words| words.contains(&lower.as_str())).map(|at| at + 2);
    spelt.or_else(|| word.parse().ok()).filter(|count| (2..=50).contains(count))
}

/// `There are five reasons:` before a list of three that ends the text.
fn breaks_promise(text: &str) -> bool {
    const LONGEST: usize = 4096;
    let text = text.get(text.ceil_char_boundary(text.len().saturating_sub(LONGEST))..).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let list = lines.iter().rev().take_while(|line| prose::is_item(line) || line.starts_with("  ")).count();
    let Some((heads, items)) = lines.split_at_checked(lines.len() - list) else { return false };
    let items = items.iter().filter(|line| !line.starts_with([' ', '\t']) && prose::is_item(line)).count();
    let Some(head) = heads.last().and_then(|head| head.strip_suffix([':', '：'])) else { return false };
    // The number of what is listed stands near the front, and none other does.
    let mut words = head.split(|c: char| c.is_whitespace() || matches!(c, '*' | '#' | '(' | ')'));
    let counts: Vec<usize> = words.by_ref().filter_map(number).collect();
    items > 0 && head.len() < 120 && matches!(counts.as_slice(), [count] if items < *count)
}
