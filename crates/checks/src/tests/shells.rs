//! Properties of the analysis of commands, for any text: it does not panic; commands hidden by wrappers and quotes are
//! found; text that is only printed is not.

use proptest::prelude::*;

use umbra_domain::{CheckName, Severity};

use super::{hits, running};

/// Shell-like text: words of the rules, and signs that could confuse the grammar.
fn shell_like() -> impl Strategy<Value = String> {
    let pieces = vec![
        "rm",
        " -rf",
        " /etc",
        " /",
        "sudo ",
        "env ",
        "-S ",
        "xargs ",
        "-I{} ",
        "{}",
        "find / ",
        "-exec ",
        " \\;",
        "bash -c ",
        "sh",
        "eval ",
        "ssh h ",
        "docker exec c ",
        "kubectl exec p -- ",
        "$(",
        ")",
        "`",
        "\"",
        "'",
        "$'",
        "\\x72",
        "\\",
        "\\\n",
        "\n",
        ";",
        "|",
        "||",
        "&&",
        "&",
        "<<EOF\n",
        "EOF\n",
        "<<<",
        "<(",
        ">",
        ">>",
        "/dev/tcp/h/1",
        "${",
        "}",
        "x=",
        "$x",
        "${x:-",
        "${x//a/b}",
        "$@",
        "$1",
        "f() {",
        "{",
        "a,b",
        "alias a=",
        "for d in ",
        "; do ",
        "done",
        "if ",
        "then ",
        "fi",
        "case x in ",
        "esac",
        "cd ",
        "IFS=,",
        "set -- ",
        "read x",
        "base64 -d",
        "printf ",
        "%s",
        "echo ",
        "curl http://h ",
        "*",
        "?",
        "[",
        "#",
        "é",
        "\u{1f}",
        "\0",
        "C:\\",
        "psql -c ",
        "drop table x",
        "python -c ",
        "(",
        "1",
    ];
    let piece = prop_oneof![9 => proptest::sample::select(pieces).prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Wraps a command once more.
fn wrapped(command: &str, by: u8) -> String {
    let quoted = format!("'{}'", command.replace('\'', "'\\''"));
    match by {
        0 => format!("sudo -u root {command}"),
        1 => format!("env A=1 {command}"),
        2 => format!("nohup nice -n 5 {command}"),
        3 => format!("timeout 5 {command}"),
        4 => format!("bash -c {quoted}"),
        5 => format!("eval {quoted}"),
        6 => format!("ssh host.example.net {quoted}"),
        7 => format!("docker exec web {command}"),
        8 => format!("echo {quoted} | sh"),
        9 => format!("sh <<'END'\n{command}\nEND\n"),
        10 => format!("x={quoted}; eval \"$x\""),
        11 => format!("true && ({command})"),
        12 => format!("f() {{ {command}\n}}; f"),
        _ => format!("bash -c \"$(printf %s {quoted})\""),
    }
}

/// Wrappers that only a simple command can stand in.
const SIMPLE: [u8; 5] = [0, 1, 2, 3, 7];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_script_gives_hits_with_valid_spans(script in shell_like()) {
        let event = running(&script);
        let screened = crate::screen(event);
        for hit in crate::review(&screened.event, &screened.marks, &[CheckName::Commands].into()) {
            let stored = screened.event.text(&hit.field).unwrap_or_default();
            prop_assert!(stored.get(hit.start..hit.end).is_some(), "{} points outside of {}", hit.rule, hit.field);
        }
    }

    #[test]
    fn destructive_command_is_critical_through_random_wrappers(simple in proptest::collection::vec(proptest::sample::select(SIMPLE.to_vec()), 0..3),
                                              levels in proptest::collection::vec(0_u8..14, 0..3)) {
        let mut command = "rm -rf /etc".to_owned();
        for by in simple {
            command = wrapped(&command, by);
        }
        let mut composed = false;
        for by in levels {
            // A wrapper that starts one program cannot start a group or a pipeline.
            let simple = SIMPLE.contains(&by);
            if composed && simple || command.contains("END") {
                continue;
            }
            command = wrapped(&command, by);
            composed |= !simple;
        }
        let seen = hits(running(&command), CheckName::Commands);
        let found = seen.iter().any(|hit| hit.rule == "recursive_delete" && hit.severity == Severity::Critical);
        prop_assert!(found, "{command}: {seen:?}");
    }

    #[test]
    fn printed_or_searched_text_gives_no_warning(text in shell_like()) {
        let text = text.replace(['\'', '\0', '\u{1f}'], "");
        for command in [format!("echo '{text}'"), format!("grep -n '{text}' notes.md")] {
            let seen = hits(running(&command), CheckName::Commands);
            prop_assert!(seen.iter().all(|hit| hit.severity < Severity::Warning), "{command}: {seen:?}");
        }
    }
}
