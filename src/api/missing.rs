//! 404 for what has an id: unknown, or no longer kept.

use uuid::Uuid;

use super::{Api, problem::Problem};
use umbra_domain::{EventId, FindingId, ReviewId};
use umbra_store::{events::received_at, retention::Kind};

/// What was asked for by its id.
pub(super) trait Kept: Copy {
    /// Its word.
    const WORD: &'static str;
    /// What an id of it begins with.
    const PREFIX: &'static str;
    /// How it is kept, and the setting that says how long.
    const KIND: (Kind, &'static str);
    /// The id itself.
    fn uuid(self) -> Uuid;
}

macro_rules! kept {
    ($($id:ident $word:literal $kind:expr, $setting:literal;)*) => {
        $(impl Kept for $id {
            const WORD: &'static str = $word;
            const PREFIX: &'static str = $id::PREFIX;
            const KIND: (Kind, &'static str) = ($kind, $setting);
            fn uuid(self) -> Uuid {
                self.0
            }
        })*
    };
}

kept! {
    EventId "event" Kind::Event, "retention.events_days";
    ReviewId "review" Kind::Review, "retention.reviews_days";
    FindingId "finding" Kind::Review, "retention.reviews_days";
}

/// What is asked for is no id of its kind.
pub(super) fn malformed<I: Kept>() -> Problem {
    Problem::not_found(format!("there is no such {}; ids look like {} and 32 hex digits", I::WORD, I::PREFIX))
}

/// There is no row with this id. Says so, or that it is too old to be kept.
pub(super) async fn missing<I: Kept>(api: &Api, id: I) -> Problem {
    let (kind, setting) = I::KIND;
    match api.flows.store.upkeep().kept_since(kind).await {
        Err(error) => error.into(),
        Ok((_, first)) if id.uuid() < first => Problem::not_found(format!(
            "the {} of {} is no longer kept: {setting} says how long",
            I::WORD,
            received_at(EventId(id.uuid())).strftime("%Y-%m-%d")
        )),
        Ok(_) => malformed::<I>(),
    }
}
