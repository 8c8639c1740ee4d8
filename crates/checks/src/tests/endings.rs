//! How texts of a form end, what says itself that it is cut, and what ends without a mark and is whole.

use umbra_domain::CheckName;

use super::{hits, saying};

fn rule(text: &str) -> Option<String> {
    hits(saying(text), CheckName::Truncation).into_iter().next().map(|hit| hit.rule)
}

#[test]
fn a_text_says_that_it_is_cut() {
    for text in [
        "Report on usage\nAll was fine until (cut)",
        "Some text here (continued)",
        "The text goes on for long [...]",
        "<output truncated>",
        "log of the build\n... 3214 more lines",
        "and 25 more...",
        "[Output truncated: 12034 characters omitted]",
        "Fortsetzung folgt",
        "(suite au prochain message)",
        "[Ausgabe gekürzt]",
        "[texto truncado]",
        "[обрезано]",
        "(以下省略)",
        "--More--",
        "-- More -- (45%)",
        "-- snip --",
        "lines 1-23",
        "curl: (18) transfer closed with 1234 bytes remaining to read",
        "SyntaxError: Unexpected end of JSON input",
        "E   ...Full output truncated (12 lines hidden), use '-vv' to show",
        "fn main() {}\n// ... rest of the code",
        "Would you like me to continue with the remaining sections?",
        "Warning: only the first 1000 results are shown.",
        "Part 1 of 2. The other half is on its way.",
    ] {
        assert!(rule(text).is_some(), "{text}");
    }
    for reason in ["\"finish_reason\":\"length\"", "\"stop_reason\": \"max_tokens\"", "\"finishReason\":\"MAX_TOKENS\""]
    {
        assert_eq!(rule(&format!("{{\"choices\":[{{{reason}}}]}}")).as_deref(), Some("stopped_at_limit"));
    }
}

#[test]
fn a_list_is_held_against_what_it_promises() {
    for text in [
        "There are five reasons:\n1. Cost\n2. Speed\n3. Safety",
        "The following 4 files were changed:\n- a.rs\n- b.rs",
        "Voici cinq idées :\n1. A\n2. B\n3. C",
        "Hier sind fünf Gründe:\n1. Kosten.\n2. Zeit.",
    ] {
        assert_eq!(rule(text).as_deref(), Some("cut_list"), "{text}");
    }
    for text in [
        "There are three reasons:\n1. Cost\n2. Speed\n3. Safety",
        "Of 12 files 3 were changed:\n- a.rs\n- b.rs\n- c.rs",
    ] {
        assert_eq!(rule(text), None, "{text}");
    }
}

#[test]
fn a_form_says_where_it_ends() {
    let diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n";
    for (text, expected) in [
        ("{\"level\":\"info\"}\n{\"level\":\"warn\"}\n{\"level\":\"er", "cut_json"),
        (diff.trim_end_matches("-b\n+c\n"), "cut_diff"),
        ("Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    import foo\n", "cut_trace"),
        ("java.lang.Error: x\n\tat com.acme.App.run(App.java:12)\n\tat com.acme.App.ma", "cut_trace"),
        ("-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0B\nRTESMBAG\n", "cut_block"),
        ("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCA", "cut_block"),
        ("<html><body><h1>Hi</h1><p>Some text", "cut_tag"),
        (
            "10:00:00 2024-05-01 GET \"/a\" 200\n10:00:01 2024-05-01 GET \"/b\" 200\n10:00:02 2024-05-01 GET \"/c",
            "cut_row",
        ),
        ("id;name;total\n1;a;10\n2;b;20\n3;c;", "cut_row"),
        ("if [ -f \"$file\" ]; then\n  echo found\n", "cut_code"),
    ] {
        assert_eq!(rule(text).as_deref(), Some(expected), "{text}");
    }
    for text in [
        &format!("{diff} d"),
        "{\"a\":1}\n{\"a\":2}\n",
        "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'a'",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYI\n-----END PUBLIC KEY-----",
        "<html><body><p>Some text</p></body></html>",
        "2024-05-01 10:00:00 start\n2024-05-01 10:00:01 stop",
    ] {
        assert_eq!(rule(text), None, "{text}");
    }
}

#[test]
fn a_word_that_asks_for_another_ends_no_sentence_in_any_language() {
    for text in [
        "Je pense que la solution la plus simple serait de modifier la",
        "La causa del error es que el servidor no puede conectarse a la",
        "O serviço falhou porque a conexão com o",
        "De oorzaak is dat de server niet bereikbaar is via de",
        "Причина в том, что сервер не может подключиться к",
    ] {
        assert_eq!(rule(text).as_deref(), Some("cut_sentence"), "{text}");
    }
}

#[test]
fn what_speaks_of_cuts_is_not_cut() {
    for text in [
        "The list is truncated to ten entries by default, as intended.",
        "TRUNCATE TABLE logs;",
        "The finish_reason can be stop or length.",
        "{\"finish_reason\": \"stop\"}",
        "To continue, press Enter.",
        "\"The law [...] applies\", he said.",
        "5 of 5 tests passed",
        "2 files changed, 10 insertions(+), 3 deletions(-)",
        "Well, it depends…",
        "Score: 3/5",
        "aGVsbG8gd29ybGQ=",
        "See you tomorrow!\n\n-- \nJohn",
        "yes",
    ] {
        assert_eq!(rule(text), None, "{text}");
    }
}
