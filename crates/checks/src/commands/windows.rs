//! Windows programs that fetch or run other code under a trusted name ("living off the land"). In: one call and its
//! text. Out: detections. Names are those of the binaries that Windows, Office and the SDKs ship; names that are also
//! ordinary words count only when written with `.exe`.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::{Detection, lexicon};
use umbra_analysis::shell::ProgramCall;
use umbra_domain::Severity::Warning;

/// True if a text names one of these programs.
pub(super) fn names_proxy(text: &str) -> bool {
    static NAMES: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(lexicon::PROXIES.iter()).ok());
    NAMES.as_ref().is_some_and(|names| names.is_match(text))
}

/// Adds a call that fetches or runs code under a trusted name.
pub(super) fn detect_misused_programs(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let program = call.program.as_str();
    // A Windows program with a URL or a share as an argument runs or fetches its content.
    let remote = call.is_exe
        && !matches!(program, "curl" | "wget" | "git" | "ssh")
        && call.args.iter().any(|arg| arg.text.contains("://") || arg.raw.contains("\\\\"));
    let listed = remote || lexicon::PROXIES.contains(program) || call.is_exe && lexicon::ORDINARY.contains(program);
    // A Windows script that runs its arguments, wherever it is named: `. C:\\…\\CL_Invocation.ps1`.
    let script = || {
        call.args.iter().any(|arg| {
            let name =
                arg.raw.trim_matches(['"', '\'']).rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
            [".ps1", ".vbs", ".bat", ".wsf"].iter().any(|ending| name.ends_with(ending))
                && lexicon::PROXIES.contains(name.as_str())
        })
    };
    let listed = listed || script();
    let asks = call.args.iter().any(|arg| matches!(arg.text.as_str(), "/?" | "-?" | "--help" | "--version"));
    if listed && !asks {
        sights.push(Detection::new(
            "living_off_the_land",
            Warning,
            format!("`{}` can run or fetch code through a trusted program.", call.shown()),
        ));
    }
    // `ftp -s:FILE` runs the commands of a file, `ssh -o ProxyCommand` any program, `tar …:NAME` a hidden stream.
    let hidden = match program {
        "ftp" => call.args.iter().any(|arg| arg.text.to_ascii_lowercase().starts_with("-s:")),
        "ssh" | "scp" | "sftp" => call.args.iter().any(|arg| {
            let option = arg.text.trim_start_matches("-o");
            ["ProxyCommand=", "LocalCommand=", "PKCS11Provider=", "SecurityKeyProvider="]
                .iter()
                .any(|name| option.starts_with(name))
        }),
        "ssh-keygen" | "ssh-add" | "ssh-agent" => {
            call.args.iter().any(|arg| arg.raw.contains(".dll") || arg.text.contains(".so"))
        }
        _ => false,
    };
    if hidden {
        let what = format!("`{}` makes a trusted program run another program.", call.shown());
        sights.push(Detection::new("living_off_the_land", Warning, what));
    }
    if program == "certutil"
        && call.args.iter().any(|arg| {
            matches!(
                arg.text.trim_start_matches(['-', '/']).to_ascii_lowercase().as_str(),
                "urlcache" | "decode" | "decodehex" | "verifyctl"
            )
        })
    {
        sights.push(Detection::new(
            "living_off_the_land",
            Warning,
            "Uses `certutil` to fetch or decode a file.".to_owned(),
        ));
    }
}
