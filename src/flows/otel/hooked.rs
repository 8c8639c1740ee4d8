//! Calls of tools that hooks tell of: a call that a trace tells of as well is one event.

use super::{Otel, session_call};
use crate::{
    flows::events::{AcceptError, Origin},
    ingest::Incoming,
};
use umbra_domain::Event;
use umbra_store::StoreError;

impl Otel {
    /// Files the event of a hooked call, or adds it to the event that a trace has of the same call.
    ///
    /// # Errors
    /// The event cannot be stored.
    pub(in crate::flows) async fn file_hooked<E: From<StoreError> + From<AcceptError>>(
        &self,
        event: Event,
        key: String,
        origin: &Origin,
    ) -> Result<(), E> {
        let call = event.metadata.get("hook").and_then(|hook| hook.get("call")?.as_str());
        let call = event.session_id.as_deref().zip(call);
        let alias = call.and_then(|call| session_call(&self.0.installation, origin.by, call));
        let known = match alias {
            None => None,
            Some(alias) => match self.0.store.otel().known(&[alias]).await {
                // The event waits in the spool.
                Err(error) if error.is_transient() => None,
                known => known?.first().and_then(|known| known.event_id),
            },
        };
        if let Some(id) = known {
            let screened = self.0.events.screen(id, event).await;
            self.amend(id, &screened.event, &screened.marks).await?;
            return Ok(());
        }
        let task_id = event.task_id.clone().unwrap_or_default();
        let incoming = Incoming { event, key: Some(key), digest_input: Vec::new() };
        let filed = self.0.events.accept(incoming, origin).await?.id;
        if let Some(alias) = alias
            && let Err(error) = self.0.store.otel().note_event(&alias, filed, &task_id).await
        {
            tracing::debug!(%error, "a hooked call is not noted: a trace may tell of it once more");
        }
        Ok(())
    }
}
