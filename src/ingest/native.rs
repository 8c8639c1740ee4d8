//! Reads an [`Event`] from a JSON tree, with a fault for each field that is wrong. The calls in [`read`] are the only
//! description of the wire shape.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::{
    Incoming,
    fault::{At, RequestFaults, code},
    tree::{Members, Tree},
};
use umbra_domain::{Event, EventId, MOST_DURATION_MS, NanoUsd, TokenCount, ToolCall, Trigger, nearest::nearest};

/// Most bytes of a client's own id.
pub(super) const KEY_BYTES: usize = 255;
/// Most bytes of a name or label.
const NAME_BYTES: usize = 256;
/// Most entries in `triggers`, repeated ones included.
const TRIGGERS: usize = 8;
/// Highest cost in dollars: no single task costs more, a larger figure is a mistake of units.
const MOST_USD: f64 = 1e6;
/// Highest count of tokens: far beyond any context, and sums stay within 63 bits.
const MOST_TOKENS: u64 = 1_000_000_000_000;
/// Most attempts at one output.
const MOST_ATTEMPTS: u64 = 1_000;
/// Exit codes of programs: 32 bits, read with or without a sign.
const EXIT_CODES: std::ops::RangeInclusive<i64> = i32::MIN as i64..=u32::MAX as i64;
/// Seconds of the years 2000 to 2100, UTC.
const PLAUSIBLE_SECONDS: std::ops::Range<i64> = 946_684_800..4_133_980_800;

/// Reads an event. `size` is the approximate number of bytes of its text. The digest input, which costs half as much as
/// reading the event, is made only where the event has an id, or a key may come beside it (`may_have_key`).
pub(super) fn read(
    tree: Tree<'_>,
    size: usize,
    may_have_key: bool,
    at: At<'_>,
    faults: &mut RequestFaults,
) -> Option<Incoming> {
    let mut fields = Fields::open(tree, at, faults)?;
    let key = fields.optional("id", key);
    let digested = key.is_some() || may_have_key;
    let digest_input = if digested { canonical(&fields.rest, size) } else { Vec::new() };
    let is_empty = !["input", "output", "tool"].into_iter().any(|name| fields.gives(name));
    let event = Event {
        agent: fields.required("agent", "the watched agent's name", name).unwrap_or_default(),
        task_id: fields.optional("task_id", label),
        session_id: fields.optional("session_id", label),
        triggers: fields.optional("triggers", triggers).unwrap_or_default(),
        task: fields.optional("task", any_text),
        task_type: fields.optional("task_type", label),
        input: fields.optional("input", text_or_json),
        output: fields.optional("output", text_or_json),
        tool: fields.optional("tool", tool),
        cost_usd: fields.optional("cost_usd", usd),
        task_cost_usd: fields.optional("task_cost_usd", usd),
        tokens: fields.optional("tokens", tokens),
        status: fields.optional("status", label),
        stop_reason: fields.optional("stop_reason", label),
        attempt: fields.optional("attempt", whole(1, MOST_ATTEMPTS)),
        supersedes: fields.optional("supersedes", event_id),
        occurred_at: fields.optional("occurred_at", time),
        duration_ms: fields.optional("duration_ms", whole(0, MOST_DURATION_MS)),
        metadata: fields.optional("metadata", object).map(Map::from).unwrap_or_default(),
        output_form: None,
    };
    if is_empty {
        let detail = r#"nothing to review: give at least one of "output", "tool" and "input""#;
        fields.faults.add(at, code::MISSING, detail);
    }
    fields.refuse_rest();
    Some(Incoming { event, key, digest_input })
}

/// Writes an object as canonical JSON: the order of keys and spaces do not matter.
fn canonical(object: &Members<'_>, size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size);
    // Cannot fail: the keys are strings, and memory takes every byte.
    if serde_json::to_writer(&mut bytes, object).is_err() {
        bytes.clear();
    }
    bytes
}

/// Object whose fields are taken out one by one; the remaining ones are unknown.
pub(super) struct Fields<'a> {
    rest: Members<'a>,
    at: At<'a>,
    /// Names of fields that were asked for.
    known: Vec<&'static str>,
    faults: &'a mut RequestFaults,
}

impl<'a> Fields<'a> {
    pub fn open(tree: Tree<'a>, at: At<'a>, faults: &'a mut RequestFaults) -> Option<Self> {
        let rest = object(tree, at, faults)?;
        Some(Self { rest, at, known: Vec::with_capacity(20), faults })
    }

    /// Writes the fields that were not taken yet as canonical JSON; `size` is the approximate length.
    pub fn canonical(&self, size: usize) -> Vec<u8> {
        canonical(&self.rest, size)
    }

    /// Takes a field that may be absent or null.
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        rule: impl FnOnce(Tree<'a>, At<'_>, &mut RequestFaults) -> Option<T>,
    ) -> Option<T> {
        self.known.push(name);
        let tree = self.rest.take(name)?;
        rule(tree, At::Key(&self.at, name), self.faults)
    }

    /// Takes a field that must be given; `what` describes it in the fault.
    pub fn required<T>(
        &mut self,
        name: &'static str,
        what: &str,
        rule: impl FnOnce(Tree<'a>, At<'_>, &mut RequestFaults) -> Option<T>,
    ) -> Option<T> {
        if !self.rest.has(name) {
            self.faults.add(At::Key(&self.at, name), code::MISSING, format!("required: {what}"));
        }
        self.optional(name, rule)
    }

    /// True if a field that was not taken yet is there.
    pub fn gives(&self, name: &str) -> bool {
        self.rest.has(name)
    }

    /// Adds a fault of a field, or between fields.
    pub fn fault(&mut self, name: &str, code: &'static str, detail: &str) {
        self.faults.add(At::Key(&self.at, name), code, detail);
    }

    /// Refuses the remaining fields of an event.
    fn refuse_rest(self) {
        self.refuse_unknown(|meant, _| match meant {
            Some(name) => format!(r#"did you mean "{name}"? Put data of your own into "metadata""#),
            None => r#"put data of your own into "metadata""#.to_owned(),
        });
    }

    /// Refuses the remaining fields of a request that is no event.
    pub fn refuse_rest_of_request(self) {
        self.refuse_unknown(|meant, known| match meant {
            Some(name) => format!(r#"did you mean "{name}"?"#),
            None => format!("known fields: {}", known.join(", ")),
        });
    }

    fn refuse_unknown(self, advice: impl Fn(Option<&str>, &[&'static str]) -> String) {
        if self.rest.is_empty() {
            return;
        }
        for key in self.rest.into_keys() {
            self.faults.add_with(At::Key(&self.at, &key), code::UNKNOWN_FIELD, || {
                format!("unknown field: {}", advice(nearest(&key, self.known.iter().copied()), &self.known))
            });
        }
    }
}

pub(super) fn wrong_type<T>(expected: &str, found: &Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<T> {
    let found = match found {
        Tree::Null => "null",
        Tree::Bool(_) => "true or false",
        Tree::Number(_) | Tree::LongInteger(_) => "a number",
        Tree::Text(_) => "a string",
        Tree::Array(_) => "an array",
        Tree::Object(_) => "an object",
    };
    faults.refuse(at, code::TYPE, format!("expected {expected}, found {found}"))
}

pub(super) fn text<'t>(tree: Tree<'t>, at: At<'_>, faults: &mut RequestFaults) -> Option<Cow<'t, str>> {
    match tree {
        Tree::Text(text) => Some(text),
        other => wrong_type("a string", &other, at, faults),
    }
}

/// Reads a text; any other JSON becomes its compact text.
#[expect(clippy::unnecessary_wraps, reason = "it is a rule, and a rule may refuse")]
fn text_or_json(tree: Tree<'_>, _: At<'_>, _: &mut RequestFaults) -> Option<String> {
    match tree {
        Tree::Text(text) => Some(text.into_owned()),
        Tree::LongInteger(digits) => Some(digits.to_owned()),
        other => Some(Value::from(other).to_string()),
    }
}

pub(super) fn bounded(tree: Tree<'_>, most: usize, at: At<'_>, faults: &mut RequestFaults) -> Option<String> {
    let text = text(tree, at, faults)?;
    if text.len() > most {
        return faults.refuse(at, code::RANGE, format!("may have {most} bytes, has {}", text.len()));
    }
    Some(text.into_owned())
}

/// Reads a word for grouping. Blank counts as absent: there is no trajectory of all events without a task.
pub(super) fn label(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<String> {
    bounded(tree, NAME_BYTES, at, faults).filter(|text| !text.trim().is_empty())
}

pub(super) fn not_blank(text: String, at: At<'_>, faults: &mut RequestFaults) -> Option<String> {
    if text.trim().is_empty() {
        return faults.refuse(at, code::RANGE, "may not be blank");
    }
    Some(text)
}

pub(super) fn name(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<String> {
    bounded(tree, NAME_BYTES, at, faults).and_then(|text| not_blank(text, at, faults))
}

/// Reads an id. A blank one is refused: its sender relies on it.
pub(super) fn key(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<String> {
    bounded(tree, KEY_BYTES, at, faults).and_then(|text| not_blank(text, at, faults))
}

fn object<'t>(tree: Tree<'t>, at: At<'_>, faults: &mut RequestFaults) -> Option<Members<'t>> {
    match tree {
        Tree::Object(members) => Some(members),
        other => wrong_type("an object", &other, at, faults),
    }
}

/// Reads a number that fits; an integer beyond 64 bits never does.
fn number<T>(
    tree: Tree<'_>,
    expected: &str,
    at: At<'_>,
    faults: &mut RequestFaults,
    fits: impl FnOnce(&Number) -> Option<T>,
    range: impl FnOnce() -> String,
) -> Option<T> {
    let fitting = match tree {
        Tree::Number(number) => fits(&number),
        Tree::LongInteger(_) => None,
        other => return wrong_type(expected, &other, at, faults),
    };
    fitting.or_else(|| faults.refuse(at, code::RANGE, range()))
}

fn usd(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<NanoUsd> {
    let expected = "dollars as a number without quotes, such as 0.012";
    let fits =
        |number: &Number| number.as_f64().filter(|usd| (0.0..=MOST_USD).contains(usd)).and_then(NanoUsd::from_usd);
    number(tree, expected, at, faults, fits, || "must be from 0 to 1000000 dollars".to_owned())
}

/// Returns the reader of a whole number within bounds.
pub(super) fn whole<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(Tree<'_>, At<'_>, &mut RequestFaults) -> Option<T> {
    move |tree, at, faults| {
        let fits = |number: &Number| {
            number.as_u64().filter(|number| (least..=most).contains(number)).and_then(|n| T::try_from(n).ok())
        };
        let range = || format!("must be a whole number from {least} to {most}");
        number(tree, "a whole number without quotes", at, faults, fits, range)
    }
}

fn tokens(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<TokenCount> {
    let mut fields = Fields::open(tree, at, faults)?;
    let tokens = TokenCount {
        input: fields.optional("input", whole(0, MOST_TOKENS)).unwrap_or_default(),
        output: fields.optional("output", whole(0, MOST_TOKENS)).unwrap_or_default(),
    };
    fields.refuse_rest();
    Some(tokens)
}

fn tool(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<ToolCall> {
    let mut fields = Fields::open(tree, at, faults)?;
    let tool = ToolCall {
        name: fields.required("name", "the tool's name", name).unwrap_or_default(),
        args: fields.optional("args", |tree, _, _| Some(tree.into())).unwrap_or_default(),
        result: fields.optional("result", text_or_json),
        error: fields.optional("error", text_or_json),
        exit_code: fields.optional("exit_code", exit_code),
    };
    fields.refuse_rest();
    Some(tool)
}

/// Reads an exit code: of Unix, or of Windows with or without its sign.
fn exit_code(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<i64> {
    let fits = |number: &Number| number.as_i64().filter(|code| EXIT_CODES.contains(code));
    let range = || format!("must be a whole number from {} to {}", EXIT_CODES.start(), EXIT_CODES.end());
    number(tree, "a whole number without quotes", at, faults, fits, range)
}

/// Reads a list of at most so many entries; `expected` describes it where the value is none.
pub(super) fn listed<'t, T>(
    tree: Tree<'t>,
    expected: &str,
    most: usize,
    at: At<'_>,
    faults: &mut RequestFaults,
    item: impl Fn(Tree<'t>, At<'_>, &mut RequestFaults) -> Option<T>,
) -> Option<Vec<T>> {
    let Tree::Array(items) = tree else { return wrong_type(expected, &tree, at, faults) };
    if items.len() > most {
        return faults.refuse(at, code::RANGE, format!("may have {most} entries, has {}", items.len()));
    }
    let read: Vec<Option<T>> =
        items.into_iter().enumerate().map(|(index, tree)| item(tree, At::Index(&at, index), faults)).collect();
    read.into_iter().collect()
}

/// Returns the reader of one of the words that `known` lists.
pub(super) fn word<T>(
    parse: impl Fn(&str) -> Option<T>,
    known: &'static str,
) -> impl Fn(Tree<'_>, At<'_>, &mut RequestFaults) -> Option<T> {
    move |tree, at, faults| {
        let word = text(tree, at, faults)?;
        parse(&word).or_else(|| faults.refuse(at, code::FORMAT, format!("must be one of {known}")))
    }
}

/// Reads true or false.
pub(super) fn flag(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<bool> {
    match tree {
        Tree::Bool(flag) => Some(flag),
        other => wrong_type("true or false", &other, at, faults),
    }
}

/// Reads any text.
pub(super) fn any_text(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<String> {
    text(tree, at, faults).map(Cow::into_owned)
}

fn triggers(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Vec<Trigger>> {
    let named = listed(tree, r#"a list such as ["task_complete"]"#, TRIGGERS, at, faults, trigger)?;
    let mut triggers = Vec::with_capacity(named.len());
    for trigger in named {
        if !triggers.contains(&trigger) {
            triggers.push(trigger);
        }
    }
    Some(triggers)
}

pub(super) fn trigger(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Trigger> {
    let word = text(tree, at, faults)?;
    Trigger::parse_named(&word).or_else(|| {
        let known = Trigger::NAMED.map(Trigger::as_str).join(", ");
        let hint =
            if word == "all" { r#""all" is only for watch lists; an event names its own triggers: "# } else { "" };
        faults.refuse(at, code::FORMAT, format!("{hint}must be one of {known}"))
    })
}

fn event_id(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<EventId> {
    let text = text(tree, at, faults)?;
    text.parse()
        .ok()
        .or_else(|| faults.refuse(at, code::FORMAT, "must be the id of an earlier event: evt_ and 32 hex digits"))
}

fn time(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Timestamp> {
    let text = text(tree, at, faults)?;
    let Some(time) = rfc3339(&text) else {
        let detail = "must be an RFC 3339 time with an offset, such as 2026-02-28T14:30:00Z";
        return faults.refuse(at, code::FORMAT, detail);
    };
    if !PLAUSIBLE_SECONDS.contains(&time.as_second()) {
        return faults.refuse(at, code::RANGE, "must lie in the years 2000 to 2100");
    }
    Some(time)
}

/// Parses a time in the form of RFC 3339; the parser alone accepts further forms of ISO 8601.
fn rfc3339(text: &str) -> Option<Timestamp> {
    let (seconds, rest) = text.split_at_checked("2026-02-28T14:30:00".len())?;
    let like = |text: &str, form: &str| {
        text.len() == form.len()
            && text.bytes().zip(form.bytes()).all(|(byte, of)| match of {
                b'0' => byte.is_ascii_digit(),
                other => byte.eq_ignore_ascii_case(&other),
            })
    };
    let fraction = rest.strip_prefix('.').map_or(0, |digits| 1 + digits.bytes().take_while(u8::is_ascii_digit).count());
    let offset = rest.get(fraction..)?;
    let has_offset = ["z", "+00:00", "-00:00"].iter().any(|form| like(offset, form));
    (like(seconds, "0000-00-00t00:00:00") && has_offset).then(|| text.parse().ok())?
}
