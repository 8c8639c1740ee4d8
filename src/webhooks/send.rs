//! Sends one delivery: a signed POST, within bounds, and interprets its answer.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};
use tokio::time::timeout;
use uuid::Uuid;

use super::{Endpoint, endpoint::EVALUATIONS, format::formatted, signature::sign};

/// Result of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryResult {
    /// The endpoint accepted the message.
    Delivered,
    /// The endpoint wants no more messages (410).
    Gone,
    /// The endpoint did not accept the message.
    Failed {
        /// Status of the answer, if there was one.
        status: Option<u16>,
        /// True if it never will: another service than a webhook refuses the data itself (400, 413).
        is_final: bool,
        /// Wait that the endpoint asked for.
        retry_after: Option<Duration>,
        /// Reason in words, without text of the answer.
        why: String,
    },
}

impl Endpoint {
    /// Posts a message once. Only the status and `Retry-After` of the answer are read.
    pub async fn send(&self, message: Uuid, body: &str, now: Timestamp) -> DeliveryResult {
        let failed = |why: String| DeliveryResult::Failed { status: None, is_final: false, retry_after: None, why };
        let id = format!("msg_{}", message.simple());
        let timestamp = now.as_second();
        let body = formatted(&self.format, body);
        let Ok(headers) = headers(&id, timestamp, &sign(&self.secrets, &id, timestamp, &body)) else {
            return failed("the message's id or signature does not fit into a header".into());
        };
        let sending =
            self.client.post(self.url.clone()).headers(headers).headers(self.headers.clone()).body(body).send();
        let response = match timeout(self.timeout, sending).await {
            Err(_) => return failed(format!("no answer within {:?}", self.timeout)),
            Ok(Err(error)) => return failed(umbra_llm::transport_fault(&error)),
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        if status.is_success() {
            return DeliveryResult::Delivered;
        }
        // A collector of telemetry means nothing by 410.
        if status == StatusCode::GONE && self.name() != EVALUATIONS {
            return DeliveryResult::Gone;
        }
        let is_final =
            self.secrets.is_empty() && matches!(status, StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE);
        let why = if status.is_redirection() {
            format!("answered {}: redirects are not followed; write the new address into the settings", status.as_u16())
        } else {
            format!("answered {}", status.as_u16())
        };
        let retry_after = umbra_llm::retry_after(response.headers());
        DeliveryResult::Failed { status: Some(status.as_u16()), is_final, retry_after, why }
    }
}

fn headers(id: &str, timestamp: i64, signature: &str) -> Result<HeaderMap, reqwest::header::InvalidHeaderValue> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("webhook-id", HeaderValue::from_str(id)?);
    headers.insert("webhook-timestamp", HeaderValue::from(timestamp));
    headers.insert("webhook-signature", HeaderValue::from_str(signature)?);
    // Tools that report traffic can leave our own out by this header.
    headers.insert(umbra_llm::ORIGIN_HEADER, HeaderValue::from_static("webhook"));
    Ok(headers)
}
