//! Budget for reading the commands of one event. All scripts of an event and those within them share one budget, so no
//! text costs more than its length and a small bound, however it is nested.

use std::cell::Cell;

/// One step of the parser, about 25 µs. Other costs are counted in fractions of it.
pub(super) const STEP: usize = 256;

/// Budget of any event, whatever its length.
const LEAST: usize = 60 * STEP;

/// Budget added for each byte of the event's scripts.
const BYTE: usize = 12;

/// Largest budget of an event: some 20 ms.
const MOST: usize = 600 * STEP;

/// Most parts of unread scripts that are read separately: commands behind a text that is too expensive to read.
const PARTS: usize = 32;

/// Budget for reading the scripts of one event, counted in fractions of a parser's step.
#[derive(Debug)]
pub struct ScriptBudget {
    left: Cell<usize>,
    /// True if text was left unread and not reported yet.
    over: Cell<bool>,
    /// True once unread text was reported.
    told: Cell<bool>,
    /// Parts of unread scripts that may still be read separately.
    parts: Cell<usize>,
}

impl ScriptBudget {
    /// Returns the budget for scripts of so many bytes in all.
    pub fn of(bytes: usize) -> Self {
        let left = bytes.saturating_mul(BYTE).saturating_add(LEAST).min(MOST);
        let (over, told, parts) = (Cell::new(false), Cell::new(false), Cell::new(PARTS));
        Self { left: Cell::new(left), over, told, parts }
    }

    /// Returns the budget for one command of an unread script that is read separately.
    pub fn of_part() -> Self {
        Self { parts: Cell::new(0), ..Self::of(0) }
    }

    /// Grants as many of the wanted separate parts as are left.
    pub fn parts(&self, wanted: usize) -> usize {
        let granted = wanted.min(self.parts.get());
        self.parts.set(self.parts.get() - granted);
        granted
    }

    /// True if text was left unread that [`ScriptBudget::take_unread_report`] has not reported yet.
    pub fn is_over(&self) -> bool {
        self.over.get()
    }

    /// Returns the budget that is left.
    pub(super) fn left(&self) -> usize {
        self.left.get()
    }

    /// Subtracts a cost.
    pub(super) fn spend(&self, cost: usize) {
        self.left.set(self.left.get().saturating_sub(cost));
    }

    /// Spends the cost of reading a text of so many bytes outside of the parser. Returns false if too little is left:
    /// then nothing is spent, the text is not to be read, and it is noted as unread.
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

    /// Notes that text is left unread that could matter.
    pub fn cut(&self) {
        self.over.set(true);
    }

    /// Returns true, once an event, if text was left unread: the caller reports it.
    pub fn take_unread_report(&self) -> bool {
        self.over.replace(false) && !self.told.replace(true)
    }
}
