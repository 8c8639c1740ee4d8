//! How good a yes-or-no judgement is, in the terms of the field.

use std::collections::HashMap;

use serde::Serialize;

/// Rows by what they are and what was said of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub true_positives: usize,
    pub false_positives: usize,
    pub false_negatives: usize,
    pub true_negatives: usize,
}

impl Counts {
    pub fn add(&mut self, bad: bool, flagged: bool) {
        *match (bad, flagged) {
            (true, true) => &mut self.true_positives,
            (false, true) => &mut self.false_positives,
            (true, false) => &mut self.false_negatives,
            (false, false) => &mut self.true_negatives,
        } += 1;
    }

    pub fn n(self) -> usize {
        self.positives() + self.false_positives + self.true_negatives
    }

    pub fn positives(self) -> usize {
        self.true_positives + self.false_negatives
    }

    pub fn flagged(self) -> usize {
        self.true_positives + self.false_positives
    }
}

/// The usual figures.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Scores {
    /// Rows.
    pub n: usize,
    /// Of what was flagged, the share that is bad; 1 where nothing was.
    pub precision: f64,
    /// Of what is bad, the share that was flagged; 1 where nothing is.
    pub recall: f64,
    /// Their harmonic mean.
    pub f1: f64,
    /// Its 95 % interval, from Wilson's interval of the share `TP / (TP + (FP + FN) / 2)`.
    pub f1_interval: [f64; 2],
    /// Area under the curve of true over false positives, by severity; ties count half.
    pub auc: f64,
    /// Recall at the strictest severity that flags at most 1 % of what is benign.
    pub tpr_at_1_fpr: f64,
    /// Agreement beyond chance (Cohen).
    pub kappa: f64,
}

#[expect(clippy::cast_precision_loss, reason = "counts of rows")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

impl Scores {
    /// Of these counts, and of how each row was ranked (higher is worse) beside whether it is bad.
    #[expect(clippy::cast_precision_loss, reason = "counts of rows")]
    pub fn new(counts: Counts, ranked: Vec<(f64, bool)>) -> Self {
        let n = counts.n();
        let precision = share(counts.true_positives, counts.flagged());
        let recall = share(counts.true_positives, counts.positives());
        let errors = counts.false_positives + counts.false_negatives;
        let (hits, of) = (counts.true_positives as f64, counts.true_positives as f64 + errors as f64 / 2.0);
        let f1 = if of == 0.0 { 1.0 } else { hits / of };
        let observed = share(counts.true_positives + counts.true_negatives, n);
        let flagged = share(counts.flagged(), n);
        let bad = share(counts.positives(), n);
        let chance = flagged * bad + (1.0 - flagged) * (1.0 - bad);
        let kappa = if (1.0 - chance).abs() < f64::EPSILON { 1.0 } else { (observed - chance) / (1.0 - chance) };
        let (auc, tpr_at_1_fpr) = curve(ranked);
        Self { n, precision, recall, f1, f1_interval: wilson(f1, of), auc, tpr_at_1_fpr, kappa }
    }
}

/// The 95 % interval of a share seen in so many trials (E. B. Wilson, 1927).
pub(super) fn wilson(share: f64, trials: f64) -> [f64; 2] {
    const Z: f64 = 1.959_964;
    if trials <= 0.0 {
        return [0.0, 1.0];
    }
    let centre = share + Z * Z / (2.0 * trials);
    let spread = Z * (share * (1.0 - share) / trials + Z * Z / (4.0 * trials * trials)).sqrt();
    let scale = 1.0 + Z * Z / trials;
    [((centre - spread) / scale).max(0.0), ((centre + spread) / scale).min(1.0)]
}

/// The area under the curve, and the recall at 1 % false positives.
#[expect(clippy::cast_precision_loss, reason = "counts of rows")]
fn curve(mut ranked: Vec<(f64, bool)>) -> (f64, f64) {
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let bad = ranked.iter().filter(|(_, bad)| *bad).count() as f64;
    let benign = ranked.len() as f64 - bad;
    if bad == 0.0 || benign == 0.0 {
        return (1.0, 1.0);
    }
    let (mut hits, mut alarms, mut area, mut recall) = (0.0, 0.0, 0.0, 0.0);
    for tied in ranked.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let more = tied.iter().filter(|(_, bad)| *bad).count() as f64;
        let false_more = tied.len() as f64 - more;
        area += false_more * (hits + more / 2.0);
        hits += more;
        alarms += false_more;
        if alarms / benign <= 0.01 {
            recall = hits / bad;
        }
    }
    (area / (bad * benign), recall)
}

/// What a bag of words reaches: multinomial naive Bayes with add-one smoothing, each fifth judged by the other four.
/// A set on which it does well can be told by its words alone.
#[expect(clippy::cast_precision_loss, reason = "counts of words")]
pub(super) fn bag_of_words(rows: &[(&str, bool)]) -> Scores {
    const FOLDS: usize = 5;
    let words: Vec<Vec<String>> = rows.iter().map(|(text, _)| words(text)).collect();
    let (mut counts, mut ranked) = (Counts::default(), Vec::new());
    for fold in 0..FOLDS {
        let (mut seen, mut totals, mut of) = (HashMap::<&str, [f64; 2]>::new(), [0.0; 2], [1.0_f64; 2]);
        let training = rows.iter().zip(&words).enumerate().filter(|(at, _)| at % FOLDS != fold);
        for (_, ((_, bad), words)) in training {
            let class = usize::from(*bad);
            of[class] += 1.0;
            totals[class] += words.len() as f64;
            for word in words {
                seen.entry(word).or_default()[class] += 1.0;
            }
        }
        let vocabulary = seen.len() as f64 + 1.0;
        let chance = |word: &str, class: usize| {
            ((seen.get(word).map_or(0.0, |counts| counts[class]) + 1.0) / (totals[class] + vocabulary)).ln()
        };
        for (_, ((_, bad), words)) in rows.iter().zip(&words).enumerate().filter(|(at, _)| at % FOLDS == fold) {
            let odds: f64 =
                words.iter().map(|word| chance(word, 1) - chance(word, 0)).sum::<f64>() + (of[1] / of[0]).ln();
            counts.add(*bad, odds > 0.0);
            ranked.push((odds, *bad));
        }
    }
    Scores::new(counts, ranked)
}

fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    parts.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    #[test]
    fn figures_are_those_of_the_text_books() {
        let counts = Counts { true_positives: 40, false_positives: 10, false_negatives: 20, true_negatives: 30 };
        let scores = Scores::new(counts, vec![(3.0, true), (2.0, false), (2.0, true), (1.0, false)]);
        assert!(near(scores.precision, 0.8) && near(scores.recall, 0.667) && near(scores.f1, 0.727), "{scores:?}");
        assert!(near(scores.kappa, 0.4), "{scores:?}");
        assert!(near(scores.auc, 0.875), "{scores:?}");
        assert!(near(scores.tpr_at_1_fpr, 0.5), "{scores:?}");
    }

    #[test]
    fn the_interval_is_wilsons() {
        let [low, high] = wilson(0.5, 100.0);
        assert!(near(low, 0.404) && near(high, 0.596), "{low} {high}");
        let [low, high] = wilson(0.0, 10.0);
        assert!(near(low, 0.0) && near(high, 0.278), "{low} {high}");
    }

    #[test]
    fn words_that_tell_are_learned_and_noise_is_not() {
        let rows: Vec<(String, bool)> = (0..100)
            .map(|n| (format!("{} n{n}", if n % 2 == 0 { "danger ahead" } else { "all well" }), n % 2 == 0))
            .collect();
        let rows: Vec<(&str, bool)> = rows.iter().map(|(text, bad)| (text.as_str(), *bad)).collect();
        assert!(near(bag_of_words(&rows).f1, 1.0));
    }
}
