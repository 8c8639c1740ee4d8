//! Checks of live results against contracts, done behind the answers of calls. One process of a cluster follows the
//! audit and records tools, misfits and unexpected calls; every process loads the stale contracts, so that its stubs
//! say so.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use serde_json::json;
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use crate::{
    flows::{
        audit::Audit,
        rounds::{FailureLog, pause},
    },
    telemetry::metric,
};
use umbra_boundary::{
    decide::BoundaryRules,
    drift::contract::{CheckedResult, learn, misfit, recorded, stale},
};
use umbra_domain::{
    ToolContract, ToolName,
    contract::ContractState,
    notice::{Notice, NoticeKind},
};
use umbra_store::{
    StoreError,
    contracts::{ContractPage, LiveResult, UnexpectedCall},
};

/// Pause between looks for new rows.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Rows of the audit per transaction.
const PAGE: i64 = 1_000;
/// Least time between messages about the same tool of the same agent.
const QUIET: Duration = Duration::from_hours(24);

/// An edition of a contract: its tool and version.
type Edition = (String, u32);

/// State of this process between two looks.
#[derive(Default)]
struct LearningState {
    /// Rules in force at the last look.
    rules: Option<Arc<BoundaryRules>>,
    /// Contracts that are stale by their age and not yet stored as stale.
    aged: Vec<Edition>,
}

fn edition(contract: &ToolContract) -> Edition {
    (contract.tool.clone(), contract.version)
}

impl Audit {
    /// Checks live results against contracts until `stop`.
    pub async fn learn_until(self, stop: CancellationToken) {
        let (fails, works) =
            ("contracts cannot be compared with live results", "contracts are compared with live results again");
        let (mut log, mut seen) = (FailureLog::new(fails, works), LearningState::default());
        // Registered at 0, since a counter that appears with its first increment has no rate.
        metrics::counter!(metric::UNEXPECTED_CALLS).increment(0);
        loop {
            log.note(&self.look_at_contracts(&mut seen).await);
            if !pause(&stop, BETWEEN_LOOKS).await {
                return;
            }
        }
    }

    async fn look_at_contracts(&self, seen: &mut LearningState) -> Result<(), StoreError> {
        let rules = self.boundary.rules.load_full();
        if !seen.rules.as_ref().is_some_and(|known| Arc::ptr_eq(known, &rules)) {
            let editions: Vec<Edition> = contracts(&rules).map(edition).collect();
            if !editions.is_empty() {
                self.store.contracts().record_editions(&editions).await?;
            }
            if let Some(before) = seen.rules.replace(Arc::clone(&rules)) {
                metrics::gauge!(metric::ENVIRONMENT, "environment" => before.configured.environment.clone()).set(0.0);
            }
            metrics::gauge!(metric::ENVIRONMENT, "environment" => rules.configured.environment.clone()).set(1.0);
        }
        while let Some(page) = self.store.contracts().begin_learning(PAGE).await? {
            let more = page.more;
            self.learn(&rules, page, &seen.aged).await?;
            if !more {
                break;
            }
        }
        seen.aged = self.note_stale(&rules).await?;
        Ok(())
    }

    /// Puts the list of stale contracts in force. Returns those that are stale by age and not yet stored as stale.
    async fn note_stale(&self, rules: &BoundaryRules) -> Result<Vec<Edition>, StoreError> {
        let (mut words, mut aged) = (HashMap::new(), Vec::new());
        if contracts(rules).next().is_some() {
            let states = self.store.contracts().states().await?;
            let stale = rules.tools.stale(&states, self.store.now().await?);
            let is_new = |state: &&ContractState| {
                let id = format!("{}@{}", state.tool, state.version);
                state.stale.is_none() && stale.iter().any(|stale| stale.contract == id)
            };
            aged.extend(states.iter().filter(is_new).map(|state| (state.tool.clone(), state.version)));
            words.extend(stale.into_iter().map(|stale| (stale.contract, stale.why)));
        }
        #[expect(clippy::cast_precision_loss, reason = "a gauge")]
        metrics::gauge!(metric::STALE_CONTRACTS).set(words.len() as f64);
        self.boundary.stale.store(Arc::new(words));
        Ok(aged)
    }

    /// Checks a page of results against their contracts, and stores misfits, staleness and unexpected calls.
    async fn learn(&self, rules: &BoundaryRules, mut page: ContractPage, aged: &[Edition]) -> Result<(), StoreError> {
        let results = std::mem::take(&mut page.results);
        let held = block_in_place(|| hold(rules, &results));
        let mut wanted: Vec<Edition> = held.keys().chain(aged).cloned().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let states = if wanted.is_empty() { Vec::new() } else { page.states(&wanted).await? };
        let in_force: HashMap<Edition, &ToolContract> = contracts(rules).map(|one| (edition(one), one)).collect();
        for mut state in states {
            let key = (state.tool.clone(), state.version);
            let Some(contract) = in_force.get(&key) else { continue };
            let before = state.clone();
            for held in held.get(&key).into_iter().flatten() {
                let result = if held.misfit.is_some() { "misfit" } else { "fit" };
                metrics::counter!(metric::LIVE_RESULTS, "result" => result).increment(1);
                learn(contract, &mut state, held);
            }
            state.stale = stale(contract, &state, page.now);
            if before.stale.is_none()
                && state.stale.is_some()
                && let Some(message) =
                    self.webhooks.load().address(&notice(contract, &state, &page), self.clock.new_id())
            {
                page.enqueue(&message).await?;
            }
            if state != before {
                page.keep(&state).await?;
            }
        }
        for call in std::mem::take(&mut page.unexpected) {
            metrics::counter!(metric::UNEXPECTED_CALLS).increment(1);
            let before = page.note_unexpected(&call).await?;
            let is_news = before.is_none_or(|before| before.saturating_add(QUIET).is_ok_and(|quiet| quiet < call.at));
            if is_news && let Some(message) = self.webhooks.load().address(&ran(&call), self.clock.new_id()) {
                page.enqueue(&message).await?;
            }
        }
        page.commit().await
    }
}

fn contracts(rules: &BoundaryRules) -> impl Iterator<Item = &ToolContract> {
    rules.tools.contracts().all().map(|contract| contract.contract())
}

/// Groups results by the contract edition of their decision. Results decided under an edition that is not in force
/// here, by a process with another configuration, are left out.
fn hold(rules: &BoundaryRules, results: &[LiveResult]) -> BTreeMap<Edition, Vec<CheckedResult>> {
    let mut held: BTreeMap<Edition, Vec<CheckedResult>> = BTreeMap::new();
    for LiveResult { seq, at, tool, contract, decision, outcome } in results {
        let tool = ToolName::bare(tool.clone());
        let Some(found) = rules.tools.contracts().find(&tool) else { continue };
        if contract.as_deref() != Some(found.id()) {
            continue;
        }
        let Some(recorded) = recorded(decision, outcome, 0) else { continue };
        let misfit = misfit(rules.tools.contracts(), &tool, &recorded.args, &recorded.result);
        held.entry(edition(found.contract())).or_default().push(CheckedResult { seq: *seq, at: *at, misfit });
    }
    held
}

/// Returns the message about a call that ran although its decision said no.
fn ran(call: &UnexpectedCall) -> Notice {
    let UnexpectedCall { seq, at, agent, tool } = call;
    let data = json!({"agent": agent, "tool": tool, "audit_seq": seq});
    Notice::new(NoticeKind::CallUnexpected, *at, Some(agent), data)
}

/// Returns the message about a contract that became stale: contract, start, reason, and counts of results.
fn notice(contract: &ToolContract, learned: &ContractState, page: &ContractPage) -> Notice {
    let stale = learned.stale;
    let data = json!({
        "contract": contract.id(), "tool": contract.tool, "version": contract.version,
        "since": stale.map(|stale| stale.since), "why": stale.map(|stale| stale.reason.as_str()),
        "misfits": learned.misfits, "results": learned.results,
    });
    Notice::new(NoticeKind::ContractStale, page.now, None, data)
}
