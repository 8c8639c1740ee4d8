//! What differs between two runs that were to be equal: ids, times and numbers that are minted each time, and calls that an
//! agent now makes and now does not. It is no difference of a third run.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use utoipa::ToSchema;

use super::Kind;

/// Most places that are remembered; what lies behind is no noise.
const MOST_PLACES: usize = 20_000;

/// What is noise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Noise {
    /// By tool: pointers into its arguments.
    pointers: BTreeMap<String, BTreeSet<String>>,
    places: usize,
    /// By kind and tool: how often.
    branches: BTreeMap<(Kind, String), u64>,
}

/// Differences that were taken for noise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = RunNoise)]
pub struct Absorbed {
    /// Which kind of difference.
    pub kind: Kind,
    /// The tool.
    pub tool: String,
    /// Where in its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// How many differences.
    pub count: u64,
}

impl Noise {
    /// Learns a difference of two runs that were to be equal.
    pub(super) fn learn(&mut self, kind: Kind, tool: &str, pointer: Option<&str>) {
        if self.places >= MOST_PLACES {
            return;
        }
        let new = if let Some(pointer) = pointer {
            self.pointers.entry(tool.to_owned()).or_default().insert(pointer.to_owned())
        } else {
            let count = self.branches.entry((class(kind), tool.to_owned())).or_default();
            *count += 1;
            *count == 1
        };
        self.places += usize::from(new);
    }

    /// Whether a difference is noise: in the arguments wherever the equal runs differed, too; of other kinds as often as
    /// between those, and no more.
    pub(super) fn absorbs(&mut self, kind: Kind, tool: &str, pointer: Option<&str>) -> bool {
        match pointer {
            Some(pointer) => self.pointers.get(tool).is_some_and(|known| known.contains(pointer)),
            None => match self.branches.get_mut(&(class(kind), tool.to_owned())) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    true
                }
                _ => false,
            },
        }
    }

    /// Where the arguments of a tool are noise.
    pub(super) fn pointers(&self, tool: &str) -> Option<&BTreeSet<String>> {
        self.pointers.get(tool)
    }
}

/// A call more or less is the same noise: which run is which is chance.
fn class(kind: Kind) -> Kind {
    if kind == Kind::Extra { Kind::Missing } else { kind }
}
