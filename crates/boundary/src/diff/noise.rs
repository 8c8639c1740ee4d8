//! Noise: differences between two runs that should be equal, such as ids, times and numbers minted anew, and calls that
//! an agent makes only sometimes. They do not count as differences of a third run.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use utoipa::ToSchema;

use super::RunDifferenceKind;

/// Most places that are remembered; differences at further ones are no noise.
const MOST_PLACES: usize = 20_000;

/// Differences that count as noise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Noise {
    /// Pointers into arguments, by tool.
    pointers: BTreeMap<String, BTreeSet<String>>,
    places: usize,
    /// Number of differences, by kind and tool.
    branches: BTreeMap<(RunDifferenceKind, String), u64>,
}

/// Differences at one place that were taken for noise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = RunNoise)]
pub struct RunNoise {
    /// Kind of difference.
    pub kind: RunDifferenceKind,
    /// The tool.
    pub tool: String,
    /// Place in the arguments, as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Number of differences.
    pub count: u64,
}

impl Noise {
    /// Learns a difference between two runs that should be equal.
    pub(super) fn learn(&mut self, kind: RunDifferenceKind, tool: &str, pointer: Option<&str>) {
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

    /// True if a difference is noise: in arguments, wherever the equal runs differed, too; of other kinds, only as
    /// often as between those.
    pub(super) fn absorbs(&mut self, kind: RunDifferenceKind, tool: &str, pointer: Option<&str>) -> bool {
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

    /// Pointers at which the arguments of a tool are noise.
    pub(super) fn pointers(&self, tool: &str) -> Option<&BTreeSet<String>> {
        self.pointers.get(tool)
    }
}

/// Class of a kind: extra and missing calls are the same noise, since the order of the equal runs is chance.
fn class(kind: RunDifferenceKind) -> RunDifferenceKind {
    if kind == RunDifferenceKind::Extra { RunDifferenceKind::Missing } else { kind }
}
