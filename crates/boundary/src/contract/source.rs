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

/// Decorators that register a tool: `@tool`, `@mcp.tool(...)`, `@function_tool` and others.
const DECORATOR: &str = r"(?m)^[ \t]*@(?P<by>(?:\w+\.)*(?:tool|function_tool|beta_tool|ai_function|kernel_function|tool_plain|agent_tool))\b(?P<open>\()?";
/// Constructors that take a name.
const CONSTRUCTOR: &str = r"\b(?P<by>Tool|StructuredTool|StructuredTool\.from_function|FunctionTool|FunctionTool\.from_defaults|Tool\.from_function)\(";
/// Decorators that guard a function: `@umbra.tool(...)`, `@session.guardrails("enforce")`.
const GUARD: &str = r"(?m)^[ \t]*@(?:(?:\w+\.)*umbra\w*\.tool\b|\w+\.guardrails\()";
const UNWRAPPED: &str = r"\b(?P<name>\w+)\.(?P<by>__wrapped__)\(";
/// Registrations with an MCP server, which has the proxy in front of it.
const OF_SERVER: &str = r"(?i)(?:mcp|server)\w*\.";
const DEFINITION: &str = r"(?m)^[ \t]*(?:async[ \t]+)?def[ \t]+(?P<name>\w+)";
const NAMED: &str = r#"\bname\s*=\s*(?:"(?P<double>[^"\n]{1,128})"|'(?P<single>[^'\n]{1,128})')"#;
const FIRST_TEXT: &str = r#"^\s*(?:"(?P<double>[^"\n]{1,128})"|'(?P<single>[^'\n]{1,128})')"#;
/// Methods that register a tool: `server.tool("name", ...)`, `registerTool("name", ...)`.
const METHOD: &str = r"\b(?P<by>(?:\w*(?:[sS]erver|[mM]cp)\w*\.)(?:tool|registerTool|addTool)|registerTool)\(";
const MAKER: &str =
    r"\b(?P<by>tool|defineTool|createTool|new DynamicTool|new DynamicStructuredTool|new FunctionTool)\(";
/// Key or constant that holds a created tool: `{sendSms: tool({...})}`, `const sendSms = tool({...})`.
const KEY: &str = r#"(?P<double>\w+)["']?\s*[:=]\s*$"#;
const PROPERTY: &str =
    r#"\bname\s*:\s*(?:"(?P<double>[^"\n]{1,128})"|'(?P<single>[^'\n]{1,128})'|`(?P<tick>[^`\n$]{1,128})`)"#;
/// Function as models are given it: `{"type": "function", "function": {"name": "x"`.
const FUNCTION: &str = r#"["']?type["']?\s*:\s*["']function["']\s*,\s*["']?(?P<by>function)["']?\s*:\s*\{"#;
const FUNCTION_NAME: &str = r#"["']name["']\s*:\s*(?:"(?P<double>[^"\n]{1,128})"|'(?P<single>[^'\n]{1,128})')"#;

struct Forms {
    decorator: Regex,
    constructor: Regex,
    definition: Regex,
    guard: Regex,
    unwrapped: Regex,
    of_server: Regex,
    key: Regex,
    named: Regex,
    first_text: Regex,
    method: Regex,
    maker: Regex,
    property: Regex,
    function: Regex,
    function_name: Regex,
}

/// Compiled forms; none only if a form above is no regular expression, which a test rules out.
static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    let form = |text: &str| Regex::new(text).ok();
    Some(Forms {
        decorator: form(DECORATOR)?,
        constructor: form(CONSTRUCTOR)?,
        definition: form(DEFINITION)?,
        guard: form(GUARD)?,
        unwrapped: form(UNWRAPPED)?,
        of_server: form(OF_SERVER)?,
        key: form(KEY)?,
        named: form(NAMED)?,
        first_text: form(FIRST_TEXT)?,
        method: form(METHOD)?,
        maker: form(MAKER)?,
        property: form(PROPERTY)?,
        function: form(FUNCTION)?,
        function_name: form(FUNCTION_NAME)?,
    })
});

/// Finds the tools that a text registers, by line.
pub fn scan(text: &str, language: Language) -> Vec<Registered> {
    let Some(forms) = FORMS.as_ref() else { return Vec::new() };
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
        Language::Python => python(forms, text, &mut found),
        Language::JavaScript => javascript(forms, text, asks, &mut found),
    }
    for form in forms.function.captures_iter(text) {
        let Some(whole) = form.get(0) else { continue };
        add(&mut found, text, &form, "", quoted(&forms.function_name, reach(text, whole.end())), asks);
    }
    found.sort();
    // Several decorators of a function are one registration.
    let mut names = HashSet::new();
    found.retain(|one| one.by == WRAPPED || names.insert(one.name.clone()));
    found.truncate(MAX_FOUND);
    found
}

fn python(forms: &Forms, text: &str, found: &mut Vec<Registered>) {
    for form in forms.decorator.captures_iter(text) {
        let (Some(whole), Some(by)) = (form.get(0), form.name("by")) else { continue };
        let rest = reach(text, whole.end());
        let inside = if form.name("open").is_some() { arguments(rest) } else { "" };
        let own = quoted(&forms.first_text, inside).or_else(|| quoted(&forms.named, inside));
        let defined =
            || forms.definition.captures(rest).and_then(|found| Some(found.name("name")?.as_str().to_owned()));
        let is_guarded =
            forms.of_server.is_match(by.as_str()) || forms.guard.is_match(&decorators(text, whole.start()));
        add(found, text, &form, "@", own.or_else(defined), is_guarded);
    }
    for form in forms.constructor.captures_iter(text) {
        let Some(whole) = form.get(0) else { continue };
        let inside = arguments(reach(text, whole.end()));
        let mut words = inside.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        let is_guarded = words.any(|word| is_guarded_function(forms, text, word));
        add(found, text, &form, "", quoted(&forms.named, inside), is_guarded);
    }
    for form in forms.unwrapped.captures_iter(text) {
        let name = form.name("name").map(|name| name.as_str().to_owned());
        let Some((by, name)) = form.name("by").zip(name) else { continue };
        let line = text.get(..by.start()).unwrap_or_default().matches('\n').count() + 1;
        found.push(Registered { line, name, by: WRAPPED.to_owned(), is_guarded: false });
    }
}

fn javascript(forms: &Forms, text: &str, asks: bool, found: &mut Vec<Registered>) {
    for form in forms.method.captures_iter(text) {
        let Some(whole) = form.get(0) else { continue };
        let inside = arguments(reach(text, whole.end()));
        let named = quoted(&forms.first_text, inside).or_else(|| quoted(&forms.property, inside));
        add(found, text, &form, "", named, true);
    }
    for form in forms.maker.captures_iter(text) {
        let Some(whole) = form.get(0) else { continue };
        let named = quoted(&forms.property, arguments(reach(text, whole.end())));
        let before = text.get(..whole.start()).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        add(found, text, &form, "", named.or_else(|| quoted(&forms.key, line)), asks);
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
fn is_guarded_function(forms: &Forms, text: &str, name: &str) -> bool {
    let defined =
        forms.definition.captures_iter(text).find(|form| form.name("name").is_some_and(|own| own.as_str() == name));
    let Some(whole) = defined.and_then(|form| form.get(0)) else { return false };
    let above: Vec<&str> = text
        .get(..whole.start())
        .unwrap_or_default()
        .lines()
        .rev()
        .take_while(|line| !line.trim().is_empty())
        .take(MOST_LINES)
        .collect();
    forms.guard.is_match(&above.join("\n"))
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
    let mut end = text.len().min(from + REACH);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(from..end).unwrap_or_default()
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
