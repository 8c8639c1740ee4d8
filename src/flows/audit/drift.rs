//! Drift report: contracts that live results no longer fit, with proposed successors; calls without or against a
//! decision; and the behaviour of an agent, recent beside earlier.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio::task::block_in_place;
use utoipa::ToSchema;

use crate::flows::audit::Audit;
use umbra_boundary::drift::{
    StaleContract,
    behaviour::{Behaviour, ObservedCall, compare},
    contract::{propose, recorded},
};
use umbra_config::tools::write;
use umbra_domain::{ToolContract, contract::ContractState};
use umbra_store::{
    StoreError,
    gate::{UnexpectedCalls, UnguardedCalls},
    paging::Feed,
    windows::DecidedCall,
};

/// Most calls of a window that are read; the latest.
const MOST_CALLS: usize = 5_000;
/// Most contracts with a proposal in one report.
const MOST_PROPOSALS: usize = 20;
/// Length of the base window in recent windows, unless its start is given.
const BASE_WINDOWS: u32 = 7;
/// Age up to which unguarded and unexpected calls are listed.
const UNGUARDED: Duration = Duration::from_hours(365 * 24);

/// Drift of contracts, calls, and the behaviour of one agent.
#[derive(Debug, Serialize, ToSchema)]
pub struct Drift {
    /// Contracts in force that are stale, or whose last live results did not fit.
    pub contracts: Vec<DriftedContract>,
    /// Calls without a decision, where the setting `boundary.require_decisions` asks for one; the latest first.
    pub unguarded: Vec<UnguardedCalls>,
    /// Calls that ran against their decisions; the latest first.
    pub unexpected: Vec<UnexpectedCalls>,
    /// Changed behaviour of the agent, if one was asked about.
    pub behaviour: Option<AgentDrift>,
}

/// A contract that may no longer describe its tool.
#[derive(Debug, Serialize, ToSchema)]
pub struct DriftedContract {
    /// `tool@version`.
    #[schema(example = "stripe.process_refund@2")]
    pub contract: String,
    /// Start and reason of the contract's staleness, while it is stale.
    pub stale: Option<StaleContract>,
    /// Live results that were checked against the contract.
    pub results: i64,
    /// Latest results in a row that did not fit.
    pub misfits: i64,
    /// Place of the latest misfit, and what was expected there.
    pub misfit: Option<String>,
    /// Next version of the contract, derived from live results, as a tools file.
    pub proposal: Option<String>,
    /// Reason why there is no proposal.
    pub proposal_missing: Option<String>,
}

/// Recent behaviour of an agent, compared with its earlier behaviour.
#[derive(Debug, Serialize, ToSchema)]
pub struct AgentDrift {
    /// The agent.
    pub agent: String,
    /// Earlier window.
    pub base: Window,
    /// Recent window.
    pub recent: Window,
    /// Differences between the two windows.
    #[serde(flatten)]
    pub behaviour: Behaviour,
}

/// A window of time.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = DriftWindow)]
pub struct Window {
    /// Start, inclusive.
    pub from: Timestamp,
    /// End, exclusive.
    pub to: Timestamp,
    /// Calls that were compared.
    pub calls: usize,
    /// True if the window has more than 5,000 calls; the latest 5,000 were compared.
    pub cut: bool,
}

/// The two windows to compare.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    /// Start of the base window; it ends where the recent window begins.
    pub since: Option<Timestamp>,
    /// Length of the recent window, which ends now.
    pub recent: Duration,
}

impl Audit {
    /// Reports drifted contracts, unguarded calls and unexpected calls. With `agent`, only its calls are reported, and
    /// its behaviour is compared.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn drift(&self, agent: Option<String>, windows: Windows) -> Result<Drift, StoreError> {
        let is_asked = |calling: &str| agent.as_ref().is_none_or(|agent| agent == calling);
        let mut unguarded = self.store.contracts().unguarded(UNGUARDED).await?;
        unguarded.retain(|calls| is_asked(&calls.agent));
        let mut unexpected = self.store.contracts().unexpected(UNGUARDED).await?;
        unexpected.retain(|calls| is_asked(&calls.agent));
        let contracts = self.drifted_contracts().await?;
        let behaviour = match agent {
            Some(agent) => Some(self.agent_drift(agent, windows).await?),
            None => None,
        };
        Ok(Drift { contracts, unguarded, unexpected, behaviour })
    }

    async fn drifted_contracts(&self) -> Result<Vec<DriftedContract>, StoreError> {
        let rules = self.boundary.rules.load_full();
        let states = self.store.contracts().states().await?;
        let stale = rules.tools.stale(&states, self.store.now().await?);
        let mut drifted = Vec::new();
        for contract in rules.tools.contracts().all().map(|one| one.contract()) {
            let (id, edition) = (contract.id(), (contract.tool.as_str(), contract.version));
            let Some(learned) = states.iter().find(|state| (state.tool.as_str(), state.version) == edition) else {
                continue;
            };
            let stale = stale.iter().find(|stale| stale.contract == id).cloned();
            if stale.is_none() && learned.misfits == 0 {
                continue;
            }
            let (proposal, proposal_missing) = match self.proposal(contract, learned, drifted.len()).await? {
                Ok(proposal) => (Some(proposal), None),
                Err(why) => (None, Some(why)),
            };
            let (results, misfits, misfit) = (learned.results, learned.misfits, learned.misfit.clone());
            drifted.push(DriftedContract { contract: id, stale, results, misfits, misfit, proposal, proposal_missing });
        }
        Ok(drifted)
    }

    /// Returns the next version of a contract as YAML, or the reason why there is none.
    async fn proposal(
        &self,
        contract: &ToolContract,
        state: &ContractState,
        made: usize,
    ) -> Result<Result<String, String>, StoreError> {
        if made >= MOST_PROPOSALS {
            return Ok(Err(format!("more than {MOST_PROPOSALS} contracts have drifted: correct some first")));
        }
        let results = self.store.contracts().live_results(&state.recent).await?;
        Ok(block_in_place(|| {
            let recorded: Vec<_> =
                results.iter().filter_map(|result| recorded(&result.decision, &result.outcome, 0)).collect();
            propose(contract, &recorded).map(|proposed| write(&[proposed]))
        }))
    }

    async fn agent_drift(&self, agent: String, windows: Windows) -> Result<AgentDrift, StoreError> {
        let now = self.store.now().await?;
        let turn = now.saturating_sub(windows.recent).unwrap_or(Timestamp::MIN);
        let since = windows.since.unwrap_or_else(|| {
            turn.saturating_sub(windows.recent.saturating_mul(BASE_WINDOWS)).unwrap_or(Timestamp::MIN)
        });
        let (first, middle) =
            (self.store.decisions().audited_before(since).await?, self.store.decisions().audited_before(turn).await?);
        let last = self.store.upkeep().newest(Feed::Audit).await?;
        let most = i64::try_from(MOST_CALLS).unwrap_or(i64::MAX) + 1;
        let base = self.store.decisions().decided_calls(&agent, (first, middle), most).await?;
        let recent = self.store.decisions().decided_calls(&agent, (middle, last), most).await?;
        let window = |from, to, calls: &Vec<DecidedCall>| Window {
            from,
            to,
            calls: calls.len().min(MOST_CALLS),
            cut: calls.len() > MOST_CALLS,
        };
        let (base_window, recent_window) = (window(since, turn, &base), window(turn, now, &recent));
        let behaviour = block_in_place(|| compare(&made(base), &made(recent)));
        Ok(AgentDrift { agent, base: base_window, recent: recent_window, behaviour })
    }
}

/// Returns the latest calls of a window, oldest first.
fn made(calls: Vec<DecidedCall>) -> Vec<ObservedCall> {
    let args = |payload: Option<String>| {
        let payload: Option<Value> = payload.and_then(|payload| serde_json::from_str(&payload).ok());
        payload.and_then(|mut payload| payload.get_mut("args").map(Value::take)).unwrap_or_default()
    };
    let latest = calls.into_iter().take(MOST_CALLS).rev();
    latest.map(|call| ObservedCall { tool: call.tool, within: call.within, args: args(call.payload) }).collect()
}
