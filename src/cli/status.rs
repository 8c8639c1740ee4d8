//! `umbra status`.

use super::{Failure, Global, answer, answer_json, table};
use crate::{app::App, clock::Clock, domain::Mode};

pub(super) async fn run(global: &Global) -> Result<(), Failure> {
    let (setup, database) = global.open_existing().await?;
    let App { pipeline, .. } = App::build(&setup, &database.store, Clock::system()).await?;
    let status = pipeline.status().await?;
    database.close().await;
    if global.json {
        return answer_json(&status);
    }
    let cap = |used: String, cap: Option<String>| cap.map_or(used.clone(), |cap| format!("{used} of {cap}"));
    let mut shadows = table::new(&["shadow", "mode", "reviewer", "reviews today", "spent today", "skipped today"]);
    for shadow in &status.shadows {
        let skips: Vec<String> = shadow.skips_today.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        let reviewer = if shadow.health == "ok" {
            shadow.model.clone()
        } else {
            format!("{} ({})", shadow.reviewer, shadow.health)
        };
        shadows.add_row([
            shadow.name.clone(),
            Mode::as_str(shadow.mode).to_owned(),
            reviewer,
            cap(shadow.reviews_today.to_string(), shadow.max_reviews_per_day.map(|n| n.to_string())),
            cap(format!("${:.4}", shadow.usd_today), shadow.max_usd_per_day.map(|usd| format!("${usd}"))),
            if skips.is_empty() { "-".into() } else { skips.join(", ") },
        ]);
    }
    answer(&shadows.to_string());
    let queue = &status.queue;
    answer(&format!(
        "queue: {} waiting, {} running, oldest due for {:.0} s",
        queue.queued, queue.running, queue.oldest_age_seconds
    ));
    answer(&format!("database: Postgres {}; umbra {}", status.database.version, status.version));
    Ok(())
}
