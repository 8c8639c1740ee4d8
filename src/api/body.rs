//! Reads a request's body completely, in time, decoded, and within limits.
//!
//! Bodies may be plain, gzip or zstd. The bytes hold their share of the memory for all bodies until they are dropped. A
//! body never takes more memory than the decoded limit, however far it expands. No encoding and no type is guessed.

use std::{fmt::Write, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, header},
};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use super::{
    admission::Ticket,
    front::decode::{Decoder, Encoding, memory_of, too_large},
    problem::Problem,
};
use umbra_config::settings;
use umbra_domain::nearest::nearest;

/// Reader of bodies, one for the whole server. Cheap to clone; all clones share the memory.
#[derive(Debug, Clone)]
pub struct BodyReader {
    settings: Arc<settings::Server>,
    /// Most bytes of a body after decoding, or of a plain one.
    decoded: usize,
    memory: Arc<Semaphore>,
}

/// Media type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// `application/json`
    Json,
    /// `application/x-ndjson`
    Ndjson,
    /// `application/x-protobuf`
    Protobuf,
    /// `application/yaml` (RFC 9512)
    Yaml,
    /// `text/markdown` (RFC 7763)
    Markdown,
}

impl Media {
    /// Returns the type as it is written in `Content-Type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Protobuf => "application/x-protobuf",
            Self::Yaml => "application/yaml",
            Self::Markdown => "text/markdown",
        }
    }
}

/// Returns the declared media type if the endpoint reads it. The header is required: a guess would let a web page post
/// JSON as a form, which browsers permit without asking.
pub fn expect_media(headers: &HeaderMap, readable: &[Media]) -> Result<Media, Problem> {
    let declared = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if let Some(exactly) = readable.iter().find(|media| media.as_str() == declared) {
        return Ok(*exactly);
    }
    let mut parts = declared.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((key, value)) if key.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    });
    let known = readable.iter().find(|media| media.as_str().eq_ignore_ascii_case(name));
    known.copied().filter(|_| utf8).ok_or_else(|| {
        let names: Vec<&str> = readable.iter().map(|media| media.as_str()).collect();
        let names = names.join("` or `Content-Type: ");
        Problem::unsupported_media_type(format!("Send a body with the header `Content-Type: {names}` (in UTF-8)."))
    })
}

/// Reads a JSON object as a `T`; a fault carries its pointer and is worded in terms of JSON.
///
/// # Errors
/// `bad_json`.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let bad = || Problem::bad_json("The body cannot be used; `errors` says what is wrong and where.");
    // serde would take an array as the fields of a struct, in their order.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(bad().at("", "invalid", "expected an object, found an array"));
    }
    if bytes.trim_ascii().is_empty() {
        return Err(bad().at("", "empty", "the body is empty: send a JSON object"));
    }
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let value: T = serde_path_to_error::deserialize(&mut source).map_err(|fault| {
        let pointer = pointer(fault.path());
        // The message may name a key of the input but quotes none of its longer values.
        let detail = match serde_json::from_slice::<IgnoredAny>(bytes) {
            Ok(_) => in_words_of_json(&fault.inner().to_string()),
            Err(syntax) => shortened(format!("not valid JSON: {syntax}")),
        };
        bad().at(pointer, "invalid", detail)
    })?;
    source.end().map_err(|fault| Problem::bad_json(format!("Send one JSON value; text follows it: {fault}.")))?;
    Ok(value)
}

/// Rewords a serde message in terms of JSON, without Rust types and positions; the pointer says where.
fn in_words_of_json(message: &str) -> String {
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    // serde reports an enum as "expected value"; in JSON it is a text.
    if message == "expected value" {
        return "expected a text".to_owned();
    }
    if let Some(field) = message.strip_prefix("missing field ") {
        return format!("the field {field} is missing");
    }
    for (unknown, what) in
        [("unknown variant ", "is not one of the known values"), ("unknown field ", "is not a known field")]
    {
        let Some(told) = message.strip_prefix(unknown) else { continue };
        let told = told.strip_prefix('`').unwrap_or(told);
        let Some((word, known)) = told.rsplit_once("`, expected ") else {
            let word = told.trim_end_matches("`, there are no fields");
            return format!("`{}` {what}: this object has no fields", shortened(word.to_owned()));
        };
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        let meant = nearest(word, known.iter().copied()).map(|meant| format!("did you mean `{meant}`? "));
        let word = shortened(word.to_owned());
        return format!("`{word}` {what}; {}known: {}", meant.unwrap_or_default(), known.join(", "));
    }
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return shortened(message.to_owned());
    };
    let expected = match expected.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["struct", ..] | ["internally", "tagged", ..] => "an object",
        ["enum", _] => "a string",
        ["usize" | "u8" | "u16" | "u32" | "u64"] => "a whole number that is not negative",
        ["i8" | "i16" | "i32" | "i64"] => "a whole number",
        ["f32" | "f64"] => "a number",
        _ => expected,
    };
    format!("{}, expected {expected}", shortened(found.to_owned()))
}

/// Returns the JSON pointer (RFC 6901) of a path.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        let _ = match segment {
            Segment::Seq { index } => write!(pointer, "/{index}"),
            Segment::Map { key } => write!(pointer, "/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { .. } | Segment::Unknown => Ok(()),
        };
    }
    shortened(pointer)
}

/// Cuts a text to 200 characters: long input is not echoed.
fn shortened(text: String) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
        None => text,
    }
}

/// Body of a request that takes no members.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyBody {}

impl BodyReader {
    /// Returns a reader by these settings, with the memory that they name.
    pub fn new(settings: settings::Server) -> Self {
        let (decoded, memory) = (settings.max_decoded_bytes, memory_of(settings.max_in_flight_bytes));
        Self { settings: Arc::new(settings), decoded, memory }
    }

    /// Reads the body of a request, then takes the request's place among the admitted.
    ///
    /// # Errors
    /// 415 for an encoding that is unknown or applied twice, 413 for too many bytes before or after decoding, 400 for a
    /// broken body, 408 for a body that comes too slowly (counted from this call), 429 while the sender has too many
    /// bodies on their way, 503 while other bodies take all memory or the request's class is full.
    pub async fn read(&self, request: Request) -> Result<Bytes, Problem> {
        let (head, body) = request.into_parts();
        let encoding = Encoding::of(&head.headers)?;
        let travels = match encoding {
            Encoding::Identity => self.decoded,
            Encoding::Gzip | Encoding::Zstd => self.settings.max_body_bytes,
        };
        let declared = head.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        if declared.and_then(|text| text.parse::<u64>().ok()).is_some_and(|length| length > travels as u64) {
            return Err(too_large("as sent", travels));
        }
        let ticket = head.extensions.get::<Ticket>();
        let arriving = ticket.map(Ticket::begin_body).transpose()?;
        let mut decoder = Decoder::new(encoding, self.decoded, &self.memory)?;
        self.fill(body, travels, &mut decoder).await?;
        drop(arriving);
        let whole = decoder.finish()?;
        ticket.map_or(Ok(()), Ticket::admit)?;
        Ok(whole)
    }

    /// Returns a reader for longer bodies that shares the same memory.
    #[must_use]
    pub fn up_to(&self, decoded: usize) -> Self {
        Self { decoded: decoded.max(self.decoded), ..self.clone() }
    }

    /// Reads a JSON object, declared as such.
    pub async fn read_json<T: DeserializeOwned>(&self, request: Request) -> Result<T, Problem> {
        expect_media(request.headers(), &[Media::Json])?;
        from_json(&self.read(request).await?)
    }

    /// Reads a JSON object; an empty body gives the default.
    pub async fn read_or_nothing<T: DeserializeOwned + Default>(&self, request: Request) -> Result<T, Problem> {
        let headers = request.headers().clone();
        let body = self.read(request).await?;
        if body.is_empty() {
            return Ok(T::default());
        }
        expect_media(&headers, &[Media::Json])?;
        from_json(&body)
    }

    /// Reads the body of a request that takes none: empty, or `{}` as some clients send it. Any member is refused with
    /// 400, since the sender expects it to have an effect.
    pub async fn read_nothing(&self, request: Request) -> Result<(), Problem> {
        self.read_or_nothing::<EmptyBody>(request).await.map(drop)
    }

    /// Feeds the decoder with the arriving bytes until the body, the time or a limit ends.
    async fn fill(&self, mut body: Body, travels: usize, decoder: &mut Decoder) -> Result<(), Problem> {
        let begun = Instant::now();
        let mut received = 0_usize;
        loop {
            let earned = received as u64 * 1000 / (self.settings.min_body_rate as u64).max(1);
            let deadline = begun + self.settings.body_timeout + Duration::from_millis(earned);
            let frame = match timeout_at(deadline, body.frame()).await {
                Err(_) => return Err(self.too_slow(received)),
                Ok(None) => return Ok(()),
                Ok(Some(Err(_))) => {
                    return Err(Problem::body_incomplete(
                        "The connection ended before the whole body had arrived: send the request again.",
                    ));
                }
                Ok(Some(Ok(frame))) => frame,
            };
            if let Ok(data) = frame.into_data() {
                received += data.len();
                if received > travels {
                    return Err(too_large("as sent", travels));
                }
                decoder.write(&data)?;
            }
        }
    }

    fn too_slow(&self, received: usize) -> Problem {
        let (patience, rate) = (self.settings.body_timeout, self.settings.min_body_rate);
        Problem::request_timeout(format!(
            "The body arrives too slowly ({received} bytes so far): it may take {patience:?}, and longer only at \
             {rate} bytes/s or more."
        ))
    }
}
