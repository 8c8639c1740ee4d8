//! `umbra serve`: serves the API and reviews events.

use std::net::SocketAddr;

use super::{CommandFailure, GlobalOptions, answer, complain};
use crate::app;

pub(super) async fn run(global: &GlobalOptions, bind: Option<SocketAddr>) -> Result<(), CommandFailure> {
    let setup = global.setup(bind)?;
    setup.warnings.iter().for_each(|warning| complain(&warning.to_string()));
    setup.start_logs(setup.settings.logging.level.as_str());
    Ok(Box::pin(app::serve(setup, |address| answer(&format!("listening on http://{address}")))).await?)
}
