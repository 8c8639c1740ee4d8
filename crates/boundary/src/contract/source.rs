//! Scanner of agents' source text (Python, JavaScript): finds the tools registered with common frameworks or listed as
//! JSON for a model, and tells if Umbra guards their calls. No code is run; only plain registrations are found. Tools
//! of MCP servers count as guarded (by the proxy); other JavaScript tools and JSON schemas do if the text mentions
//! Umbra. Python calls around a guard (`__wrapped__`) are found too.

use std::{collections::HashSet, sync::LazyLock};

use regex::Regex;
use serde::Serialize;

/// Furthest distance of a name from its registration, in bytes.
const REACH: usize = 600;
/// Most lines of the decorators of a function.
const MOST_LINES: usize = 40;
/// Most tools of one text.
const MAX_FOUND: usize = 1_000;

/// Tool that a text registers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Registered {
    /// Line number, from 1.
    pub line: usize,
    /// The tool's name.
    pub name: String,
    /// Decorator or constructor that registers it, as `@tool`; `__wrapped__` for a call around the guard.
    pub by: String,
    /// True if its text shows that calls are guarded: by the decorator beside it or, for a tool of an MCP server, by
    /// the proxy in front of the server.
    #[serde(skip)]
    pub is_guarded: bool,
}

/// Attribute by which a call goes around the guard of a function.
pub const WRAPPED: &str = "__wrapped__";

/// Language of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Python.
    Python,
    /// JavaScript and TypeScript.
    JavaScript,
}

impl Language {
    /// Language of files with this extension.
    pub fn of_extension(extension: &str) -> Option<Self> {
        match extension {
            "py" | "pyi" => Some(Self::Python),
            "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" => Some(Self::JavaScript),
            _ => None,
        }
    }
}

macro_rules! forms {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* static $name: LazyLock<Regex> = LazyLock::new(|| form($text));)*
    };
}

#[expect(clippy::expect_used, reason = "the forms are constants; a test uses all of them")]
fn form(text: &str) -> Regex {
    Regex::new(text).expect("a valid form")
}

forms! {
    /// Decorators that register a tool: `@tool`, `@mcp.tool(...)`, `@function_tool` and others.
    DECORATOR = r"(?m)^[ \t]*@(?P<by>(?:\w+\.)*(?:tool|function_tool|beta_tool|ai_function|kernel_function|tool_plain|agent_tool))\b(?P<open>\()?";
    /// Constructors that take a name.
    CONSTRUCTOR = r"\b(?P<by>Tool|StructuredTool|StructuredTool\.from_function|FunctionTool|FunctionTool\.from_defaults|Tool\.from_function)\(";
    /// Decorators that guard a function: `@umbra.tool(...)`, `@session.guardrails("enforce")`.
    GUARD = r"(?m)^[ \t]*@(?:(?:\w+\.)*umbra\w*\.tool\b|\w+\.guardrails\()";
    UNWRAPPED = r"\b(?P<name>\w+)\.(?P<by>__wrapped__)\(";
    /// Registrations with an MCP server, which has the proxy in front of it.
    OF_SERVER = r"(?i)(?:mcp|server)\w*\.";
    DEFINITION = r"(?m)^[ \t]*(?:async[ \t]+)?def[ \t]+(?P<name>\w+)";
    NAMED = r#"\bname\s*=\s*(?:"(?P<double>[^"\n]{1,128})"|'(?P<single>[^'\n]{1,128})')"#;
    FIRST_TEXT = r#"^\s*(?:"(?P<double>[^"\n]{1,128})"|'(?P<single>[^'\n]{1,128})')"#;
    /// Methods that register a tool: `server.tool("name", ...)`, `registerTool("name", ...)`.
    METHOD = r"\b(?P<by>(?:\w*(?:[sS]erver|[mM]cp)\w*\.)(?:tool|registerTool|addTool)|registerTool)\(";
    MAKER = r"\b(?P<by>tool|defineTool|createTool|new DynamicTool|new DynamicStructuredTool|new FunctionTool)\(";
    /// Key or constant that holds a created tool: `{sendSms: tool({...})}`, `const sendSms = tool({...})`.
    KEY = r#"(?P<double>\w+)["']?\s*[:=]\s*$"#;
    PROPERTY = r#"\bname\s*:\s*(?:"(?P<double>[^"\n]{1,128})"|'(?P<single>[^'\n]{1,128})'|`(?P<tick>[^`\n$]{1,128})`)"#;
    /// Function as models are given it: `{"type": "function", "function": {"name": "x"`.
    FUNCTION = r#"["']?type["']?\s*:\s*["']function["']\s*,\s*["']?(?P<by>function)["']?\s*:\s*\{"#;
    FUNCTION_NAME = r#"["']name["']\s*:\s*(?:"(?P<double>[^"\n]{1,128})"|'(?P<single>[^'\n]{1,128})')"#;
}

/// Finds the tools that a text registers, by line.
pub fn scan(text: &str, language: Language) -> Vec<Registered> {
    let plain: String;
    let text = match language {
        Language::Python => {
            plain = without_docstrings(text);
            &plain
        }
        Language::JavaScript => text,
    };
    // JavaScript has no guard: code that mentions Umbra is taken to ask for decisions itself.
    let asks = text.to_lowercase().contains("umbra");
    let mut found = Vec::new();
    match language {
        Language::Python => python(text, &mut found),
        Language::JavaScript => javascript(text, asks, &mut found),
    }
    for form in FUNCTION.captures_iter(text) {
        let Some(whole) = form.get(0) else { continue };
        add(&mut found, text, &form, "", quoted(&FUNCTION_NAME, reach(text, whole.end())), asks);
    }
    found.sort();
    // Several decorators of a function are one registration.
    let mut names = HashSet::new();
    found.retain(|one| one.by == WRAPPED || names.insert(one.name.clone()));
    found.truncate(MAX_FOUND);
    found
}

fn python(text: &str, found: &mut Vec<Registered>) {
    for form in DECORATOR.captures_iter(text) {
        let (Some(whole), Some(by)) = (form.get(0), form.name("by")) else { continue };
        let rest = reach(text, whole.end());
        let inside = if form.name("open").is_some() { arguments(rest) } else { "" };
        let own = quoted(&FIRST_TEXT, inside).or_else(|| quoted(&NAMED, inside));
        let defined = || DEFINITION.captures(rest).and_then(|found| Some(found.name("name")?.as_str().to_owned()));
        let is_guarded = OF_SERVER.is_match(by.as_str()) || GUARD.is_match(&decorators(text, whole.start()));
        add(found, text, &form, "@", own.or_else(defined), is_guarded);
    }
    for form in CONSTRUCTOR.captures_iter(text) {
        let Some(whole) = form.get(0) else { continue };
        let inside = arguments(reach(text, whole.end()));
        let mut words = inside.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        let is_guarded = words.any(|word| is_guarded_function(text, word));
        add(found, text, &form, "", quoted(&NAMED, inside), is_guarded);
    }
    for form in UNWRAPPED.captures_iter(text) {
        let name = form.name("name").map(|name| name.as_str().to_owned());
        let Some((by, name)) = form.name("by").zip(name) else { continue };
        let line = text.get(..by.start()).unwrap_or_default().matches('\n').count() + 1;
        found.push(Registered { line, name, by: WRAPPED.to_owned(), is_guarded: false });
    }
}

fn javascript(text: &str, asks: bool, found: &mut Vec<Registered>) {
    for form in METHOD.captures_iter(text) {
        let Some(whole) = form.get(0) else { continue };
        let inside = arguments(reach(text, whole.end()));
        let named = quoted(&FIRST_TEXT, inside).or_else(|| quoted(&PROPERTY, inside));
        add(found, text, &form, "", named, true);
    }
    for form in MAKER.captures_iter(text) {
        let Some(whole) = form.get(0) else { continue };
        let named = quoted(&PROPERTY, arguments(reach(text, whole.end())));
        let before = text.get(..whole.start()).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        add(found, text, &form, "", named.or_else(|| quoted(&KEY, line)), asks);
    }
}

/// All decorators of a function, given the place of one: the lines above and below it.
fn decorators(text: &str, at: usize) -> String {
    let is_decorator = |line: &&str| line.trim_start().starts_with('@');
    let (before, behind) = text.split_at_checked(at).unwrap_or((text, ""));
    let above: Vec<&str> = before.lines().rev().take_while(is_decorator).collect();
    // A decorator may have several lines; the definition ends them.
    let is_definition =
        |line: &str| ["def ", "async def ", "class "].iter().any(|begin| line.trim_start().starts_with(begin));
    let below: Vec<&str> = behind.lines().take(MOST_LINES).take_while(|line| !is_definition(line)).collect();
    [above, below].concat().join("\n")
}

/// True if the text defines a function of this name with a guard beside it.
fn is_guarded_function(text: &str, name: &str) -> bool {
    let defined = DEFINITION.captures_iter(text).find(|form| form.name("name").is_some_and(|own| own.as_str() == name));
    let Some(whole) = defined.and_then(|form| form.get(0)) else { return false };
    let above: Vec<&str> = text
        .get(..whole.start())
        .unwrap_or_default()
        .lines()
        .rev()
        .take_while(|line| !line.trim().is_empty())
        .take(MOST_LINES)
        .collect();
    GUARD.is_match(&above.join("\n"))
}

/// Removes text between triple quotes: examples in docstrings register nothing. Line numbers stay the same.
fn without_docstrings(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    loop {
        let opening = [r#"""""#, "'''"].iter().filter_map(|quotes| Some((rest.find(quotes)?, *quotes))).min();
        let Some((at, quotes)) = opening else { break };
        let (before, behind) = rest.split_at(at + quotes.len());
        let end = behind.find(quotes).unwrap_or(behind.len());
        let (inside, after) = behind.split_at(end);
        plain.push_str(before);
        plain.extend(inside.chars().filter(|c| *c == '\n'));
        rest = after.strip_prefix(quotes).unwrap_or_default();
        plain.push_str(if after.is_empty() { "" } else { quotes });
    }
    plain.push_str(rest);
    plain
}

fn add(
    found: &mut Vec<Registered>,
    text: &str,
    form: &regex::Captures<'_>,
    sign: &str,
    name: Option<String>,
    is_guarded: bool,
) {
    let (Some(name), Some(by)) = (name, form.name("by")) else { return };
    let before = text.get(..by.start()).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let beginning = before.get(line_start..).unwrap_or_default().trim_start();
    // Comments, and longer names with this ending.
    if beginning.starts_with('#') || beginning.starts_with("//") || beginning.starts_with('*') {
        return;
    }
    if sign.is_empty() && before.ends_with(['.', '_', '$', '"', '\'']) && by.as_str() != "function" {
        return;
    }
    let line = before.matches('\n').count() + 1;
    found.push(Registered { line, name, by: format!("{sign}{}", by.as_str()), is_guarded });
}

/// Text behind a place, as far as a name is looked for.
fn reach(text: &str, from: usize) -> &str {
    text.get(from..text.floor_char_boundary(from + REACH)).unwrap_or_default()
}

/// Text between an opened bracket and its closing one.
fn arguments(text: &str) -> &str {
    let (mut depth, mut quote) = (1_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (None, '"' | '\'' | '`') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => {
                depth -= 1;
                if depth == 0 {
                    return text.get(..at).unwrap_or_default();
                }
            }
            _ => {}
        }
    }
    text
}

fn quoted(form: &Regex, text: &str) -> Option<String> {
    let found = form.captures(text)?;
    let name = ["double", "single", "tick"].iter().find_map(|kind| found.name(kind))?;
    Some(name.as_str().to_owned())
}
