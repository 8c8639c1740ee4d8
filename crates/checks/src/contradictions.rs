//! Check for claims of an output that its tool's result contradicts. In: an event with both. Out: a claim of success
//! over a failed call, or a figure that differs from the result's. The check prefers a miss to a false accusation: an
//! output that mentions any failure claims no success, and figures are compared only where both sides name the same
//! thing once.

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use regex::Regex;
use serde_json::Value;

use super::literal_scanner::LiteralScanner;
use crate::word_lists;
use umbra_domain::{CheckName, Event, FieldName, Hit, Severity, ToolCall};

/// Bytes that are read at each end of a result, where tools report success or failure.
const EDGE: usize = 16 * 1024;
/// Longest output that is read, in bytes: a claim stands in a report, not in a book.
const LONGEST_OUTPUT: usize = 32 * 1024;
/// Length in bytes up to which an output that says it is done says nothing else.
const SHORT: usize = 100;

/// Returns the claims of the output that its tool call contradicts.
pub(super) fn hits(event: &Event) -> Vec<Hit> {
    let (Some(tool), Some(output)) = (&event.tool, event.output.as_deref()) else { return Vec::new() };
    if output.len() > LONGEST_OUTPUT {
        return Vec::new();
    }
    let result = edges(tool.result.as_deref().unwrap_or_default());
    let mut hits = Vec::new();
    if let Some(failure) = failure(tool, &result)
        && let Some(claim) = claim(output, failure != FAILED_TESTS)
    {
        hits.push(hit("success_over_error", claim, format!("The output claims success, but {failure}.")));
    }
    if !result.is_empty() {
        hits.extend(figures(&result, output));
    }
    hits
}

fn hit(rule: &str, span: Range<usize>, description: String) -> Hit {
    Hit::new(CheckName::Contradictions, rule, Severity::Warning, FieldName::fixed("output"), span, description)
}

/// Returns the beginning and the end of a long text.
fn edges(text: &str) -> Cow<'_, str> {
    if text.len() <= 2 * EDGE {
        return Cow::Borrowed(text);
    }
    let head = text.get(..text.floor_char_boundary(EDGE)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - EDGE)..).unwrap_or_default();
    Cow::Owned(format!("{head}\n{tail}"))
}

/// Returns how the call failed, as the end of a sentence.
fn failure(tool: &ToolCall, result: &str) -> Option<&'static str> {
    if tool.error.as_deref().is_some_and(|error| !error.trim().is_empty()) {
        return Some("the tool call returned an error");
    }
    if tool.exit_code.is_some_and(|code| code != 0) {
        return Some(FAILED_PROGRAM);
    }
    of_json(result).or_else(|| of_text(result))
}

/// Returns how a result reports the failure of its call; `in_words` for a command's output.
pub(super) fn of_result(result: &str, in_words: bool) -> Option<&'static str> {
    let result = edges(result);
    of_json(&result).or_else(|| in_words.then(|| of_text(&result)).flatten())
}

/// Returns the failure that a result in JSON reports in its top members.
fn of_json(result: &str) -> Option<&'static str> {
    if !result.trim_start().starts_with('{') {
        return None;
    }
    let value: Value = serde_json::from_str(result).ok()?;
    let at = |names: &[&str]| names.iter().find_map(|name| value.get(name)).unwrap_or(&Value::Null);
    let wrong = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.trim().is_empty() && !text.eq_ignore_ascii_case("none"),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Bool(true) => true,
        Value::Number(number) => number.as_i64() != Some(0),
    };
    if at(&["isError", "is_error"]) == &Value::Bool(true) || wrong(at(&["error", "errors"])) {
        return Some("the tool's result is an error");
    }
    if [at(&["success"]), at(&["ok"])].contains(&&Value::Bool(false)) {
        return Some("the tool's result says that it did not succeed");
    }
    let code = at(&["exit_code", "exitCode", "returncode", "return_code", "exit_status"]);
    if code.as_i64().is_some_and(|code| code != 0) {
        return Some(FAILED_PROGRAM);
    }
    let status = at(&["status", "statusCode", "status_code", "http_status"]);
    let word = status.as_str().unwrap_or_default().to_ascii_lowercase();
    if status.as_i64().is_some_and(|status| (400..600).contains(&status)) {
        return Some("the tool's result has an HTTP error status");
    }
    word_lists::lists("bad_statuses", &word).then_some("the tool's result says that it failed")
}

/// Returns the failure that a result in words reports, by the first sign found.
fn of_text(result: &str) -> Option<&'static str> {
    static SIGNS: LazyLock<(LiteralScanner, Vec<usize>, Vec<Option<Regex>>)> = LazyLock::new(|| {
        let rows = FAILURES.iter().enumerate().flat_map(|(sign, row)| row.literals.iter().map(move |one| (*one, sign)));
        let (literals, signs): (Vec<&str>, Vec<usize>) = rows.unzip();
        (LiteralScanner::new(literals), signs, FAILURES.iter().map(|sign| Regex::new(sign.form).ok()).collect())
    });
    let (needles, signs, forms) = &*SIGNS;
    let mut possible = [false; FAILURES.len()];
    needles.find(result, |literal, _| {
        if let Some(possible) = signs.get(literal).and_then(|sign| possible.get_mut(*sign)) {
            *possible = true;
        }
        true
    });
    let mut signs = FAILURES.iter().zip(forms).zip(possible);
    let ((sign, _), _) =
        signs.find(|((_, form), possible)| *possible && form.as_ref().is_some_and(|form| form.is_match(result)))?;
    Some(sign.says)
}

const FAILED_PROGRAM: &str = "the command exited with a non-zero code";

/// Work on tests continues while some of them fail.
const FAILED_TESTS: &str = "the tool reports failed tests";

/// A sign of failure in a tool's output.
struct Sign {
    /// Literals, case ignored, of which every match of `form` contains one. They are searched first, since expressions
    /// cost ten times as much. None has an `s` or a `k` where the form ignores case: both have further letters there.
    literals: &'static [&'static str],
    form: &'static str,
    says: &'static str,
}

const FAILURES: [Sign; 4] = [
    Sign {
        literals: &["exit", "returncode"],
        form: r"(?im)(?:\bexit(?:ed)?(?:\s+with)?(?:\s+(?:code|status))|\bexit_?code|\breturncode|\breturned non-zero exit status)\W{1,3}[1-9]\d{0,2}\b",
        says: FAILED_PROGRAM,
    },
    Sign {
        literals: &["http/", " code", "error", "500 ", "502 ", "503 ", "504 "],
        form: r"(?im)^(?:<\s*)?HTTP/[\d.]+ [45]\d\d\b|\b(?:request failed with )?status code:? [45]\d\d\b|^[45]\d\d (?:Client|Server) Error\b|\breturned error: [45]\d\d\b|^(?:Error )?50[0234] (?:Internal|Bad|Service|Gateway)\b",
        says: "the tool's result has an HTTP error status",
    },
    Sign {
        literals: &["fail"],
        form: r"(?m)\b[1-9]\d* (?:tests? )?fail(?:ed|ures?|ing)\b|^FAILED \(|^test result: FAILED|^FAIL\s|^--- FAIL: |\bFailures: [1-9]|\bTests:\s+[1-9]\d* failed|\bFAILED\b.*::",
        says: FAILED_TESTS,
    },
    Sign {
        literals: &[
            "traceback",
            "npm err",
            "fatal: ",
            "rejected]",
            "error:",
            "error[",
            "error ts",
            "build failed",
            ": ***",
            "segmentation fault",
            "panic: ",
            ": command not found",
            ": permission denied",
        ],
        form: r"(?m)^Traceback \(most recent call last\):|^npm (?:ERR!|error code)|^fatal: |^ ?! \[(?:remote )?rejected\]|^error: could not compile|^error(?:\[E\d+\])?: |^BUILD FAILED|^FAILURE: Build failed|^make(?:\[\d+\])?: \*\*\* |^Segmentation fault|^panic: |: command not found$|: Permission denied$|^ERROR: failed to|^Error: Process completed with exit code [1-9]|^.{0,200}\berror TS\d+: ",
        says: "the tool's result reports an error",
    },
];

/// Finds the claim that all went well, or (`done_by_act`) that the output's one act took place, unless the output
/// mentions a failure.
fn claim(output: &str, done_by_act: bool) -> Option<Range<usize>> {
    const CLAIM: &str = r"(?i)\b(?:all (?:\w+ ){0,3}(?:tests|checks|specs) (?:are )?(?:now )?(?:pass(?:ed|ing)?|green|succeed(?:ed)?)|(?:the )?tests? (?:suite )?(?:are |is |all )?(?:now )?(?:pass(?:es|ed|ing)?|green)|everything (?:works|passes|passed|is (?:working|green|fine))|(?:has |have |was |were |been )?(?:successfully|sucessfully) \w+|\w+ (?:completed |finished )?successfully|(?:completed|finished|ran|built|compiled|deployed|passed) (?:with(?:out)? (?:any )?(?:no )?(?:errors?|problems|issues)|with no (?:errors?|problems|issues)|cleanly)|(?:no|zero|0) (?:errors?|failures|failed tests)|none (?:of (?:them|the tests) )?failed|(?:build|deployment|deploy|migration|upload|request|command|installation) (?:succeeded|was successful|is complete|completed|worked)|works as expected|e2e green|alle tests (?:sind )?(?:grün|bestanden)|erfolgreich \w+|(?:ohne|sin|sans|senza|sem|zonder|bez|без) (?:fehler|errores|erreurs?|errori|erros|fouten|błędów|ошибок|помилок)|(?:avec|con|com|met) (?:succès|éxito|exito|successo|sucesso|succes)|pomyślnie|успешно|успішно|başarıyla|成功|성공적으로|بنجاح|सफलतापूर्वक)";
    const DONE: &str = r"(?i)^\W*(?:(?:(?:all |it is |it's |that's |das ist |alles |ist |todo |está |è |tutto |tudo |está |het is )?(?:done|fixed|finished|completed?|deployed|shipped|resolved|erledigt|fertig|behoben|abgeschlossen|listo|hecho|terminado|completado|arreglado|fatto|finito|completato|risolto|feito|pronto|concluído|corrigido|klaar|gereed|opgelost|gotowe|zrobione|naprawione|готово|сделано|исправлено|виконано|зроблено|tamamlandı|bitti|düzeltildi)|c['’]est (?:fait|terminé|fini|réglé|corrigé)|terminé|success|succès|éxito|erfolg)\b|(?:已经?)?(?:完成|搞定|修复)|完了|修正しました|できました|완료|수정했습니다|تم |हो गया|पूरा)";
    const ACT: &str = r"(?i)\b(?:(?:i|we)(?:'ve|’ve| have)? (?:now |just )?|(?:was|were|has been|have been) (?:now )?)(?:sent|pushed|transferred|deleted|deployed|published|uploaded|merged|installed|paid|booked|refunded|cancell?ed|restarted|migrated|e-?mailed|delivered|fixed|resolved|submitted|posted|saved|applied|executed|restored|rotated|scheduled|configured|granted|revoked|renewed|backed up)\b|\b(?:habe|wurden?|ist|sind) (?:\S+ ){0,6}?(?:gesendet|gelöscht|behoben|veröffentlicht|überwiesen|installiert|gespeichert)\b|\b(?:he|hemos|ha sido|fue) (?:enviado|borrado|corregido|publicado|instalado|guardado)\b|\bj['’]ai (?:envoyé|supprimé|corrigé|publié|installé|enregistré)\b|\b(?:ho|è stato|abbiamo) (?:inviato|eliminato|corretto|pubblicato|installato|salvato)\b|\b(?:is|are) (?:now )?(?:healthy|up and running|reachable|online)\b";
    // Denials and repairs of a failure are no failure; plans and doubts are no claim.
    const HARMLESS: &str = r"(?i)\bnone (?:of (?:them|the tests) )?failed\b|\b(?:no|without|zero|0) (?:any )?(?:errors?|failures?|failed(?: tests)?|issues?|problems?|warnings?)\b|\b(?:ohne|sin|sans|senza|sem|zonder|bez|без) (?:fehler|errores|erreurs?|errori|erros|fouten|błędów|ошибок|помилок)\b|\berror[- ]free\b|\berror[- ]handling\b|\b(?:errors?|exceptions?) (?:are|is) (?:now )?(?:handled|caught)\b";
    const DOUBT: &str = r"(?i)fail|error|exception|traceback|could ?n[o']t|\bcouldn|unable|\bnot\b|n't\b|n’t\b|cannot|however|\bbut\b|except|unfortunately|although|though|despite|problem|issue|warning|retry|retri|again|broken|refus|denied|timed? ?out|missing|exit code|status [45]\d\d|\b[45]\d\d\b|\bif\b|\bonce\b|\bshould\b|\bwill\b|\bwould\b|\blet me\b|\bnext\b|fehl|nicht|échou|erreur|\bpas\b|fall[óo]|\bno\b|\bnon\b|\bniet\b|\bnão\b|\bnie\b|\bне\b|\bfout|\berro|błąd|ошибк|помилк|hata|değil|失败|错误|没有|未|エラー|失敗|ません|오류|실패|못|فشل|خطأ|नहीं|त्रुटि";
    static FORMS: LazyLock<Option<[Regex; 5]>> = LazyLock::new(|| {
        let compile = |form| Regex::new(form).ok();
        Some([compile(CLAIM)?, compile(DONE)?, compile(ACT)?, compile(HARMLESS)?, compile(DOUBT)?])
    });
    let [claim, done, act, harmless, doubt] = FORMS.as_ref()?;
    let short = output.trim().len() <= SHORT;
    let found = claim
        .find(output)
        .or_else(|| done.find(output).filter(|_| short))
        .or_else(|| (short && done_by_act).then(|| act.find(output))?)?;
    (!doubt.is_match(&harmless.replace_all(output, ""))).then(|| found.range())
}

/// Things that tools count, with an expression for each.
const COUNTED: &[(&str, &str)] = &[
    (
        "tests passed",
        r"(?:(?P<n>\d[\d,]*)|(?P<all>all))(?: of \d+| out of \d+)? (?:\w+ )?(?:tests? )?(?:pass(?:ed|ing|es)?)\b",
    ),
    ("tests failed", r"(?P<n>\d[\d,]*) (?:tests? )?(?:failed|failing|failures?)\b"),
    ("rows", r"(?P<n>\d[\d,]*) rows?\b"),
    ("records", r"(?P<n>\d[\d,]*) records?\b"),
    ("files changed", r"(?P<n>\d[\d,]*) files? (?:were )?changed\b"),
    ("vulnerabilities", r"(?P<n>\d[\d,]*) (?:\w+ )?vulnerabilit(?:y|ies)\b"),
    ("failing tests", r"(?P<n>\d[\d,]*) (?:failing tests?|tests? (?:that )?fail(?:ed|ing)?|failed)\b"),
];

/// Finds a figure of the output that differs from the result's.
fn figures(result: &str, output: &str) -> Option<Hit> {
    static PATTERNS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
        let compile = |(name, form): &(&'static str, &str)| Some((*name, Regex::new(&format!(r"(?i)\b{form}")).ok()?));
        COUNTED.iter().filter_map(compile).collect()
    });
    static TOTAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"(?i)\b(?:grand |invoice |order )?(?:total|amount|balance)(?: amount| price| cost| due)?"?(?: is| was| comes to| came to|:|=| of)? {0,4}(?:[$€£¥]|USD|EUR|GBP)? ?(?P<n>\d[\d,]*\.\d\d)\b"#).ok()
    });
    let patterns = PATTERNS.iter().map(|(name, form)| (*name, form));
    if let Some(hit) = single(result, output) {
        return Some(hit);
    }
    patterns.chain(TOTAL.as_ref().map(|total| ("total", total))).find_map(|(name, form)| {
        let told = only(form, result)?;
        let (claimed, span) = claimed(form, output)?;
        // A figure of the result about other things, or of the output about a part, is another figure.
        let elsewhere = occurs(result, &claimed) || occurs(output, &told);
        (told != claimed && !elsewhere).then(|| {
            hit(
                "figure_differs",
                span,
                format!("The output's number of {name} differs from the tool's result.")
                    .replace("number of total", "total"),
            )
        })
    })
}

/// Compares a result that is one number, alone or as its only member or cell, with an output that gives one number.
fn single(result: &str, output: &str) -> Option<Hit> {
    /// Longest answer that is one figure and little else, in bytes.
    const SHORT_ANSWER: usize = 120;
    static ALONE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"(?i)^\s*(?:\{?\s*"?(?:count|total|sum|rows?|n|result|value|count\(\*\)|exit code|balance)"?\s*[:=]?\s*(?:[-+| ]*\n[-+| ]*)*)?(?P<n>\d[\d,]*(?:\.\d+)?)\s*\}?\s*(?:\(1 row\)\s*)?$"#).ok()
    });
    // A figure that the answer gives as a count, not a name: `there are 48`, unlike `user 48 was added`.
    static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)\b(?:are|is|was|were|has|have|had|holds?|contains?|found|counted|returned|totals?|equals?|ist|sind|hat) (?P<n>\d[\d,]*(?:\.\d+)?)(?:[\s.,;)!]|$)").ok()
    });
    if output.len() > SHORT_ANSWER {
        return None;
    }
    let told = ALONE.as_ref()?.captures(result.trim())?.name("n")?.as_str().replace(',', "");
    // A lone 0 or 1 may also be an exit status.
    if matches!(result.trim(), "0" | "1") {
        return None;
    }
    let (claimed, span) = claimed(NUMBER.as_ref()?, output)?;
    let same = told.parse::<f64>().ok()? - claimed.parse::<f64>().ok()?;
    (same.abs() > f64::EPSILON)
        .then(|| hit("figure_differs", span, "The output's number differs from the tool's result.".to_owned()))
}

/// True if a number stands in a text by itself.
fn occurs(text: &str, number: &str) -> bool {
    let plain = text.replace(',', "");
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    plain.match_indices(number).any(|(at, _)| {
        let bytes = plain.as_bytes();
        !digit(at.checked_sub(1).and_then(|before| bytes.get(before))) && !digit(bytes.get(at + number.len()))
    })
}

/// Returns the figure that a text gives for a thing, if it gives only one.
fn only(form: &Regex, text: &str) -> Option<String> {
    let mut numbers = form.captures_iter(text).filter_map(|found| Some(found.name("n")?.as_str().replace(',', "")));
    let first = numbers.next()?;
    numbers.all(|number| number == first).then_some(first)
}

fn claimed(form: &Regex, output: &str) -> Option<(String, Range<usize>)> {
    let number = only(form, output)?;
    let span = form.captures_iter(output).find_map(|found| found.name("n").and(found.get(0)))?.range();
    // "about 40", "more than 40", "at least 40": an estimate, no figure.
    let before = output.get(..span.start)?.trim_end().rsplit(' ').next().unwrap_or_default().to_ascii_lowercase();
    let vague =
        ["about", "around", "over", "than", "least", "most", "nearly", "almost", "approximately", "~", "first", "of"];
    (!vague.contains(&before.as_str())).then_some((number, span))
}
