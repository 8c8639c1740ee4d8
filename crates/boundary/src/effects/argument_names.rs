//! Names of arguments and tools. In: the words of a name. Out: the kind of text it tells of: command, statement,
//! program, name, address, or words to be found.

use super::{
    LANGUAGES,
    lexicon::{Act, verb},
    name::{self, words},
};
use umbra_domain::{Effect, ToolName};

/// Arguments that name the action.
pub(super) const METHODS: &str =
    "act action actions changetype do method methods mutation op operation operations ops subcommand verb verbs";
/// Arguments that hold a command, as a line or as a list.
pub(super) const COMMANDS: &str = "bash cmd cmdline command commands exec powershell run sh shell";
/// Arguments that hold a list which is a command, or belongs behind one.
pub(super) const LISTS: &str = "args argv arguments";
/// Arguments beside a command or a statement that do not change its meaning.
pub(super) const COMPANIONS: &str = "background cwd database dataset db dir directory isbackground limit namespace \
    project risklevel runinbackground schema timeout timeoutms workdir workingdirectory";
/// Arguments that say in words what a command or a statement is for.
pub(super) const NOTES: &str = "description risklevelreason summary";
/// Arguments that hold a program.
pub(super) const PROGRAMS: &str = "code javascript js lambda program python script scripts snippet";
/// Arguments that hold a statement and nothing else.
pub(super) const STATEMENTS: &str = "cql cypher ddl dml gremlin hql influxql kql kusto soql sparql sql stmt tsql";
/// Arguments that may hold a statement, or prose.
pub(super) const QUERIES: &str = "expression input q queries query statement statements";
/// Arguments that hold a pipeline.
pub(super) const PIPED: &str = "esql kql kusto logql spl";
/// Arguments that hold names and values as a list of pairs.
pub(super) const PAIRED: &str = "data fields form parameters params query";
/// Arguments that make changes permanent.
pub(super) const SETTLED: &str = "autocommit commit persist publish";
/// Arguments that hold an expression.
pub(super) const EXPRESSIONS: &str =
    "condition eval expr expression filter filters formula jmespath jq jsonpath predicate template where";
/// Arguments that hold a pattern, whose brackets call nothing.
pub(super) const PATTERNS: &str = "exclude glob include pattern patterns regex regexp selector xpath";
/// Arguments that name a place on a disk, and arguments that name things by an identifier.
pub(super) const PATHS: &str = "file filename filepath files path paths";
pub(super) const NAMED: &str =
    "bucket branch container domain host hostname id ids ip namespace pod ref server service sha";
/// Arguments that hold a request's address, possible parts of one, and a body, which makes the request more than a
/// read.
pub(super) const ADDRESSES: &str = "address base endpoint endpoints href link links uri uris url urls";
pub(super) const PARTS: &str = "api index path paths resource route target";
pub(super) const BODIES: [&str; 9] = ["body", "content", "data", "form", "json", "payload", "post_data", "raw", "xml"];
/// Arguments whose name alone tells what to do with them.
pub(super) const ASKED: [(&str, Effect); 12] = [
    ("create", Effect::Write),
    ("delete", Effect::Destructive),
    ("drop", Effect::Destructive),
    ("insert", Effect::Write),
    ("mapreduce", Effect::Write),
    ("overwrite", Effect::Destructive),
    ("purge", Effect::Destructive),
    ("remove", Effect::Destructive),
    ("save", Effect::Write),
    ("update", Effect::Write),
    ("upsert", Effect::Write),
    ("write", Effect::Write),
];
/// Members of a query that store its result, or run a program.
pub(super) const STAGES: [&str; 5] = ["$accumulator", "$function", "$merge", "$out", "$where"];
/// Words in the names of search tools: their arguments are words to be found.
const SEARCHES: &str = "answer ask docs documentation explain find knowledge lookup search translate";
/// Words in the names of tools and servers whose paths are those of files.
const OF_FILES: &str = "bucket cat contents directory dir disk drive file files filesystem folder fs git github gitlab glob grep ls read ripgrep s3 stat \
    storage tree vault";
/// Names of key-value stores with commands of their own.
const REDIS: &str = "redis valkey";
/// Names of systems and languages that query by pipelines, or by expressions that match labels.
const LOGS: &str =
    "adx esql grafana kql kusto logql loki mimir prometheus promql sentinel spl splunk sumo tempo victoriametrics";
/// Words in the names of tools whose every text may be a command.
const SHELLS: &str = "bash cmd powershell sh shell terminal";

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
        let speaks = own.iter().chain(&server).any(|word| LANGUAGES.contains(&word.as_str()));
        let asks = own.iter().any(|word| among("query queries sql", word));
        // Evaluating or simulating a text runs it.
        let runs_it = ["benchmark", "evaluate", "interpret", "simulate"];
        let thinks =
            name::read(tool).verb.is_some_and(|verb| verb.act == Act::Compute && !runs_it.contains(&verb.word));
        let finds = thinks || own.iter().any(|word| among(SEARCHES, word));
        let runs = |word: &String| verb(word).is_some_and(|verb| matches!(verb.act, Act::Run | Act::RunInput));
        let queries = asks || own.iter().any(runs);
        Self { searches: finds && !speaks && !asks, speaks, queries, own, server }
    }

    /// All words of both names.
    pub fn words(&self) -> impl Iterator<Item = &String> {
        self.own.iter().chain(&self.server)
    }

    /// True if the tool's paths are those of files.
    pub fn of_files(&self) -> bool {
        self.words().any(|word| among(OF_FILES, word))
    }

    /// True if the tool is a key-value store with commands of its own.
    pub fn of_redis(&self) -> bool {
        self.words().any(|word| among(REDIS, word))
    }

    /// True if the tool takes a language of logs and metrics.
    pub fn of_logs(&self) -> bool {
        self.words().any(|word| among(LOGS, word))
    }

    /// True if the tool makes its answer, such as a screenshot: a path among the arguments is where that is written.
    pub fn makes(&self) -> bool {
        self.own.iter().any(|word| among("capture take", word))
    }

    /// True if every text given to the tool may be a command.
    pub fn of_shells(&self) -> bool {
        self.own.iter().any(|word| among(SHELLS, word))
    }
}

/// True if an argument's last word is one of these names: `http_method`.
pub(super) fn is(key: &[String], names: &str) -> bool {
    key.last().is_some_and(|last| among(names, last))
}

pub(super) fn among(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}
