//! Scans requests among the arguments of a call: addresses, bodies, headers and parameters.

use serde_json::{Map, Value};

use super::{
    super::{
        argument_names::{NAMES, TOOLS, asked, is},
        lexicon::verb,
        lists::among,
        name::{self, words},
        request,
    },
    ArgumentScan, MAX_UNFOLDED, http, is_empty,
};
use umbra_domain::Effect;

impl ArgumentScan {
    /// Scans a request: one with a body is hardly a read.
    pub(super) fn look_at_request(&mut self, members: &Map<String, Value>) {
        if !members.keys().any(|key| is(&words(key), &NAMES.addresses)) {
            return self.look_at_headers(members);
        }
        for (key, value) in members {
            if !is_empty(value) && among(&NAMES.bodies, key) {
                self.at(key, |look| look.note(Effect::Write, "is the body of a request"));
            }
            for (name, value) in value.as_object().filter(|_| is(&words(key), &NAMES.paired)).into_iter().flatten() {
                self.at(key, |look| look.look_at_parameter(name, value.as_str().unwrap_or_default()));
            }
            if let Some(effect) = value.as_str().and_then(|text| http(text, true)) {
                self.at(key, |look| look.note(effect, "is the method of a request that writes"));
            }
        }
        self.look_at_headers(members);
    }

    /// Scans headers, which are given by name, as lines or as pairs.
    fn look_at_headers(&mut self, members: &Map<String, Value>) {
        let Some((key, headers)) = members.iter().find(|(key, _)| is(&words(key), "header headers")) else {
            return;
        };
        let line = |text: &str| {
            let lines = text.split(['\n', '\r']).filter_map(|line| line.split_once(':'));
            lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect::<Vec<_>>()
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let said: Vec<(String, String)> = match headers {
            Value::String(lines) => line(lines),
            Value::Object(named) => named.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            Value::Array(items) => {
                items.iter().filter_map(Value::as_str).flat_map(line).chain(pairs_of(items)).collect()
            }
            _ => Vec::new(),
        };
        for (name, value) in said {
            if !request::header_is_plain(&name) {
                // `urn:users#DeleteUser`, `DynamoDB_20120810.DeleteItem`
                let order = value.rsplit(['#', '/', '.']).next().unwrap_or_default();
                self.at(key, |look| look.look_at_method(order.trim_matches('"')));
            }
        }
    }

    /// Scans an address and its parameters.
    pub(super) fn look_at_address(&mut self, key: &[String], text: &str) -> bool {
        let kind = request::scheme(text).filter(|_| !text.contains(' '));
        let is_address = kind.is_some() || is(key, &NAMES.addresses);
        let is_part = is(key, &NAMES.parts) && !self.tool.is_of(&TOOLS.of_files) && text.contains('/')
            || is(key, "index") && text.starts_with('_');
        if !is_address && !is_part {
            return true;
        }
        let hidden = |text: &str| text.chars().any(char::is_control);
        if is_address && (hidden(text) || hidden(&request::decoded(text))) {
            self.note(Effect::Destructive, "is an address with hidden lines");
        }
        let own: Vec<String> = self.tool.words().cloned().collect();
        let address = request::address(text);
        if kind.is_some_and(|kind| !request::is_fetched(kind, &own)) {
            self.note(Effect::Destructive, "is an address of a kind that is not known to be only fetched");
        }
        let asks = if is_address && address.scheme != Some("file") { address.asks() } else { address.asks_as_path() };
        if let Some((effect, word)) = asks {
            self.note(effect, &format!("is an address that asks to `{word}`"));
        }
        self.look_at_pairs(address.parameters)
    }

    /// Scans the pairs of a form, or of an address.
    pub(super) fn look_at_pairs(&mut self, pairs: Vec<(String, String)>) -> bool {
        if self.unfolded >= MAX_UNFOLDED {
            self.note(Effect::Destructive, "is nested deeper than arguments are examined");
            return true;
        }
        self.unfolded += 1;
        let outer = std::mem::replace(&mut self.in_form, true);
        let whole = pairs.into_iter().all(|(name, value)| {
            self.look_at_parameter(&name, &value);
            let asked = asked(&name).is_some() && ["1", "yes", "on"].contains(&value.as_str());
            let value = if asked { "true".to_owned() } else { value };
            self.value(&words(&name), &Value::String(value))
        });
        self.unfolded -= 1;
        self.in_form = outer;
        whole
    }

    /// Scans a parameter whose value names an action, whatever its own name: `?m=DELETE`, `?a=del`.
    fn look_at_parameter(&mut self, name: &str, value: &str) {
        let small = name.to_lowercase();
        let sought = among("q query search s k t p text term keyword name title", &small);
        let said = small.contains("method") || small.contains("override");
        if let Some(effect) = http(value, !said).filter(|_| !sought) {
            self.note(effect, "is the method of a request that writes");
        }
        let done = || {
            among("a ac act cmd do fn m op", &small) && verb(value).is_some_and(|verb| verb.act.effect() > Effect::Read)
        };
        if name.len() < 4 && !sought && (!among("id by to", &small) && name::acts(value) || done()) {
            self.note(Effect::Destructive, "is a parameter that asks for more than a read");
        }
    }
}

/// Pairs of names and values in a list: `[["_method", "DELETE"]]`, `[{"name": "_method", "value": "DELETE"}]`.
pub(super) fn pairs_of(items: &[Value]) -> Vec<(String, String)> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(ToOwned::to_owned);
    let pair = |item: &Value| match item {
        Value::Array(pair) if pair.len() == 2 => Some((text(pair.first())?, text(pair.get(1))?)),
        Value::Object(pair) => {
            let name = ["name", "key", "header"].iter().find_map(|key| pair.get(*key));
            Some((text(name)?, text(pair.get("value"))?))
        }
        _ => None,
    };
    items.iter().filter_map(pair).collect()
}
