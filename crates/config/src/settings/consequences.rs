//! Sections about the consequences of reviews: `breaker`, `reflexion`, `baseline`, `promote` and `briefing`.

use std::time::Duration;

use super::{
    super::{
        number::{Time, decimal, whole},
        shape::{Flag, List, word},
    },
    secs,
    section::section,
};
use umbra_domain::Mode;

section! {
    /// Conditions under which Umbra recommends to hold an agent back.
    Breaker {
        /// Verified rejections in a row, by one shadow, that open an agent's breaker; as many of one output open it
        /// too.
        threshold: u32 = 3, whole(1..=20);
        /// Modes of the shadows that count: review and active, or one of them. Passive shadows never count.
        modes: Vec<Mode> = vec![Mode::Review, Mode::Active],
            List { len: 1..=2, single: true, item: word(&[Mode::Review, Mode::Active], Mode::as_str) };
        /// Time that the breaker stays open before the agent's next reviews are trials.
        cool_off: Duration = secs(900), Time(secs(1)..=secs(30 * 86_400));
        /// Approved trials that close the breaker again.
        trials: u32 = 2, whole(1..=20);
        /// Time after which an agent whose breaker is still not closed is reported once more.
        alert_after: Duration = secs(86_400), Time(secs(60)..=secs(90 * 86_400));
    }
}

section! {
    /// Conditions under which a recurring fault becomes a lesson.
    Reflexion {
        /// Events of one agent and task type, within the window, in which the same fault was found.
        threshold: u32 = 3, whole(2..=100);
        /// The window. A lesson is closed when its fault was not found for this long.
        window: Duration = secs(7 * 86_400), Time(secs(60)..=secs(365 * 86_400));
    }
}

section! {
    /// Usual scores of an agent, and the size of a fall below them.
    Baseline {
        /// Period over which scores count; the newest hundred at most.
        window: Duration = secs(30 * 86_400), Time(secs(3_600)..=secs(365 * 86_400));
        /// Fewest scores from which a fall is reported.
        min_scores: u32 = 10, whole(2..=100);
        /// Spreads below the mean from which a score is a fall; 0 reports none.
        spreads: f64 = 2.0, decimal("a number of spreads", 0.0..=10.0, Some);
    }
}

section! {
    /// Track record that `umbra promote` asks of a shadow before it may say more.
    Promote {
        /// Least share of its judged findings that people confirmed.
        floor: f64 = 0.8, decimal("a share", 0.0..=1.0, Some);
        /// Fewest findings that people must have judged.
        min_feedback: u32 = 20, whole(1..=100_000);
    }
}

section! {
    /// Daily briefings and weekly reports.
    Briefings {
        /// True to file a briefing of each day and a report of each week when they are over. On demand they are written
        /// in any case.
        enabled: bool = true, Flag;
        /// Time after the end of the day or week in every shadow's time zone before it is summed up: it then holds late
        /// reviews.
        delay: Duration = secs(900), Time(secs(0)..=secs(43_200));
    }
}
