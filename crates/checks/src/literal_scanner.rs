//! Multi-literal scanner, case-insensitive. In: the literals, once; then any text. Out: every occurrence, in order of
//! place. Clean text costs only this pass, so the scanner asks of four bytes whether a literal may begin there: one
//! multiplication and one bit of a table that stays in a near cache (16 KB, or 64 KB where short literals set many
//! bits). Where few bits are set, only every second place is tested: the four bytes from an even place lie within a
//! literal, except for at most one.

use std::ops::Range;

/// Maps letters of both cases to the same value. Other bytes may collide; the comparison sorts them out.
const FOLD: u32 = 0x2020_2020;
/// [`FOLD`] for eight bytes.
const FOLD_ALL: u64 = 0x2020_2020_2020_2020;

/// Bits of a bucket's number.
const BUCKETS: u32 = 12;

/// Scanner for a set of literals.
#[derive(Debug)]
pub(super) struct LiteralScanner {
    near: Prefilter,
    /// Literals, sorted by the hash of their beginning; within a bucket in the given order.
    literals: Vec<Literal>,
    /// Index of each bucket's first literal; the last entry is the number of literals.
    buckets: Vec<usize>,
}

/// Prefilter: four bytes that a literal begins with, or, tested at every second place, begins around.
#[derive(Debug)]
enum Prefilter {
    Begins(Table<SMALL>),
    AroundStart(Table<SMALL>),
    /// [`Self::AroundStart`] for many or short literals.
    AroundStartLarge(Table<LARGE>),
}

#[derive(Debug)]
struct Literal {
    number: usize,
    bytes: Box<[u8]>,
    /// First eight bytes, case folded.
    begins: u64,
    /// Mask of the bytes that the literal has among the first eight.
    mask: u64,
}

impl LiteralScanner {
    /// Creates a scanner. Literals are numbered in the given order; those shorter than three bytes are left out.
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
        Self { near: Prefilter::of(&all), buckets: buckets.collect(), literals: all }
    }

    /// Calls `visit` with the number and the place of every literal in the text, until it returns `false`.
    pub(super) fn find(&self, text: &str, mut visit: impl FnMut(usize, Range<usize>) -> bool) {
        let bytes = text.as_bytes();
        match &self.near {
            Prefilter::Begins(table) => self.scan::<1, SMALL>(table, bytes, &mut visit),
            Prefilter::AroundStart(table) => self.scan::<2, SMALL>(table, bytes, &mut visit),
            Prefilter::AroundStartLarge(table) => self.scan::<2, LARGE>(table, bytes, &mut visit),
        }
    }

    fn scan<const STEP: usize, const WORDS: usize>(
        &self,
        near: &Table<WORDS>,
        bytes: &[u8],
        visit: &mut impl FnMut(usize, Range<usize>) -> bool,
    ) {
        let (eights, rest) = bytes.as_chunks::<8>();
        // The rest of a text is tested in the same way: most texts of an event are short.
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
        // The eight bytes before.
        let mut before = 0;
        // The first place that was not compared yet.
        let mut next = 0;
        for at in 0..=eights.len() {
            let eight = u64::from_le_bytes(*eights.get(at).unwrap_or(&last)) | FOLD_ALL;
            // Places of this round, two in each word: where its halves begin.
            let words = |nth: usize| match 8 * (4 + STEP + nth * STEP) {
                64.. => eight,
                shift => before >> shift | eight << (64 - shift),
            };
            // One test for all places: usually none is set.
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

impl Prefilter {
    fn of(literals: &[Literal]) -> Self {
        let about = Table::about(literals);
        if about.is_sparse() {
            return Self::AroundStart(about);
        }
        let about = Table::about(literals);
        if about.is_sparse() {
            return Self::AroundStartLarge(about);
        }
        let mut begins = Table::new();
        for literal in literals {
            begins.set_all(&literal.bytes, 0);
        }
        Self::Begins(begins)
    }
}

/// Words of a table that fits the first-level cache, and of one that fits the second.
const SMALL: usize = 1 << 11;
const LARGE: usize = 1 << 13;

/// Bit set of hashes of four bytes.
#[derive(Debug)]
struct Table<const WORDS: usize>(Box<[u64; WORDS]>);

impl<const WORDS: usize> Table<WORDS> {
    /// Shift of a hash to the bits that number a word and, below them, a bit of the word.
    const SHIFT: u32 = u32::BITS - u64::BITS.ilog2() - WORDS.ilog2();

    fn new() -> Self {
        Self(Box::new([0; WORDS]))
    }

    /// Creates the table of the four bytes around each literal's beginning, for both parities of the place.
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

    /// Sets the four bytes from a place of a literal on, with any bytes behind a short one.
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

    /// Returns 1 in the lowest bit if the set has these four bytes, case folded.
    #[inline]
    fn bits(&self, four: u32) -> u64 {
        let hash = hash(four) >> Self::SHIFT;
        self.0.get(hash as usize >> 6).copied().unwrap_or_default() >> (hash & 63)
    }

    /// True if the set is so sparse that random bytes rarely match.
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

/// Returns eight bytes from a place on, zero-padded at the end, case folded.
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

/// Returns the bucket of a key, by its first three bytes.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "three bytes are what is asked for")]
fn bucket(key: u64) -> usize {
    (hash(key as u32 & 0x00ff_ffff) >> (32 - BUCKETS)) as usize
}

#[inline]
fn hash(key: u32) -> u32 {
    key.wrapping_mul(0x9e37_79b1)
}
