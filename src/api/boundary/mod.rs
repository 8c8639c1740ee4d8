//! Endpoints of the boundary around tools: `/v1/decide`, `/v1/calls`, `/v1/execution`, `/v1/approvals`, `/v1/audit`,
//! `/v1/runs`, `/v1/contracts`, `/v1/drift`, `/v1/gate`.

pub mod approvals;
pub mod audit;
pub mod contracts;
pub mod decide;
pub mod drift;
pub mod execution;
pub mod gate;
pub mod runs;
