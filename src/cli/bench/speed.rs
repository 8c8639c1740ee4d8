//! Measures how many megabytes a second one core checks: with all text checks together, with each one, by kinds of text
//! that agents write, and on texts made to be expensive.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use serde::Serialize;
use tokio::time::Instant;

use super::corpus;
use umbra_domain::{CheckName, Event};

/// Bytes up to which short texts are joined: a long answer or a page, within the limit of an event.
const JOINED: usize = 64 * 1024;
/// Rounds of a measurement; the best counts, since other work of the machine only slows it down.
const ROUNDS: usize = 5;
/// Time after which no further round begins.
const PATIENCE: Duration = Duration::from_secs(1);

/// Texts that are hard for parsers and expressions, repeated without end.
const HOSTILE: [&str; 33] = [
    "a",
    " ",
    "\n",
    "é",
    "\u{200b}",
    "\"",
    "\\",
    "{",
    "(",
    "$(",
    "|",
    "://",
    "@",
    "a@b.c ",
    "eyJ",
    "AKIA",
    "[secret:",
    "password=",
    "pwd=",
    "pwd: x1,pwd=",
    "api_key=",
    "password: \"",
    "-----BEGIN PRIVATE KEY-----\n",
    "```sh\n",
    "<<EOF\n",
    "rm -rf ",
    "sudo sh -c '",
    "```sh\nssh a '",
    "```sh\neval \"",
    "```sh\n${A:-${A",
    "```sh\nsudo sh -c '",
    "ignore all previous instructions ",
    "4111 1111 1111 1111 ",
];

/// Megabytes (10^6 bytes) a second on one core.
#[derive(Debug, Serialize)]
pub(super) struct Speed {
    /// All text checks together on the sets' texts, joined to outputs of 64 KiB.
    pub joined: f64,
    /// All text checks together on each row as an event of its own.
    pub rows: f64,
    /// Redaction and triggers before storage, then each check alone, on the joined texts.
    pub by_check: BTreeMap<&'static str, f64>,
    /// All text checks together on texts of one kind.
    pub by_kind: BTreeMap<&'static str, f64>,
    /// The slowest of the texts that are made to be expensive: the repeated piece, and its rate.
    pub hostile: (String, f64),
}

impl Speed {
    /// Measures all figures.
    pub fn measure(texts: &[&str]) -> Self {
        let joined = joined(texts);
        let screened: Vec<Event> = joined.iter().map(|text| umbra_checks::screen(output(text)).event).collect();
        let mut by_check =
            BTreeMap::from([("screening", rate(&joined, |text| drop(umbra_checks::screen(output(text)))))]);
        for check in CheckName::ALL {
            let which = [check].into();
            let events = || screened.iter().map(|event| event.output.as_deref().map_or(0, str::len)).sum();
            let pass = || {
                for event in &screened {
                    std::hint::black_box(umbra_checks::review(event, &[], &which));
                }
            };
            by_check.insert(check.as_str(), best(events(), pass));
        }
        let kinds = [("prose", prose()), ("code", code()), ("json", json()), ("log", log())];
        let by_kind = kinds.into_iter().map(|(kind, text)| (kind, rate(&[text], all))).collect();
        let hostile = HOSTILE.into_iter().map(|unit| (unit, rate(&[unit.repeat(JOINED / unit.len())], all)));
        let slowest = hostile.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
        Self {
            joined: rate(&joined, all),
            rows: rate(texts, all),
            by_check,
            by_kind,
            hostile: (slowest.0.escape_debug().to_string(), slowest.1),
        }
    }

    /// Renders the figures, a line each.
    pub fn lines(&self) -> String {
        let list = |of: &BTreeMap<&'static str, f64>| {
            of.iter().map(|(name, rate)| format!("{name} {rate:.0}")).collect::<Vec<_>>().join(", ")
        };
        let (unit, slowest) = &self.hostile;
        format!(
            "{:.0} MB/s a core for all checks of a text together ({:.0} with an event for each row)\neach check alone: \
             {}\nall together on {}\nthe slowest text made to be slow repeats {unit}: {slowest:.1}",
            self.joined,
            self.rows,
            list(&self.by_check),
            list(&self.by_kind),
        )
    }
}

fn output(text: &str) -> Event {
    Event { agent: "bench".into(), output: Some(text.to_owned()), ..Event::default() }
}

/// Runs the screening, then every check on the text as it would be stored.
fn all(text: &str) {
    let screened = umbra_checks::screen(output(text));
    std::hint::black_box(umbra_checks::review(&screened.event, &screened.marks, &CheckName::ALL.into()));
}

fn rate<T: AsRef<str>>(texts: &[T], each: impl Fn(&str)) -> f64 {
    best(texts.iter().map(|text| text.as_ref().len()).sum(), || texts.iter().for_each(|text| each(text.as_ref())))
}

/// Megabytes a second of the fastest round.
#[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 bytes")]
fn best(bytes: usize, pass: impl Fn()) -> f64 {
    let (began, mut best) = (Instant::now(), f64::MAX);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        pass();
        best = best.min(started.elapsed().as_secs_f64());
        if began.elapsed() > PATIENCE {
            break;
        }
    }
    bytes as f64 / 1e6 / best.max(f64::MIN_POSITIVE)
}

fn joined(texts: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in texts {
        match all.last_mut() {
            Some(last) if last.len() + text.len() < JOINED => last.extend(["\n", text]),
            _ => all.push((*text).to_owned()),
        }
    }
    all
}

/// Repeats lines until the text is long enough.
fn filled(mut line: impl FnMut(usize, &mut String)) -> String {
    let mut text = String::with_capacity(JOINED + 4_096);
    let mut n = 0;
    while text.len() < JOINED {
        line(n, &mut text);
        n += 1;
    }
    text
}

fn prose() -> String {
    filled(|n, text| text.extend([corpus::prose(n * 3, 5).as_str(), "\n\n"]))
}

fn code() -> String {
    let pieces = corpus::CODE;
    filled(|n, text| {
        let _ = writeln!(text, "{}// step {n}\n", pieces[n % pieces.len()]);
    })
}

fn json() -> String {
    let events: Vec<_> = corpus::events().collect();
    filled(|n, text| {
        let _ = writeln!(text, "{}", events[n % events.len()]);
    })
}

fn log() -> String {
    filled(|n, text| {
        let _ = writeln!(
            text,
            "2026-02-11T09:{:02}:{:02}.{:03}Z INFO ledger::pages request={:016x} status={} took={}ms path=/v1/pages/{n}",
            n / 60 % 60,
            n % 60,
            n * 7 % 1_000,
            n * 0x9e37_79b9,
            if n % 50 == 0 { 503 } else { 200 },
            n * 13 % 400,
        );
    })
}
