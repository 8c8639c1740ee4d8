//! Scores of a yes-or-no judgement: precision, recall, F1, AUC, kappa and their intervals.

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde::Serialize;

/// Resamples of a bootstrap interval, and the seed that makes them the same each time.
const RESAMPLES: usize = 2_000;
const SEED: u64 = 20_260_211;

/// Judgement of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RowJudgement {
    pub flagged: bool,
    /// True for neither yes nor no, which counts as not flagged.
    pub abstained: bool,
    /// Confidence or severity: a higher rank is worse.
    pub rank: f64,
}

/// Counts of rows by label and judgement.
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

    /// Share of flagged rows that are bad.
    pub fn precision(self) -> Option<f64> {
        share(self.true_positives, self.flagged())
    }

    /// Share of bad rows that were flagged.
    pub fn recall(self) -> Option<f64> {
        share(self.true_positives, self.positives())
    }

    /// Harmonic mean of precision and recall; `None` where nothing is bad and nothing was flagged.
    pub fn f1(self) -> Option<f64> {
        share(2 * self.true_positives, self.flagged() + self.positives())
    }

    /// Agreement beyond chance (J. Cohen, 1960).
    fn kappa(self) -> Option<f64> {
        let observed = share(self.true_positives + self.true_negatives, self.n())?;
        let (flagged, bad) = (share(self.flagged(), self.n())?, share(self.positives(), self.n())?);
        let chance = flagged * bad + (1.0 - flagged) * (1.0 - bad);
        ((1.0 - chance).abs() > f64::EPSILON).then(|| (observed - chance) / (1.0 - chance))
    }

    /// 2.5th and 97.5th percentile of F1 over as many rows drawn from these with replacement.
    #[expect(clippy::cast_precision_loss, reason = "counts of rows")]
    fn f1_interval(self) -> Option<[f64; 2]> {
        self.f1()?;
        let n = self.n() as f64;
        let cells = [self.true_positives, self.false_positives, self.false_negatives].map(|cell| cell as f64 / n);
        let (hit, alarm, missed) = (cells[0], cells[0] + cells[1], cells[0] + cells[1] + cells[2]);
        let mut random = StdRng::seed_from_u64(SEED);
        let mut drawn: Vec<f64> = (0..RESAMPLES)
            // A draw without an F1 is left out.
            .filter_map(|_| {
                let mut counts = Self::default();
                for _ in 0..self.n() {
                    match random.random::<f64>() {
                        row if row < hit => counts.true_positives += 1,
                        row if row < alarm => counts.false_positives += 1,
                        row if row < missed => counts.false_negatives += 1,
                        _ => {}
                    }
                }
                counts.f1()
            })
            .collect();
        drawn.sort_by(f64::total_cmp);
        let at = |share: usize| drawn.get(drawn.len() * share / 1_000).copied();
        Some([at(25)?, at(975)?])
    }
}

/// The usual figures; `None` where one is undefined for these rows.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Scores {
    /// Number of rows.
    pub n: usize,
    /// Number of bad rows.
    pub positives: usize,
    pub precision: Option<f64>,
    /// 95 % interval of a share (E. B. Wilson, 1927), as for recall.
    pub precision_interval: Option<[f64; 2]>,
    pub recall: Option<f64>,
    pub recall_interval: Option<[f64; 2]>,
    pub f1: Option<f64>,
    /// 95 % interval, by a bootstrap over rows (2,000 resamples, seeded).
    pub f1_interval: Option<[f64; 2]>,
    /// Area under the curve of true over false positives, by rank; ties count half.
    pub auc: Option<f64>,
    /// Recall at the strictest rank that flags at most 1 % of benign rows.
    pub tpr_at_1_fpr: Option<f64>,
    pub kappa: Option<f64>,
    /// Rows without a decision: they count as not flagged.
    pub abstentions: usize,
}

/// Divides two counts.
#[expect(clippy::cast_precision_loss, reason = "counts of rows")]
fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Scores {
    /// Scores rows: true if bad, with the judgement of each.
    pub fn of(rows: &[(bool, RowJudgement)]) -> Self {
        let mut counts = Counts::default();
        for (bad, said) in rows {
            counts.add(*bad, said.flagged);
        }
        let curve = curve(rows.iter().map(|(bad, said)| (said.rank, *bad)).collect());
        Self {
            n: counts.n(),
            positives: counts.positives(),
            precision: counts.precision(),
            precision_interval: wilson(counts.true_positives, counts.flagged()),
            recall: counts.recall(),
            recall_interval: wilson(counts.true_positives, counts.positives()),
            f1: counts.f1(),
            f1_interval: counts.f1_interval(),
            auc: curve.map(|(auc, _)| auc),
            tpr_at_1_fpr: curve.map(|(_, recall)| recall),
            kappa: counts.kappa(),
            abstentions: rows.iter().filter(|(_, said)| said.abstained).count(),
        }
    }
}

/// 95 % interval of a share (E. B. Wilson, 1927); `None` of nothing.
#[expect(clippy::cast_precision_loss, reason = "counts of rows")]
fn wilson(part: usize, whole: usize) -> Option<[f64; 2]> {
    const Z: f64 = 1.959_964;
    let (share, trials) = (share(part, whole)?, whole as f64);
    let centre = share + Z * Z / (2.0 * trials);
    let spread = Z * (share * (1.0 - share) / trials + Z * Z / (4.0 * trials * trials)).sqrt();
    let scale = 1.0 + Z * Z / trials;
    Some([((centre - spread) / scale).max(0.0), ((centre + spread) / scale).min(1.0)])
}

/// Area under the curve, and recall at 1 % false positives; `None` where all rows have the same label.
#[expect(clippy::cast_precision_loss, reason = "counts of rows")]
fn curve(mut ranked: Vec<(f64, bool)>) -> Option<(f64, f64)> {
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let bad = ranked.iter().filter(|(_, bad)| *bad).count() as f64;
    let benign = ranked.len() as f64 - bad;
    if bad == 0.0 || benign == 0.0 {
        return None;
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
    Some((area / (bad * benign), recall))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: Option<f64>, wanted: f64) -> bool {
        value.is_some_and(|value| (value - wanted).abs() < 1e-3)
    }

    fn rows(of: &[(usize, bool, bool)]) -> Vec<(bool, RowJudgement)> {
        let row = |bad, flagged| (bad, RowJudgement { flagged, abstained: false, rank: f64::from(u8::from(flagged)) });
        of.iter().flat_map(|(count, bad, flagged)| std::iter::repeat_n(row(*bad, *flagged), *count)).collect()
    }

    #[test]
    fn scores_equal_textbook_values() {
        let scores = Scores::of(&rows(&[(40, true, true), (10, false, true), (20, true, false), (30, false, false)]));
        assert!(near(scores.precision, 0.8) && near(scores.recall, 0.667) && near(scores.f1, 0.727), "{scores:?}");
        assert!(near(scores.kappa, 0.4), "{scores:?}");
        // Two thirds are ranked above three quarters (0.5); ties count half (0.208).
        assert!(near(scores.auc, 0.708), "{scores:?}");
        assert_eq!((scores.n, scores.positives, scores.abstentions), (100, 60, 0));
    }

    #[test]
    fn auc_and_tpr_follow_the_ranking() {
        let said = |rank| RowJudgement { flagged: false, abstained: true, rank };
        let scores = Scores::of(&[(true, said(3.0)), (false, said(2.0)), (true, said(2.0)), (false, said(1.0))]);
        assert!(near(scores.auc, 0.875) && near(scores.tpr_at_1_fpr, 0.5), "{scores:?}");
        assert_eq!(scores.abstentions, 4);
    }

    #[test]
    fn the_interval_of_a_share_is_wilsons() {
        let [low, high] = wilson(50, 100).unwrap();
        assert!(near(Some(low), 0.404) && near(Some(high), 0.596), "{low} {high}");
        let [low, high] = wilson(0, 10).unwrap();
        assert!(near(Some(low), 0.0) && near(Some(high), 0.278), "{low} {high}");
    }

    #[test]
    fn f1_interval_contains_f1_narrows_and_is_reproducible() {
        let of = |times: usize| {
            let cells = [(40 * times, true, true), (10 * times, false, true), (20 * times, true, false)];
            let scores = Scores::of(&rows(&cells));
            let [low, high] = scores.f1_interval.unwrap();
            assert!(low < scores.f1.unwrap() && scores.f1.unwrap() < high, "{scores:?}");
            (low, high)
        };
        let ((low, high), (lower, higher)) = (of(1), of(16));
        assert!((higher - lower) * 3.0 < high - low, "{low} {high} {lower} {higher}");
        assert_eq!(of(1), (low, high));
    }

    #[test]
    fn undefined_scores_are_none() {
        let clean = Scores::of(&rows(&[(10, false, false)]));
        assert_eq!((clean.precision, clean.recall, clean.f1, clean.auc, clean.kappa), (None, None, None, None, None));
        let silent = Scores::of(&rows(&[(10, true, false), (10, false, false)]));
        assert_eq!((silent.precision, silent.recall, silent.f1), (None, Some(0.0), Some(0.0)));
    }
}
