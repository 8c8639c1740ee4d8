//! What reading the commands of one event may cost. In: what was read. Out: whether there is anything left. All scripts
//! of an event and those within them share one budget, so that no text costs more than its length and a small bound,
//! however it is nested.

use std::cell::Cell;

/// One step of the parser, about 25 µs. What else is read is counted in fractions of it.
pub(super) const STEP: usize = 256;

/// What any event may spend …
const LEAST: usize = 60 * STEP;

/// … for each byte of its scripts beyond that …
const BYTE: usize = 12;

/// … and at most: some 20 ms.
const MOST: usize = 600 * STEP;

/// Parts of unread scripts that are looked at by themselves: commands that stand behind what is too much to read.
const PARTS: usize = 32;

/// What is left to spend on one event.
#[derive(Debug)]
pub struct Budget {
    left: Cell<usize>,
    /// Something was left unread, and nobody said so yet.
    over: Cell<bool>,
    /// It was said once.
    told: Cell<bool>,
    /// Parts of unread scripts that may still be looked at by themselves.
    parts: Cell<usize>,
}

impl Budget {
    /// For scripts of so many bytes in all.
    pub fn of(bytes: usize) -> Self {
        let left = bytes.saturating_mul(BYTE).saturating_add(LEAST).min(MOST);
        let (over, told, parts) = (Cell::new(false), Cell::new(false), Cell::new(PARTS));
        Self { left: Cell::new(left), over, told, parts }
    }

    /// For one part of a script that was not read.
    pub fn of_part() -> Self {
        Self { parts: Cell::new(0), ..Self::of(0) }
    }

    /// Takes as many parts of a script to be looked at by themselves.
    pub fn parts(&self, wanted: usize) -> usize {
        let granted = wanted.min(self.parts.get());
        self.parts.set(self.parts.get() - granted);
        granted
    }

    /// Whether something was left unread.
    pub fn is_over(&self) -> bool {
        self.over.get()
    }

    /// What may still be spent.
    pub(super) fn left(&self) -> usize {
        self.left.get()
    }

    /// Takes what something cost.
    pub(super) fn spend(&self, cost: usize) {
        self.left.set(self.left.get().saturating_sub(cost));
    }

    /// Takes what reading a text outside of the parser costs; `false` where it is not to be read.
    pub fn reads(&self, bytes: usize) -> bool {
        let cost = bytes / 8 + STEP;
        let affords = cost <= self.left();
        if affords {
            self.spend(cost);
        } else {
            self.cut();
        }
        affords
    }

    /// Notes that something is left unread.
    pub fn cut(&self) {
        self.over.set(true);
    }

    /// Whether something was left unread of which nobody was told; asked once, it is told.
    pub fn tells(&self) -> bool {
        self.over.replace(false) && !self.told.replace(true)
    }
}
