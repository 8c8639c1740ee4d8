//! Suggestions for "did you mean": the known word nearest to a mistaken one, if any is near.

/// Returns the known word that was most likely meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let word = plain(word);
    let bound = 1 + word.chars().count() / 4;
    known
        .into_iter()
        .filter_map(|candidate| {
            let plain = plain(candidate);
            let near = distance(&word, &plain);
            // A part of the right word (`reviews_per_day`) is near too, though less so.
            let part = word.len() >= 4 && plain.contains(&word) || plain.len() >= 4 && word.contains(&plain);
            (near <= bound || part).then_some((near, candidate))
        })
        .min_by_key(|(near, _)| *near)
        .map(|(_, candidate)| candidate)
}

/// Returns the known word that this one misspells: one letter differs, or up to two in words of seven letters or more.
pub fn misspelling_of<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.trim().to_lowercase();
    let bound = if word.chars().count() < 7 { 1 } else { 2 };
    let near = known.into_iter().map(|known| (distance(&word, &known.trim().to_lowercase()), known));
    near.filter(|(near, _)| (1..=bound).contains(near)).min_by_key(|(near, _)| *near).map(|(_, known)| known)
}

/// Returns the number of edits, and swaps of neighbours, between the first 64 characters of two words.
fn distance(a: &str, b: &str) -> usize {
    let start = |text: &str| text.chars().take(64).collect::<String>();
    strsim::osa_distance(&start(a), &start(b))
}
