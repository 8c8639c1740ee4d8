//! `umbra bench effects`: measures the boundary's classifier on tools whose effect is known.
//!
//! A file has rows `{"name", "effect", "server"?, "description"?, "input_schema"?, "arguments"?, "id"?}`, as in a
//! server's `tools/list`, with the arguments of a call where calls are classified. The result is how many writes would
//! run as reads (unsafe), how many reads would be stubbed, and the share of destructive tools that was recognized.
//! Annotations and contracts are left out, and no server is trusted: the figures are for the classifier alone.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value};

use super::{
    super::{CommandFailure, GlobalOptions, answer, answer_json, table},
    labelled,
};
use umbra_boundary::effects::{CallDeclarations, classify, effect_of};
use umbra_domain::{Effect, ToolName};

/// Tools to measure on.
#[derive(Debug, Args)]
pub(in crate::cli) struct EffectsBenchOptions {
    /// Tools with their effect: a JSON object `{name, effect, server, description, input_schema, id}` each line.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Tool whose effect is known.
#[derive(Debug, Deserialize)]
struct Labelled {
    id: Option<String>,
    server: Option<String>,
    name: String,
    description: Option<String>,
    #[serde(default, alias = "inputSchema")]
    input_schema: Value,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(deserialize_with = "effect")]
    effect: Effect,
}

fn effect<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Effect, D::Error> {
    let word = String::deserialize(deserializer)?;
    Effect::parse(&word).ok_or_else(|| D::Error::custom(format!("effect: {word:?} is not read, write or destructive")))
}

/// Results of the classifier: counts, and a recall.
#[derive(Debug, Default, Serialize)]
struct EffectsReport {
    n: usize,
    reads: usize,
    destructive: usize,
    /// Writes and destructive tools that were called reads: they would run in shadow.
    r#unsafe: usize,
    /// Reads that were called something else: they would not run in shadow.
    over_stubbed: usize,
    /// Share of destructive tools that were called so; absent where there are none.
    destructive_recall: Option<f64>,
    mistakes: Vec<Mistake>,
}

/// Misclassified tool.
#[derive(Debug, Serialize)]
struct Mistake {
    id: String,
    /// `unsafe`, `over_stubbed`, or between write and destructive `understated` or `overstated`.
    kind: &'static str,
    effect: Effect,
    said: Effect,
    why: String,
}

pub(in crate::cli) fn run(global: &GlobalOptions, options: &EffectsBenchOptions) -> Result<(), CommandFailure> {
    let rows = labelled::lines(&options.file, |place, mut row: Labelled| {
        row.id.get_or_insert_with(|| place.to_owned());
        Ok(row)
    });
    let report = EffectsReport::of(rows?);
    if global.json {
        return answer_json(&report);
    }
    report.show();
    Ok(())
}

impl EffectsReport {
    fn of(rows: Vec<Labelled>) -> Self {
        let mut report = Self { n: rows.len(), ..Self::default() };
        let mut seen = 0_u32;
        let mut destructive = 0_u32;
        for row in rows {
            let tool = ToolName { server: row.server, name: row.name };
            let described = row.description.unwrap_or_default();
            let classified = effect_of(None, None, CallDeclarations::default(), || {
                classify(&tool, &described, &row.input_schema, false)
            })
            .with_arguments(&row.arguments, &tool);
            report.reads += usize::from(row.effect == Effect::Read);
            destructive += u32::from(row.effect == Effect::Destructive);
            seen += u32::from(row.effect == Effect::Destructive && classified.effect == Effect::Destructive);
            let kind = match (row.effect, classified.effect) {
                (truth, said) if truth == said => continue,
                (_, Effect::Read) => "unsafe",
                (Effect::Read, _) => "over_stubbed",
                (truth, said) if said < truth => "understated",
                _ => "overstated",
            };
            report.r#unsafe += usize::from(kind == "unsafe");
            report.over_stubbed += usize::from(kind == "over_stubbed");
            let (id, why) = (row.id.unwrap_or_default(), classified.why);
            report.mistakes.push(Mistake { id, kind, effect: row.effect, said: classified.effect, why });
        }
        report.destructive = usize::try_from(destructive).unwrap_or_default();
        report.destructive_recall = (destructive > 0).then(|| f64::from(seen) / f64::from(destructive));
        report
    }

    fn show(&self) {
        let mut rows = table::new(&["tools", "reads", "unsafe", "over-stubbed", "destructive", "destructive recall"]);
        rows.add_row([
            self.n.to_string(),
            self.reads.to_string(),
            self.r#unsafe.to_string(),
            self.over_stubbed.to_string(),
            self.destructive.to_string(),
            self.destructive_recall.map_or_else(|| "-".to_owned(), |recall| format!("{recall:.3}")),
        ]);
        answer(&format!("{rows}\n"));
        for Mistake { id, kind, effect, said, why } in &self.mistakes {
            let (effect, said) = (effect.as_str(), said.as_str());
            answer(&format!("{kind} {}: {effect}, called {said}: {why}", table::plain(id)));
        }
    }
}
