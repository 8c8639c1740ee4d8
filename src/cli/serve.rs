//! `umbra serve`.

use std::net::SocketAddr;

use super::{Failure, Global, answer, start_logs};
use crate::app;

pub(super) async fn run(global: &Global, bind: Option<SocketAddr>) -> Result<(), Failure> {
    let setup = global.setup(bind)?;
    start_logs(&setup, setup.settings.logging.level.as_str());
    match app::serve(setup, |ready| answer(&format!("listening on http://{}", ready.address))).await {
        Err(error) => match error.downcast_ref::<crate::config::Report>() {
            Some(report) => {
                super::complain(&report.to_string());
                Err(Failure::Said)
            }
            None => Err(error.into()),
        },
        Ok(()) => Ok(()),
    }
}
