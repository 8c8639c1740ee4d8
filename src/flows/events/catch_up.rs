//! `umbra batch`: reserves reviews of recent stored events without one, skipped for a cooldown, a sample or a cap, or
//! watched by no shadow. Caps and cost floor hold as for a review on demand; cooldown and sample do not.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use serde::Serialize;
use tokio::{sync::oneshot, time::Instant};
use utoipa::ToSchema;

use crate::{
    budget::{TaskCost, floor::FloorCheck},
    flows::{
        active_configuration::ActiveConfiguration,
        events::{
            AcceptError, Reservations,
            accept::{candidate, is_own_traffic},
            flush_plan::{Plan, Planned},
            pending::{Pair, Pending},
        },
    },
    watch::Match,
};
use umbra_domain::{Disposition, EventId, NanoUsd, StoredEvent, Trigger};
use umbra_store::{StoreError, catch_up::Unreviewed, events::received_at};

/// Events per page, and most events that are searched.
const PAGE: u32 = 50;
const LOOK_BACK: usize = 10_000;
/// Attempts while other processes reserve reviews of the same events.
const TRIES: u32 = 5;

/// Selection of the events to review.
#[derive(Debug, Clone)]
pub struct CatchUp {
    /// Earliest time of receipt.
    pub since: Timestamp,
    /// Most events; the newest come first.
    pub max: usize,
    /// Shadow that reviews the events, whether it watches them or not; without it, each by the first that watches it.
    pub shadow: Option<String>,
    /// Agent whose events are reviewed; all agents if `None`.
    pub agent: Option<String>,
    /// True if the cost floors of shadows do not count.
    pub ignore_floor: bool,
}

/// Event, and the result of the request to review it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = CaughtUpEvent)]
pub struct CaughtUp {
    /// Id of the event.
    #[schema(value_type = String, example = "evt_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub event_id: EventId,
    /// Agent of the event.
    pub agent: String,
    /// Task of the event.
    pub task_id: Option<String>,
    /// Time of receipt.
    pub received_at: Timestamp,
    /// Shadow, and whether the review is queued or why not.
    #[serde(flatten)]
    pub disposition: Disposition,
}

/// Reason why nothing was reserved.
#[derive(Debug, thiserror::Error)]
pub enum CatchUpError {
    /// No shadow has this name.
    #[error("shadow not found; `umbra status` and GET /v1/shadows list them")]
    UnknownShadow,
    /// The shadow is switched off.
    #[error("the shadow is disabled: set `enabled: true` in its configuration")]
    ShadowDisabled,
    /// The database does not answer, or other processes hold the meters.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Reservations {
    /// Reserves reviews of the newest events that have none, and returns the disposition of each. The reviews wait in
    /// the queue; the caller wakes the workers.
    ///
    /// # Errors
    /// See [`CatchUpError`]; nothing is reserved then, unless the connection broke at the commit.
    pub async fn catch_up(&self, request: &CatchUp) -> Result<Vec<CaughtUp>, CatchUpError> {
        let rules = self.rules.load_full();
        let named = match &request.shadow {
            None => None,
            Some(name) => {
                let position = rules.position(name).ok_or(CatchUpError::UnknownShadow)?;
                let enabled = rules.shadows.get(position).is_some_and(|armed| armed.shadow.enabled);
                Some(enabled.then_some(position).ok_or(CatchUpError::ShadowDisabled)?)
            }
        };
        for _ in 0..TRIES {
            let found = self.unreviewed(&rules, request, named).await?;
            match self.reserve_later(&found).await {
                Ok(Some(caught_up)) => return Ok(caught_up),
                // Other processes reserved some of these reviews, or hold the meters: search again.
                Ok(None) | Err(StoreError::Contended { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Contended { sqlstate: "55P03".into() }.into())
    }

    async fn unreviewed(
        &self,
        rules: &Arc<ActiveConfiguration>,
        request: &CatchUp,
        named: Option<usize>,
    ) -> Result<Vec<Pending>, StoreError> {
        let mut found: Vec<Pending> = Vec::new();
        let (mut before, mut looked) = (None, 0);
        while looked < LOOK_BACK {
            let page = self.store.events().unreviewed(request.since, request.agent.as_deref(), before, PAGE).await?;
            looked += page.len();
            let more = page.len() == PAGE as usize;
            before = page.last().map(|row| row.seq);
            let page: Vec<(EventId, StoredEvent)> = page.into_iter().filter_map(|row| self.to_look_at(row)).collect();
            let costs = if request.ignore_floor { None } else { Some(self.costs_of(&page).await?) };
            for (id, stored) in page {
                found.extend(to_review(rules, (id, stored), named, costs.as_ref()));
                if found.len() == request.max {
                    return Ok(found);
                }
            }
            if !more {
                break;
            }
        }
        Ok(found)
    }

    /// Returns the event, if it is not Umbra's own traffic.
    fn to_look_at(&self, Unreviewed { id, payload, .. }: Unreviewed) -> Option<(EventId, StoredEvent)> {
        let stored: StoredEvent = serde_json::from_slice(&payload).ok()?;
        (!is_own_traffic(&self.installation, &stored.event, &payload)).then_some((id, stored))
    }

    /// Returns the present costs of these events' tasks, where the events do not state them.
    async fn costs_of(&self, events: &[(EventId, StoredEvent)]) -> Result<HashMap<String, NanoUsd>, StoreError> {
        let unsaid = events.iter().filter(|(_, stored)| stored.event.task_cost_usd.is_none());
        let tasks: BTreeSet<&str> = unsaid.filter_map(|(_, stored)| stored.event.task_id.as_deref()).collect();
        if tasks.is_empty() {
            return Ok(HashMap::new());
        }
        self.store.events().summed_costs(&tasks.into_iter().collect::<Vec<_>>()).await
    }

    /// Reserves in one transaction, as the writer does: locks the meters, decides, stores the reviews. `None` if some
    /// of the events were reviewed meanwhile.
    async fn reserve_later(&self, found: &[Pending]) -> Result<Option<Vec<CaughtUp>>, StoreError> {
        if found.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let events: Vec<&Pending> = found.iter().collect();
        let mut plan = Plan::unleased(self, &events);
        let ids: Vec<EventId> = events.iter().map(|pending| pending.id).collect();
        let mut flush = self.store.events().begin_later().await?;
        let (now, rows) = flush.lock(&plan.meter_keys()).await?;
        if !flush.reviewed_among(&ids).await?.is_empty() {
            flush.abandon().await?;
            return Ok(None);
        }
        plan.decide(now, rows, Vec::new(), Vec::new());
        let Planned { mut writing, dispositions, .. } = plan.finish();
        // The events are stored, and their skips counted, since they were accepted.
        writing.events.clear();
        writing.skips.clear();
        writing.later = true;
        flush.write(self.clock.new_id(), &writing).await?;
        let caught_up = events.iter().zip(dispositions).filter_map(|(pending, dispositions)| {
            let disposition = dispositions.into_iter().next()?;
            let (agent, task_id) = (pending.agent.clone(), pending.task_id.clone());
            let (event_id, received_at) = (pending.id, received_at(pending.id));
            Some(CaughtUp { event_id, agent, task_id, received_at, disposition })
        });
        Ok(Some(caught_up.collect()))
    }
}

/// Returns the event as the writer takes it, without its payload, if a shadow is to review it. `costs` are compared
/// with the shadows' floors.
fn to_review(
    rules: &Arc<ActiveConfiguration>,
    (id, stored): (EventId, StoredEvent),
    named: Option<usize>,
    costs: Option<&HashMap<String, NanoUsd>>,
) -> Option<Pending> {
    let event = &stored.event;
    let sum = event.task_id.as_ref().zip(costs).and_then(|(task, costs)| costs.get(task).copied());
    let cost = TaskCost::Known(event.task_cost_usd.or(sum).or(event.cost_usd));
    let passes = |position: usize| {
        let armed = rules.shadows.get(position);
        costs.is_none() || armed.is_some_and(|armed| cost.check(&armed.shadow) == FloorCheck::Passed)
    };
    let (shadow, trigger, matched) = if let Some(position) = named.filter(|position| passes(*position)) {
        let trigger = stored.triggers.first().map_or(Trigger::All, |mark| mark.name);
        (position, trigger, vec![trigger])
    } else if named.is_some() {
        return None;
    } else {
        let enabled = |position: usize| rules.shadows.get(position).is_some_and(|armed| armed.shadow.enabled);
        let watching = rules.watcher.matches(&stored.event, &stored.triggers);
        // A step of a task is reviewed with the task.
        let fits = |found: &Match| !found.is_step() && enabled(found.shadow) && passes(found.shadow);
        let first = watching.into_iter().find(fits)?;
        (first.shadow, first.trigger, first.matched(&stored.triggers))
    };
    let fate = Ok(candidate(rules, shadow, &stored.event, matched, None));
    let pairs = vec![Pair { shadow, trigger, fate }];
    let StoredEvent { event, triggers, .. } = stored;
    let (answer, _) = oneshot::channel::<Result<crate::flows::events::EventReceipt, AcceptError>>();
    let (agent, task_id) = (event.agent, event.task_id);
    let (rules, payload) = (Arc::clone(rules), Vec::new());
    let (key, by, since, cost, on_demand) = (None, None, Instant::now(), None, true);
    Some(Pending { rules, id, agent, task_id, triggers, payload, key, by, since, pairs, cost, on_demand, answer })
}
