//! `umbra backtest`: tries a changed shadow on stored events, with or without a server.

mod report;

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, is_confirmed, progress, usage};
use crate::{
    app::App,
    flows::{Flows, backtests::PlannedBacktest},
};
use umbra_config::quantity::parse_moment;
use umbra_domain::{AssessmentChange, BacktestId, BacktestState, NanoUsd, Shadow, clock::Clock};
use umbra_store::{
    backtests::{Backtest, ItemFilter},
    paging::Seek,
};

/// Notes of the help, after the options.
pub(super) const NOTES: &str = "The shadow is read from --shadows FILE. Each event is reviewed by itself, and nothing \
                                live changes: no cap, no count, no finding. Cooldown and caps of the shadow follow the \
                                times of the events, and begin empty. An event is flagged if the version concludes \
                                with FLAG.\n\n--resume ID continues an interrupted backtest, and DELETE \
                                /v1/backtests/ID deletes it.\n\nExit codes: 0 done; 1 faults, or the backtest stopped \
                                before its end (budget, model); 2 wrong usage, or not confirmed.";

/// Pause between reads of a backtest that a server runs.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// Version of a shadow to try, and the stored events to try it on.
#[derive(Debug, Args)]
pub(super) struct BacktestOptions {
    /// Shadow of the file; may be left out where the file holds one.
    #[arg(long, value_name = "NAME")]
    shadow: Option<String>,
    /// Earliest time of receipt: a duration up to now (7d, 24h), or a time (RFC 3339).
    #[arg(long, default_value = "7d", value_name = "TIME")]
    since: String,
    /// Latest time of receipt: a duration up to now, or a time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only events of this agent.
    #[arg(long)]
    agent: Option<String>,
    /// Most events to try; the newest are taken.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_events: u32,
    /// Most that it may cost, in US dollars. A model needs this or --max-tokens.
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_usd: Option<NanoUsd>,
    /// Most tokens that it may use.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// Resume this backtest, with a larger budget where one is given.
    #[arg(long, value_name = "ID", conflicts_with_all = ["shadow", "until", "agent"])]
    resume: Option<BacktestId>,
    /// Print the events with this change, one a line, instead of the counts; with --json, with their findings.
    #[arg(long, value_name = "CHANGE", value_parser = changes())]
    events: Option<AssessmentChange>,
    /// Do not ask before a model is called.
    #[arg(long, short)]
    yes: bool,
}

fn dollars(text: &str) -> Result<NanoUsd, &'static str> {
    let usd = text.parse().ok().and_then(NanoUsd::from_usd);
    usd.filter(|usd| usd.0 > 0).ok_or("expected an amount in US dollars above 0")
}

pub(super) async fn run(global: &GlobalOptions, options: BacktestOptions) -> Result<(), CommandFailure> {
    let (setup, database) = global.open_existing().await?;
    let App { flows, .. } = App::build(&setup, &database.store, Clock::system()).await?;
    let done = walk(&flows, &options).await;
    let shown = match done {
        Ok(Some(id)) => show(global, &flows, id, options.events).await,
        Ok(None) => Err(CommandFailure::AlreadyReported),
        Err(failure) => Err(failure),
    };
    database.close().await;
    shown
}

/// Plans, asks for confirmation and runs; returns the backtest, if it was started.
async fn walk(flows: &Flows, options: &BacktestOptions) -> Result<Option<BacktestId>, CommandFailure> {
    let id = match options.resume {
        Some(id) => resumed(flows, id).await?,
        None => plan(flows, options).await?,
    };
    let Some(id) = id else { return Ok(options.resume) };
    if !flows.store.backtests().start(id, options.max_usd, options.max_tokens).await? {
        return Err(anyhow!("{id} was deleted").into());
    }
    complain(&format!("{id} runs; if it is interrupted, continue with: umbra backtest --resume {id}"));
    let backtest = find(flows, id).await?;
    let (before, all) = (backtest.ended(), backtest.forecast.map_or(0, |forecast| forecast.reviews));
    let bar = progress::bar(all, "events").with_position(before);
    bar.reset_eta();
    let stop = CancellationToken::new();
    loop {
        let ran = flows.backtests.run_backtest(Some(id), &stop, &|ended| bar.set_position(before + ended)).await;
        match ran {
            Ok(Some(_)) => break,
            // Another process runs it: keep reading its progress.
            Ok(None) => {
                bar.set_message("events (another process runs this backtest)");
                let backtest = find(flows, id).await?;
                bar.set_position(backtest.ended());
                if backtest.state != Some(BacktestState::Running) {
                    break;
                }
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
            Err(error) => {
                bar.finish_and_clear();
                return Err(anyhow!("{id}: {error} (umbra backtest --resume {id})").into());
            }
        }
    }
    bar.finish_and_clear();
    Ok(Some(id))
}

/// Returns a backtest to resume; `None` where it is done.
async fn resumed(flows: &Flows, id: BacktestId) -> anyhow::Result<Option<BacktestId>> {
    match find(flows, id).await?.state {
        Some(BacktestState::Done) => Ok(None),
        Some(BacktestState::Planning) => bail!("the planning of {id} was interrupted: start a new backtest"),
        _ => Ok(Some(id)),
    }
}

async fn plan(flows: &Flows, options: &BacktestOptions) -> Result<Option<BacktestId>, CommandFailure> {
    let now = flows.store.now().await?;
    let moment = |name: &str, text: &str| {
        parse_moment(text, now).ok_or_else(|| {
            CommandFailure::Usage(format!("--{name}: {text:?} is neither a duration such as 7d nor an RFC 3339 time"))
        })
    };
    let since = moment("since", &options.since)?;
    let until = options.until.as_deref().map_or(Ok(now), |text| moment("until", text))?;
    if since >= until {
        return usage("--since: the time range is empty; --since must be before --until");
    }
    let tried = PlannedBacktest {
        shadow: shadow(flows, options.shadow.as_deref())?,
        by_server: false,
        since,
        until,
        agent: options.agent.clone(),
        max_events: options.max_events,
        max_usd: options.max_usd,
        max_tokens: options.max_tokens,
    };
    let bar = progress::bar(0, "events examined");
    let planned = flows
        .backtests
        .plan_backtest(&tried, &|looked, all| {
            bar.set_length(all);
            bar.set_position(looked);
        })
        .await;
    bar.finish_and_clear();
    let id = planned?;
    let backtest = find(flows, id).await?;
    let forecast = backtest.forecast.with_context(|| format!("{id} has no forecast"))?;
    complain(&report::render_forecast(&tried.shadow, &forecast));
    let refusal = if tried.lacks_budget(&flows.rules.load().gateway) {
        let model = &tried.shadow.model;
        format!("this backtest calls the model {model}: set a budget with --max-usd or --max-tokens")
    } else if forecast.calls > 0 && !options.yes && !is_confirmed("Start? [y/N]") {
        "not confirmed: --yes starts without a question".to_owned()
    } else {
        return Ok(Some(id));
    };
    flows.store.backtests().delete(id).await?;
    usage(refusal)
}

/// Returns the version to try.
fn shadow(flows: &Flows, name: Option<&str>) -> Result<Shadow, CommandFailure> {
    let rules = flows.rules.load();
    let found = match (name, rules.shadows.as_slice()) {
        (None, [only]) => Some(only),
        (name, all) => all.iter().find(|armed| Some(&*armed.shadow.name) == name),
    };
    found.map(|armed| (*armed.shadow).clone()).ok_or_else(|| {
        let names: Vec<&str> = rules.shadows.iter().map(|armed| armed.shadow.name.as_str()).collect();
        CommandFailure::Usage(format!("--shadow: name a shadow of the shadows file: {}", names.join(", ")))
    })
}

async fn find(flows: &Flows, id: BacktestId) -> anyhow::Result<Backtest> {
    flows.store.backtests().get(id).await?.with_context(|| format!("backtest {id} not found"))
}

fn changes() -> impl TypedValueParser<Value = AssessmentChange> {
    let words = PossibleValuesParser::new(AssessmentChange::ALL.iter().map(|change| change.as_str()));
    words.try_map(|word| AssessmentChange::parse(&word).ok_or("unknown change"))
}

/// Prints every event with a change.
async fn events(
    global: &GlobalOptions,
    flows: &Flows,
    id: BacktestId,
    change: AssessmentChange,
) -> Result<(), CommandFailure> {
    let filter = ItemFilter { change: Some(change), ..ItemFilter::default() };
    let mut seek = Seek { from: None, descending: false, limit: 500 };
    let mut found = Vec::new();
    loop {
        let page = flows.store.backtests().items(id, &filter, seek).await?;
        seek.from = page.items.last().map(|(seq, _)| *seq);
        for (_, item) in page.items {
            if global.json {
                found.push(item);
            } else {
                answer(&item.event_id.to_string());
            }
        }
        if !page.more {
            break;
        }
    }
    if global.json { answer_json(&json!({"id": id, "change": change, "items": found})) } else { Ok(()) }
}

async fn show(
    global: &GlobalOptions,
    flows: &Flows,
    id: BacktestId,
    change: Option<AssessmentChange>,
) -> Result<(), CommandFailure> {
    let backtest = find(flows, id).await?;
    if let Some(change) = change {
        events(global, flows, id, change).await?;
    } else if global.json {
        answer_json(&backtest)?;
    } else {
        answer(&report::result(&backtest));
    }
    if backtest.state == Some(BacktestState::Done) {
        return Ok(());
    }
    let why = backtest.failure.as_deref().unwrap_or("it was interrupted");
    complain(&format!("{id} stopped before its end: {why}"));
    Err(CommandFailure::AlreadyReported)
}
