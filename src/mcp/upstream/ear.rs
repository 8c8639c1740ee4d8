//! What a server says without being asked: progress goes to who waits for it, changes to whom it may concern.

#![expect(deprecated, reason = "log messages are part of 2025-11-25")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rmcp::{
    ClientHandler, RoleClient, RoleServer,
    model::{
        ClientConfig, Implementation, ProgressNotificationParam, ProgressToken, ProtocolVersion,
        ResourceUpdatedNotificationParam,
    },
    service::{NotificationContext, Peer},
};
use tokio::sync::broadcast;

use crate::mcp::news::News;

/// Requests whose progress somebody waits for: our token, theirs, and where they are.
#[derive(Default)]
pub(super) struct Progress(Mutex<HashMap<ProgressToken, (Peer<RoleServer>, ProgressToken)>>);

impl Progress {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<ProgressToken, (Peer<RoleServer>, ProgressToken)>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Passes progress on until the answer is dropped.
    pub(super) fn pass(
        self: &Arc<Self>,
        ours: ProgressToken,
        to: Peer<RoleServer>,
        theirs: ProgressToken,
    ) -> impl Drop + use<> {
        self.with(|waiting| waiting.insert(ours.clone(), (to, theirs)));
        Passing(Arc::clone(self), ours)
    }
}

struct Passing(Arc<Progress>, ProgressToken);

impl Drop for Passing {
    fn drop(&mut self) {
        self.0.with(|waiting| waiting.remove(&self.1));
    }
}

/// Listens to one server.
pub(super) struct Ear {
    pub(super) progress: Arc<Progress>,
    pub(super) news: broadcast::Sender<News>,
    pub(super) stale: Arc<AtomicBool>,
}

impl Ear {
    fn tell(&self, news: News) {
        // Without listeners nobody needs to know.
        drop(self.news.send(news));
    }
}

impl ClientHandler for Ear {
    fn get_info(&self) -> ClientConfig {
        let mut us = Implementation::from_build_env();
        us.name = "umbra".to_owned();
        us.version = env!("CARGO_PKG_VERSION").to_owned();
        let mut config = ClientConfig::new(Default::default(), us);
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config
    }

    async fn on_progress(&self, mut said: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let Some((to, theirs)) = self.progress.with(|waiting| waiting.get(&said.progress_token).cloned()) else {
            return;
        };
        said.progress_token = theirs;
        drop(to.notify_progress(said).await);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.stale.store(true, Ordering::Relaxed);
        self.tell(News::Tools);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tell(News::Prompts);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tell(News::Resources);
    }

    async fn on_resource_updated(&self, said: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.tell(News::Resource(said));
    }

    async fn on_logging_message(
        &self,
        said: rmcp::model::LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.tell(News::Log(said));
    }
}
