//! `umbra batch`: reviews recent stored events that no shadow has reviewed, with or without a server.

use std::{collections::BTreeMap, time::Duration};

use clap::Args;
use serde_json::json;
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, progress, table};
use crate::{
    app::{App, artifacts},
    flows::{
        Flows,
        events::catch_up::{CatchUp, CaughtUp},
    },
};
use umbra_config::quantity::parse_moment;
use umbra_domain::{Assessment, ReviewId, ReviewState, SkipReason, clock::Clock};
use umbra_store::{StoreError, events::received_at, reviews::Review};

/// Reviews that run at a time.
const PLACES: usize = 4;
/// Longest wait for a review, before it is left to a server.
const PATIENCE: Duration = Duration::from_mins(2);
/// Pause between reads of a review that waits, or that a server took.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// Notes of the help, with the exit codes.
pub(super) const EXIT_CODES: &str = "An event counts as reviewed if a review of it is done, queued or running. \
                                     Cooldown and sample do not apply to these reviews; the caps of the day do, and \
                                     the cost floor does unless --ignore-floor is given.\n\nExit codes: 0 all events \
                                     were reviewed, or there was nothing to review; 1 a cap refused some reviews, or \
                                     some have no result yet; 2 wrong usage.";

/// Selection of events to review.
#[derive(Debug, Args)]
pub(super) struct BatchOptions {
    /// Earliest time of receipt: a duration up to now (24h, 7d), or a time (RFC 3339).
    #[arg(long, default_value = "24h", value_name = "TIME")]
    since: String,
    /// Most events to review; the newest are taken.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=500))]
    max: u16,
    /// Shadow that reviews them, even if it does not watch them; without it, the first shadow that watches each.
    #[arg(long)]
    shadow: Option<String>,
    /// Only events of this agent.
    #[arg(long)]
    agent: Option<String>,
    /// Include events whose task cost less than the shadow's cost floor (`skip_if_task_cost_below`).
    #[arg(long)]
    ignore_floor: bool,
}

pub(super) async fn run(global: &GlobalOptions, options: BatchOptions) -> Result<(), CommandFailure> {
    let (setup, database) = global.open_existing().await?;
    let App { flows, .. } = App::build(&setup, &database.store, Clock::system()).await?;
    let BatchOptions { since, max, shadow, agent, ignore_floor } = options;
    let since = parse_moment(&since, flows.clock.now()).ok_or_else(|| {
        CommandFailure::Usage(format!("--since: {since:?} is neither a duration such as 24h nor an RFC 3339 time"))
    })?;
    let request = CatchUp { since, max: max.into(), shadow, agent, ignore_floor };
    flows.pulse.beat().await?;
    let stop = CancellationToken::new();
    let walk = async {
        let walked = walk(&flows, &request).await;
        stop.cancel();
        walked
    };
    let (walked, ()) = tokio::join!(walk, flows.maintenance.clone().beat_until(stop.clone()));
    database.close().await;
    let (caught_up, reviews) = walked?;
    for review in reviews.values().filter(|review| review.assessment.is_some()) {
        artifacts(&setup).write_page(review).await.map_err(anyhow::Error::from)?;
    }
    show(global, &caught_up, &reviews)
}

/// Reserves reviews and performs them; waits for those that a server claims first.
async fn walk(flows: &Flows, request: &CatchUp) -> Result<(Vec<CaughtUp>, BTreeMap<ReviewId, Review>), CommandFailure> {
    let caught_up = flows.reservations.catch_up(request).await?;
    let mut waiting: Vec<ReviewId> = caught_up.iter().rev().filter_map(|one| one.disposition.review_id).collect();
    let bar = progress::bar(waiting.len() as u64, "reviews");
    let mut reviews = BTreeMap::new();
    let mut running = JoinSet::new();
    loop {
        while running.len() < PLACES
            && let Some(id) = waiting.pop()
        {
            running.spawn(perform(flows.clone(), id));
        }
        let Some(done) = running.join_next().await else { break };
        if let Some(review) = done.map_err(anyhow::Error::from)?? {
            reviews.insert(review.id, review);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((caught_up, reviews))
}

/// Returns the review once it has ended, or its present state after a while; `None` if it was given up and its unit
/// returned.
async fn perform(flows: Flows, id: ReviewId) -> Result<Option<Review>, StoreError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(worker) = flows.pulse.live_worker_id()
            && let Some(job) = flows.store.queue().claim_one(worker, id).await?
        {
            flows.reviews.clone().perform(job, None).await;
        }
        let mut review = flows.store.reviews().get(id).await?;
        if let Some(review) = review.as_mut().filter(|review| review.has_ended()) {
            review.findings = Some(flows.store.findings().findings_of(&[id]).await?);
        }
        if review.as_ref().is_none_or(Review::has_ended) || Instant::now() > deadline {
            return Ok(review);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

fn show(
    global: &GlobalOptions,
    caught_up: &[CaughtUp],
    reviews: &BTreeMap<ReviewId, Review>,
) -> Result<(), CommandFailure> {
    let queued: Vec<ReviewId> = caught_up.iter().filter_map(|one| one.disposition.review_id).collect();
    let refused = caught_up.len() - queued.len();
    let open = queued.iter().filter(|id| !reviews.get(*id).is_some_and(Review::has_ended)).count();
    if global.json {
        let items: Vec<_> = caught_up
            .iter()
            .map(|CaughtUp { event_id: event, agent, task_id, disposition, .. }| {
                let review = disposition.review_id.and_then(|id| reviews.get(&id));
                json!({"event_id": event, "agent": agent, "task_id": task_id, "received_at": received_at(*event),
                    "shadow": disposition.shadow, "trigger": disposition.trigger, "mode": disposition.mode,
                    "outcome": disposition.outcome, "reason": disposition.reason,
                    "review_id": disposition.review_id, "review": review})
            })
            .collect();
        answer_json(&json!({"queued": queued.len(), "refused": refused, "items": items}))?;
    } else if caught_up.is_empty() {
        answer(
            "no event of this time lacks a review (--since looks further back, --ignore-floor includes events below a \
             cost floor)",
        );
    } else {
        let mut rows = table::new(&["event", "agent", "shadow", "trigger", "result"]);
        for CaughtUp { event_id: event, agent, disposition, .. } in caught_up {
            let result = match disposition.review_id.map(|id| (id, reviews.get(&id))) {
                None => format!("refused: {}", disposition.reason.map_or("unknown reason", SkipReason::as_str)),
                Some((_, None)) => "given up: the model gave no answer".to_owned(),
                Some((id, Some(review))) => {
                    let state = review.state.map_or("open", ReviewState::as_str);
                    format!("{} {id}", review.assessment.map_or(state, Assessment::as_str))
                }
            };
            let (event, agent) = (event.to_string(), table::plain(agent));
            rows.add_row([&event, &agent, &disposition.shadow, disposition.trigger.as_str(), &result]);
        }
        answer(&rows.to_string());
    }
    let checked = reviews.values().filter(|review| review.assessment == Some(Assessment::Checked)).count();
    if checked > 0 {
        complain(&format!("{checked} CHECKED: only the built-in checks reviewed, and found nothing; no model judged"));
    }
    if refused > 0 {
        complain(&format!("{refused} refused; the table gives each reason"));
    }
    if open > 0 {
        complain(&format!("{open} without a result yet: a running server finishes the waiting reviews"));
    }
    if refused + open > 0 { Err(CommandFailure::AlreadyReported) } else { Ok(()) }
}
