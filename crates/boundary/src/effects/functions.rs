//! Functions that only compute or read. In: a name as a statement or an expression calls it. Out: true if the function
//! is known. An unknown function may do anything: users of a database write their own.

use super::lists::{LISTS, among};

/// True if a pragma is known to show something, without an argument or (`given`) with one.
pub(super) fn is_pragma(name: &str, given: bool) -> bool {
    let small = name.to_ascii_lowercase();
    among(&LISTS.functions.pragmas_of, &small) || !given && among(&LISTS.functions.pragmas, &small)
}

/// True if a function is known to change nothing.
pub(super) fn is_known(name: &str) -> bool {
    let small = name.to_ascii_lowercase();
    let pragma = |name: &str| is_pragma(name, false);
    if among(&LISTS.functions.catalogue, &small) || small.strip_prefix("pragma_").is_some_and(pragma) {
        return true;
    }
    let words = super::name::words(name);
    among(&LISTS.functions.known, &small.replace('_', ""))
        || words.len() > 1
            && words.first().is_some_and(|first| among(&LISTS.functions.families, first))
            && !acts(&words)
}

/// True if a step of a query in a database's shell is known to change nothing.
pub(super) fn is_step(name: &str) -> bool {
    among(&LISTS.functions.steps, &name.to_ascii_lowercase())
}

/// True if the words behind a family's name mean more than computing: `json_export` does, `array_append` does not.
fn acts(words: &[String]) -> bool {
    let value = ["append", "insert", "set", "remove", "replace", "fill", "merge", "concat"];
    words.iter().skip(1).any(|word| {
        !value.contains(&word.as_str())
            && super::lexicon::verb(word)
                .is_some_and(|verb| !verb.noun && verb.act.effect() > umbra_domain::Effect::Read)
    })
}
