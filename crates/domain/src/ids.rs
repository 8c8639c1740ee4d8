//! Typed identifiers: a `UUIDv7` each, with a prefix in text so that one kind is never mistaken for another.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// Error for a text that is not an identifier of the wanted kind.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected an id of the form {prefix}<32 hex digits>")]
pub struct BadId {
    /// The prefix that the text should have had, such as `evt_`.
    pub prefix: &'static str,
}

macro_rules! typed_ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal,)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                f.write_str(self.0.simple().encode_lower(&mut Uuid::encode_buffer()))
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                text.strip_prefix($prefix)
                    .filter(|hex| hex.len() == 32)
                    .and_then(|hex| Uuid::try_parse(hex).ok())
                    .map(Self)
                    .ok_or(BadId { prefix: $prefix })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

typed_ids! {
    /// One stored event.
    EventId = "evt_",
    /// One review, which is also its reservation and its job.
    ReviewId = "rev_",
    /// One finding.
    FindingId = "fnd_",
    /// One reflexion: a fault that recurred.
    ReflexionId = "rfx_",
    /// One backtest.
    BacktestId = "bkt_",
    /// One session of the sidecar.
    SessionId = "ses_",
    /// One message on its way to one webhook.
    DeliveryId = "whd_",
    /// One API key (its public name, not the secret).
    KeyId = "key_",
    /// One incarnation of a process that runs reviews.
    WorkerId = "wrk_",
    /// One decision about a tool call, which is a row of the audit.
    DecisionId = "dec_",
    /// One request to a person to approve a call.
    ApprovalId = "apr_",
    /// One override of the execution.
    OverrideId = "ovr_",
    /// One pattern: a way of doing a task.
    PatternId = "pat_",
}
