//! Vocabulary of expressions: bounds on the text and its parts, the known functions and their forms, and `matches`,
//! whose pattern must be a literal so that it is compiled once and within bounds.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
};

use cel::{
    ExecutionError, IdedExpr,
    common::ast::{CallExpr, EntryExpr, Expr, LiteralValue},
    extractors::This,
};
use regex::Regex;

use super::{MAX_DEPTH, MAX_NODES, too_deep, too_large};

/// Longest pattern of `matches`, in bytes.
const MAX_PATTERN_BYTES: usize = 512;
/// Largest compiled pattern, in bytes.
const MAX_PATTERN_SIZE: usize = 256 * 1_024;
/// Most compiled patterns that a thread keeps.
const KEPT_PATTERNS: usize = 512;

/// Form of a function's calls. The number of arguments includes the target.
struct Form {
    name: &'static str,
    global: bool,
    member: bool,
    arity: usize,
}

const fn form(name: &'static str, global: bool, member: bool, arity: usize) -> Form {
    Form { name, global, member, arity }
}

const FUNCTIONS: &[Form] = &[
    form("size", true, true, 1),
    form("contains", false, true, 2),
    form("startsWith", false, true, 2),
    form("endsWith", false, true, 2),
    form("matches", true, true, 2),
    form("string", true, false, 1),
    form("int", true, false, 1),
    form("uint", true, false, 1),
    form("double", true, false, 1),
    form("bool", true, false, 1),
    form("type", true, false, 1),
    form("dyn", true, false, 1),
];

/// Macros with their correct form. The parser has replaced correct uses, so a macro that is left is a mistake.
const MACROS: &[(&str, &str)] = &[
    ("has", "write has(args.key)"),
    ("all", "write list.all(x, predicate)"),
    ("exists", "write list.exists(x, predicate)"),
    ("exists_one", "write list.exists_one(x, predicate)"),
    ("map", "write list.map(x, value)"),
    ("filter", "write list.filter(x, predicate)"),
];

/// Names of types.
const TYPES: &[&str] = &["bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint"];

/// Refuses a text that would take the parser too long or too deep.
pub(super) fn check_text(source: &str) -> Result<(), String> {
    let (mut depth, mut signs, mut quote, mut escaped) = (0_usize, 0_usize, None, false);
    for c in source.chars() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => {
                depth += 1;
                signs += 1;
            }
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, c) if c.is_alphanumeric() || c.is_whitespace() || c == '_' => {}
            (None, _) => signs += 1,
        }
        if depth > usize::from(MAX_DEPTH) {
            return Err(too_deep());
        }
        if signs > 2 * MAX_NODES {
            return Err(too_large());
        }
    }
    Ok(())
}

/// Variables and members that an expression reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Reads {
    /// Names of variables.
    pub variables: BTreeSet<String>,
    /// Members of variables that the text names: (variable, member).
    pub members: BTreeSet<(String, String)>,
}

/// Checks every part of an expression, and returns what the expression reads.
pub(super) fn check(root: &IdedExpr, functions: &[&str]) -> Result<Reads, String> {
    let mut walk = Walk { functions, nodes: 0, bound: Vec::new(), reads: Reads::default() };
    walk.visit(root, 0)?;
    Ok(walk.reads)
}

struct Walk<'a> {
    functions: &'a [&'a str],
    nodes: usize,
    /// Variables of the enclosing comprehensions.
    bound: Vec<&'a str>,
    reads: Reads,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, node: &'a IdedExpr, depth: u16) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(too_large());
        }
        // A macro is several operations deep.
        if depth > 2 * MAX_DEPTH {
            return Err(too_deep());
        }
        let below = depth + 1;
        match &node.expr {
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => {
                if let Expr::Ident(name) = &select.operand.expr
                    && !self.bound.contains(&name.as_str())
                {
                    self.reads.members.insert((name.clone(), select.field.clone()));
                }
                self.visit(&select.operand, below)
            }
            Expr::List(list) => list.elements.iter().try_for_each(|item| self.visit(item, below)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.visit(&entry.key, below)?;
                    self.visit(&entry.value, below)
                }
                EntryExpr::StructField(_) => Err("a mapping's keys are values: {'key': 1}".to_owned()),
            }),
            Expr::Call(call) => self.call(call, below),
            Expr::Comprehension(inner) => {
                self.visit(&inner.iter_range, below)?;
                self.visit(&inner.accu_init, below)?;
                self.bound.push(&inner.iter_var);
                self.bound.push(&inner.accu_var);
                self.bound.extend(inner.iter_var2.as_deref());
                for part in [&inner.loop_cond, &inner.loop_step, &inner.result] {
                    self.visit(part, below)?;
                }
                self.bound.truncate(self.bound.len() - 2 - usize::from(inner.iter_var2.is_some()));
                Ok(())
            }
            Expr::Struct(_) => Err("messages are not supported: write a mapping, {'key': 1}".to_owned()),
            Expr::Unspecified => Err("a part of the expression is missing".to_owned()),
        }
    }

    fn name(&mut self, name: &str) -> Result<(), String> {
        if name.starts_with('.') {
            return Err("a name may not begin with a dot".to_owned());
        }
        if !self.bound.contains(&name) && !TYPES.contains(&name) {
            self.reads.variables.insert(name.to_owned());
        }
        Ok(())
    }

    fn call(&mut self, call: &'a CallExpr, below: u16) -> Result<(), String> {
        for part in call.target.as_deref().into_iter().chain(&call.args) {
            self.visit(part, below)?;
        }
        let name = call.func_name.as_str();
        if name == "matches" {
            let pattern = call.args.last().map(|pattern| &pattern.expr);
            let Some(Expr::Literal(LiteralValue::String(pattern))) = pattern else {
                let message = "the pattern of `matches` must be a literal: write name.matches('^a+$')";
                return Err(message.to_owned());
            };
            compile_pattern(pattern.inner())?;
        }
        if !name.starts_with(|c: char| c.is_alphabetic()) {
            // An operator.
            return Ok(());
        }
        let given = call.args.len() + usize::from(call.target.is_some());
        if let Some(form) = FUNCTIONS.iter().find(|form| form.name == name) {
            let styled = if call.target.is_some() { form.member } else { form.global };
            if styled && given == form.arity {
                return Ok(());
            }
            let rest = if form.arity > 1 { "value" } else { "" };
            let right = if form.member { format!("text.{name}({rest})") } else { format!("{name}(value)") };
            return Err(format!("`{name}` is called in another form: write {right}"));
        }
        if self.functions.contains(&name) && call.target.is_none() {
            return Ok(());
        }
        if let Some((_, help)) = MACROS.iter().find(|(known, _)| *known == name) {
            return Err(format!("`{name}` is called in another form: {help}"));
        }
        let known: Vec<&str> = FUNCTIONS
            .iter()
            .map(|form| form.name)
            .chain(self.functions.iter().copied())
            .chain(MACROS.iter().map(|(name, _)| *name))
            .collect();
        let shown: String = name.chars().take(60).collect();
        Err(format!("function `{shown}` not found; the functions: {}", known.join(", ")))
    }
}

/// Compiles a pattern of `matches`.
fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!("the pattern has {} bytes: write at most {MAX_PATTERN_BYTES} bytes", pattern.len()));
    }
    regex::RegexBuilder::new(pattern).size_limit(MAX_PATTERN_SIZE).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            "the pattern of `matches` is too large: write shorter repetitions".to_owned()
        }
        _ => "the pattern of `matches` is not a regular expression (RE2 syntax: no look-around, no back references)"
            .to_owned(),
    })
}

thread_local! {
    /// Patterns that this thread has compiled. They come from expressions, so they are few.
    static PATTERNS: RefCell<HashMap<String, Regex>> = RefCell::new(HashMap::new());
}

/// Returns `text.matches('pattern')`, also called as `matches(text, 'pattern')`: true if the pattern occurs.
pub(super) fn matches_function()
-> impl Fn(This<std::sync::Arc<String>>, std::sync::Arc<String>) -> Result<bool, ExecutionError> + Send + Sync + 'static
{
    |This(text): This<std::sync::Arc<String>>, pattern: std::sync::Arc<String>| {
        PATTERNS.with_borrow_mut(|patterns| {
            if let Some(known) = patterns.get(pattern.as_str()) {
                return Ok(known.is_match(&text));
            }
            let compiled =
                compile_pattern(&pattern).map_err(|message| ExecutionError::function_error("matches", message))?;
            let found = compiled.is_match(&text);
            if patterns.len() >= KEPT_PATTERNS {
                patterns.clear();
            }
            patterns.insert(pattern.as_str().to_owned(), compiled);
            Ok(found)
        })
    }
}
