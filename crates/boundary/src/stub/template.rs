//! Typed templates: JSON whose texts may hold `{{ CEL }}`. A text that is one expression takes the value's type; within
//! a longer text a value becomes text.

use serde_json::{Map, Value};
use thiserror::Error;

use super::{eval, state::SharedMint};
use umbra_domain::json::encoded_len;
use umbra_policy::{EvalError, EvaluationScope, Expression};

/// Text functions, which any expression of a contract may call.
pub(crate) const TEXT_FUNCTIONS: [&str; 6] = ["path", "folder", "base", "head", "tail", "join"];
/// Further functions that expressions of a template may call.
const MINTING_FUNCTIONS: [&str; 4] = ["uuid", "seq", "now", "epoch"];
/// Most parts of a template.
const MAX_PARTS: usize = 5_000;
/// Most expressions of a template.
const MAX_EXPRESSIONS: usize = 200;
/// Largest result, in bytes of JSON, approximately.
const MAX_BYTES: usize = 256 * 1024;

/// A compiled template.
#[derive(Debug)]
pub struct Template {
    part: TemplatePart,
}

#[derive(Debug)]
enum TemplatePart {
    Plain(Value),
    Value(Expression),
    Text(Vec<Piece>),
    List(Vec<TemplatePart>),
    Map(Vec<(String, TemplatePart)>),
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Value(Expression),
}

/// Error of rendering a template. Holds no value of a call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RenderError {
    /// An expression could not be evaluated.
    #[error("`{expression}`: {error}")]
    Eval {
        /// Expression as it was written, cut.
        expression: String,
        /// Error of the evaluation.
        error: EvalError,
    },
    /// The result is too large.
    #[error("the result has more than {MAX_BYTES} bytes")]
    Large,
}

impl Template {
    /// Compiles a template that may name these variables.
    ///
    /// # Errors
    /// The fault of the first wrong expression.
    pub fn compile(value: &Value, variables: &[&str]) -> Result<Self, String> {
        let mut budget = Budget { parts: 0, expressions: 0 };
        Ok(Self { part: compile(value, variables, &mut budget)? })
    }

    /// True if an expression of the template reads this variable.
    pub fn reads(&self, variable: &str) -> bool {
        reads(&self.part, variable)
    }

    /// Renders the template for one call.
    ///
    /// # Errors
    /// An expression cannot be evaluated, or the result is too large.
    pub fn render(&self, scope: &EvaluationScope<'_>) -> Result<Value, RenderError> {
        let mut left = MAX_BYTES;
        render(&self.part, scope, &mut left)
    }
}

impl RenderError {
    /// True if rendering exceeds a limit, rather than lacks something.
    pub(crate) fn is_of_bounds(&self) -> bool {
        matches!(self, Self::Large | Self::Eval { error: EvalError::Budget, .. })
    }
}

/// Adds the text functions to a scope.
pub(crate) fn add_text_functions(scope: &mut EvaluationScope<'_>) {
    let of_path = |part: fn(&str) -> String| {
        move |arguments: &[Value]| match arguments {
            [Value::String(path)] => Ok(Value::String(part(path))),
            _ => Err("write it with one text, a path".to_owned()),
        }
    };
    scope.function("path", of_path(normal_path));
    scope.function("folder", of_path(|path| split_path(path).0));
    scope.function("base", of_path(|path| split_path(path).1));
    let of_lines = |is_head: bool| {
        move |arguments: &[Value]| match arguments {
            [Value::String(text), lines] if lines.is_u64() => {
                let wanted = lines.as_u64().and_then(|lines| usize::try_from(lines).ok()).unwrap_or(usize::MAX);
                let lines: Vec<&str> = text.split('\n').collect();
                let skipped = if is_head { 0 } else { lines.len().saturating_sub(wanted) };
                Ok(Value::String(lines.into_iter().skip(skipped).take(wanted).collect::<Vec<_>>().join("\n")))
            }
            _ => Err("write it with a text and a number of lines".to_owned()),
        }
    };
    scope.function("head", of_lines(true));
    scope.function("tail", of_lines(false));
    scope.function("join", |arguments| match arguments {
        [Value::Array(items), Value::String(between)] => {
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            texts.map(|texts| Value::String(texts.join(between))).ok_or_else(|| "only texts can be joined".to_owned())
        }
        _ => Err("write it with a list of texts and the text between them".to_owned()),
    });
}

/// Path without `.`, `..`, empty steps and a trailing `/`.
fn normal_path(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/').filter(|step| !step.is_empty() && *step != ".") {
        match (step, steps.last()) {
            ("..", Some(last)) if *last != ".." => drop(steps.pop()),
            _ => steps.push(step),
        }
    }
    format!("{}{}", if path.starts_with('/') { "/" } else { "" }, steps.join("/"))
}

/// Folder of a path, and its last step.
fn split_path(path: &str) -> (String, String) {
    let path = normal_path(path);
    match path.rsplit_once('/') {
        Some(("", base)) => ("/".to_owned(), base.to_owned()),
        Some((folder, base)) => (folder.to_owned(), base.to_owned()),
        None => (String::new(), path),
    }
}

/// Adds all functions of templates to a scope, with the text functions.
pub(crate) fn add_functions(scope: &mut EvaluationScope<'_>, mint: &SharedMint) {
    add_text_functions(scope);
    let prefix = |arguments: &[Value]| match arguments {
        [] => Ok(String::new()),
        [Value::String(prefix)] => Ok(prefix.clone()),
        _ => Err("write it with one text, its prefix".to_owned()),
    };
    let ids = mint.clone();
    scope.function("uuid", move |arguments| ids.uuid(&prefix(arguments)?).map(Value::String));
    let numbers = mint.clone();
    scope.function("seq", move |arguments| numbers.seq(&prefix(arguments)?).map(Value::String));
    let clock = mint.clone();
    scope.function("now", move |arguments| match arguments {
        [] => Ok(Value::String(clock.now().to_string())),
        _ => Err("write it without arguments".to_owned()),
    });
    let clock = mint.clone();
    scope.function("epoch", move |arguments| match arguments {
        [] => Ok(clock.now().as_second().into()),
        _ => Err("write it without arguments".to_owned()),
    });
}

/// Escapes a text, so that a template renders it unchanged.
pub fn literal(text: &str) -> String {
    text.replace("{{", "{{ '{{' }}")
}

struct Budget {
    parts: usize,
    expressions: usize,
}

fn compile(value: &Value, variables: &[&str], budget: &mut Budget) -> Result<TemplatePart, String> {
    budget.parts += 1;
    if budget.parts > MAX_PARTS {
        return Err(format!("the template has more than {MAX_PARTS} parts"));
    }
    match value {
        Value::String(text) => compile_text(text, variables, budget),
        Value::Array(items) => {
            items.iter().map(|item| compile(item, variables, budget)).collect::<Result<_, _>>().map(TemplatePart::List)
        }
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| {
                if key.contains("{{") {
                    return Err("a key has {{ }}: only values may be templates".to_owned());
                }
                Ok((key.clone(), compile(value, variables, budget)?))
            })
            .collect::<Result<_, _>>()
            .map(TemplatePart::Map),
        other => Ok(TemplatePart::Plain(other.clone())),
    }
}

fn compile_text(text: &str, variables: &[&str], budget: &mut Budget) -> Result<TemplatePart, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        let end = end_of_expression(after).ok_or("a `{{` without its `}}`; a literal one is {{ '{{' }}")?;
        let (source, after) = (after.get(..end).unwrap_or_default(), after.get(end + 2..).unwrap_or_default());
        budget.expressions += 1;
        if budget.expressions > MAX_EXPRESSIONS {
            return Err(format!("the template has more than {MAX_EXPRESSIONS} expressions"));
        }
        let source = source.trim();
        let shown: String = source.chars().take(60).collect();
        let functions = [&TEXT_FUNCTIONS[..], &MINTING_FUNCTIONS].concat();
        let compiled = Expression::compile_with(source, &functions).and_then(|expression| {
            expression.expect_variables(variables)?;
            Ok(expression)
        });
        pieces.push(Piece::Value(compiled.map_err(|error| format!("`{{{{ {shown} }}}}`: {error}"))?));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    let is_plain = pieces.iter().all(|piece| matches!(piece, Piece::Text(_)));
    Ok(match pieces.pop() {
        Some(Piece::Value(expression)) if pieces.is_empty() => TemplatePart::Value(expression),
        _ if is_plain => TemplatePart::Plain(Value::String(text.to_owned())),
        Some(last) => {
            pieces.push(last);
            TemplatePart::Text(pieces)
        }
        None => TemplatePart::Plain(Value::String(String::new())),
    })
}

/// Index where an expression ends: at the first `}}` outside its own texts and braces.
fn end_of_expression(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') if depth > 0 => depth -= 1,
            (None, '}') if text.get(at..).is_some_and(|rest| rest.starts_with("}}")) => return Some(at),
            _ => {}
        }
    }
    None
}

fn reads(part: &TemplatePart, variable: &str) -> bool {
    let names = |expression: &Expression| expression.variables().any(|name| name == variable);
    match part {
        TemplatePart::Plain(_) => false,
        TemplatePart::Value(expression) => names(expression),
        TemplatePart::Text(pieces) => {
            pieces.iter().any(|piece| matches!(piece, Piece::Value(expression) if names(expression)))
        }
        TemplatePart::List(parts) => parts.iter().any(|part| reads(part, variable)),
        TemplatePart::Map(parts) => parts.iter().any(|(_, part)| reads(part, variable)),
    }
}

fn evaluate(expression: &Expression, scope: &EvaluationScope<'_>) -> Result<Value, RenderError> {
    expression.value(scope).map_err(|error| eval(expression.source(), error))
}

fn render(part: &TemplatePart, scope: &EvaluationScope<'_>, left: &mut usize) -> Result<Value, RenderError> {
    let value = match part {
        TemplatePart::Plain(value) => value.clone(),
        TemplatePart::Value(expression) => evaluate(expression, scope)?,
        TemplatePart::Text(pieces) => {
            let mut text = String::new();
            for piece in pieces {
                match piece {
                    Piece::Text(piece) => text.push_str(piece),
                    Piece::Value(expression) => match evaluate(expression, scope)? {
                        Value::String(value) => text.push_str(&value),
                        other => text.push_str(&other.to_string()),
                    },
                }
                if text.len() > *left {
                    return Err(RenderError::Large);
                }
            }
            Value::String(text)
        }
        TemplatePart::List(parts) => {
            return parts.iter().map(|part| render(part, scope, left)).collect::<Result<_, _>>().map(Value::Array);
        }
        TemplatePart::Map(parts) => {
            let mut entries = Map::new();
            for (key, part) in parts {
                *left = left.checked_sub(key.len()).ok_or(RenderError::Large)?;
                entries.insert(key.clone(), render(part, scope, left)?);
            }
            return Ok(Value::Object(entries));
        }
    };
    *left = left.checked_sub(encoded_len(&value)).ok_or(RenderError::Large)?;
    Ok(value)
}
