//! Guesses which name was meant by a wrong one. In: the wrong name and the known ones. Out: at most one of these.

/// The known name that a wrong one was probably meant to be: the same letters in another case or with other
/// separators, the same beginning, or at most two letters away.
pub(super) fn nearest(wrong: &str, known: &[&'static str]) -> Option<&'static str> {
    let letters = |name: &str| name.to_lowercase().replace(|c: char| !c.is_alphanumeric(), "");
    let wrong = letters(wrong);
    if !(2..=40).contains(&wrong.len()) {
        return None;
    }
    let begins = |long: &str, short: &str| short.len() > 3 && long.starts_with(short);
    let distance = |name: &str| {
        let name = letters(name);
        let most = if begins(&wrong, &name) || begins(&name, &wrong) { 1 } else { usize::MAX };
        edits(&wrong, &name).min(most)
    };
    let near = |(distance, name): &(usize, &str)| *distance <= name.len().min(8) / 3;
    known.iter().map(|name| (distance(name), *name)).filter(near).min().map(|(_, name)| name)
}

/// Letters to insert, remove or replace to make one text of the other (Levenshtein's distance).
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (index, left) in from.chars().enumerate() {
        let mut diagonal = index;
        let mut last = index + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(to.chars()) {
            last = (diagonal + usize::from(left != right)).min(*cell + 1).min(last + 1);
            diagonal = std::mem::replace(cell, last);
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
