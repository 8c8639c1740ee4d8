//! In which order elements stand that lie within the same one.

use std::collections::{HashMap, HashSet};

/// Joins two orders that came from the same one. The side that changed the order of what all three have gives its own, else
/// theirs; what only the other one has stands behind what it stands behind there.
pub(super) fn join(base: &[usize], ours: &[usize], theirs: &[usize]) -> Vec<usize> {
    let everywhere = |list: &[usize]| list.iter().copied().collect::<HashSet<_>>();
    let (in_base, in_ours, in_theirs) = (everywhere(base), everywhere(ours), everywhere(theirs));
    let shared = |list: &[usize]| -> Vec<usize> {
        let is_shared = |at: &&usize| in_base.contains(at) && in_ours.contains(at) && in_theirs.contains(at);
        list.iter().filter(is_shared).copied().collect()
    };
    let was = shared(base);
    let ours_moved = shared(ours) != was && shared(theirs) == was;
    let (frame, other, in_frame) = if ours_moved { (ours, theirs, &in_ours) } else { (theirs, ours, &in_theirs) };
    let mut behind: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    let mut anchor = None;
    for at in other {
        if in_frame.contains(at) {
            anchor = Some(*at);
        } else {
            behind.entry(anchor).or_default().push(*at);
        }
    }
    let mut out = behind.remove(&None).unwrap_or_default();
    for at in frame {
        out.push(*at);
        out.extend(behind.remove(&Some(*at)).unwrap_or_default());
    }
    out
}
