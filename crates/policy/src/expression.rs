//! CEL expressions within budgets: a text in, a predicate or a value over JSON variables out.
//!
//! The interpreter has no bounds of its own, and agents write the values. So a text is refused at compile time if it is
//! long, deep or large, or names an unknown function ([`vocabulary`]); and before each evaluation, its highest cost and
//! size are computed from the variables at hand ([`cost`]). An error is never `false`: callers fail closed. No error
//! repeats a value of a variable.

mod cost;
mod order;
#[cfg(test)]
mod tests;
mod values;
mod vocabulary;

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use cel::{Context, Env, ExecutionError, FunctionContext, IdedExpr, common::value::CowVal};
use serde_json::Value;
use thiserror::Error;

/// Longest text of an expression, in bytes.
pub const MAX_SOURCE_BYTES: usize = 4_096;
/// Deepest nesting, of brackets in the text and of operations in its meaning.
pub const MAX_DEPTH: u16 = 32;
/// Most operations, variables and literals of an expression.
pub const MAX_NODES: usize = 512;
/// Most steps of one evaluation: about one for each operation, and one for every eight bytes that are copied or
/// compared. At most 20 ms on a slow core.
pub const MAX_STEPS: u64 = 250_000;
/// Largest value that an evaluation may build, in bytes of its texts plus one for each value.
pub const MAX_VALUE_BYTES: u64 = 256 * 1_024;

/// Functions of the language, without those that a caller adds.
static LANGUAGE: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(language()));

fn language() -> Env {
    Env::stdlib().with_optional_support(false)
}

/// Describes an expression that is nested too deeply.
fn too_deep() -> String {
    format!("the expression is nested more than {MAX_DEPTH} deep: split it into several rules or responses")
}

/// Describes an expression that has too many parts.
fn too_large() -> String {
    format!("the expression has more than {MAX_NODES} parts: split it into several rules or responses")
}

/// Error of an evaluation. Holds no value of a variable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EvalError {
    /// The evaluation might exceed its bounds of steps or bytes.
    #[error("the expression would take more than {MAX_STEPS} steps or {MAX_VALUE_BYTES} bytes on these values")]
    Budget,
    /// A value is missing, out of range, of the wrong type or without a form in JSON.
    #[error("{0}")]
    Failed(String),
}

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Expression {
    source: String,
    root: IdedExpr,
    reads: vocabulary::Reads,
}

impl Expression {
    /// Compiles a text that uses the functions of the language alone.
    ///
    /// # Errors
    /// The fault of the text, with a remedy.
    pub fn compile(source: &str) -> Result<Self, String> {
        Self::compile_with(source, &[])
    }

    /// Compiles a text that may also call `functions`, which its [`EvaluationScope`] provides.
    ///
    /// # Errors
    /// The fault of the text, with a remedy.
    pub fn compile_with(source: &str, functions: &[&str]) -> Result<Self, String> {
        if source.trim().is_empty() || source.len() > MAX_SOURCE_BYTES {
            let bytes = source.len();
            return Err(format!("the expression has {bytes} bytes: write 1 to {MAX_SOURCE_BYTES} bytes"));
        }
        vocabulary::check_text(source)?;
        let parser = LANGUAGE.parser().max_recursion_depth(MAX_DEPTH).error_recovery_limit(4);
        let mut root = parser.parse(source).map_err(|errors| syntax(source, &errors))?;
        let reads = vocabulary::check(&root, functions)?;
        order::put_in_order(&mut root);
        Ok(Self { source: source.to_owned(), root, reads })
    }

    /// Returns the text that was compiled.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the variables that the expression reads.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.reads.variables.iter().map(String::as_str)
    }

    /// Checks that the expression reads no variables other than these.
    ///
    /// # Errors
    /// The first unknown variable, with the known ones.
    pub fn expect_variables(&self, known: &[&str]) -> Result<(), String> {
        match self.variables().find(|name| !known.contains(name)) {
            Some(name) => Err(format!("variable `{name}` not found; the variables: {}", known.join(", "))),
            None => Ok(()),
        }
    }

    /// Checks that the expression names no members of a variable other than these, which are all that it has.
    ///
    /// # Errors
    /// The first unknown member, with the known ones.
    pub fn expect_members(&self, variable: &str, known: &[&str]) -> Result<(), String> {
        let mut named = self.reads.members.iter().filter(|(of, _)| of == variable).map(|(_, name)| name);
        match named.find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(format!("`{variable}` has no `{name}`; it has {}", known.join(", "))),
            None => Ok(()),
        }
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// The evaluation fails, or might exceed its bounds.
    pub fn value(&self, scope: &EvaluationScope<'_>) -> Result<Value, EvalError> {
        values::to_json(&self.evaluate(scope)?)
    }

    /// Evaluates the expression as a predicate.
    ///
    /// # Errors
    /// The evaluation fails, might exceed its bounds, or gives neither true nor false. An error is not `false`.
    pub fn holds(&self, scope: &EvaluationScope<'_>) -> Result<bool, EvalError> {
        match self.evaluate(scope)? {
            cel::Value::Bool(holds) => Ok(holds),
            other => Err(EvalError::Failed(format!(
                "the expression gives {} instead of true or false: write a comparison",
                values::describe(&other)
            ))),
        }
    }

    fn evaluate(&self, scope: &EvaluationScope<'_>) -> Result<cel::Value, EvalError> {
        cost::check_cost(&self.root, &scope.variables)?;
        cel::Value::resolve(&self.root, &scope.context).map_err(|error| failure(&error, &self.source))
    }
}

/// Variables and functions of an evaluation. One scope serves many expressions.
pub struct EvaluationScope<'v> {
    context: Context<'v, 'v>,
    variables: BTreeMap<String, &'v Value>,
}

impl Default for EvaluationScope<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'v> EvaluationScope<'v> {
    /// Returns a scope without variables.
    pub fn new() -> Self {
        let mut context = Context::with_env(Arc::clone(&LANGUAGE));
        // The names are free: the language is built without the interpreter's own `matches`, which has no bound.
        drop(context.add_function("matches", vocabulary::matches_function()));
        drop(context.add_function(order::ORDERED, order::ordered_function()));
        Self { context, variables: BTreeMap::new() }
    }

    /// Returns a scope with these variables.
    pub fn of<const N: usize>(variables: [(&str, &'v Value); N]) -> Self {
        let mut scope = Self::new();
        for (name, value) in variables {
            scope.set(name, value);
        }
        scope
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: &'v Value) {
        self.context.add_variable_as_val(name, values::to_cel(value));
        self.variables.insert(name.to_owned(), value);
    }

    /// Adds a function of global style, `name(...)`. An expression that calls it must be compiled with its name. Its
    /// errors describe the fault without repeating a value.
    pub fn function<F>(&mut self, name: &'static str, function: F)
    where
        F: Fn(&[Value]) -> Result<Value, String> + Send + Sync + 'static,
    {
        let call = move |call: &mut FunctionContext<'_, '_>| -> Result<cel::Value, ExecutionError> {
            let refuse = |message: &str| ExecutionError::function_error(name, message);
            let arguments = call
                .args
                .iter()
                .map(|argument| {
                    let value = cel::Value::try_from(argument.as_ref())?;
                    values::to_json(&value).map_err(|error| refuse(&error.to_string()))
                })
                .collect::<Result<Vec<_>, _>>()?;
            let result = function(&arguments).map_err(|message| refuse(&message))?;
            if cost::weight(&result) > cost::MAX_FUNCTION_BYTES {
                return Err(refuse("the result is too large"));
            }
            Ok(values::to_value(&result))
        };
        let function: Function = Box::new(move |context| Ok(CowVal::Owned(call(context)?.try_into()?)));
        // A name of the language cannot be replaced: an expression that calls it gets the language's function.
        drop(self.context.add_function(name, function));
    }
}

/// Type of a function in the interpreter.
type Function = Box<
    dyn for<'context, 'call> Fn(
            &mut FunctionContext<'context, 'call>,
        ) -> Result<CowVal<'context, 'call>, ExecutionError>
        + Send
        + Sync,
>;

/// Describes the parser's first error.
fn syntax(source: &str, errors: &cel::ParseErrors) -> String {
    let Some(first) = errors.errors.first() else { return too_deep() };
    let known_help = [
        ("'=", "compare with =="),
        ("' and '", "write &&"),
        ("' or '", "write ||"),
        ("'", "see the definition of CEL at cel.dev"),
    ];
    let help = known_help.iter().find(|(sign, _)| first.msg.contains(sign)).map_or("see cel.dev", |(_, help)| help);
    let (line, column) = first.pos;
    let lines = source.lines().count().max(1);
    let message = first.msg.lines().next().unwrap_or_default();
    if message.contains("Recursion limit") {
        return too_deep();
    }
    let line = usize::try_from(line).unwrap_or(1).clamp(1, lines);
    let column = usize::try_from(column).unwrap_or(1).max(1);
    let message: String = message.chars().take(160).collect();
    format!("{message} (line {line}, column {column} of the expression); {help}")
}

/// Describes the error of an evaluation, without any value of a variable.
fn failure(error: &ExecutionError, source: &str) -> EvalError {
    let named = |name: &str| if source.contains(name) { format!(" `{name}`") } else { String::new() };
    EvalError::Failed(match error {
        ExecutionError::NoSuchKey(name) => {
            let name = Some(named(name)).filter(|name| !name.is_empty());
            format!("missing{}; check with has(...) first", name.as_deref().unwrap_or(" key"))
        }
        ExecutionError::UndeclaredReference(name) => format!("variable or function{} not found", named(name)),
        ExecutionError::NoSuchOverload(error) => {
            format!("`{}` does not take ({})", error.function(), error.argument_types().join(", "))
        }
        ExecutionError::Overflow(..) => "a whole number is out of range".to_owned(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "a division by zero".to_owned(),
        ExecutionError::IndexOutOfBounds(_) => "an index is beyond the end of its list".to_owned(),
        ExecutionError::ValuesNotComparable(..) => "values of these types cannot be compared".to_owned(),
        ExecutionError::UnsupportedBinaryOperator(operator, ..) => {
            format!("`{operator}` does not take values of these types; convert one, as in double(args.amount)")
        }
        ExecutionError::FunctionError { function, .. } => format!("`{function}` cannot take this value"),
        ExecutionError::DuplicateKey(_) => "a mapping has a key twice".to_owned(),
        _ => "a value has a type that does not fit here".to_owned(),
    })
}
