//! Call of one program as rules see it: name, arguments, and context.

use std::ops::Range;

use super::{
    parse::Word,
    targets::{PathKind, classify},
};

/// Arguments that the command before it in the pipeline gives to a call, as through `xargs`.
#[derive(Debug, Clone, Default)]
pub struct PipedArguments {
    /// Command that prints them, as written, shortened for a description.
    pub shown: String,
    /// The words themselves; empty if they are not known.
    pub words: Vec<String>,
    /// Directory that the words lie under, where the command lists files.
    pub root: Option<String>,
    /// True if only some of the directory's content is meant, as after a filter.
    pub filtered: bool,
}

/// Call of one program with its arguments, after its wrappers were taken away.
#[derive(Debug, Clone, Default)]
pub struct ProgramCall {
    /// Name in lower case, without directory and `.exe`; empty for a redirection alone, such as `> FILE`.
    pub program: String,
    /// Arguments, in order.
    pub args: Vec<Word>,
    /// Files that receive the output.
    pub writes: Vec<Word>,
    /// Files that are redirected to the input.
    pub reads: Vec<Word>,
    /// Text of the input, from a here-document, a here-string, or an `echo` before the pipe.
    pub given: Option<String>,
    /// Wrapper that raises the rights, such as `sudo`.
    pub raised_by: Option<String>,
    /// Command that starts the call on another host, in a container, or once for each of many items.
    pub via: Option<String>,
    /// Arguments that another command prints.
    pub fed: Option<PipedArguments>,
    /// Programs within a substitution that gives the name, as in `$(cat FILE) -rf x`.
    pub runs: Vec<String>,
    /// True if the name was written with `.exe`.
    pub is_exe: bool,
    /// Directory of an earlier `cd`, and true if the call runs only where the `cd` worked. [`super::resolve()`] leaves
    /// it empty; the caller knows the commands before.
    pub dir: Option<(String, bool)>,
    /// Byte range in the script.
    pub span: Range<usize>,
}

impl ProgramCall {
    /// True if a short option (in a cluster such as `-rf`) or a long one is given. An empty `long` means none.
    pub fn has(&self, short: char, long: &str) -> bool {
        self.args.iter().map(|arg| arg.text.as_str()).take_while(|arg| *arg != "--").any(|arg| {
            match arg.strip_prefix("--") {
                Some(name) => {
                    // Programs of GNU accept any unambiguous prefix.
                    !long.is_empty()
                        && (name.len() >= 3 && long.starts_with(name)
                            || name.strip_prefix(long).is_some_and(|rest| rest.starts_with('=')))
                }
                None => arg.len() > 1 && arg.starts_with('-') && arg.contains(short),
            }
        })
    }

    /// True if a long option is given, by its whole name and without a value.
    pub fn has_long(&self, long: &str) -> bool {
        self.args.iter().filter_map(|arg| arg.text.strip_prefix("--")).any(|name| name == long)
    }

    /// True if an argument is exactly this word.
    pub fn has_argument(&self, word: &str) -> bool {
        self.args.iter().any(|arg| arg.text == word)
    }

    /// True if an argument is one of these words, in upper or lower case.
    pub fn says_any(&self, words: &[&str]) -> bool {
        self.args.iter().any(|arg| words.iter().any(|word| arg.text.eq_ignore_ascii_case(word)))
    }

    /// Returns the arguments that are no options.
    pub fn operands(&self) -> impl Iterator<Item = &str> {
        let mut all = false;
        self.args.iter().map(|arg| arg.text.as_str()).filter(move |arg| {
            if *arg == "--" && !all {
                all = true;
                return false;
            }
            all || !arg.starts_with('-')
        })
    }

    /// Returns the kind of a path that the call names, seen from the directory that the call runs in.
    pub fn target(&self, path: &str) -> PathKind {
        let alone = classify(path);
        let absolute = path.starts_with(['/', '~', '$', '\\']) || path.as_bytes().get(1) == Some(&b':');
        let Some((dir, sure)) = self.dir.as_ref().filter(|_| !absolute) else { return alone };
        let there = classify(&format!("{}/{path}", dir.trim_end_matches('/')));
        if *sure && there <= PathKind::Rebuilt { there } else { alone.max(there) }
    }

    /// Returns the call as written, shortened to 80 characters for a description.
    pub fn shown(&self) -> String {
        if let Some(to) = self.writes.first().filter(|_| self.program.is_empty()) {
            return format!("> {}", to.raw);
        }
        let piped = matches!(self.program.as_str(), "remove-item" | "ri" | "del" | "rd");
        let by_xargs = self.fed.is_some() && self.via.is_none() && !piped;
        shown(if by_xargs { "xargs " } else { "" }, &self.program, &self.args, 80)
    }
}

pub(super) fn shown(before: &str, program: &str, args: &[Word], longest: usize) -> String {
    let mut shown = format!("{before}{program}");
    for arg in args.iter().filter(|arg| arg.raw != FOUND) {
        if shown.len() > 8 * longest {
            break;
        }
        shown.push(' ');
        shown.push_str(&arg.raw);
    }
    if shown.chars().count() > longest {
        shown = shown.chars().take(longest - 1).chain(['…']).collect();
    }
    shown.replace(['\n', '\r'], " ")
}

/// Written form ([`Word::raw`]) of a word that another command names.
pub const FOUND: &str = "{}";
