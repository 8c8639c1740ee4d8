//! Tests of effective execution: the precedence of its sources.

use jiff::Timestamp;
use uuid::Uuid;

use crate::execution::{CallOwner, ConfiguredExecution, InheritedExecution, effective, safe_mode};
use umbra_domain::{Execution, Override, OverrideId, OverrideScope, ToolName, tool::Readings};

fn configured(settings: Option<Execution>, variable: Option<Execution>, default: Execution) -> ConfiguredExecution {
    ConfiguredExecution {
        environment: "staging".to_owned(),
        settings,
        variable: ("AGENT_SAFE_MODE".to_owned(), variable),
        default,
    }
}

fn set(scope: OverrideScope, value: &str, execution: Execution) -> Override {
    Override {
        id: OverrideId(Uuid::nil()),
        scope,
        value: value.to_owned(),
        execution,
        reason: "tried".to_owned(),
        set_at: Timestamp::UNIX_EPOCH,
        expires_at: None,
    }
}

fn tool() -> Readings {
    ToolName::of("stripe", "refund").readings()
}

fn whose(tool: &Readings) -> CallOwner<'_> {
    CallOwner { agent: Some("writer-1"), session: Some("s1"), tool: Some(tool), descent: None }
}

#[test]
fn stricter_of_settings_and_variable_precedes_the_default() {
    use Execution::{Live, Shadow};
    let table = [
        (None, None, Live, Live, "environment"),
        (None, None, Shadow, Shadow, "environment"),
        (Some(Live), None, Shadow, Live, "settings"),
        (Some(Live), Some(Shadow), Live, Shadow, "variable"),
        (Some(Shadow), None, Live, Shadow, "settings"),
        (None, Some(Shadow), Live, Shadow, "variable"),
    ];
    for (settings, variable, default, expected, source) in table {
        let decided = effective(&configured(settings, variable, default), &[], whose(&tool()), Timestamp::UNIX_EPOCH);
        assert_eq!(
            (decided.execution, decided.won.source),
            (expected, source),
            "{settings:?} {variable:?} {default:?}"
        );
    }
}

#[test]
fn the_narrowest_override_wins_and_the_stricter_of_equals() {
    use Execution::{Live, Shadow};
    use OverrideScope::{Agent, Environment, Global, Session, Tool};
    let base = configured(Some(Live), Some(Shadow), Live);
    let decide = |overrides: &[Override]| effective(&base, overrides, whose(&tool()), Timestamp::UNIX_EPOCH);
    let table: Vec<(Vec<Override>, Execution, &str)> = vec![
        (vec![set(Global, "", Live)], Live, "global"),
        (vec![set(Global, "", Live), set(Environment, "staging", Shadow)], Shadow, "environment:staging"),
        (vec![set(Environment, "production", Live)], Shadow, "AGENT_SAFE_MODE"),
        (vec![set(Environment, "staging", Shadow), set(Agent, "writer-*", Live)], Live, "agent:writer-*"),
        (vec![set(Agent, "writer-*", Live), set(Agent, "writer-1", Shadow)], Shadow, "agent:writer-1"),
        (vec![set(Agent, "*", Shadow), set(Session, "s1", Live)], Live, "session:s1"),
        (vec![set(Session, "s1", Live), set(Tool, "stripe.*", Shadow)], Shadow, "tool:stripe.*"),
        (vec![set(Session, "s2", Live), set(Tool, "mail.*", Live)], Shadow, "AGENT_SAFE_MODE"),
    ];
    for (overrides, expected, name) in table {
        let decided = decide(&overrides);
        assert_eq!((decided.execution, decided.won.name.as_str()), (expected, name));
    }
    // An expired override does not count, and a sub-run of a shadow run stays in shadow.
    let past = Override { expires_at: Some(Timestamp::UNIX_EPOCH), ..set(Global, "", Live) };
    assert_eq!(decide(&[past]).execution, Shadow);
    for (descent, source) in [
        (InheritedExecution::Shadow("r0".to_owned()), "parent_run"),
        (InheritedExecution::Began("r0".to_owned()), "run"),
    ] {
        let tool = tool();
        let sub = CallOwner { descent: Some(&descent), ..whose(&tool) };
        let decided = effective(&base, &[set(Tool, "*", Live)], sub, Timestamp::UNIX_EPOCH);
        assert_eq!((decided.execution, decided.won.source, decided.overruled.len()), (Shadow, source, 4));
    }
}

#[test]
fn wildcard_tool_and_agent_overrides_match_unnamed_calls() {
    use Execution::{Live, Shadow};
    use OverrideScope::{Agent, Session, Tool};
    let base = configured(Some(Shadow), None, Live);
    let any = |one: Override| effective(&base, &[one], CallOwner::default(), Timestamp::UNIX_EPOCH).execution;
    assert_eq!([any(set(Tool, "*", Live)), any(set(Agent, "**", Live))], [Live, Live]);
    let narrow = [set(Tool, "mail.*", Live), set(Agent, "a*", Live), set(Session, "*", Live)];
    assert_eq!(narrow.map(any), [Shadow; 3]);
}

#[test]
fn safe_mode_is_set_by_any_value_except_negatives() {
    for yes in ["1", "true", "TRUE", "Yes", " yes ", "on", "maybe"] {
        assert_eq!(safe_mode(Some(yes)), Some(Execution::Shadow), "{yes}");
    }
    for no in [None, Some(""), Some("0"), Some("False"), Some("no"), Some("off")] {
        assert_eq!(safe_mode(no), None, "{no:?}");
    }
}
