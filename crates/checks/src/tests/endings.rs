//! Tests of endings: texts of several forms, phrases about being cut off, and whole texts without a final mark.

use umbra_domain::CheckName;

use super::{hits, saying};

fn rule(text: &str) -> Option<String> {
    hits(saying(text), CheckName::Truncation).into_iter().next().map(|hit| hit.rule)
}

#[test]
fn announced_truncation_is_a_hit_in_any_wording() {
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
        "curl: (18) transfer closed with 1234 bytes remaining to read",
        "SyntaxError: Unexpected end of JSON input",
        "E   ...Full output truncated (12 lines hidden), use '-vv' to show",
        "fn main() {}\n// ... rest of the code",
        "Would you like me to continue with the remaining sections?",
        "Warning: only the first 1000 results are shown.",
    ] {
        assert!(rule(text).is_some(), "{text}");
    }
    for reason in ["\"finish_reason\":\"length\"", "\"stop_reason\": \"max_tokens\"", "\"finishReason\":\"MAX_TOKENS\""]
    {
        assert_eq!(rule(&format!("{{\"choices\":[{{{reason}}}]}}")).as_deref(), Some("stopped_at_limit"));
    }
}

#[test]
fn sentence_ending_in_a_function_word_is_cut_in_any_language() {
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
fn text_about_truncation_gives_no_hit() {
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

#[test]
fn code_and_data_break_off_in_a_word_a_string_or_a_block() {
    const GO: &str = "package a\n\nimport \"fmt\"\n\nfunc A() string {\n\treturn fmt.Sprint(1)\n}\n\n";
    const PYTHON: &str = "import os\n\n\ndef run(path):\n    if not path:\n        raise ValueError(path)\n\n";
    const SHELL: &str = "#!/bin/sh\nset -eu\ncd /srv\nls -la\nexport A=1\n";
    const YAML: &str = "kind: Task\nmetadata:\n  name: one\nspec:\n  image: web\n  host: a.example.org\n";
    for (whole, cut) in [
        (format!("{GO}func B() string {{\n\treturn A()\n}}"), format!("{GO}func B() string")),
        (
            format!("{PYTHON}    for at, (one, two) in pairs(path):\n        run(one)"),
            format!("{PYTHON}    for at, (one, two) in pa"),
        ),
        (format!("{PYTHON}    text = \"A name\""), format!("{PYTHON}    text = \"A na")),
        (format!("{SHELL}cat <<'EOF' | wc -l\nkind: a\nEOF"), format!("{SHELL}cat <<'EOF' | wc -l\nkind: a")),
        (format!("{SHELL}echo $((1 << n))"), format!("{SHELL}cat <<EOF\none")),
        (format!("{YAML}  prompt: Get the one named a."), format!("{YAML}  routes:\n  - dest")),
        (format!("{YAML}  routes:\n  - one\n  - two"), format!("{YAML}  rout")),
    ] {
        assert_eq!(rule(&whole), None, "{whole}");
        assert_eq!(rule(&cut).as_deref(), Some("cut_code"), "{cut}");
    }
    for text in [
        "Let me read the source fi",
        "Now fix the unused `path/filepath` import in `ma",
        "Good. I'll check `a",
        "I'll run it ag",
    ] {
        assert!(rule(text).is_some(), "{text}");
    }
    for text in ["Let me read it.", "Now Playing", "I like it", "Update `a`"] {
        assert_eq!(rule(text), None, "{text}");
    }
}
