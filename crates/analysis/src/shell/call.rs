//! One program that is run, as the rules see it: its name, its arguments, and what surrounds it.

use std::ops::Range;

use super::{
    parse::Word,
    targets::{Target, classify},
};

/// Arguments that a call is given by what stands before it in the pipeline.
#[derive(Debug, Clone, Default)]
pub struct Fed {
    /// The command that prints them, as written.
    pub shown: String,
    /// The words themselves, where they are known.
    pub words: Vec<String>,
    /// The directory under which they lie.
    pub root: Option<String>,
    /// Not everything in it is meant.
    pub filtered: bool,
}

/// One program that is run, with its arguments, after its wrappers were taken away.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The program's name in lower case, without directory and `.exe`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<Word>,
    /// Files that its output is sent to.
    pub writes: Vec<Word>,
    /// Files that it is given to read.
    pub reads: Vec<Word>,
    /// What a here-document or here-string, or an `echo` before the pipe, gives it to read.
    pub given: Option<String>,
    /// The wrapper that raises its rights.
    pub raised_by: Option<String>,
    /// What starts it on another host, in a container, or once for each of many things.
    pub via: Option<String>,
    /// Who names its arguments, where that is another command.
    pub fed: Option<Fed>,
    /// Programs whose output is the program's name.
    pub runs: Vec<String>,
    /// The name ends in `.exe`.
    pub is_exe: bool,
    /// Directory that an earlier `cd` went to, and whether it surely did.
    pub dir: Option<(String, bool)>,
    /// Where it stands in the script.
    pub span: Range<usize>,
}

impl Call {
    /// Whether a short option (in a cluster such as `-rf`) or a long one is given.
    pub fn has(&self, short: char, long: &str) -> bool {
        self.args.iter().map(|arg| arg.text.as_str()).take_while(|arg| *arg != "--").any(|arg| {
            match arg.strip_prefix("--") {
                Some(name) => {
                    // Programs of GNU take any beginning that is clear.
                    !long.is_empty()
                        && (name.len() >= 3 && long.starts_with(name)
                            || name.strip_prefix(long).is_some_and(|rest| rest.starts_with('=')))
                }
                None => arg.len() > 1 && arg.starts_with('-') && arg.contains(short),
            }
        })
    }

    /// Whether a long option is given.
    pub fn has_long(&self, long: &str) -> bool {
        self.args.iter().filter_map(|arg| arg.text.strip_prefix("--")).any(|name| name == long)
    }

    /// Whether an argument is exactly this.
    pub fn says(&self, word: &str) -> bool {
        self.args.iter().any(|arg| arg.text == word)
    }

    /// Whether an argument is one of these, in any case.
    pub fn says_any(&self, words: &[&str]) -> bool {
        self.args.iter().any(|arg| words.iter().any(|word| arg.text.eq_ignore_ascii_case(word)))
    }

    /// The arguments that are no options.
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

    /// What stands at a path that the call names, from where it runs.
    pub fn target(&self, path: &str) -> Target {
        let alone = classify(path);
        let absolute = path.starts_with(['/', '~', '$', '\\']) || path.as_bytes().get(1) == Some(&b':');
        let Some((dir, sure)) = self.dir.as_ref().filter(|_| !absolute) else { return alone };
        let there = classify(&format!("{}/{path}", dir.trim_end_matches('/')));
        if *sure && there <= Target::Rebuilt { there } else { alone.max(there) }
    }

    /// The call as it was written, shortened for a description.
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

/// As what a word is written that another command names.
pub const FOUND: &str = "{}";
