//! Forwards unsolicited messages of servers to the clients that listen.

#![expect(deprecated, reason = "log messages are part of 2025-11-25")]

use std::time::Duration;

use rmcp::{
    RoleServer,
    model::{LoggingMessageNotificationParam, ResourceUpdatedNotificationParam},
    service::{Peer, ServiceError, SubscriptionContext},
};
use tokio::{
    sync::broadcast::{
        Receiver,
        error::{RecvError, TryRecvError},
    },
    time::{sleep, timeout},
};

/// Most messages that a slow client may lag behind before it loses some.
pub(super) const BACKLOG: usize = 256;

/// Time within which changes are reported as one.
const MOMENT: Duration = Duration::from_millis(50);

/// Interval at which a client's absence is noticed while servers send nothing.
const LOOK_UP: Duration = Duration::from_secs(30);

/// Unsolicited message of a server.
#[derive(Debug, Clone)]
pub(super) enum ServerNotice {
    /// The tools of a server have changed.
    Tools,
    /// The prompts of a server have changed.
    Prompts,
    /// The resources of a server have changed.
    Resources,
    /// A subscribed resource has changed.
    Resource(ResourceUpdatedNotificationParam),
    /// A log message for the client.
    Log(LoggingMessageNotificationParam),
}

/// Changes, each once, and the other messages as they were.
#[derive(Default)]
struct CoalescedNotices {
    tools: bool,
    prompts: bool,
    resources: bool,
    words: Vec<ServerNotice>,
}

impl CoalescedNotices {
    fn add(&mut self, news: Result<ServerNotice, RecvError>) {
        match news {
            Ok(ServerNotice::Tools) => self.tools = true,
            Ok(ServerNotice::Prompts) => self.prompts = true,
            Ok(ServerNotice::Resources) => self.resources = true,
            Ok(word) => self.words.push(word),
            // Any of them may be among the lost ones.
            Err(RecvError::Lagged(_)) => (self.tools, self.prompts, self.resources) = (true, true, true),
            Err(RecvError::Closed) => {}
        }
    }
}

/// Collects the messages of a moment: many changes become one report.
async fn gather(first: Result<ServerNotice, RecvError>, news: &mut Receiver<ServerNotice>) -> Option<CoalescedNotices> {
    if matches!(first, Err(RecvError::Closed)) {
        return None;
    }
    let mut heard = CoalescedNotices::default();
    heard.add(first);
    sleep(MOMENT).await;
    loop {
        match news.try_recv() {
            Ok(word) => heard.add(Ok(word)),
            Err(TryRecvError::Lagged(lost)) => heard.add(Err(RecvError::Lagged(lost))),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return Some(heard),
        }
    }
}

/// Reports changes to a client of before 2026-07-28, until it is gone; with `alone`, where it is the only client, also
/// log messages and subscribed resources.
pub(super) async fn tell_all(mut news: Receiver<ServerNotice>, to: Peer<RoleServer>, alone: bool) {
    loop {
        let Ok(first) = timeout(LOOK_UP, news.recv()).await else {
            if to.is_transport_closed() {
                return;
            }
            continue;
        };
        let Some(heard) = gather(first, &mut news).await else { return };
        if tell(heard, &to, alone).await.is_err() {
            return;
        }
    }
}

async fn tell(heard: CoalescedNotices, to: &Peer<RoleServer>, alone: bool) -> Result<(), ServiceError> {
    if heard.tools {
        to.notify_tool_list_changed().await?;
    }
    if heard.prompts {
        to.notify_prompt_list_changed().await?;
    }
    if heard.resources {
        to.notify_resource_list_changed().await?;
    }
    for word in heard.words.into_iter().filter(|_| alone) {
        match word {
            ServerNotice::Resource(said) => to.notify_resource_updated(said).await?,
            ServerNotice::Log(said) => to.notify_logging_message(said).await?,
            ServerNotice::Tools | ServerNotice::Prompts | ServerNotice::Resources => {}
        }
    }
    Ok(())
}

/// Reports to a subscription what it asked for, until it ends.
pub(super) async fn tell_subscriber(mut news: Receiver<ServerNotice>, to: SubscriptionContext) {
    let wanted = to.accepted().clone();
    let on = |flag: Option<bool>| flag.unwrap_or(false);
    loop {
        let first = tokio::select! {
            () = to.cancelled() => return,
            first = news.recv() => first,
        };
        let Some(heard) = gather(first, &mut news).await else { return };
        let mut told = Ok(());
        if heard.tools && on(wanted.tools_list_changed) {
            told = told.and(to.sink().notify_tool_list_changed().await);
        }
        if heard.prompts && on(wanted.prompts_list_changed) {
            told = told.and(to.sink().notify_prompt_list_changed().await);
        }
        if heard.resources && on(wanted.resources_list_changed) {
            told = told.and(to.sink().notify_resource_list_changed().await);
        }
        if told.is_err() {
            return;
        }
    }
}
