//! Compares two editions of contracts. In: two lists of contracts. Out: changes, each with whether it breaks callers or
//! loosens a restriction. A change that cannot be judged counts as breaking.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Value, json};

use umbra_domain::contract::{Arguments, OnUnavailable, ToolContract};

/// Deepest level at which schemas are compared.
const MAX_DEPTH: usize = 32;
/// Most changes that are listed of one contract.
const MAX_CHANGES: usize = 100;

/// One change of a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContractChange {
    /// Tool of the contract.
    pub tool: String,
    /// True if callers may break, or less is held back than before.
    pub breaking: bool,
    /// Description of the change.
    pub change: String,
}

/// Lists all changes, by tool.
pub fn diff(old: &[ToolContract], new: &[ToolContract]) -> Vec<ContractChange> {
    let by_tool = |contracts: &'_ [ToolContract]| -> BTreeMap<String, ToolContract> {
        contracts.iter().map(|contract| (contract.tool.clone(), contract.clone())).collect()
    };
    let (old, new) = (by_tool(old), by_tool(new));
    let tools: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut changes = Vec::new();
    for tool in tools {
        let mut notes = Notes { tool, changes: Vec::new() };
        match (old.get(tool), new.get(tool)) {
            (Some(old), Some(new)) => notes.contract(old, new),
            (Some(_), None) => notes.note(true, "the contract is removed"),
            (None, Some(_)) => notes.note(false, "the contract is new"),
            (None, None) => {}
        }
        changes.append(&mut notes.changes);
    }
    changes
}

struct Notes<'a> {
    tool: &'a str,
    changes: Vec<ContractChange>,
}

impl Notes<'_> {
    fn note(&mut self, breaking: bool, change: impl Into<String>) {
        if self.changes.len() < MAX_CHANGES {
            self.changes.push(ContractChange { tool: self.tool.to_owned(), breaking, change: change.into() });
        }
    }

    fn contract(&mut self, old: &ToolContract, new: &ToolContract) {
        if old == new {
            return;
        }
        if new.version < old.version {
            self.note(true, format!("version went back from {} to {}", old.version, new.version));
        } else if new.version == old.version {
            self.note(true, format!("the contract changed and still has version {}: raise the version", old.version));
        }
        if old.effect != new.effect {
            let (from, to) = (old.effect.as_str(), new.effect.as_str());
            let direction = if new.effect < old.effect { "lowered" } else { "raised" };
            self.note(new.effect < old.effect, format!("effect is {direction} from {from} to {to}"));
        }
        if old.arguments != new.arguments {
            let looser = new.arguments == Arguments::Trusted;
            self.note(looser, format!("arguments are now {}", new.arguments.as_str()));
        }
        if old.on_unavailable != new.on_unavailable {
            let looser = new.on_unavailable == OnUnavailable::Allow;
            self.note(looser, format!("on_unavailable is now {}", new.on_unavailable.as_str()));
        }
        for gone in old.taints.iter().filter(|label| !new.taints.contains(label)) {
            self.note(true, format!("calls no longer add the label {gone}"));
        }
        for added in new.taints.iter().filter(|label| !old.taints.contains(label)) {
            self.note(false, format!("calls add the label {added}"));
        }
        self.schemas("input", old.input_schema.as_ref(), new.input_schema.as_ref());
        self.schemas("output", old.output_schema.as_ref(), new.output_schema.as_ref());
        let parts = [
            ("responses", old.responses != new.responses),
            ("faults", old.faults != new.faults),
            ("overlay", old.overlay != new.overlay),
            ("stale", old.stale != new.stale),
            ("sandbox", old.sandbox != new.sandbox),
            ("example", old.example != new.example),
        ];
        for (name, _) in parts.iter().filter(|(_, changed)| *changed) {
            self.note(false, format!("{name} changed"));
        }
    }

    /// Compares the schemas of arguments: the new one must allow all that callers give by the old one. Results must still
    /// be understood: there the old one must allow all that the tool returns by the new one.
    fn schemas(&mut self, what: &'static str, old: Option<&Value>, new: Option<&Value>) {
        let is_input = what == "input";
        let things = if is_input { "arguments" } else { "results" };
        match (old, new) {
            (None, Some(_)) => self.note(is_input, format!("{things} are now validated: {what}_schema is new")),
            (Some(_), None) => self.note(true, format!("{things} are no longer validated: {what}_schema is removed")),
            (Some(old), Some(new)) if old != new => {
                let (offer, demand) = if is_input { (old, new) } else { (new, old) };
                self.compare(&ComparedSchemas { offer, demand, what }, offer, demand, "", 0);
            }
            _ => {}
        }
    }

    /// Notes where a value that fits `offer` may not fit `demand`.
    fn compare(&mut self, sides: &ComparedSchemas<'_>, offer: &Value, demand: &Value, path: &str, depth: usize) {
        let (offer, demand) = (follow(sides.offer, offer), follow(sides.demand, demand));
        if offer == demand && sides.offer == sides.demand || demand == &Value::Bool(true) {
            return;
        }
        let place = if path.is_empty() { sides.what.to_owned() } else { format!("{}{path}", sides.what) };
        if depth > MAX_DEPTH {
            return self.note(true, format!("{place}: too deep to be compared"));
        }
        let (types, expected) = (types(offer), types_of_demand(demand));
        if let Some(expected) = &expected
            && !types.is_subset(expected)
        {
            let (given, expected) = (joined(&types), joined(expected));
            self.note(true, sides.say(&place, &format!("type {expected}"), &format!("type {given}")));
        }
        let keys = [offer, demand].into_iter().filter_map(Value::as_object).flat_map(serde_json::Map::keys);
        let unjudged: BTreeSet<&String> = keys.filter(|key| !is_compared(key) && !key.starts_with("x-")).collect();
        for key in unjudged {
            if offer.get(key) != demand.get(key) {
                self.note(true, format!("{place}: `{key}` changed"));
            }
        }
        let others =
            |schema: &Value| schema.get("additionalProperties").filter(|others| **others != json!(true)).cloned();
        if others(demand).is_some() && others(demand) != others(offer) {
            self.note(true, format!("{place}: `additionalProperties` changed"));
        }
        self.bounds(sides, offer, demand, &place);
        self.words(sides, offer, demand, &place);
        self.fields(sides, offer, demand, path, depth);
        if let Some(wanted) = demand.get("items")
            && offer.get("items") != Some(wanted)
        {
            match offer.get("items") {
                Some(items) => self.compare(sides, items, wanted, &format!("{path}[]"), depth + 1),
                None => self.note(true, format!("{place}[]: items are no longer described")),
            }
        }
    }

    fn bounds(&mut self, sides: &ComparedSchemas<'_>, offer: &Value, demand: &Value, place: &str) {
        for key in LOWER_BOUNDS.into_iter().chain(UPPER_BOUNDS) {
            let bound = |schema: &Value| schema.get(key).and_then(Value::as_f64);
            let Some(wanted) = bound(demand) else { continue };
            let kept = bound(offer)
                .is_some_and(|given| if LOWER_BOUNDS.contains(&key) { given >= wanted } else { given <= wanted });
            if !kept {
                let strict = if sides.what == "input" { "stricter" } else { "less strict" };
                self.note(true, format!("{place}: `{key}` is {strict} than before"));
            }
        }
    }

    fn words(&mut self, sides: &ComparedSchemas<'_>, offer: &Value, demand: &Value, place: &str) {
        let words = |schema: &Value| schema.get("enum").and_then(Value::as_array).cloned();
        let Some(known) = words(demand) else { return };
        match words(offer) {
            None => self.note(true, sides.say(place, "listed values", "any value")),
            Some(given) => {
                let strange = given.iter().filter(|word| !known.contains(word)).count();
                if strange > 0 {
                    let (what, verb) =
                        if sides.what == "input" { ("no longer accepted", "were") } else { ("new", "are") };
                    self.note(true, format!("{place}: {strange} values of the enumeration {verb} {what}"));
                }
            }
        }
    }

    fn fields(&mut self, sides: &ComparedSchemas<'_>, offer: &Value, demand: &Value, path: &str, depth: usize) {
        let empty = serde_json::Map::new();
        let properties = |schema: &'_ Value| schema.get("properties").and_then(Value::as_object).cloned();
        let (given, taken) = (properties(offer).unwrap_or_else(|| empty.clone()), properties(demand).unwrap_or(empty));
        let (sure, needed) = (required(offer), required(demand));
        let is_input = sides.what == "input";
        for name in &needed {
            if !sure.contains(name) {
                let place = format!("{}{path}.{name}", sides.what);
                let change = match (is_input, given.contains_key(name)) {
                    (true, _) => "is required now",
                    (false, true) => "may be missing now",
                    (false, false) => "is removed",
                };
                self.note(true, format!("{place} {change}"));
            }
        }
        for (name, wanted) in &taken {
            match given.get(name) {
                Some(schema) => self.compare(sides, schema, wanted, &format!("{path}.{name}"), depth + 1),
                None if is_input => self.note(false, format!("input{path}.{name} is new")),
                None if !needed.contains(name) => self.note(true, format!("output{path}.{name} is removed")),
                None => {}
            }
        }
        for name in given.keys().filter(|name| !taken.contains_key(*name)) {
            let closed = demand.get("additionalProperties") == Some(&Value::Bool(false));
            if is_input {
                let how = if closed { "is no longer accepted" } else { "is no longer described" };
                self.note(closed, format!("input{path}.{name} {how}"));
            } else {
                self.note(closed, format!("output{path}.{name} is new"));
            }
        }
    }
}

/// Keywords that bound a value from below.
const LOWER_BOUNDS: [&str; 5] = ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"];
/// Keywords that bound a value from above.
const UPPER_BOUNDS: [&str; 5] = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"];
/// Other keywords that are compared by their meaning, and those that allow and forbid nothing.
const COMPARED: [&str; 18] = [
    "type",
    "nullable",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "title",
    "description",
    "default",
    "example",
    "examples",
    "deprecated",
    "$comment",
    "$schema",
    "$id",
    "$defs",
    "definitions",
];

/// True for keywords whose change is judged by their meaning.
fn is_compared(key: &str) -> bool {
    COMPARED.contains(&key) || LOWER_BOUNDS.contains(&key) || UPPER_BOUNDS.contains(&key)
}

/// Schemas of the offered and of the expected value.
struct ComparedSchemas<'a> {
    offer: &'a Value,
    demand: &'a Value,
    what: &'static str,
}

impl ComparedSchemas<'_> {
    /// Words a change, from the old edition to the new one.
    fn say(&self, place: &str, demand: &str, offer: &str) -> String {
        if self.what == "input" {
            format!("{place}: {offer} became {demand}")
        } else {
            format!("{place}: {demand} became {offer}")
        }
    }
}

/// Follows local references of a schema, up to 16.
fn follow<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..16 {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(found) => schema = found,
            None => break,
        }
    }
    schema
}

fn required(schema: &Value) -> BTreeSet<String> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

const ALL_TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Types that a schema allows.
fn types(schema: &Value) -> BTreeSet<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => BTreeSet::from([one.as_str()]),
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => ALL_TYPES.into_iter().collect(),
    }
}

/// Types that an expected schema accepts, where a number may be an integer; none if any type is accepted.
fn types_of_demand(schema: &Value) -> Option<BTreeSet<&str>> {
    schema.get("type")?;
    let mut types = types(schema);
    if types.contains("number") {
        types.insert("integer");
    }
    Some(types)
}

fn joined(types: &BTreeSet<&str>) -> String {
    if types.len() == ALL_TYPES.len() {
        return "any".to_owned();
    }
    types.iter().copied().collect::<Vec<_>>().join(" or ")
}
