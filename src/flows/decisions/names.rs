//! Names and documents as they are kept: without hidden characters and credentials. A name from which a credential was
//! taken is still one name, and no other: it carries a keyed hash of what it was.

use serde_json::Value;

use super::Boundary;

/// What stands where a credential was.
const MARKER: &str = "[secret:";
/// Bytes of the hash that tells such names apart.
const TOLD_APART_BY: usize = 8;

impl Boundary {
    /// A name that an agent gives. One that only looks as if a credential had been taken out of it gets a hash of its own,
    /// so nobody passes for another by what the audit shows of that one.
    pub(super) fn name(&self, given: &str) -> String {
        let seen = umbra_checks::visible(given);
        let kept = without_password(clean(&seen));
        if !kept.contains(MARKER) {
            return kept;
        }
        let hash = self.installation.hash("name", &[seen.as_bytes()]);
        format!("{kept}~{}", hex::encode(hash.get(..TOLD_APART_BY).unwrap_or_default()))
    }

    /// A name that an agent gives, as it is kept.
    pub fn name_of(&self, given: &str) -> String {
        self.name(given)
    }

    /// A name by which somebody asks for what is kept: as its owner gave it, or as the audit shows it.
    pub fn name_asked_for(&self, given: &str) -> String {
        if given.contains(MARKER) { given.to_owned() } else { self.name(given) }
    }
}

/// A name without a password in an address: a name is no example, so however little it looks like one.
fn without_password(name: String) -> String {
    let parts = || {
        let (scheme, rest) = name.split_once("://")?;
        let (userinfo, _) = rest.split(['/', '?', '#']).next()?.rsplit_once('@')?;
        let (user, password) = userinfo.split_once(':')?;
        let shown = password.is_empty() || password.contains(MARKER);
        (!shown)
            .then(|| format!("{scheme}://{user}:{MARKER}url_credentials]{}", rest.get(userinfo.len()..).unwrap_or("")))
    };
    parts().unwrap_or(name)
}

/// Text of people, without hidden characters and credentials.
pub(super) fn clean(text: &str) -> String {
    umbra_checks::redact(text).as_str().to_owned()
}

/// JSON of agents and tools, without hidden characters and credentials.
pub(super) fn redacted(value: &Value) -> Value {
    let mut value = value.clone();
    umbra_checks::redact_json(&mut value);
    value
}
