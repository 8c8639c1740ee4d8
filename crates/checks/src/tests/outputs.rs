//! Tests of outputs that break off, and of outputs that say nothing.

use umbra_domain::CheckName;

use super::{hits, saying};

fn rule(text: &str, check: CheckName) -> Option<String> {
    hits(saying(text), check).into_iter().next().map(|hit| hit.rule)
}

#[test]
fn truncated_output_hits_its_rule() {
    for (text, expected) in [
        ("Here it is:\n```rust\nfn main() {", "unclosed_fence"),
        ("{\"a\": [1, 2", "cut_json"),
        ("The first step is done. The second step needs the", "cut_sentence"),
        ("The report is long. It covers three quarters and the fourth quar", "cut_sentence"),
        ("All is well. See the list (and the", "cut_bracket"),
        ("Text.\n~~~~js\nlet a = 1\n~~~", "unclosed_fence"),
        ("````md\n```sh\nls\n```\nand so on", "unclosed_fence"),
        ("Text is here.\n\n<Card\n  title=\"First\"\n  href=\"/a", "cut_tag"),
        ("The build is green. Here is what changed since then:", "cut_announcement"),
        ("我们完成了第一部分。接下来我们将说明第二部分的内容以及它的", "cut_sentence"),
        ("import a\nimport b\n\ndef run(x):\n    \"\"\" Starts the", "cut_code"),
        ("# Plan\n\nText here.\n\n## Next", "cut_section"),
        ("Results.\n\n| a | b |\n|---|---|\n| 1 |", "cut_table"),
        ("import os\nimport sys\n\ndef main():\n    run(os.path.join(a,", "cut_code"),
        ("the log of the run [truncated]", "announced_cut"),
        ("first lines here\n412 more rows omitted", "announced_cut"),
        ("SELECT name FROM orders WHERE total >", "cut_sentence"),
        ("综上所述，团队应该", "cut_sentence"),
    ] {
        // A table row of one cell is complete; only a row without its final bar is not.
        let text = if expected == "cut_table" { text.trim_end_matches('|') } else { text };
        assert_eq!(rule(text, CheckName::Truncation).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn stop_reason_of_length_is_a_truncation_hit() {
    for reason in ["length", "max_tokens", "MAX_TOKENS"] {
        let mut event = saying("All is well.");
        event.stop_reason = Some(reason.to_owned());
        let seen = hits(event, CheckName::Truncation);
        assert_eq!(seen.first().map(|hit| hit.rule.as_str()), Some("stopped_at_limit"));
    }
}

#[test]
fn complete_output_gives_no_truncation_hit() {
    for text in [
        "Run:\n\n```sh\nls\n```\nThat lists the files.",
        "First this (see below):\n~~~\nls\n~~~\nThen that.",
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
        "def area(r):\n    return 3 * r * r\n",
        "a: 1\nb:\n  - c",
        "all:\n\tcargo build\n\ncheck:\n\tcargo test\n",
        "[main]\nport=1\nhost=here",
        "server {\n  listen 80;\n  location / { proxy_pass http://app; }\n}",
        "Dear Ms Li,\n\nthe parts are on their way.\n\nKind regards\nAcme Support",
        "Wir haben gestern alles geprüft und die neue Version eingespielt",
        "+----+----+\n| a  | b  |\n+----+----+\n| 1  | 2  |\n+----+----+",
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: bad value",
        "Great :(",
        "The server is ready.\n\nRun this to see it:\n\n    cargo run -- serve",
        "winter sea\nthe gulls are silent\nbefore the wind",
        "name: app\nversion: 2\nport: 80",
        "Ready? Yes!",
        "It is done (see above).",
        "def f(x):\n    y = x + 1\n    return y",
        "“Quoted.”",
        "完成了。",
        "Use `cargo test`",
        "fn main() {\n    run();\n}",
        "````md\n```sh\nls\n```\n````",
        "```md\n```sh\nls\n```\n```",
        "~~~\nx\n~~~",
        "- 一\n- 二\n- 三",
        "名称：应用\n版本：二\n端口：八十",
        "Résumé\nTerminé",
        "Is a < b and c > d? Yes.",
        "| 名 | 数 |\n|---|---|\n| 甲 | 1 |",
        "day,city,degrees\nmon,Oslo,3\ntue,Rome,17\nwed,Cairo,21",
        "day,unit,n\nmon,km,3\ntue,km,17\nwed,km,4\nthu,km,1",
        "#!/bin/sh\nset -e\nfor host in a b; do\n  ping -c1 \"$host\"\ndone",
        "#!/bin/sh\ncase $1 in\n  a) echo one;;\n  *) echo two;;\nesac",
        "#!/bin/sh\ncat <<EOF\nif you can't\nEOF",
        "UPDATE towns SET size = 3 WHERE id = 1;\nUPDATE towns SET size = 4 WHERE id = 2;",
        "<shop><item><name>Fern</name></item></shop>",
        "name: build\non:\n  push:\n    tags: [v1]\njobs:\n  test:\n    steps:\n      - uses: actions/checkout@v4",
        "a:\n  b:\n    - one\n    - two\nc: 3",
    ] {
        assert_eq!(rule(text, CheckName::Truncation), None, "{text}");
    }
}

#[test]
fn output_without_content_hits_its_rule() {
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
        ("Es tut mir leid, aber dabei kann ich nicht helfen.", "refused"),
        ("Je suis désolé, mais je ne peux pas vous aider avec cela.", "refused"),
        ("Lo siento, pero no puedo ayudarte con eso.", "refused"),
        ("Desculpe, mas não posso ajudar com isso.", "refused"),
        ("Mi dispiace, ma non posso aiutarti con questa richiesta.", "refused"),
        ("Het spijt me, maar daar kan ik je niet mee helpen.", "refused"),
        ("Извините, но я не могу помочь с этим.", "refused"),
        ("抱歉，我无法协助完成这个请求。", "refused"),
        ("申し訳ありませんが、そのご要望にはお応えできません。", "refused"),
        ("죄송하지만 그 요청은 도와드릴 수 없습니다.", "refused"),
        ("Sure! Let me know if you need anything else.", "content_free"),
        ("Intro.\n\nLorem ipsum dolor sit amet.", "placeholder"),
        ("```js\nf();\n// ... rest of the code unchanged\n```", "left_out"),
        ("def f():\n    # ... existing implementation ...\n    return 1", "left_out"),
        ("# your code here", "left_out"),
        ("null", "content_free"),
        ("NaN", "content_free"),
        ("[object Object]", "content_free"),
    ] {
        assert_eq!(rule(text, CheckName::Emptiness).as_deref(), Some(expected), "{text:?}");
    }
    for text in [
        "42",
        "[]",
        "-",
        "No.",
        "Sure",
        "The solution is 7.",
        "I can't find the file; the tests pass otherwise.",
        "✅",
        "I cannot reproduce the bug with the given input.",
        "Ich kann die Datei nicht finden.",
        "No puedo encontrar el archivo de configuración.",
        "抱歉，文件不存在。",
        "I hope this helps: the port is 8080.",
        "The rest of the code is in lib.rs.",
        "Wait... the existing code already does this.",
    ] {
        assert_eq!(rule(text, CheckName::Emptiness), None, "{text:?}");
    }
    let mut event = saying("x");
    event.output = None;
    assert!(hits(event, CheckName::Emptiness).is_empty(), "no output is not an empty one");
}

#[test]
fn repetitive_text_is_a_loop_hit() {
    let looping = format!("The plan is clear. {}", "I will check the file now and then again. ".repeat(9));
    let paragraph = "The importer reads each row, checks its date against the calendar of the office, and writes what is \
                     left to the queue for the next run.";
    let tries: Vec<String> = (1..20).map(|n| format!("Try {n}: the server gave no answer, once more.\n")).collect();
    let passed: Vec<String> = (1..20).map(|n| format!("test {n} ... ok\n")).collect();
    let counting = tries.concat();
    for text in [
        counting,
        "x".repeat(900),
        "HA".repeat(300),
        looping,
        format!("{paragraph}\n\n{paragraph}\n\nOne more thing.\n\n{paragraph}\n\nDone."),
    ] {
        assert_eq!(rule(&text, CheckName::Loops).as_deref(), Some("repeated_text"), "{text}");
    }
    for text in [
        "-".repeat(400),
        format!("| a | b |\n{}", "|---|---|\n".repeat(40)),
        "0, 0, 0, 0, ".repeat(40),
        format!("{paragraph}\n\n{paragraph}"),
        "Ha ha ha ha!".to_owned(),
        passed.concat(),
    ] {
        assert_eq!(rule(&text, CheckName::Loops), None, "{text}");
    }
}
