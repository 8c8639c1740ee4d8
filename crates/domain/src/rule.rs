//! Rules of the built-in checks as data: rows of a rules file, one of those that are built in or one of a user's.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{CheckName, Severity};

words! {
    /// Place of a match, for rules about credentials.
    pub enum Begins {
        /// Anywhere: the expression is searched in texts that hold one of the keywords.
        Free = "free",
        /// At a keyword, with no letter or digit before it.
        Keyword = "keyword",
        /// Up to 80 letters, digits, and `_ ~ . -` before a keyword.
        Word = "word",
        /// At a keyword, whatever stands before: it names a provider, the credential follows.
        Anywhere = "anywhere",
    }
}

words! {
    /// Texts in which a rule about orders counts.
    pub enum TextScope {
        /// The output, and what the agent was given.
        All = "all",
        /// Everything that the agent was given.
        Outside = "outside",
        /// Results and errors of tools, where a person's own request may say the same.
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
    /// Part of a text that an allow-list looks at.
    pub enum AllowTarget {
        /// The credential, or what the rule found.
        Secret = "secret",
        /// The whole match.
        Match = "match",
        /// The line, or lines, of the match.
        Line = "line",
    }
}

/// Matches that a rule leaves alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AllowList {
    /// Expressions, one of which is found in the target.
    pub regexes: Vec<String>,
    /// Texts, one of which stands in the credential, in upper or lower case.
    pub stopwords: Vec<String>,
    /// Where `regexes` are searched; the credential unless set.
    #[serde(rename = "regexTarget")]
    pub regex_target: Option<AllowTarget>,
    /// True if both an expression and a text must be found.
    pub all: bool,
}

/// Example of a rule. Written as an array its parts are joined, so that scanners of repositories find nothing in it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Sample {
    /// The text.
    Whole(String),
    /// Its parts.
    Parts(Vec<String>),
}

impl Sample {
    /// The text.
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
    /// Name in findings and markers.
    pub id: String,
    /// Check that it belongs to; secrets unless set.
    pub check: Option<CheckName>,
    /// For `secrets` and `pii` it completes "looks like ..."; otherwise it is the sentence of a finding, where
    /// `{command}` stands for the call.
    pub description: Option<String>,
    /// Severity of findings.
    pub severity: Option<Severity>,
    /// False switches the rule off.
    pub enabled: Option<bool>,
    /// Texts of three bytes or more, one of which is in every match; letters in either case.
    pub keywords: Vec<String>,
    /// Expression; its first group that took part, where there is one, is the credential.
    pub regex: Option<String>,
    /// In place of `regex`: form of a value that the first keyword is assigned, as in `KEYWORD_TOKEN=value`.
    pub assigned: Option<String>,
    /// Patterns of calls.
    pub commands: Vec<String>,
    /// Place of a match; anywhere unless set.
    pub begins: Option<Begins>,
    /// Texts in which a rule about orders counts; all unless set.
    pub scope: Option<TextScope>,
    /// Words of the same sentence that make a finding about an order one degree milder.
    pub softened_by: Vec<String>,
    /// Checksum of a token; where it does not hold, the finding is a warning at most.
    pub checksum: Option<Checksum>,
    /// Group that is the credential.
    #[serde(rename = "secretGroup")]
    pub secret_group: Option<usize>,
    /// Least Shannon entropy of a credential, in bits per byte.
    pub entropy: Option<f64>,
    /// Matches that are left alone.
    pub allowlists: Vec<AllowList>,
    /// Texts that the rule finds.
    pub hits: Vec<Sample>,
    /// Texts that it leaves alone.
    pub misses: Vec<Sample>,
    /// Place of the row in a user's file, as `FILE:LINE`; empty for built-in rows.
    #[serde(skip)]
    pub place: String,
}

impl CheckRule {
    /// True if the row says by itself what it finds.
    pub fn finds(&self) -> bool {
        self.regex.is_some() || self.assigned.is_some() || !self.commands.is_empty()
    }

    /// Puts terms in the place of their names: `{guard}`.
    pub fn expand(&mut self, terms: &BTreeMap<String, String>) {
        for text in self.regex.iter_mut().chain(&mut self.assigned).chain(&mut self.commands) {
            for (name, term) in terms {
                *text = text.replace(&format!("{{{name}}}"), term);
            }
        }
    }

    /// Check of the row: as it says, else that of commands where it has patterns of calls, else that of credentials.
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
    /// Matches that every rule about credentials leaves alone.
    #[serde(default)]
    pub allowlists: Vec<AllowList>,
}

/// Something that keeps a row from being put in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFault {
    /// Member of the row that is at fault.
    pub key: &'static str,
    /// Item of it, where it is a list.
    pub index: Option<usize>,
    /// Message for people.
    pub message: String,
    /// Remedy.
    pub help: String,
}
