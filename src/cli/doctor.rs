//! `umbra doctor`: checks the database's invariants, today's meters against the caps in force, and spooled events on
//! this machine's disk.

use std::{fs, path::PathBuf};

use rand::Rng;
use serde_json::json;

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, table};
use crate::spool::{abandoned_in, bytes_in, decode, holds_refused, segments_in};
use umbra_domain::Shadow;

pub(super) async fn run(global: &GlobalOptions) -> Result<(), CommandFailure> {
    let (setup, database) = match global.open_existing().await {
        Ok(open) => open,
        Err(failure) => {
            // Without the database it is unknown which spool belongs to it.
            let all = fs::read_dir(global.setup(None)?.spools_dir()).into_iter().flatten().flatten();
            spools(all.map(|entry| entry.path()))?.iter().for_each(|spool| complain(&spool.words()));
            return Err(failure);
        }
    };
    let shadows = setup.shadows()?;
    let installation = database.store.installation(rand::rng().random()).await?;
    let spools = spools([setup.spool_dir(&installation)])?;
    let findings = database.store.upkeep().doctor(setup.settings.queue.dead_after).await?;
    let mut over = Vec::new();
    for shadow in &shadows.value {
        over.extend(over_cap(&database, shadow).await?);
    }
    database.close().await;
    let refused = spools.iter().any(|spool| spool.refused);
    let sick = refused || findings.iter().any(|finding| finding.broken > 0);
    if global.json {
        answer_json(&json!({"ok": !sick, "invariants": findings, "over_cap_today": over, "spools": spools}))?;
    } else {
        let mut table = table::new(&["invariant", "promise", "broken"]);
        for finding in &findings {
            table.add_row([finding.name, finding.promise, &finding.broken.to_string()]);
        }
        answer(&table.to_string());
        for example in findings.iter().flat_map(|finding| &finding.examples) {
            answer(&format!("  {}", table::plain(example)));
        }
        for line in over.iter().cloned().chain(spools.iter().map(SpoolFinding::words)) {
            answer(&format!("note: {line}"));
        }
        answer(if sick { "an invariant is violated" } else { "all invariants hold" });
    }
    if sick { Err(CommandFailure::AlreadyReported) } else { Ok(()) }
}

/// Spool of events in the data directory that is not empty.
#[derive(Debug, serde::Serialize)]
struct SpoolFinding {
    dir: PathBuf,
    events: usize,
    bytes: u64,
    /// Number of ended processes that left events: the next server in this data directory files them.
    abandoned_by: usize,
    /// True if lines were set aside that could not be filed.
    refused: bool,
}

impl SpoolFinding {
    fn words(&self) -> String {
        let Self { dir, events, bytes, abandoned_by, refused } = self;
        let left =
            if *abandoned_by > 0 { "; a stopped server left some of them: start a server to store them" } else { "" };
        let aside =
            if *refused { "; lines that could not be stored are in its file `refused`: look at them" } else { "" };
        format!("{events} events ({bytes} bytes) wait for the database in {}{left}{aside}", dir.display())
    }
}

/// Returns the spools that are not empty.
fn spools(dirs: impl IntoIterator<Item = PathBuf>) -> Result<Vec<SpoolFinding>, CommandFailure> {
    let mut found = Vec::new();
    for dir in dirs {
        let mut events = 0;
        for segment in segments_in(&dir)? {
            let text = fs::read(segment).unwrap_or_default();
            events += text.split(|byte| *byte == b'\n').filter(|line| decode(line).is_some()).count();
        }
        let (abandoned_by, refused) = (abandoned_in(&dir)?.len(), holds_refused(&dir));
        if events > 0 || refused {
            found.push(SpoolFinding { events, bytes: bytes_in(&dir), abandoned_by, refused, dir });
        }
    }
    Ok(found)
}

/// Returns notes on days above today's caps: no defect where a cap was lowered during the day.
async fn over_cap(database: &crate::app::Database, shadow: &Shadow) -> Result<Vec<String>, CommandFailure> {
    let control = &shadow.cost_control;
    let day = database.store.shadows().shadow_day(&shadow.name, &control.time_zone).await?;
    let mut over = Vec::new();
    if control.max_reviews_per_day.is_some_and(|cap| day.reviews > i64::from(cap)) {
        over.push(format!("{}: {} reviews today exceed the cap; was the cap lowered?", shadow.name, day.reviews));
    }
    if control.max_usd_per_day.is_some_and(|cap| day.spent + day.held > cap) {
        over.push(format!("{}: {} spent today exceeds the cap; was the cap lowered?", shadow.name, day.spent));
    }
    Ok(over)
}
