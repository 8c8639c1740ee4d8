//! Commands that give rights, open what was closed, or stop the records in clusters and clouds. In: one call. Out: who
//! may do what from then on. What they delete is told by `services`.

use super::Sight;
use umbra_analysis::shell::Call;
use umbra_domain::Severity::{Critical, Warning};

/// What the call gives, opens or stops.
pub(super) fn look(call: &Call, sights: &mut Vec<Sight>) {
    let words: Vec<&str> = call.args.iter().map(|arg| arg.text.as_str()).collect();
    let says = |word: &str| words.contains(&word);
    let holds = |part: &str| words.iter().any(|word| word.contains(part));
    let sight = match call.program.as_str() {
        "aws" => aws(&words),
        "gcloud" => {
            let grants = holds("add-iam-policy-binding");
            let owner =
                holds("roles/owner") || holds("roles/editor") || holds("allUsers") || holds("allAuthenticatedUsers");
            let key = says("service-accounts") && says("keys") && says("create");
            (grants && owner || key).then_some(("cloud_rights", "gives rights over the project, or a key to it"))
        }
        "az" => (says("role") && says("assignment") && says("create") || says("create-for-rbac"))
            .then_some(("cloud_rights", "gives rights over the subscription, or a key to it")),
        "gsutil" => ((says("acl") || says("iam")) && (holds("AllUsers") || holds("allUsers") || says("public-read")))
            .then_some(("cloud_exposure", "opens a bucket to everyone")),
        "kubectl" | "oc" => kubernetes(call, &words),
        "helm" if says("rollback") => Some(("service_change", "puts an earlier version in the place of what runs")),
        "terraform" | "tofu" | "terragrunt" if says("-destroy") || says("destroy-all") => {
            let plans = call.operands().next() == Some("plan");
            (!plans).then_some(("service_destruction", "destroys what it manages"))
        }
        _ => None,
    };
    if let Some((rule, what)) = sight {
        let severity = if rule == "service_destruction" { Critical } else { Warning };
        sights.push(Sight::new(rule, severity, format!("`{}` {what}.", call.shown())));
    }
}

type Told = Option<(&'static str, &'static str)>;

fn aws(words: &[&str]) -> Told {
    let says = |word: &str| words.contains(&word);
    let holds = |part: &str| words.iter().any(|word| word.contains(part));
    let all_hosts = holds("0.0.0.0/0") || holds("::/0");
    if says("stop-logging")
        || says("disable-key")
        || says("stop-configuration-recorder")
        || says("disable-alarm-actions")
    {
        return Some(("protection_disabled", "stops the records of what is done"));
    }
    if says("schedule-key-deletion") || says("put-bucket-lifecycle-configuration") && holds("Expiration") {
        return Some(("service_destruction", "has keys or data deleted later"));
    }
    if says("create-access-key")
        || says("create-login-profile")
        || holds("AdministratorAccess")
        || says("update-assume-role-policy")
    {
        return Some(("cloud_rights", "gives rights over the account, or a key to it"));
    }
    if says("authorize-security-group-ingress") && all_hosts
        || holds("public-read")
        || says("delete-public-access-block")
    {
        return Some(("cloud_exposure", "opens to everyone what was closed"));
    }
    (says("update-secret") || says("put-secret-value") || says("put-parameter") && says("--overwrite"))
        .then_some(("secret_overwrite", "writes over a secret that others read"))
}

fn kubernetes(call: &Call, words: &[&str]) -> Told {
    let says = |word: &str| words.contains(&word);
    let verb = words
        .iter()
        .find(|word| matches!(**word, "drain" | "cordon" | "scale" | "replace" | "create" | "run" | "debug" | "taint"));
    let none = says("--replicas=0") || words.windows(2).any(|pair| pair == ["--replicas", "0"]);
    let admin = words.iter().any(|word| word.contains("cluster-admin"));
    match verb.copied() {
        Some("drain" | "cordon" | "taint") => Some(("service_disruption", "drives what runs on a node away from it")),
        Some("scale") if none => Some(("service_disruption", "ends every instance of a workload")),
        Some("replace") if call.has_long("force") => {
            Some(("service_disruption", "deletes a resource and makes it anew"))
        }
        Some("create") if admin => Some(("cloud_rights", "gives all rights over the cluster")),
        Some("run" | "debug") if words.iter().any(|word| word.contains("privileged") || word.contains("hostPID")) => {
            Some(("privilege", "gives a container the host's rights"))
        }
        _ => None,
    }
}
