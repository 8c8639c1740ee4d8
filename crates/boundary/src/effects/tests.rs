//! Tests of effects: tables of tools that read, write and destroy; and additional statements never lower an effect.

mod acts;
mod sent;
mod set;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{CallDeclarations, EffectOf, classify, effect_of, known};
use crate::by_tool::ByTool;
use umbra_domain::{
    DeclaredEffect,
    Effect::{self, Destructive, Read, Write},
    EffectOverride, EffectSource, ToolAnnotations, ToolName,
};

/// Classifies a tool of a server that is not trusted.
fn of(name: &str, description: &str, schema: &Value) -> EffectOf {
    classify(&ToolName::of("crm", name), description, schema, false)
}

/// Classifies a tool of a server that the operator trusts.
fn trusted(name: &str, description: &str, schema: &Value) -> EffectOf {
    classify(&ToolName::of("crm", name), description, schema, true)
}

fn all(cases: &[(&str, &str, Effect)]) {
    told(of, cases);
}

/// Asserts the effects of tools, and lists the wrong ones.
#[track_caller]
fn told(judge: fn(&str, &str, &Value) -> EffectOf, cases: &[(&str, &str, Effect)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(name, description, effect)| {
            let said = judge(name, description, &Value::Null);
            (said.effect != *effect).then(|| format!("{name} | {description}: {} ({})", said.effect.as_str(), said.why))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn tool_name_is_classified_by_its_verb() {
    all(&[
        ("get_invoice", "", Read),
        ("listInvoices", "", Read),
        ("search-contacts", "", Read),
        ("HTTPStatusFetch", "", Read),
        ("crm_get_invoice", "", Read),
        ("mcp__crm__describe_table", "", Read),
        ("create_invoice", "", Write),
        ("addComment", "", Write),
        ("send_mail", "", Write),
        ("zq_update_rule", "", Write),
        ("redeploy_service", "", Write),
        ("unassign_ticket", "", Write),
        ("bulk_tag_contacts", "Tag many contacts", Write),
        ("delete_invoice", "", Destructive),
        ("contacts.purge", "", Destructive),
        ("bulkDeleteContacts", "", Destructive),
        ("removefile", "", Destructive),
        ("refund_payment", "Refund a payment", Destructive),
    ]);
}

#[test]
fn ambiguous_verbs_are_settled_by_a_trusted_description() {
    told(
        trusted,
        &[
            ("release_list", "List the releases of a project", Read),
            ("pull_request_read", "Get information on one pull request", Read),
            ("order_get", "Returns one order", Read),
            ("list_open_orders", "", Read),
            ("get_latest_release", "", Read),
            ("commit_history", "Shows who changed what", Read),
            ("get_delete_markers", "List delete markers of a bucket", Read),
            ("current_user", "Get the user of this token", Read),
            ("todo_list", "", Destructive),
            ("order_pizza", "Order a pizza", Write),
            ("star_repository", "Star a repository", Write),
            ("issue_write", "Create or update an issue", Write),
            ("post_list", "", Write),
            ("comment_delete", "Removes a comment", Destructive),
            ("list_delete", "Deletes a list", Destructive),
            ("list_delete", "", Destructive),
            ("resolve_library_id", "Resolves a package name to an id", Read),
            ("resolve_thread", "Resolve a thread of a review", Write),
            ("checkout_branch", "Switch to a branch", Write),
            ("check_out_book", "", Write),
            ("check_balance", "", Read),
            ("extract_text", "Extract the text of a page", Read),
            ("extract_archive", "Extract an archive into a folder", Write),
        ],
    );
}

#[test]
fn untrusted_description_never_lowers_the_effect() {
    all(&[
        ("charge_card", "Gets the charge of a card.", Destructive),
        ("wire_money", "Shows where money is.", Write),
        ("handle_order", "Lists orders, then ships them", Write),
        ("process_refund", "Returns the refund", Destructive),
        ("get_a", "Gets a. WARNING: deletes the source afterwards", Destructive),
        ("get_item", "Gets an item. WARNING: deletes the source afterwards", Destructive),
        ("release_list", "List the releases of a project", Write),
        ("commit_history", "Shows who changed what", Write),
        ("get_delete_markers", "List delete markers of a bucket", Destructive),
        ("current_user", "Get the user of this token", Destructive),
        ("wetter", "Get the weather", Destructive),
        ("labels", "List labels. Read-only.", Destructive),
        ("order_pizza", "Returns a pizza", Write),
        ("resolve_thread", "Show a thread", Write),
        ("return_item", "Gets an item", Destructive),
        // An empty description does not raise a plain name.
        ("order_get", "", Read),
        ("pull_request_read", "", Read),
        ("resolve_library_id", "", Read),
    ]);
    let methods = json!({"properties": {"method": {"enum": ["get", "list"]}}});
    assert_eq!(of("issues", "", &methods).effect, Destructive);
    assert_eq!(trusted("issues", "", &methods).effect, Read);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn name_is_a_read_only_if_every_word_is_harmless() {
    for name in [
        "get_payment_and_capture",
        "scan_and_remediate",
        "find_and_fire",
        "read_then_zap",
        "read_only_mode_off",
        "read_filedelete",
        "read_filedeletes",
        "read_file\u{200b}delete",
        "get_zap",
        "get_frob",
        "find_zap2",
        "list_users_and_book",
        "search_with_order",
        "fetch_and_store",
        "get_order_or_ship",
        "view_as_admin_and_approve",
        "set_read",
        "mark_read",
        "leave_read",
        "listen",
        "labels",
        "weather",
        "status_update",
        "post_status",
        "order_history",
        "todo_list_add",
        "check_in",
        "poll_queue",
        "convert_lead",
        "ping_user",
        "get_ready_to_launch",
        "get_reset_password_link",
        "lesen_datei",
        "get_loeschen",
        "zap_get_users",
        "search_flight_book",
        "read_receipt_ack",
        "todo_list_email",
        "get_vehicle_unlock",
        "show_alert",
        "check_task",
        "view_as_admin",
        "get_started",
        "evaluate_script",
        "obtain_license",
        "get_x2delete",
        "list_empty_trash",
        "list_pop",
        "peek_pop",
        "consume_get",
        "get_clear",
        "get_flush_cache",
        "get_lock",
        "get_next_job",
        "get_new_token",
        "login_get",
        "follow_get",
        "get_refund_payment",
        "check_reboot_server",
    ] {
        let said = of(name, "", &Value::Null);
        assert!(said.effect > Read, "{name}: {}", said.why);
    }
    for name in [
        "get_user",
        "get_users_and_groups",
        "get_issue_with_comments",
        "list_s3_buckets",
        "get_kafka_topic",
        "slack_list_channels",
        "zia_list_locations",
        "zia_list_cloud_app_policy",
        "zms_get_metadata",
        "get_zpa_scim_attribute",
        "git_status",
        "projects_list",
        "search_files_in_directory",
        "get_pending_orders",
        "get_deleted_items",
        "find_and_count",
        "convert_currency",
        "ping_host",
        "fetch",
        "search",
        "whoami",
        "take_screenshot",
        "get_checkout_session",
        "lookup_transfer",
        "query_all",
        "get_lock_status",
        "get_refund_status",
        "list_empty_rooms",
        "get_next_page",
        "get_new_messages",
        "get_stop_times",
        "list_gists",
        "getHTTPStatusV2",
    ] {
        let said = of(name, "", &Value::Null);
        assert_eq!(said.effect, Read, "{name}: {}", said.why);
    }
}

#[test]
fn second_verb_raises_the_effect() {
    all(&[
        ("get_or_create_user", "", Write),
        ("search_and_replace", "Search for a text", Write),
        ("read_then_delete", "", Destructive),
        ("get_token", "Get or create a token", Write),
        ("fetch_page", "Fetches a page and saves it to the archive", Write),
        ("get_message", "Gets a message. It also marks the message as read.", Write),
        ("get_message", "Gets a message. The message will be deleted.", Destructive),
        ("find_rows", "Find rows, update or delete them", Destructive),
        ("manage_labels", "Manage labels: create, update, or delete a label", Destructive),
        ("labels", "This tool is used to delete labels", Destructive),
        ("get_seats", "Reserve seats in a theatre", Write),
        ("find_song", "Searches for a song and plays it", Write),
        ("download_report", "Download a report to a local file", Write),
        ("download_report", "Download a report as text", Read),
    ]);
}

#[test]
fn verbs_of_other_tools_and_negated_verbs_are_ignored() {
    all(&[
        ("get_label", "Get a label. To remove it, use delete_label. Create one with create_label first.", Read),
        ("list_branches", "List branches, commits and releases. Results are sorted and may be truncated.", Read),
        ("get_item", "Get an item without changing it. This tool does not modify anything.", Read),
        ("get_item", "Returns when it was created, and by whom it was deleted.", Read),
        ("get_engines", "Manage engines (read-only)", Read),
        ("list_alerts", "List alerts. Add `state` to narrow the list, and set `page` to go on.", Read),
        ("get_message", "Gets a message. The message will not be deleted.", Read),
        ("update_rule", "Update a rule. This is not destructive.", Write),
        ("get_engines", "Manage engines (not read-only)", Write),
        ("get_updates", "Get updates and posts", Read),
        ("get_notes", "Release notes of a version", Read),
        ("find_evenings", "Finds concerts and plays, which are sorted by date", Read),
        ("get_status", "Order status by number", Read),
        ("validate_order", "Validate an order without placing it", Read),
    ]);
}

#[test]
fn unknown_tools_are_destructive() {
    for (name, description) in
        [("frobnicate", ""), ("x", "Frobnicates the frob"), ("", ""), ("wetter", "Zeigt das Wetter")]
    {
        let said = of(name, description, &Value::Null);
        assert_eq!((said.effect, said.source), (Destructive, EffectSource::Unknown), "{name}: {}", said.why);
    }
    // A letter of another alphabet in the place of ours.
    assert_eq!(of("g\u{435}t_file", "Get a file", &Value::Null).source, EffectSource::Unknown);
}

#[test]
fn program_running_tools_are_rated_by_description_and_trust() {
    let with = |key: &str| json!({"properties": {key: {"type": "string"}}});
    for (name, description, schema, own, of_trusted) in [
        ("execute_sql", "Execute SQL", with("sql"), Destructive, Destructive),
        ("execute_sql", "Execute a read-only SQL query", with("sql"), Destructive, Read),
        ("query", "Run a read-only SQL query", with("sql"), Destructive, Read),
        ("query", "Run a SQL query. Writes fail in read-only mode.", with("sql"), Destructive, Destructive),
        ("run_query", "Run SELECT queries against the database", with("query"), Destructive, Read),
        ("query_database", "Query the database", with("query"), Destructive, Destructive),
        ("query_metrics", "Query metrics in PromQL", with("query"), Read, Read),
        ("run_command", "Run a command", with("command"), Destructive, Destructive),
        ("run_shell", "Runs a read-only command", with("command"), Destructive, Destructive),
        ("python", "Execute code", with("code"), Destructive, Destructive),
        ("call_api", "", Value::Null, Destructive, Destructive),
        ("run_workflow", "Run a workflow", Value::Null, Write, Write),
        ("run_secret_scan", "Scan a file for secrets", Value::Null, Write, Read),
        ("perform_search", "Performs a search of the web", Value::Null, Destructive, Read),
        ("explain_code", "Explain a piece of code", with("code"), Read, Read),
        ("search_code", "Search code", with("query"), Read, Read),
        ("get_rows", "Get rows", with("sql"), Destructive, Destructive),
    ] {
        for (said, effect) in [(of(name, description, &schema), own), (trusted(name, description, &schema), of_trusted)]
        {
            assert_eq!(said.effect, effect, "{name} | {description} | {schema}: {}", said.why);
        }
    }
}

#[test]
fn statement_and_command_arguments_decide_the_effect() {
    let sent = |name: &str, arguments: &Value| {
        let tool = ToolName::of("crm", name);
        let said = effect_of(None, None, CallDeclarations::default(), || classify(&tool, "", &Value::Null, false));
        said.with_arguments(arguments.as_object().expect("an object"), &tool)
    };
    for (name, arguments, effect) in [
        ("execute_sql", json!({"sql": "SELECT * FROM users"}), Read),
        ("execute_sql", json!({"sql": "INSERT INTO users VALUES (1)"}), Write),
        ("execute_sql", json!({"sql": "DROP TABLE users"}), Destructive),
        ("execute_sql", json!({"sql": "SELECT 1; DROP TABLE users"}), Destructive),
        ("execute_sql", json!({}), Destructive),
        ("run_query", json!({"query": "SELECT 1"}), Read),
        ("run_query", json!({"query": "the sales of a week"}), Destructive),
        ("run_query", json!({"query": "DELETE FROM users"}), Destructive),
        ("bash", json!({"command": "cd src && ls"}), Read),
        ("bash", json!({"command": "psql -h db -c 'select 1'"}), Read),
        ("bash", json!({"command": "psql -c 'drop table users'"}), Destructive),
        ("bash", json!({"command": "sqlite3 a.db 'select 1'"}), Read),
        ("bash", json!({"command": "sqlite3 a.db"}), Destructive),
        ("bash", json!({"command": "terraform plan -no-color"}), Read),
        ("bash", json!({"command": "terraform plan -out=p && terraform apply p"}), Destructive),
        ("bash", json!({"command": "rm -rf build"}), Destructive),
        ("bash", json!({"command": "ls", "env": {"PATH": "/tmp"}}), Destructive),
        // An argument beside a read-only command must not change its meaning.
        ("bash", json!({"command": "ls", "post": "reboot"}), Destructive),
        ("bash", json!({"command": "ls", "user": "root"}), Destructive),
        ("bash", json!({"command": "ls", "cwd": "; reboot"}), Destructive),
        ("bash", json!({"command": "ls", "cwd": "/srv/app"}), Read),
        ("run_command", json!({"command": "ls", "args": ["x", "&&", "rm", "y"]}), Destructive),
        ("run_command", json!({"command": "ls", "args": ["; reboot"]}), Destructive),
        ("run_command", json!({"command": "ls", "args": "; reboot"}), Destructive),
        ("run_command", json!({"command": ["ls", "`reboot`"]}), Destructive),
        ("run_command", json!({"command": "ls", "options": "-l"}), Destructive),
        ("kubectl", json!({"args": ["get", "pods", "&&", "kubectl", "delete", "pod", "a"]}), Destructive),
        ("execute_sql", json!({"sql": "SELECT 1", "file": "evil.sql"}), Destructive),
        ("execute_sql", json!({"sql": "SELECT 1", "database": "sales", "limit": 10}), Read),
        ("bash", json!({"command": "ls", "description": "lists files", "timeout": 5}), Read),
        ("run_command", json!({"command": ["git", "status", "--short"]}), Read),
        ("run_command", json!({"command": "git", "args": ["push"]}), Destructive),
        ("kubectl", json!({"args": ["get", "pods"]}), Read),
        ("kubectl", json!({"args": ["delete", "pod", "a"]}), Destructive),
        ("kubectl", json!({"namespace": "a"}), Destructive),
        // The grammar of programs in other languages is not read here.
        ("run_script", json!({"script": "deploy.sh"}), Destructive),
        ("python", json!({"code": "1 + 1"}), Destructive),
        ("execute", json!({"input": "ls"}), Destructive),
    ] {
        let said = sent(name, &arguments);
        assert_eq!(said.effect, effect, "{name} {arguments}: {}", said.why);
    }
    // The operator's override goes before the arguments.
    let operator =
        effect_of(None, Some(Destructive), CallDeclarations::default(), || of("execute_sql", "", &Value::Null));
    let arguments = json!({"sql": "SELECT 1"});
    assert_eq!(
        operator.with_arguments(arguments.as_object().expect("an object"), &ToolName::bare("execute_sql")).effect,
        Destructive
    );
}

#[test]
fn effect_follows_actions_listed_in_the_input_schema() {
    let choice = |key: &str, values: Value| json!({"properties": {key: {"type": "string", "enum": values}}});
    for (name, schema, effect) in [
        ("issues", choice("method", json!(["get", "frobnicate"])), Destructive),
        ("get_issue", choice("method", json!(["get", "get_comments", "get_labels"])), Read),
        ("get_issue", choice("action", json!(["get", "add_label"])), Write),
        ("issue_write", choice("operation", json!(["create", "delete_comment"])), Destructive),
        (
            "list_events",
            json!({"properties": {"action": {"enum": ["create", "delete"], "description": "Filter by action"}}}),
            Read,
        ),
        (
            "get_issues",
            json!({"properties": {"sort": {"enum": ["created", "updated"]}, "state": {"enum": ["open", "closed"]}}}),
            Read,
        ),
        ("read_file", choice("mode", json!(["open", "clean"])), Read),
        ("read_file", choice("mode", json!(["read", "write"])), Write),
        ("get_message", json!({"properties": {"mark_as_read": {"type": "boolean"}}}), Write),
        ("get_message", json!({"properties": {"include_deleted": {"type": "boolean"}}}), Read),
        ("get_message", json!({"properties": {"delete_after": {"type": "boolean"}}}), Destructive),
        ("get_chart", json!({"properties": {"outputPath": {"type": "string"}}}), Write),
        (
            "fetch_url",
            json!({"properties": {"method": {"type": "string", "description": "HTTP method, GET unless set"}}}),
            Destructive,
        ),
        (
            "get_issue",
            json!({"properties": {"action": {"type": "string", "description": "One of 'get', 'delete'"}}}),
            Destructive,
        ),
        (
            "get_issue",
            json!({"properties": {"steps": {"items": {"properties": {"op": {"const": "remove"}}}}}}),
            Destructive,
        ),
        (
            "get_issue",
            json!({"$defs": {"a": {"properties": {"op": {"anyOf": [{"const": "get"}, {"const": "update"}]}}}}}),
            Write,
        ),
    ] {
        let said = of(name, "", &schema);
        assert_eq!(said.effect, effect, "{name} {schema}: {}", said.why);
    }
    assert_eq!(of("update_rule", "Update a rule. This cannot be undone.", &Value::Null).effect, Destructive);
}

#[test]
fn reason_repeats_no_text_of_the_tool() {
    let schema = json!({"properties": {"method": {"enum": ["delete_SECRET"]}}});
    for (name, description) in [("get_SECRET", "Get SECRET and delete the SECRET"), ("SECRET", "SECRET"), ("a", "")] {
        let why = of(name, description, &schema).why;
        assert!(!why.to_lowercase().contains("secret"), "{why}");
    }
}

#[test]
fn precedence_is_contract_operator_trusted_server_classifier() {
    let hints = |read_only, destructive| ToolAnnotations { read_only, destructive, ..ToolAnnotations::default() };
    let none = ToolAnnotations::default();
    let read = || known(Read, "the name says `get`");
    for (contract, operator, annotations, trusted, expected) in [
        (Some(Read), Some(Write), hints(None, Some(true)), true, (Read, EffectSource::Contract)),
        (None, Some(Write), hints(Some(true), None), true, (Write, EffectSource::Override)),
        (None, None, hints(Some(true), None), true, (Read, EffectSource::Annotations)),
        (None, None, hints(Some(false), Some(false)), true, (Write, EffectSource::Annotations)),
        (None, None, hints(None, Some(false)), true, (Write, EffectSource::Annotations)),
        (None, None, hints(Some(false), None), true, (Destructive, EffectSource::Annotations)),
        (None, None, hints(None, Some(true)), true, (Destructive, EffectSource::Annotations)),
        // Both hints at once promise nothing.
        (None, None, hints(Some(true), Some(true)), true, (Destructive, EffectSource::Annotations)),
        (None, None, hints(Some(true), Some(true)), false, (Destructive, EffectSource::Annotations)),
        (None, None, none, true, (Read, EffectSource::Classifier)),
        (None, None, none, false, (Read, EffectSource::Classifier)),
        // A server that is not trusted can only raise.
        (None, None, hints(Some(false), None), false, (Write, EffectSource::Annotations)),
        (None, None, hints(None, Some(true)), false, (Destructive, EffectSource::Annotations)),
        (None, None, hints(Some(true), None), false, (Read, EffectSource::Classifier)),
    ] {
        let of = effect_of(
            contract,
            operator,
            CallDeclarations { annotations, trusted, ..CallDeclarations::default() },
            read,
        );
        assert_eq!((of.effect, of.source), expected, "{annotations:?} {trusted}: {}", of.why);
        assert!(!of.why.is_empty());
    }
    for annotations in [hints(Some(true), None), hints(Some(false), Some(false))] {
        let unknown = effect_of(None, None, CallDeclarations { annotations, ..CallDeclarations::default() }, || {
            of("frobnicate", "", &Value::Null)
        });
        assert_eq!((unknown.effect, unknown.source), (Destructive, EffectSource::Unknown), "{annotations:?}");
    }
}

#[test]
fn declared_effect_lowers_only_if_the_caller_is_believed() {
    for (effect, is_believed, name, expected) in [
        (Read, true, "frobnicate", (Read, EffectSource::Declared)),
        (Read, false, "frobnicate", (Destructive, EffectSource::Unknown)),
        (Write, true, "frobnicate", (Write, EffectSource::Declared)),
        (Write, false, "get_page", (Write, EffectSource::Declared)),
        (Read, false, "get_page", (Read, EffectSource::Classifier)),
        (Destructive, true, "get_page", (Destructive, EffectSource::Declared)),
    ] {
        let word =
            CallDeclarations { declared: Some(DeclaredEffect { effect, is_believed }), ..CallDeclarations::default() };
        let said = effect_of(None, None, word, || of(name, "", &Value::Null));
        assert_eq!((said.effect, said.source), expected, "{effect:?} {is_believed} {name}");
        assert_eq!(said.why.contains("without the scope `declare`"), effect < said.effect, "{}", said.why);
        assert_eq!(effect_of(Some(Write), None, word, || of(name, "", &Value::Null)).source, EffectSource::Contract);
    }
}

#[test]
fn closest_override_pattern_wins_and_names_match_whole() {
    let rules = |list: &[(&str, Effect)]| {
        let list: Vec<_> =
            list.iter().map(|(tool, effect)| EffectOverride { tool: (*tool).to_owned(), effect: *effect }).collect();
        ByTool::compile(list, |one| &one.tool)
    };
    let overrides = rules(&[
        ("crm.*", Write),
        ("crm.get_*", Read),
        ("crm.get_token", Destructive),
        ("*.get_?oken", Read),
        ("ping", Read),
    ])
    .unwrap();
    for (tool, effect) in [
        (ToolName::of("crm", "get_token"), Some(Destructive)),
        (ToolName::of("crm", "get_user"), Some(Read)),
        (ToolName::of("crm", "sync"), Some(Write)),
        (ToolName::of("erp", "get_token"), Some(Read)),
        (ToolName::bare("ping"), Some(Read)),
        (ToolName::of("erp", "ping"), None),
        (ToolName::bare("get_user"), None),
    ] {
        assert_eq!(overrides.find(&tool.readings()).map(|one| one.effect), effect, "{tool}");
    }
    assert!(rules(&[("crm.[", Read)]).unwrap_err().to_string().contains("crm.["));
}

/// A description, in independent parts.
fn parts() -> impl Strategy<Value = Vec<&'static str>> {
    let sentences = [
        "Get an item.",
        "List all items of a project.",
        "It also creates a copy.",
        "Deletes the item.",
        "Use it with care.",
        "This tool will update the cache.",
        "Returns JSON.",
        "Never deletes anything.",
        "Useful for reports.",
    ];
    prop::collection::vec(prop::sample::select(sentences.to_vec()), 1..5)
}

proptest! {
    #[test]
    fn additional_sentence_never_lowers_the_effect(parts in parts()) {
        for count in 1..parts.len() {
            let before = of("get_item", &parts[..count].join(" "), &Value::Null).effect;
            let after = of("get_item", &parts[..=count].join(" "), &Value::Null).effect;
            prop_assert!(before <= after, "{parts:?}");
        }
    }

    #[test]
    fn destructive_verb_is_never_a_read(noun in "[a-z]{3,8}", description in "[a-z ]{0,40}", first in any::<bool>()) {
        let name = if first { format!("delete_{noun}") } else { format!("{noun}_delete") };
        prop_assert!(of(&name, "", &Value::Null).effect > Read);
        prop_assert!(of(&name, &description, &Value::Null).effect > Read || !first);
    }

    #[test]
    fn untrusted_text_and_annotations_never_lower_the_effect(name in "[a-z]{2,8}(_[a-z]{2,8}){0,2}", parts in parts(), read in any::<Option<bool>>(), safe in any::<Option<bool>>()) {
        let least = of(&name, "", &Value::Null).effect;
        let described = of(&name, &parts.join(" "), &Value::Null);
        prop_assert!(described.effect >= least, "{name} {parts:?}: {}", described.why);
        let annotations = ToolAnnotations { read_only: read, destructive: safe, ..ToolAnnotations::default() };
        let said = effect_of(None, None, CallDeclarations { annotations, ..CallDeclarations::default() }, || described);
        prop_assert!(said.effect >= least, "{name} {annotations:?}: {}", said.why);
    }

    #[test]
    fn arbitrary_text_is_classified_with_a_reason(name in any::<String>(), description in any::<String>(), key in any::<String>(), value in any::<String>()) {
        let schema = json!({"properties": {key.clone(): {"enum": [value], "description": description.clone()}, "method": {"description": key}}});
        let said = of(&name, &description, &schema);
        prop_assert!(!said.why.is_empty());
    }
}
