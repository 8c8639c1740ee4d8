//! Languages of source text, by the name of a fenced block, by a file's ending, and by the lines of a text.

use crate::shell;

use self::Place::{Begins, Ends, Holds};

/// Language of a source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// Any shell.
    Shell,
    /// Python.
    Python,
    /// JavaScript and TypeScript.
    JavaScript,
    /// Ruby.
    Ruby,
    /// PHP.
    Php,
    /// Perl.
    Perl,
    /// Go.
    Go,
    /// Rust.
    Rust,
    /// Java and its relatives.
    Java,
}

/// Names of languages, as in fenced blocks and file endings.
const NAMES: [(Language, &str); 9] = [
    (
        Language::Shell,
        "bash sh shell zsh ksh dash ash fish csh tcsh console terminal shellscript shell-script shell-session shellsession \
         bash-session sh-session powershell pwsh ps1 cmd bat batch",
    ),
    (Language::Python, "python python3 py"),
    (Language::JavaScript, "js javascript jsx mjs cjs ts tsx typescript node"),
    (Language::Ruby, "ruby rb rake"),
    (Language::Php, "php"),
    (Language::Perl, "perl pl"),
    (Language::Go, "go golang"),
    (Language::Rust, "rust rs"),
    (Language::Java, "java kt groovy scala"),
];

impl Language {
    /// Language with this name or file ending, in upper or lower case.
    pub fn named(name: &str) -> Option<Self> {
        let is = |(_, names): &&(Self, &str)| names.split(' ').any(|known| known.eq_ignore_ascii_case(name));
        NAMES.iter().find(is).map(|(language, _)| *language)
    }
}

/// Content of a text without a name, as far as its lines tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Source text, with its language where the lines show it.
    Code(Option<Language>),
    /// Sentences.
    Prose,
}

/// Position of a sign in a line.
#[derive(Debug, Clone, Copy)]
enum Place {
    Begins,
    Holds,
    Ends,
}

/// Signs of languages in a line; the first match counts.
const SIGNS: &[(Language, Place, &[&str])] = &[
    (Language::Php, Begins, &["<?php", "<?=", "public function ", "private function ", "protected function "]),
    (Language::Php, Begins, &["public static function ", "foreach ($", "if (!$", "if ($", "return $this"]),
    (Language::Php, Holds, &["$this->", "::class", " => $", ") use ("]),
    (Language::Go, Begins, &["package ", "func ", "func(", "import (", "defer ", "go func", "if err ", "var ("]),
    (Language::Go, Holds, &[" := ", " != nil", "fmt."]),
    (Language::Rust, Begins, &["fn ", "pub fn ", "pub struct ", "let mut ", "impl ", "impl<", "#[", "pub(crate)"]),
    (Language::Rust, Holds, &["&mut ", ".unwrap()", "println!(", "::new("]),
    (Language::Java, Begins, &["public class ", "public static ", "public void ", "private static ", "import java"]),
    (Language::Java, Holds, &["System.out.", "String[] "]),
    (Language::Perl, Begins, &["my $", "my @", "my %", "our $", "use strict", "use warnings", "sub "]),
    (Language::Perl, Holds, &[" =~ s/", " =~ m/", " =~ /"]),
    (Language::Python, Begins, &["async def ", "elif ", "except ", "except:", "try:", "else:", "finally:"]),
    (Language::Python, Begins, &["if __name__", "import ", "@pytest", "@property", "raise ", "assert ", "print("]),
    (Language::Python, Begins, &["yield ", "from .", "\"\"\"", "return self"]),
    (Language::Python, Holds, &["self.", " is not None", " is None", " f\"", "(f\"", " import "]),
    (Language::Python, Ends, &["):", "]:"]),
    (
        Language::JavaScript,
        Begins,
        &["const ", "let {", "async function", "module.exports", "exports.", "export default"],
    ),
    (
        Language::JavaScript,
        Begins,
        &["export const", "export function", "export class", "export {", "});", "throw new"],
    ),
    (Language::JavaScript, Begins, &["await ", "import {", "import * as", "document.", "window.", "describe(", "it('"]),
    (Language::JavaScript, Holds, &[" => ", "require(", "===", "!==", "function (", "function(", "console.log"]),
    (Language::Ruby, Begins, &["require '", "require \"", "require_relative", "module ", "attr_", "puts ", "unless "]),
    (
        Language::Ruby,
        Begins,
        &["elsif ", "rescue", "include ", "class << self", "system '", "system \"", "sh '", "sh \""],
    ),
    (Language::Ruby, Holds, &[" do |", ".each ", "#{", ".nil?", ", :"]),
    (Language::Ruby, Ends, &[" do"]),
];

/// Beginnings of lines that are grammar of a shell and name no program.
const SHELL_LINES: &str = "\
    if [|if !|elif [|then|fi|done|esac|while [|while read|while ! |until |[[ |[ |local |export |readonly |declare |\
    typeset |set -|trap |source |shift";

/// Parts of lines that are rare outside of shells.
const SHELL_PARTS: [&str; 12] =
    ["; then", "; do", " in \"$", "\"$(", "=$(", "=\"$", "\"${", " 2>", ">&2", "/dev/null", " | ", " && "];

/// Most lines of a text that are read.
const MOST_LINES: usize = 100;

/// Longest part of a line that is read, in bytes.
const LONGEST_LINE: usize = 200;

/// Lines of a text by kind; a line may count for several.
#[derive(Debug, Default)]
struct Votes {
    shell: usize,
    code: usize,
    prose: usize,
    languages: Vec<(Language, usize)>,
}

/// Returns the content of a text, by the majority of its lines. A text without other signs counts as a command, as
/// shell.
pub fn content(text: &str) -> Content {
    let Votes { shell, code, prose, languages } = votes(text);
    if code == 0 && prose == 0 || shell > code && shell >= prose {
        return Content::Code(Some(Language::Shell));
    }
    let language = languages.into_iter().max_by_key(|(_, votes)| *votes).map(|(language, _)| language);
    if code >= prose { Content::Code(language) } else { Content::Prose }
}

/// True if the lines of a part of a longer text are mostly shell.
pub fn shows_shell(part: &str) -> bool {
    let votes = votes(part);
    votes.shell > votes.code && votes.shell >= votes.prose
}

fn votes(text: &str) -> Votes {
    let mut votes = Votes::default();
    // End of the here-document that the lines belong to.
    let mut given: Option<&str> = None;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    for line in lines.map(shortened).take(MOST_LINES) {
        if let Some(end) = given {
            given = (line != end).then_some(end);
            continue;
        }
        if is_remark(line) {
            continue;
        }
        let (shell, sign) = (is_shell(line), sign(line));
        let code = sign.is_some() || is_code(line);
        votes.shell += usize::from(shell);
        votes.code += usize::from(code);
        votes.prose += usize::from(!shell && !code && is_sentence(line));
        if let Some(language) = sign {
            match votes.languages.iter_mut().find(|(known, _)| *known == language) {
                Some((_, count)) => *count += 1,
                None => votes.languages.push((language, 1)),
            }
        }
        given = here_document(line).filter(|_| shell);
    }
    votes
}

fn shortened(line: &str) -> &str {
    line.get(..line.floor_char_boundary(LONGEST_LINE)).unwrap_or(line).trim_end()
}

/// True for comments and for brackets alone.
fn is_remark(line: &str) -> bool {
    let comment = ["# ", "#!", "//", "/*", "* ", "*/", "--"].iter().any(|sign| line.starts_with(sign)) || line == "#";
    comment || line.chars().all(|c| matches!(c, '(' | ')' | '[' | ']' | '{' | '}' | ',' | ';'))
}

fn sign(line: &str) -> Option<Language> {
    let has = |place: Place, sign: &str| match place {
        Begins => line.starts_with(sign),
        Holds => line.contains(sign),
        Ends => line.ends_with(sign),
    };
    // The head of a function ends with a colon in Python, and with its name or its arguments in Ruby.
    if line.starts_with("def ") && !line.ends_with(['(', ',']) {
        return Some(if line.ends_with(':') { Language::Python } else { Language::Ruby });
    }
    if line == "end" {
        return Some(Language::Ruby);
    }
    let found = SIGNS.iter().find(|(_, place, signs)| signs.iter().any(|sign| has(*place, sign)));
    // A variable that is assigned to or called, with blanks that no shell allows.
    let variable = || line.starts_with('$') && [" = ", "->", "[] "].iter().any(|sign| line.contains(sign));
    found.map(|(language, ..)| *language).or_else(|| variable().then_some(Language::Php))
}

fn is_shell(line: &str) -> bool {
    let prompt = shell::prompt_len(line.as_bytes());
    let line = line.get(prompt..).unwrap_or_default().trim_start();
    let (name, rest) = line.split_once('=').unwrap_or_default();
    let assigns = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !rest.starts_with([' ', '=', '>'])
        && !rest.ends_with([',', ';']);
    let function = line.strip_suffix('{').and_then(|line| line.trim_end().strip_suffix("()"));
    let function = function.is_some_and(|name| !name.trim_end().contains(' '));
    shell::is_command(line)
        || assigns
        || function
        || SHELL_LINES.split('|').any(|sign| line.starts_with(sign))
        || SHELL_PARTS.iter().any(|sign| line.contains(sign)) && !line.starts_with("if (")
}

/// Returns the word that ends the here-document that a command opens.
pub(super) fn here_document(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("<<").filter(|(_, rest)| !rest.starts_with('<'))?;
    let word = rest.trim_start_matches(['-', '~', ' ', '\'', '"', '\\']);
    let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
    word.get(..end).filter(|word| !word.is_empty())
}

/// True for assignments, calls, blocks and statements of any language.
fn is_code(line: &str) -> bool {
    const ENDS: [&str; 9] = ["{", "(", "[", "}", "},", "),", "],", "\",", "',"];
    const CONTROL: [&str; 7] = ["if (", "} else", "for (", "while (", "switch (", "foreach (", "class "];
    let call = line.find('(').is_some_and(|at| {
        let (name, rest) = line.split_at(at);
        let path = |byte: u8| byte.is_ascii_alphanumeric() || b"._@!?".contains(&byte);
        !name.is_empty() && name.bytes().all(path) && (!rest.starts_with("()") || rest.starts_with("()."))
    });
    call || line.contains(" = ")
        || line.ends_with(';') && !line.ends_with(";;")
        || ENDS.iter().any(|end| line.ends_with(end))
        || CONTROL.iter().any(|sign| line.starts_with(sign))
}

/// True if a line has several words and does not begin like a command.
fn is_sentence(line: &str) -> bool {
    let first = line.chars().next().unwrap_or_default();
    line.split_whitespace().filter(|word| word.contains(char::is_alphabetic)).count() >= 3
        && (first.is_uppercase() || matches!(first, '-' | '*' | '>' | '0'..='9') || line.ends_with(['.', ',', ':']))
}
