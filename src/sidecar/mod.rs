//! The sidecar: the companion of one agent's session. Each part is a library of its own, pure, and asks no model.

pub mod tools;
