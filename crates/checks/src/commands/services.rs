//! Commands that destroy data of services: clusters, clouds, queues, backups, HTTP APIs. In: one call. Out: the loss.
//! Tools are known by name, their acts by the verb of the subcommand.

use super::Detection;
use crate::word_lists;
use umbra_analysis::shell::{ProgramCall, targets::PathKind};
use umbra_domain::Severity::{self, Critical, Warning};

/// Adds the data of services that the call destroys.
pub(super) fn detect_destroyed_services(call: &ProgramCall, sights: &mut Vec<Detection>) {
    match call.program.as_str() {
        "rsync" => {
            let deletes =
                call.args.iter().any(|arg| arg.text.starts_with("--del") || arg.text == "--remove-source-files");
            if deletes
                && !call.has('n', "dry-run")
                && let Some(severity) = mirrored(call)
            {
                sights.push(Detection::of(call, "sync_delete", severity, "deletes files at its source or target."));
            }
        }
        "curl" | "wget" | "http" | "https" | "httpie" | "xh" => http(call, sights),
        program if word_lists::lists("administrative", program.trim_end_matches(".sh")) => administer(call, sights),
        _ => {}
    }
}

/// Returns the severity of mirroring one directory onto another; outputs and inputs of a build are no loss.
fn mirrored(call: &ProgramCall) -> Option<Severity> {
    let operands: Vec<&str> = call.operands().collect();
    let (to, from) = operands.split_last()?;
    let name = |path: &str| path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    let empty = from.iter().any(|path| matches!(name(path).as_str(), "empty" | "blank" | "null"));
    let rebuilt = |path: &str| !path.contains(':') && call.target(path) <= PathKind::Rebuilt;
    let built = !from.is_empty() && from.iter().all(|path| rebuilt(path));
    match () {
        () if empty && (to.contains(':') || call.target(to) >= PathKind::Outside) => Some(Critical),
        () if rebuilt(to) || built => None,
        () => Some(Warning),
    }
}

fn http(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let texts: Vec<&str> = call.args.iter().map(|arg| arg.text.as_str()).collect();
    let method = texts
        .windows(2)
        .find_map(|pair| match pair {
            ["-X" | "--request" | "--method", method] => Some(*method),
            _ => None,
        })
        .or_else(|| {
            texts.iter().find_map(|arg| {
                arg.strip_prefix("-X")
                    .or_else(|| arg.strip_prefix("--request="))
                    .or_else(|| arg.strip_prefix("--method="))
            })
        });
    let deletes = method.is_some_and(|method| method.eq_ignore_ascii_case("delete"))
        || matches!(texts.first(), Some(&("DELETE" | "delete")));
    let posts = method.is_some_and(|method| method.eq_ignore_ascii_case("post"));
    let path = [
        "_delete_by_query",
        "/doDelete",
        "/delete",
        "/destroy",
        "/purge",
        "/_close",
        "/_shutdown",
        "/doWipeOutWorkspace",
    ];
    if deletes || posts && texts.iter().any(|arg| arg.contains("://") && path.iter().any(|end| arg.contains(end))) {
        let severity = if deletes && texts.iter().any(|arg| names_all(arg)) { Critical } else { Warning };
        sights.push(Detection::of(call, "http_delete", severity, "sends a delete request over HTTP."));
    }
}

/// True if a URL means all data of a service: `http://es:9200/_all`, `…/*`.
fn names_all(url: &str) -> bool {
    let place = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = place.split_once('/').map(|(_, path)| path.split(['?', '#']).next().unwrap_or_default());
    path.is_some_and(|path| {
        matches!(path.trim_end_matches('/'), "_all" | "*" | "_data_stream/*" | "_snapshot/*" | "**")
    })
}

fn administer(call: &ProgramCall, sights: &mut Vec<Detection>) {
    if call.args.iter().any(|arg| {
        matches!(
            arg.text.as_str(),
            "--dry-run" | "--dryrun" | "--dry-run=client" | "--dry-run=server" | "--what-if" | "--help" | "-h"
        )
    }) {
        return;
    }
    let words = subcommands(call);
    // A subcommand is a word, not a resource: `kubectl get delete-me` deletes nothing.
    let verb = words.iter().enumerate().find_map(|(at, word)| {
        let is_word = word.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'-' | b'_' | b':'));
        // `delete-bucket`, `delete_vhost`, `repo-delete`, `apps:destroy`.
        let mut parts = word.split(['-', '_', ':']);
        let names = word_lists::lists("removing", word)
            || (at < 2 || names_act(call, word))
                && *word != "force-with-lease"
                && parts.any(|part| word_lists::lists("removing", part))
                && !word.starts_with("list-")
                && !word.starts_with("get-")
                && !word.starts_with("describe-");
        // Clouds take the service first, and some have a service called `logs` or `run`.
        let cloud = matches!(call.program.as_str(), "aws" | "gcloud" | "az" | "oci");
        let reads = words.iter().take(at).any(|word| {
            ["get", "list", "describe", "show", "ls", "create", "help"].contains(word)
                || !cloud && ["logs", "status", "add", "run", "exec", "install", "test"].contains(word)
        });
        (is_word && names && !reads).then_some(*word)
    });
    let flag = call.args.iter().map(|arg| arg.text.as_str()).find(|arg| {
        arg.starts_with("--delete")
            || *arg == "--remove-source-files"
            || matches!(*arg, "--purge" | "-purge" | "--force-delete")
    });
    let moves = call.program == "rclone" && matches!(words.first(), Some(&("move" | "moveto" | "cleanup")));
    let named = call.program.split('-').any(|part| part == "delete");
    if !named && verb.is_none() && flag.is_none() && !moves && !deletes_by_api(call) {
        return;
    }
    if is_routine(call, &words) {
        return;
    }
    let severity = if is_wholesale(call, &words) { Critical } else { Warning };
    let what = format!("`{}` deletes data or resources that `{}` manages.", call.shown(), call.program);
    sights.push(Detection::new("service_destruction", severity, what));
}

/// Returns the first operands, without the values of options before a subcommand: `aws --profile prod ec2 …`.
fn subcommands(call: &ProgramCall) -> Vec<&str> {
    let mut args = call.args.iter().map(|arg| arg.text.as_str());
    let mut words = Vec::new();
    while let Some(arg) = args.next().filter(|_| words.len() < 4) {
        if word_lists::lists("with_value", arg) {
            args.next();
        } else if !arg.starts_with('-') {
            words.push(arg);
        }
    }
    words
}

/// True if a word stands in the place of a cloud's verb, before any option: `az storage blob delete-batch`.
fn names_act(call: &ProgramCall, word: &str) -> bool {
    let before = call.args.iter().map(|arg| arg.text.as_str()).take_while(|arg| *arg != word);
    let ends = word.split('-').next_back().is_some_and(|last| word_lists::lists("removing", last));
    let begins = word.split('-').next().is_some_and(|first| word_lists::lists("removing", first));
    (begins || ends) && word.contains('-') && before.take(4).all(|arg| !arg.starts_with('-'))
}

fn deletes_by_api(call: &ProgramCall) -> bool {
    let api = call.operands().next() == Some("api");
    api && call.args.iter().any(|arg| matches!(arg.text.as_str(), "DELETE" | "-XDELETE" | "--method=DELETE"))
}

/// True for everyday work: removing a container, a package or a dependency.
fn is_routine(call: &ProgramCall, words: &[&str]) -> bool {
    let first = words.first().copied().unwrap_or_default();
    match call.program.as_str() {
        "docker" | "podman" | "nerdctl" => {
            // A substitution may name everything there is.
            if matches!(first, "rm" | "rmi") && call.args.iter().any(|arg| !arg.runs.is_empty()) {
                return false;
            }
            let kind = words.get(1).copied().unwrap_or_default();
            !(first == "volume"
                || first == "system"
                || matches!(first, "swarm" | "stack" | "service" | "secret" | "config" | "node")
                || matches!(first, "network" | "image" | "container" | "builder")
                    && words.get(1) == Some(&"prune")
                    && call.has('a', "all")
                || call.has('v', "volumes") && first == "compose")
                || kind == "inspect"
        }
        "docker-compose" => !call.has('v', "volumes"),
        // Clusters for experiments, and pods that a controller starts again.
        "minikube" | "kind" | "k3d" => true,
        "kubectl" | "oc" => {
            let kind = words.get(1).copied().unwrap_or_default();
            let one = matches!(kind, "pod" | "pods" | "po") && words.len() > 2
                || kind.starts_with("pod/")
                || kind.starts_with("pods/");
            one && !call.args.iter().any(|arg| matches!(arg.text.as_str(), "--all" | "-l" | "-A" | "--selector"))
        }
        "npm" | "pnpm" | "yarn" | "gem" | "cargo" => !matches!(first, "unpublish" | "yank" | "owner"),
        "systemctl" => !matches!(first, "disable"),
        "terraform" | "tofu" | "pulumi" => first == "workspace" && words.get(1) == Some(&"select"),
        _ => false,
    }
}

/// True if the call removes a whole environment, bucket, database or project at once.
fn is_wholesale(call: &ProgramCall, words: &[&str]) -> bool {
    let first = words.first().copied().unwrap_or_default();
    let second = words.get(1).copied().unwrap_or_default();
    match call.program.as_str() {
        "terraform" | "tofu" | "terragrunt" | "pulumi" | "cdk" | "cdktf" => matches!(first, "destroy" | "run-all"),
        "kubectl" | "oc" => {
            matches!(second, "ns" | "namespace" | "namespaces" | "node" | "pv" | "crd" | "project")
                || call.args.iter().any(|arg| arg.text == "--all" || arg.text == "--all=true")
        }
        "aws" => {
            first == "s3" && (second == "rb" || second == "rm" && call.has_long("recursive"))
                || second == "delete-db-instance"
                || second == "terminate-instances"
        }
        "gsutil" => call.has('r', "recursive") || first == "rb",
        "gcloud" => words.contains(&"projects") || words.contains(&"instances") || words.contains(&"clusters"),
        "az" => first == "group",
        "gh" | "glab" => first == "repo",
        "rclone" => first == "purge",
        "docker" | "podman" => first == "system" && call.has_long("volumes"),
        // Every key from a prefix on; the empty prefix means all keys.
        "etcdctl" => {
            let all = call.has_long("prefix") || call.has_long("from-key");
            all && matches!(call.operands().nth(1), None | Some("" | "/" | "\\0"))
        }
        "firebase" | "supabase" | "prisma" => true,
        _ => false,
    }
}
