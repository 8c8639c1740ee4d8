//! Effect of a tool: read, write or destructive. In: all that is known of the tool. Out: its effect, the source of
//! that, and the reason. Pure.
//!
//! The operator decides first (contract, then override), then a trusted server, then a classifier over name,
//! description and input schema. An unknown tool is destructive. Last of all, and against all of them, the arguments of
//! the call are scanned (`sent`): a call is no read if an argument can be executed and is not understood as read-only.
//!
//! The classifier would rather stub a read than run a write. A tool is a read by its `name` alone, and only if every
//! word of the name is known to do nothing (`vocabulary`). What its server says besides (`description`, `schema`,
//! annotations) can only raise the effect, unless an operator trusts the server: then the description decides within
//! the range that the name allows. All words are those of `lexicon`: strangers write names and descriptions, and no
//! reason quotes them. Misleading names are not detected: write a contract, or pin descriptions. Only English is
//! understood.

mod argument_names;
mod arguments;
mod aws;
mod code;
mod command;
mod description;
mod expression;
mod functions;
mod graph;
mod graphql;
mod lexicon;
mod lists;
mod name;
mod pipe;
mod programs;
mod request;
mod schema;
mod statement;
mod texts;
mod vocabulary;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::{
    description::Description,
    lexicon::{Act, Verb},
    lists::{LISTS, among},
    name::Reading,
    schema::Arguments,
};
use umbra_domain::{DeclaredEffect, Effect, EffectSource, ToolAnnotations, ToolName};

/// Effect of a tool, with its source and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectOf {
    /// The effect.
    pub effect: Effect,
    /// Source of the effect.
    pub source: EffectSource,
    /// The reason in a sentence, without any text of the tool's own.
    pub why: String,
    /// True if the tool runs its input, and its effect was not declared: then the effect is that of its arguments, as far
    /// as they are understood.
    pub runs: bool,
}

/// Declarations about the tool that come with a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallDeclarations {
    /// Declaration of the caller.
    pub declared: Option<DeclaredEffect>,
    /// Annotations by the tool's server.
    pub annotations: ToolAnnotations,
    /// True if the server is trusted.
    pub trusted: bool,
    /// Effect by the pack of the tool's server.
    pub pack: Option<Effect>,
}

/// Rates the effect of a tool. The classifier runs only if no declaration goes before it.
///
/// Callers that may not declare effects, and annotations of a server that is not trusted, never lower an effect, and
/// may raise it.
pub fn effect_of(
    contract: Option<Effect>,
    operator: Option<Effect>,
    word: CallDeclarations,
    classify: impl FnOnce() -> EffectOf,
) -> EffectOf {
    let CallDeclarations { declared, annotations, trusted: trusted_server, pack } = word;
    let said = |effect, source, why| EffectOf { effect, source, why, runs: false };
    if let Some(effect) = contract {
        return said(effect, EffectSource::Contract, "its contract declares it".to_owned());
    }
    if let Some(effect) = operator {
        return said(effect, EffectSource::Override, "the operator declares it under `effects`".to_owned());
    }
    if let Some(DeclaredEffect { effect, is_believed: true }) = declared {
        return said(effect, EffectSource::Declared, "its caller declares it, with a key that may".to_owned());
    }
    let source = EffectSource::Annotations;
    if trusted_server && let Some((effect, hint)) = trusted(annotations) {
        return said(effect, source, format!("its server is trusted and declares {hint}"));
    }
    let rated = if let Some(effect) = pack {
        said(effect, EffectSource::Contract, "the pack of its server declares it".to_owned())
    } else {
        let classified = classify();
        match warned(annotations) {
            Some((effect, hint)) if effect > classified.effect => {
                said(effect, source, format!("its server declares {hint}, although {}", classified.why))
            }
            _ => classified,
        }
    };
    match declared {
        Some(DeclaredEffect { effect, .. }) if effect > rated.effect => {
            said(effect, EffectSource::Declared, format!("its caller declares it, although {}", rated.why))
        }
        Some(DeclaredEffect { effect, .. }) if effect < rated.effect => {
            let why = format!(
                "{}; its caller declares a {}, with a key without the scope `declare`",
                rated.why,
                effect.as_str()
            );
            EffectOf { why, ..rated }
        }
        _ => rated,
    }
}

impl EffectOf {
    /// Rates a call with these arguments. A read is raised if an argument asks for more, or cannot be understood: a
    /// declared read tells what the tool is for, not what any argument makes of it. A tool that runs its input has the
    /// effect of that, if it is understood.
    #[must_use]
    pub fn with_arguments(self, arguments: &Map<String, Value>, tool: &ToolName) -> Self {
        if self.effect != Effect::Read && !self.runs {
            return self;
        }
        let source = EffectSource::Arguments;
        let arguments::ArgumentScanResult { gravest, looks } = arguments::scan_arguments(arguments, tool);
        match gravest {
            Some(arguments::RequestedAction { effect, pointer, what }) if self.runs => {
                Self { effect, source, why: format!("{}: the argument {pointer} {what}", self.why), runs: false }
            }
            Some(arguments::RequestedAction { effect, pointer, what }) => {
                let why = format!("the argument {pointer} {what}; otherwise a read, because {}", self.why);
                Self { effect, source, why, runs: false }
            }
            None if self.runs && looks => {
                Self { effect: Effect::Read, source, why: format!("{}, and that only reads", self.why), runs: false }
            }
            None => self,
        }
    }
}

/// Effect by the annotations of a trusted server; none without any. A missing hint has the protocol's default, which is
/// the more severe one.
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

/// Effect by those annotations with which any server warns of its own tool.
fn warned(annotations: ToolAnnotations) -> Option<(Effect, &'static str)> {
    match (annotations.read_only, annotations.destructive) {
        (_, Some(true)) => Some((Effect::Destructive, "destructiveHint: true")),
        (Some(false), _) => Some((Effect::Write, "readOnlyHint: false")),
        _ => None,
    }
}

/// Classifies a tool by name, description and arguments. A server that is not trusted can only raise the effect of the
/// name.
pub fn classify(tool: &ToolName, description: &str, input_schema: &Value, trusted_server: bool) -> EffectOf {
    // Letters outside ASCII can imitate a known word.
    if !tool.name.is_ascii() {
        return unknown("its name is not in plain letters");
    }
    let name = name::read(tool);
    let text = Description::of(description);
    let arguments = Arguments::of(input_schema);
    let program = by_program(tool, name, &text, &arguments, trusted_server);
    // `Manage rules (read-only)`, `Run a read-only query`: the description takes the verb back.
    let harmless = match &program {
        Some(program) => program.effect == Effect::Read,
        None => name.is_read_only && text.read_only(),
    };
    let found = program.unwrap_or_else(|| {
        if trusted_server && !name.is_read_only { by_words(name, &text, &arguments) } else { by_name(name) }
    });
    raised(found, harmless, &text, &arguments)
}

fn unknown(why: &str) -> EffectOf {
    let why = format!("its effect is unknown: {why}");
    EffectOf { effect: Effect::Destructive, source: EffectSource::Unknown, why, runs: false }
}

fn known(effect: Effect, why: impl Into<String>) -> EffectOf {
    EffectOf { effect, source: EffectSource::Classifier, why: why.into(), runs: false }
}

/// Effect by the name alone: the most severe that it can mean, and a read only if no word speaks against that.
fn by_name(name: Reading) -> EffectOf {
    match name.verb {
        Some(verb) if name.is_read_only => known(Effect::Read, format!("the name says only `{}`", verb.word)),
        None if name.is_read_only => known(Effect::Read, "the name says only what the tool shows"),
        Some(verb) if name.most > Effect::Read => {
            let why = if name.is_firm() { "" } else { ", or may mean it" };
            known(name.most, format!("the name says `{}`{why}", verb.word))
        }
        Some(verb) => unknown(&format!("besides `{}` its name has a word that may mean any action", verb.word)),
        None => unknown("its name has no known verb, and its server is not trusted"),
    }
}

/// Effect by name and description of a trusted server; if those say nothing, by the methods that can be asked for.
fn by_words(name: Reading, text: &Description, arguments: &Arguments) -> EffectOf {
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
        (_, None) if text.read_only() => known(name.least, "the description says read-only"),
        (Some(_), None) => by_name(name),
        (None, None) => match arguments.method {
            Some((effect, verb)) if !arguments.odd_method => {
                known(effect, format!("an argument names the action, at most `{}`", verb.word))
            }
            _ => unknown("neither its name nor its description begins with a known verb"),
        },
    }
}

/// Effect of a tool that is given a program, or a query in a language that can change data as well.
fn by_program(
    tool: &ToolName,
    name: Reading,
    text: &Description,
    arguments: &Arguments,
    trusted_server: bool,
) -> Option<EffectOf> {
    let words = name::words(&tool.name);
    if let [program] = words.as_slice()
        && programs::has_commands(program)
    {
        return Some(EffectOf { runs: true, ..known(Effect::Destructive, "it runs the program of its name") });
    }
    let holds = |list: &str| words.iter().any(|word| among(list, word));
    let verb = name.verb.or_else(|| text.opening().map(|said| said.verb).filter(|_| trusted_server))?;
    let spoken = holds(&LISTS.names.languages) || text.mentions(&LISTS.names.languages);
    let interprets = holds(&LISTS.names.interpreters);
    let query = verb.act == Act::Query || words.iter().any(|word| word == "query" || word == "queries");
    let program = match verb.act {
        Act::Query => arguments.program.is_some() || spoken,
        Act::Run | Act::RunInput => arguments.program.is_some() || interprets || holds(&LISTS.names.languages) || query,
        Act::Read => arguments.is_run,
        Act::Compute | Act::Change | Act::Destroy => false,
    };
    if !program {
        return None;
    }
    let shell = interprets || arguments.program.is_some_and(|program| among(&LISTS.names.interpreters, program));
    let selects = trusted_server && !shell && text.selects_only();
    let why = if selects { "its input can only select" } else { "it runs its input" };
    let effect = if selects { Effect::Read } else { Effect::Destructive };
    Some(EffectOf { runs: !selects, ..known(effect, why) })
}

/// Raises an effect by what else the description says, and by what the arguments allow.
fn raised(mut found: EffectOf, harmless: bool, text: &Description, arguments: &Arguments) -> EffectOf {
    let mut to = |effect: Effect, why: String| {
        if effect > found.effect {
            found = known(effect, why);
        }
    };
    if let Some(Verb { word, act, .. }) = text.worst_verb().filter(|_| !harmless) {
        to(act.effect(), format!("the description says `{word}`"));
    }
    if let Some((effect, verb)) = arguments.method {
        to(effect, format!("an argument can ask for `{}`", verb.word));
    }
    if let Some((effect, word)) = arguments.leaves {
        to(effect, format!("an argument can make the tool `{word}`"));
    }
    if arguments.any_request {
        to(Effect::Destructive, "an argument is the method of a request".to_owned());
    }
    if found.effect == Effect::Write && text.irrevocable() {
        found = known(Effect::Destructive, "the description says that the action cannot be undone");
    }
    found
}
