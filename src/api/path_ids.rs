//! Ids in paths, and the 404 of an id that is unknown or no longer kept.

use std::{str::FromStr, time::Duration};

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use uuid::Uuid;

use super::{Api, params::PathPart, problem::Problem};
use umbra_domain::{ApprovalId, BacktestId, DeliveryId, EventId, FindingId, KeyId, ReviewId};
use umbra_store::{events::received_at, retention::RetentionKind};

/// Id that is part of a path.
pub(super) trait Addressed: Copy + FromStr {
    /// Returns the 404 of an id that no row has, or that is not of this kind.
    fn unknown() -> Problem;
}

/// Id of a kind whose rows are deleted by age.
pub(super) trait Kept: Addressed {
    /// Word for the rows.
    const WORD: &'static str;
    /// Kind of row, and the setting that says how long it is kept.
    const KIND: (RetentionKind, &'static str);
    /// Returns the id's UUID.
    fn uuid(self) -> Uuid;
}

/// Id that is the only parameter of a path; 404 where it is not of this kind.
#[derive(Debug)]
pub struct PathId<I>(pub I);

impl<I: Addressed, S: Send + Sync> FromRequestParts<S> for PathId<I> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let PathPart(text) = PathPart::from_request_parts(parts, state).await?;
        text.parse().map(Self).map_err(|_| I::unknown())
    }
}

/// Id and name, the two parameters of a path.
#[derive(Debug)]
pub struct PathIdAndName<I>(pub I, pub String);

impl<I: Addressed, S: Send + Sync> FromRequestParts<S> for PathIdAndName<I> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path((text, name)) = Path::<(String, String)>::from_request_parts(parts, state).await?;
        text.parse().map(|id| Self(id, name)).map_err(|_| I::unknown())
    }
}

macro_rules! addressed {
    ($($id:ident $word:literal $how:literal;)*) => {
        $(impl Addressed for $id {
            fn unknown() -> Problem {
                Problem::not_found(concat!($word, " not found; ", $how))
            }
        })*
    };
}

macro_rules! kept {
    ($($id:ident $word:literal $how:literal $kind:expr, $setting:literal;)*) => {
        addressed! { $($id $word $how;)* }

        $(impl Kept for $id {
            const WORD: &'static str = $word;
            const KIND: (RetentionKind, &'static str) = ($kind, $setting);
            fn uuid(self) -> Uuid {
                self.0
            }
        })*
    };
}

kept! {
    EventId "event" "ids look like evt_ and 32 hex digits"
        RetentionKind::Event, "retention.events_days";
    ReviewId "review" "ids look like rev_ and 32 hex digits"
        RetentionKind::Review, "retention.reviews_days";
    FindingId "finding" "ids look like fnd_ and 32 hex digits"
        RetentionKind::Review, "retention.reviews_days";
}

addressed! {
    DeliveryId "dead letter" "ids look like whd_ and 32 hex digits";
    BacktestId "backtest" "GET /v1/backtests lists them";
    KeyId "key" "GET /v1/admin/keys lists them";
    ApprovalId "approval" "a decision `ask` gives its id";
}

/// Returns the problem of an event without a row: unknown or too old, waiting in the spool of this server, or a repeat
/// of another event.
pub(super) async fn missing_event(api: &Api, id: EventId) -> Problem {
    if api.flows.events.spool.holds(id) {
        return Problem::still_spooled(
            "the event waits in the spool of this server and is stored soon: ask again in a second",
        )
        .retry_after(Duration::from_secs(1));
    }
    match api.flows.store.events().repeat_of(id).await {
        Err(error) => error.into(),
        Ok(Some(repeat)) => Problem::duplicate_of_spooled(format!(
            "this event was received while the database did not answer, and repeats an event that is stored as {}",
            repeat.original
        )),
        Ok(None) => missing(api, id).await,
    }
}

/// Returns the problem of an id without a row: unknown, or too old to be kept.
pub(super) async fn missing<I: Kept>(api: &Api, id: I) -> Problem {
    let (kind, setting) = I::KIND;
    match api.flows.store.upkeep().kept_since(kind).await {
        Err(error) => error.into(),
        Ok((_, first)) if id.uuid() < first => Problem::not_found(format!(
            "the {} of {} is no longer kept: the setting {setting} limits how long",
            I::WORD,
            received_at(EventId(id.uuid())).strftime("%Y-%m-%d")
        )),
        Ok(_) => I::unknown(),
    }
}
