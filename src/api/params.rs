//! Query parameters and cursors. All faults of a query are reported at once, each with its name and a remedy.

use std::{fmt::Display, time::Duration};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, header},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;

use super::{Listing, problem::Problem};
use umbra_config::quantity::parse_moment;
use umbra_store::{
    Store,
    paging::{Feed, Page, Seek, Span},
};

/// Code of a fault of the cursor.
const BAD_CURSOR: &str = "bad_cursor";

/// Parameters of a request, taken one by one.
#[derive(Debug)]
pub struct Params {
    pairs: Vec<(String, String)>,
    faults: Vec<(String, &'static str, String)>,
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, state: &S) -> Result<Self, Problem> {
        let axum::extract::Query(pairs) =
            axum::extract::Query::<Vec<(String, String)>>::from_request_parts(parts, state).await?;
        let mut params = Self { pairs, faults: Vec::new() };
        // Such bytes decode to another text, which would be looked for and not found.
        let raw = parts.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let names: Vec<String> = params.pairs.iter().map(|(name, _)| name.clone()).collect();
        for (name, _) in names.iter().zip(raw).filter(|(_, raw)| percent_decode_str(raw).decode_utf8().is_err()) {
            params.fault(&shown(name), "bad_text", "not UTF-8: percent-encode the text as UTF-8");
        }
        Ok(params)
    }
}

/// Shortens a parameter's name for a message.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(40).collect()
}

/// The only parameter of a path; a problem where it cannot be read.
#[derive(Debug)]
pub struct PathPart(pub String);

impl<S: Send + Sync> FromRequestParts<S> for PathPart {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, state: &S) -> Result<Self, Problem> {
        let axum::extract::Path(part) = axum::extract::Path::<String>::from_request_parts(parts, state).await?;
        Ok(Self(part))
    }
}

impl Params {
    /// Takes the text of a parameter. A repeated parameter is a fault.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        let mut found = None;
        let mut twice = false;
        self.pairs.retain(|(key, value)| {
            let ours = key == name;
            if ours {
                twice |= found.is_some();
                found = Some(value.clone());
            }
            !ours
        });
        if twice {
            self.fault(name, "twice", "give it once");
        }
        match found {
            Some(text) if text.contains('\0') => {
                self.fault(name, "bad_text", "U+0000 is not allowed");
                None
            }
            other => other,
        }
    }

    /// Takes a parameter and parses it; `right` describes valid values.
    pub fn parsed<T>(
        &mut self,
        name: &'static str,
        right: impl Display,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(name)?;
        let parsed = parse(&text);
        if parsed.is_none() {
            self.fault(name, "bad_value", format!("expected {right}"));
        }
        parsed
    }

    /// Takes `since` and `until`.
    pub fn span(&mut self) -> Span {
        Span { since: self.time("since"), until: self.time("until") }
    }

    /// Takes a time.
    pub fn time(&mut self, name: &'static str) -> Option<Timestamp> {
        let right = "an RFC 3339 time such as 2026-02-28T14:30:00Z (a + in it must be sent as %2B)";
        // The database can hold years 1 to 9999.
        let fits = |at: &Timestamp| (-62_135_596_800..=253_402_207_200).contains(&at.as_second());
        self.parsed(name, right, |text| text.parse::<Timestamp>().ok().filter(fits))
    }

    /// Takes a time, or a duration before `now`.
    pub fn time_or_ago(&mut self, name: &'static str, now: Timestamp) -> Option<Timestamp> {
        let right = "an RFC 3339 time such as 2026-02-28T14:30:00Z (a + in it must be sent as %2B), or a duration ago, \
                     such as 1h";
        self.parsed(name, right, |text| parse_moment(text, now))
    }

    /// Takes `limit`, the most items of an answer.
    pub fn limit(&mut self) -> Option<u32> {
        let limit = |text: &str| text.parse().ok().filter(|limit| (1..=500).contains(limit));
        self.parsed("limit", "a number from 1 to 500", limit)
    }

    /// Takes `order`; true for `desc`.
    pub fn descending(&mut self) -> bool {
        let known = |text: &str| ["asc", "desc"].contains(&text).then(|| text == "desc");
        self.parsed("order", "asc or desc", known).unwrap_or(false)
    }

    /// Takes `limit`, `order` and `cursor` of the list `feed`, and reports all faults, as [`Self::finish`] does. Beside
    /// a fault in the filters, which are taken before, a cursor of another list is not reported.
    ///
    /// # Errors
    /// `bad_query` with every fault; `bad_cursor` where the cursor alone is at fault.
    pub fn seek(mut self, feed: char) -> Result<Seek, Problem> {
        let (limit, descending) = (self.limit(), self.descending());
        let cursor = self.text("cursor").map(|cursor| decode(&cursor));
        let from = cursor.flatten().filter(|(list, _)| *list == (feed, descending)).map(|(_, from)| from);
        if from.is_none() && cursor.is_some_and(|known| known.is_none() || self.faults.is_empty()) {
            self.fault("cursor", BAD_CURSOR, "use next_cursor or resume_cursor of an earlier answer unchanged");
        }
        self.finish()?;
        Ok(Seek { from, descending, limit: limit.unwrap_or(50) })
    }

    /// Records a fault.
    pub fn fault(&mut self, name: &str, code: &'static str, detail: impl Into<String>) {
        self.faults.push((format!("?{name}"), code, detail.into()));
    }

    /// Reports all faults at once; a parameter that was not taken is one.
    ///
    /// # Errors
    /// `bad_query` with every fault; `bad_cursor` where the cursor alone is at fault.
    pub fn finish(mut self) -> Result<(), Problem> {
        for (name, _) in std::mem::take(&mut self.pairs) {
            self.fault(&shown(&name), "unknown", "unknown parameter; /docs lists the parameters of this request");
        }
        if self.faults.is_empty() {
            return Ok(());
        }
        let problem = if self.faults.iter().all(|(_, code, _)| *code == BAD_CURSOR) {
            Problem::bad_cursor(
                "this cursor does not belong to this list, order and filters; leave it out to begin at the start",
            )
        } else {
            Problem::bad_query("the query has invalid parameters; errors lists them")
        };
        Err(problem.with(self.faults))
    }
}

/// Most characters of a text by a person: a reason or a note.
pub const NOTE_CHARS: usize = 2_000;

/// Refuses a text by a person that is blank, too long, or has U+0000.
pub fn expect_note(pointer: &'static str, text: &str) -> Result<(), Problem> {
    if !text.trim().is_empty() && fits_note(text) {
        return Ok(());
    }
    let right = format!("1 to {NOTE_CHARS} characters, without U+0000");
    Err(Problem::invalid_values([(pointer, "range", right)]))
}

/// True if a text by a person is not too long and has no U+0000.
pub fn fits_note(text: &str) -> bool {
    text.chars().count() <= NOTE_CHARS && !text.contains('\0')
}

/// Builds the answer of a page, and refuses a cursor ahead of all numbers of its feed: it was made up, or given before the
/// database was restored from a backup. A client that polled on with it would miss everything until the numbers have
/// caught up.
pub async fn reached_listing<T>(
    store: &Store,
    numbers: Feed,
    feed: char,
    seek: Seek,
    page: Page<T>,
) -> Result<Listing<T>, Problem> {
    // Items behind a cursor show that it was reached; in descending order, none skips anything.
    match seek.from.filter(|_| page.items.is_empty() && !seek.descending) {
        Some(from) if from > store.upkeep().newest(numbers).await? => Err(ahead("?cursor")),
        _ => Ok(listing(feed, seek, page)),
    }
}

/// Returns the problem of a cursor that lies ahead of its list.
pub fn ahead(pointer: &str) -> Problem {
    Problem::bad_cursor(
        "this cursor lies ahead of the whole list, as after a restore of the database from a backup; leave it out to \
         begin at the start",
    )
    .at(pointer, BAD_CURSOR, "leave it out, or use an earlier cursor")
}

/// Builds the answer of a page. `feed` names the list: a cursor of one list is refused by another.
pub fn listing<T>(feed: char, seek: Seek, page: Page<T>) -> Listing<T> {
    let last = page.items.last().map(|(seq, _)| *seq);
    let newest = page.items.iter().map(|(seq, _)| *seq).max();
    let next_cursor = last.filter(|_| page.more).map(|seq| encode(feed, seek.descending, seq));
    // Polling goes forward: after a page in descending order, resume behind its newest.
    let resume = if seek.descending { newest.unwrap_or(0) } else { last.or(seek.from).unwrap_or(0) };
    Listing {
        items: page.items.into_iter().map(|(_, item)| item).collect(),
        next_cursor,
        resume_cursor: encode(feed, false, resume),
    }
}

fn encode(feed: char, descending: bool, seq: i64) -> String {
    URL_SAFE_NO_PAD.encode(format!("{feed}{}{seq}", if descending { 'd' } else { 'a' }))
}

/// Returns the cursor of the list `feed` behind the item of this number, as in `resume_cursor`.
pub fn cursor_of(feed: char, seq: i64) -> String {
    encode(feed, false, seq)
}

/// Returns the number behind which such a cursor resumes; `None` if it is not of this list.
pub fn position_of(feed: char, cursor: &str) -> Option<i64> {
    decode(cursor).filter(|(list, _)| *list == (feed, false)).map(|(_, seq)| seq)
}

/// Returns list, direction and number of a cursor.
fn decode(cursor: &str) -> Option<((char, bool), i64)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let mut chars = text.chars();
    let feed = chars.next()?;
    let descending = match chars.next()? {
        'a' => false,
        'd' => true,
        _ => return None,
    };
    let seq = chars.as_str().parse().ok().filter(|seq| *seq >= 0)?;
    Some(((feed, descending), seq))
}

/// Returns the longest wait that a request permits: `Prefer: wait=N`, in seconds (RFC 7240). A preference that cannot
/// be read counts as absent.
pub fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    static PREFER: HeaderName = HeaderName::from_static("prefer");
    let preferences = headers.get_all(&PREFER).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = preferences.flat_map(|text| text.split([',', ';'])).filter_map(|one| one.trim().split_once('='));
    let wait = pairs.find(|(name, _)| name.trim_end().eq_ignore_ascii_case("wait"));
    wait.and_then(|(_, seconds)| seconds.trim().trim_matches('"').parse().ok()).map(Duration::from_secs)
}

/// True if a request prefers markdown to JSON.
pub fn prefers_markdown(headers: &HeaderMap) -> bool {
    prefers(headers, "text/markdown", "application/json")
}

/// True if a request prefers this type to the usual one (`Accept`, RFC 9110): `wanted` must be named, and `usual` not
/// with a higher weight.
pub fn prefers(headers: &HeaderMap, wanted: &str, usual: &str) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut weights = [None; 2];
    for range in accepted.flat_map(|text| text.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let slot = match parts.next() {
            Some(kind) if kind.eq_ignore_ascii_case(wanted) => 0,
            Some(kind) if kind.eq_ignore_ascii_case(usual) => 1,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        weights[slot] = Some(weight.map_or(1.0, |weight| weight.parse::<f32>().unwrap_or(0.0)));
    }
    let [wanted, usual] = weights;
    wanted.is_some_and(|wanted| wanted > 0.0 && usual.is_none_or(|usual| wanted >= usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(HeaderName::from_static(name), header::HeaderValue::from_static(value))])
    }

    #[test]
    fn accept_header_prefers_markdown_only_if_named_above_json() {
        for (accept, markdown) in [
            ("text/markdown", true),
            ("Text/Markdown;charset=utf-8", true),
            ("text/markdown, application/json;q=0.5", true),
            ("text/markdown;q=0.1, application/json", false),
            ("text/markdown;q=0", false),
            ("application/json", false),
            ("*/*", false),
            ("text/markdownish", false),
        ] {
            assert_eq!(prefers_markdown(&headers("accept", accept)), markdown, "{accept}");
        }
    }

    #[test]
    fn prefer_wait_is_read_in_any_case_and_in_quotes() {
        for (prefer, seconds) in [
            ("wait=3", Some(3)),
            ("respond-async, WAIT = \"20\"; foo=1", Some(20)),
            ("waits=3", None),
            ("wait=soon", None),
        ] {
            assert_eq!(preferred_wait(&headers("prefer", prefer)), seconds.map(Duration::from_secs), "{prefer}");
        }
    }
}
