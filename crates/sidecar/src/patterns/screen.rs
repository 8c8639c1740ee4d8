//! Screening of patterns. In: a pattern as it came, redacted or not. Out: the pattern without secrets and hidden
//! characters, and the reason if it is quarantined.

use std::collections::BTreeSet;

use umbra_domain::{CheckName, Event, NewPattern, Severity, ToolName};

/// Beginning of every mark that replaces a secret.
const SECRET: &str = "[secret:";

/// A pattern that may be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenedPattern {
    /// Pattern without secrets and hidden characters.
    pub pattern: NewPattern,
    /// Reason why it must never be offered, in fixed words; `None` if the checks found nothing.
    pub quarantine: Option<String>,
}

/// Takes secrets and hidden characters out of a pattern. Quarantines it if the built-in checks find words that speak to
/// the model, hidden characters or secrets. Screening it again does not change its texts.
///
/// In a text that was redacted before, marks still show that it held a secret. Hidden characters that were removed
/// before cannot be detected any more; the rest is checked all the same.
pub fn screen(mut new: NewPattern) -> ScreenedPattern {
    let mut seen = ScreenFindings::default();
    for text in [Some(&mut new.task), new.prompt.as_mut(), new.summary.as_mut()].into_iter().flatten() {
        seen.clean(text);
    }
    let labels = [Some(&mut new.agent), new.task_type.as_mut(), new.session.as_mut(), new.task_id.as_mut()];
    for name in labels.into_iter().flatten().chain(new.tools.iter_mut().flat_map(names)) {
        seen.clean(name);
        // Blanks replace the signs that join the words of a name.
        seen.orders(&name.replace(|c: char| !c.is_alphanumeric(), " "));
    }
    // An order may be split over several texts.
    let texts = [Some(new.task.as_str()), new.prompt.as_deref(), new.summary.as_deref()];
    seen.orders(&texts.into_iter().flatten().collect::<Vec<_>>().join(" "));
    ScreenedPattern { quarantine: seen.reason(), pattern: new }
}

fn names(tool: &mut ToolName) -> impl Iterator<Item = &mut String> {
    tool.server.as_mut().into_iter().chain(std::iter::once(&mut tool.name))
}

/// Findings of the checks.
#[derive(Default)]
struct ScreenFindings {
    /// Rules about words that speak to the model.
    orders: BTreeSet<String>,
    /// Kinds of hidden characters.
    hidden: BTreeSet<String>,
    secret: bool,
}

impl ScreenFindings {
    /// Checks a text, and leaves of it what may be kept.
    fn clean(&mut self, text: &mut String) {
        let checked = umbra_checks::screen(input_event(std::mem::take(text)));
        for mark in checked.marks.iter().filter(|mark| mark.severity >= Severity::Warning) {
            if mark.check == CheckName::Hidden {
                self.hidden.insert(mark.rule.clone());
            }
        }
        self.look(&checked.event);
        *text = checked.event.input.unwrap_or_default();
        self.secret |= text.contains(SECRET);
    }

    fn orders(&mut self, text: &str) {
        self.look(&input_event(text.to_owned()));
    }

    fn look(&mut self, event: &Event) {
        let hits = umbra_checks::review(event, &[], &[CheckName::Injection].into());
        self.orders.extend(hits.into_iter().filter(|hit| hit.severity >= Severity::Warning).map(|hit| hit.rule));
    }

    fn reason(self) -> Option<String> {
        let list = |rules: BTreeSet<String>| rules.into_iter().collect::<Vec<_>>().join(", ");
        let mut parts = Vec::new();
        if !self.orders.is_empty() {
            parts.push(format!("it addresses the model ({})", list(self.orders)));
        }
        if !self.hidden.is_empty() {
            parts.push(format!("it has hidden characters ({})", list(self.hidden)));
        }
        if self.secret {
            parts.push("it contained a secret".to_owned());
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Builds the event that the checks look at. The text counts as input, like a person's request, which may ask a great
/// deal and sets no rules aside. Checks for results of tools alone would find nothing more in patterns.
fn input_event(text: String) -> Event {
    Event { input: Some(text), ..Event::default() }
}
