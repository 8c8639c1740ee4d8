//! The face over standard input and output: one client, whose end is ours.

use std::sync::Arc;

use rmcp::{
    RoleServer,
    service::{ServerInitializeError, serve_server_with_ct},
    transport::async_rw::AsyncRwTransport,
};
use tokio_util::sync::CancellationToken;

use super::{
    face::Face,
    gateway::{Caller, Gateway},
};

/// Largest message of a client.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Serves the client on standard input and output until it leaves or `stop` is cancelled; then ends the servers.
///
/// # Errors
/// The client did not shake hands.
pub async fn serve_stdio(
    gateway: Arc<Gateway>,
    caller: Caller,
    stop: CancellationToken,
) -> Result<(), Box<ServerInitializeError>> {
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let transport = AsyncRwTransport::<RoleServer, _, _>::new(input, output).with_max_line_length(MAX_MESSAGE);
    let face = Face::alone(Arc::clone(&gateway), caller);
    let served = match serve_server_with_ct(face, transport, stop).await {
        Ok(running) => {
            drop(running.waiting().await);
            Ok(())
        }
        // It left before it said anything: that is its right.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(Box::new(error)),
    };
    gateway.close().await;
    served
}
