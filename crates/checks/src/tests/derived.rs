//! Tests of triggers that the table of signs derives: each sign, and its look-alikes.

use serde_json::json;

use super::{running, saying};
use crate::screen;
use umbra_domain::{Event, ToolCall, Trigger};

fn shows(event: Event, trigger: Trigger) -> bool {
    let marks = screen(event).triggers;
    marks.iter().any(|mark| mark.name == trigger && mark.why.ends_with('.'))
}

fn calling(name: &str) -> Event {
    let tool = ToolCall { name: name.to_owned(), args: json!({"id": 7}), ..ToolCall::default() };
    Event { tool: Some(tool), ..Event::default() }
}

fn returning(name: &str, result: &str, exit_code: Option<i64>) -> Event {
    let tool = ToolCall { name: name.to_owned(), result: Some(result.to_owned()), exit_code, ..ToolCall::default() };
    Event { tool: Some(tool), ..Event::default() }
}

#[test]
fn secret_store_command_is_a_security_risk() {
    for command in [
        "aws secretsmanager get-secret-value --secret-id prod/db",
        "aws --profile prod secretsmanager put-secret-value --secret-id x --secret-string y",
        "aws ssm get-parameter --name /prod/db --with-decryption",
        "vault kv get secret/prod/db",
        "VAULT_ADDR=https://vault:8200 vault kv put -mount=secret app password=x",
        "gh secret set TOKEN --body x",
        "gcloud secrets versions access latest --secret=db",
        "az keyvault secret show --vault-name v --name n",
        "op read op://prod/db/password",
        "kubectl create secret generic db --from-literal=a=b",
        "bash -c 'vault kv get secret/prod/db | jq -r .data'",
        "sops --decrypt secrets.enc.yaml",
    ] {
        assert!(shows(running(command), Trigger::SecurityRisk), "{command}");
    }
    for command in [
        "aws secretsmanager list-secrets",
        "aws ssm get-parameter --name /prod/region",
        "vault status",
        "gh secret list",
        "grep -rn 'vault kv get' docs",
        "gcloud config list",
    ] {
        assert!(!shows(running(command), Trigger::SecurityRisk), "{command}");
    }
}

#[test]
fn a_command_that_changes_infrastructure_is_a_security_risk() {
    for command in [
        "terraform apply -auto-approve",
        "terraform -chdir=infra apply plan.out",
        "tofu import aws_instance.web i-1",
        "pulumi up --yes",
        "cdk deploy --all",
        "aws cloudformation deploy --template-file t.yaml --stack-name s",
        "kubectl -n shop apply -f web.yaml",
        "helm upgrade --install web ./chart",
        "ansible-playbook site.yml",
        "gcloud run deploy web --image x",
    ] {
        assert!(shows(running(command), Trigger::SecurityRisk), "{command}");
    }
    for command in [
        "terraform plan",
        "terraform apply -help",
        "kubectl get pods -n shop",
        "kubectl apply --dry-run=client -f web.yaml",
        "helm list",
        "pulumi preview",
        "git apply fix.patch",
    ] {
        assert!(!shows(running(command), Trigger::SecurityRisk), "{command}");
    }
}

#[test]
fn payment_or_outbound_message_tool_is_a_security_risk() {
    for name in [
        "create_payment",
        "mcp__stripe__create_refund",
        "transferFunds",
        "charge_card",
        "place_order",
        "send_email",
        "gmail__send_mail",
        "reply-to-email",
        "sendSMS",
        "post_tweet",
        "mcp__slack__post_message",
    ] {
        assert!(shows(calling(name), Trigger::SecurityRisk), "{name}");
    }
    for name in [
        "get_payment",
        "list_refunds",
        "search_emails",
        "read_email",
        "create_draft",
        "send_message",
        "order_by",
        "pay_attention",
    ] {
        assert!(!shows(calling(name), Trigger::SecurityRisk), "{name}");
    }
}

#[test]
fn documentation_host_counts_as_an_external_host() {
    for (event, expected) in [
        (running("curl -s https://api.example.com/v1"), true),
        (running("scp report.csv ops@backup.example.org:/srv"), true),
        (running("curl http://192.0.2.7/x"), true),
        (running("curl http://localhost:8080/x"), false),
        (running("curl http://app.internal/x"), false),
        (running("curl http://10.0.0.7/x"), false),
    ] {
        assert_eq!(shows(event.clone(), Trigger::SecurityRisk), expected, "{:?}", event.tool.map(|tool| tool.args));
    }
}

#[test]
fn a_failing_exit_code_is_an_error() {
    assert!(shows(returning("bash", "", Some(1)), Trigger::Error));
    assert!(shows(returning("deploy", "done", Some(-11)), Trigger::Error));
    assert!(!shows(returning("bash", "", Some(0)), Trigger::Error));
    assert!(!shows(returning("bash", "", None), Trigger::Error));
}

#[test]
fn traceback_is_an_error_unless_quoted_or_read_from_elsewhere() {
    let traceback = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nKeyError: 'x'\n";
    for event in [
        returning("run_python", traceback, None),
        returning("jupyter_cell", &format!("1\n2\n{traceback}"), None),
        returning("bash", traceback, None),
        saying(traceback),
        saying(&format!("The run ended:\n\n{traceback}")),
        saying("thread 'main' panicked at src/main.rs:2:5:\nindex out of bounds"),
        saying("Exception in thread \"main\" java.lang.NullPointerException\n\tat Main.main(Main.java:3)"),
    ] {
        assert!(shows(event.clone(), Trigger::Error), "{:?}", event.output);
    }
    for event in [
        returning("read_file", traceback, None),
        returning("get_logs", traceback, None),
        returning("code_search", traceback, None),
        saying(&format!("It failed before:\n```\n{traceback}```\nNow it works.")),
        saying(&format!("It failed before:\n{traceback}\n\nNow it works.")),
        saying("A traceback begins with `Traceback (most recent call last):`."),
    ] {
        assert!(!shows(event.clone(), Trigger::Error), "{:?}", event.output);
    }
}

#[test]
fn last_step_of_a_task_shows_task_complete() {
    let ended = |status: Option<&str>, stop: Option<&str>| Event {
        task_id: Some("t-1".to_owned()),
        status: status.map(str::to_owned),
        stop_reason: stop.map(str::to_owned),
        ..saying("The summary.")
    };
    for (status, stop, expected) in [
        (Some("completed"), None, true),
        (Some("COMPLETED"), None, true),
        (None, Some("end_turn"), true),
        (Some("failed"), Some("end_turn"), false),
        (Some("ok"), None, false),
        (None, Some("tool_use"), false),
        (None, Some("max_tokens"), false),
    ] {
        assert_eq!(shows(ended(status, stop), Trigger::TaskComplete), expected, "{status:?} {stop:?}");
    }
    let step = Event { tool: calling("search").tool, ..ended(Some("completed"), Some("end_turn")) };
    assert!(!shows(step, Trigger::TaskComplete), "a step that calls a tool is not the last");
}

#[test]
fn declared_code_with_a_dangerous_call_is_a_security_risk() {
    let declared = Event { triggers: vec![Trigger::CodeWritten], ..saying("import os\nos.system('rm -rf /etc')\n") };
    assert!(shows(declared, Trigger::SecurityRisk));
}
