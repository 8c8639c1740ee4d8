//! Names of arguments and tools. In: the words of a name. Out: the kind of text it tells of: command, statement,
//! program, name, address, or words to be found.

use std::sync::LazyLock;

use super::{
    lexicon::{Act, verb},
    lists::{ArgumentNames, LISTS, Tools, among},
    name::{self, words},
};
use umbra_domain::{Effect, ToolName};

/// Names of arguments.
pub(super) static NAMES: LazyLock<&ArgumentNames> = LazyLock::new(|| &LISTS.arguments);
/// Words in the names of tools.
pub(super) static TOOLS: LazyLock<&Tools> = LazyLock::new(|| &LISTS.tools);

/// Facts about a tool's arguments, by the tool's name.
pub(super) struct ToolNameWords {
    /// Words of the tool's own name, and of its server's.
    pub own: Vec<String>,
    pub server: Vec<String>,
    /// True if the arguments are to be found somewhere, or thought about.
    pub searches: bool,
    /// True if the tool speaks a language that can change things as well.
    pub speaks: bool,
    /// True if the name asks for queries in that language.
    pub queries: bool,
}

impl ToolNameWords {
    pub fn of(tool: &ToolName) -> Self {
        let (own, server) = (words(&tool.name), words(tool.server.as_deref().unwrap_or_default()));
        let speaks = own.iter().chain(&server).any(|word| among(&LISTS.names.languages, word));
        let asks = own.iter().any(|word| among("query queries sql", word));
        // Evaluating or simulating a text runs it.
        let runs_it = ["benchmark", "evaluate", "interpret", "simulate"];
        let thinks =
            name::read(tool).verb.is_some_and(|verb| verb.act == Act::Compute && !runs_it.contains(&verb.word));
        let finds = thinks || own.iter().any(|word| among(&TOOLS.searches, word));
        let runs = |word: &String| verb(word).is_some_and(|verb| matches!(verb.act, Act::Run | Act::RunInput));
        let queries = asks || own.iter().any(runs);
        Self { searches: finds && !speaks && !asks, speaks, queries, own, server }
    }

    /// All words of both names.
    pub fn words(&self) -> impl Iterator<Item = &String> {
        self.own.iter().chain(&self.server)
    }

    /// True if a word of either name is in a list of tools.
    pub fn is_of(&self, tools: &str) -> bool {
        self.words().any(|word| among(tools, word))
    }

    /// True if the tool makes its answer, such as a screenshot: a path among the arguments is where that is written.
    pub fn makes(&self) -> bool {
        self.own.iter().any(|word| among("capture take", word))
    }

    /// True if every text given to the tool may be a command.
    pub fn of_shells(&self) -> bool {
        self.own.iter().any(|word| among(&TOOLS.shells, word))
    }
}

/// Effect of an argument whose name alone tells what to do with it.
pub(super) fn asked(name: &str) -> Option<Effect> {
    let asked = [(Effect::Write, &NAMES.asked_to_write), (Effect::Destructive, &NAMES.asked_to_destroy)];
    asked.into_iter().find(|(_, names)| among(names, name)).map(|(effect, _)| effect)
}

/// True if an argument's last word is one of these names: `http_method`.
pub(super) fn is(key: &[String], names: &str) -> bool {
    key.last().is_some_and(|last| among(names, last))
}
