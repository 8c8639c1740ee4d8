//! JSON Schemas within bounds: a schema in, a validator out.
//!
//! A schema may come with a call, so it is untrusted data. It cannot name another document, and patterns run on a
//! linear engine. Before it is compiled, it is walked along its references. One that unfolds into too much is refused;
//! for one that calls itself in several ways at the same place, the depth of values is limited.

use jsonschema::{PatternOptions, Validator};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// Deepest nesting of a schema.
const MAX_DEPTH: usize = 64;
/// Most JSON values in a schema.
const MAX_NODES: usize = 10_000;
/// Most subschemas after references are written out.
const MAX_UNFOLDED: usize = 20_000;
/// Largest compiled pattern, and most memory of a running pattern, in bytes.
const MAX_PATTERN_SIZE: usize = 256 * 1_024;
/// Most patterns of a schema.
const MAX_PATTERNS: usize = 200;
/// Deepest nesting of a value.
const MAX_VALUE_DEPTH: usize = 128;
/// Most values within a value.
const MAX_VALUES: usize = 100_000;
/// Most comparisons with words of enumerations, in one check.
const MAX_COMPARISONS: usize = 20_000_000;
/// Most visits to the parts of a value, in one check.
const MAX_VISITS: f64 = 1_000_000.0;
/// Most mismatches that are listed.
const MAX_MISMATCHES: usize = 20;

/// One place that does not fit a schema. It repeats nothing of the value.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Mismatch {
    /// Place in the value, as a JSON pointer; empty for the value itself.
    pub pointer: String,
    /// Demand of the schema at that place.
    pub message: String,
}

impl Mismatch {
    /// A mismatch of the value as a whole.
    pub(crate) fn whole(message: impl Into<String>) -> Self {
        Self { pointer: String::new(), message: message.into() }
    }

    /// Place and demand in one line, for results.
    pub(crate) fn told(&self) -> String {
        let place = if self.pointer.is_empty() { "the whole result" } else { &self.pointer };
        format!("{place}: {}", self.message)
    }
}

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    source: Value,
    validator: Validator,
    /// Deepest nesting of a value that is validated.
    deepest: usize,
    /// Number of words in the longest enumeration.
    words: usize,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// A fault of the schema, with what to write instead.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let mut survey = SchemaMeasurements::of(schema);
        if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
            return Err("the schema is not a mapping: write {type: object, ...}".to_owned());
        }
        survey.measure(schema, 0)?;
        let mut path = Vec::new();
        let returns = survey.unfold(schema, &mut path)?.max(survey.returns);
        let deepest = deepest_value(returns);
        let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_SIZE).dfa_size_limit(MAX_PATTERN_SIZE);
        let validator =
            jsonschema::options().offline().with_pattern_options(patterns).build(schema).map_err(|error| {
                let place = error.instance_path().to_string();
                let place = if place.is_empty() { String::new() } else { format!(" at {place}") };
                let said: String = error.masked().to_string().chars().take(200).collect();
                format!("not a valid JSON Schema{place}: {said} (patterns have no look-around and no back references)")
            })?;
        Ok(Self { source: schema.clone(), validator, deepest, words: survey.words })
    }

    /// Schema as it was given.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Checks a value.
    ///
    /// # Errors
    /// Mismatches, at most 20.
    pub fn check(&self, value: &Value) -> Result<(), Vec<Mismatch>> {
        let (depth, values) = extent(value);
        let too = |what: &str| Err(vec![Mismatch::whole(what)]);
        if depth > self.deepest {
            return too("the value is nested too deeply to be validated");
        }
        if values > MAX_VALUES || values.saturating_mul(self.words) > MAX_COMPARISONS {
            return too("the value is too large to be validated");
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let errors = self.validator.iter_errors(value).take(MAX_MISMATCHES);
        Err(errors
            .map(|error| Mismatch {
                pointer: error.instance_path().to_string(),
                message: error.masked().to_string().chars().take(200).collect(),
            })
            .collect())
    }

    /// True if a value fits.
    pub fn fits(&self, value: &Value) -> bool {
        self.check(value).is_ok()
    }
}

/// Deepest value that is validated if each level is visited `returns` times as often as the one above.
fn deepest_value(returns: usize) -> usize {
    if returns <= 1 {
        return MAX_VALUE_DEPTH;
    }
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let levels = MAX_VISITS.ln() / (returns as f64).ln();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 20")]
    (levels as usize).clamp(2, MAX_VALUE_DEPTH)
}

/// Depth of a value, and number of values in it.
fn extent(value: &Value) -> (usize, usize) {
    let (mut deepest, mut count) = (0, 0);
    let mut waiting = vec![(value, 1)];
    while let Some((value, depth)) = waiting.pop() {
        count += 1;
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => waiting.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(entries) => waiting.extend(entries.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    (deepest, count)
}

/// Keywords whose schemas apply to the value itself.
const IN_PLACE: [&str; 8] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"];
/// Keywords that divide a value's parts among them: one of them visits a part.
const SHARED: [&[&str]; 3] = [
    &["properties", "additionalProperties", "unevaluatedProperties"],
    &["prefixItems", "items", "additionalItems", "unevaluatedItems"],
    &["propertyNames"],
];
/// Keywords whose schemas may visit a part once more.
const AGAIN: [&str; 3] = ["patternProperties", "contains", "dependencies"];

/// Measurements of a schema before it is compiled.
struct SchemaMeasurements<'a> {
    root: &'a Value,
    nodes: usize,
    patterns: usize,
    words: usize,
    unfolded: usize,
    /// Most ways in which a schema calls itself for one part of a value.
    returns: usize,
    /// Index in the path from which all schemas apply to the same part of a value.
    floor: usize,
}

impl<'a> SchemaMeasurements<'a> {
    fn of(root: &'a Value) -> Self {
        Self { root, nodes: 0, patterns: 0, words: 0, unfolded: 0, returns: 0, floor: 0 }
    }

    /// Counts nested values, patterns and words of enumerations.
    fn measure(&mut self, value: &'a Value, depth: usize) -> Result<(), String> {
        self.nodes += 1;
        if depth > MAX_DEPTH {
            return Err(format!("the schema is nested more than {MAX_DEPTH} deep: use $ref to #/$defs"));
        }
        if self.nodes > MAX_NODES {
            return Err(format!("the schema has more than {MAX_NODES} parts: leave out parts that no call needs"));
        }
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.measure(item, depth + 1)),
            Value::Object(entries) => {
                for (key, value) in entries {
                    match (key.as_str(), value) {
                        ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target))
                            if target != "#" && !target.starts_with("#/") =>
                        {
                            let shown: String = target.chars().filter(|c| !c.is_control()).take(80).collect();
                            return Err(format!("`{key}: {shown}` refers to another document: write #/$defs/NAME"));
                        }
                        ("enum", Value::Array(words)) => self.words = self.words.max(words.len()),
                        ("pattern", Value::String(_)) => self.patterns += 1,
                        ("patternProperties", Value::Object(patterns)) => self.patterns += patterns.len(),
                        _ => {}
                    }
                    self.measure(value, depth + 1)?;
                }
                if self.patterns > MAX_PATTERNS {
                    return Err(format!("the schema has more than {MAX_PATTERNS} patterns"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Walks a schema along its references. Returns the number of ways in which it comes back to a schema above it, for
    /// one part of a value.
    fn unfold(&mut self, schema: &'a Value, path: &mut Vec<*const Value>) -> Result<usize, String> {
        let Value::Object(entries) = schema else { return Ok(0) };
        let here = std::ptr::from_ref(schema);
        if let Some(place) = path.iter().position(|above| *above == here) {
            if place >= self.floor {
                return Err("the schema refers to itself without going deeper into the value".to_owned());
            }
            return Ok(1);
        }
        self.unfolded += 1;
        if self.unfolded > MAX_UNFOLDED || path.len() > MAX_DEPTH * 4 {
            return Err("the schema is too large once its references are resolved: write fewer alternatives".to_owned());
        }
        path.push(here);
        let found = self.parts(entries, path);
        path.pop();
        let found = found?;
        self.returns = self.returns.max(found);
        Ok(found)
    }

    fn parts(&mut self, entries: &'a Map<String, Value>, path: &mut Vec<*const Value>) -> Result<usize, String> {
        let mut ways = 0;
        for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(target) = entries.get(key).and_then(Value::as_str) else { continue };
            let pointer = target.strip_prefix('#').unwrap_or_default();
            let target = self.root.pointer(&percent_decode_str(pointer).decode_utf8_lossy());
            let target = target.ok_or_else(|| format!("the target of `{key}` does not exist: check its spelling"))?;
            ways += self.unfold(target, path)?;
        }
        for key in IN_PLACE {
            ways += self.sum(entries.get(key), path)?;
        }
        let floor = std::mem::replace(&mut self.floor, path.len());
        let below = self.below(entries, path);
        self.floor = floor;
        Ok(ways + below?)
    }

    /// Counts these ways for schemas that apply to a part of the value.
    fn below(&mut self, entries: &'a Map<String, Value>, path: &mut Vec<*const Value>) -> Result<usize, String> {
        let mut ways = 0;
        for key in AGAIN {
            ways += self.sum(entries.get(key), path)?;
        }
        for group in SHARED {
            let mut most = 0;
            for key in group {
                for schema in subschemas(key, entries.get(*key)) {
                    most = most.max(self.unfold(schema, path)?);
                }
            }
            ways += most;
        }
        Ok(ways)
    }

    fn sum(&mut self, value: Option<&'a Value>, path: &mut Vec<*const Value>) -> Result<usize, String> {
        let mut ways = 0;
        match value {
            Some(Value::Array(items)) => {
                for item in items {
                    ways += self.unfold(item, path)?;
                }
            }
            Some(schema @ Value::Object(entries)) => {
                // A schema, or a mapping of schemas: both are walked, which only errs to the safe side.
                ways += self.unfold(schema, path)?;
                for item in entries.values().filter(|item| item.is_object()) {
                    ways += self.unfold(item, path)?;
                }
            }
            _ => {}
        }
        Ok(ways)
    }
}

/// Schemas that a keyword holds.
fn subschemas<'a>(key: &str, value: Option<&'a Value>) -> Vec<&'a Value> {
    match (key, value) {
        ("properties", Some(Value::Object(entries))) => entries.values().collect(),
        (_, Some(Value::Array(items))) => items.iter().collect(),
        (_, Some(schema)) => vec![schema],
        (_, None) => Vec::new(),
    }
}
