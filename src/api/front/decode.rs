//! Decodes a body piece by piece, into memory that is counted.
//!
//! The decoded body holds its share of the memory until it is dropped. It never exceeds the decoded limit, so a
//! compressed body costs no more than a plain one.

use std::{
    io::{self, Write},
    sync::Arc,
};

use axum::http::{HeaderMap, header};
use bytes::Bytes;
use flate2::write::GzDecoder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use crate::api::problem::Problem;

/// Unit in which the memory of all bodies is counted, in bytes.
const PAGE: usize = 4096;

/// Returns the memory of all bodies, in pages.
pub(in crate::api) fn memory_of(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new((bytes / PAGE).min(Semaphore::MAX_PERMITS)))
}

/// Returns the problem of a body of more than `limit` bytes.
pub(in crate::api) fn too_large(what: &str, limit: usize) -> Problem {
    let detail = format!("The body {what} may have at most {limit} bytes: send less, or several smaller bodies.");
    Problem::body_too_large(detail)
}

/// Content encoding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

impl Encoding {
    /// Returns the one encoding that the headers declare.
    pub(in crate::api) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let refused =
            || Problem::unsupported_encoding("`Content-Encoding` may be only one of gzip, zstd and identity.");
        let mut declared = headers.get_all(header::CONTENT_ENCODING).iter();
        let (first, more) = (declared.next(), declared.next());
        let Some(value) = first else { return Ok(Self::Identity) };
        let name = value.to_str().map_err(|_| refused())?.trim();
        match name.to_ascii_lowercase().as_str() {
            _ if more.is_some() => Err(refused()),
            "" | "identity" => Ok(Self::Identity),
            "gzip" | "x-gzip" => Ok(Self::Gzip),
            "zstd" => Ok(Self::Zstd),
            _ => Err(refused()),
        }
    }
}

/// Bytes together with their share of the memory.
struct CountedBytes {
    bytes: Vec<u8>,
    permit: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Writer that collects decoded bytes up to the limit, and refuses the byte after it.
pub(in crate::api) struct Sink {
    held: CountedBytes,
    limit: usize,
    memory: Arc<Semaphore>,
    /// Problem by which the last write was refused.
    full: Option<Problem>,
}

impl Sink {
    fn take(&mut self, data: &[u8]) -> Result<(), Problem> {
        let length = self.held.bytes.len() + data.len();
        if length > self.limit {
            return Err(too_large("decoded", self.limit));
        }
        let paid = self.held.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(length.div_ceil(PAGE).saturating_sub(paid)).unwrap_or(u32::MAX);
        if missing > 0 {
            let more = Arc::clone(&self.memory).try_acquire_many_owned(missing).map_err(|_| {
                Problem::overloaded("Other requests use all the memory for bodies: send the request again later.")
            })?;
            match &mut self.held.permit {
                Some(permit) => permit.merge(more),
                none => *none = Some(more),
            }
        }
        self.held.bytes.extend_from_slice(data);
        Ok(())
    }
}

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.take(data).map_err(|problem| {
            self.full = Some(problem);
            io::Error::from(io::ErrorKind::StorageFull)
        })?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decoder of arriving pieces into a [`Sink`].
pub(in crate::api) enum Decoder {
    Identity(Sink),
    /// A single member: many tiny ones would cost far more time than their bytes.
    Gzip(Box<GzDecoder<Sink>>),
    /// `whole` is true between two frames.
    Zstd {
        decoder: ZstdDecoder<'static>,
        sink: Sink,
        whole: bool,
    },
}

impl Decoder {
    /// Largest window that a zstd body may ask for, as a power of two: 8 MiB, the bound of RFC 9659.
    const WINDOW: u32 = 23;

    /// Returns a decoder for at most `limit` decoded bytes, which takes its memory from `memory`.
    pub(in crate::api) fn new(encoding: Encoding, limit: usize, memory: &Arc<Semaphore>) -> Result<Self, Problem> {
        let held = CountedBytes { bytes: Vec::new(), permit: None };
        let sink = Sink { held, limit, memory: Arc::clone(memory), full: None };
        Ok(match encoding {
            Encoding::Identity => Self::Identity(sink),
            Encoding::Gzip => Self::Gzip(Box::new(GzDecoder::new(sink))),
            Encoding::Zstd => {
                let mut decoder = ZstdDecoder::new().map_err(Problem::internal)?;
                decoder.set_parameter(DParameter::WindowLogMax(Self::WINDOW)).map_err(Problem::internal)?;
                Self::Zstd { decoder, sink, whole: false }
            }
        })
    }

    /// Decodes the next piece.
    pub(in crate::api) fn write(&mut self, data: &[u8]) -> Result<(), Problem> {
        match self {
            Self::Identity(sink) => sink.take(data),
            Self::Gzip(decoder) => {
                let written = decoder.write_all(data);
                written.map_err(|_| decoder.get_mut().full.take().unwrap_or_else(|| broken("gzip")))
            }
            Self::Zstd { decoder, sink, whole } => unpack(decoder, data, sink, whole),
        }
    }

    /// Returns the whole body after its last piece.
    pub(in crate::api) fn finish(self) -> Result<Bytes, Problem> {
        let sink = match self {
            Self::Gzip(mut decoder) => {
                let finished = decoder.try_finish();
                finished.map_err(|_| decoder.get_mut().full.take().unwrap_or_else(|| broken("gzip")))?;
                decoder.finish().map_err(|_| broken("gzip"))?
            }
            Self::Identity(sink) | Self::Zstd { sink, whole: true, .. } => sink,
            Self::Zstd { .. } => return Err(broken("zstd")),
        };
        Ok(Bytes::from_owner(sink.held))
    }
}

fn broken(encoding: &str) -> Problem {
    Problem::bad_encoding(format!(
        "The body cannot be decoded as {encoding}: it is broken, cut off, or not {encoding}."
    ))
}

/// Decodes one piece of a zstd body.
fn unpack(decoder: &mut ZstdDecoder<'_>, mut data: &[u8], sink: &mut Sink, whole: &mut bool) -> Result<(), Problem> {
    let mut output = [0_u8; 16 * 1024];
    loop {
        let step = decoder.run_on_buffers(data, &mut output).map_err(|_| broken("zstd"))?;
        data = data.get(step.bytes_read..).unwrap_or_default();
        sink.take(output.get(..step.bytes_written).unwrap_or_default())?;
        *whole = step.remaining == 0;
        // Within a frame, a full output may mean that the decoder holds more.
        if data.is_empty() && (*whole || step.bytes_written < output.len()) {
            return Ok(());
        }
    }
}
