//! Reader of source text in languages other than shell. In: source text. Out: the calls that start commands, delete
//! directories or run text as code. `language` tells a text's language. [`started`] reads literals, names and brackets,
//! and looks calls up in the table in `calls`. No grammar is parsed, so a text that is cut off or in two languages is
//! read as far as possible.

mod calls;
mod language;
mod reader;
mod tokens;

pub use self::{
    calls::CallMeaning,
    language::{Content, Language, content, shows_shell},
    reader::{Started, is_open, may_start, started},
};

#[cfg(test)]
mod tests;
