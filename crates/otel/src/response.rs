//! Answers to exports.

use opentelemetry_proto::tonic::collector::{
    logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse},
    trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse},
};
use prost::Message as _;

use crate::decode::{Encoding, Signal};

/// Returns the body of an answer, in the encoding of the request.
pub fn response(signal: Signal, encoding: Encoding, rejected: u64, reason: Option<&str>) -> Vec<u8> {
    let rejected = i64::try_from(rejected).unwrap_or(i64::MAX);
    let message = reason.unwrap_or_default().to_owned();
    macro_rules! answer {
        ($response:ident, $partial:ident, $count:ident) => {{
            let partial = $partial { $count: rejected, error_message: message };
            let response = $response { partial_success: Some(partial) };
            match encoding {
                Encoding::Protobuf => response.encode_to_vec(),
                Encoding::Json => serde_json::to_vec(&response).unwrap_or_default(),
            }
        }};
    }
    match (signal, encoding) {
        (Signal::Traces, _) if rejected > 0 => {
            answer!(ExportTraceServiceResponse, ExportTracePartialSuccess, rejected_spans)
        }
        (Signal::Logs, _) if rejected > 0 => {
            answer!(ExportLogsServiceResponse, ExportLogsPartialSuccess, rejected_log_records)
        }
        (_, Encoding::Protobuf) => Vec::new(),
        (_, Encoding::Json) => b"{}".to_vec(),
    }
}
