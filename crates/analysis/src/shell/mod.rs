//! Reader of shell scripts: text in, the calls that it makes out.
//!
//! 1. [`parse()`] turns a script into pipelines of commands, with quotes resolved and its own variables replaced.
//!    `reader` walks the syntax tree, `words` evaluates words.
//! 2. [`resolve()`] removes wrappers such as `sudo` and `xargs`. It returns the calls that do the work, and the scripts
//!    within them (`bash -c`, here-documents, `ssh host …`), which the caller reads in turn.
//! 3. [`targets`] gives the kind of a path, [`printed`] the output of a pipeline, [`purpose`] the purpose of a call.
//! 4. [`parse_plain_line()`] gives the commands of a line only if the line does nothing beside running them.
//!
//! All of these spend from one [`ScriptBudget`] an event, so no text costs more than its length and a small bound.
//! [`Parsed::unread_from`] says what part of a script was left unread.

mod budget;
mod call;
mod calls;
mod lines;
mod parse;
mod plain;
pub mod printed;
mod purposes;
mod reader;
mod resolve;
pub mod targets;
#[cfg(test)]
mod tests;
mod words;
mod wrappers;

pub use self::{
    budget::ScriptBudget,
    call::{FOUND, PipedArguments, ProgramCall},
    calls::calls,
    lines::{has_interpreter, is_command, looks_like_shell, names_program},
    parse::{LONGEST_SCRIPT, Parsed, Pipeline, ShellCommand, Word, parse, prompt_len},
    plain::{EXPANDS, parse_plain_line},
    purposes::{Purpose, programs, purpose},
    resolve::{NestedScript, Resolved, file_run, is_denied, is_shell, resolve},
    wrappers::with_arguments,
};
