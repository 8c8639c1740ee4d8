//! Budget for reading the commands of one event. In: what was read. Out: whether there is anything left. All scripts
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

/// Budget for reading the scripts of one event, counted in fractions of a parser's step.
#[derive(Debug)]
pub struct Budget {
    left: Cell<usize>,
    /// True if something was left unread and not reported yet.
    over: Cell<bool>,
    /// True once that was reported.
    told: Cell<bool>,
    /// Parts of unread scripts that may still be looked at by themselves.
    parts: Cell<usize>,
}

impl Budget {
    /// Budget for scripts of so many bytes in all.
    pub fn of(bytes: usize) -> Self {
        let left = bytes.saturating_mul(BYTE).saturating_add(LEAST).min(MOST);
        let (over, told, parts) = (Cell::new(false), Cell::new(false), Cell::new(PARTS));
        Self { left: Cell::new(left), over, told, parts }
    }

    /// Budget for one command of an unread script that is looked at by itself.
    pub fn of_part() -> Self {
        Self { parts: Cell::new(0), ..Self::of(0) }
    }

    /// Grants, of the parts of an unread script that are to be looked at by themselves, as many as are left.
    pub fn parts(&self, wanted: usize) -> usize {
        let granted = wanted.min(self.parts.get());
        self.parts.set(self.parts.get() - granted);
        granted
    }

    /// True if something was left unread that [`Budget::tells`] has not reported yet.
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

    /// Spends the cost of reading a text of so many bytes outside of the parser. False if too little is left: then nothing
    /// is spent, the text is not to be read, and that is noted.
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

    /// Notes that something is left unread that could matter.
    pub fn cut(&self) {
        self.over.set(true);
    }

    /// True, once an event, if something was left unread: the caller reports it.
    pub fn tells(&self) -> bool {
        self.over.replace(false) && !self.told.replace(true)
    }
}
