//! Views of the store, one for each aggregate: `store.reviews().list(..)`.

use super::Store;

/// Declares the view of an aggregate and the method of [`Store`] that gives it.
macro_rules! aggregates {
    ($($accessor:ident: $view:ident, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            #[derive(Debug, Clone, Copy)]
            pub struct $view<'s>(pub(crate) &'s Store);
        )*

        impl Store {
            $(
                #[doc = $doc]
                pub fn $accessor(&self) -> $view<'_> {
                    $view(self)
                }
            )*
        }
    };
}

aggregates! {
    events: EventStore, "Events, their tasks and the flush that stores them.";
    reviews: ReviewStore, "Reviews, their calls of models, results, and what follows them.";
    queue: QueueStore, "Jobs, the processes that take them, and wake-ups between processes.";
    shadows: ShadowStore, "Versions of shadows, their days and what they skipped.";
    verdicts: VerdictStore, "Verdicts of events.";
    looks: LookStore, "Looks of the built-in checks at events that no review looks at.";
    findings: FindingStore, "Findings, and what people made of them.";
    breakers: BreakerStore, "Breakers of agents.";
    reflexions: ReflexionStore, "Recurring faults and their lessons.";
    briefings: BriefingStore, "Figures of a day or week, and filed briefings.";
    webhooks: WebhookStore, "Messages to endpoints.";
    decisions: DecisionStore, "Decisions about calls, runs, overrides and approvals.";
    audit: AuditStore, "The audit, its blocks and its signatures.";
    contracts: ContractStore, "Contracts and tools, compared with what calls and events show.";
    sessions: SessionStore, "Sessions, their steps, documents and files.";
    patterns: PatternStore, "Patterns of what worked.";
    backtests: BacktestStore, "Backtests and their items.";
    hooks: HookStore, "Hooks of coding agents: sessions of their hosts, and calls without a result yet.";
    otel: OtelStore, "OpenTelemetry: records of traces, and the calls that they tell of.";
    keys: KeyStore, "API keys.";
    upkeep: UpkeepStore, "Partitions, retention, erasure, and checks of the whole database.";
}
