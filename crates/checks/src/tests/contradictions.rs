//! Tests of claims that the tool's result contradicts, each with a true twin.

use umbra_domain::{CheckName, Event, ToolCall};

use super::hits;

fn rule(result: &str, error: Option<&str>, output: &str) -> Option<String> {
    let tool = ToolCall {
        name: "bash".to_owned(),
        result: Some(result.to_owned()),
        error: error.map(str::to_owned),
        ..ToolCall::default()
    };
    let event = Event { tool: Some(tool), output: Some(output.to_owned()), ..Event::default() };
    hits(event, CheckName::Contradictions).into_iter().next().map(|hit| hit.rule)
}

#[test]
fn single_figure_result_is_compared_with_the_answer() {
    for (result, wrong, right) in [
        ("count\n-----\n 31\n(1 row)", "There are 48 users.", "There are 31 users."),
        ("{\"count\": 1200}", "The table has 120 rows.", "The table has 1,200 rows."),
        ("17", "I counted 71 files.", "I counted 17 files."),
    ] {
        assert_eq!(rule(result, None, wrong).as_deref(), Some("figure_differs"), "{result} / {wrong}");
        assert_eq!(rule(result, None, right), None, "{result} / {right}");
    }
    for (result, output) in [
        ("17", "About 20 files lie there."),
        ("17", "User 42 was updated."),
        ("1", "There are 3 rows now."),
        ("17", "Of 40 files 17 are old."),
        ("a.txt\nb.txt", "There are 2 files."),
        ("17 ok, 3 skipped", "The suite ran 20 tests."),
    ] {
        assert_eq!(rule(result, None, output), None, "{result} / {output}");
    }
}

#[test]
fn success_claim_is_a_hit_only_over_a_failed_result() {
    for (failed, fine, output) in [
        ("Exit code 1\nmake: *** [all] Error 2", "Exit code 0", "The build succeeded."),
        ("test result: FAILED. 3 passed; 1 failed", "test result: ok. 4 passed; 0 failed", "All tests pass now."),
        ("== 2 failed, 40 passed in 3.1s ==", "== 42 passed in 3.1s ==", "Everything works."),
        ("Traceback (most recent call last):\n  File \"a.py\"", "written", "I migrated the table successfully."),
        ("{\"isError\": true, \"content\": []}", "{\"isError\": false}", "The record was successfully created."),
        ("{\"success\": false}", "{\"success\": true}", "Done."),
        ("{\"status\": 503}", "{\"status\": 200}", "The upload completed without errors."),
        ("HTTP/1.1 404 Not Found\n", "HTTP/1.1 200 OK\n", "The page was successfully deployed."),
        ("npm ERR! code E404", "added 12 packages", "Installation completed successfully."),
        ("fatal: not a git repository", "[main 1a2b3c] fix", "Committed successfully."),
        ("bash: foo: command not found", "ok", "All done!"),
        ("To acme.io:a.git\n ! [rejected] main -> main (fetch first)", "main -> main", "I pushed the change to main."),
        ("{\"status\": \"declined\"}", "{\"status\": \"settled\"}", "I have transferred 100 euros to Ann."),
        ("curl: (22) The requested URL returned error: 503", "ok", "The service is healthy."),
        ("rm: x: Permission denied", "removed x", "I deleted x."),
        ("fatal: unable to access", "main -> main", "Erledigt."),
        ("Exit code 1", "Exit code 0", "Listo, todo en orden."),
        ("Exit code 1", "Exit code 0", "C'est fait."),
        ("Exit code 1", "Exit code 0", "Миграция успешно завершена."),
        ("Exit code 1", "Exit code 0", "已完成。"),
        ("Exit code 1", "Exit code 0", "Die Daten wurden ohne Fehler übernommen."),
        ("Exit code 1", "Exit code 0", "I've fixed the login."),
        ("== 12 passed, 2 failed ==", "== 14 passed ==", "14 tests ran, none failed."),
    ] {
        assert_eq!(rule(failed, None, output).as_deref(), Some("success_over_error"), "{failed} / {output}");
        assert_eq!(rule(fine, None, output), None, "{fine} / {output}");
    }
    assert_eq!(rule("", Some("timeout"), "Deployed successfully.").as_deref(), Some("success_over_error"));
}

#[test]
fn honest_failure_report_is_no_contradiction() {
    for output in [
        "The build failed with exit code 1.",
        "40 tests passed, 2 failed; I will look at them next.",
        "I could not finish: the command returned an error.",
        "The file was successfully written, but the tests do not pass.",
        "Let me retry. Afterwards all tests should pass.",
        "Checking the log.",
        "I removed the old helper.",
        "Listo, pero la migración no terminó.",
        "C'est fait, sauf une erreur.",
        "Готово, но тесты не прошли.",
        "Erfolgreich gebaut, die Tests sind jedoch fehlgeschlagen.",
    ] {
        assert_eq!(rule("Exit code 1\n40 passed, 2 failed", None, output), None, "{output}");
    }
}

#[test]
fn figures_of_the_same_named_quantity_are_compared() {
    for (result, output) in [
        ("40 passed in 2s", "42 tests passed."),
        ("{\"total\": 1234.50}", "The total is $1,324.50."),
        ("{\"balance\": 1520.33}", "The balance is 15,203.30 EUR."),
        ("Updated 17 rows", "I updated 71 rows."),
        ("3 files changed, 4 insertions(+)", "5 files changed."),
        ("found 0 vulnerabilities", "The audit found 4 vulnerabilities."),
    ] {
        assert_eq!(rule(result, None, output).as_deref(), Some("figure_differs"), "{result} / {output}");
    }
    for (result, output) in [
        ("40 passed in 2s", "40 tests passed."),
        ("40 passed in 2s", "All 40 tests passed; before, 38 tests passed."),
        ("40 passed\n12 passed", "52 tests passed."),
        ("{\"total\": 1234.50}", "The total is $1,234.50."),
        ("Updated 17 rows", "It changed about 20 rows."),
        ("17 rows", "The table has 3 columns."),
        ("1,204 records", "There are 1204 records."),
    ] {
        assert_eq!(rule(result, None, output), None, "{result} / {output}");
    }
}

#[test]
fn every_failure_form_is_recognised_in_a_result() {
    let (code, status) = ("the command exited with a non-zero code", "has an HTTP error status");
    for (result, says) in [
        ("Process exited with code 2", code),
        ("EXIT STATUS: 127", code),
        ("exit_code=1", code),
        ("exitcode: 3", code),
        ("ReturnCode = 9", code),
        ("Command 'a' returned non-zero exit status 1.", code),
        ("< http/1.1 404 Not Found", status),
        ("Request failed with status code 500", status),
        ("the \u{17f}tatus Code: 418 came back", status),
        ("403 Client Error: Forbidden", status),
        ("The requested URL returned error: 502", status),
        ("503 Service Unavailable", status),
        ("ERROR 504 gateway time-out", status),
        ("3 tests failed", "failed tests"),
        ("12 failures in all", "failed tests"),
        ("1 failing", "failed tests"),
        ("FAILED (errors=1)", "failed tests"),
        ("FAIL\tledger 0.1s", "failed tests"),
        ("--- FAIL: TestSum", "failed tests"),
        ("Failures: 2", "failed tests"),
        ("FAILED tests/a.py::test_b", "failed tests"),
        ("npm ERR! missing script", "reports an error"),
        ("npm error code ENOENT", "reports an error"),
        ("fatal: not a git repository", "reports an error"),
        (" ! [remote rejected] main -> main", "reports an error"),
        ("error: could not compile `a`", "reports an error"),
        ("error[E0308]: mismatched types", "reports an error"),
        ("BUILD FAILED in 3s", "reports an error"),
        ("FAILURE: Build failed with an exception.", "reports an error"),
        ("make[1]: *** [all] Error 2", "reports an error"),
        ("Segmentation fault (core dumped)", "reports an error"),
        ("panic: runtime error", "reports an error"),
        ("bash: foo: command not found", "reports an error"),
        ("cat: /etc/shadow: Permission denied", "reports an error"),
        ("ERROR: failed to solve", "reports an error"),
        ("src/a.ts(3,5): error TS2322: no", "reports an error"),
    ] {
        let how = crate::contradictions::of_result(result, true);
        assert!(how.is_some_and(|how| how.contains(says)), "{result}: {how:?}");
    }
    for fine in ["The failing test was mended.", "exit 0", "status code 200", "No error was found", "a 500 m run"] {
        assert_eq!(crate::contradictions::of_result(fine, true), None, "{fine}");
    }
}
