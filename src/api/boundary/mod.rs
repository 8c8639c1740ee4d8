//! The boundary around tools: `/v1/decide` and `/v1/calls`, `/v1/execution`, `/v1/approvals`, `/v1/audit`.

pub mod approvals;
pub mod audit;
pub mod decide;
pub mod execution;
