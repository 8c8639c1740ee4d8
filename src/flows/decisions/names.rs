//! Cleaning of names and documents before they are stored: hidden characters and credentials are removed. A name with a
//! removed credential carries a keyed hash of the original, so that it stays distinct from other names.

use serde_json::Value;

use super::Boundary;
use crate::flows::cleaned;

/// Beginning of the mark in place of a credential.
const MARKER: &str = "[secret:";
/// Bytes of the hash that tells such names apart.
const TOLD_APART_BY: usize = 8;

impl Boundary {
    /// Returns a name that an agent gave, as it is stored. A name that only imitates the mark gets a hash of its own,
    /// so that no agent can pass for another by a name shown in the audit.
    pub fn name_of(&self, given: &str) -> String {
        let seen = umbra_checks::visible(given);
        let kept = without_password(cleaned(&seen));
        if !kept.contains(MARKER) {
            return kept;
        }
        let hash = self.installation.hash("name", &[seen.as_bytes()]);
        format!("{kept}~{}", hex::encode(hash.get(..TOLD_APART_BY).unwrap_or_default()))
    }

    /// Returns a name in a query as it is stored: the query gives it as the agent did, or as the audit shows it.
    pub fn name_asked_for(&self, given: &str) -> String {
        if given.contains(MARKER) { given.to_owned() } else { self.name_of(given) }
    }
}

/// Removes a password from an address in a name, even if it looks like an example.
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

/// Returns JSON without hidden characters and credentials.
pub(super) fn redacted(value: &Value) -> Value {
    let mut value = value.clone();
    umbra_checks::redact_json(&mut value);
    value
}
