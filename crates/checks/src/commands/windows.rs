//! Windows programs that fetch or run other code under a trusted name ("living off the land"). In: one call and its
//! text. Out: detections. Names are those of the binaries that Windows, Office and the SDKs ship; names that are also
//! ordinary words count only when written with `.exe`.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::Detection;
use crate::word_lists;
use umbra_analysis::shell::ProgramCall;
use umbra_domain::Severity::Warning;

/// True if a text names one of these programs.
pub(super) fn names_proxy(text: &str) -> bool {
    static NAMES: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(word_lists::words("proxies")).ok());
    NAMES.as_ref().is_some_and(|names| names.is_match(text))
}

/// Returns a script with the quotes closed behind paths that end with a backslash (`"C:\\dir\\"`), which a shell reads as
/// an escaped quote; `None` where there is none. Places stay.
pub(super) fn with_closed_paths(script: &str) -> Option<String> {
    const ENDS: [&str; 5] = ["\\\" ", "\\\"\n", "\\\")", "\\\",", "\\\";"];
    let is_windows = || [":\\", "$env:", "%\\"].iter().any(|sign| script.contains(sign));
    let closed = || ENDS.iter().fold(script.to_owned(), |text, end| text.replace(end, &end.replace('\\', "/")));
    (script.contains("\\\"") && is_windows()).then(closed).filter(|text| text != script)
}

/// Adds a call that fetches or runs code under a trusted name.
pub(super) fn detect_misused_programs(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let program = call.program.as_str();
    // A Windows program with a URL or a share as an argument runs or fetches its content.
    let remote = call.is_exe
        && !matches!(program, "curl" | "wget" | "git" | "ssh")
        && call.args.iter().any(|arg| arg.text.contains("://") || arg.raw.contains("\\\\"));
    let listed =
        remote || word_lists::lists("proxies", program) || call.is_exe && word_lists::lists("ordinary", program);
    // A Windows script that runs its arguments, wherever it is named: `. C:\\…\\CL_Invocation.ps1`.
    let script = || {
        call.args.iter().any(|arg| {
            let name =
                arg.raw.trim_matches(['"', '\'']).rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
            [".ps1", ".vbs", ".bat", ".wsf"].iter().any(|ending| name.ends_with(ending))
                && word_lists::lists("proxies", &name)
        })
    };
    let listed = listed || script();
    let asks = call.args.iter().any(|arg| matches!(arg.text.as_str(), "/?" | "-?" | "--help" | "--version"));
    if listed && !asks {
        let does = "can run or fetch code through a trusted program.";
        sights.push(Detection::of(call, "living_off_the_land", Warning, does));
    }
}
