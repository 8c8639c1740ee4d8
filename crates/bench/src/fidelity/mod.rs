//! `umbra-bench fidelity`: share of decisions that an agent takes in a rehearsal as it does live.
//!
//! One scripted agent does the same tasks in six services: live; with reads that run and `null` for everything else;
//! and with reads that run and stubs by contract, as the boundary decides. Branches are counted: a branch is a place
//! where the agent goes one way or another because of a tool's answer. A branch of the live run that the rehearsal does
//! not reach, or takes otherwise, is not equal. A rehearsal must leave its service unchanged.

mod agent;
mod calendar;
mod deployments;
mod files;
mod mail;
mod payments;
mod service;
mod tickets;

use anyhow::bail;
use clap::Args;
use serde::Serialize;

use self::{
    agent::{Agent, Answers, Branches},
    service::Domain,
};
use crate::{BenchGlobalOptions, answer, answer_json};
use umbra::cli::table;
use umbra_boundary::{
    contract::faults, decide::BoundaryRules, drift::bypass::Required, execution::ConfiguredExecution, gate::Standards,
    tools::Tools,
};
use umbra_config::{Loaded, tools};
use umbra_domain::{Execution, Share};
use umbra_policy::check_condition;

/// The contracts of the six services.
const CONTRACTS: &str = include_str!("tools.yaml");
const DOMAINS: [Domain; 6] =
    [payments::PAYMENTS, mail::MAIL, files::FILES, tickets::TICKETS, calendar::CALENDAR, deployments::DEPLOYMENTS];

/// Options of the bench.
#[derive(Debug, Args)]
pub struct FidelityOptions {
    /// Contracts to use instead of those of the bench.
    #[arg(long, value_name = "FILE")]
    tools: Option<std::path::PathBuf>,
    /// Print the table as markdown.
    #[arg(long)]
    markdown: bool,
}

/// Counts of equal branches.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Equal {
    /// Branches of the live run.
    n: u64,
    /// Branches of the live run that the rehearsal took the same way.
    #[serde(rename = "equal")]
    same: u64,
    /// Branches of the rehearsal that the live run did not reach.
    extra: u64,
}

/// Counts with their share.
#[derive(Debug, Serialize)]
struct BranchShare {
    #[serde(flatten)]
    counts: Equal,
    share: Option<f64>,
    /// Bounds of the 95 % interval, by Wilson.
    low: f64,
    high: f64,
}

/// Figures of one service.
#[derive(Debug, Serialize)]
struct DomainFidelity {
    domain: &'static str,
    tasks: u32,
    null: BranchShare,
    contracts: BranchShare,
}

/// A branch that the agent did not reach with contract stubs, or took another way.
#[derive(Debug, Serialize)]
struct ChangedBranch {
    domain: &'static str,
    task: u32,
    branch: String,
    live: String,
    /// `None` where the rehearsal did not reach the branch.
    rehearsed: Option<String>,
}

/// Figures of all services.
#[derive(Debug, Serialize)]
struct FidelityReport {
    domains: Vec<DomainFidelity>,
    null: BranchShare,
    contracts: BranchShare,
    /// Differences with contract stubs.
    differed: Vec<ChangedBranch>,
}

pub fn run(global: &BenchGlobalOptions, options: &FidelityOptions) -> anyhow::Result<()> {
    let report = measure(&rules(options)?)?;
    if global.json {
        return answer_json(&report);
    }
    report.show(options.markdown);
    Ok(())
}

/// Builds rules for shadow execution, by the contracts of the given file or of the bench.
fn rules(options: &FidelityOptions) -> anyhow::Result<BoundaryRules> {
    let judge = tools::ToolsFileValidators { contract: &faults, condition: &check_condition };
    let Loaded { value: file, .. } = match &options.tools {
        Some(path) => tools::read(path, judge)?,
        None => tools::load("bench/fidelity/tools.yaml", CONTRACTS, judge)?,
    };
    let configured = ConfiguredExecution {
        environment: "bench".to_owned(),
        settings: Some(Execution::Shadow),
        variable: (String::new(), None),
        default: Execution::Shadow,
    };
    let (gate, required) = (Standards::default(), Required::default());
    Ok(BoundaryRules { configured, tools: Tools::compile(file, Vec::new())?, file: None, gate, required })
}

fn measure(rules: &BoundaryRules) -> anyhow::Result<FidelityReport> {
    let (mut null, mut contracts) = (Equal::default(), Equal::default());
    let (mut rows, mut differed) = (Vec::new(), Vec::new());
    for domain in &DOMAINS {
        let mut own = [Equal::default(); 2];
        for task in 0..domain.cases {
            let (live, _) = Agent::work(domain, task, rules, Answers::Live);
            for (answers, own) in [Answers::Null, Answers::Contracts].into_iter().zip(&mut own) {
                let (rehearsed, untouched) = Agent::work(domain, task, rules, answers);
                if !untouched {
                    bail!("a rehearsal has changed the service {} in task {task}", domain.name);
                }
                own.add(Equal::of(&live, &rehearsed));
                if answers == Answers::Contracts {
                    differed.extend(differences(domain.name, task, &live, &rehearsed));
                }
            }
        }
        let [own_null, own_contracts] = own;
        null.add(own_null);
        contracts.add(own_contracts);
        rows.push(DomainFidelity {
            domain: domain.name,
            tasks: domain.cases,
            null: own_null.shown(),
            contracts: own_contracts.shown(),
        });
    }
    Ok(FidelityReport { domains: rows, null: null.shown(), contracts: contracts.shown(), differed })
}

fn differences<'a>(
    domain: &'static str,
    task: u32,
    live: &'a Branches,
    rehearsed: &'a Branches,
) -> impl Iterator<Item = ChangedBranch> + use<'a> {
    live.iter().filter(|(branch, way)| rehearsed.get(branch) != Some(way)).map(move |(branch, way)| ChangedBranch {
        domain,
        task,
        branch: branch.0.clone(),
        live: way.clone(),
        rehearsed: rehearsed.get(branch).cloned(),
    })
}

impl Equal {
    fn of(live: &Branches, rehearsed: &Branches) -> Self {
        let count = |n: usize| n as u64;
        Self {
            n: count(live.len()),
            same: count(live.iter().filter(|(branch, way)| rehearsed.get(branch) == Some(way)).count()),
            extra: count(rehearsed.keys().filter(|branch| !live.contains_key(branch)).count()),
        }
    }

    fn add(&mut self, more: Self) {
        self.n += more.n;
        self.same += more.same;
        self.extra += more.extra;
    }

    fn shown(self) -> BranchShare {
        let Share { share, low, high } = Share::of(self.same, self.n);
        BranchShare { counts: self, share, low, high }
    }
}

impl BranchShare {
    fn percent(&self) -> String {
        let share = self.share.unwrap_or_default() * 100.0;
        format!("{share:.1} % ({:.1}-{:.1})", self.low * 100.0, self.high * 100.0)
    }
}

impl FidelityReport {
    fn rows(&self) -> Vec<[String; 5]> {
        let row = |name: &str, tasks: u32, null: &BranchShare, contracts: &BranchShare| {
            [name.to_owned(), tasks.to_string(), null.counts.n.to_string(), null.percent(), contracts.percent()]
        };
        let mut rows: Vec<_> =
            self.domains.iter().map(|one| row(one.domain, one.tasks, &one.null, &one.contracts)).collect();
        let tasks = self.domains.iter().map(|one| one.tasks).sum();
        rows.push(row("all", tasks, &self.null, &self.contracts));
        rows
    }

    fn show(&self, markdown: bool) {
        let headings = ["service", "tasks", "branches", "null stubs", "contract stubs"];
        if markdown {
            answer(&format!("| {} |\n| --- | --- | --- | --- | --- |", headings.join(" | ")));
            for row in self.rows() {
                answer(&format!("| {} |", row.join(" | ")));
            }
            return;
        }
        let mut rows = table::new(&headings);
        for row in self.rows() {
            rows.add_row(row);
        }
        answer(&format!("{rows}\n\nWhat differs with contract stubs:"));
        for ChangedBranch { domain, task, branch, live, rehearsed } in &self.differed {
            let rehearsed = rehearsed.as_deref().map_or("not reached".to_owned(), |way| format!("{way:?}"));
            answer(&format!("{domain} {task}: {branch}: live {live:?}, rehearsed {rehearsed}"));
        }
    }
}
