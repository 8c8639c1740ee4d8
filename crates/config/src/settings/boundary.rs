//! `boundary`: whether calls of tools run, and what is kept of them.

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
    /// Which reads the audit has.
    pub enum AuditedReads {
        /// Every one.
        All = "all",
        /// One in ten.
        Sampled = "sampled",
        /// None that may run.
        None = "none",
    }
}

section! {
    /// Whether calls of tools run, and what is kept of them.
    Boundary {
        /// The environment's name, for overrides and for `shadow_environments`, in whatever letters.
        environment: String = "development".to_owned(), printable("a name", 100);
        /// Whether calls run: live, or shadow (reads run, whatever changes something is answered by a stub). The
        /// environment's default when not set.
        execution: Option<Execution> = None, Maybe(word(&Execution::ALL, Execution::as_str));
        /// Environments whose default is shadow; that of others is live.
        shadow_environments: Vec<String> = Vec::new(),
            List { len: 0..=64, single: true, item: printable("a name", 100) };
        /// The variable of this process that means shadow, in whatever letters it is written and whatever it is set to but 0,
        /// false, no or off. Between it and `execution` the stricter wins.
        safe_mode_variable: String = "AGENT_SAFE_MODE".to_owned(), text("a variable's name", 100, variable);
        /// Longest that a caller waits for a decision; then whatever changes something is refused.
        deadline: Duration = secs(2), Time(ms(10)..=secs(60));
        /// Largest arguments of a call, as JSON.
        max_arguments_bytes: usize = 1024 * 1024, Bytes(KIB..=16 * MIB);
        /// Most calls that wait for a decision; of more, whatever changes something is refused.
        queue_calls: usize = 4_096, whole(1..=1_000_000);
        /// Most calls in one transaction.
        flush_calls: usize = 256, whole(1..=10_000);
        /// Approvals of calls that a rule asks for.
        approvals: Approvals = Approvals::default(), nested();
        /// What is kept of calls.
        audit: Audit = Audit::default(), nested();
        /// What stands against production.
        gate: Gate = Gate::default(), nested();
        /// Whose calls of tools must have been decided.
        require_decisions: RequireDecisions = RequireDecisions::default(), nested();
    }
}

section! {
    /// What stands against production: `umbra check --environment NAME`, GET /v1/gate and /readyz.
    Gate {
        /// A live override that ends within so long, where shadow comes after it.
        expires_within: Duration = secs(86_400), Time(secs(0)..=secs(365 * 86_400));
        /// Tools that were called within so long and have no contract.
        tools_seen_within: Duration = secs(30 * 86_400), Time(secs(60)..=secs(3_650 * 86_400));
        /// Calls without a decision within so long (`require_decisions`).
        unguarded_within: Duration = secs(7 * 86_400), Time(secs(60)..=secs(365 * 86_400));
        /// /readyz fails while calls have been answered by stubs for so long, and nothing has run that changes something.
        /// Never when not set.
        only_stubs_for: Option<Duration> = None, Maybe(Time(secs(1)..=secs(30 * 86_400)));
        /// /readyz fails while reads have run for so long, and nothing that changes something. Never when not set.
        no_side_effect_for: Option<Duration> = None, Maybe(Time(secs(1)..=secs(30 * 86_400)));
    }
}

section! {
    /// Whose calls of tools must have been decided. An event of such a call without a decision is an unguarded call.
    RequireDecisions {
        /// Agents, as globs. None: nothing is looked for.
        agents: Vec<String> = Vec::new(), List { len: 0..=64, single: true, item: agent_glob() };
        /// Tools, as globs over `server.name`.
        tools: Vec<String> = vec!["*".to_owned()], List { len: 1..=64, single: true, item: agent_glob() };
        /// How long before its event a decision may have been made that has the same tool and arguments, where the event
        /// names no call.
        within: Duration = secs(600), Time(secs(1)..=secs(86_400));
    }
}

section! {
    /// Approvals of calls that a rule asks for.
    Approvals {
        /// How long one may be given, and used.
        expires_after: Duration = secs(3_600), Time(secs(1)..=secs(30 * 86_400));
    }
}

section! {
    /// What is kept of calls.
    Audit {
        /// Which reads: all, sampled (one in ten) or none. What is refused is always kept.
        reads: AuditedReads = AuditedReads::All, word(&AuditedReads::ALL, AuditedReads::as_str);
        /// Folder of the files: the audit as JSON lines, its checkpoints and the key that signs them. The folder `audit` in
        /// the data directory when not set.
        dir: Option<PathBuf> = None, Maybe(path());
        /// A file is full at so many MiB; full ones are kept for ever.
        max_log_size_mb: u64 = 500, whole(1..=1_000_000);
    }
}

fn variable(text: &str) -> Result<String, String> {
    let plain =
        text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !text.starts_with(|c: char| c.is_ascii_digit());
    if plain { Ok(text.to_owned()) } else { Err("use letters, digits and _, no digit first".to_owned()) }
}
