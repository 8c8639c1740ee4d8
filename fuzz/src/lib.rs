//! The rooms under fuzz, from the service's own files: without the database, the web and the models they build in a
//! fraction of the time. `tests/it/house.rs` holds that their dependencies are those of the service.

#[path = "../../src/checks/mod.rs"]
pub mod checks;
#[path = "../../src/domain/mod.rs"]
pub mod domain;
#[path = "../../src/review/mod.rs"]
pub mod review;
