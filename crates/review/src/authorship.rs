//! Tells an agent's own words and acts from the texts it was given: its task, its input, and results of tools.
//! In: events, and a place in one of them. Out: the author of the words there. Never: an act of the agent, such as a
//! tool's arguments, that passes for a quote.

use std::cell::OnceCell;

use umbra_domain::{CheckName, Event, FieldName, FindingSubject};

/// The texts that agents were given in one or several events.
pub(super) struct GivenTexts<'a> {
    events: Vec<&'a Event>,
    /// Given texts, without case and runs of white space.
    plain: OnceCell<Vec<String>>,
}

impl<'a> GivenTexts<'a> {
    /// Prepares the given texts of these events.
    pub fn of(events: impl Iterator<Item = &'a Event>) -> Self {
        Self { events: events.collect(), plain: OnceCell::new() }
    }

    /// Returns the author of these words in this field. An output that quotes a given text repeats another's words.
    pub fn about(&self, field: &FieldName, words: &str) -> FindingSubject {
        if field.is_given() || field.is_output() && self.holds(words) {
            FindingSubject::Given
        } else {
            FindingSubject::Agent
        }
    }

    /// Returns the author of a check's hit. Only words that address a reader are their author's fault. To hand on a
    /// credential or a command, or to make a false claim, is an act of the agent, wherever the words come from.
    pub fn about_hit(&self, check: CheckName, field: &FieldName, words: &str) -> FindingSubject {
        match check {
            CheckName::Injection | CheckName::Hidden => self.about(field, words),
            _ if field.is_given() => FindingSubject::Given,
            _ => FindingSubject::Agent,
        }
    }

    fn holds(&self, words: &str) -> bool {
        let words = plain(words);
        !words.is_empty() && self.plain().iter().any(|text| text.contains(&words))
    }

    fn plain(&self) -> &[String] {
        self.plain.get_or_init(|| {
            let mut texts = Vec::new();
            for event in &self.events {
                event.for_each_text(|field, text| {
                    if field.is_given() {
                        texts.push(plain(text));
                    }
                });
            }
            texts
        })
    }
}

/// Returns a description that names the source of the words, if they are not the agent's.
pub(super) fn described(about: FindingSubject, field: Option<&FieldName>, description: &str) -> String {
    match (about, field) {
        (FindingSubject::Agent, _) => description.to_owned(),
        (FindingSubject::Given, Some(field)) if field.is_given() => {
            format!("In data given to the agent: {description}")
        }
        (FindingSubject::Given, _) => format!("Quoted from data given to the agent: {description}"),
    }
}

/// Returns a text without case and runs of white space.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}
