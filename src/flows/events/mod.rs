//! Use case: an event is accepted, from its screening to the answer after the commit.

pub mod accept;
pub mod nonce;
pub mod pending;
pub mod plan;
pub mod writer;

pub use self::{
    accept::Origin,
    pending::{AcceptError, Accepted},
    writer::{Writer, WriterSettings},
};
