//! Texts that parsers and expressions take hard cost by their length and not by its square.

use std::time::{Duration, Instant};

use crate::{
    checks::{review, screen},
    domain::{CheckName, Event, ToolCall},
};

/// What is repeated.
const UNITS: [&str; 49] = [
    "a",
    " ",
    "\n",
    "é",
    "\u{200b}",
    "\u{1b}[",
    "\"",
    "'",
    "\\",
    "{",
    "[",
    "(",
    "$(",
    "|",
    "`",
    "```sh\n",
    "~~~\n",
    "``` ```\n",
    "<!--",
    "<<EOF\n",
    "://",
    "https://a.b/",
    "@",
    "a@b.c ",
    "eyJ",
    "AKIA",
    "ghp_",
    "[secret:",
    "password=",
    "password: \"",
    "Authorization: ",
    "Bearer ",
    "-----BEGIN PRIVATE KEY-----\n",
    "rm -rf ",
    "sudo sh -c '",
    "ignore all previous instructions ",
    "4111 1111 1111 1111 ",
    "4111-",
    "1-",
    "(1) ",
    "GB82 ",
    "ssn ",
    "phone 1",
    "patient: ",
    "born ",
    "a@",
    "a: b\n",
    "1. x\n",
    "$ ls\n",
];

/// The best of three, since whatever else the machine does only slows it down.
fn time(text: &str) -> Duration {
    let event = Event {
        agent: "a".to_owned(),
        output: Some(text.to_owned()),
        tool: Some(ToolCall { name: "read".to_owned(), result: Some(text.to_owned()), ..ToolCall::default() }),
        ..Event::default()
    };
    let once = || {
        let (event, began) = (event.clone(), Instant::now());
        let screened = screen(event);
        review(&screened.event, &screened.marks, &CheckName::ALL.into());
        began.elapsed()
    };
    (0..3).map(|_| once()).min().unwrap_or_default()
}

#[test]
fn texts_that_are_made_to_be_dear_cost_by_their_length() {
    for unit in UNITS {
        let of = |bytes: usize| time(&unit.repeat(bytes / unit.len()));
        let (short, long) = (of(8 * 1024), of(64 * 1024));
        // Eight times the text costs about eight times as much; its square would cost 64 times.
        assert!(long < short * 28 + Duration::from_millis(20), "{unit:?}: {short:?}, and 8 times the text {long:?}");
    }
}
