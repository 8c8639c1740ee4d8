//! Trial of a row's examples: the rule must find each hit and no miss. The rules are those in force.

use super::in_force;
use crate::{review, screen};
use umbra_domain::{CheckName, CheckRule, Event, ToolCall};

/// An example with another result than its row claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MisjudgedExample {
    /// The example.
    pub text: String,
    /// True if it should have been found.
    pub is_hit: bool,
    /// Rules of the check that found something in the example.
    pub found: Vec<String>,
    /// True if an example of a credential looks like a placeholder, which no rule reports.
    pub is_placeholder: bool,
}

/// Returns an event in which a check reads the text: as a command, a tool's result, or an output.
pub fn example(check: CheckName, text: &str) -> Event {
    let mut event = Event { agent: "rules".into(), ..Event::default() };
    match check {
        CheckName::Commands => {
            let args = serde_json::json!({ "command": text });
            event.tool = Some(ToolCall { name: "bash".into(), args, ..ToolCall::default() });
        }
        CheckName::Injection => {
            event.tool = Some(ToolCall { name: "read".into(), result: Some(text.to_owned()), ..ToolCall::default() });
        }
        _ => event.output = Some(text.to_owned()),
    }
    event
}

/// Returns the examples of a row with another result than the row claims, by the rules in force.
pub fn misjudged(row: &CheckRule) -> Vec<MisjudgedExample> {
    let hits = row.hits.iter().map(|sample| (sample.text(), true));
    let samples = hits.chain(row.misses.iter().map(|sample| (sample.text(), false)));
    let is_off = in_force().rows().iter().any(|known| known.id == row.id && known.enabled == Some(false));
    let judged = samples.filter_map(|(text, is_hit)| {
        let screened = screen(example(row.check(), &text));
        let found = review(&screened.event, &screened.marks, &[row.check()].into());
        let own = found.iter().any(|hit| hit.rule == row.id);
        let of_credential = is_hit && found.is_empty() && row.check() == CheckName::Secrets;
        (own != (is_hit && !is_off)).then(|| MisjudgedExample {
            is_placeholder: of_credential && crate::secrets::is_placeholder(&text),
            found: found.into_iter().map(|hit| hit.rule).collect(),
            text,
            is_hit,
        })
    });
    judged.collect()
}
