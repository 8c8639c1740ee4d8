//! `sidecar`: the companion of agents' sessions, and its bounds.

use std::{path::PathBuf, time::Duration};

use super::{
    super::{
        number::{Time, whole},
        shape::{Flag, Maybe, word},
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
        /// A directory that mirrors the documents of sessions as files, for agents and people to read and change. No
        /// files when not set.
        workspace: Option<PathBuf> = None, Maybe(path());
        /// Time after which an answer is given with the results so far. Rules in words have deadlines of their own.
        deadline: Duration = ms(250), Time(ms(10)..=secs(60));
        /// Most sessions of an agent at a time.
        max_sessions_per_agent: u32 = 32, whole(1..=10_000);
        /// Time after which an unused session is closed.
        idle_close: Duration = secs(30 * 60), Time(secs(10)..=secs(7 * 86_400));
        /// Most documents of a session.
        max_documents: usize = 16, whole(1..=1_000);
        /// Most tools that a session may be given.
        max_tools: usize = 10_000, whole(1..=100_000);
        /// Most patterns of successful tasks that are kept.
        keep_patterns: usize = 5_000, whole(1..=1_000_000);
        /// True to learn patterns from tasks without a session too, once their reviews approve them. Such patterns come
        /// from approved tasks alone, are offered only to their agent, and are data.
        mine_trajectories: bool = true, Flag;
        /// Part of the sidecar in the sessions of coding agents that are attached by hooks, where a sidecar file is
        /// given: off; advise (prompts come with patterns and the documents that are due); or hold (an agent also does
        /// not end its turn, three times at most, before its documents are in order).
        hooks: SidecarHooks = SidecarHooks::Advise, word(&SidecarHooks::ALL, SidecarHooks::as_str);
    }
}

impl Sidecar {
    /// Returns the part of the sidecar in the sessions of coding agents: none without a sidecar file.
    pub fn companion(&self) -> SidecarHooks {
        if self.path.is_some() { self.hooks } else { SidecarHooks::Off }
    }
}

umbra_domain::words! {
    /// Part of the sidecar in the sessions of coding agents.
    pub enum SidecarHooks {
        /// None.
        Off = "off",
        /// Prompts come with patterns and the documents that are due.
        Advise = "advise",
        /// An agent also does not end its turn before its documents are in order.
        Hold = "hold",
    }
}
