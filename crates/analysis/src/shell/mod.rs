//! Reader of shell scripts: text in, the calls that it makes out.
//!
//! 1. [`parse()`] turns a script into pipelines of commands, with quotes resolved and the values of its own variables put
//!    in. `reader` walks the syntax tree, `words` evaluates words.
//! 2. [`resolve()`] takes wrappers such as `sudo` and `xargs` away. It gives the calls that do the work, and the scripts
//!    within them (`bash -c`, here-documents, `ssh host …`), which the caller reads in turn.
//! 3. [`targets`] tells what a path means, [`printed`] what a pipeline prints, [`purpose`] what a call is for.
//! 4. [`plain()`] gives the commands of a line only if the line does nothing beside running them.
//!
//! All of it spends from one [`Budget`] an event, so that no text costs more than its length and a small bound. What a
//! script has left unread is told by [`Parsed::unread_from`].

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
    budget::Budget,
    call::{Call, FOUND, Fed},
    calls::calls,
    lines::{has_interpreter, is_command, looks_like_shell, names_program},
    parse::{Command, LONGEST_SCRIPT, Parsed, Pipeline, Word, parse, prompt_len},
    plain::plain,
    purposes::{Purpose, programs, purpose},
    resolve::{Inner, Resolved, file_run, is_denied, is_shell, resolve},
    wrappers::with_arguments,
};
