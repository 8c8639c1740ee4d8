//! What servers say unasked, on its way to the clients that listen.

#![expect(deprecated, reason = "log messages are part of 2025-11-25")]

use std::time::Duration;

use rmcp::{
    RoleServer,
    model::{LoggingMessageNotificationParam, ResourceUpdatedNotificationParam},
    service::{Peer, ServiceError, SubscriptionContext},
};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::timeout,
};

/// Messages that a slow client may be behind before it loses some.
pub(super) const BACKLOG: usize = 256;

/// How long a client may be gone before that is noticed, where servers have nothing to say.
const LOOK_UP: Duration = Duration::from_secs(30);

/// What a server said.
#[derive(Debug, Clone)]
pub(super) enum News {
    /// The tools of a server are others.
    Tools,
    /// Its prompts are others.
    Prompts,
    /// Its resources are others.
    Resources,
    /// A resource that is subscribed to is another.
    Resource(ResourceUpdatedNotificationParam),
    /// A log message for the client.
    Log(LoggingMessageNotificationParam),
}

/// Tells a client of before 2026-07-28 what changed, until it is gone; with `alone`, where nobody else uses the servers,
/// also what they log and what it subscribed to.
pub(super) async fn tell_all(mut news: Receiver<News>, to: Peer<RoleServer>, alone: bool) {
    loop {
        let Ok(heard) = timeout(LOOK_UP, news.recv()).await else {
            if to.is_transport_closed() {
                return;
            }
            continue;
        };
        let told = match heard {
            Ok(News::Tools) => to.notify_tool_list_changed().await,
            Ok(News::Prompts) => to.notify_prompt_list_changed().await,
            Ok(News::Resources) => to.notify_resource_list_changed().await,
            Ok(News::Resource(said)) if alone => to.notify_resource_updated(said).await,
            Ok(News::Log(said)) if alone => log(&to, said).await,
            Ok(_) | Err(RecvError::Lagged(_)) => Ok(()),
            Err(RecvError::Closed) => return,
        };
        if told.is_err() {
            return;
        }
    }
}

async fn log(to: &Peer<RoleServer>, said: LoggingMessageNotificationParam) -> Result<(), ServiceError> {
    to.notify_logging_message(said).await
}

/// Tells a subscription what it asked for, until it ends.
pub(super) async fn tell_subscriber(mut news: Receiver<News>, to: SubscriptionContext) {
    let wanted = to.accepted().clone();
    let on = |flag: Option<bool>| flag.unwrap_or(false);
    loop {
        let heard = tokio::select! {
            () = to.cancelled() => return,
            heard = news.recv() => heard,
        };
        let told = match heard {
            Ok(News::Tools) if on(wanted.tools_list_changed) => to.sink().notify_tool_list_changed().await,
            Ok(News::Prompts) if on(wanted.prompts_list_changed) => to.sink().notify_prompt_list_changed().await,
            Ok(News::Resources) if on(wanted.resources_list_changed) => to.sink().notify_resource_list_changed().await,
            Ok(_) | Err(RecvError::Lagged(_)) => Ok(()),
            Err(RecvError::Closed) => return,
        };
        if told.is_err() {
            return;
        }
    }
}
