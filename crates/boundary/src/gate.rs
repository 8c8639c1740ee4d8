//! Gate: lists the reasons against an environment as production. In: the rules in force, and the facts of the database
//! or why they are missing. Out: each reason by itself. `umbra check` and a running server both ask here.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    decide::BoundaryRules,
    execution::{CallOwner, ConfiguredExecution, Effective, effective, named, same_environment},
};
use umbra_domain::nearest::misspelling_of;
use umbra_domain::{Effect, Execution, Override, OverrideScope, RunRow, ToolName, contract::ContractState};

/// Standards that the gate applies.
#[derive(Debug, Clone, Default)]
pub struct Standards {
    /// Environments whose default is shadow.
    pub shadow_environments: Vec<String>,
    /// A live override that ends within this time may fall back to shadow.
    pub expires_within: Duration,
    /// Tools count if they were called within this time.
    pub tools_seen_within: Duration,
    /// Calls without a decision count if they were made within this time.
    pub unguarded_within: Duration,
    /// `/readyz` fails while only stubs have answered for this time; never if not set.
    pub only_stubs_for: Option<Duration>,
    /// `/readyz` fails while nothing but reads has run for this time; never if not set.
    pub no_side_effect_for: Option<Duration>,
    /// MCP servers whose tools can be called, each with its profile.
    pub servers: Vec<(String, String)>,
}

/// Tool that was called, or may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTool {
    /// Tool name; for a called tool, the full name without a separate server.
    pub tool: ToolName,
    /// Description by the tool's server.
    pub description: String,
    /// Effect decided at its last call; none if it was never called.
    pub effect: Option<Effect>,
}

/// Calls of a tool by an agent without a decision, or against their decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnguardedTool {
    /// Calling agent.
    pub agent: String,
    /// Called tool.
    pub tool: String,
    /// Number of calls.
    pub calls: i64,
    /// Time of the last call.
    pub last_at: Timestamp,
}

/// Facts from the database.
#[derive(Debug, Clone, Default)]
pub struct GateFacts {
    /// Time of the database.
    pub now: Timestamp,
    /// Overrides, in force or past.
    pub overrides: Vec<Override>,
    /// Tools that were called within [`Standards::tools_seen_within`], and those of MCP servers.
    pub tools: Vec<KnownTool>,
    /// States of contracts, learned from live results.
    pub contracts: Vec<ContractState>,
    /// Unguarded calls within [`Standards::unguarded_within`].
    pub unguarded: Vec<UnguardedTool>,
    /// Calls that ran against their decision, within the same time.
    pub unexpected: Vec<UnguardedTool>,
    /// Runs that stay in shadow, with a call within [`Standards::tools_seen_within`].
    pub bound_runs: Vec<RunRow>,
}

/// Reason against an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = GateReason)]
pub struct Reason {
    /// Code of the reason: `execution_shadow`, `safe_mode`, `run_in_shadow`, `override_expires`, `no_contract`,
    /// `stale_contract`, `unguarded_call`, `unexpected_call`, `unknown_environment` or `database`.
    #[schema(value_type = String, example = "no_contract")]
    pub rule: &'static str,
    /// Setting, variable, override, tool or contract concerned.
    #[schema(example = "mail.send_email")]
    pub subject: String,
    /// Explanation, with what to do.
    pub detail: String,
}

/// Result of the gate for an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Gate {
    /// Environment that was asked about.
    pub environment: String,
    /// True if there is no reason against it.
    pub pass: bool,
    /// Reasons against it.
    pub reasons: Vec<Reason>,
}

/// Judges an environment. Missing facts are a reason by themselves: overrides are not known then.
pub fn judge(environment: &str, rules: &BoundaryRules, facts: Result<&GateFacts, String>) -> Gate {
    let configured = configured(environment, rules);
    let mut reasons = Vec::new();
    let none = GateFacts::default();
    let (known, problem) = match facts {
        Ok(facts) => (facts, None),
        Err(problem) => (&none, Some(problem)),
    };
    misspelt(environment, rules, known, &mut reasons);
    if configured.variable.1.is_some() {
        let all = effective(&configured, &known.overrides, CallOwner::default(), known.now);
        let what = match all.execution {
            Execution::Shadow => "no call that changes something runs".to_owned(),
            Execution::Live => format!("only {} {} lets calls run", all.won.source, all.won.name),
        };
        let detail = format!("is set: {what}; unset the variable where this environment runs");
        reasons.push(reason("safe_mode", &configured.variable.0, detail));
    }
    shadow(&configured, known, &mut reasons);
    bound_runs(&configured, known, &mut reasons);
    expiring(&configured, rules.gate.expires_within, known, &mut reasons);
    without_contract(rules, known, &mut reasons);
    for stale in rules.tools.stale(&known.contracts, known.now) {
        let detail = format!("{}; write a new version of the contract (GET /v1/drift proposes one)", stale.why);
        reasons.push(reason("stale_contract", &stale.contract, detail));
    }
    for UnguardedTool { agent, tool, calls, last_at } in &known.unguarded {
        let detail = format!("was called by {agent} without a decision, {calls} times, last at {last_at}");
        reasons.push(reason("unguarded_call", tool, detail));
    }
    for UnguardedTool { agent, tool, calls, last_at } in &known.unexpected {
        let detail = format!(
            "ran for {agent} against the decision, {calls} times according to reported outcomes, last at {last_at}: \
             see GET /v1/audit?kind=outcome, and correct the agent's client"
        );
        reasons.push(reason("unexpected_call", tool, detail));
    }
    if let Some(problem) = problem {
        let detail = format!("does not answer, so overrides, called tools and their results are unknown: {problem}");
        reasons.push(reason("database", "database", detail));
    }
    Gate { environment: environment.to_owned(), pass: reasons.is_empty(), reasons }
}

/// Notes an unknown environment that resembles a known one: a typo such as `prodution` must not pass.
fn misspelt(environment: &str, rules: &BoundaryRules, facts: &GateFacts, reasons: &mut Vec<Reason>) {
    let overridden = facts.overrides.iter().filter(|one| one.scope == OverrideScope::Environment).map(|one| &one.value);
    let known = rules.gate.shadow_environments.iter().chain([&rules.configured.environment]).chain(overridden);
    let known: Vec<&str> = known.map(String::as_str).chain(["production"]).collect();
    if known.iter().any(|name| same_environment(name, environment)) {
        return;
    }
    if let Some(near) = misspelling_of(environment, known) {
        let detail = format!("is not in the settings and resembles {near}: ask for that environment");
        reasons.push(reason("unknown_environment", environment, detail));
    }
}

fn reason(rule: &'static str, subject: &str, detail: String) -> Reason {
    Reason { rule, subject: subject.to_owned(), detail }
}

/// Execution as configured for this environment.
fn configured(environment: &str, rules: &BoundaryRules) -> ConfiguredExecution {
    let in_shadow = rules.gate.shadow_environments.iter().any(|name| same_environment(name, environment));
    ConfiguredExecution {
        environment: environment.to_owned(),
        default: if in_shadow { Execution::Shadow } else { Execution::Live },
        ..rules.configured.clone()
    }
}

/// True if an override is in force and applies to this environment.
fn is_here(one: &Override, environment: &str, now: Timestamp) -> bool {
    one.expires_at.is_none_or(|end| now < end)
        && (one.scope != OverrideScope::Environment || same_environment(&one.value, environment))
}

/// Effective execution, at a time, of the calls that an override is for.
fn effective_for(configured: &ConfiguredExecution, one: &Override, facts: &GateFacts, at: Timestamp) -> Effective {
    let of = |scope| (one.scope == scope).then_some(one.value.as_str());
    let tool = of(OverrideScope::Tool).map(|tool| ToolName::bare(tool).readings());
    let (agent, session) = (of(OverrideScope::Agent), of(OverrideScope::Session));
    let whose = CallOwner { agent, session, tool: tool.as_ref(), descent: None };
    effective(configured, &facts.overrides, whose, at)
}

/// Notes that calls would not run: in general, or by a narrower override.
fn shadow(configured: &ConfiguredExecution, facts: &GateFacts, reasons: &mut Vec<Reason>) {
    // The variable is a reason of its own.
    let without = ConfiguredExecution { variable: (configured.variable.0.clone(), None), ..configured.clone() };
    let effective = effective(&without, &facts.overrides, CallOwner::default(), facts.now);
    if effective.execution == Execution::Shadow {
        let (won, said) = (&effective.won, effective.won.reason.clone());
        let said = said.map(|said| format!(" ({said})")).unwrap_or_default();
        let detail = format!("is shadow by {}{said}: no call that changes something runs", won.source);
        reasons.push(reason("execution_shadow", &won.name, detail));
    }
    let wide = (effective.execution == Execution::Shadow).then_some(effective.won.name.as_str());
    let narrow = facts.overrides.iter().filter(|one| {
        one.scope > OverrideScope::Environment
            && one.execution == Execution::Shadow
            && is_here(one, &configured.environment, facts.now)
            && wide != Some(&named(one))
            // A narrower override may make all of its calls run.
            && effective_for(&without, one, facts, facts.now).execution == Execution::Shadow
    });
    for one in narrow {
        let until = one.expires_at.map(|end| format!(" until {end}")).unwrap_or_default();
        let detail = format!("is answered by stubs{until} ({}): lift the override (umbra execution lift)", one.reason);
        reasons.push(reason("execution_shadow", &named(one), detail));
    }
}

/// Notes runs that stay in shadow where nothing else keeps them there.
fn bound_runs(configured: &ConfiguredExecution, facts: &GateFacts, reasons: &mut Vec<Reason>) {
    for RunRow { agent, run, session, .. } in facts.bound_runs.iter().filter(|row| row.is_bound()) {
        let whose = CallOwner { agent: Some(agent), session: session.as_deref(), ..CallOwner::default() };
        if effective(configured, &facts.overrides, whose, facts.now).execution == Execution::Live {
            let detail = format!(
                "is a run of {agent} that began in shadow and stays in shadow, so its changes do not happen: end the \
                 run (POST /v1/runs/{{run}}/end), or give new work a new run"
            );
            reasons.push(reason("run_in_shadow", run, detail));
        }
    }
}

/// Notes live overrides that fall back to shadow when they end.
fn expiring(configured: &ConfiguredExecution, within: Duration, facts: &GateFacts, reasons: &mut Vec<Reason>) {
    for one in &facts.overrides {
        let Some(end) = one.expires_at else { continue };
        let soon = facts.now.saturating_add(within).is_ok_and(|limit| end <= limit);
        if one.execution != Execution::Live || !soon || !is_here(one, &configured.environment, facts.now) {
            continue;
        }
        let after = effective_for(configured, one, facts, end);
        if after.execution == Execution::Shadow {
            let detail = format!(
                "is live until {end} ({}), and then shadow by {} {}: renew the override, or make that one live",
                one.reason, after.won.source, after.won.name
            );
            reasons.push(reason("override_expires", &named(one), detail));
        }
    }
}

/// Notes tools that change something and whose answers no contract describes.
fn without_contract(rules: &BoundaryRules, facts: &GateFacts, reasons: &mut Vec<Reason>) {
    let mut tools: BTreeMap<String, Effect> = BTreeMap::new();
    for known in &facts.tools {
        let name = known.tool.to_string();
        if rules.tools.contracts().find(&known.tool).is_none() {
            let effect = rules.tools.effect_as_known(&known.tool, &known.description, known.effect);
            // The effect of an actual call says more than a description.
            if known.effect.is_some() || !tools.contains_key(&name) {
                tools.insert(name, effect);
            }
        }
    }
    for (tool, effect) in tools.iter().filter(|(_, effect)| **effect != Effect::Read) {
        let detail = format!(
            "is {} and has no contract: write a contract, or the tool's effect under `effects` of the tools file",
            effect.as_str()
        );
        reasons.push(reason("no_contract", tool, detail));
    }
    for contract in rules.tools.contracts().all() {
        if contract.effect() != Effect::Read && !contract.answers() {
            let detail = format!(
                "is {} and its contract has no answer: add responses or an output_schema",
                contract.effect().as_str()
            );
            reasons.push(reason("no_contract", &contract.contract().tool, detail));
        }
    }
}
