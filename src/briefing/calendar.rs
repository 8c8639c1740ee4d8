//! Calendar periods of briefings and reports, and the latest one that is over in all time zones.

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, ISOWeekDate, Weekday},
    tz::TimeZone,
};
use utoipa::ToSchema;

umbra_domain::words! {
    /// Length of a period.
    #[derive(ToSchema)]
    pub enum Kind {
        /// A calendar day.
        Day = "day",
        /// A week by ISO 8601: Monday to Sunday.
        Week = "week",
    }
}

impl Kind {
    /// Number of earlier periods that the trend covers.
    pub fn periods_before(self) -> i64 {
        match self {
            Self::Day => 7,
            Self::Week => 4,
        }
    }

    /// Number of days in a period.
    pub fn days(self) -> i64 {
        match self {
            Self::Day => 1,
            Self::Week => 7,
        }
    }
}

/// Day or week of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Length of the period.
    pub kind: Kind,
    /// The day itself, or the Monday of the week.
    pub first: Date,
}

impl Period {
    /// Returns the period of one day.
    pub fn day(date: Date) -> Self {
        Self { kind: Kind::Day, first: date }
    }

    /// Parses `2026-02-28`.
    pub fn parse_day(text: &str) -> Option<Self> {
        // Only a date: the parser would accept more.
        (text.len() == 10).then(|| text.parse().ok()).flatten().filter(|date| is_known(*date)).map(Self::day)
    }

    /// Parses `2026-W09`.
    pub fn parse_week(text: &str) -> Option<Self> {
        let (year, week) = text.split_once("-W")?;
        let digits = |text: &str, n| text.len() == n && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(year, 4) || !digits(week, 2) {
            return None;
        }
        let monday = ISOWeekDate::new(year.parse().ok()?, week.parse().ok()?, Weekday::Monday).ok()?.date();
        is_known(monday).then_some(Self { kind: Kind::Week, first: monday })
    }

    /// Returns the last day of the period.
    pub fn last(self) -> Date {
        later(self.first, self.kind.days() - 1)
    }

    /// Returns the next period.
    #[must_use]
    pub fn next(self) -> Self {
        Self { first: self.before(-1), ..self }
    }

    /// Returns the first day of the n-th earlier period.
    pub fn before(self, n: i64) -> Date {
        later(self.first, -n * self.kind.days())
    }
}

impl std::fmt::Display for Period {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            Kind::Day => write!(f, "{}", self.first),
            Kind::Week => {
                let week = self.first.iso_week_date();
                write!(f, "{:04}-W{:02}", week.year(), week.week())
            }
        }
    }
}

/// Returns the latest day that had been over for `delay` at `now`, in every one of these time zones.
pub fn latest_day(now: Timestamp, zones: &[TimeZone], delay: SignedDuration) -> Period {
    let at = now.saturating_sub(delay).unwrap_or(now);
    let utc = [TimeZone::UTC];
    let zones = if zones.is_empty() { &utc[..] } else { zones };
    let today = zones.iter().map(|zone| at.to_zoned(zone.clone()).date()).min();
    Period::day(later(today.unwrap_or_default(), -1))
}

/// Returns the latest whole week up to a day.
pub fn latest_week(day: Period) -> Period {
    let since_sunday = i64::from(day.first.weekday().since(Weekday::Sunday));
    Period { kind: Kind::Week, first: later(day.first, -since_sunday - 6) }
}

fn later(date: Date, days: i64) -> Date {
    date.saturating_add(jiff::Span::new().days(days))
}

/// True for years that people and the database can express, with room before and after.
fn is_known(date: Date) -> bool {
    (1970..=9000).contains(&date.year())
}
