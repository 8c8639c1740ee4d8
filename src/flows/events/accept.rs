//! A posted event, from its screening to the answer after the commit.
//!
//! In order: `checks` screens it (nothing unscreened goes further), `watch` finds the shadows, `budget` gates each pair
//! as far as the event and memory allow, and the writer's transaction does the rest. No model is asked, nothing is
//! read.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde_json::value::RawValue;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};

use crate::{
    budget::{self, Facts, Grouping, ReviewCandidate, SAMPLE_SCALE, TaskCost, WorstCaseCost},
    flows::{
        active_configuration::ActiveConfiguration,
        collapse::collapse_key,
        events::{
            Events, nonce,
            pending::{AcceptError, EventReceipt, Pair, Pending},
            spool::{SpooledEvent, SpooledKey},
        },
    },
    ingest::Incoming,
    watch::Match,
};
use umbra_checks::{ScreenedEvent, SecretDigest};
use umbra_domain::{Event, EventId, KeyId, Mark, NanoUsd, Severity, Shadow, SkipReason, StoredEvent, Trigger};
use umbra_llm::Gateway;
use umbra_store::{installation::Installation, intake::NewKey};

/// Most marks kept with an event, the worst ones. A hostile text holds thousands; each secret is redacted all the same.
const MAX_MARKS: usize = 256;
/// Most critical marks of an event that may break a shadow's cooldown.
const MAX_CRITICAL: usize = 16;
/// Bytes of text beyond which an event is screened in `block_in_place`.
const LONG_TEXT: usize = 16 * 1024;

/// Longest time that the local disk may take, after the database's time is over.
const TO_SPOOL: Duration = Duration::from_millis(400);

/// Metadata key that marks Umbra's own traffic.
const ORIGIN_MARK: &str = "umbra.origin";

/// Origin of an event, as far as the loop guard and the budget care.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// True if the transport says that it is Umbra's own traffic (a header, or the API key of the request).
    pub own_traffic: bool,
    /// Review that a person asks for now: sample, floor and cooldown do not hold it back, caps do.
    pub on_demand: Option<OnDemand>,
    /// API key of the request.
    pub by: Option<KeyId>,
}

/// A review that a person asks for.
#[derive(Debug, Clone)]
pub struct OnDemand {
    /// Name of the shadow that reviews.
    pub shadow: String,
    /// Trigger that the review is filed under.
    pub trigger: Trigger,
}

/// An event that was handed to the writer.
struct Submitted {
    answer: oneshot::Receiver<Result<EventReceipt, AcceptError>>,
    /// Time by which its sender is answered.
    by: Instant,
}

impl Submitted {
    async fn answer(self) -> Result<EventReceipt, AcceptError> {
        match timeout_at(self.by, self.answer).await {
            Ok(Ok(answered)) => answered,
            _ => Err(AcceptError::Unavailable),
        }
    }
}

impl Events {
    /// Accepts one event; it is durable when this returns. A refused review on demand stores nothing, so repeated
    /// requests fill no table.
    ///
    /// # Errors
    /// See [`AcceptError`].
    pub async fn accept(&self, incoming: Incoming, origin: &Origin) -> Result<EventReceipt, AcceptError> {
        self.submit(incoming, origin).await?.answer().await
    }

    /// Accepts many events, each by itself, and answers in their order.
    pub async fn accept_all(
        &self,
        incoming: impl IntoIterator<Item = Incoming>,
        origin: &Origin,
    ) -> Vec<Result<EventReceipt, AcceptError>> {
        let mut submitted = Vec::new();
        let mut screened = 0;
        for one in incoming {
            screened += one.event.text_len();
            submitted.push(self.submit(one, origin).await);
            if screened > LONG_TEXT {
                // Many short events hold up other tasks no less than a long one.
                screened = 0;
                tokio::task::yield_now().await;
            }
        }
        let answers =
            submitted.into_iter().map(|one: Result<Submitted, AcceptError>| async move { one?.answer().await });
        join_all(answers).await
    }

    /// Accepts an event that was screened before, under a key of its own. One with the same key is stored once.
    ///
    /// # Errors
    /// See [`AcceptError`].
    pub(in crate::flows) async fn accept_screened(
        &self,
        event: Event,
        marks: Vec<Mark>,
        key: &str,
        origin: &Origin,
    ) -> Result<EventReceipt, AcceptError> {
        let place = self.place()?;
        let (id, rules) = (EventId(self.clock.new_id()), self.rules.load_full());
        let triggers = umbra_checks::triggers_of(&event, &marks);
        let key = self.key_of(&event.agent, key, &[]);
        let stored = StoredEvent { event, triggers, marks };
        self.hand_over(place, rules, id, stored, Some(key), origin)?.answer().await
    }

    /// Screens an event. Long texts are screened in `block_in_place`, few at a time, so that they do not hold up
    /// requests.
    pub(in crate::flows) async fn screen(&self, id: EventId, event: Event) -> ScreenedEvent {
        // A secret has the same tag throughout a task, and another one in each other task.
        let (agent, task) = (event.agent.clone(), event.task_id.clone());
        let digest = |secret: &str| {
            let (task, secret) = (task.as_deref().map(str::as_bytes), secret.as_bytes());
            let tag = self.installation.hash("secret-tag", &[task.unwrap_or(id.0.as_bytes()), secret])[0];
            let value = self.installation.hash("mark-value", &[agent.as_bytes(), task.unwrap_or_default(), secret]);
            SecretDigest { tag, value: value.first_chunk().copied().map_or(0, u64::from_le_bytes) }
        };
        if event.text_len() <= LONG_TEXT {
            return umbra_checks::screen_tagged(event, &digest);
        }
        let _turn = self.screening.acquire().await;
        tokio::task::block_in_place(|| umbra_checks::screen_tagged(event, &digest))
    }

    async fn submit(&self, incoming: Incoming, origin: &Origin) -> Result<Submitted, AcceptError> {
        // The place in the writer's channel comes first: an overloaded server does no work for events that it will
        // refuse.
        let place = self.place()?;
        let rules = self.rules.load_full();
        let id = EventId(self.clock.new_id());
        // The agent as sent may hold a secret, so keys are filed by its hash and the screened name.
        let key = incoming.key.map(|key| self.key_of(&incoming.event.agent, &key, &incoming.digest_input));
        let mut event = incoming.event;
        if origin.own_traffic {
            // The transport's mark is kept in the event, for the worker.
            event.metadata.entry(ORIGIN_MARK).or_insert_with(|| "header".into());
        }
        let ScreenedEvent { event, marks, triggers } = self.screen(id, event).await;
        self.hand_over(place, rules, id, StoredEvent { event, triggers, marks }, key, origin)
    }

    /// Takes a place in the writer's channel.
    fn place(&self) -> Result<mpsc::Permit<'_, Pending>, AcceptError> {
        let overloaded = |_| AcceptError::Overloaded { retry_after: Duration::from_secs(1) };
        self.writer.try_reserve().map_err(overloaded)
    }

    /// Hashes of an idempotency key and of the body that it names.
    fn key_of(&self, agent: &str, key: &str, body: &[u8]) -> ([u8; 32], [u8; 32]) {
        let name = self.installation.hash("event-key", &[agent.as_bytes(), key.as_bytes()]);
        (name, self.installation.hash("event-body", &[body]))
    }

    /// Hands a screened event to the writer.
    fn hand_over(
        &self,
        place: mpsc::Permit<'_, Pending>,
        rules: Arc<ActiveConfiguration>,
        id: EventId,
        mut stored: StoredEvent,
        key: Option<([u8; 32], [u8; 32])>,
        origin: &Origin,
    ) -> Result<Submitted, AcceptError> {
        let marks = &mut stored.marks;
        if marks.len() > MAX_MARKS {
            marks.sort_by_key(|mark| std::cmp::Reverse(mark.severity));
            marks.truncate(MAX_MARKS);
        }
        if stored.event.agent.trim().is_empty() {
            return Err(AcceptError::NamelessAgent);
        }
        let payload = serde_json::to_vec(&stored).map_err(|error| AcceptError::Unstorable(error.to_string()))?;
        let (pending, submitted) = self.pending(rules, (id, stored), payload, key, origin)?;
        place.send(pending);
        Ok(submitted)
    }

    /// Pairs an event with the shadows that watch it, under the rules that it is stored by.
    fn pending(
        &self,
        rules: Arc<ActiveConfiguration>,
        (id, stored): (EventId, StoredEvent),
        payload: Vec<u8>,
        key: Option<([u8; 32], [u8; 32])>,
        origin: &Origin,
    ) -> Result<(Pending, Submitted), AcceptError> {
        let own_traffic = is_own_traffic(&self.installation, &stored.event, &payload);
        let pairs = self.pairs(&rules, id, &stored, own_traffic, origin.on_demand.as_ref())?;
        let on_demand = origin.on_demand.is_some();
        let cost = if on_demand { None } else { summed_cost(&rules, &stored.event) };
        let (answer, answered) = oneshot::channel();
        let StoredEvent { event: Event { agent, task_id, .. }, triggers, .. } = stored;
        let key = key.map(|(key, body)| NewKey { agent: agent.clone(), key, body, event: id });
        let (by, since) = (origin.by, Instant::now());
        let pending =
            Pending { rules, id, agent, task_id, triggers, payload, key, by, since, pairs, cost, on_demand, answer };
        Ok((pending, Submitted { answer: answered, by: since + self.deadline + TO_SPOOL }))
    }

    /// Rebuilds an event of the spool, to be stored under these rules. Its answer has no receiver.
    pub(super) fn restore(
        &self,
        rules: &Arc<ActiveConfiguration>,
        spooled: &SpooledEvent<'_>,
    ) -> Result<Pending, AcceptError> {
        let unreadable = |error: serde_json::Error| AcceptError::Unstorable(error.to_string());
        let text = spooled.stored.map_or("", RawValue::get);
        let stored: StoredEvent = serde_json::from_str(text).map_err(unreadable)?;
        let hash = |bytes: &[u8]| <[u8; 32]>::try_from(bytes).unwrap_or_default();
        let key = spooled.key.as_ref().map(|SpooledKey { name, body }| (hash(name), hash(body)));
        let (payload, origin) = (text.as_bytes().to_vec(), Origin { by: spooled.by, ..Origin::default() });
        let (pending, _) = self.pending(Arc::clone(rules), (spooled.id, stored), payload, key, &origin)?;
        Ok(pending)
    }

    fn pairs(
        &self,
        rules: &Arc<ActiveConfiguration>,
        id: EventId,
        stored: &StoredEvent,
        own_traffic: bool,
        on_demand: Option<&OnDemand>,
    ) -> Result<Vec<Pair>, AcceptError> {
        let StoredEvent { event, triggers, .. } = stored;
        if triggers.is_empty() && event.text_len() == 0 && on_demand.is_none() {
            // Nothing to read: a call of a model of which only the cost is known.
            return Ok(Vec::new());
        }
        if let Some(OnDemand { shadow, trigger }) = on_demand {
            let position = rules.position(shadow).ok_or(AcceptError::UnknownShadow)?;
            let enabled = rules.shadows.get(position).is_some_and(|armed| armed.shadow.enabled);
            let candidate = candidate(rules, position, event, vec![*trigger], None);
            let fate = if enabled { Ok(candidate) } else { Err(SkipReason::ShadowDisabled) };
            return Ok(vec![Pair { shadow: position, trigger: *trigger, fate }]);
        }
        // Origin marks can be copied, so a risky event is reviewed all the same, alone and by the checks alone
        // (`work`).
        let risky = triggers.iter().any(|mark| mark.name == Trigger::SecurityRisk);
        let cost = cost_of(rules, event);
        let facts =
            |own_traffic, critical| Facts { own_traffic, sample: sample(&self.installation, id), cost, critical };
        let now = self.clock.now();
        let watching = rules.watcher.matches(event, triggers).into_iter();
        Ok(watching
            .filter_map(|found| {
                let shadow = &rules.shadows.get(found.shadow)?.shadow;
                let critical = critical_marks(&self.installation, shadow, stored);
                let facts = facts(own_traffic && (found.of_task || !risky), !critical.is_empty());
                let gated = budget::gate(shadow, facts);
                let decided = |matched, company| {
                    let candidate = candidate(rules, found.shadow, event, matched, Some(company));
                    ReviewCandidate { critical, ..candidate }.held_to_floor(shadow, cost)
                };
                let company = if own_traffic { Grouping::None } else { grouping_for(shadow, event, &found) };
                if found.is_step() {
                    // A step does not match by itself, so a skipped step makes no disposition.
                    gated.is_none().then_some(())?;
                    let candidate = decided(vec![found.trigger], company);
                    return Some(Pair { shadow: found.shadow, trigger: found.trigger, fate: Ok(candidate) });
                }
                let undecided = || {
                    let candidate = decided(found.matched(triggers), company);
                    rules.memory.recall(&candidate, now).map_or(Ok(candidate), Err)
                };
                let fate = gated.map_or_else(undecided, Err);
                Some(Pair { shadow: found.shadow, trigger: found.trigger, fate })
            })
            .collect())
    }
}

/// Returns the names of the critical marks from this shadow's checks, each once. A repeated mark has the same name.
pub(in crate::flows) fn critical_marks(
    installation: &Installation,
    shadow: &Shadow,
    stored: &StoredEvent,
) -> Vec<String> {
    let critical = |mark: &&Mark| mark.severity == Severity::Critical && shadow.checks.contains(&mark.check);
    let marks = stored.marks.iter().filter(critical).take(MAX_CRITICAL);
    let names = marks.map(|mark| {
        let key = collapse_key(installation, &shadow.name, &stored.event, mark, None);
        format!("mark:{}", hex::encode(&key[..8]))
    });
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the event's task cost; a task that has passed every floor needs no sum.
fn cost_of(rules: &ActiveConfiguration, event: &Event) -> TaskCost {
    match (TaskCost::of(event), &event.task_id) {
        (TaskCost::Summed(_), Some(task)) if rules.passed.contains(task) => TaskCost::Known(None),
        (cost, _) => cost,
    }
}

/// Returns the cost that the event adds to the sum of its task, if a sum is kept.
fn summed_cost(rules: &ActiveConfiguration, event: &Event) -> Option<NanoUsd> {
    let task = event.task_id.as_deref()?;
    let cost = event.cost_usd?;
    (!rules.passed.contains(task) && rules.watcher.sums_costs_of(&event.agent)).then_some(cost)
}

/// Returns the candidate of a pair that passed the gate; without `company` it is a review on demand.
pub(in crate::flows) fn candidate(
    rules: &ActiveConfiguration,
    shadow: usize,
    event: &Event,
    matched: Vec<Trigger>,
    company: Option<Grouping>,
) -> ReviewCandidate {
    let worst = rules.shadows.get(shadow).map_or_else(WorstCaseCost::default, |armed| {
        let control = &armed.shadow.cost_control;
        if control.max_usd_per_day.is_none() && control.max_tokens_per_day.is_none() {
            return WorstCaseCost::default();
        }
        worst_case(&rules.gateway, &armed.shadow, &[event], 1)
    });
    let on_demand = company.is_none();
    let company = company.unwrap_or_default();
    ReviewCandidate {
        shadow,
        agent: event.agent.clone(),
        matched,
        worst,
        on_demand,
        company,
        ..ReviewCandidate::default()
    }
}

/// Returns the way in which an event may share a review of this shadow: in its task, in a batch, or not at all.
fn grouping_for(shadow: &Shadow, event: &Event, found: &Match) -> Grouping {
    match (&event.task_id, shadow.cost_control.batch) {
        (Some(task), _) if found.of_task => Grouping::Task { id: task.clone(), completes: !found.is_step() },
        (_, Some(_)) => {
            let mut chars = 0;
            event.for_each_text(|_, text| chars += text.chars().count() as u64);
            Grouping::Batch(chars)
        }
        _ => Grouping::None,
    }
}

/// Returns the worst-case cost of one call about these events that asks for `items` judgements; zero if the built-in
/// checks review alone.
pub(in crate::flows) fn worst_case(
    gateway: &Gateway,
    shadow: &Shadow,
    events: &[&Event],
    items: usize,
) -> WorstCaseCost {
    if gateway.reviewer(&shadow.model).is_err() {
        return WorstCaseCost::default();
    }
    let bytes = umbra_review::worst_prompt_bytes(shadow, events);
    gateway.worst_case(&shadow.model, bytes, None, items).map_or_else(WorstCaseCost::default, |worst| WorstCaseCost {
        usd: worst.usd.unwrap_or_default(),
        tokens: worst.tokens,
    })
}

/// True if the content is Umbra's own traffic: an origin mark, which instrumented providers copy, or a prompt of ours.
pub(in crate::flows) fn is_own_traffic(installation: &Installation, event: &Event, payload: &[u8]) -> bool {
    event.metadata.contains_key(ORIGIN_MARK)
        || event.metadata.contains_key("umbra-origin")
        || nonce::holds_prompt(installation, payload)
}

/// Returns the event's place in the sample, from its id and the installation's secret, so that agents cannot choose it.
pub(in crate::flows) fn sample(installation: &Installation, id: EventId) -> u32 {
    let hash = installation.hash("sample", &[id.0.as_bytes()]);
    let mut first = [0_u8; 8];
    first.copy_from_slice(&hash[..8]);
    u32::try_from(u64::from_le_bytes(first) % u64::from(SAMPLE_SCALE)).unwrap_or(0)
}
