//! Tools that an agent's code registers, found in its text: decorators and constructors of the common frameworks for
//! Python and JavaScript. Conservative: what is not plainly a registration is not named. It runs nothing.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

/// Furthest that a name is looked for behind what registers it, in bytes.
const REACH: usize = 600;
/// Most tools of one text.
const MAX_FOUND: usize = 1_000;

/// A tool that a text registers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Registered {
    /// Line, from 1.
    pub line: usize,
    /// The tool's name.
    pub name: String,
    /// By what it is registered, as `@tool`.
    pub by: String,
}

/// What a text is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Python.
    Python,
    /// JavaScript and TypeScript.
    JavaScript,
}

impl Language {
    /// The language of files with this ending.
    pub fn of_extension(extension: &str) -> Option<Self> {
        match extension {
            "py" | "pyi" => Some(Self::Python),
            "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" => Some(Self::JavaScript),
            _ => None,
        }
    }
}

/// `@tool`, `@mcp.tool(...)`, `@function_tool`, and what else frameworks call it.
const DECORATOR: &str = r"(?m)^[ \t]*@(?P<by>(?:\w+\.)*(?:tool|function_tool|beta_tool|ai_function|kernel_function|tool_plain|agent_tool))\b(?P<open>\()?";
/// Constructors that take a name.
const CONSTRUCTOR: &str = r"\b(?P<by>Tool|StructuredTool|StructuredTool\.from_function|FunctionTool|FunctionTool\.from_defaults|Tool\.from_function)\(";
const DEFINITION: &str = r"(?m)^[ \t]*(?:async[ \t]+)?def[ \t]+(?P<name>\w+)";
const NAMED: &str = r#"\bname\s*=\s*(?:"(?P<double>[^"\n]{1,128})"|'(?P<single>[^'\n]{1,128})')"#;
const FIRST_TEXT: &str = r#"^\s*(?:"(?P<double>[^"\n]{1,128})"|'(?P<single>[^'\n]{1,128})')"#;
/// `server.tool("name", ...)`, `registerTool("name", ...)`.
const METHOD: &str = r"\b(?P<by>(?:\w*(?:[sS]erver|[mM]cp)\w*\.)(?:tool|registerTool|addTool)|registerTool)\(";
const MAKER: &str =
    r"\b(?P<by>tool|defineTool|createTool|new DynamicTool|new DynamicStructuredTool|new FunctionTool)\(";
const PROPERTY: &str =
    r#"\bname\s*:\s*(?:"(?P<double>[^"\n]{1,128})"|'(?P<single>[^'\n]{1,128})'|`(?P<tick>[^`\n$]{1,128})`)"#;
/// A function as models are told of it: `{"type": "function", "function": {"name": "x"`.
const FUNCTION: &str = r#"["']?type["']?\s*:\s*["']function["']\s*,\s*["']?(?P<by>function)["']?\s*:\s*\{"#;
const FUNCTION_NAME: &str = r#"["']name["']\s*:\s*(?:"(?P<double>[^"\n]{1,128})"|'(?P<single>[^'\n]{1,128})')"#;

struct Forms {
    decorator: Regex,
    constructor: Regex,
    definition: Regex,
    named: Regex,
    first_text: Regex,
    method: Regex,
    maker: Regex,
    property: Regex,
    function: Regex,
    function_name: Regex,
}

/// None only if a form above were no regular expression; a test says that all are.
static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    let form = |text: &str| Regex::new(text).ok();
    Some(Forms {
        decorator: form(DECORATOR)?,
        constructor: form(CONSTRUCTOR)?,
        definition: form(DEFINITION)?,
        named: form(NAMED)?,
        first_text: form(FIRST_TEXT)?,
        method: form(METHOD)?,
        maker: form(MAKER)?,
        property: form(PROPERTY)?,
        function: form(FUNCTION)?,
        function_name: form(FUNCTION_NAME)?,
    })
});

/// The tools that a text registers, in its order.
pub fn scan(text: &str, language: Language) -> Vec<Registered> {
    let Some(forms) = FORMS.as_ref() else { return Vec::new() };
    let mut found = Vec::new();
    match language {
        Language::Python => {
            for form in forms.decorator.captures_iter(text) {
                let Some(whole) = form.get(0) else { continue };
                let rest = reach(text, whole.end());
                let inside = if form.name("open").is_some() { arguments(rest) } else { "" };
                let own = quoted(&forms.first_text, inside).or_else(|| quoted(&forms.named, inside));
                let defined =
                    || forms.definition.captures(rest).and_then(|found| Some(found.name("name")?.as_str().to_owned()));
                add(&mut found, text, &form, "@", own.or_else(defined));
            }
            for form in forms.constructor.captures_iter(text) {
                let Some(whole) = form.get(0) else { continue };
                add(&mut found, text, &form, "", quoted(&forms.named, arguments(reach(text, whole.end()))));
            }
        }
        Language::JavaScript => {
            for form in forms.method.captures_iter(text) {
                let Some(whole) = form.get(0) else { continue };
                let inside = arguments(reach(text, whole.end()));
                let named = quoted(&forms.first_text, inside).or_else(|| quoted(&forms.property, inside));
                add(&mut found, text, &form, "", named);
            }
            for form in forms.maker.captures_iter(text) {
                let Some(whole) = form.get(0) else { continue };
                add(&mut found, text, &form, "", quoted(&forms.property, arguments(reach(text, whole.end()))));
            }
        }
    }
    for form in forms.function.captures_iter(text) {
        let Some(whole) = form.get(0) else { continue };
        add(&mut found, text, &form, "", quoted(&forms.function_name, reach(text, whole.end())));
    }
    found.sort();
    found.dedup_by(|a, b| a.line == b.line && a.name == b.name);
    found.truncate(MAX_FOUND);
    found
}

fn add(found: &mut Vec<Registered>, text: &str, form: &regex::Captures<'_>, sign: &str, name: Option<String>) {
    let (Some(name), Some(by)) = (name, form.name("by")) else { return };
    let before = text.get(..by.start()).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let beginning = before.get(line_start..).unwrap_or_default().trim_start();
    // Comments, and names that merely end so.
    if beginning.starts_with('#') || beginning.starts_with("//") || beginning.starts_with('*') {
        return;
    }
    if sign.is_empty() && before.ends_with(['.', '_', '$', '"', '\'']) && by.as_str() != "function" {
        return;
    }
    let line = before.matches('\n').count() + 1;
    found.push(Registered { line, name, by: format!("{sign}{}", by.as_str()) });
}

/// What follows, as far as a name is looked for.
fn reach(text: &str, from: usize) -> &str {
    let mut end = text.len().min(from + REACH);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(from..end).unwrap_or_default()
}

/// What stands between an opened bracket and its closing one.
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
