//! Tests of the shell reader alone: scripts with the calls that they make. Rules on these calls are tested in checks.

use super::{LONGEST_SCRIPT, Parsed, ProgramCall, ScriptBudget, parse, resolve};

fn parse_alone(script: &str) -> Parsed {
    parse(script, &ScriptBudget::of(script.len()))
}

/// Calls of a script, each as program and arguments, without the scripts within it.
fn calls(script: &str) -> Vec<String> {
    let shown = |call: &ProgramCall| {
        let args = call.args.iter().map(|arg| arg.text.as_str());
        std::iter::once(call.program.as_str()).chain(args).collect::<Vec<_>>().join(" ")
    };
    parse_alone(script)
        .pipelines
        .into_iter()
        .flat_map(|pipeline| resolve(pipeline).calls.iter().map(shown).collect::<Vec<_>>())
        .collect()
}

#[test]
fn calls_are_resolved_without_wrappers_quotes_and_variables() {
    for (script, expected) in [
        ("sudo -u root env A=1 rm -rf '/srv/data'", &["rm -rf /srv/data"][..]),
        ("d=srv; r\\m \"/$d/x y\" $e", &["d=srv", "rm /srv/x y $e"]),
        ("cat list | xargs -n1 git rm", &["cat list", "git rm"]),
        ("/BIN/R? -f x", &["rm -f x"]),
        ("ls $x\n\\rm -rf /srv\n  \\dd if=/dev/zero", &["ls $x", "rm -rf /srv", "dd if=/dev/zero"]),
        ("awk -F\" \" '{print}' a", &["awk -F  {print} a"]),
        ("", &[]),
    ] {
        assert_eq!(calls(script), expected, "{script}");
    }
}

#[test]
fn nested_scripts_are_returned_with_their_runner() {
    for (script, text, by) in [
        ("bash -c 'rm -rf \"$1\"' x /srv", "rm -rf \"/srv\"", "bash -c"),
        ("ssh ops@db1 'systemctl stop app'", "systemctl stop app", "ssh ops@db1"),
        ("sh <<EOF\nreboot\nEOF", "reboot\n", "sh"),
    ] {
        let resolved: Vec<_> = parse_alone(script).pipelines.into_iter().map(resolve).collect();
        let scripts = resolved.iter().flat_map(|resolved| &resolved.scripts);
        let scripts: Vec<_> = scripts.map(|script| (script.text.as_str(), script.by.as_str())).collect();
        assert_eq!(scripts, [(text, by)], "{script}");
    }
}

#[test]
fn unread_offset_is_where_the_parser_stopped() {
    let long = format!("# {}", "x".repeat(LONGEST_SCRIPT));
    let barred = format!("# {}", "|".repeat(1_100));
    for (script, unread_from) in [
        ("rm -rf /srv\n", 12),
        ("", 0),
        (&long, LONGEST_SCRIPT),
        // Two bytes and a thousand bars.
        (&barred, 1_002),
    ] {
        assert_eq!(parse_alone(script).unread_from, unread_from, "{} bytes", script.len());
    }
}

#[test]
fn script_without_budget_is_unread_from_its_start() {
    let budget = ScriptBudget::of(0);
    budget.spend(usize::MAX);
    let parsed = parse("rm -rf /srv; rm -rf /home/user/projects", &budget);
    assert_eq!((parsed.unread_from, parsed.pipelines.len()), (0, 0));
    assert!(!budget.is_over(), "whether the rest matters is for the caller to say");
}
