//! One page of looks: runs the built-in checks of each shadow whose budget skipped an event, and stores their findings.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    flows::{
        active_configuration::{ActiveConfiguration, ActiveShadow},
        cleaned,
        collapse::collapse_key,
        events::{accept::is_own_traffic, context_of},
        looks::Looks,
    },
    telemetry::metric,
    watch::Match,
};
use umbra_domain::{Event, EventId, Finding, FindingId, Hit, Shadow, SkipReason, StoredEvent, Trigger};
use umbra_review::{EventInput, Judgement};
use umbra_store::{
    StoreError,
    events::received_at,
    looks::{LookEvent, LookFinding, LookPage},
    results::NewFinding,
};

/// Bytes of text after which the task yields; the checks of a longer text run in `block_in_place`.
const LONG_TEXT: usize = 16 * 1024;

/// A shadow whose checks look at an event.
struct Observer {
    shadow: Arc<Shadow>,
    version: i32,
    trigger: Trigger,
}

impl Observer {
    fn of(armed: &ActiveShadow, trigger: Trigger) -> Self {
        Self { shadow: Arc::clone(&armed.shadow), version: armed.version_id, trigger }
    }
}

impl Looks {
    /// Runs the checks on a page of events and stores the findings. Returns true if more events wait.
    pub(super) async fn look_at(&self, rules: &ActiveConfiguration, mut page: LookPage) -> Result<bool, StoreError> {
        let (events, more) = (std::mem::take(&mut page.events), page.more);
        let former = former_versions(rules, &mut page, &events).await?;
        let (mut found, mut unbroken) = (Vec::new(), 0);
        metrics::counter!(metric::LOOKS).increment(events.len() as u64);
        for event in events {
            let Some((stored, observers)) = self.observers(rules, &former, &event) else { continue };
            let length = stored.event.text_len();
            let look = || self.findings(event.id, &stored, &observers);
            found.extend(if length > LONG_TEXT { tokio::task::block_in_place(look) } else { look() });
            unbroken += length;
            if unbroken > LONG_TEXT {
                unbroken = 0;
                tokio::task::yield_now().await;
            }
        }
        let new = page.commit(&found).await?;
        self.tell(&found, &new).await;
        Ok(more)
    }

    /// Runs the checks on texts that were added to an event, for all shadows that watch it, and stores the findings.
    pub(in crate::flows) async fn look_again(
        &self,
        id: EventId,
        stored: &StoredEvent,
        fields: &[&'static str],
    ) -> Result<(), StoreError> {
        let rules = self.rules.load_full();
        let triggers = umbra_checks::triggers_of(&stored.event, &stored.marks);
        let watching = rules.watcher.matches(&stored.event, &triggers).into_iter();
        let armed = watching.filter_map(|found| Some((found.trigger, rules.shadows.get(found.shadow)?)));
        let observers: Vec<Observer> = armed
            .filter(|(_, armed)| armed.shadow.enabled)
            .map(|(trigger, armed)| Observer::of(armed, trigger))
            .collect();
        let is_new = |found: &LookFinding| {
            let evidence = found.found.finding.evidence.as_ref();
            evidence.is_some_and(|evidence| fields.iter().any(|field| evidence.field.as_str().starts_with(field)))
        };
        let look = || self.findings(id, stored, &observers).into_iter().filter(is_new).collect::<Vec<_>>();
        let found = tokio::task::block_in_place(look);
        if !found.is_empty() {
            let new = self.store.looks().add(&found).await?;
            self.tell(&found, &new).await;
        }
        Ok(())
    }

    /// Counts new findings, given by their positions in `found`, and wakes the followers of findings.
    pub(in crate::flows) async fn tell(&self, found: &[LookFinding], new: &[usize]) {
        for one in new.iter().filter_map(|at| found.get(*at)) {
            metrics::counter!(metric::FINDINGS, "shadow" => one.shadow.clone(),
                "severity" => one.found.finding.severity.as_str(), "source" => "check")
            .increment(1);
        }
        if let Some(one) = found.first() {
            self.verdicts.ended(one.found.finding.event_id, false).await;
        }
    }

    /// Returns the event with the shadows whose checks look at it: those whose budget skipped it, in their version of
    /// that time; and, for a step of a task, those that review the whole task later.
    fn observers(
        &self,
        rules: &ActiveConfiguration,
        former: &HashMap<i32, Arc<Shadow>>,
        event: &LookEvent,
    ) -> Option<(StoredEvent, Vec<Observer>)> {
        let skipped = event.pairs.iter().filter(|(_, outcome, _)| leaves_checks(*outcome));
        let observer = |(version, _, trigger): &(i32, i16, i16)| {
            let shadow = rules.pinned(*version).or_else(|| former.get(version).cloned())?;
            Some(Observer { shadow, version: *version, trigger: Trigger::from_code(*trigger)? })
        };
        let mut observers: Vec<Observer> = skipped.filter_map(observer).collect();
        let stored: StoredEvent = serde_json::from_slice(&event.payload).ok()?;
        let has_pair = |version: i32| event.pairs.iter().any(|(paired, ..)| *paired == version);
        let steps = rules.watcher.matches(&stored.event, &stored.triggers).into_iter().filter(Match::is_step);
        let steps = steps.filter_map(|found| Some((found.trigger, rules.shadows.get(found.shadow)?)));
        let mut steps = steps.filter(|(_, armed)| armed.shadow.enabled && !has_pair(armed.version_id)).peekable();
        if steps.peek().is_some() && !is_own_traffic(&self.installation, &stored.event, &event.payload) {
            observers.extend(steps.map(|(trigger, armed)| Observer::of(armed, trigger)));
        }
        (!observers.is_empty()).then_some((stored, observers))
    }

    /// Returns the findings of these shadows' checks in an event.
    fn findings(&self, id: EventId, stored: &StoredEvent, observers: &[Observer]) -> Vec<LookFinding> {
        let mut looks: Vec<(&Shadow, Vec<Hit>)> = Vec::new();
        let mut found = Vec::new();
        for observer in observers {
            let shadow = &*observer.shadow;
            let sees_like = |other: &Shadow| {
                other.checks == shadow.checks && other.allowed_hosts.as_deref() == shadow.allowed_hosts.as_deref()
            };
            let at = looks.iter().position(|(other, _)| sees_like(other)).unwrap_or_else(|| {
                looks.push((shadow, umbra_checks::by_shadow(stored, shadow)));
                looks.len() - 1
            });
            let Some((_, hits)) = looks.get(at).filter(|(_, hits)| !hits.is_empty()) else { continue };
            found.extend(self.looked(id, &stored.event, observer, hits));
        }
        found
    }

    fn looked<'a>(
        &'a self,
        id: EventId,
        event: &'a Event,
        observer: &'a Observer,
        hits: &'a [Hit],
    ) -> impl Iterator<Item = LookFinding> + 'a {
        let Observer { shadow, version, trigger } = observer;
        let subject = EventInput { event_id: id, event, trigger: *trigger, hits, baseline: None, memory: &[] };
        let Judgement { findings, recommendation, .. } = umbra_review::of_checks(shadow, &subject);
        let found = findings.into_iter().filter_map(move |finding| Some((hit_of(&finding, hits)?, finding)));
        found.map(move |(hit, finding)| {
            let key = collapse_key(&self.installation, &shadow.name, event, hit, Some(received_at(id)));
            let finding = Finding { description: cleaned(&finding.description), ..finding };
            LookFinding {
                found: NewFinding {
                    id: FindingId(self.clock.new_id()),
                    fingerprint: umbra_review::fingerprint(&finding),
                    finding,
                    place: context_of(event, *trigger),
                    recommendation: cleaned(&recommendation),
                },
                shadow: shadow.name.clone(),
                version: *version,
                mode: shadow.mode.priority(),
                key: key[..16].to_vec(),
            }
        })
    }
}

fn leaves_checks(outcome: i16) -> bool {
    SkipReason::from_code(outcome).is_some_and(SkipReason::leaves_checks)
}

/// Loads the versions of shadows that skipped these events and are not in force any more.
async fn former_versions(
    rules: &ActiveConfiguration,
    page: &mut LookPage,
    events: &[LookEvent],
) -> Result<HashMap<i32, Arc<Shadow>>, StoreError> {
    let skipped = events.iter().flat_map(|event| &event.pairs).filter(|(_, outcome, _)| leaves_checks(*outcome));
    let versions: BTreeSet<i32> = skipped.map(|(version, ..)| *version).collect();
    let mut former = HashMap::new();
    for version in versions.into_iter().filter(|version| rules.pinned(*version).is_none()) {
        if let Some(shadow) = page.version(version).await? {
            former.insert(version, Arc::new(shadow));
        }
    }
    Ok(former)
}

/// Returns the hit from which the checks made a finding.
fn hit_of<'h>(finding: &Finding, hits: &'h [Hit]) -> Option<&'h Hit> {
    hits.iter().find(|hit| {
        let rule = finding.rule.strip_prefix(hit.check.as_str()).and_then(|rest| rest.strip_prefix('.'));
        let place = finding.evidence.as_ref().is_none_or(|found| found.field == hit.field && found.start == hit.start);
        rule == Some(&hit.rule) && place && finding.description.ends_with(&hit.description)
    })
}
