//! Samples a value that fits a JSON Schema: ids are minted, arguments of the same name are echoed, times are the run's.
//!
//! The sample is a best guess and not a solution: the caller validates it, and refuses it if it does not fit.

use serde_json::{Map, Number, Value, json};

use super::state::SharedMint;
use crate::contract::Schema;

/// Deepest nesting of a value.
const MAX_DEPTH: usize = 24;
/// Depth from which on only required fields are given.
const FULL_DEPTH: usize = 4;
/// Most values of one sample.
const MAX_VALUES: usize = 2_000;
/// Most items of a list, whatever its schema wants.
const MAX_ITEMS: u64 = 100;
/// Longest text, whatever its schema wants.
const MAX_TEXT: u64 = 10_000;
/// Texts that are tried for a pattern.
const CANDIDATES: [&str; 12] = [
    "shadow",
    "SHADOW",
    "0",
    "1",
    "00",
    "0000",
    "2026-01-01",
    "1.0.0",
    "USD",
    "en",
    "https://shadow.example",
    "a@b.example",
];

/// Samples a value of a schema, for a call with these arguments.
///
/// # Errors
/// The reason why none was found.
pub(crate) fn sample(schema: &Value, arguments: &Value, mint: &SharedMint) -> Result<Value, String> {
    let mut sampler = Sampler { root: schema, arguments, mint, left: MAX_VALUES };
    sampler.value(schema, None, 0)
}

struct Sampler<'a> {
    root: &'a Value,
    arguments: &'a Value,
    mint: &'a SharedMint,
    left: usize,
}

impl<'a> Sampler<'a> {
    fn value(&mut self, schema: &'a Value, name: Option<&str>, depth: usize) -> Result<Value, String> {
        self.left = self.left.checked_sub(1).ok_or("the schema requires too many values")?;
        if depth > MAX_DEPTH {
            return Err("the schema requires an endless value".to_owned());
        }
        let Value::Object(keywords) = schema else {
            return if *schema == Value::Bool(false) {
                Err("the schema allows no value".to_owned())
            } else {
                Ok(json!({}))
            };
        };
        if let Some(value) = keywords.get("const") {
            return Ok(value.clone());
        }
        if let Some(echoed) = name.and_then(|name| self.echo(name, schema)) {
            return Ok(echoed);
        }
        let shown = [keywords.get("example"), keywords.get("default"), list(keywords, "examples").first()];
        if let Some(value) = shown.into_iter().flatten().find(|value| !value.is_null()) {
            return Ok(value.clone());
        }
        if let Some(value) = list(keywords, "enum").iter().find(|value| !value.is_null()) {
            return Ok(value.clone());
        }
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str) {
            let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            return self.value(found.ok_or("the target of a $ref does not exist")?, name, depth + 1);
        }
        self.composed(keywords, schema, name, depth)
    }

    /// Samples a schema that may be composed of others.
    fn composed(
        &mut self,
        keywords: &'a Map<String, Value>,
        schema: &'a Value,
        name: Option<&str>,
        depth: usize,
    ) -> Result<Value, String> {
        let mut value = None;
        for key in ["oneOf", "anyOf"] {
            let branches = list(keywords, key);
            let real = branches.iter().filter(|branch| branch["type"] != "null");
            let mut why = None;
            for branch in real.chain(branches.iter()).take(branches.len()) {
                match self.value(branch, name, depth + 1) {
                    Ok(found) => {
                        value = Some(join(value.take(), found));
                        why = None;
                        break;
                    }
                    Err(error) => why = Some(error),
                }
            }
            if let Some(error) = why {
                return Err(error);
            }
        }
        for part in list(keywords, "allOf") {
            let found = self.value(part, name, depth + 1)?;
            value = Some(join(value.take(), found));
        }
        let kind = kind(keywords, value.is_some());
        let own = match kind {
            None => return Ok(value.unwrap_or_else(|| json!({}))),
            Some("object") => self.object(keywords, depth)?,
            Some("array") => self.array(keywords, depth)?,
            Some("string") => Value::String(self.text(keywords, schema, name)?),
            Some("integer") => number(keywords, true),
            Some("number") => number(keywords, false),
            Some("boolean") => Value::Bool(true),
            Some("null") => Value::Null,
            Some(_) => return Err("the schema has an unknown type".to_owned()),
        };
        Ok(join(value, own))
    }

    /// Argument of the same name, if it fits.
    fn echo(&self, name: &str, schema: &Value) -> Option<Value> {
        let argument = self.arguments.get(name).filter(|value| !value.is_null())?;
        // References in a part of a schema lead into the whole.
        let mut alone = schema.clone();
        if let (Some(alone), Some(root)) = (alone.as_object_mut(), self.root.as_object()) {
            for key in ["$defs", "definitions", "components"] {
                if let Some(shared) = root.get(key) {
                    alone.entry(key).or_insert_with(|| shared.clone());
                }
            }
        }
        Schema::compile(&alone).ok()?.fits(argument).then(|| argument.clone())
    }

    fn object(&mut self, keywords: &'a Map<String, Value>, depth: usize) -> Result<Value, String> {
        let required: Vec<&str> = list(keywords, "required").iter().filter_map(Value::as_str).collect();
        let mut entries = Map::new();
        let properties = keywords.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            let needed = required.contains(&name.as_str());
            if !needed && (depth >= FULL_DEPTH || self.left < MAX_VALUES / 2) {
                continue;
            }
            match self.value(schema, Some(name), depth + 1) {
                Ok(value) => drop(entries.insert(name.clone(), value)),
                Err(error) if needed => return Err(error),
                Err(_) => {}
            }
        }
        for name in required {
            if !entries.contains_key(name) {
                let value = match keywords.get("additionalProperties") {
                    Some(schema @ Value::Object(_)) => self.value(schema, Some(name), depth + 1)?,
                    _ => self.arguments.get(name).cloned().unwrap_or_else(|| json!("shadow")),
                };
                entries.insert(name.to_owned(), value);
            }
        }
        Ok(Value::Object(entries))
    }

    fn array(&mut self, keywords: &'a Map<String, Value>, depth: usize) -> Result<Value, String> {
        let prefix = list(keywords, "prefixItems");
        let mut items = Vec::new();
        for schema in prefix {
            items.push(self.value(schema, None, depth + 1)?);
        }
        let least = keywords.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        if least > MAX_ITEMS {
            return Err(format!("the schema requires {least} items, which is too many for a sample"));
        }
        let most = keywords.get("maxItems").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let wanted = least.max(u64::from(prefix.is_empty() && depth < FULL_DEPTH)).min(most);
        if let Some(schema) = keywords.get("items").filter(|schema| **schema != Value::Bool(false)) {
            while (items.len() as u64) < wanted {
                items.push(self.value(schema, None, depth + 1)?);
            }
        } else {
            while (items.len() as u64) < least {
                items.push(Value::String(self.mint.seq("shadow-")?));
            }
        }
        Ok(Value::Array(items))
    }

    fn text(&self, keywords: &Map<String, Value>, schema: &Value, name: Option<&str>) -> Result<String, String> {
        let bound = |key: &str| keywords.get(key).and_then(Value::as_u64);
        let (least, most) = (bound("minLength").unwrap_or(0), bound("maxLength").unwrap_or(u64::MAX));
        if least > MAX_TEXT || least > most {
            return Err(format!("no text of the {least} characters that the schema requires can be made"));
        }
        let now = self.mint.now().to_string();
        let text = match keywords.get("format").and_then(Value::as_str).unwrap_or_default() {
            "date-time" => now,
            "date" => now.get(..10).unwrap_or_default().to_owned(),
            "time" => now.get(11..).unwrap_or_default().to_owned(),
            "duration" => "PT0S".to_owned(),
            "email" | "idn-email" => "shadow@example.com".to_owned(),
            "hostname" | "idn-hostname" => "shadow.example".to_owned(),
            "ipv4" => "192.0.2.1".to_owned(),
            "ipv6" => "2001:db8::1".to_owned(),
            "uri" | "uri-reference" | "iri" | "url" => "https://shadow.example/".to_owned(),
            "uuid" => self.mint.uuid("")?,
            _ if keywords.contains_key("pattern") => self.patterned(schema)?,
            _ if name.is_some_and(is_id) => self.mint.uuid("shadow-")?,
            _ => "shadow".to_owned(),
        };
        let length = text.chars().count() as u64;
        if length > most {
            let cut = usize::try_from(most).unwrap_or(usize::MAX);
            return Ok(text.chars().take(cut).collect());
        }
        let missing = usize::try_from(least.saturating_sub(length)).unwrap_or_default();
        Ok(text + &"x".repeat(missing))
    }

    fn patterned(&self, schema: &Value) -> Result<String, String> {
        let compiled = Schema::compile(schema)?;
        let minted = [self.mint.uuid("")?, self.mint.uuid("shadow-")?, self.mint.seq("")?];
        let mut candidates = CANDIDATES.iter().map(|text| (*text).to_owned()).chain(minted);
        let found = candidates.find(|text| compiled.fits(&Value::String(text.clone())));
        found.ok_or_else(|| "no text was found for a pattern; add `examples` to the schema".to_owned())
    }
}

fn list<'a>(keywords: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    keywords.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Type of the value; none if nothing tells it and there is a value already.
fn kind(keywords: &Map<String, Value>, has_value: bool) -> Option<&str> {
    match keywords.get("type") {
        Some(Value::String(kind)) => Some(kind),
        Some(Value::Array(kinds)) => {
            let mut names = kinds.iter().filter_map(Value::as_str);
            names.clone().find(|kind| *kind != "null").or_else(|| names.next())
        }
        _ => {
            let hints = [
                ("properties", "object"),
                ("required", "object"),
                ("items", "array"),
                ("prefixItems", "array"),
                ("pattern", "string"),
                ("format", "string"),
                ("minLength", "string"),
                ("minimum", "number"),
            ];
            let hint = hints.iter().find(|(key, _)| keywords.contains_key(*key)).map(|(_, kind)| *kind);
            hint.or(if has_value { None } else { Some("object") })
        }
    }
}

/// Joins two values: fields of both, the later before the earlier; for other values the later.
fn join(earlier: Option<Value>, later: Value) -> Value {
    match (earlier, later) {
        (Some(Value::Object(mut entries)), Value::Object(more)) => {
            entries.extend(more);
            Value::Object(entries)
        }
        (_, later) => later,
    }
}

/// Number within its bounds: 1 if they allow it.
fn number(keywords: &Map<String, Value>, whole: bool) -> Value {
    let bound = |key: &str| keywords.get(key).and_then(Value::as_f64);
    let step = bound("multipleOf").filter(|step| *step > 0.0);
    let least =
        bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + if whole { 1.0 } else { 0.5 }));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - if whole { 1.0 } else { 0.5 }));
    let mut value: f64 = step.unwrap_or(1.0);
    if let Some(most) = most {
        value = value.min(most);
    }
    if let Some(least) = least {
        value = value.max(least);
    }
    if let Some(step) = step {
        value = (value / step).ceil() * step;
    }
    if whole || value.fract() == 0.0 && value.abs() < 1e15 {
        #[expect(clippy::cast_possible_truncation, reason = "saturates; the value is validated")]
        let whole = value.ceil() as i64;
        return whole.into();
    }
    Number::from_f64(value).map_or_else(|| json!(1), Value::Number)
}

/// True if a field of this name holds an id.
pub(super) fn is_id(name: &str) -> bool {
    let lower = name.to_lowercase();
    matches!(lower.as_str(), "id" | "uuid" | "guid" | "key" | "sha" | "token")
        || lower.ends_with("_id")
        || lower.ends_with("-id")
        || lower.ends_with("uuid")
        || name.ends_with("Id")
        || name.ends_with("ID")
}
