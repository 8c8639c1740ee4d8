//! Screening of an event before it is stored. In: the event as sent. Out: the event without hidden characters and
//! secrets, and marks that say what was removed where. Every text of the event, names and keys included, is read once;
//! clean text is not copied.

use std::{borrow::Cow, ops::Range};

use serde_json::{Map, Value};

use super::{
    SecretDigest, normalise,
    rules::{MatchContext, in_force},
    secrets::{self, Lead},
};
use umbra_domain::{CheckName, Event, FieldName, Mark, Severity};

/// Most rounds of redaction: a marker changes the context, and the text between two secrets may be a third.
const MOST_ROUNDS: usize = 4;

/// Bytes behind a hidden character that its mark covers.
const HIDDEN_CONTEXT: usize = 40;

/// Keyed digest function of secrets: the same secret has the same digest.
pub(super) type Digester<'t> = Option<&'t dyn Fn(&str) -> SecretDigest>;

/// Form of the markers that replace secrets.
#[derive(Clone, Copy, Default)]
struct Markers<'t> {
    digester: Digester<'t>,
    /// True if markers carry tags.
    tagged: bool,
}

/// Cleans every text of the event in place and returns the marks. Names carry no tag: a tag is keyed by the task, so
/// one agent or tool would get another name in each task.
pub(super) fn screen(event: &mut Event, digester: Digester<'_>) -> Vec<Mark> {
    let markers = Markers { digester, tagged: false };
    let mut marks = Marks { found: Vec::new(), markers, by_name: false };
    marks.text("agent", &mut event.agent);
    for (name, text) in [
        ("task_id", &mut event.task_id),
        ("session_id", &mut event.session_id),
        ("task_type", &mut event.task_type),
        ("status", &mut event.status),
        ("stop_reason", &mut event.stop_reason),
    ] {
        marks.optional(name, text);
    }
    if let Some(tool) = &mut event.tool {
        marks.text("tool.name", &mut tool.name);
    }
    marks.markers.tagged = true;
    marks.optional("task", &mut event.task);
    marks.optional("input", &mut event.input);
    if let Some(tool) = &mut event.tool {
        marks.value(&mut path("tool.args"), None, &mut tool.args);
        marks.optional("tool.result", &mut tool.result);
        marks.optional("tool.error", &mut tool.error);
    }
    marks.optional("output", &mut event.output);
    marks.object(&mut path("metadata"), None, &mut event.metadata);
    marks.found
}

/// Cleans every text and key of a document in place. A member's name alone may decide that its value is a secret.
pub(super) fn redact_json(value: &mut Value) {
    let mut marks = Marks { found: Vec::new(), markers: Markers::default(), by_name: true };
    marks.value(&mut path(""), None, value);
}

/// Returns the beginning of a path, with capacity for longer ones.
fn path(begins: &str) -> String {
    const ROOM: usize = 64;
    let mut path = String::with_capacity(ROOM);
    path.push_str(begins);
    path
}

/// Marks of the removals so far.
struct Marks<'t> {
    found: Vec<Mark>,
    markers: Markers<'t>,
    /// True if a member's name alone decides that its value is a credential, and JSON in a text is read.
    by_name: bool,
}

impl Marks<'_> {
    fn optional(&mut self, field: &str, text: &mut Option<String>) {
        if let Some(text) = text {
            self.text(field, text);
        }
    }

    fn text(&mut self, field: &str, text: &mut String) {
        self.led(field, None, text);
    }

    /// Cleans a text behind a name or arguments, which may say that it is a secret.
    fn led(&mut self, field: &str, lead: Option<Lead<'_>>, text: &mut String) {
        if self.by_name {
            self.embedded(text);
        }
        let (cleaned, marks) = clean(text, self.markers, lead, field);
        if let Cow::Owned(cleaned) = cleaned {
            *text = cleaned;
        }
        self.found.extend(marks);
        if self.by_name
            && let Some(found) = lead.and_then(|lead| secrets::credential_by_name(lead, text))
        {
            *text = format!("[secret:{}]", found.rule);
        }
    }

    /// Cleans a text that is JSON by its content. It is rewritten only if there was something to clean.
    fn embedded(&mut self, text: &mut String) {
        if !text.trim_start().starts_with(['{', '[']) {
            return;
        }
        let Ok(said) = serde_json::from_str::<Value>(text) else { return };
        let mut cleaned = said.clone();
        self.value(&mut path(""), None, &mut cleaned);
        if cleaned != said {
            *text = cleaned.to_string();
        }
    }

    /// Walks JSON. `path` is the place in the form of [`Event::for_each_text`], `name` the member that holds the value.
    fn value(&mut self, path: &mut String, name: Option<&str>, value: &mut Value) {
        match value {
            Value::String(text) => self.led(path, name.map(Lead::Member), text),
            Value::Array(items) => {
                let mut line = ArgumentLead::default();
                for (index, item) in items.iter_mut().enumerate() {
                    let length = path.len();
                    path.push('.');
                    path.push_str(&index.to_string());
                    match item {
                        Value::String(text) => {
                            let before = line.before(text);
                            let lead = before.as_deref().map(Lead::Arguments).or(name.map(Lead::Member));
                            self.led(path, lead, text);
                            line.goes_on(text);
                        }
                        _ => self.value(path, name, item),
                    }
                    path.truncate(length);
                }
            }
            Value::Object(map) => self.object(path, name, map),
            Value::Number(number) if self.by_name => {
                if let Some(found) =
                    name.and_then(|name| secrets::credential_by_name(Lead::Member(name), &number.to_string()))
                {
                    *value = Value::String(format!("[secret:{}]", found.rule));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Walks an object. `above` is the name of the member that holds it: it applies to the object's `value`, and to all
    /// members of `credentials`.
    fn object(&mut self, path: &mut String, above: Option<&str>, map: &mut Map<String, Value>) {
        if map.keys().any(|key| matches!(without(key), Cow::Owned(_))) {
            self.keys(path, map);
        }
        let beside = secrets::name_of_value(map).map(str::to_owned);
        for (key, item) in map.iter_mut() {
            let length = path.len();
            path.push('.');
            path.push_str(key);
            let named = beside.as_deref().or(above.filter(|_| self.by_name));
            let within = above.filter(|above| self.by_name && secrets::holds_secrets(above, key));
            let name = within.or_else(|| named.filter(|_| secrets::is_value(key))).unwrap_or(key);
            self.value(path, Some(name), item);
            path.truncate(length);
        }
    }

    /// Cleans an object's keys. Marks in keys have a field of their own, the path with `#keys`, since no text of the
    /// event has that place. Keys that become equal get a number, so no value is lost.
    fn keys(&mut self, path: &str, map: &mut Map<String, Value>) {
        let (markers, field) = (Markers { tagged: false, ..self.markers }, format!("{path}#keys"));
        for (key, item) in std::mem::take(map) {
            let (cleaned, marks) = clean(&key, markers, None, &field);
            self.found.extend(marks);
            let mut unique = cleaned.clone().into_owned();
            let mut number = 2;
            while map.contains_key(&unique) {
                unique = format!("{cleaned}~{number}");
                number += 1;
            }
            map.insert(unique, item);
        }
    }
}

/// Arguments of a list so far that may lead to the next one.
#[derive(Default)]
struct ArgumentLead {
    /// The program, with its subcommand.
    program: String,
    last: String,
    words: usize,
}

impl ArgumentLead {
    /// Returns the context before an argument, if it or the argument before is an option, or the one before names a
    /// secret.
    fn before(&self, next: &str) -> Option<String> {
        if self.words == 0 {
            return None;
        }
        if !self.last.starts_with('-') && secrets::leads(&self.last) {
            return Some(format!("{}:", self.last));
        }
        let among = self.last.starts_with('-') || next.starts_with('-');
        let (program, last) = (&self.program, &self.last);
        among.then(|| format!("{program} {last}"))
    }

    fn goes_on(&mut self, text: &str) {
        const LONGEST: usize = 200;
        if self.words == 1 || self.words == 2 && !self.last.starts_with('-') {
            self.program = std::mem::take(&mut self.program) + " " + &self.last;
        }
        self.last.clear();
        self.last.push_str(if text.len() <= LONGEST { text } else { "" });
        self.words += 1;
    }
}

/// Returns the text without hidden characters and secrets, borrowed when there were none.
pub(super) fn without(text: &str) -> Cow<'_, str> {
    clean(text, Markers::default(), None, "").0
}

fn clean<'x>(text: &'x str, markers: Markers<'_>, lead: Option<Lead<'_>>, field: &str) -> (Cow<'x, str>, Vec<Mark>) {
    let (mut text, removed) = normalise::clean(text);
    let field = || FieldName(Cow::Owned(field.to_owned()));
    let hidden = removed.0.into_iter().map(|(kind, at)| {
        let at = at..text.floor_char_boundary((at + HIDDEN_CONTEXT).min(text.len()));
        Mark::new(CheckName::Hidden, kind.rule(), kind.severity(), field(), at, kind.describe())
    });
    let mut marks: Vec<Mark> = hidden.collect();
    for _ in 0..MOST_ROUNDS {
        let mut found = secrets::find(&text);
        if let (true, Some(lead)) = (found.is_empty(), lead) {
            found.extend(secrets::find_by_lead(lead, &text));
        }
        let rules = in_force();
        found.retain_mut(|one| {
            let weight = rules.severity_in_force(
                CheckName::Secrets,
                one.rule,
                one.severity,
                MatchContext::new(&text, one.span.clone()),
            );
            one.severity = weight.unwrap_or(one.severity);
            weight.is_some()
        });
        if found.is_empty() {
            break;
        }
        text = Cow::Owned(redact(&text, &found, markers, &field(), &mut marks));
    }
    marks.sort_by_key(|one| (one.start, one.end));
    (text, marks)
}

/// Replaces findings by markers, moves earlier marks, and adds a mark for each marker.
fn redact(
    text: &str,
    found: &[secrets::SecretFinding],
    markers: Markers<'_>,
    field: &FieldName,
    marks: &mut Vec<Mark>,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    // Ranges of each span in the old text and of its marker in the new one.
    let mut moves: Vec<(Range<usize>, Range<usize>)> = Vec::with_capacity(found.len());
    let mut values = Vec::with_capacity(found.len());
    for one in found {
        out.push_str(text.get(copied..one.span.start).unwrap_or_default());
        let start = out.len();
        out.push_str("[secret:");
        out.push_str(one.rule);
        let digest = markers.digester.map(|digest| digest(text.get(one.span.clone()).unwrap_or_default()));
        if let Some(SecretDigest { tag: byte, .. }) = digest.filter(|_| markers.tagged) {
            out.push(':');
            out.extend([byte >> 4, byte & 15].into_iter().filter_map(|digit| char::from_digit(u32::from(digit), 16)));
        }
        out.push(']');
        values.push(digest.map(|digest| format!("{:016x}", digest.value)));
        // A variation selector of the last character is removed too: behind the marker it would be out of place.
        let rest = text.get(one.span.end..).unwrap_or_default();
        copied = text.len() - rest.trim_start_matches(|c| ('\u{fe00}'..='\u{fe0f}').contains(&c)).len();
        moves.push((one.span.start..copied, start..out.len()));
    }
    out.push_str(text.get(copied..).unwrap_or_default());

    let swallowed = |mark: &Mark| {
        let next = moves.partition_point(|(was, _)| was.end < mark.end);
        moves.get(next).is_some_and(|(was, _)| was.start <= mark.start)
    };
    marks.retain(|one| one.check != CheckName::Secrets || !swallowed(one));
    for one in marks.iter_mut() {
        Range { start: one.start, end: one.end } = moved(one.start..one.end, &moves);
    }
    marks.extend(found.iter().zip(moves).zip(values).map(|((one, (_, marker)), value)| Mark {
        value,
        ..Mark::new(CheckName::Secrets, one.rule, one.severity, field.clone(), marker, describe(one))
    }));
    out
}

fn describe(found: &secrets::SecretFinding) -> String {
    // The title from a user's row may be a sentence.
    if found.title.starts_with(char::is_uppercase) {
        return format!("{} Umbra redacted it before storage.", found.title);
    }
    match found.severity {
        Severity::Info => {
            format!("Contains text shaped like {} but marked as an example; Umbra redacted it.", found.title)
        }
        Severity::Warning | Severity::Critical => {
            format!("Contains {}; Umbra redacted it before storage.", found.title)
        }
    }
}

/// Maps a range of one text to another, given the ranges that differ in both. A place inside such a range maps to its
/// edge.
pub(super) fn moved(at: Range<usize>, moves: &[(Range<usize>, Range<usize>)]) -> Range<usize> {
    let place = |place: usize, within: fn(&Range<usize>) -> usize| {
        let next = moves.partition_point(|(was, _)| was.end <= place);
        match (moves.get(next), next.checked_sub(1).and_then(|last| moves.get(last))) {
            (Some((was, now)), _) if was.start < place => within(now),
            (_, Some((was, now))) => now.end + (place - was.end),
            (_, None) => place,
        }
    };
    place(at.start, |now| now.start)..place(at.end, |now| now.end)
}
