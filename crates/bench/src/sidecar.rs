//! `umbra-bench sidecar`: cost of an agent's step with a sidecar, with few and many tools, and while the database
//! stands still.
//!
//! The server is a child process; the private Postgres has fsync on, and lies in a temporary directory. Each connection
//! is an agent with a session of its own, which has tools, a todo of forty items, and rules of every kind that answers
//! from memory. Its steps alternate between turns with two planned calls and messages with a call and its result.
//! Sessions with 200 and with 2,000 tools and bare requests for `/livez` take turns, in rounds; figures are medians of
//! the rounds. At the end Postgres is stopped (SIGSTOP): every step is still answered within the deadline, and from
//! memory alone after a few.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use clap::Args;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    BenchGlobalOptions, answer, answer_json,
    load::{self, Answered, Figures, Load},
    processors, progress, requests,
    testbed::Testbed,
};

/// Turns of each variant.
const ROUNDS: u32 = 5;
/// Time before the measurement, in each round.
const SETTLE: Duration = Duration::from_millis(500);
/// Tools of a session.
const TOOLS: [usize; 2] = [200, 2_000];
/// Measured variants, in the order of a round.
const VARIANTS: [&str; 3] = ["a bare request", "200 tools", "2000 tools"];

const RULES: &str = include_str!("sidecar.yaml");

/// Options of the bench.
#[derive(Debug, Args)]
pub struct SidecarBenchOptions {
    /// Seconds that each variant is measured, in five rounds, and as many with the database stopped.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Sessions that take steps at once.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    sessions: u16,
}

/// Figures while the database stands still.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Stopped {
    #[serde(flatten)]
    figures: Figures,
    slowest_ms: f64,
    /// Longest that a step waits for the database, by the settings.
    deadline_ms: u128,
    /// Answers that lacked a part because the database did not answer in time.
    late: u64,
    /// Times that the sidecar became passive and left the database alone for a while.
    passive: u64,
}

pub async fn run(global: &BenchGlobalOptions, options: &SidecarBenchOptions) -> anyhow::Result<()> {
    let ([livez, few, many], stopped) = Testbed::with(global, async |bed| measure(bed, options).await).await?;
    let ratio = |step: Figures| step.p50_ms / livez.p50_ms.max(f64::MIN_POSITIVE);
    if global.json {
        return answer_json(&json!({"livez": livez, "tools_200": few, "tools_2000": many, "stopped": stopped,
            "p50_vs_livez": [ratio(few), ratio(many)]}));
    }
    for (name, Figures { per_s, p50_ms, p99_ms }) in VARIANTS.into_iter().zip([livez, few, many]) {
        answer(&format!("{name}: {per_s:.0}/s, p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms"));
    }
    let Stopped { figures: Figures { per_s, p50_ms, p99_ms }, slowest_ms, deadline_ms, late, passive } = stopped;
    answer(&format!(
        "the database stopped: {per_s:.0}/s, p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms, the slowest {slowest_ms:.0} ms of \
         {deadline_ms} ms; {late} late, {passive} times passive"
    ));
    let (few, many, agents, processors) = (ratio(few), ratio(many), options.sessions, processors());
    answer(&format!(
        "a step takes {few:.1} and {many:.1} x a bare request (p50); server, Postgres and {agents} agents shared \
         {processors} processors"
    ));
    Ok(())
}

async fn measure(bed: &Testbed, options: &SidecarBenchOptions) -> anyhow::Result<([Figures; 3], Stopped)> {
    let shadows = bed.shadows(None)?;
    let rules = bed.write("sidecar.yaml", RULES)?;
    let settings = bed.write("umbra.yaml", &json!({"sidecar": {"path": rules}}).to_string())?;
    let settings = settings.to_str().context("the temporary directory has no name in UTF-8")?;
    let server = bed.serve("bench_sidecar", &shadows, &["--config", settings]).await?;
    let bare: Vec<_> = (0..options.sessions).map(|_| Arc::new(vec![bare()])).collect();
    let mut agents = vec![bare];
    for tools in TOOLS {
        progress(&format!("attaching {} sessions with {tools} tools", options.sessions));
        let mut sessions = Vec::new();
        for number in 0..options.sessions {
            sessions.push(Arc::new(attached(server.address, number, tools).await?));
        }
        agents.push(sessions);
    }
    let round = Duration::from_secs(options.seconds.into()) / ROUNDS;
    let mut rounds = [Vec::new(), Vec::new(), Vec::new()];
    for number in 1..=ROUNDS {
        for (which, agents) in agents.iter().enumerate() {
            progress(&format!("round {number} of {ROUNDS}: {}", VARIANTS[which]));
            rounds[which].push(Figures::of(&steps(server.address, agents, SETTLE, round).await?));
        }
    }
    let [late_before, passive_before] = missed(server.address).await?;
    if late_before > 0 {
        progress(&format!("{late_before} answers lacked something: the machine is too busy for this many sessions"));
    }
    progress("the database is stopped");
    let held = StoppedProcess::stop(bed.database.postmaster().context("the private Postgres has ended")?)?;
    let time = Duration::from_secs(options.seconds.into());
    let turn = steps(server.address, &agents[TOOLS.len()], Duration::ZERO, time).await?;
    let [late, passive] = missed(server.address).await?;
    drop(held);
    let stopped = Stopped {
        figures: Figures::of(&turn),
        slowest_ms: turn.quantile_ms(1.0),
        deadline_ms: bed.setup.settings.sidecar.deadline.as_millis(),
        late: late.saturating_sub(late_before),
        passive: passive.saturating_sub(passive_before),
    };
    Ok((rounds.map(|rounds| Figures::median(&rounds)), stopped))
}

/// Lets every agent take its steps, each over a connection of its own.
async fn steps(
    address: SocketAddr,
    agents: &[Arc<Vec<Vec<u8>>>],
    settle: Duration,
    time: Duration,
) -> anyhow::Result<Answered> {
    let mut loads = JoinSet::new();
    for requests in agents {
        let load = Load { address, requests: Arc::clone(requests), connections: 1, round: 0, every: None };
        loads.spawn(async move { load::run(&load, settle, time, || {}).await });
    }
    let mut all = Answered { time, latencies: Vec::new(), in_all: 0 };
    while let Some(one) = loads.join_next().await {
        let one = one??;
        all.latencies.extend(one.latencies);
        all.in_all += one.in_all;
    }
    all.latencies.sort_unstable();
    Ok(all)
}

fn bare() -> Vec<u8> {
    b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".to_vec()
}

/// Returns the number of answers that lacked a part for lateness, and the times that the sidecar became passive.
async fn missed(address: SocketAddr) -> anyhow::Result<[u64; 2]> {
    let names = ["umbra_sidecar_missed_total{why=\"deadline\"}", "umbra_sidecar_passive_total"];
    load::metrics(address, names).await
}

/// Attaches a sidecar and returns the agent's steps as requests.
async fn attached(address: SocketAddr, number: u16, tools: usize) -> anyhow::Result<Vec<Vec<u8>>> {
    let items: Vec<String> = (1..=40).map(|item| format!("- [ ] look after part {item} of the import\n")).collect();
    let items = items.concat();
    let body = json!({"agent": format!("bench-{tools}-{number}"), "task": "find the slow query and fix the import", "route": "edit",
        "tools": (0..tools).map(tool).collect::<Vec<_>>(),
        "documents": {"todo": format!("# Todo\n\n## Plan\n\n{items}\n## Later\n\n- [ ] write it down\n")}});
    let request = requests::request("/v1/sessions", "application/json", body.to_string().as_bytes());
    let attached: Value = serde_json::from_slice(&load::once(address, &request).await?)?;
    let id = attached["session"]["id"].as_str().context("a session was not kept")?;
    let post = |path: &str, body: &Value| {
        requests::request(&format!("/v1/sessions/{id}/{path}"), "application/json", body.to_string().as_bytes())
    };
    let mut steps = Vec::new();
    for (intent, tool, text) in [
        ("search the code of the repository for the slow query", "search_code_0", "Two queries have no index."),
        ("read the file of the importer and edit it", "edit_file_4", "The importer reads pages of 500 rows now."),
        ("list the invoices of last week", "list_invoices_9", "Two of nine invoices had no purchase order."),
    ] {
        let call = json!({"tool": {"server": "bench", "name": tool}, "arguments": {"query": intent, "limit": 20}});
        let mail = json!({"tool": {"server": "mail", "name": "send_email"}, "arguments": {"to": "ann@example.com", "text": text}});
        steps.push(post("turns", &json!({"route": "edit", "intent": intent, "planned_calls": [call, mail]})));
        steps.push(post(
            "messages",
            &json!({"role": "assistant", "content": text, "tool_calls": [call],
                "results": [{"tool": call["tool"], "content": umbra::cli::bench::corpus::CODE[0]}]}),
        ));
    }
    Ok(steps)
}

/// Returns one of many tools, as a server lists it.
fn tool(number: usize) -> Value {
    let [verb, noun] = [
        ["search", "edit", "list", "read", "create", "delete", "export", "compare", "archive", "rename"][number % 10],
        ["code", "file", "invoices", "report", "ticket", "branch", "message", "table", "page", "customer"]
            [number / 10 % 10],
    ];
    json!({"server": "bench", "name": format!("{verb}_{noun}_{number}"),
        "description": format!("{verb} the {noun} of area {number}, by its name, its date or whoever changed it last"),
        "inputSchema": {"type": "object", "properties": {
            "query": {"type": "string", "description": format!("what to {verb}")},
            "limit": {"type": "integer", "description": "at most so many"}}}})
}

/// A process and its children, stopped until this is dropped.
struct StoppedProcess(Vec<Pid>);

impl StoppedProcess {
    fn stop(pid: u32) -> anyhow::Result<Self> {
        // The parent first: it would start new children.
        let mut held = Self(vec![Pid::from_raw(i32::try_from(pid)?)]);
        held.signal(Signal::SIGSTOP)?;
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        for child in children.split_whitespace() {
            held.0.push(Pid::from_raw(child.parse()?));
        }
        held.signal(Signal::SIGSTOP)?;
        Ok(held)
    }

    fn signal(&self, signal: Signal) -> nix::Result<()> {
        self.0.iter().try_for_each(|pid| kill(*pid, signal))
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        if let Err(error) = self.signal(Signal::SIGCONT) {
            progress(&format!("the database stands still: {error:#}"));
        }
    }
}
