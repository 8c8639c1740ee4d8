//! Finds where literals stand in a text, case ignored. In: the literals, once; then any text. Out: every occurrence, in
//! order of place. It is the pass that clean text costs, so it does little but ask of four bytes whether a literal may
//! begin there: one multiplication and one bit of a table that stays in a near cache (16 KB, 64 KB where short literals set
//! many). Where chance seldom meets a bit it asks at every second place alone: wherever a literal stands, four bytes from
//! an even place on lie within it, or all but one of them.

use std::ops::Range;

/// Makes letters of both cases alike; other bytes may fall together too, which the comparison sorts out.
const FOLD: u32 = 0x2020_2020;
/// The same of eight bytes.
const FOLD_ALL: u64 = 0x2020_2020_2020_2020;

/// Bits of a bucket's number.
const BUCKETS: u32 = 12;

/// A set of literals.
#[derive(Debug)]
pub(super) struct Needles {
    near: Near,
    /// By the hash of their beginning; those of one bucket in the order given.
    literals: Vec<Literal>,
    /// Where each bucket's literals begin, and behind the last where they end.
    buckets: Vec<usize>,
}

/// Four bytes that a literal begins with, or, at every second place, begins about.
#[derive(Debug)]
enum Near {
    Begins(Table<SMALL>),
    About(Table<SMALL>),
    /// The same of many literals, or short ones.
    AboutMany(Table<LARGE>),
}

#[derive(Debug)]
struct Literal {
    number: usize,
    bytes: Box<[u8]>,
    /// Its first eight bytes, letters made alike.
    begins: u64,
    /// Which of them it has.
    mask: u64,
}

impl Needles {
    /// Numbers the literals in the order given; those shorter than three bytes are left out.
    pub(super) fn new<'l>(literals: impl IntoIterator<Item = &'l str>) -> Self {
        let mut all = Vec::new();
        for (number, literal) in literals.into_iter().enumerate() {
            let bytes = literal.as_bytes();
            if bytes.len() >= 3 {
                let mask = u64::MAX >> (64 - 8 * bytes.len().min(8));
                all.push(Literal { number, bytes: bytes.into(), begins: key_at(bytes, 0), mask });
            }
        }
        all.sort_by_key(|literal| bucket(literal.begins));
        let buckets = (0..=1 << BUCKETS).map(|one| all.partition_point(|literal| bucket(literal.begins) < one));
        Self { near: Near::of(&all), buckets: buckets.collect(), literals: all }
    }

    /// Calls `visit` with the number and the place of every literal in the text, until it answers `false`.
    pub(super) fn find(&self, text: &str, mut visit: impl FnMut(usize, Range<usize>) -> bool) {
        let bytes = text.as_bytes();
        match &self.near {
            Near::Begins(table) => self.scan::<1, SMALL>(table, bytes, &mut visit),
            Near::About(table) => self.scan::<2, SMALL>(table, bytes, &mut visit),
            Near::AboutMany(table) => self.scan::<2, LARGE>(table, bytes, &mut visit),
        }
    }

    fn scan<const STEP: usize, const WORDS: usize>(
        &self,
        near: &Table<WORDS>,
        bytes: &[u8],
        visit: &mut impl FnMut(usize, Range<usize>) -> bool,
    ) {
        let (eights, rest) = bytes.as_chunks::<8>();
        // What is left, and so the end of each text, is asked in the same way: most texts of an event are short.
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
        // The eight bytes before.
        let mut before = 0;
        // The first place that was not looked at closely.
        let mut next = 0;
        for at in 0..=eights.len() {
            let eight = u64::from_le_bytes(*eights.get(at).unwrap_or(&last)) | FOLD_ALL;
            // The places of this round, two in each word: where its halves begin.
            let words = |nth: usize| match 8 * (4 + STEP + nth * STEP) {
                64.. => eight,
                shift => before >> shift | eight << (64 - shift),
            };
            // One question to all: chance seldom meets a bit of any.
            let mut any = 0;
            for nth in 0..4 / STEP {
                any |= near.bits(low(words(nth))) | near.bits(high(words(nth)));
            }
            if any & 1 == 0 {
                before = eight;
                continue;
            }
            let asked = |place: usize| {
                let word = words(place % (4 / STEP));
                near.bits(if place < 4 / STEP { low(word) } else { high(word) })
            };
            for place in (0..8 / STEP).filter(|place| asked(*place) & 1 != 0) {
                let place = (8 * at + STEP * (place + 1)).saturating_sub(4);
                for start in next.max(place.saturating_sub(STEP - 1))..place + STEP {
                    if !self.visit_at(bytes, start, visit) {
                        return;
                    }
                }
                next = next.max(place + STEP);
            }
            before = eight;
        }
    }

    /// Visits the literals that begin at a place.
    #[inline]
    fn visit_at(&self, bytes: &[u8], start: usize, visit: &mut impl FnMut(usize, Range<usize>) -> bool) -> bool {
        let key = key_at(bytes, start);
        let bucket = bucket(key);
        let from = self.buckets.get(bucket).copied().unwrap_or_default();
        let to = self.buckets.get(bucket + 1).copied().unwrap_or_default();
        for literal in self.literals.get(from..to).unwrap_or_default() {
            if (key ^ literal.begins) & literal.mask != 0 {
                continue;
            }
            let at = start..start + literal.bytes.len();
            let here = bytes.get(at.clone()).is_some_and(|here| here.eq_ignore_ascii_case(&literal.bytes));
            if here && !visit(literal.number, at) {
                return false;
            }
        }
        true
    }
}

impl Near {
    fn of(literals: &[Literal]) -> Self {
        let about = Table::about(literals);
        if about.is_sparse() {
            return Self::About(about);
        }
        let about = Table::about(literals);
        if about.is_sparse() {
            return Self::AboutMany(about);
        }
        let mut begins = Table::new();
        for literal in literals {
            begins.set_all(&literal.bytes, 0);
        }
        Self::Begins(begins)
    }
}

/// Words of a table that the first-level cache holds, and of one that the second does.
const SMALL: usize = 1 << 11;
const LARGE: usize = 1 << 13;

/// A bit for each hash of four bytes.
#[derive(Debug)]
struct Table<const WORDS: usize>(Box<[u64; WORDS]>);

impl<const WORDS: usize> Table<WORDS> {
    /// How far the bits of a hash that number a word's bits, and above them a word, stand from its end.
    const SHIFT: u32 = u32::BITS - u64::BITS.ilog2() - WORDS.ilog2();

    fn new() -> Self {
        Self(Box::new([0; WORDS]))
    }

    /// The four bytes about where each literal begins, at both places.
    fn about(literals: &[Literal]) -> Self {
        let mut table = Self::new();
        for literal in literals {
            table.set_all(&literal.bytes, 0);
            table.set_all(&literal.bytes, 1);
            if let [a, b, c] = *literal.bytes {
                (0..=u8::MAX).for_each(|any| table.set([any, a, b, c]));
            }
        }
        table
    }

    /// Sets the four bytes from a place of a literal on, whatever stands behind it.
    fn set_all(&mut self, literal: &[u8], from: usize) {
        match *literal.get(from..).unwrap_or_default() {
            [a, b, c, d, ..] => self.set([a, b, c, d]),
            [a, b, c] => (0..=u8::MAX).for_each(|any| self.set([a, b, c, any])),
            _ => {}
        }
    }

    fn set(&mut self, four: [u8; 4]) {
        let hash = hash(u32::from_le_bytes(four) | FOLD) >> Self::SHIFT;
        if let Some(word) = self.0.get_mut(hash as usize >> 6) {
            *word |= 1 << (hash & 63);
        }
    }

    /// Whether four bytes, letters made alike, are in the set, as the lowest bit.
    #[inline]
    fn bits(&self, four: u32) -> u64 {
        let hash = hash(four) >> Self::SHIFT;
        self.0.get(hash as usize >> 6).copied().unwrap_or_default() >> (hash & 63)
    }

    /// Whether few enough bytes are in the set that chance seldom meets one.
    fn is_sparse(&self) -> bool {
        self.0.iter().map(|word| word.count_ones() as usize).sum::<usize>() < 4 * WORDS
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower four bytes are what is asked for")]
fn low(eight: u64) -> u32 {
    eight as u32
}

#[inline]
fn high(eight: u64) -> u32 {
    low(eight >> 32)
}

/// Eight bytes, fewer at the end, letters made alike.
#[inline]
fn key_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(first) => eight = *first,
        None => eight.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte),
    }
    u64::from_le_bytes(eight) | FOLD_ALL
}

/// By the first three bytes.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "three bytes are what is asked for")]
fn bucket(key: u64) -> usize {
    (hash(key as u32 & 0x00ff_ffff) >> (32 - BUCKETS)) as usize
}

#[inline]
fn hash(key: u32) -> u32 {
    key.wrapping_mul(0x9e37_79b1)
}
