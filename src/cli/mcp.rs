//! `umbra mcp`: the proxy in front of a server of the Model Context Protocol, over standard input and output.

use clap::Args;
use serde_json::json;

use super::{CommandFailure, GlobalOptions, usage};
use crate::{
    app::{McpCaller, Proxy, accept_tools, proxy},
    mcp::PinResult,
};
use umbra_config::{
    Environment,
    settings::{McpSelect, McpUpstream, UpstreamAt, UpstreamCommand, plain_name},
};

/// Notes of the help, after the options.
pub(super) const NOTES: &str = "Configure a client to start this command in place of the server: `umbra mcp -- npx -y \
                                @modelcontextprotocol/server-filesystem /data`. Each tool call is first decided, \
                                audited and shown to the shadows; the tools file declares which calls run, which are \
                                stubbed and by which contract. A running Umbra server makes the reviews. The proxy \
                                ends when the client ends.\n\nExit codes: 0 the client left, 1 faults, 2 wrong usage.";

/// Server to proxy, and the caller.
#[derive(Debug, Args)]
pub(super) struct McpOptions {
    /// Profile of the settings (`mcp.profiles`) to serve; with a command, the name under which its tools are pinned.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Name of the command's server in contracts and rules.
    #[arg(long, value_name = "NAME", default_value = "mcp")]
    server: String,
    /// Trust the annotations of the command's server.
    #[arg(long)]
    trusted: bool,
    /// Agent that calls.
    #[arg(long)]
    agent: Option<String>,
    /// Session of the agent; a new one unless set.
    #[arg(long)]
    session: Option<String>,
    /// Run of the agent, whose stubs share their state; the session unless set.
    #[arg(long)]
    run: Option<String>,
    /// Seed that makes the stubs of the run repeatable.
    #[arg(long)]
    seed: Option<String>,
    /// Route that the agent works on, for rules.
    #[arg(long)]
    route: Option<String>,
    /// Mode that the agent is in, for rules; the outermost first.
    #[arg(long, value_name = "MODE")]
    mode: Vec<String>,
    /// Task by which tools are selected.
    #[arg(long)]
    task: Option<String>,
    /// List only so many tools that fit the task, where there are more; `search_tools` and `call_tool` reach all.
    #[arg(long, value_name = "LIMIT")]
    select: Option<u16>,
    /// Do not serve: pin the present descriptions of the servers' tools, after a person has reviewed them.
    #[arg(long)]
    accept: bool,
    /// Program of the server and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) async fn run(global: &GlobalOptions, options: McpOptions) -> Result<(), CommandFailure> {
    let McpOptions { profile, server, trusted, agent, session, run, seed, route, mode, task, select, accept, command } =
        options;
    if profile.is_none() && command.is_empty() {
        let help = "write the server's command after --, or name a profile of the settings by --profile NAME";
        return usage(help);
    }
    for (flag, text) in
        [("--agent", &agent), ("--session", &session), ("--run", &run), ("--seed", &seed), ("--route", &route)]
    {
        let fits = |text: &String| (1..=256).contains(&text.len()) && !text.trim().is_empty() && !text.contains('\0');
        if text.as_ref().is_some_and(|text| !fits(text)) {
            return usage(format!("{flag}: 1 to 256 bytes, not blank"));
        }
    }
    if task.as_ref().is_some_and(|task| task.trim().is_empty() || task.len() > 4096) {
        return usage("--task: 1 to 4096 bytes, not blank");
    }
    plain_name(&server).map_err(|help| CommandFailure::Usage(format!("--server: {help}")))?;
    let mut words = command.into_iter();
    let named = words.next().map(|program| {
        let at = UpstreamAt::Command(UpstreamCommand::of_person(program, words.collect(), &Environment::of_process()));
        (server, McpUpstream { at, trusted, agents: Vec::new() })
    });
    let select = select.map(|limit| McpSelect { limit: limit.into(), ..McpSelect::default() });
    let caller = McpCaller { agent: agent.unwrap_or_default(), session, run, seed, route, modes: mode, task };
    let asked = Proxy { profile: profile.unwrap_or_else(|| "local".to_owned()), server: named, select, caller };
    let (setup, database) = global.open().await?;
    if !accept {
        let served = Box::pin(proxy(&setup, &database, asked)).await;
        database.close().await;
        return Ok(served?);
    }
    let accepted = Box::pin(accept_tools(&setup, &database, asked)).await;
    database.close().await;
    let accepted = accepted?;
    global.print(&json!({"servers": accepted}), || {
        let line = |one: &PinResult| {
            let pinned = if one.pinned.is_empty() { "no new tools".to_owned() } else { one.pinned.join(", ") };
            format!("{}: {} tools; pinned: {pinned}\n", one.server, one.tools)
        };
        accepted.iter().map(line).collect()
    })
}
