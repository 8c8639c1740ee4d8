//! Scores of a bag-of-words classifier on labelled texts. If it does well, the words alone tell the labels apart, and
//! similar scores of a judge say little about judgement.

use std::collections::HashMap;

use super::scores::{RowJudgement, Scores};

/// Number of folds of cross-validation.
const FOLDS: usize = 5;

/// Multinomial naive Bayes over lower-case words with add-one smoothing, in five folds. Rows go to folds by a hash of
/// their text, so copies of one text are never in both training and test.
#[expect(clippy::cast_precision_loss, reason = "counts of words")]
pub(super) fn bag_of_words(rows: &[(&str, bool)]) -> Scores {
    let words: Vec<Vec<String>> = rows.iter().map(|(text, _)| words(text)).collect();
    let folds: Vec<usize> =
        rows.iter().map(|(text, _)| usize::from(blake3::hash(text.as_bytes()).as_bytes()[0]) % FOLDS).collect();
    let mut judged = Vec::with_capacity(rows.len());
    for fold in 0..FOLDS {
        let of = |inside: bool| {
            let all = rows.iter().zip(&words).zip(&folds);
            all.filter(move |(_, own)| (**own == fold) == inside).map(|((row, words), _)| (row.1, words))
        };
        let (mut seen, mut totals, mut texts) = (HashMap::<&str, [f64; 2]>::new(), [0.0; 2], [1.0_f64; 2]);
        for (bad, words) in of(false) {
            let class = usize::from(bad);
            texts[class] += 1.0;
            totals[class] += words.len() as f64;
            for word in words {
                seen.entry(word).or_default()[class] += 1.0;
            }
        }
        let vocabulary = seen.len() as f64 + 1.0;
        let chance = |word: &str, class: usize| {
            ((seen.get(word).map_or(0.0, |counts| counts[class]) + 1.0) / (totals[class] + vocabulary)).ln()
        };
        for (bad, words) in of(true) {
            let odds: f64 =
                words.iter().map(|word| chance(word, 1) - chance(word, 0)).sum::<f64>() + (texts[1] / texts[0]).ln();
            judged.push((bad, RowJudgement { flagged: odds > 0.0, abstained: false, rank: odds }));
        }
    }
    Scores::of(&judged)
}

fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    parts.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn informative_words_are_learned_and_noise_is_not() {
        let scores = |tell: [&str; 2]| {
            let rows: Vec<(String, bool)> = (0..200).map(|n| (format!("{} n{n}", tell[n % 2]), n % 2 == 0)).collect();
            bag_of_words(&rows.iter().map(|(text, bad)| (text.as_str(), *bad)).collect::<Vec<_>>())
        };
        assert!(scores(["danger ahead", "all well"]).f1.unwrap() > 0.99);
        let auc = scores(["the same", "the same"]).auc.unwrap();
        assert!((0.3..0.7).contains(&auc), "{auc}");
    }
}
