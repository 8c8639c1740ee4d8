//! `umbra sidecar`: judges recorded sessions again.

use clap::Subcommand;

use super::{CommandFailure, GlobalOptions, answer, answer_json, table};
use crate::flows::sessions::replay::{Replay, replay_session};
use umbra_config::Loaded;
use umbra_domain::SessionId;

pub(super) const NOTES: &str = "Only rules are judged again, with the sidecar file and the tools file of the current \
                                settings; models, tools and patterns are not. Exit codes: 0 all rulings are the same; \
                                1 a ruling differs, a step was changed or is missing, or the session is unknown or \
                                cannot be read; 2 wrong usage.";

/// Most differences in the table.
const SHOWN: usize = 100;

#[derive(Debug, Subcommand)]
pub(super) enum SidecarAction {
    /// Judge each step of a session again by the present rules, and show the differences.
    #[command(after_help = NOTES)]
    Replay {
        /// Id of the session: ses_ and 32 hex digits.
        session: SessionId,
    },
    /// Judge the latest sessions again: what would other rules have said?
    #[command(after_help = NOTES)]
    Backtest {
        /// Only sessions of this agent.
        #[arg(long)]
        agent: Option<String>,
        /// Most sessions to judge; the latest are taken.
        #[arg(long, value_name = "N", default_value_t = 100)]
        sessions: u32,
    },
}

pub(super) async fn run(global: &GlobalOptions, action: SidecarAction) -> Result<(), CommandFailure> {
    let (setup, database) = global.open_existing().await?;
    let Loaded { value: boundary, .. } = setup.boundary()?;
    let Loaded { value: rules, .. } = setup.guarding(&boundary.tools, &setup.shadows()?.value, &|_| None)?;
    let store = &database.store;
    let replayed = async {
        let ids = match &action {
            SidecarAction::Replay { session } => vec![*session],
            SidecarAction::Backtest { agent, sessions } => {
                store.sessions().recent_sessions(agent.as_deref(), *sessions).await?
            }
        };
        let mut replays = Vec::new();
        for id in ids {
            replays.extend(replay_session(store, &rules, &boundary.tools, id).await?);
        }
        anyhow::Ok(replays)
    };
    let replayed = replayed.await;
    database.close().await;
    let replays = replayed?;
    let one = matches!(action, SidecarAction::Replay { .. });
    if one && replays.is_empty() {
        return Err(anyhow::anyhow!("session not found in this database").into());
    }
    match (global.json, one, replays.first()) {
        (true, true, Some(replay)) => answer_json(replay)?,
        (true, ..) => answer_json(&replays)?,
        _ => show(&replays),
    }
    let is_same =
        |replay: &Replay| replay.differences.is_empty() && replay.unreadable.is_empty() && replay.missing.is_empty();
    let same = replays.iter().all(is_same);
    if same { Ok(()) } else { Err(CommandFailure::AlreadyReported) }
}

fn show(replays: &[Replay]) {
    let differences = || replays.iter().flat_map(|replay| replay.differences.iter().map(move |one| (replay, one)));
    if differences().next().is_some() {
        let mut rows = table::new(&["session", "step", "of", "then", "now"]);
        for (replay, one) in differences().take(SHOWN) {
            let [part, then, now] = [&one.part, &one.then, &one.now].map(|text| table::plain(text));
            rows.add_row([replay.session.to_string(), one.step.to_string(), part, then, now]);
        }
        answer(&rows.to_string());
    }
    let total = differences().count();
    if total > SHOWN {
        answer(&format!("and {} more: --json lists all", total - SHOWN));
    }
    let sum = |of: fn(&Replay) -> usize| replays.iter().map(of).sum::<usize>();
    let (rulings, unreadable) = (sum(|one| one.rulings as usize), sum(|one| one.unreadable.len()));
    let missing = sum(|one| one.missing.len());
    answer(&format!("{total} of {rulings} rulings in {} sessions differ now", replays.len()));
    if unreadable > 0 {
        answer(&format!(
            "{unreadable} steps were not judged: they are not as recorded, or their documents no longer exist"
        ));
    }
    if missing > 0 {
        answer(&format!("recorded steps are missing in {missing} places"));
    }
}
