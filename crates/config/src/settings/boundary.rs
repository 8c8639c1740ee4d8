//! `boundary`: execution of tool calls, and the audit of them.

use std::{path::PathBuf, time::Duration};

use super::{
    super::{
        number::{Bytes, Time, whole},
        shape::{List, Maybe, word},
        text::{agent_glob, path, printable, text},
    },
    KIB, MIB, ms, secs,
    section::{nested, section},
};
use umbra_domain::Execution;

umbra_domain::words! {
    /// Selection of the reads that the audit keeps.
    pub enum AuditedReads {
        /// Every read.
        All = "all",
        /// One read in ten.
        Sampled = "sampled",
        /// No read that may run.
        None = "none",
    }
}

section! {
    /// Execution of tool calls, and the audit of them.
    Boundary {
        /// Name of the environment, for overrides and for `shadow_environments`, in upper or lower case.
        environment: String = "development".to_owned(), printable("a name", 100);
        /// Execution of calls: live, or shadow (reads run, calls that change something are answered by a stub). The
        /// environment's default when not set.
        execution: Option<Execution> = None, Maybe(word(&Execution::ALL, Execution::as_str));
        /// Environments whose default is shadow; all others are live.
        shadow_environments: Vec<String> = Vec::new(),
            List { len: 0..=64, single: true, item: printable("a name", 100) };
        /// Environment variable that means shadow unless it is set to 0, false, no or off; its name counts in any
        /// spelling. Between it and `execution` the stricter wins.
        safe_mode_variable: String = "AGENT_SAFE_MODE".to_owned(), text("a variable's name", 100, variable);
        /// Longest that a caller waits for a decision; after that, calls that change something are refused.
        deadline: Duration = secs(2), Time(ms(10)..=secs(60));
        /// Largest arguments of a call, as JSON.
        max_arguments_bytes: usize = 1024 * 1024, Bytes(KIB..=16 * MIB);
        /// Most calls that wait for a decision; beyond them, calls that change something are refused.
        queue_calls: usize = 4_096, whole(1..=1_000_000);
        /// Most calls in one transaction.
        flush_calls: usize = 256, whole(1..=10_000);
        /// Approvals of calls that a rule asks for.
        approvals: Approvals = Approvals::default(), nested();
        /// Audit of calls.
        audit: Audit = Audit::default(), nested();
        /// Conditions for production.
        gate: Gate = Gate::default(), nested();
        /// Agents and tools whose calls must have been decided.
        require_decisions: RequireDecisions = RequireDecisions::default(), nested();
        /// Calls of coding agents that ask through hooks in the mode enforce.
        hooks: Hooks = Hooks::default(), nested();
    }
}

umbra_domain::words! {
    /// Fate of a call in which the built-in checks see a critical risk.
    pub enum Flagged {
        /// The call does not run.
        Block = "block",
        /// A person must approve the call.
        Ask = "ask",
        /// The call runs; the finding comes afterwards.
        Allow = "allow",
    }
}

section! {
    /// Calls of coding agents that ask through hooks in the mode enforce.
    Hooks {
        /// Fate of a call in which the built-in checks see a critical risk: block, ask (a person approves it) or allow.
        flagged: Flagged = Flagged::Block, word(&Flagged::ALL, Flagged::as_str);
    }
}

section! {
    /// Conditions for production: `umbra check --environment NAME`, GET /v1/gate and /readyz.
    Gate {
        /// Time before its end in which a live override fails the gate, where shadow comes after it.
        expires_within: Duration = secs(86_400), Time(secs(0)..=secs(365 * 86_400));
        /// Period in which a tool that writes, was called and has no contract fails the gate.
        tools_seen_within: Duration = secs(30 * 86_400), Time(secs(60)..=secs(3_650 * 86_400));
        /// Period in which a call without a decision fails the gate (`require_decisions`).
        unguarded_within: Duration = secs(7 * 86_400), Time(secs(60)..=secs(365 * 86_400));
        /// Time after which /readyz fails while calls are answered by stubs alone and none that changes something has
        /// run. Never when not set.
        only_stubs_for: Option<Duration> = None, Maybe(Time(secs(1)..=secs(30 * 86_400)));
        /// Time after which /readyz fails while reads run and no call that changes something has. Never when not set.
        no_side_effect_for: Option<Duration> = None, Maybe(Time(secs(1)..=secs(30 * 86_400)));
    }
}

section! {
    /// Agents and tools whose calls must have been decided. An event of such a call without a decision is an unguarded
    /// call.
    RequireDecisions {
        /// Agents, as globs. Without any, unguarded calls are not looked for.
        agents: Vec<String> = Vec::new(), List { len: 0..=64, single: true, item: agent_glob() };
        /// Tools, as globs over `server.name`.
        tools: Vec<String> = vec!["*".to_owned()], List { len: 1..=64, single: true, item: agent_glob() };
        /// Longest time between a decision and its event, where the event names no call: a decision about the same tool
        /// and arguments counts.
        within: Duration = secs(600), Time(secs(1)..=secs(86_400));
    }
}

section! {
    /// Approvals of calls that a rule asks for.
    Approvals {
        /// Lifetime of an approval: it is given and used within this time.
        expires_after: Duration = secs(3_600), Time(secs(1)..=secs(30 * 86_400));
    }
}

section! {
    /// Audit of calls.
    Audit {
        /// Reads that the audit keeps: all, sampled (one in ten) or none. Refused calls are always kept.
        reads: AuditedReads = AuditedReads::All, word(&AuditedReads::ALL, AuditedReads::as_str);
        /// Folder of the audit's files: its rows as JSON lines, its checkpoints and the key that signs them. The folder
        /// `audit` in the data directory when not set.
        dir: Option<PathBuf> = None, Maybe(path());
        /// Size of a full audit file, in MiB; full files are kept for ever.
        max_log_size_mb: u64 = 500, whole(1..=1_000_000);
    }
}

fn variable(text: &str) -> Result<String, String> {
    let plain =
        text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !text.starts_with(|c: char| c.is_ascii_digit());
    if plain { Ok(text.to_owned()) } else { Err("use letters, digits and _, no digit first".to_owned()) }
}
