//! Reader of one operation of an OpenAPI file (3.0 or 3.1): a file beside the tools file and an operation's id in, JSON
//! Schemas of its arguments and result out, with the components that they refer to. No network, and no file outside the
//! tools file's folder.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{
    super::{
        fault::{Faults, quoted},
        file::read_tree,
        keys::{Keys, Record, Shape},
        text::printable,
        tree::{Node, parse},
    },
    json::to_json,
};
use umbra_domain::nearest::nearest;

/// HTTP methods that may hold an operation.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "patch", "options", "head"];
/// Prefix of references to schema components.
const SCHEMAS: &str = "#/components/schemas/";
/// Most components that one schema takes along.
const MAX_COMPONENTS: usize = 500;
/// Longest chain of references.
const MAX_HOPS: usize = 16;

/// Schemas of one operation.
#[derive(Debug, Clone, Default)]
pub(super) struct Operation {
    /// Schema of the parameters and the body's fields, as one object.
    pub input: Option<Value>,
    /// Schema of the body of the first 2xx response.
    pub output: Option<Value>,
    /// Example of that body.
    pub example: Option<Value>,
}

/// OpenAPI files below one folder, each read once.
pub(super) struct Files<'a> {
    folder: Option<&'a Path>,
    read: RefCell<BTreeMap<PathBuf, Option<Value>>>,
}

impl<'a> Files<'a> {
    /// Creates the reader of files below `folder`; without a folder no file can be named.
    pub fn below(folder: Option<&'a Path>) -> Self {
        Self { folder, read: RefCell::default() }
    }

    /// Reads the operation that a node names.
    pub fn operation(&self, node: &Node, faults: &mut Faults) -> Option<Operation> {
        let (file, id) = Record(|keys: &mut Keys<'_>| {
            let file =
                keys.required("openapi", "The OpenAPI file, beside this one.", printable("a file's name", 1_024));
            let id = keys.required("operation", "The operation's `operationId`.", printable("an operation's id", 256));
            Some((file?, id?))
        })
        .read(node, faults)?;
        let at = node.get("openapi").map_or(node.at, |file| file.at);
        let path = match self.path(&file) {
            Ok(path) => path,
            Err(message) => {
                let help = "name a file in the folder of the tools file, or below it";
                faults.within(".openapi".to_owned(), |faults| faults.fault(at, message, help));
                return None;
            }
        };
        let mut read = self.read.borrow_mut();
        let document = read
            .entry(path)
            .or_insert_with_key(|path| read_tree(path, parse, faults).and_then(|root| to_json(&root, faults)))
            .as_ref();
        let Some(document) = document else {
            // The fault is noted in the file itself already; this one is at the reference.
            let help = "correct the file, or write the schema itself";
            faults.within(".openapi".to_owned(), |faults| {
                faults.fault(at, format!("{} cannot be read", quoted(&file)), help);
            });
            return None;
        };
        find(document, &id).or_else(|| {
            let known = ids(document);
            let help = match nearest(&id, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("the file has {} operations with an id", known.len()),
            };
            let at = node.get("operation").map_or(node.at, |id| id.at);
            let message = format!("operation {} not found in {}", quoted(&id), quoted(&file));
            faults.within(".operation".to_owned(), |faults| faults.fault(at, message, help));
            None
        })
    }

    /// Returns the path of a file, if it is below the folder after links are followed.
    fn path(&self, file: &str) -> Result<PathBuf, String> {
        let Some(folder) = self.folder else { return Err("another file cannot be named here".to_owned()) };
        let relative = Path::new(file);
        if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(format!("{} is outside the folder of the tools file", quoted(file)));
        }
        let unreadable = |error: std::io::Error| format!("{} cannot be read: {error}", quoted(file));
        let folder = folder.canonicalize().map_err(unreadable)?;
        let path = folder.join(relative).canonicalize().map_err(unreadable)?;
        if path.starts_with(&folder) {
            Ok(path)
        } else {
            Err(format!("{} is outside the folder of the tools file", quoted(file)))
        }
    }
}

/// Lists each operation with its path item, which may hold parameters too.
fn operations(document: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    let paths = document["paths"].as_object().into_iter().flat_map(Map::values);
    paths.flat_map(|path| METHODS.iter().filter_map(move |method| path.get(method)).map(move |found| (path, found)))
}

fn ids(document: &Value) -> Vec<&str> {
    operations(document).filter_map(|(_, operation)| operation["operationId"].as_str()).collect()
}

fn find(document: &Value, id: &str) -> Option<Operation> {
    let (path, operation) = operations(document).find(|(_, operation)| operation["operationId"] == id)?;
    let (output, example) = output(document, operation);
    let input = input(document, path, operation);
    Some(Operation {
        input: input.map(|schema| whole(document, schema)),
        output: output.map(|schema| whole(document, schema)),
        example,
    })
}

/// Follows references up to the value that they lead to.
fn follow<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let mut value = value;
    for _ in 0..MAX_HOPS {
        let Some(target) = value["$ref"].as_str().and_then(|target| target.strip_prefix('#')) else { break };
        let Some(found) = document.pointer(target) else { break };
        value = found;
    }
    value
}

/// Returns parameters and the body's fields as one object, as an agent's tool takes them.
fn input(document: &Value, path: &Value, operation: &Value) -> Option<Value> {
    let (mut properties, mut required) = (Map::new(), BTreeSet::new());
    let lists = [&path["parameters"], &operation["parameters"]];
    for parameter in lists.into_iter().filter_map(Value::as_array).flatten() {
        let parameter = follow(document, parameter);
        let Some(name) = parameter["name"].as_str() else { continue };
        if matches!(parameter["in"].as_str(), Some("header" | "cookie")) {
            continue;
        }
        let schema = parameter.get("schema").or_else(|| media(parameter)?.get("schema"));
        properties.insert(name.to_owned(), schema.cloned().unwrap_or_else(|| json!({})));
        if parameter["required"] == true {
            required.insert(name.to_owned());
        }
    }
    let body = follow(document, &operation["requestBody"]);
    let schema = media(body).and_then(|media| media.get("schema"));
    if let Some(schema) = schema {
        let flat = follow(document, schema);
        let Some(fields) =
            flat["properties"].as_object().filter(|_| !flat.as_object().is_some_and(|flat| flat.contains_key("allOf")))
        else {
            // A body of another shape is taken as it is, where there are no parameters.
            return Some(if properties.is_empty() {
                schema.clone()
            } else {
                json!({"type": "object", "properties": properties})
            });
        };
        properties.extend(fields.clone());
        let needed = flat["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        required.extend(needed.map(str::to_owned));
    }
    (!properties.is_empty()).then(|| json!({"type": "object", "properties": properties, "required": required}))
}

/// Returns the first 2xx response's schema, and an example of it.
fn output(document: &Value, operation: &Value) -> (Option<Value>, Option<Value>) {
    let Some(responses) = operation["responses"].as_object() else { return (None, None) };
    let good = responses.iter().find(|(status, _)| status.starts_with('2'));
    let Some(media) = good.and_then(|(_, response)| media(follow(document, response))) else { return (None, None) };
    let first = media["examples"].as_object().and_then(|examples| examples.values().next());
    let example = media.get("example").or_else(|| follow(document, first?).get("value"));
    (media.get("schema").cloned(), example.cloned())
}

/// Returns the JSON media type, or else the first.
fn media(holder: &Value) -> Option<&Value> {
    let content = holder["content"].as_object()?;
    let json = content.iter().find(|(name, _)| name.contains("json"));
    json.or_else(|| content.iter().next()).map(|(_, media)| media)
}

/// Returns a schema with the components that it refers to, in JSON Schema 2020-12.
fn whole(document: &Value, schema: Value) -> Value {
    let mut schemas = Map::new();
    let mut waiting = references(&schema);
    while let Some(name) = waiting.pop_first() {
        if schemas.contains_key(&name) || schemas.len() >= MAX_COMPONENTS {
            continue;
        }
        if let Some(component) = document["components"]["schemas"].get(&name) {
            waiting.append(&mut references(component));
            schemas.insert(name, modern(component.clone()));
        }
    }
    let mut schema = modern(schema);
    if !schemas.is_empty() {
        // A root that is itself a reference may have siblings since draft 2019-09.
        if let Some(root) = schema.as_object_mut() {
            root.insert("components".to_owned(), json!({"schemas": schemas}));
        }
    }
    schema
}

/// Returns the names of the components that a schema refers to.
fn references(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![schema];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(entries) => {
                let target =
                    entries.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix(SCHEMAS));
                found.extend(target.map(|name| name.split('/').next().unwrap_or_default().to_owned()));
                waiting.extend(entries.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    found
}

/// Translates OpenAPI 3.0 to JSON Schema: `nullable`, and bounds that are flags.
fn modern(schema: Value) -> Value {
    match schema {
        Value::Array(items) => Value::Array(items.into_iter().map(modern).collect()),
        Value::Object(entries) => {
            let mut entries: Map<_, _> = entries.into_iter().map(|(key, value)| (key, modern(value))).collect();
            if entries.get("nullable") == Some(&Value::Bool(true)) {
                entries.remove("nullable");
                if let Some(Value::String(kind)) = entries.get("type").cloned() {
                    entries.insert("type".to_owned(), json!([kind, "null"]));
                }
                if let Some(Value::Array(words)) = entries.get_mut("enum")
                    && !words.contains(&Value::Null)
                {
                    words.push(Value::Null);
                }
            }
            for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
                match entries.get(flag) {
                    Some(Value::Bool(true)) => {
                        if let Some(limit) = entries.remove(bound) {
                            entries.insert(flag.to_owned(), limit);
                        }
                    }
                    Some(Value::Bool(false)) => drop(entries.remove(flag)),
                    _ => {}
                }
            }
            Value::Object(entries)
        }
        other => other,
    }
}
