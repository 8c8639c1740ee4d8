//! Commands that read credentials and send them away. In: a pipeline's calls and its text. Out: what leaves, and how.
//! It knows files that hold credentials by name, and programs that send by their options.

use super::{Sight, resolve::Call, targets::is_credential_file};
use crate::domain::Severity::{Critical, Warning};

/// Programs that show or copy a file.
const READERS: [&str; 13] =
    ["cat", "less", "more", "head", "tail", "strings", "xxd", "base64", "cp", "tar", "zip", "bat", "type"];

/// What the pipeline reads or sends; `raw` is its text.
pub(super) fn look(calls: &[Call], raw: &str, sights: &mut Vec<Sight>) {
    let secret = calls.iter().any(|call| {
        let reads = matches!(call.program.as_str(), "env" | "printenv") && call.args.is_empty() && calls.len() > 1;
        reads
            || call.args.iter().any(|arg| {
                is_credential_file(&arg.raw) || arg.runs.iter().any(|program| program == "printenv" || program == "env")
            })
    });
    let socket = raw.contains("/dev/tcp/");
    if let Some(sender) = calls.iter().find(|call| secret && (socket || sends(call))) {
        let what = format!("Credentials are read and sent to another host by {}.", sender.program);
        sights.push(Sight::new("exfiltration", Critical, what));
        return;
    }
    let reader =
        calls.iter().find(|call| READERS.contains(&call.program.as_str()) && call.operands().any(is_credential_file));
    if let Some(call) = reader {
        sights.push(Sight::new(
            "reads_credentials",
            Warning,
            format!("`{}` reads a file that holds credentials.", call.shown()),
        ));
    }
}

/// Whether the call sends data to another host.
fn sends(call: &Call) -> bool {
    let texts = || call.args.iter().map(|arg| arg.text.as_str());
    match call.program.as_str() {
        "curl" => {
            let body = texts().any(|arg| {
                arg.starts_with("-d")
                    || arg.starts_with("--data")
                    || arg.starts_with("-F")
                    || arg.starts_with("--form")
                    || arg.starts_with("-T")
                    || arg == "--upload-file"
                    || arg == "--json"
            });
            let inline = call.args.iter().any(|arg| !arg.runs.is_empty());
            (body || inline)
                && !texts()
                    .any(|arg| ["://localhost", "://127.0.0.1", "://[::1]"].iter().any(|host| arg.contains(host)))
        }
        "wget" => {
            texts().any(|arg| arg.starts_with("--post") || arg.starts_with("--body"))
                || call.args.iter().any(|arg| !arg.runs.is_empty())
        }
        "nc" | "ncat" | "netcat" | "socat" | "telnet" | "ftp" | "sftp" | "tftp" | "mail" | "mailx" | "sendmail"
        | "mutt" | "ssh" => true,
        "scp" | "rsync" => call.operands().last().is_some_and(|to| to.contains(':')),
        "dig" | "nslookup" | "host" | "ping" => call.args.iter().any(|arg| !arg.runs.is_empty()),
        "aws" | "gsutil" | "rclone" | "s3cmd" => {
            call.operands().any(|word| matches!(word, "cp" | "mv" | "sync" | "copy" | "put"))
        }
        "gh" => call.operands().any(|word| word == "gist"),
        _ => false,
    }
}
