//! `sidecar`: the companion of agents' sessions, and its bounds.

use std::{path::PathBuf, time::Duration};

use super::{
    super::{
        number::{Time, whole},
        shape::{Flag, Maybe},
        text::path,
    },
    ms, secs,
    section::section,
};

section! {
    /// The companion of agents' sessions, and its bounds.
    Sidecar {
        /// The sidecar file: rules of its guardrail. Without it the policies of the tools file alone hold.
        path: Option<PathBuf> = None, Maybe(path());
        /// A directory in which documents of sessions are files as well, for agents and people to read and change. Without it
        /// there are none.
        workspace: Option<PathBuf> = None, Maybe(path());
        /// After so long an answer is given as it stands by then. Rules in words have deadlines of their own.
        deadline: Duration = ms(250), Time(ms(10)..=secs(60));
        /// Most sessions of an agent at a time.
        max_sessions_per_agent: u32 = 32, whole(1..=10_000);
        /// A session that nobody has used for so long is closed.
        idle_close: Duration = secs(30 * 60), Time(secs(10)..=secs(7 * 86_400));
        /// Most documents of a session.
        max_documents: usize = 16, whole(1..=1_000);
        /// Most tools that a session may be given.
        max_tools: usize = 10_000, whole(1..=100_000);
        /// Most patterns of what worked that are kept.
        keep_patterns: usize = 5_000, whole(1..=1_000_000);
        /// Whether tasks without a session leave patterns too, once their reviews approve them. On, as sessions do it by
        /// themselves: what is mined is of approved tasks alone, goes to nobody but their agent, and is data.
        mine_trajectories: bool = true, Flag;
    }
}
