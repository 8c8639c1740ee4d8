//! Judges calls of the `aws` command. In: its arguments. Out: true if the operation is read-only and its result is
//! printed. Operations that stream write into a file, which they name without an option.

use super::lists::{LISTS, among};

/// True if the call is read-only: `aws ec2 describe-instances`, `aws s3 ls s3://b/`.
pub(super) fn is_read_only(rest: &[String]) -> bool {
    let mut words = rest;
    while let Some((first, after)) = words.split_first().filter(|(first, _)| first.starts_with('-')) {
        let name = first.split('=').next().unwrap_or_default();
        words = match name {
            _ if among(&LISTS.aws.plain, first) || among(&LISTS.aws.valued, name) && name != first => after,
            _ if among(&LISTS.aws.valued, name) => after.get(1..).unwrap_or_default(),
            _ => return false,
        };
    }
    let [service, operation, rest @ ..] = words else { return false };
    if rest.iter().any(|word| loads(word)) {
        return false;
    }
    let first = operation.split('-').next().unwrap_or_default();
    let known = ["describe", "get", "list", "ls", "lookup", "head", "search", "filter"].contains(&first);
    // These create credentials, or store their result.
    let makes = operation.starts_with("get-object") || operation.ends_with("-token") || operation.contains("login");
    // `s3 ls` takes a location and lists it.
    let place =
        usize::from(service == "s3" && operation == "ls" && rest.first().is_some_and(|word| !word.starts_with('-')));
    known && !makes && all_given(rest.get(place..).unwrap_or_default())
}

/// True if an option, or the beginning of one, loads instructions or writes a file.
fn loads(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    name.starts_with("--output-")
        || name.starts_with("--")
            && LISTS.aws.loading.split_whitespace().any(|one| name.len() > 4 && one.starts_with(name))
}

/// True if every word is an option, or the value of one.
fn all_given(rest: &[String]) -> bool {
    let mut option: Option<&str> = None;
    let mut values = 0;
    rest.iter().all(|word| {
        if word.starts_with("--") {
            option = Some(word);
            values = 0;
            return true;
        }
        values += 1;
        option.is_some_and(|option| {
            let flag = option.contains('=')
                || option.starts_with("--no-")
                || among("--recursive --human-readable --summarize", option);
            !flag && (values < 2 || among(&LISTS.aws.several, option))
        })
    })
}
