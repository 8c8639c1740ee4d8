//! `umbra doctor`: the invariants, and the caps in force against today's meters.

use serde_json::json;

use super::{Failure, Global, answer, answer_json, table};
use umbra_domain::Shadow;

pub(super) async fn run(global: &Global) -> Result<(), Failure> {
    let (setup, database) = global.open_existing().await?;
    let shadows = setup.shadows()?;
    let findings = database.store.upkeep().doctor(setup.settings.queue.dead_after).await?;
    let mut over = Vec::new();
    for shadow in &shadows.value {
        over.extend(over_cap(&database, shadow).await?);
    }
    database.close().await;
    let sick = findings.iter().any(|finding| finding.broken > 0);
    if global.json {
        answer_json(&json!({"ok": !sick, "invariants": findings, "over_cap_today": over}))?;
    } else {
        let mut table = table::new(&["invariant", "promise", "broken"]);
        for finding in &findings {
            table.add_row([finding.name, finding.promise, &finding.broken.to_string()]);
        }
        answer(&table.to_string());
        for example in findings.iter().flat_map(|finding| &finding.examples) {
            answer(&format!("  {}", table::plain(example)));
        }
        for line in &over {
            answer(&format!("note: {line}"));
        }
        answer(if sick { "something is broken" } else { "all invariants hold" });
    }
    if sick { Err(Failure::Said) } else { Ok(()) }
}

/// Days that stand above today's caps: no defect where a cap was lowered during the day.
async fn over_cap(database: &crate::app::Database, shadow: &Shadow) -> Result<Vec<String>, Failure> {
    let control = &shadow.cost_control;
    let day = database.store.shadows().shadow_day(&shadow.name, &control.time_zone).await?;
    let mut over = Vec::new();
    if control.max_reviews_per_day.is_some_and(|cap| day.reviews > i64::from(cap)) {
        over.push(format!(
            "{}: {} reviews today are more than its cap; was the cap lowered?",
            shadow.name, day.reviews
        ));
    }
    if control.max_usd_per_day.is_some_and(|cap| day.spent + day.held > cap) {
        over.push(format!("{}: {} spent today is more than its cap; was the cap lowered?", shadow.name, day.spent));
    }
    Ok(over)
}
