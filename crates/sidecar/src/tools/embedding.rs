//! Word vectors: texts of the same meaning have close directions, whichever words they use. In: words. Out: the
//! direction of a text, and the closeness of two directions.
//!
//! The table was fitted to a sentence encoder, all-MiniLM-L6-v2, by `scripts/distill_words.py`, which also describes
//! the file. A word that is not in the table counts for nothing here; the index of words finds it.

use std::{collections::HashMap, sync::LazyLock};

use crate::word_stems::StemmedWord;

static FILE: &[u8] = include_bytes!("../../data/words.bin");
static TABLE: LazyLock<VectorTable> = LazyLock::new(|| read(FILE).unwrap_or_default());

/// Scale and components of each vector, by stem. The number of components is a multiple of eight.
type VectorTable = HashMap<&'static str, (f32, &'static [u8])>;

/// Direction of a text; empty if no word is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Embedding {
    members: Vec<f32>,
    length: f32,
}

/// Reads the table, if it has its form.
fn read(file: &'static [u8]) -> Option<VectorTable> {
    let end = file.iter().position(|byte| *byte == b'\n')?;
    let (head, rest) = file.split_at_checked(end)?;
    let (words, dimensions) = std::str::from_utf8(head).ok()?.split_once(' ')?;
    let (words, dimensions): (usize, usize) = (words.parse().ok()?, dimensions.parse().ok()?);
    let numbers = rest.len().checked_sub(words * (4 + dimensions))?;
    let (names, numbers) = rest.split_at_checked(numbers)?;
    let (scales, vectors) = numbers.split_at_checked(words * 4)?;
    let scales = scales.as_chunks().0.iter().copied().map(f32::from_le_bytes);
    let rows = scales.zip(vectors.chunks_exact(dimensions));
    Some(std::str::from_utf8(names).ok()?.split_whitespace().zip(rows).collect())
}

impl Embedding {
    /// Computes the direction of a text of these words.
    pub fn of<'a>(words: impl IntoIterator<Item = &'a StemmedWord>) -> Self {
        let mut members = Vec::new();
        for word in words {
            let Some((scale, row)) = TABLE.get(word.stem.as_str()) else { continue };
            members.resize(row.len(), 0.0);
            members.iter_mut().zip(*row).for_each(|(sum, byte)| *sum += scale * f32::from(byte.cast_signed()));
        }
        Self { length: dot(&members, &members).sqrt(), members }
    }

    /// Builds a direction from the vector of another encoder.
    pub fn given(numbers: &[f32]) -> Self {
        let mut members = numbers.to_vec();
        members.resize(numbers.len().next_multiple_of(8), 0.0);
        Self { length: dot(&members, &members).sqrt(), members }
    }

    /// Turns the direction towards another one, by its weight.
    pub fn turn(&mut self, weight: f32, towards: &Self) {
        if towards.length > 0.0 {
            self.members.resize(towards.members.len(), 0.0);
            let weight = weight / towards.length;
            self.members.iter_mut().zip(&towards.members).for_each(|(sum, member)| *sum += weight * member);
            self.length = dot(&self.members, &self.members).sqrt();
        }
    }

    /// True if a word of the text is known.
    pub fn is_known(&self) -> bool {
        self.length > 0.0
    }

    /// Returns the cosine of two directions: 1 for the same; 0 if either is empty.
    pub fn cosine(&self, other: &Self) -> f64 {
        let lengths = self.length * other.length;
        if lengths > 0.0 { f64::from(dot(&self.members, &other.members) / lengths) } else { 0.0 }
    }
}

fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut sums = [0.0; 8];
    for (one, other) in one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0) {
        sums.iter_mut().zip(one.iter().zip(other)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.into_iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word_stems::words;

    #[test]
    fn word_vector_table_is_read_completely() {
        assert!(TABLE.len() > 15_000, "{}", TABLE.len());
        assert!(TABLE.values().all(|(scale, row)| *scale > 0.0 && row.len() == 256));
    }

    #[test]
    fn synonyms_are_closer_than_unrelated_texts() {
        let of = |text: &str| Embedding::of(&words(text).collect::<Vec<_>>());
        for (text, near, far) in [
            ("folder", "directory", "invoice"),
            ("picture", "image", "calendar"),
            ("pay the money back", "refund a payment", "print the document"),
            ("erase the letter", "delete the email", "read the weather"),
        ] {
            let [near, far] = [near, far].map(|other| of(text).cosine(&of(other)));
            assert!(near > far + 0.1, "{text}: {near} {far}");
        }
        assert!((of("refund").cosine(&of("Refunds refunding"))) > 0.8);
        assert!(of("qxzzy").cosine(&of("refund")).abs() < 1e-9);
    }
}
