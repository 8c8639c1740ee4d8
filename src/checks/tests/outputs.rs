//! Output that breaks off, and output that says nothing.

use crate::domain::CheckName;

use super::{hits, saying};

fn rule(text: &str, check: CheckName) -> Option<String> {
    hits(saying(text), check).into_iter().next().map(|hit| hit.rule)
}

#[test]
fn cut_output_is_seen() {
    for (text, expected) in [
        ("Here it is:\n```rust\nfn main() {", "unclosed_fence"),
        ("{\"a\": [1, 2", "cut_json"),
        ("The first step is done. The second step needs the", "cut_sentence"),
        ("The report is long. It covers three quarters and the fourth quar", "cut_sentence"),
        ("All is well. See the list (and the", "cut_bracket"),
        ("# Plan\n\nText here.\n\n## Next", "cut_section"),
        ("Results.\n\n| a | b |\n|---|---|\n| 1 |", "cut_table"),
        ("import os\nimport sys\n\ndef main():\n    run(os.path.join(a,", "cut_code"),
    ] {
        // A table's row of one cell is complete; only a row without its end is not.
        let text = if expected == "cut_table" { text.trim_end_matches('|') } else { text };
        assert_eq!(rule(text, CheckName::Truncation).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn a_stop_reason_of_length_is_enough() {
    for reason in ["length", "max_tokens", "MAX_TOKENS"] {
        let mut event = saying("All is well.");
        event.stop_reason = Some(reason.to_owned());
        let seen = hits(event, CheckName::Truncation);
        assert_eq!(seen.first().map(|hit| hit.rule.as_str()), Some("stopped_at_limit"));
    }
}

#[test]
fn whole_output_is_left_alone() {
    for text in [
        "42",
        "Paris",
        "Fix parser bug in lexer",
        "All tests pass.",
        "- one\n- two\n- three",
        "Steps:\n1. Build it\n2. Ship it",
        "```\nx\n```",
        "{\"a\": 1}",
        "[1, 2]",
        "See https://docs.acme.io/guide/start",
        "Hello Ann,\n\nthe build is green.\n\nBest regards,\nUmbra",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "name: app\nversion: 2\nport: 80",
        "Ready? Yes!",
        "It is done (see above).",
        "def f(x):\n    y = x + 1\n    return y",
        "“Quoted.”",
        "完成了。",
        "Use `cargo test`",
        "fn main() {\n    run();\n}",
    ] {
        assert_eq!(rule(text, CheckName::Truncation), None, "{text}");
    }
}

#[test]
fn output_that_says_nothing_is_seen() {
    for (text, expected) in [
        ("", "empty_output"),
        (" \n\t", "empty_output"),
        (":", "content_free"),
        (".", "content_free"),
        ("Thought process:", "content_free"),
        ("Let's solve this step by step.", "content_free"),
        ("Solution", "content_free"),
        ("I'm sorry, but I can't help with that.", "refused"),
        ("I cannot assist with this request.", "refused"),
        ("As an AI language model, I am unable to provide that.", "refused"),
    ] {
        assert_eq!(rule(text, CheckName::Emptiness).as_deref(), Some(expected), "{text:?}");
    }
    for text in [
        "42",
        "No.",
        "Sure",
        "The solution is 7.",
        "I can't find the file; the tests pass otherwise.",
        "✅",
        "I cannot reproduce the bug with the given input.",
    ] {
        assert_eq!(rule(text, CheckName::Emptiness), None, "{text:?}");
    }
    let mut event = saying("x");
    event.output = None;
    assert!(hits(event, CheckName::Emptiness).is_empty(), "no output is not an empty one");
}
