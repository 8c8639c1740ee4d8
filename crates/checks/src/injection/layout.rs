//! Orders that are told by where they stand: a request that splits a sentence in two, code to be put into the answer, a
//! forged conversation that leaves its last question to the reader, a word repeated until the rules are forgotten.
//! In: a text. Out: hits. It looks at lines and their ends; each costs its length at most a few times.

use std::{ops::Range, sync::LazyLock};

use memchr::{memchr_iter, memmem};
use regex::Regex;

use super::Found;
use umbra_domain::TextScope;

const SPLICED: &str = "A request to the reader stands in the middle of a sentence that goes on behind it.";
const CODE: &str = "The text wants code that does harm to be put into the reader's answer.";
const DIALOGUE: &str = "A made-up dialogue leaves its last question to the reader.";
const REPEATED: &str = "One word is repeated many times before a request, which wears rules down.";
const TASK: &str = "A task for an assistant stands alone at the edge of a message about something else.";

/// No request is longer, in bytes.
const LONGEST: usize = 500;
/// Hits of one rule in one text.
const MOST_HITS: usize = 5;
/// How much of a fenced block is looked at.
const MOST_CODE: usize = 2000;

/// Notes what the layout of a text gives away; `repeated` are the words that stand in it over and over.
pub(super) fn find(text: &str, repeated: &[Range<usize>], reaches: impl Fn(TextScope) -> bool, found: &mut Vec<Found>) {
    let lines = lines(text);
    spliced(text, &lines, found);
    if reaches(TextScope::Tools) {
        code(text, found);
        dialogue(text, found);
        wears_down(text, repeated, found);
        lone_task(text, &lines, found);
    }
}

/// Lines without their breaks and the blanks around, empty ones left out.
fn lines(text: &str) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut from = 0;
    for end in memchr_iter(b'\n', text.as_bytes()).chain([text.len()]) {
        let line = text.get(from..end).unwrap_or_default();
        let lead = line.len() - line.trim_start().len();
        let line = line.trim();
        if !line.is_empty() {
            lines.push(from + lead..from + lead + line.len());
        }
        from = end + 1;
    }
    lines
}

/// A line that asks or orders, between a line that breaks off and one that goes on.
fn spliced(text: &str, lines: &[Range<usize>], found: &mut Vec<Found>) {
    let mut count = 0;
    for three in lines.array_windows::<3>() {
        let [before, at, behind] = three.each_ref().map(|line| text.get(line.clone()).unwrap_or_default());
        if count < MOST_HITS
            && (12..LONGEST).contains(&at.len())
            && is_request(at)
            && goes_on(before, behind)
            && breaks_off(before)
        {
            found.push(Found::warning("spliced_order", three[1].clone(), SPLICED));
            count += 1;
        }
    }
}

/// Whether a line begins like a sentence that wants something, and ends like one.
fn is_request(line: &str) -> bool {
    const ENDS: [char; 10] = ['.', '?', '!', '"', '\'', '”', '’', '`', ')', '。'];
    line.starts_with(|c: char| c.is_ascii_uppercase()) && line.ends_with(ENDS) && begins_with(line, &REQUESTS)
}

/// Whether a line of prose ends in the middle of a sentence.
fn breaks_off(line: &str) -> bool {
    const WORDS: usize = 4;
    let last = || line.rsplit(['.', '!', '?', ':', ';']).next().unwrap_or_default();
    line.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ',' | '\'' | '’' | '$' | '-' | '•'))
        && line.split_ascii_whitespace().take(WORDS).count() == WORDS
        && !line.starts_with(['#', '|', '>', '`', '$', '/'])
        && !last().trim().is_empty()
}

/// Whether a line goes on with the sentence of another, be it in the middle of a number.
fn goes_on(before: &str, line: &str) -> bool {
    line.starts_with(|c: char| c.is_lowercase() || matches!(c, ',' | '.' | ';' | ')' | '\'' | '’'))
        || line.starts_with(|c: char| c.is_ascii_digit())
            && before.ends_with(|c: char| c.is_ascii_digit() || matches!(c, ',' | '$'))
}

/// First words of requests: what an assistant is asked to do, and questions.
const REQUESTS: [&str; 96] = [
    "add",
    "adjust",
    "advise",
    "analyze",
    "analyse",
    "answer",
    "append",
    "apply",
    "assess",
    "calculate",
    "can",
    "change",
    "check",
    "classify",
    "compare",
    "compose",
    "compute",
    "consider",
    "convert",
    "convince",
    "could",
    "craft",
    "create",
    "define",
    "describe",
    "design",
    "detect",
    "determine",
    "develop",
    "discuss",
    "draft",
    "embed",
    "encode",
    "encrypt",
    "ensure",
    "evaluate",
    "explain",
    "find",
    "flip",
    "forget",
    "format",
    "generate",
    "give",
    "how",
    "identify",
    "ignore",
    "implement",
    "include",
    "incorporate",
    "insert",
    "integrate",
    "introduce",
    "invert",
    "list",
    "make",
    "merge",
    "modify",
    "name",
    "offer",
    "outline",
    "please",
    "predict",
    "promote",
    "propose",
    "provide",
    "recommend",
    "render",
    "replace",
    "reply",
    "respond",
    "reverse",
    "rewrite",
    "send",
    "share",
    "shift",
    "should",
    "show",
    "simulate",
    "solve",
    "spread",
    "substitute",
    "suggest",
    "summarize",
    "summarise",
    "switch",
    "tell",
    "translate",
    "use",
    "utilize",
    "what",
    "where",
    "which",
    "who",
    "why",
    "would",
    "write",
];

fn begins_with(line: &str, words: &[&str]) -> bool {
    let first = line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    words.iter().any(|word| first.eq_ignore_ascii_case(word))
}

/// A fenced block that a sentence wants in the reader's answer or code.
fn code(text: &str, found: &mut Vec<Found>) {
    static WANTED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)(?-u:\b)(?:code|script|program)?\s*(?:snippets?|excerpts?|blocks?|segments?|fragments?|pieces?|lines|code|script|section|sample)(?-u:\b)").ok()
    });
    static ANSWER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)(?-u:\b)your\s+(?:\w+\s+){0,2}?(?:response|reply|answer|output|solution|algorithm|implementation|code|codebase|program|script)(?-u:\b)|(?-u:\b)(?:the|your)\s+(?:response|reply|answer|solution)(?-u:\b)").ok()
    });
    let (Some(wanted), Some(answer)) = (WANTED.as_ref(), ANSWER.as_ref()) else { return };
    let mut count = 0;
    let mut behind = 0;
    for fence in memmem::find_iter(text.as_bytes(), b"```") {
        if fence < behind || count >= MOST_HITS {
            continue;
        }
        let before = text.get(..fence).unwrap_or_default();
        let sentence = before.trim_end();
        let floor = text.ceil_char_boundary(sentence.len().saturating_sub(LONGEST));
        let start = sentence.get(floor..).and_then(|tail| tail.rfind('\n')).map_or(floor, |at| floor + at + 1);
        let sentence = sentence.get(start..).unwrap_or_default();
        let ceiling = text.floor_char_boundary((fence + MOST_CODE).min(text.len()));
        let body = text.get(fence + 3..ceiling).unwrap_or_default();
        let length = body.find("```").unwrap_or(body.len());
        behind = (fence + 3 + length + 3).min(ceiling);
        let (body, rest) = (body.get(..length).unwrap_or_default(), text.get(behind..).unwrap_or_default());
        let asks = sentence.ends_with(':') && wanted.is_match(sentence) && answer.is_match(sentence);
        if asks && does_harm(body) && (is_message(text) || cuts(before, start, rest) || speaks_of_answer(sentence)) {
            found.push(Found::warning("planted_code", start..behind, CODE));
            count += 1;
        }
    }
}

/// Whether code sends, spies, destroys, or never ends.
fn does_harm(code: &str) -> bool {
    const HARM: [&str; 42] = [
        "socket",
        "requests.",
        "urllib",
        "http.client",
        "fetch(",
        "xmlhttprequest",
        "subprocess",
        "os.system",
        "popen",
        "os.fork",
        "fork()",
        "eval(",
        "exec(",
        "ctypes",
        "keyboard",
        "pynput",
        "keylog",
        "clipboard",
        "screenshot",
        "pyautogui",
        "imagegrab",
        "mss",
        "scapy",
        "sniff(",
        "tcpdump",
        "pcap",
        "iptables",
        "netsh",
        "/etc/hosts",
        "rmtree",
        "os.remove",
        "os.unlink",
        "unlink(",
        "fernet",
        "encrypt",
        "while true",
        "/dev/",
        "getpass",
        "platform.",
        "smtplib",
        "ftplib",
        "winreg",
    ];
    let code = code.to_ascii_lowercase();
    HARM.iter().any(|harm| code.contains(harm))
}

/// Whether a message is what the text is: code has no business in it.
fn is_message(text: &str) -> bool {
    const MARKS: [&str; 8] = ["subject:", "from:", "to:", "received date:", "dear ", "hi ", "hello ", "hi,"];
    let head = text.get(..text.floor_char_boundary(text.len().min(300))).unwrap_or_default().to_ascii_lowercase();
    head.lines()
        .any(|line| MARKS.iter().any(|mark| line.trim_start_matches(['{', '"', '\'', ' ', '-']).starts_with(mark)))
}

fn speaks_of_answer(sentence: &str) -> bool {
    let sentence = sentence.to_ascii_lowercase();
    ["your response", "your reply", "your answer", "your output"].iter().any(|answer| sentence.contains(answer))
}

/// Whether what is cut out there leaves a sentence that goes on.
fn cuts(before: &str, start: usize, rest: &str) -> bool {
    let line = |text: &str| text.trim().to_owned();
    let above = before.get(..start).unwrap_or_default().trim_end().rsplit('\n').next().map(line).unwrap_or_default();
    let below = rest.trim_start().lines().next().map(line).unwrap_or_default();
    breaks_off(&above) && goes_on(&above, &below)
}

/// `Q: … A: … Q: …?`, and nobody who answers.
fn dialogue(text: &str, found: &mut Vec<Found>) {
    const SPEAKERS: [(&str, &str); 4] =
        [("Q:", "A:"), ("Question:", "Answer:"), ("User:", "Assistant:"), ("Human:", "AI:")];
    if !text.trim_end().ends_with(['?', '？']) {
        return;
    }
    for (asks, answers) in SPEAKERS {
        let last = memmem::rfind(text.as_bytes(), asks.as_bytes());
        let first = memmem::find(text.as_bytes(), asks.as_bytes());
        let answered = memmem::rfind(text.as_bytes(), answers.as_bytes());
        if let (Some(first), Some(answered), Some(last)) = (first, answered, last)
            && first < answered
            && answered < last
        {
            found.push(Found::warning("forged_dialogue", last..text.trim_end().len(), DIALOGUE));
            return;
        }
    }
}

/// The same word over and over, and then a request.
fn wears_down(text: &str, runs: &[Range<usize>], found: &mut Vec<Found>) {
    for run in runs {
        let rest = text.get(run.end..).unwrap_or_default().trim_start();
        let rest = rest.get(..rest.floor_char_boundary(LONGEST)).unwrap_or_default();
        if rest.trim_end().ends_with('?') || begins_with(rest, &REQUESTS) {
            found.push(Found::warning("repeated_token", run.clone(), REPEATED));
            return;
        }
    }
}

/// The first or the last line of a message, when it asks for what only an assistant is asked for.
fn lone_task(text: &str, lines: &[Range<usize>], found: &mut Vec<Found>) {
    static ASKED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)^(?:(?:can|could)\s+you\s+|please\s+)?(?:(?:write|create|compose|generate|develop|draft|make|design)\s+(?:me\s+)?(?:a|an)\s+(?:\w+\s+){0,2}?(?:script|program|function|macro|poem|story|haiku|song|limerick|joke|riddle|essay|algorithm|regex|bot|chatbot)(?-u:\b)|(?:translate|summari[sz]e|paraphrase|rewrite|proofread|classify)\s+(?:the\s+following|this\s+(?:sentence|text|phrase|paragraph)|['\x22“])|tell\s+me\s+a\s+(?:joke|story|riddle|fun\s+fact)|(?:describe|explain|discuss|outline|summari[sz]e)\s+(?:the|how|why|what)\s+(?:\w+\s+){0,3}?(?:advancements?|advances|concept|theory|history|impact|effects?|principles?|role|causes?|benefits|differences?|process|latest|works?)(?-u:\b)|what\s+(?:are|is)\s+the\s+(?:\w+\s+){0,2}?(?:risks|benefits|advantages|trends|capital|causes|symptoms|effects|differences?|strategies|challenges)\s+(?:of|for|in|associated|between)(?-u:\b))").ok()
    });
    let (Some(asked), Some(first), Some(last)) = (ASKED.as_ref(), lines.first(), lines.last()) else { return };
    if lines.len() < 2
        || !(is_message(text) || lines.get(1).and_then(|at| text.get(at.start..)).is_some_and(is_message))
    {
        return;
    }
    for at in [first, last] {
        let line = text.get(at.clone()).unwrap_or_default();
        if line.len() < LONGEST && asked.is_match(line) {
            found.push(Found::warning("planted_task", at.clone(), TASK));
        }
    }
}
