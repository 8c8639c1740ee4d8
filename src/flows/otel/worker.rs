//! Workers: assemble traces that are due, and file or amend the events of their calls.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::atomic::Ordering,
    time::Duration,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    HOLD, Otel,
    emission::{CallContext, end_of, event_of},
    session_call, trace_id,
};
use crate::{
    flows::{
        events::{AcceptError, Origin},
        rounds::FailureLog,
    },
    telemetry::metric,
};
use umbra_domain::{EventId, StoredEvent};
use umbra_otel::{AssembledCall, CallKind, Record, RecordKind, Trace, assemble, content_switch, is_unique};
use umbra_store::{
    StoreError,
    otel::{KnownOtelCall, LeasedTrace, ServiceCounts, TraceProgress},
};

/// Pause between looks for traces that are due.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
/// Pause between looks after a minute in which no trace arrived or was due.
const BETWEEN_IDLE_LOOKS: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_mins(1);
/// Pause between deletions.
const BETWEEN_DELETIONS: Duration = Duration::from_mins(1);
/// Most traces that are assembled at a time.
const TRACES: usize = 4;
/// Lateness from which exports are refused.
const BEHIND: Duration = Duration::from_mins(5);
/// Longest time that a worker may hold a trace.
const LEASE: Duration = Duration::from_secs(30);
/// Pause before a trace whose work failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest wait of a trace for the calls that its models were told of, since its last records.
const LINKS: Duration = Duration::from_secs(4);
/// Silence after a final answer that completes a task.
const SILENCE: Duration = Duration::from_mins(1);
/// Silence after which the records of a trace are deleted; longest wait of a result for its call in another trace.
const KEEP_RECORDS: Duration = Duration::from_hours(1);
/// Age at which calls are forgotten.
const KEEP_CALLS: Duration = Duration::from_hours(48);
/// Most calls of a trace that are filed at a time, in one transaction where they meet.
const CALLS: usize = 8;
/// Pause between two lines in the log about one service.
const QUIET: Duration = Duration::from_hours(1);

impl Otel {
    /// Assembles traces until `stop`, some at a time.
    pub async fn assemble_until(self, stop: CancellationToken) {
        let mut log = FailureLog::new("a trace cannot be assembled", "traces are assembled again");
        let mut deleted = Instant::now();
        let mut busy: Option<Instant> = None;
        let mut running: JoinSet<anyhow::Result<()>> = JoinSet::new();
        while !stop.is_cancelled() {
            if deleted.elapsed() > BETWEEN_DELETIONS {
                deleted = Instant::now();
                if let Err(error) = self.0.store.otel().forget(KEEP_RECORDS, KEEP_CALLS).await {
                    tracing::debug!(%error, "old traces could not be deleted; the next round tries again");
                }
            }
            let started = self.start_due(&mut running).await;
            if !running.is_empty() {
                busy = Some(Instant::now());
            }
            let is_idle = busy.is_none_or(|busy| busy.elapsed() > IDLE);
            let rest = if is_idle { BETWEEN_IDLE_LOOKS } else { BETWEEN_LOOKS };
            log.note(&tokio::select! {
                () = stop.cancelled() => break,
                arrived = timeout(rest, self.0.arrived.notified()) => {
                    busy = arrived.ok().map(|()| Instant::now()).or(busy);
                    started.map_err(Into::into)
                }
                Some(ended) = running.join_next() => ended.unwrap_or(Ok(())),
            });
        }
        while running.join_next().await.is_some() {}
    }

    /// Starts the assembly of traces that are due, as far as there are places.
    async fn start_due(&self, running: &mut JoinSet<anyhow::Result<()>>) -> Result<(), StoreError> {
        let free = TRACES.saturating_sub(running.len());
        if free == 0 {
            return Ok(());
        }
        let leased = self.0.store.otel().lease(LEASE, free).await?;
        let late = leased.iter().map(|trace| trace.late).max().unwrap_or_default();
        metrics::gauge!(metric::OTEL_LATE).set(late.as_secs_f64());
        self.0.is_behind.store(late > BEHIND, Ordering::Relaxed);
        for trace in leased {
            let otel = self.clone();
            running.spawn(async move { otel.work(&trace).await });
        }
        Ok(())
    }

    async fn work(&self, leased: &LeasedTrace) -> anyhow::Result<()> {
        let mut progress = TraceProgress::default();
        let done = self.assemble(leased, &mut progress).await;
        if done.is_err() {
            progress.again = Some(AGAIN);
        }
        self.0.store.otel().release(leased, &progress, HOLD).await?;
        done
    }

    async fn assemble(&self, leased: &LeasedTrace, progress: &mut TraceProgress) -> anyhow::Result<()> {
        let rows = self.0.store.otel().records(&leased.trace).await?;
        let read = || {
            let records: Vec<Record> = rows.iter().filter_map(|row| serde_json::from_slice(row).ok()).collect();
            let teller = records.iter().find(|record| record.kind != RecordKind::Other);
            let teller = teller.map(|record| (record.service.clone(), record.scope.clone()));
            (assemble(&records), teller.unwrap_or_default())
        };
        let (trace, teller) = tokio::task::block_in_place(read);
        let task_id = match &leased.task_id {
            Some(task) => Some(task.clone()),
            None => self.task_of(leased, &trace).await?,
        };
        let Some(task_id) = task_id else {
            progress.again = Some(AGAIN);
            return Ok(());
        };
        progress.task_id = Some(task_id.clone());
        let ends = trace.completed.filter(|_| !leased.ended);
        let mut filing = Filing { otel: self, leased, task_id, counts: HashMap::new(), completed: false };
        // A service whose exports hold no call is shown as well.
        let (service, scope) = teller;
        filing.note(Filed { counts: ServiceCounts { service, scope, ..ServiceCounts::default() }, ..Filed::default() });
        let known = filing.known(&trace).await?;
        let (last, others): (Vec<_>, Vec<_>) =
            trace.calls.iter().zip(known).enumerate().partition(|(at, _)| ends == Some(*at));
        // A review of the task reads what is filed when its end is.
        for calls in [others, last] {
            let mut filings = Vec::with_capacity(calls.len());
            for (at, (call, known)) in calls {
                // Its content may be the tool calls that follow it.
                let asks = trace.calls.get(at + 1).and_then(|next| next.call.as_ref()?.stored.event.tool.as_ref());
                let is_withheld =
                    call.kind == CallKind::Model && !call.has_content && asks.is_none_or(|asks| asks.args.is_null());
                filings.push(filing.file(call, known, (ends == Some(at), is_withheld)));
            }
            let filed: Vec<Filed> = stream::iter(filings).buffered(CALLS).try_collect().await?;
            let told: Vec<_> = filed.iter().filter_map(|filed| filed.told).collect();
            if !told.is_empty() {
                self.0.store.otel().tell(&told).await?;
            }
            for filed in filed {
                filing.note(filed);
            }
        }
        filing.bring_results(&trace).await?;
        let is_over = ends.is_some() || leased.silent && !leased.ended;
        if is_over && !filing.completed {
            filing.end(&trace).await?;
        }
        progress.ended = leased.ended || is_over;
        progress.silence = (!progress.ended && is_final(&trace)).then_some(SILENCE);
        let counts: Vec<ServiceCounts> =
            filing.counts.into_values().filter(|counts| *counts != ServiceCounts::default()).collect();
        self.0.store.otel().count(&counts).await?;
        for count in &counts {
            self.tell_of_content(count);
        }
        Ok(())
    }

    /// Returns the task of a trace: its conversation, else the task of calls that its models were told of, else itself;
    /// `None` while such calls may still be filed.
    async fn task_of(&self, leased: &LeasedTrace, trace: &Trace) -> Result<Option<String>, StoreError> {
        if let Some(conversation) = trace.calls.iter().find_map(|call| call.conversation.clone()) {
            return Ok(Some(conversation));
        }
        let own: BTreeSet<&String> = trace.calls.iter().filter_map(|call| call.tool_id.as_ref()).collect();
        let links: BTreeSet<[u8; 32]> = trace
            .calls
            .iter()
            .flat_map(|call| call.history.iter().map(move |id| (call, id)))
            .filter(|(_, id)| !own.contains(id))
            .map(|(call, id)| self.link(leased.key_id, &call.service, id))
            .collect();
        if !links.is_empty() {
            let links: Vec<[u8; 32]> = links.into_iter().collect();
            let linked = self.0.store.otel().known(&links).await?.into_iter().next();
            if linked.is_some() || leased.age < LINKS {
                return Ok(linked.map(|linked| linked.task_id));
            }
        }
        Ok(Some(trace_id(&leased.trace).to_owned()))
    }

    /// Tells the operator once an hour that a service's models say nothing.
    fn tell_of_content(&self, count: &ServiceCounts) {
        if count.withheld <= 0 {
            return;
        }
        let mut told = self.0.told.lock();
        let key = format!("{}/{}", count.service, count.scope);
        if told.get(&key).is_some_and(|told| told.elapsed() < QUIET) {
            return;
        }
        told.insert(key, Instant::now());
        tracing::warn!(
            service = count.service,
            calls = count.withheld,
            "calls of models came without content: {}",
            content_switch(&count.scope)
        );
    }
}

/// True if the last call of a trace is an answer that asks for no tool.
fn is_final(trace: &Trace) -> bool {
    let last = trace.calls.iter().max_by_key(|call| call.end);
    last.is_some_and(|last| {
        let asks = |call: &AssembledCall| call.requested_by.as_ref() == Some(&last.span);
        last.kind == CallKind::Model && last.output.is_some() && !trace.calls.iter().any(asks)
    })
}

/// Assembled call as far as it is known.
#[derive(Default)]
struct Recognised {
    /// The known call that it is.
    first: Option<KnownOtelCall>,
    /// Aliases that are to be noted.
    new: Vec<[u8; 32]>,
    /// Calls that had some of them.
    from: Vec<Uuid>,
}

/// Recognises assembled calls by their aliases. What was one call while records were missing may be two now: the known
/// call is that one which has the most of its aliases, and the other is new.
fn recognised(calls: Vec<Vec<[u8; 32]>>, rows: &[KnownOtelCall]) -> Vec<Recognised> {
    let by_alias: HashMap<&[u8], &KnownOtelCall> = rows.iter().map(|row| (row.alias.as_slice(), row)).collect();
    let mut common: HashMap<(usize, Uuid), (usize, &KnownOtelCall)> = HashMap::new();
    for (at, aliases) in calls.iter().enumerate() {
        for row in aliases.iter().filter_map(|alias| by_alias.get(alias.as_slice())) {
            common.entry((at, row.call)).or_insert((0, row)).0 += 1;
        }
    }
    let mut pairs: Vec<_> = common.into_iter().collect();
    pairs.sort_unstable_by_key(|((at, call), (aliases, _))| (Reverse(*aliases), *at, *call));
    let mut is_taken: HashSet<Uuid> = HashSet::new();
    let mut found: Vec<Recognised> = calls.iter().map(|_| Recognised::default()).collect();
    for ((at, call), (_, row)) in pairs {
        let Some(found) = found.get_mut(at) else { continue };
        if found.first.is_none() && is_taken.insert(call) {
            found.first = Some(row.clone());
        } else {
            found.from.push(call);
        }
    }
    for (found, mut aliases) in found.iter_mut().zip(calls) {
        if found.first.is_some() {
            aliases.retain(|alias| !by_alias.contains_key(alias.as_slice()));
            found.from.clear();
        }
        found.new = aliases;
    }
    found
}

/// Call that was filed, as the counts of its service show it.
#[derive(Default)]
struct Filed {
    counts: ServiceCounts,
    /// True if its event says that the task is complete.
    completes: bool,
    /// The call, its event, and the hash of what is known of it.
    told: Option<(Uuid, EventId, [u8; 32])>,
}

impl Filed {
    fn new(call: &AssembledCall, context: CallContext<'_>) -> Self {
        let is_model = call.kind == CallKind::Model;
        metrics::counter!(metric::OTEL_CALLS, "kind" => if is_model { "model" } else { "tool" }).increment(1);
        let counts = ServiceCounts {
            service: call.service.clone(),
            scope: call.scope.clone(),
            model_calls: i64::from(is_model),
            tool_calls: i64::from(!is_model),
            withheld: i64::from(context.is_withheld),
            cut: i64::from(call.is_cut),
            ..ServiceCounts::default()
        };
        Self { counts, completes: context.completes, told: None }
    }
}

/// Filing of one trace's calls.
struct Filing<'a> {
    otel: &'a Otel,
    leased: &'a LeasedTrace,
    task_id: String,
    counts: HashMap<(String, String), ServiceCounts>,
    /// True if an event says that the task is complete.
    completed: bool,
}

impl Filing<'_> {
    fn origin(&self) -> Origin {
        Origin { by: self.leased.key_id, ..Origin::default() }
    }

    /// Recognises the calls of a trace.
    async fn known(&self, trace: &Trace) -> Result<Vec<Recognised>, StoreError> {
        let by = self.leased.key_id;
        let aliases = |call: &AssembledCall| {
            let told = call.aliases.iter().map(|alias| self.otel.alias(by, &call.service, alias));
            let id = call.tool_id.as_ref().filter(|id| is_unique(id));
            let told = told.chain(id.map(|id| self.otel.link(by, &call.service, id)));
            let call_in_session = call.conversation.as_deref().zip(call.tool_id.as_deref());
            told.chain(call_in_session.and_then(|call| session_call(&self.otel.0.installation, by, call))).collect()
        };
        let aliases: Vec<Vec<[u8; 32]>> = trace.calls.iter().map(aliases).collect();
        let rows = self.otel.0.store.otel().known(&aliases.concat()).await?;
        Ok(recognised(aliases, &rows))
    }

    /// Files a new call, or adds to the event of a known one.
    async fn file(
        &self,
        call: &AssembledCall,
        Recognised { first, new, from }: Recognised,
        (completes, is_withheld): (bool, bool),
    ) -> anyhow::Result<Filed> {
        let store = self.otel.0.store.otel();
        let task_id = call.conversation.clone().unwrap_or_else(|| self.task_id.clone());
        let trace = self.leased.trace.as_str();
        let context = CallContext { trace: trace_id(trace), task_id: &task_id, completes, is_withheld };
        let (event, marks) = event_of(call, context);
        let whole = serde_json::to_vec(&event).unwrap_or_default();
        let told = self.otel.0.installation.hash("otel-told", &[&whole]);
        let is_told = |known: &KnownOtelCall| known.told.as_deref() == Some(told.as_slice());
        let mut filed = Filed::default();
        if new.is_empty() && first.as_ref().is_none_or(is_told) {
            return Ok(filed);
        }
        let id = first.as_ref().map_or_else(|| self.otel.0.clock.new_id(), |first| first.call);
        let claimed = if new.is_empty() { Vec::new() } else { store.claim(id, (&new, &from), trace, &task_id).await? };
        // Another server may have been quicker with one of them.
        let quicker = || claimed.iter().find(|known| known.call != id).or(claimed.first()).cloned();
        let Some(first) = first.or_else(quicker) else { return Ok(filed) };
        let key = format!("otel/{}", first.call);
        let (id, is_new) = match first.event_id {
            Some(id) => (id, false),
            None => {
                match self.otel.0.events.accept_screened(event.clone(), marks.clone(), &key, &self.origin()).await {
                    Ok(accepted) => (accepted.id, true),
                    // A server that has died filed it with less.
                    Err(AcceptError::Mismatch(id)) => (id, false),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        if is_new {
            filed = Filed::new(call, context);
        } else if let Some(scope) = self.otel.amend(id, &event, &marks).await? {
            filed.counts = ServiceCounts { service: call.service.clone(), scope, withheld: -1, ..filed.counts };
        }
        filed.told = Some((first.call, id, told));
        Ok(filed)
    }

    fn note(&mut self, Filed { counts, completes, .. }: Filed) {
        self.completed |= completes;
        let known = self.counts.entry((counts.service.clone(), counts.scope.clone())).or_default();
        *known = ServiceCounts {
            model_calls: known.model_calls + counts.model_calls,
            tool_calls: known.tool_calls + counts.tool_calls,
            withheld: known.withheld + counts.withheld,
            cut: known.cut + counts.cut,
            ..counts
        };
    }

    /// Brings results to calls that another trace tells of: those that the models of this one were told, and those that
    /// wait for its calls.
    async fn bring_results(&self, trace: &Trace) -> anyhow::Result<()> {
        let Some(call) = trace.calls.first() else { return Ok(()) };
        let link = |id: &String| is_unique(id).then(|| self.otel.link(self.leased.key_id, &call.service, id));
        let told = trace
            .foreign_results
            .iter()
            .filter_map(|part| Some((part.id.as_ref().and_then(link)?, serde_json::to_vec(&part.stored).ok()?)));
        let told: BTreeMap<[u8; 32], Vec<u8>> = told.collect();
        let lacking = trace.calls.iter().filter(|call| call.result.is_none()).filter_map(|call| call.tool_id.as_ref());
        let mut links: Vec<[u8; 32]> = lacking.filter_map(link).collect();
        links.extend(told.keys());
        if links.is_empty() {
            return Ok(());
        }
        // Kept before it is looked for: a call that is filed meanwhile looks for its result after that.
        let store = self.otel.0.store.otel();
        store.keep_results(&told.into_iter().collect::<Vec<_>>()).await?;
        let waiting = store.waiting_results(&links).await?;
        for (_, event, result) in &waiting {
            if let Ok(result) = serde_json::from_slice::<StoredEvent>(result) {
                self.otel.amend(*event, &result.event, &result.marks).await?;
            }
        }
        if !waiting.is_empty() {
            let brought: Vec<Vec<u8>> = waiting.into_iter().map(|(link, ..)| link).collect();
            store.drop_results(&brought).await?;
        }
        Ok(())
    }

    /// Files the end of a task whose last answer is filed already.
    async fn end(&mut self, trace: &Trace) -> anyhow::Result<()> {
        let Some(last) = trace.calls.iter().max_by_key(|call| call.end) else { return Ok(()) };
        let task_id = last.conversation.clone().unwrap_or_else(|| self.task_id.clone());
        let event = end_of(last, trace_id(&self.leased.trace), &task_id);
        let key = format!("otel/end/{}", self.leased.trace);
        self.otel.0.events.accept_screened(event, Vec::new(), &key, &self.origin()).await?;
        self.completed = true;
        Ok(())
    }
}
