//! Detection of calls without a decision, in the events that report calls. An event names its decision by
//! `metadata.call_id`; a decision about the same agent, tool and arguments shortly before it counts as well.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    flows::{
        audit::Audit,
        cleaned,
        looks::Looks,
        rounds::{FailureLog, pause},
    },
    telemetry::metric,
};
use umbra_boundary::{
    decide::BoundaryRules,
    drift::bypass::{same_arguments, same_tool},
};
use umbra_config::settings::AuditedReads;
use umbra_domain::{
    Effect, Event, EventId, Finding, FindingId, StoredEvent, ToolName, Trigger,
    finding::{FindingCategory, FindingSource, FindingSubject, Severity},
    notice::{Notice, NoticeKind},
};
use umbra_store::{
    StoreError,
    decisions::Named,
    events::received_at,
    looks::LookFinding,
    results::{EventContext, NewFinding},
    unguarded::{SeenEvent, UnguardedPage},
};

/// Pause between looks for new events.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Events per transaction.
const PAGE: i64 = 100;
/// Age before which an event is not examined: a decision made while the database was away is mostly stored by then.
const SETTLED: Duration = Duration::from_secs(2);
/// Least time between messages about the same tool of the same agent.
const QUIET: Duration = Duration::from_hours(24);

/// A call that an event reports.
struct ReportedCall {
    id: EventId,
    agent: String,
    /// Agent of the decision: that of the main agent for a hooked call of a subagent.
    decided_for: String,
    tool: String,
    args: Value,
    call_id: Option<String>,
    task_id: Option<String>,
    task_type: Option<String>,
    pairs: Vec<(i32, i16)>,
}

impl Audit {
    /// Looks for unguarded calls until `stop`, as far as the settings ask for it. Each call becomes a finding of a
    /// shadow that watches its event.
    pub async fn watch_calls_until(self, looks: Looks, stop: CancellationToken) {
        let mut log =
            FailureLog::new("the search for unguarded calls failed", "the search for unguarded calls works again");
        // Registered at 0, since a counter that appears with its first increment has no rate.
        metrics::counter!(metric::UNGUARDED_CALLS).increment(0);
        loop {
            log.note(&self.look_for_unguarded(&looks).await);
            if !pause(&stop, BETWEEN_LOOKS).await {
                return;
            }
        }
    }

    async fn look_for_unguarded(&self, looks: &Looks) -> Result<(), StoreError> {
        let rules = self.boundary.rules.load_full();
        if rules.required.is_off() && !self.store.hooks().enforces().await? {
            return self.store.contracts().skip_watching().await;
        }
        while let Some(page) = self.store.contracts().begin_watching(PAGE, SETTLED).await? {
            let more = page.more;
            self.look_at(looks, &rules, page).await?;
            if !more {
                break;
            }
        }
        Ok(())
    }

    async fn look_at(&self, looks: &Looks, rules: &BoundaryRules, mut page: UnguardedPage) -> Result<(), StoreError> {
        let events = std::mem::take(&mut page.events);
        let shown: Vec<ReportedCall> = events.into_iter().filter_map(|event| self.shown(rules, event)).collect();
        let named = |shown: &ReportedCall| Some((shown.decided_for.clone(), shown.call_id.clone()?));
        let calls: Vec<Named> = shown.iter().filter_map(named).collect();
        let decided: HashMap<Named, Option<String>> =
            if calls.is_empty() { HashMap::new() } else { page.decided(&calls).await?.into_iter().collect() };
        let mut found = Vec::new();
        for call in shown {
            let by_id = named(&call).and_then(|key| decided.get(&key));
            let is_named = by_id.is_some_and(|tool| tool.as_ref().is_none_or(|tool| same_tool(&call.tool, tool)));
            if is_named || was_decided(rules, &mut page, &call).await? {
                continue;
            }
            metrics::counter!(metric::UNGUARDED_CALLS).increment(1);
            let before = page.note(&call.agent, &call.tool, call.id).await?;
            let at = received_at(call.id);
            let is_news = before.is_none_or(|before| before.saturating_add(QUIET).is_ok_and(|quiet| quiet < at));
            if is_news && let Some(message) = self.webhooks.load().address(&notice(&call), self.clock.new_id()) {
                page.enqueue(&message).await?;
            }
            found.extend(finding(looks, &call));
        }
        let new = page.find(&found).await?;
        page.commit().await?;
        looks.tell(&found, &new).await;
        Ok(())
    }

    /// Returns the call that an event reports, if a decision was required.
    fn shown(&self, rules: &BoundaryRules, event: SeenEvent) -> Option<ReportedCall> {
        let SeenEvent { id, agent, payload, pairs } = event;
        let StoredEvent { event, .. } = serde_json::from_slice(&payload).ok()?;
        let Event { tool, metadata, task_id, task_type, .. } = event;
        // A hook in enforce decides each call before it runs.
        let is_enforced = metadata.get("hook").is_some_and(|hook| hook["mode"] == "enforce");
        let tool = tool.filter(|tool| is_enforced || rules.required.wants(&agent, &tool.name))?;
        let text = |key: &str| metadata.get(key).and_then(Value::as_str);
        // The client says that the call did not run, so there is nothing to guard.
        if text("decision").is_some_and(|decision| matches!(decision, "block" | "ask")) {
            return None;
        }
        let effect = rules.tools.effect_as_known(&ToolName::bare(tool.name.clone()), "", None);
        let unaudited =
            self.boundary.settings.boundary.audit.reads != AuditedReads::All || text("decision_id").is_some();
        // Reads without a row in the audit: by the settings, or because the database was away when they were decided.
        if effect == Effect::Read && unaudited {
            return None;
        }
        let call_id = text("call_id").map(cleaned);
        let decided_for = metadata.get("hook").and_then(|hook| hook["agent"].as_str()).map(ToOwned::to_owned);
        let decided_for = decided_for.unwrap_or_else(|| agent.clone());
        Some(ReportedCall {
            id,
            agent,
            decided_for,
            tool: tool.name,
            args: tool.args,
            call_id,
            task_id,
            task_type,
            pairs,
        })
    }
}

/// True if a decision about the same tool and arguments was made shortly before.
async fn was_decided(rules: &BoundaryRules, page: &mut UnguardedPage, call: &ReportedCall) -> Result<bool, StoreError> {
    let since = received_at(call.id).saturating_sub(rules.required.within).unwrap_or(jiff::Timestamp::MIN);
    let decisions = page.decisions(&call.decided_for, since).await?;
    Ok(decisions.iter().filter(|(tool, _)| same_tool(&call.tool, tool)).any(|(_, payload)| {
        let payload: Value = serde_json::from_str(payload).unwrap_or_default();
        // Erased arguments cannot be compared, and count as the same.
        payload.get("args").is_none_or(|args| same_arguments(&call.args, args))
    }))
}

/// Returns the finding of the first shadow that watches the call's event; `None` if no shadow does.
fn finding(looks: &Looks, call: &ReportedCall) -> Option<LookFinding> {
    let rules = looks.rules.load();
    let watching = |(version, trigger): &(i32, i16)| {
        let shadow = rules.pinned(*version).filter(|shadow| shadow.enabled)?;
        Some((shadow, *version, Trigger::from_code(*trigger)?))
    };
    let (shadow, version, trigger) = call.pairs.iter().find_map(watching)?;
    let ReportedCall { id, agent, tool, task_id, task_type, .. } = call;
    let finding = Finding {
        event_id: *id,
        severity: Severity::Warning,
        category: FindingCategory::Security,
        description: format!("Calls `{tool}` without asking for a decision first, so no rule could stop it."),
        evidence: None,
        verified: true,
        about: FindingSubject::Agent,
        source: FindingSource::Check,
        rule: "boundary.unguarded_call".to_owned(),
    };
    let parts =
        [shadow.name.as_bytes(), agent.as_bytes(), task_id.as_deref().unwrap_or_default().as_bytes(), tool.as_bytes()];
    Some(LookFinding {
        key: looks.installation.hash("unguarded", &parts)[..16].to_vec(),
        found: NewFinding {
            id: FindingId(looks.clock.new_id()),
            fingerprint: umbra_review::fingerprint(&finding),
            finding,
            place: EventContext {
                agent: agent.clone(),
                task_id: task_id.clone(),
                task_type: task_type.clone(),
                trigger,
            },
            recommendation: format!(
                "Ask `POST /v1/decide` before `{tool}` runs, or put its server behind `umbra mcp`."
            ),
        },
        shadow: shadow.name.clone(),
        version,
        mode: shadow.mode.priority(),
    })
}

fn notice(call: &ReportedCall) -> Notice {
    let data = json!({"agent": call.agent, "tool": call.tool, "event_id": call.id});
    Notice::new(NoticeKind::CallUnguarded, received_at(call.id), Some(&call.agent), data)
}
