//! What a tool does to the world: read, write, or destructive. In: what is known of a tool. Out: its effect, who said so,
//! and why. Pure.
//!
//! An operator's word goes first (contract, then override), then that of a server that is trusted, then a classifier
//! over name, description and input schema. What none of them knows is destructive. Last of all, and against all of them,
//! the arguments of the call are looked at (`sent`): what would be a read is none where they can be executed and are not
//! understood as a look.
//!
//! The classifier would rather stub a read than run a write. A tool is a read by its `name` alone, and only where every
//! word of that is known to do nothing (`vocabulary`); what its server says beside it (`description`, `schema`,
//! annotations) can only raise that, unless an operator trusts the server. Then the description decides within the range
//! of what the name can mean. Its words are those of `lexicon`: names and descriptions are written by strangers, and none
//! of their text stands in a reason. A stranger who names a tool for what it does not do is believed here; contracts and
//! pinned descriptions are there for that. It reads English alone.

mod aws;
mod code;
mod command;
mod description;
mod expression;
mod functions;
mod graph;
mod graphql;
mod keys;
mod lexicon;
mod lists;
mod name;
mod overrides;
mod pipe;
mod programs;
mod request;
mod schema;
mod sent;
mod statement;
mod texts;
mod vocabulary;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::{
    description::Description,
    lexicon::{Act, Verb},
    name::Reading,
    schema::Arguments,
};
use umbra_domain::{DeclaredEffect, Effect, EffectSource, ToolAnnotations, ToolName};

pub use overrides::Overrides;
pub(crate) use overrides::specificity;

/// Languages that change things as well as ask for them, and what speaks them.
const LANGUAGES: [&str; 24] = [
    "bigquery",
    "clickhouse",
    "cql",
    "cypher",
    "database",
    "databases",
    "db",
    "duckdb",
    "graphql",
    "gremlin",
    "mongo",
    "mongodb",
    "mysql",
    "neo4j",
    "oracle",
    "postgres",
    "postgresql",
    "redis",
    "redshift",
    "snowflake",
    "sparql",
    "sql",
    "sqlite",
    "warehouse",
];
/// What a tool is named for that runs programs.
const INTERPRETERS: [&str; 14] = [
    "bash",
    "cmd",
    "code",
    "command",
    "commands",
    "javascript",
    "js",
    "mutation",
    "powershell",
    "python",
    "script",
    "scripts",
    "shell",
    "terminal",
];

/// An effect by the classifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// The effect; destructive where nothing is known.
    pub effect: Effect,
    /// Whether anything was known.
    pub known: bool,
    /// What decided it, in words of ours.
    pub why: String,
    /// True if it runs what it is given: then the effect is that of its arguments, as far as they are understood.
    pub runs: bool,
}

/// A tool's effect, who said so, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectOf {
    /// The effect.
    pub effect: Effect,
    /// Whose word it is.
    pub source: EffectSource,
    /// The reason in a sentence, without any text of the tool's own.
    pub why: String,
    /// True if the tool runs what it is given, and nobody said which effect that has.
    pub runs: bool,
}

/// Word of a call about its tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct Word {
    /// The caller's word.
    pub declared: Option<DeclaredEffect>,
    /// The word of the tool's server.
    pub annotations: ToolAnnotations,
    /// The server is believed.
    pub trusted: bool,
    /// The word of the pack of the tool's server.
    pub pack: Option<Effect>,
}

/// The effect of a tool. The classifier is asked only where nobody has a word that goes before it.
///
/// The word of a caller who may not declare effects, and annotations of a server that is not trusted, never lower an effect,
/// and may raise it.
pub fn effect_of(
    contract: Option<Effect>,
    operator: Option<Effect>,
    word: Word,
    classify: impl FnOnce() -> Classified,
) -> EffectOf {
    let Word { declared, annotations, trusted: trusted_server, pack } = word;
    let said = |effect, source, why| EffectOf { effect, source, why, runs: false };
    if let Some(effect) = contract {
        return said(effect, EffectSource::Contract, "its contract says so".to_owned());
    }
    if let Some(effect) = operator {
        return said(effect, EffectSource::Override, "the operator says so under `effects`".to_owned());
    }
    if let Some(DeclaredEffect { effect, is_believed: true }) = declared {
        return said(effect, EffectSource::Declared, "its caller says so, and may".to_owned());
    }
    let source = EffectSource::Annotations;
    if trusted_server && let Some((effect, hint)) = trusted(annotations) {
        return said(effect, source, format!("its server is trusted and says {hint}"));
    }
    let rated = if let Some(effect) = pack {
        said(effect, EffectSource::Contract, "the pack of its server says so".to_owned())
    } else {
        let classified = classify();
        match warned(annotations) {
            Some((effect, hint)) if effect > classified.effect => {
                said(effect, source, format!("its server says {hint}, though {}", classified.why))
            }
            _ => {
                let source = if classified.known { EffectSource::Classifier } else { EffectSource::Unknown };
                EffectOf { runs: classified.runs, ..said(classified.effect, source, classified.why) }
            }
        }
    };
    match declared {
        Some(DeclaredEffect { effect, .. }) if effect > rated.effect => {
            said(effect, EffectSource::Declared, format!("its caller says so, though {}", rated.why))
        }
        _ => rated,
    }
}

impl EffectOf {
    /// The same for a call with these arguments: a read is none where one of them asks for more, or where nobody can tell
    /// that it does not. Who says that a tool reads says what it is for, and not what any argument makes of it. A tool that
    /// runs what it is given has the effect of that, where it is understood.
    #[must_use]
    pub fn sent(self, arguments: &Map<String, Value>, tool: &ToolName) -> Self {
        if self.effect != Effect::Read && !self.runs {
            return self;
        }
        let source = EffectSource::Arguments;
        let sent::Sent { gravest, looks } = sent::look(arguments, tool);
        match gravest {
            Some(sent::Asked { effect, pointer, what }) if self.runs => {
                Self { effect, source, why: format!("{}: the argument {pointer} {what}", self.why), runs: false }
            }
            Some(sent::Asked { effect, pointer, what }) => {
                let why = format!("the argument {pointer} {what}; else a read, since {}", self.why);
                Self { effect, source, why, runs: false }
            }
            None if self.runs && looks => {
                Self { effect: Effect::Read, source, why: format!("{}, and that only looks", self.why), runs: false }
            }
            None => self,
        }
    }
}

/// What the annotations of a trusted server say, if they say anything of it: a hint that is left out has the protocol's
/// default, which is the graver one.
fn trusted(annotations: ToolAnnotations) -> Option<(Effect, &'static str)> {
    match (annotations.read_only, annotations.destructive) {
        (Some(true), Some(true)) => Some((Effect::Destructive, "readOnlyHint: true and destructiveHint: true at once")),
        (Some(true), _) => Some((Effect::Read, "readOnlyHint: true")),
        (_, Some(false)) => Some((Effect::Write, "destructiveHint: false")),
        (_, Some(true)) => Some((Effect::Destructive, "destructiveHint: true")),
        (Some(false), None) => Some((Effect::Destructive, "readOnlyHint: false, and no destructiveHint")),
        (None, None) => None,
    }
}

/// What any server's annotations say outright against a tool of its own.
fn warned(annotations: ToolAnnotations) -> Option<(Effect, &'static str)> {
    match (annotations.read_only, annotations.destructive) {
        (_, Some(true)) => Some((Effect::Destructive, "destructiveHint: true")),
        (Some(false), _) => Some((Effect::Write, "readOnlyHint: false")),
        _ => None,
    }
}

/// The effect of a tool by what it is called, how it is described and which arguments it takes. What a server that is not
/// trusted says of its tool can only raise what the name says.
pub fn classify(tool: &ToolName, description: &str, input_schema: &Value, trusted_server: bool) -> Classified {
    let name = name::read(tool);
    if name.foreign {
        return unknown("its name is not in plain letters");
    }
    let text = Description::of(description);
    let arguments = Arguments::of(input_schema);
    let program = by_program(tool, name, &text, &arguments, trusted_server);
    // `Manage rules (read-only)`, `Run a read-only query`: what the verb would do is taken back.
    let harmless = match &program {
        Some(program) => program.effect == Effect::Read,
        None => name.looks && text.read_only(),
    };
    let found = program.unwrap_or_else(|| {
        if trusted_server && !name.looks { by_words(name, &text, &arguments) } else { by_name(name) }
    });
    raised(found, harmless, &text, &arguments)
}

fn unknown(why: &str) -> Classified {
    let why = format!("nothing is known of it: {why}");
    Classified { effect: Effect::Destructive, known: false, why, runs: false }
}

/// The effect by the name alone: the gravest that it can have, and a read only where no word of it speaks against that.
fn by_name(name: Reading) -> Classified {
    let known = |effect, why| Classified { effect, known: true, why, runs: false };
    match name.verb {
        Some(verb) if name.looks => known(Effect::Read, format!("the name says `{}`, and nothing else", verb.word)),
        None if name.looks => known(Effect::Read, "the name says what it shows, and nothing else".to_owned()),
        Some(verb) if name.most > Effect::Read => {
            let why = if name.is_firm() { "" } else { ", or can be read so" };
            known(name.most, format!("the name says `{}`{why}", verb.word))
        }
        Some(verb) => unknown(&format!("beside `{}` its name holds a word that may do anything", verb.word)),
        None => unknown("its name holds no verb that is known, and its server is not one that is trusted"),
    }
}

/// The effect by name and description of a server that is trusted; by the methods that can be asked for, where those say
/// nothing.
fn by_words(name: Reading, text: &Description, arguments: &Arguments) -> Classified {
    let known = |effect, why| Classified { effect, known: true, why, runs: false };
    let opening = text.opening().map(|said| said.verb);
    match (name.verb, opening) {
        (Some(verb), _) if name.is_firm() && name.least > Effect::Read => {
            known(name.least, format!("the name says `{}`", verb.word))
        }
        (Some(verb), Some(said)) => {
            let effect = said.act.effect().clamp(name.least, name.most);
            known(effect, format!("the name says `{}`, and the description `{}`", verb.word, said.word))
        }
        (None, Some(said)) => known(said.act.effect(), format!("the description says `{}`", said.word)),
        (_, None) if text.read_only() => known(name.least, "the description says read-only".to_owned()),
        (Some(_), None) => by_name(name),
        (None, None) => match arguments.method {
            Some((effect, verb)) if !arguments.odd_method => {
                known(effect, format!("an argument says what to do, at most `{}`", verb.word))
            }
            _ => unknown("neither its name nor its description opens with a verb that is known"),
        },
    }
}

/// The effect of a tool that is given a program, or a query in a language that can change things as well.
fn by_program(
    tool: &ToolName,
    name: Reading,
    text: &Description,
    arguments: &Arguments,
    trusted_server: bool,
) -> Option<Classified> {
    let words = name::words(&tool.name);
    if let [program] = words.as_slice()
        && programs::has_commands(program)
    {
        let why = "it runs the program that it is named for".to_owned();
        return Some(Classified { effect: Effect::Destructive, known: true, why, runs: true });
    }
    let holds = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let verb = name.verb.or_else(|| text.opening().map(|said| said.verb).filter(|_| trusted_server))?;
    let spoken = holds(&LANGUAGES) || text.mentions(&LANGUAGES);
    let query = verb.act == Act::Query || words.iter().any(|word| word == "query" || word == "queries");
    let program = match verb.act {
        Act::Query => arguments.program.is_some() || spoken,
        Act::Run | Act::Obey => arguments.program.is_some() || holds(&INTERPRETERS) || holds(&LANGUAGES) || query,
        Act::Look => arguments.is_run,
        Act::Compute | Act::Change | Act::Destroy => false,
    };
    if !program {
        return None;
    }
    let shell = holds(&INTERPRETERS) || arguments.program.is_some_and(|program| INTERPRETERS.contains(&program));
    let selects = trusted_server && !shell && text.selects_only();
    let why = if selects { "what it is given to run can only select" } else { "it runs what it is given" };
    let effect = if selects { Effect::Read } else { Effect::Destructive };
    Some(Classified { effect, known: true, why: why.to_owned(), runs: !selects })
}

/// What is found, raised by what the tool is said to do besides and by what its arguments allow.
fn raised(mut found: Classified, harmless: bool, text: &Description, arguments: &Arguments) -> Classified {
    let mut to = |effect: Effect, why: String| {
        if effect > found.effect {
            found = Classified { effect, known: true, why, runs: false };
        }
    };
    if let Some(Verb { word, act, .. }) = text.gravest().filter(|_| !harmless) {
        to(act.effect(), format!("the description says `{word}`"));
    }
    if let Some((effect, verb)) = arguments.method {
        to(effect, format!("an argument can ask for `{}`", verb.word));
    }
    if let Some((effect, word)) = arguments.leaves {
        to(effect, format!("an argument can make it `{word}`"));
    }
    if arguments.any_request {
        to(Effect::Destructive, "an argument is the method of a request".to_owned());
    }
    if found.effect == Effect::Write && text.irrevocable() {
        let why = "the description says that it cannot be undone".to_owned();
        found = Classified { effect: Effect::Destructive, known: true, why, runs: false };
    }
    found
}

/// True if a word is one of a list, between blanks.
fn among(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}
