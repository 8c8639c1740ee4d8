//! Judges requests by their address and headers. In: texts. Out: what they ask for beyond a read, and the parameters of
//! an address, which are scanned elsewhere. An address with an unknown scheme is not read-only.

use percent_encoding::percent_decode_str;

use super::{
    lexicon::verb,
    lists::{LISTS, among},
    name::words,
};
use umbra_domain::Effect;

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
    among(&LISTS.requests.schemes, &scheme) || own.contains(&scheme)
}

impl Address<'_> {
    /// Effect and verb that the path asks for beyond a read; `None` if it asks for no more.
    pub fn asks(&self) -> Option<(Effect, &'static str)> {
        let label = self.host.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let manual = among(&LISTS.requests.manuals, &label) && self.parameters.is_empty();
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
                && segment
                    .rsplit_once('.')
                    .is_some_and(|(_, end)| among(&LISTS.requests.pages, &end.to_ascii_lowercase()));
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
    let lists = &LISTS.requests;
    let is = |list: &str| among(list, &small);
    let of_cluster = before.is_some_and(|before| before == "_cluster") && !is(&lists.of_cluster);
    of_cluster || mixes_alphabets(segment) || next.is_none() && is(&lists.done) || given && is(&lists.done_with)
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
        let shown = among(&LISTS.requests.shown, &engine.to_ascii_lowercase());
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
    let once = percent_decode_str(text).decode_utf8_lossy();
    percent_decode_str(&once).decode_utf8_lossy().into_owned()
}

/// True if a header tells only about the sender, or the form of the answer. Values of other headers are scanned.
pub(super) fn header_is_plain(name: &str) -> bool {
    let words = words(name);
    words.iter().any(|word| among(&LISTS.requests.headers, word))
        && !words.iter().any(|word| among(&LISTS.requests.orders, word))
}

/// True if a call of curl only fetches and prints.
pub(super) fn is_read_only_curl(arguments: &[String]) -> bool {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let (option, value) = match word.as_str() {
            option if among(&LISTS.requests.curl_valued, option) => (option, words.next().map_or("", String::as_str)),
            joined if joined.starts_with("-X") => ("-X", joined.get(2..).unwrap_or_default()),
            "-o" | "--output" => match words.next().map(String::as_str) {
                Some("/dev/null" | "-") => continue,
                _ => return false,
            },
            option if among(&LISTS.requests.curl, option) => continue,
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
