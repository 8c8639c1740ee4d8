//! The forms that injected orders take: tables of words to look for, an expression, and what a finding says, a file for
//! each family. The expressions allow line breaks between words.

mod addresses;
mod forgeries;
mod precedence;
mod requests;
mod steering;

use regex::bytes::Regex;

use crate::domain::Severity::{self, Critical, Warning};

/// Which texts a form counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The output and all that came from outside.
    Everywhere,
    /// What came from outside.
    Outside,
    /// Results and errors of tools: a person's own request may well say so.
    Tools,
}

/// One form.
#[derive(Debug)]
pub(super) struct Form {
    /// The rule's name; several rows may share one.
    pub(super) rule: &'static str,
    /// Every match has one of these words in it, or near it.
    pub(super) words: &'static [&'static str],
    /// The form; `SHORT` says what the words in braces stand for.
    pattern: &'static str,
    /// How bad.
    pub(super) severity: Severity,
    /// Where it counts.
    pub(super) reach: Reach,
    /// What a finding says.
    pub(super) description: &'static str,
}

/// A form that counts everywhere.
const fn warning(
    rule: &'static str,
    words: &'static [&'static str],
    pattern: &'static str,
    description: &'static str,
) -> Form {
    Form { rule, words, pattern, severity: Warning, reach: Reach::Everywhere, description }
}

impl Form {
    const fn critical(self) -> Self {
        Self { severity: Critical, ..self }
    }

    const fn outside(self) -> Self {
        Self { reach: Reach::Outside, ..self }
    }

    const fn tools(self) -> Self {
        Self { reach: Reach::Tools, ..self }
    }

    /// The expression, `None` if it is none, which a test rules out. One that is written in ASCII goes by bytes: what it
    /// may skip is counted in them, and its automaton is a tenth of what characters need.
    pub(super) fn compile(&self) -> Option<Regex> {
        let full = SHORT.iter().fold(self.pattern.to_owned(), |pattern, (short, long)| pattern.replace(short, long));
        Regex::new(&if full.is_ascii() { format!("(?-u){full}") } else { full }).ok()
    }
}

/// What the tables abbreviate. The classes are of ASCII alone, since an expression with a word boundary of Unicode has
/// no fast matcher for other texts.
const SHORT: &[(&str, &str)] = &[
    // Where a sentence or a clause with an order begins.
    (
        "{start}",
        r"(?:^|[.!?:;,\n>)\]\x22'*#/-]\s*|\b(?:please|then|also|and|now|kindly|just|simply|always|must|should|have\s+to|need\s+to|instead)\s+)",
    ),
    // What an assistant gives back.
    ("{answer}", r"(?:reply|replies|response|responses|answer|answers|outputs?|summary|reasoning)"),
    // Who may be asked: a person is asked so only by somebody who means an assistant.
    (
        "{can_you}",
        r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+|kindly\s+|just\s+)?|i\s+(?:need|want|order|command|would\s+like)\s+you\s+to\s+|you\s+(?:must|have\s+to|need\s+to)\s+)",
    ),
    (
        "{assistant}",
        r"(?:AI|A\.I\.|LLM|GPT|ChatGPT|Claude|Gemini|Copilot|(?:large\s+)?language\s+model|assistant|chatbot|AI\s+(?:assistant|agent|model|system|bot))",
    ),
    (r"\b", r"(?-u:\b)"),
    (r"\w", "[0-9A-Za-z_]"),
    (r"\s", r"[ \t\r\n]"),
];

/// Every form.
pub(super) fn all() -> impl Iterator<Item = &'static Form> {
    [precedence::FORMS, forgeries::FORMS, addresses::FORMS, requests::FORMS, steering::FORMS].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::all;

    #[test]
    fn every_form_compiles_and_has_words_to_look_for() {
        for form in all() {
            assert!(form.compile().is_some(), "{}: {}", form.rule, form.pattern);
            assert!(form.words.iter().all(|word| word.len() >= 3) && !form.words.is_empty(), "{:?}", form.words);
        }
    }
}
