//! Tests of cost: texts that are hard for parsers and expressions cost time by their length, not by its square.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::running;
use crate::{review, screen};
use umbra_domain::{CheckName, Event, Severity, ToolCall};

/// Texts that are repeated.
const UNITS: [&str; 52] = [
    "sk-proj-",
    "a,password\n",
    "$ rm\n",
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

/// Returns the processor time of this thread; other load on the machine does not count.
fn used() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

/// Returns the processor time of screening and reviewing a text once.
fn time(text: &str) -> Duration {
    let event = Event {
        agent: "a".to_owned(),
        output: Some(text.to_owned()),
        tool: Some(ToolCall { name: "read".to_owned(), result: Some(text.to_owned()), ..ToolCall::default() }),
        ..Event::default()
    };
    let began = used();
    let screened = screen(event);
    review(&screened.event, &screened.marks, &CheckName::ALL.into());
    used().saturating_sub(began)
}

/// Attempts, of which the best counts: processors' caches and clock rates vary.
const TRIES: usize = 3;

#[test]
fn hostile_texts_are_checked_in_linear_time() {
    for unit in UNITS {
        let (short, long) = (unit.repeat(8 * 1024 / unit.len()), unit.repeat(64 * 1024 / unit.len()));
        let short = (0..TRIES).map(|_| time(&short)).min().unwrap_or_default();
        // Eight times the text costs about eight times as much; its square would cost 64 times.
        let bound = short * 28 + Duration::from_millis(20);
        let longs: Vec<Duration> = (0..TRIES).map(|_| time(&long)).take_while(|took| *took >= bound).collect();
        assert!(longs.len() < TRIES, "{unit:?}: {short:?}, and 8 times the text {longs:?}");
    }
}

/// Scripts that hold scripts, and texts that are hard for the shell's grammar.
const NESTED: [&str; 14] = [
    "ssh a '",
    "ssh a \"",
    "ssh a `",
    "eval '",
    "eval \"",
    "eval ",
    "eval $(",
    "${A:-${A",
    "rm ${",
    "sudo sh -c '",
    "python -c \"os.system('",
    "echo 'rm' | sh;",
    "rm|",
    "x=$x$x;",
];

#[test]
fn nested_scripts_cost_linear_time_and_report_unread_parts() {
    for unit in NESTED {
        let look = |bytes: usize| {
            let command = format!("rm -rf /\n{}rm -rf /", unit.repeat(bytes / unit.len()));
            let event = running(&command);
            let once = || {
                let began = used();
                let hits = review(&event, &[], &[CheckName::Commands].into());
                (used().saturating_sub(began), hits)
            };
            let (took, hits) = (0..3).map(|_| once()).min_by_key(|(took, _)| *took).unwrap();
            assert!(hits.iter().any(|hit| hit.rule == "recursive_delete"), "{unit:?} of {bytes} bytes: {hits:?}");
            let told = hits.iter().filter(|hit| hit.rule == "too_involved").count();
            (took, told)
        };
        let (short, _) = look(8 * 1024);
        let (long, told) = look(256 * 1024);
        assert_eq!(told, 1, "{unit:?}: what is left unread is said, and once");
        // 32 times the text. Without a bound it took seconds, a thousand times as long.
        assert!(long < short * 32 + Duration::from_millis(20), "{unit:?}: {short:?}, and 32 times the text {long:?}");
    }
}

#[test]
fn command_behind_padding_or_wrappers_gives_a_critical_hit() {
    let critical = |command: &str| {
        let hits = review(&running(command), &[], &[CheckName::Commands].into());
        hits.into_iter().filter(|hit| hit.severity == Severity::Critical).map(|hit| hit.rule).collect::<Vec<_>>()
    };
    let deleting = |before: String| format!("{before}rm -rf /srv/data");
    for padding in [":;", "echo a\n", "true\n", "x=1; ", "[ -f a ] && echo b\n"] {
        for times in [1_100, 3_000] {
            let command = deleting(padding.repeat(times));
            assert!(critical(&command).contains(&"recursive_delete".to_owned()), "{times} times {padding:?}");
        }
    }
    for wrapper in ["env ", "sudo ", "nohup ", "nice ", "command ", "xargs ", "timeout 5 "] {
        for times in [12, 20, 500] {
            let found = critical(&deleting(wrapper.repeat(times)));
            assert!(!found.is_empty(), "{times} times {wrapper:?}");
        }
    }
    for (open, close) in [("( ", " )"), ("{ ", "; }"), ("if true; then ", "; fi"), ("echo $(", ")")] {
        let command = format!("{}rm -rf /srv/data{}", open.repeat(60), close.repeat(60));
        assert!(!critical(&command).is_empty(), "60 times {open:?}");
    }
    let long = (0..2_000).map(|n| format!("echo step {n} && make target-{n}")).collect::<Vec<_>>().join("\n");
    assert_eq!(critical(&long), Vec::<String>::new(), "a long script is no crime");
}
