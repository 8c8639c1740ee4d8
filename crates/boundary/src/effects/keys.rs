//! What arguments, and the tools that take them, are called: what it says of a text that it is a command, a statement, a
//! program, a name, an address or words to be found. In: the words of a name. Out: what it is.

use super::{
    LANGUAGES,
    lexicon::{Act, verb},
    name::{self, words},
};
use umbra_domain::{Effect, ToolName};

/// Arguments that name what is to be done.
pub(super) const METHODS: &str =
    "act action actions changetype do method methods mutation op operation operations ops subcommand verb verbs";
/// Arguments that hold a command, as a line or as a list.
pub(super) const COMMANDS: &str = "bash cmd cmdline command commands exec powershell run sh shell";
/// Arguments that hold a list that is a command, or belongs behind one.
pub(super) const LISTS: &str = "args argv arguments";
/// Arguments beside a command or a statement that make no other one of it.
pub(super) const COMPANIONS: &str = "cwd database dataset db description dir directory limit namespace project schema timeout timeoutms workdir workingdirectory";
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
/// Arguments by which what was done stays.
pub(super) const SETTLED: &str = "autocommit commit persist publish";
/// Arguments that hold an expression.
pub(super) const EXPRESSIONS: &str =
    "condition eval expr expression filter filters formula jmespath jq jsonpath predicate template where";
/// Arguments that hold a pattern, in which brackets call nothing.
pub(super) const PATTERNS: &str = "exclude glob include pattern patterns regex regexp selector xpath";
/// Arguments that name a place on a disk, and things by a word of their own.
pub(super) const PATHS: &str = "file filename filepath files path paths";
pub(super) const NAMED: &str =
    "bucket branch container domain host hostname id ids ip namespace pod ref server service sha";
/// Where a request goes, what may name a part of that, and what makes it more than a look.
pub(super) const ADDRESSES: &str = "address base endpoint endpoints href link links uri uris url urls";
pub(super) const PARTS: &str = "api index path paths resource route target";
pub(super) const BODIES: [&str; 9] = ["body", "content", "data", "form", "json", "payload", "post_data", "raw", "xml"];
/// Arguments whose name alone says what is to be done with them.
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
/// Words in the names of tools that search: what they are given is words to be found.
const SEARCHES: &str = "answer ask docs documentation explain find knowledge lookup search translate";
/// Words in the names of tools, and servers, whose paths are those of files.
const OF_FILES: &str = "bucket cat contents directory dir disk drive file files filesystem folder fs git github gitlab glob grep ls read ripgrep s3 stat \
    storage tree vault";
/// What keeps keys and values, and is commanded in words of its own.
const REDIS: &str = "redis valkey";
/// What is asked in pipelines, or in expressions that match labels.
const LOGS: &str =
    "adx esql grafana kql kusto logql loki mimir prometheus promql sentinel spl splunk sumo tempo victoriametrics";
/// What a tool is named for whose every text may be a command.
const SHELLS: &str = "bash cmd powershell sh shell terminal";

/// What the name of a tool says of its arguments.
pub(super) struct Tool {
    /// The words of its own name, and of its server's.
    pub own: Vec<String>,
    pub server: Vec<String>,
    /// What it is given is to be found somewhere, or to be thought about.
    pub searches: bool,
    /// It speaks a language that changes things as well.
    pub speaks: bool,
    /// It is named for asking in its language.
    pub queries: bool,
}

impl Tool {
    pub fn of(tool: &ToolName) -> Self {
        let (own, server) = (words(&tool.name), words(tool.server.as_deref().unwrap_or_default()));
        let speaks = own.iter().chain(&server).any(|word| LANGUAGES.contains(&word.as_str()));
        let asks = own.iter().any(|word| among("query queries sql", word));
        // What is evaluated, or simulated, is run.
        let runs_it = ["benchmark", "evaluate", "interpret", "simulate"];
        let thinks =
            name::read(tool).verb.is_some_and(|verb| verb.act == Act::Compute && !runs_it.contains(&verb.word));
        let finds = thinks || own.iter().any(|word| among(SEARCHES, word));
        let runs = |word: &String| verb(word).is_some_and(|verb| matches!(verb.act, Act::Run | Act::Obey));
        let queries = asks || own.iter().any(runs);
        Self { searches: finds && !speaks && !asks, speaks, queries, own, server }
    }

    /// All words by which it goes.
    pub fn words(&self) -> impl Iterator<Item = &String> {
        self.own.iter().chain(&self.server)
    }

    /// Whether its paths are those of files.
    pub fn of_files(&self) -> bool {
        self.words().any(|word| among(OF_FILES, word))
    }

    /// Whether it keeps keys and values, and is commanded in words of its own.
    pub fn of_redis(&self) -> bool {
        self.words().any(|word| among(REDIS, word))
    }

    /// Whether it is asked in a language of logs and metrics.
    pub fn of_logs(&self) -> bool {
        self.words().any(|word| among(LOGS, word))
    }

    /// True if it makes what it answers with, such as a screenshot: a path that it is given is where that is written.
    pub fn makes(&self) -> bool {
        self.own.iter().any(|word| among("capture take", word))
    }

    /// Whether its every text may be a command.
    pub fn of_shells(&self) -> bool {
        self.own.iter().any(|word| among(SHELLS, word))
    }
}

/// Whether an argument is called so, or ends so: `http_method`.
pub(super) fn is(key: &[String], names: &str) -> bool {
    key.last().is_some_and(|last| among(names, last))
}

pub(super) fn among(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}
