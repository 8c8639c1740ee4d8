//! Table of commands by purpose: those that read a secret store, write to one, or change infrastructure.

use super::ProgramCall;

/// Purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A secret store is asked for a secret.
    ReadsSecret,
    /// A secret is written to a store, or deleted there.
    WritesSecret,
    /// Infrastructure is created, changed or deleted.
    ChangesInfrastructure,
}

use Purpose::{ChangesInfrastructure, ReadsSecret, WritesSecret};

/// Calls as words: a program, then operands in sequence. `|` separates alternatives, `*` ends a prefix; a word that
/// begins with a hyphen may stand anywhere among the arguments.
const CALLS: &[(Purpose, &str)] = &[
    (
        WritesSecret,
        "aws secretsmanager put-secret-value|create-secret|update-secret|delete-secret|restore-secret|rotate-secret",
    ),
    (WritesSecret, "aws ssm put-parameter"),
    (WritesSecret, "gcloud secrets create|delete|update"),
    (WritesSecret, "gcloud secrets versions add|destroy|disable"),
    (WritesSecret, "az keyvault secret|key|certificate set|create|import|delete|purge"),
    (WritesSecret, "vault kv put|patch|delete|destroy|undelete"),
    (WritesSecret, "vault write|delete"),
    (WritesSecret, "op item|document create|edit|delete"),
    (WritesSecret, "gh|glab secret|variable set|delete|remove"),
    (WritesSecret, "kubectl|oc create|delete secret|secrets"),
    (WritesSecret, "docker|podman secret create|rm"),
    (WritesSecret, "doppler secrets set|delete|upload"),
    (WritesSecret, "heroku config:set|config:unset"),
    (WritesSecret, "pass|gopass insert|edit|generate|rm"),
    (WritesSecret, "chamber write|delete|import"),
    (WritesSecret, "fly|flyctl secrets set|unset|import"),
    (WritesSecret, "wrangler secret put|delete|bulk"),
    (WritesSecret, "vercel env add|rm"),
    (WritesSecret, "firebase functions:secrets:set|functions:secrets:destroy"),
    (WritesSecret, "pulumi config set --secret"),
    (WritesSecret, "secret-tool store|clear"),
    (ReadsSecret, "aws secretsmanager get-secret-value|batch-get-secret-value"),
    (ReadsSecret, "aws ssm get-parameter* --with-decryption"),
    (ReadsSecret, "gcloud secrets versions access"),
    (ReadsSecret, "az keyvault secret|key|certificate show|download|backup"),
    (ReadsSecret, "vault kv get"),
    (ReadsSecret, "vault read|unwrap"),
    (ReadsSecret, "op read|inject"),
    (ReadsSecret, "op item|document get"),
    (ReadsSecret, "gh|glab auth token"),
    (ReadsSecret, "doppler secrets"),
    (ReadsSecret, "infisical secrets|export"),
    (ReadsSecret, "heroku config|config:get"),
    (ReadsSecret, "pass|gopass show"),
    (ReadsSecret, "bw get|export"),
    (ReadsSecret, "lpass show|export"),
    (ReadsSecret, "chamber read|export|env"),
    (ReadsSecret, "credstash get|getall"),
    (ReadsSecret, "ansible-vault view|decrypt"),
    (ReadsSecret, "sops -d|--decrypt|decrypt|exec-env"),
    (ReadsSecret, "secret-tool lookup|search"),
    (ReadsSecret, "vercel env pull"),
    (ChangesInfrastructure, "terraform|tofu|terragrunt apply|destroy|import|taint|untaint"),
    (ChangesInfrastructure, "terraform|tofu|terragrunt state rm|mv|push"),
    (ChangesInfrastructure, "pulumi up|update|destroy|import|refresh"),
    (ChangesInfrastructure, "cdk|cdktf deploy|destroy|bootstrap"),
    (ChangesInfrastructure, "sam|sls|serverless deploy|delete|remove"),
    (ChangesInfrastructure, "aws cloudformation create-*|update-*|delete-*|deploy|execute-change-set"),
    (
        ChangesInfrastructure,
        "aws ec2|rds|eks|ecs|elbv2|autoscaling|route53|lambda create-*|delete-*|modify-*|update-*|run-*|terminate-*",
    ),
    (ChangesInfrastructure, "gcloud deployment-manager deployments create|update|delete"),
    (
        ChangesInfrastructure,
        "gcloud compute|container|sql instances|clusters|disks|firewall-rules create|delete|update|resize|patch",
    ),
    (ChangesInfrastructure, "gcloud run|app|functions deploy"),
    (ChangesInfrastructure, "az deployment group|sub|mg|tenant create|delete"),
    (ChangesInfrastructure, "az group|vm|aks|webapp create|delete|update|scale"),
    (ChangesInfrastructure, "kubectl|oc apply|create|replace|patch|scale|edit|autoscale|expose"),
    (ChangesInfrastructure, "kubectl|oc rollout restart|undo"),
    (ChangesInfrastructure, "helm install|upgrade|rollback|uninstall"),
    (ChangesInfrastructure, "ansible-playbook"),
    (ChangesInfrastructure, "eksctl|kops create|delete|update|upgrade|scale"),
    (ChangesInfrastructure, "doctl compute|kubernetes|databases create|delete|resize"),
];

/// Returns the purpose of a call, by the first row that fits.
pub fn purpose(call: &ProgramCall) -> Option<Purpose> {
    let operands: Vec<&str> = call.operands().take(12).collect();
    CALLS.iter().find(|(_, words)| fits(call, &operands, words)).map(|(purpose, _)| *purpose)
}

/// Returns the programs that the table names.
pub fn programs() -> impl Iterator<Item = &'static str> {
    CALLS.iter().flat_map(|(_, words)| words.split(' ').next().unwrap_or_default().split('|'))
}

fn fits(call: &ProgramCall, operands: &[&str], words: &str) -> bool {
    let is = |pattern: &str, word: &str| {
        pattern.split('|').any(|one| one.strip_suffix('*').map_or(one == word, |begins| word.starts_with(begins)))
    };
    let mut words = words.split(' ');
    if !words.next().is_some_and(|program| is(program, &call.program)) {
        return false;
    }
    let (options, named): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with('-'));
    let follows =
        |at: usize| named.iter().zip(at..).all(|(word, at)| operands.get(at).is_some_and(|given| is(word, given)));
    let given = |option: &&str| call.args.iter().any(|arg| is(option, &arg.text));
    // Values of options may stand before.
    (0..=operands.len()).any(follows) && options.iter().all(given)
}
