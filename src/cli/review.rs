//! `umbra review`: makes one review now, by the same flow as any other, with or without a server.

use std::{
    fs::File,
    io::Read,
    os::{fd::AsFd, unix::fs::FileTypeExt},
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, table, usage};
use crate::{
    app::{App, artifacts},
    flows::{
        Flows,
        events::{Origin, accept::OnDemand},
    },
    ingest::Incoming,
};
use umbra_domain::{
    Assessment, Event, Outcome, OutputForm, ReviewId, Reviewer, SkipReason, StoredEvent, Trigger, clock::Clock,
};
use umbra_store::{events::EventFilter, paging::Seek, reviews::Review};

/// Longest text on standard input, in bytes.
const MAX_INPUT: u64 = 256 * 1024;
/// Number of stored events that are searched for one with the trigger.
const LOOK_BACK: u32 = 500;
/// Longest wait for a review that another process took.
const PATIENCE: Duration = Duration::from_mins(2);

/// Notes of the help, after the options.
pub(super) const NOTES: &str = "With --trigger code_written or security_risk the text is read as a program or a \
                                script, in any language, fenced or not; --as overrides this. Without standard input \
                                the newest stored event of that target and trigger is reviewed. The review counts \
                                against the shadow's caps; the cooldown does not apply. With `artifacts.enabled` the \
                                review is also written as markdown into `artifacts.reviews_dir`.\n\nOnly a model gives \
                                APPROVE. CHECKED means that the shadow runs on the built-in checks without a model, \
                                and the checks found nothing; --fail-on checked fails unless a model approves.\n\nExit \
                                codes: 0 reviewed, whatever the assessment; 1 faults, a cap that refuses the review, \
                                or an assessment that --fail-on names; 2 wrong usage.";

/// Text to review, and the shadow that reviews it.
#[derive(Debug, Args)]
pub(super) struct ReviewOptions {
    /// Agent that wrote the text.
    #[arg(long)]
    target: String,
    /// Trigger of the review: `code_written`, `security_risk`, `task_complete`, error.
    #[arg(long)]
    trigger: String,
    /// Shadow that reviews; without it, the first that watches the target for the trigger.
    #[arg(long)]
    shadow: Option<String>,
    /// Instruction that the agent was given.
    #[arg(long)]
    task: Option<String>,
    /// Read the text as `shell`, as `code` in any language, or as `text` with commands in fenced blocks.
    #[arg(long = "as", value_name = "FORM")]
    form: Option<String>,
    /// Exit 1 if the assessment is this strict or stricter: checked, inconclusive, suggest or flag.
    #[arg(long, value_name = "ASSESSMENT", value_parser = strictness)]
    fail_on: Option<Assessment>,
}

fn strictness(word: &str) -> Result<Assessment, &'static str> {
    let mut known = Assessment::ALL.into_iter().filter(|known| *known != Assessment::Approve);
    let found = known.find(|known| known.as_str().to_lowercase() == word);
    found.ok_or("write checked, inconclusive, suggest or flag")
}

pub(super) async fn run(global: &GlobalOptions, options: ReviewOptions) -> Result<(), CommandFailure> {
    let trigger = Trigger::parse_named(&options.trigger).ok_or_else(|| {
        CommandFailure::Usage("--trigger: write code_written, security_risk, task_complete or error".into())
    })?;
    if options.target.trim().is_empty() || options.target.len() > 256 {
        return usage("--target: 1 to 256 bytes, not blank");
    }
    let form = options.form.as_deref().map(form_named).transpose()?;
    let fail_on = options.fail_on;
    let text = standard_input()?;
    let (setup, database) = global.open().await?;
    let App { flows, mut dispatcher, writer, .. } = App::build(&setup, &database.store, Clock::system()).await?;
    flows.pulse.beat().await?;
    let stop = CancellationToken::new();
    let walk = async {
        let reviewed = review(&flows, &mut dispatcher, options, (trigger, form), text).await;
        stop.cancel();
        reviewed
    };
    let (reviewed, ()) = tokio::join!(walk, writer.run(stop.clone()));
    flows.pulse.leave().await?;
    database.close().await;
    let reviewed = reviewed?;
    show(global, &reviewed)?;
    if let Some(path) = artifacts(&setup).write_page(&reviewed).await.map_err(anyhow::Error::from)? {
        complain(&format!("written to {}", path.display()));
    }
    let fails = fail_on.is_some_and(|strict| reviewed.assessment.is_some_and(|found| found >= strict));
    if fails { Err(CommandFailure::AlreadyReported) } else { Ok(()) }
}

/// Parses the form that an option names.
fn form_named(word: &str) -> Result<OutputForm, CommandFailure> {
    let found = OutputForm::parse(word);
    found.ok_or_else(|| CommandFailure::Usage(format!("--as: {word:?} is not text, code or shell")))
}

/// Reads the text on standard input; `None` where there is none: it is a terminal or `/dev/null`.
fn standard_input() -> anyhow::Result<Option<String>> {
    let input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    if input.metadata()?.file_type().is_char_device() {
        return Ok(None);
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(MAX_INPUT + 1)
        .read_to_string(&mut text)
        .map_err(|error| anyhow!("standard input cannot be read as UTF-8 text: {error}"))?;
    ensure!(
        text.len() as u64 <= MAX_INPUT,
        "standard input has more than 256 KiB, the limit of an event: review a part of the text"
    );
    ensure!(!text.contains('\0'), "standard input has U+0000 and is not text");
    ensure!(
        !text.trim().is_empty(),
        "standard input is empty: pipe a text into it, or use `< /dev/null` to review the newest stored event of the \
         target"
    );
    Ok(Some(text))
}

async fn review(
    flows: &Flows,
    dispatcher: &mut crate::queue::Dispatcher,
    options: ReviewOptions,
    (trigger, form): (Trigger, Option<OutputForm>),
    text: Option<String>,
) -> anyhow::Result<Review> {
    let mut event = match text {
        Some(output) => Event {
            agent: options.target,
            triggers: vec![trigger],
            task: options.task,
            output: Some(output),
            output_form: Some(OutputForm::on_demand(trigger)),
            ..Event::default()
        },
        None => newest(flows, &options.target, trigger).await?,
    };
    event.output_form = form.or(event.output_form);
    let shadow = match options.shadow {
        Some(name) => name,
        None => flows.rules.load().first_watching(&event, trigger).ok_or_else(|| {
            anyhow!("no shadow watches {} for {}: name a shadow by --shadow", event.agent, trigger.as_str())
        })?,
    };
    let origin = Origin { on_demand: Some(OnDemand { shadow, trigger }), ..Origin::default() };
    let accepted = flows.events.accept(Incoming { event, key: None, digest_input: Vec::new() }, &origin).await?;
    let disposition = accepted.dispositions.first().ok_or_else(|| anyhow!("no shadow reviews the text"))?;
    let (Outcome::Queued, Some(id)) = (disposition.outcome, disposition.review_id) else {
        let reason = disposition.reason.map_or("skipped", SkipReason::as_str);
        bail!("the shadow {} does not review this text now: {reason}", disposition.shadow);
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reviews = flows.reviews.clone();
        dispatcher.run_one(id, |job, payload| reviews.perform(job, payload)).await?;
        let found = find(flows, id).await?;
        if found.has_ended() {
            return Ok(found);
        }
        if Instant::now() > deadline {
            let why = found.failure.unwrap_or_else(|| "the model is slow".into());
            bail!("{id} has not ended within two minutes ({why}); a running server finishes it");
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn find(flows: &Flows, id: ReviewId) -> anyhow::Result<Review> {
    let mut review = flows.store.reviews().get(id).await?.ok_or_else(|| anyhow!("{id} no longer exists"))?;
    if review.released {
        let reason = review.reason.map_or("unknown reason", SkipReason::as_str);
        let failure = review.failure.map(|failure| format!(" ({failure})")).unwrap_or_default();
        bail!("the review was given up, and it does not count against the caps: {reason}{failure}");
    }
    review.findings = Some(flows.store.findings().findings_of(&[id]).await?);
    Ok(review)
}

/// Returns the newest stored event of a target that carries a trigger.
async fn newest(flows: &Flows, target: &str, trigger: Trigger) -> anyhow::Result<Event> {
    let filter = EventFilter { agent: Some(target.to_owned()), ..EventFilter::default() };
    let seek = Seek { from: None, descending: true, limit: LOOK_BACK };
    let page = flows.store.events().list(&filter, seek).await?;
    let stored = page.items.into_iter().filter(|(_, row)| !row.erased);
    let stored = stored.filter_map(|(_, row)| serde_json::from_slice::<StoredEvent>(&row.payload).ok());
    let mut carrying = stored.filter(|stored| stored.triggers.iter().any(|mark| mark.name == trigger));
    let found = carrying.next().map(|stored| stored.event);
    if found.is_some() {
        complain(&format!("no text is given: reviewing the newest stored event of {}", table::plain(target)));
    }
    found.with_context(|| {
        let trigger = trigger.as_str();
        format!("no stored event of {target} has the trigger {trigger}: pipe the text to review into standard input")
    })
}

fn show(global: &GlobalOptions, review: &Review) -> Result<(), CommandFailure> {
    if global.json {
        return answer_json(review);
    }
    let reviewer = match (review.reviewer, &review.model) {
        (Some(Reviewer::Model), Some(model)) => model.clone(),
        _ => "built-in checks".into(),
    };
    let assessment = review.assessment.map_or("no assessment", Assessment::as_str);
    answer(&format!("{assessment}  by {} ({reviewer}), ${:.6}", review.shadow, review.cost_usd));
    let findings = review.findings.as_deref().unwrap_or_default();
    if !findings.is_empty() {
        let mut rows = table::new(&["severity", "category", "finding", "where"]);
        for finding in findings {
            let place = finding
                .evidence
                .as_ref()
                .map_or("-".into(), |e| format!("{} {}..{}", table::plain(&e.field), e.start, e.end));
            rows.add_row([finding.severity.as_str(), &finding.category, &table::plain(&finding.description), &place]);
        }
        answer(&rows.to_string());
    }
    for line in review.recommendation.iter().chain(&review.notes).chain(&review.failure) {
        answer(&table::plain(line));
    }
    Ok(())
}
