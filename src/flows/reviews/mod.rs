//! Use case: a review, from its lease to its findings, and reviews asked for later or without an event.

pub mod call;
pub mod catch_up;
pub mod dossier;
pub mod recall;
pub mod trial;
pub mod work;

pub use self::work::Worker;
