//! Rules of the built-in checks as data: rows of a built-in rules file or of a user's.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{CheckName, Severity};

words! {
    /// Place of a match, for rules about credentials.
    pub enum MatchPlace {
        /// Anywhere: the expression is searched in texts that hold one of the keywords.
        Free = "free",
        /// At a keyword, with no letter or digit before it.
        Keyword = "keyword",
        /// Up to 80 letters, digits, and `_ ~ . -` before a keyword.
        Word = "word",
        /// At a keyword with anything before it: the keyword names a provider, and the credential follows.
        Anywhere = "anywhere",
    }
}

words! {
    /// Texts to which an injection rule applies.
    pub enum TextScope {
        /// The output, and everything that the agent was given.
        All = "all",
        /// Everything that the agent was given.
        Outside = "outside",
        /// Results and errors of tools. A person's own request may use the same words.
        Tools = "tools",
    }
}

words! {
    /// Checksum at the end of a token.
    pub enum Checksum {
        /// The last six characters, as GitHub and npm write them.
        Github = "github",
    }
}

words! {
    /// Text that an allow-list searches.
    pub enum AllowTarget {
        /// The credential, or the text that the rule found.
        Secret = "secret",
        /// The whole match.
        Match = "match",
        /// The line, or lines, of the match.
        Line = "line",
    }
}

/// Allow-list: matches that a rule ignores.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AllowList {
    /// Expressions, one of which must be found in the target.
    pub regexes: Vec<String>,
    /// Texts, one of which must occur in the credential, in upper or lower case.
    pub stopwords: Vec<String>,
    /// Text in which `regexes` are searched; the credential unless set.
    #[serde(rename = "regexTarget")]
    pub regex_target: Option<AllowTarget>,
    /// True if both an expression and a text must be found.
    pub all: bool,
}

/// Example of a rule. The parts of an array are joined, so that scanners of repositories find nothing in the example.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Sample {
    /// Whole text.
    Whole(String),
    /// Parts of the text.
    Parts(Vec<String>),
}

impl Sample {
    /// Returns the text, with its parts joined.
    pub fn text(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Parts(parts) => parts.concat(),
        }
    }
}

/// One rule: a row of a rules file. A row without `regex` and `commands` changes the rule that has its id.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckRule {
    /// Name of the rule in findings and markers.
    pub id: String,
    /// Check that the rule belongs to; see [`Self::check`] for the default.
    pub check: Option<CheckName>,
    /// Description of a finding: for `secrets` and `pii` the end of "looks like ...", otherwise the whole sentence,
    /// where `{command}` stands for the call.
    pub description: Option<String>,
    /// Severity of findings.
    pub severity: Option<Severity>,
    /// False switches the rule off.
    pub enabled: Option<bool>,
    /// Texts of three bytes or more, one of which is in every match, in upper or lower case.
    pub keywords: Vec<String>,
    /// Expression. Its first group that took part, if there is one, is the credential.
    pub regex: Option<String>,
    /// Form of the value that is assigned to the first keyword, as in `KEYWORD_TOKEN=value`; in place of `regex`.
    pub assigned: Option<String>,
    /// Patterns of calls.
    pub commands: Vec<String>,
    /// Place of a match; [`MatchPlace::Free`] unless set.
    pub begins: Option<MatchPlace>,
    /// Texts to which an injection rule applies; all unless set.
    pub scope: Option<TextScope>,
    /// Words of the same sentence that make an injection finding one degree milder.
    pub softened_by: Vec<String>,
    /// Checksum of a token. If it does not match, the finding is a warning at most.
    pub checksum: Option<Checksum>,
    /// Number of the group that is the credential.
    #[serde(rename = "secretGroup")]
    pub secret_group: Option<usize>,
    /// Least Shannon entropy of a credential, in bits per byte.
    pub entropy: Option<f64>,
    /// Matches that the rule ignores.
    pub allowlists: Vec<AllowList>,
    /// Example texts that the rule finds.
    pub hits: Vec<Sample>,
    /// Example texts that the rule ignores.
    pub misses: Vec<Sample>,
    /// Place of the row in a user's file, as `FILE:LINE`; empty for built-in rows.
    #[serde(skip)]
    pub place: String,
}

impl CheckRule {
    /// True if the row has patterns of its own; other rows change a known rule.
    pub fn has_patterns(&self) -> bool {
        self.regex.is_some() || self.assigned.is_some() || !self.commands.is_empty()
    }

    /// Replaces the names of terms in braces, such as `{guard}`, by the terms.
    pub fn expand(&mut self, terms: &BTreeMap<String, String>) {
        for text in self.regex.iter_mut().chain(&mut self.assigned).chain(&mut self.commands) {
            for (name, term) in terms {
                *text = text.replace(&format!("{{{name}}}"), term);
            }
        }
    }

    /// Returns the check of the row: the stated one, else commands for rows with patterns of calls, else secrets.
    pub fn check(&self) -> CheckName {
        let usual = if self.commands.is_empty() { CheckName::Secrets } else { CheckName::Commands };
        self.check.unwrap_or(usual)
    }
}

/// Content of a rules file.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct RuleFile {
    /// Parts of expressions and patterns, by the name that stands for them in braces.
    #[serde(default)]
    pub terms: BTreeMap<String, String>,
    /// Rows, in order.
    pub rules: Vec<CheckRule>,
    /// Matches that every rule about credentials ignores.
    #[serde(default)]
    pub allowlists: Vec<AllowList>,
}

/// Fault that keeps a row from being put in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFault {
    /// Member of the row that is at fault.
    pub key: &'static str,
    /// Index of the faulty item, if the member is a list.
    pub index: Option<usize>,
    /// Message for people.
    pub message: String,
    /// Remedy.
    pub help: String,
}
