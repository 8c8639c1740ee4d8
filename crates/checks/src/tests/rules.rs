//! Tests of rows in rule files: their examples, and additions and changes by a user's rows.

use std::collections::HashSet;

use crate::{
    misjudged,
    rules::{BUILT_IN, faults},
};

#[test]
fn built_in_rules_are_faultless_and_match_their_examples() {
    let (mut ids, mut wrong) = (HashSet::new(), Vec::new());
    for id in ["github_token", "recursive_delete", "override", "email", "cut_table", "refused"] {
        assert!(BUILT_IN.iter().any(|row| row.id == id), "the file of {id} cannot be read");
    }
    for row in BUILT_IN.iter() {
        ids.insert(&row.id);
        assert!(row.description.is_some() && !row.id.is_empty(), "{row:?}");
        assert_eq!(faults(row, &[]), []);
        wrong.extend(misjudged(row).into_iter().map(|wrong| (&row.id, wrong)));
    }
    assert_eq!(wrong, []);
    assert!(ids.len() > 300, "{}", ids.len());
}
