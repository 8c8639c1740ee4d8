//! Reader of source text in languages other than shell: text in, the commands that it starts out.
//!
//! [`language`] tells what a text is, [`started`] reads its literals, names and brackets, and goes by the table of calls. It
//! parses no grammar: a text that is cut off or in two languages is read as far as it goes.

mod calls;
mod language;
mod reader;
mod tokens;

pub use self::{
    calls::Does,
    language::{Content, Language, content, shows_shell},
    reader::{Started, is_open, may_start, started},
};

#[cfg(test)]
mod tests;
