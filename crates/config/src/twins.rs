//! Faults of items with a name that is taken. They are found in the nodes, so each stands among the other faults of its
//! item.

use std::collections::{BTreeMap, btree_map::Entry};

use super::{
    fault::Faults,
    tree::{Node, NodeValue},
};

/// Message and help of a fault.
type Refusal = (String, String);

/// Notes a fault for each item of the lists whose `key` has the name of an earlier item. `normal` gives the form in
/// which names are compared, and `refusal` the fault, from the name and the line of the earlier item.
pub(super) fn refuse_twins(
    root: &Node,
    lists: &[&str],
    key: &str,
    faults: &mut Faults,
    normal: fn(&str) -> String,
    refusal: impl Fn(&str, usize) -> Refusal,
) {
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    refuse_names(root, lists, key, faults, |name, line| match first.entry(normal(name)) {
        Entry::Occupied(earlier) => Some(refusal(name, *earlier.get())),
        Entry::Vacant(free) => {
            free.insert(line);
            None
        }
    });
}

/// Notes a fault for each item of the lists whose name, the text of `key`, `judge` refuses. `judge` sees the name's
/// line too.
pub(super) fn refuse_names(
    root: &Node,
    lists: &[&str],
    key: &str,
    faults: &mut Faults,
    mut judge: impl FnMut(&str, usize) -> Option<Refusal>,
) {
    for list in lists {
        let Some(NodeValue::List(items)) = root.get(list).map(|node| &node.kind) else { continue };
        for (index, item) in items.iter().enumerate() {
            let Some(Node { kind: NodeValue::Text(name), at }) = item.get(key) else { continue };
            if let Some((message, help)) = judge(name, at.line) {
                faults.within(format!(".{list}[{index}].{key}"), |faults| faults.fault(*at, message, help));
            }
        }
    }
}
