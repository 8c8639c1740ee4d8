//! Results of a judge on labelled sets, as JSON, as tables for people, and as a markdown table for documents.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::Context;
use clap::Args;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context, value::Serde};
use serde::Serialize;

use super::{
    super::{answer, table},
    bag_of_words::bag_of_words,
    labelled::LabelledText,
    scores::{Counts, RowJudgement, Scores},
};

/// Output of the results on sets.
#[derive(Debug, Args)]
pub(super) struct SetsOutput {
    /// Also list the misjudged rows (`missed` or `false`), by id.
    #[arg(long)]
    pub mistakes: bool,
    /// Print the table as markdown.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Draw F1 with its interval, and that of the bag of words, into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl SetsOutput {
    /// Draws the sets, if that was asked for.
    pub fn draw(&self, title: &str, sets: &[Set]) -> anyhow::Result<()> {
        let Some(file) = &self.svg else { return Ok(()) };
        fs::write(file, svg(title, sets)?).with_context(|| format!("{} cannot be written", file.display()))
    }

    /// Prints the sets for people.
    pub fn show(&self, sets: &[Set]) {
        if self.markdown { answer(&markdown(sets)) } else { show(sets) }
    }
}

/// Results of a judge on one set.
#[derive(Debug, Serialize)]
pub(super) struct Set {
    pub name: String,
    /// Name of the check or the model.
    pub judge: String,
    #[serde(flatten)]
    pub scores: Scores,
    pub by_source: Vec<BySource>,
    /// Scores of a naive Bayes classifier over words, by five-fold cross-validation.
    pub bag_of_words: Scores,
    /// Misjudged rows, where they are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<Mistake>,
}

/// Results on the rows of one source.
#[derive(Debug, Serialize)]
pub(super) struct BySource {
    pub source: String,
    pub n: usize,
    pub positives: usize,
    pub flagged: usize,
    pub true_positives: usize,
    pub f1: Option<f64>,
    pub abstentions: usize,
}

/// Misjudged row.
#[derive(Debug, Serialize)]
pub(super) struct Mistake {
    pub id: String,
    /// `missed` or `false`.
    pub kind: &'static str,
}

impl Set {
    /// Computes the results from rows and their judgements.
    pub fn of(name: String, judge: String, rows: &[LabelledText], said: &[RowJudgement], mistakes: bool) -> Self {
        let judged: Vec<(bool, RowJudgement)> = rows.iter().map(|row| row.bad).zip(said.iter().copied()).collect();
        let mut sources: BTreeMap<&str, (Counts, usize)> = BTreeMap::new();
        for (row, (bad, said)) in rows.iter().zip(&judged) {
            let (counts, abstentions) = sources.entry(&row.source).or_default();
            counts.add(*bad, said.flagged);
            *abstentions += usize::from(said.abstained);
        }
        let by_source = sources.into_iter().map(|(source, (counts, abstentions))| BySource {
            source: source.to_owned(),
            n: counts.n(),
            positives: counts.positives(),
            flagged: counts.flagged(),
            true_positives: counts.true_positives,
            f1: counts.f1(),
            abstentions,
        });
        let wrong = rows.iter().zip(&judged).filter(|(_, (bad, said))| mistakes && *bad != said.flagged);
        let texts: Vec<(&str, bool)> = rows.iter().map(|row| (row.text.as_str(), row.bad)).collect();
        Self {
            name,
            judge,
            scores: Scores::of(&judged),
            by_source: by_source.collect(),
            bag_of_words: bag_of_words(&texts),
            mistakes: wrong
                .map(|(row, _)| Mistake { id: row.id.clone(), kind: if row.bad { "missed" } else { "false" } })
                .collect(),
        }
    }

    /// Returns the cells of a set's row in both tables.
    fn cells(&self) -> [String; 11] {
        let Scores { n, positives, precision, recall, f1, f1_interval, auc, tpr_at_1_fpr, kappa, abstentions, .. } =
            &self.scores;
        [
            table::plain(&self.name),
            table::plain(&self.judge),
            format!("{n} ({positives})"),
            figure(*precision, self.scores.precision_interval),
            figure(*recall, self.scores.recall_interval),
            figure(*f1, *f1_interval),
            figure(*auc, None),
            figure(*tpr_at_1_fpr, None),
            figure(*kappa, None),
            abstentions.to_string(),
            figure(self.bag_of_words.f1, None),
        ]
    }
}

const HEADINGS: &str = "\
    set|judge|rows (bad)|precision|recall|F1 (95 %)|AUC|TPR at 1 % FPR|kappa|abstained|bag of words F1";

/// Renders a share with its interval; a dash where it is undefined.
fn figure(value: Option<f64>, interval: Option<[f64; 2]>) -> String {
    match (value, interval) {
        (None, _) => "-".to_owned(),
        (Some(value), None) => format!("{value:.3}"),
        (Some(value), Some([low, high])) => format!("{value:.3} ({low:.2}-{high:.2})"),
    }
}

/// Renders a markdown table with a row for each set.
fn markdown(sets: &[Set]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let headings: Vec<String> = HEADINGS.split('|').map(str::to_owned).collect();
    let mut text = line(&headings) + &line(&vec!["---".to_owned(); headings.len()]);
    for set in sets {
        text += &line(&set.cells().map(|cell| cell.replace('|', "\\|")));
    }
    text
}

/// Renders F1 of each set with its interval, beside the bag of words, as a picture with a legend.
fn svg(title: &str, sets: &[Set]) -> Result<String, minijinja::Error> {
    let mut plot = Environment::new();
    plot.set_undefined_behavior(UndefinedBehavior::Strict);
    plot.set_auto_escape_callback(|_| AutoEscape::Html);
    plot.add_filter("share", |share: Option<f64>| figure(share, None));
    Ok(plot.render_str(include_str!("plot.j2"), context! { title, sets => Serde(sets) })? + "\n")
}

/// Prints tables for people: the sets, their sources, and the mistakes that were asked for.
fn show(sets: &[Set]) {
    let mut rows = table::new(&HEADINGS.split('|').collect::<Vec<_>>());
    for set in sets {
        rows.add_row(set.cells());
    }
    answer(&format!("{rows}\n"));
    let mut rows = table::new(&["set", "source", "rows", "bad", "flagged", "rightly", "F1", "abstained"]);
    for set in sets {
        for one in &set.by_source {
            rows.add_row([
                table::plain(&set.name),
                table::plain(&one.source),
                one.n.to_string(),
                one.positives.to_string(),
                one.flagged.to_string(),
                one.true_positives.to_string(),
                figure(one.f1, None),
                one.abstentions.to_string(),
            ]);
        }
    }
    answer(&format!("{rows}\n"));
    for set in sets {
        for mistake in &set.mistakes {
            answer(&format!("{} {} {}", table::plain(&set.name), mistake.kind, table::plain(&mistake.id)));
        }
    }
}
