//! Judges requests by their address and headers. In: texts. Out: what they ask for beyond a read, and the parameters of
//! an address, which are scanned elsewhere. An address with an unknown scheme is not read-only.

use super::{lexicon::verb, name::words};
use umbra_domain::Effect;

/// Schemes of addresses that are only fetched, if nothing is sent along.
const SCHEMES: &str = "http https file ftp ftps sftp s3 gs az abfs abfss hdfs postgres postgresql mysql mariadb mongodb mongodb+srv redis rediss sqlite git \
    ssh ui resource";
/// First labels of hosts whose pages describe what their addresses name.
const MANUALS: [&str; 8] = ["docs", "doc", "developer", "developers", "learn", "manual", "wiki", "help"];
/// Endings of pages: their addresses name a subject, and no action.
const PAGES: [&str; 20] = [
    "html", "htm", "md", "txt", "pdf", "rs", "py", "go", "c", "h", "java", "rst", "adoc", "js", "ts", "css", "png",
    "jpg", "svg", "csv",
];
/// Parts of a path after `_` by which search engines, and others, show things.
const SHOWN: &str = "aliases alias all all_docs alldocs analyze api apis async_search cat changes cluster count design doc docs eql explain field_caps \
    framework health ilm index_template info ingest layouts license list mapping mappings mget msearch next nodes nuxt pages \
    pending_tasks recovery render resolve search segments settings source sql stats state static tasks template \
    termvectors validate view vti_bin";
/// Parts of a path that are done when they are requested, though they are nouns as well: `/reboot`, `/cart/checkout`,
/// `/set?a=1`.
const DONE: &str = "checkout confirm flush reboot reroute transfer";
const DONE_WITH: &str = "ban block confirm deploy follow handle hold join leave like lock mute park pause pin push redirect resume set star \
    start stop switch trigger unfollow vote";
/// Parts of a path behind a search engine's `_cluster` that show something.
const OF_CLUSTER: [&str; 6] = ["allocation", "health", "pending_tasks", "settings", "state", "stats"];
/// Words of headers about the sender, or about the form of the answer.
const HEADERS: &str = "accept agent api auth authorization baggage cache charset content cookie correlation date dnt encoding etag for \
    forwarded host id if ip key language locale match modified organization origin pragma prefer range referer referrer \
    region requested sec since site tenant timezone token trace traceparent tracestate type version via with workspace";
/// Words of headers that name an action.
const ORDERS: [&str; 8] = ["action", "command", "method", "operation", "override", "soapaction", "target", "verb"];
/// Options of curl that fetch, and options among them that take a value.
const CURL: &str = "-s -S -f -L -k -i -I -v -g -4 -6 -N -G --silent --show-error --fail --location --insecure --include --head --verbose --compressed \
    --globoff --get --no-progress-meter --http1.1 --http2 -sS -sSL -fsSL -sL -fsS -sI -sf -sk -LI -sLI -IL";
const CURL_VALUED: &str = "-H --header -A --user-agent -m --max-time --connect-timeout --retry -u --user -e --referer -r --range --url -X --request";

/// Parts of an address.
pub(super) struct Address<'a> {
    /// Scheme before `://`, or an opaque `kind:`.
    pub scheme: Option<&'a str>,
    host: &'a str,
    path: &'a str,
    /// Names and values behind `?`, decoded.
    pub parameters: Vec<(String, String)>,
}

/// Splits an address into its parts.
pub(super) fn address(text: &str) -> Address<'_> {
    let (scheme, rest) = match scheme(text) {
        Some(scheme) => (Some(scheme), text.get(scheme.len() + 1..).unwrap_or_default()),
        None => (None, text),
    };
    let (rest, _) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find(['/', '\\']).unwrap_or(rest.len())),
        None => ("", rest),
    };
    Address { scheme, host, path, parameters: pairs(query) }
}

/// Scheme of an address: `https` of `https://...`, and `javascript` of `javascript:...`.
pub(super) fn scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    let plain = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let opaque = ["javascript", "data", "vbscript", "php", "expect", "jar"];
    (plain && scheme.len() < 32 && (rest.starts_with("//") || opaque.contains(&scheme.to_ascii_lowercase().as_str())))
        .then_some(scheme)
}

/// Names and values of a form, decoded.
pub(super) fn pairs(form: &str) -> Vec<(String, String)> {
    let parts = form.split(['&', ';']).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, "true"));
            (decoded(&name.replace('+', " ")), decoded(&value.replace('+', " ")))
        })
        .collect()
}

/// True if addresses of this scheme are only fetched; a server may have a scheme of its own (`memo://insights`).
pub(super) fn is_fetched(scheme: &str, own: &[String]) -> bool {
    let scheme = scheme.to_ascii_lowercase();
    SCHEMES.split(' ').any(|known| known == scheme) || own.contains(&scheme)
}

impl Address<'_> {
    /// Effect and verb that the path asks for beyond a read; `None` if it asks for no more.
    pub fn asks(&self) -> Option<(Effect, &'static str)> {
        let label = self.host.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let manual = MANUALS.contains(&label.as_str()) && self.parameters.is_empty();
        let segments: Vec<String> = self.path.split(['/', '\\']).map(decoded).filter(|part| !part.is_empty()).collect();
        if let Some(found) = calls_back(&label, &segments) {
            return Some(found);
        }
        let mut behind_id = false;
        for (at, segment) in segments.iter().enumerate() {
            let (before, next) = (at.checked_sub(1).and_then(|at| segments.get(at)), segments.get(at + 1));
            let given = next.is_some_and(|next| is_id(next)) || next.is_none() && !self.parameters.is_empty();
            // `/wiki/Reboot` is a page about rebooting.
            let about = manual || self.parameters.is_empty() && before.is_some_and(|before| before == "wiki");
            if !about && is_done(segment, before, next, given) {
                return Some((Effect::Destructive, "do what it names"));
            }
            let page = at + 1 == segments.len()
                && segment.rsplit_once('.').is_some_and(|(_, end)| PAGES.contains(&end.to_ascii_lowercase().as_str()));
            if !page && let Some(found) = segment_asks(segment, behind_id, manual) {
                return Some(found);
            }
            behind_id = is_id(segment);
        }
        None
    }

    /// The same for a path that may be one of a file: only parts that are no file names count.
    pub fn asks_as_path(&self) -> Option<(Effect, &'static str)> {
        let mut behind_id = false;
        for segment in self.path.split('/').map(decoded).filter(|part| !part.is_empty()) {
            if segment.starts_with('_') || behind_id && !segment.contains('.') {
                let found = segment_asks(&segment, behind_id, false);
                if found.is_some() {
                    return found;
                }
            }
            behind_id = is_id(&segment);
        }
        None
    }
}

/// Effect of telling others, as by a webhook (`hooks.slack.com/services/T0/B0/x`, `/hooks/T0/B0/x`), or of running a
/// job.
fn calls_back(label: &str, segments: &[String]) -> Option<(Effect, &'static str)> {
    let called = |word: &str| ["hook", "hooks", "trigger", "webhook", "webhooks"].contains(&word);
    let told = called(label) && !segments.is_empty()
        || segments.iter().rev().skip(2).any(|segment| called(&segment.to_ascii_lowercase()));
    let shown = ["console", "log", "report", "test"];
    let acts = |word: &String| {
        !shown.contains(&word.as_str()) && verb(word).is_some_and(|verb| verb.act.effect() > Effect::Read)
    };
    let built = segments.len() > 2
        && segments.first().is_some_and(|first| first == "job")
        && segments.last().is_some_and(|last| words(last).first().is_some_and(acts));
    if told {
        return Some((Effect::Write, "notify others"));
    }
    built.then_some((Effect::Write, "run a job"))
}

/// True if a part of a path is done by requesting it.
fn is_done(segment: &str, before: Option<&String>, next: Option<&String>, given: bool) -> bool {
    let small = segment.to_ascii_lowercase();
    let among = |list: &str| list.split(' ').any(|one| one == small);
    let of_cluster = before.is_some_and(|before| before == "_cluster") && !OF_CLUSTER.contains(&small.as_str());
    of_cluster || mixes_alphabets(segment) || next.is_none() && among(DONE) || given && among(DONE_WITH)
}

/// True if a word mixes Latin letters with letters of other alphabets that look like them.
fn mixes_alphabets(text: &str) -> bool {
    let alike = |c: char| {
        matches!(c, '\u{370}'..='\u{52f}' | '\u{13a0}'..='\u{13ff}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}'
            | '\u{ff21}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}')
    };
    text.contains(alike) && text.contains(|c: char| c.is_ascii_alphabetic())
}

fn is_id(segment: &str) -> bool {
    let version =
        segment.strip_prefix(['v', 'V']).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'));
    !version && (segment.chars().any(|c| c.is_ascii_digit()) || segment.len() > 24 || segment == "me")
}

/// Effect and verb of one part of a path: `delete`, `deleteUser`, `users:batchDelete`, `chat.postMessage`, `_bulk`, and
/// `close` behind an id.
fn segment_asks(segment: &str, behind_id: bool, manual: bool) -> Option<(Effect, &'static str)> {
    if let Some(engine) = segment.strip_prefix('_') {
        let shown = SHOWN.split(' ').any(|known| engine.eq_ignore_ascii_case(known));
        let plain = engine.is_empty() || engine.contains('.') || engine.starts_with('_');
        return (!shown && !plain).then_some((Effect::Destructive, "use an endpoint that is not known to only read"));
    }
    for (at, part) in segment.split([':', '.', '!', '@']).enumerate() {
        let words = words(part);
        let (Some(first), Some(last)) = (words.first(), words.last()) else { continue };
        // More words are the title of a page.
        if words.len() > 3 {
            continue;
        }
        let firm = |word: &str| verb(word).filter(|verb| !verb.noun && verb.act.effect() > Effect::Read);
        let called = || verb(first).filter(|verb| at > 0 && words.len() > 1 && verb.act.effect() > Effect::Read);
        let done = || verb(first).filter(|verb| behind_id && words.len() == 1 && verb.act.effect() > Effect::Read);
        let found = firm(first).or_else(|| firm(last)).filter(|_| !manual || behind_id).or_else(called).or_else(done);
        if let Some(verb) = found {
            return Some((verb.act.effect(), verb.word));
        }
    }
    None
}

/// Decodes `%41` and the like, twice: servers behind servers do so.
pub(super) fn decoded(text: &str) -> String {
    let once = |text: &str| {
        let bytes = text.as_bytes();
        let mut read = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let digits = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
            let stands_for = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            read.push(stands_for.unwrap_or(*byte));
            at += if stands_for.is_some() { 3 } else { 1 };
        }
        String::from_utf8_lossy(&read).into_owned()
    };
    if text.contains('%') { once(&once(text)) } else { text.to_owned() }
}

/// True if a header tells only about the sender, or the form of the answer. Values of other headers are scanned.
pub(super) fn header_is_plain(name: &str) -> bool {
    let words = words(name);
    words.iter().any(|word| HEADERS.split(' ').any(|known| known == word))
        && !words.iter().any(|word| ORDERS.contains(&word.as_str()))
}

/// True if a call of curl only fetches and prints.
pub(super) fn is_read_only_curl(arguments: &[String]) -> bool {
    let known = |list: &str, word: &str| list.split(' ').any(|one| one == word);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let (option, value) = match word.as_str() {
            option if known(CURL_VALUED, option) => (option, words.next().map_or("", String::as_str)),
            joined if joined.starts_with("-X") => ("-X", joined.get(2..).unwrap_or_default()),
            "-o" | "--output" => match words.next().map(String::as_str) {
                Some("/dev/null" | "-") => continue,
                _ => return false,
            },
            option if known(CURL, option) => continue,
            option if option.starts_with('-') => return false,
            url => ("--url", url),
        };
        let harmless = match option {
            "-X" | "--request" => ["GET", "HEAD", "OPTIONS"].contains(&value),
            "-H" | "--header" => value.split_once(':').is_some_and(|(name, _)| header_is_plain(name)),
            "--url" => fetches(value),
            _ => !value.starts_with('@'),
        };
        if !harmless {
            return false;
        }
    }
    true
}

/// True if a command's address is only fetched, and nothing in it needs a closer look.
fn fetches(url: &str) -> bool {
    let address = address(url);
    let known = address.scheme.is_none_or(|scheme| ["http", "https"].contains(&scheme));
    let plain = |(name, value): &(String, String)| {
        let acts =
            |text: &str| words(text).iter().any(|word| verb(word).is_some_and(|verb| verb.act.effect() > Effect::Read));
        !acts(name) && !acts(value) && !name.contains("method")
    };
    let path = format!("//{url}");
    let asks = if address.scheme.is_none() { self::address(&path).asks() } else { address.asks() };
    known && asks.is_none() && address.parameters.iter().all(plain)
}
