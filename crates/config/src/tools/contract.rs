//! One contract: its keys, and the relations between them.

use std::{cell::RefCell, time::Duration};

use serde_json::Value;

use super::{
    super::{
        fault::{Faults, is_printable},
        keys::{Keys, Record, Shape},
        number::{Time, decimal, whole},
        rules::tool_glob,
        shape::{Flag, List, word},
        text::{Text, free_text, printable, text},
        tree::Node,
    },
    ContractRule, TOOL,
    json::{Json, JsonObject},
    openapi::{Files, Operation},
};
use umbra_domain::{
    Effect,
    contract::{
        Arguments, FaultRule, ListBack, OnUnavailable, Overlay, OverlayDelete, OverlayPut, ReadBack, StaleLimits,
        StubResponse, ToolContract,
    },
};

/// Longest expression, in characters.
const MAX_EXPRESSION: usize = 4_096;
/// Most responses, faults, readers, listers and labels of a contract.
const MAX_RESPONSES: usize = 64;
const MAX_FAULTS: usize = 16;
const MAX_READERS: usize = 32;
const MAX_TAINTS: usize = 16;

/// Declares a contract's keys.
pub(super) fn declare(keys: &mut Keys<'_>, files: &Files<'_>, rule: ContractRule<'_>) -> Option<ToolContract> {
    let tool = keys.required(TOOL, "The tool: `server.tool`, a name, or a glob such as `stripe.get_*`.", tool_glob());
    let version = keys.optional(
        "version",
        "Version of the contract: raise it with each change; the audit stores tool@version (1 unless set).",
        whole(1..=1_000_000),
    );
    let effect = keys.required(
        "effect",
        "Effect of a call. read: nothing is changed. write: something is added or changed. destructive: something is \
         lost, or cannot be taken back.",
        word(&Effect::ALL, Effect::as_str),
    );
    let arguments = keys.or_default(
        "arguments",
        "Treatment of the arguments of a tool that reads. looked_at (unless set): a call whose arguments are not \
         understood as a read is no read. trusted: every call is a read, whatever its arguments are.",
        word(&Arguments::ALL, Arguments::as_str),
    );
    let example = RefCell::new(None);
    let input_schema = keys.optional(
        "input_schema",
        "JSON Schema of the arguments, or {openapi: FILE, operation: ID}; calls that do not fit are refused.",
        SchemaShape { files, part: OperationPart::Input, example: None },
    );
    let output_schema = keys.optional(
        "output_schema",
        "JSON Schema of the result, or {openapi: FILE, operation: ID}; every stub must fit it.",
        SchemaShape { files, part: OperationPart::Output, example: Some(&example) },
    );
    let responses = keys.or_default(
        "responses",
        "Answers to a call that is not run: the first whose `when` holds is given.",
        List { len: 1..=MAX_RESPONSES, single: false, item: Record(response) },
    );
    let faults = keys.or_default(
        "faults",
        "Errors that stubs return at a rate, in runs that ask for faults; off otherwise.",
        List { len: 0..=MAX_FAULTS, single: false, item: Record(fault_rule) },
    );
    let overlay = keys.optional(
        "overlay",
        "Records of calls that did not run, for later reads of the same run.",
        Record(overlay),
    );
    let stale = keys.or_default(
        "stale",
        "Limits after which the contract is stale, that is, no longer believed.",
        Record(staleness),
    );
    let on_unavailable = keys.or_default(
        "on_unavailable",
        "Handling of a live call when no decision can be stored. block (unless set): the call is not executed. allow: \
         the call is executed, where the last known state was live.",
        word(&OnUnavailable::ALL, OnUnavailable::as_str),
    );
    let sandbox = keys.optional("sandbox", "Endpoint where the tool can be tried without consequences.", endpoint());
    let taints = keys.or_default(
        "taints",
        "Labels that a call adds to its session, for policy rules on `session.taint`.",
        List { len: 0..=MAX_TAINTS, single: true, item: label() },
    );
    let contract = ToolContract {
        tool: tool?,
        version: version.unwrap_or(1),
        effect: effect?,
        arguments,
        input_schema,
        output_schema,
        example: example.into_inner(),
        responses,
        faults,
        overlay,
        stale,
        on_unavailable,
        sandbox,
        taints,
    };
    check(keys, &contract);
    for fault in rule(&contract) {
        keys.fault_of(fault.key, fault.index, fault.message, fault.help);
    }
    Some(contract)
}

/// Checks the relations between the keys.
fn check(keys: &mut Keys<'_>, contract: &ToolContract) {
    let last = contract.responses.len().saturating_sub(1);
    for (index, response) in contract.responses.iter().enumerate() {
        if response.when.is_none() && index < last {
            let help = "give it a `when`, or move it to the end";
            keys.fault_of("responses", Some(index), "no response after this one is ever used", help);
        }
    }
    if contract.responses.get(last).is_some_and(|response| response.when.is_some()) {
        let message = "in shadow, a call is refused if no `when` holds";
        keys.warn("responses", message, "end with a response without `when`");
    }
    if contract.effect == Effect::Read && contract.overlay.as_ref().is_some_and(writes) {
        let help = "write effect: write, or name the tool under overlay.reads of the tool that writes";
        keys.fault("overlay", "a tool with effect: read has nothing to store or remove", help);
    }
    if contract.effect == Effect::Read && contract.on_unavailable == OnUnavailable::Allow {
        let help = "leave on_unavailable out: reads always run";
        keys.warn("on_unavailable", "on_unavailable has no effect on a tool with effect: read", help);
    }
    if contract.effect != Effect::Read && contract.arguments == Arguments::Trusted {
        let help = "leave arguments out: it applies only to tools with effect: read";
        keys.warn("arguments", "arguments: trusted has no effect on a tool that changes something", help);
    }
    if let Some(overlay) = contract.overlay.as_ref().filter(|overlay| !writes(overlay)) {
        let named = overlay.reads.iter().map(|read| &read.collection);
        if named.chain(overlay.lists.iter().map(|list| &list.collection)).any(Option::is_none) {
            keys.fault(
                "overlay",
                "the overlay does not say which collection is read back",
                "add put or delete, or give each read and list a collection",
            );
        }
    }
}

fn writes(overlay: &Overlay) -> bool {
    overlay.put.is_some() || overlay.delete.is_some()
}

fn response(keys: &mut Keys<'_>) -> Option<StubResponse> {
    let when = keys.optional(
        "when",
        "Condition of the response, in CEL over args and tool; it always applies unless set.",
        expression(),
    );
    let result = keys.required_or_null(
        "result",
        "The result. A text that is one {{ CEL }} takes the value's type; known are args, tool, uuid(prefix), \
         seq(prefix), now(), epoch(). null where output_schema says that the tool gives nothing.",
        Json { null: true },
    );
    Some(StubResponse { when, result: result? })
}

fn fault_rule(keys: &mut Keys<'_>) -> Option<FaultRule> {
    let rate = keys.required("rate", "Share of calls, from 0 to 1.", decimal("a share", 0.0..=1.0, Some));
    let error = keys.required("error", "The error's code, such as rate_limited.", label());
    let message = keys.optional("message", "The error in words.", free_text(500));
    let result = keys.optional(
        "result",
        "Result of the failed call; the error and its message unless set.",
        Json { null: false },
    );
    Some(FaultRule { rate: rate?, error: error?, message, result })
}

#[expect(clippy::unnecessary_wraps, reason = "a record may be faulty; this one has no key that must be there")]
fn overlay(keys: &mut Keys<'_>) -> Option<Overlay> {
    let put = keys.optional("put", "A record that the call stores.", Record(put));
    let delete = keys.optional("delete", "A record that the call removes.", Record(delete));
    let reads = keys.or_default(
        "reads",
        "Tools that read one record by its key.",
        List { len: 0..=MAX_READERS, single: false, item: Record(read_back) },
    );
    let lists = keys.or_default(
        "lists",
        "Tools that list records; what was stored is merged into their live result.",
        List { len: 0..=MAX_READERS, single: false, item: Record(list_back) },
    );
    Some(Overlay { put, delete, reads, lists })
}

fn put(keys: &mut Keys<'_>) -> Option<OverlayPut> {
    let collection = keys.required("collection", "Collection of the record, such as refunds.", label());
    let key = keys.required("key", "Key of the record, in CEL over args, tool and result.", expression());
    let value = keys.optional(
        "value",
        "The record, over args, tool, result and record (the run's earlier record of this key, or {}); the result \
         unless set.",
        Json { null: false },
    );
    let partial = keys.or_default(
        "partial",
        "True if the record holds only the fields that change: a read of a live record runs, and these fields are laid \
         over its result, members of members as well; a list is replaced (false unless set).",
        Flag,
    );
    let edits = keys.optional(
        "edits",
        "Replacements within a record that is text, in CEL: a list of {oldText, newText}. A live text that is read is \
         shown with them.",
        expression(),
    );
    let from = keys.optional(
        "from",
        "Key of the run's record that becomes this one, in CEL; nothing is stored where there is none.",
        expression(),
    );
    Some(OverlayPut { collection: collection?, key: key?, value, partial, edits, from })
}

fn delete(keys: &mut Keys<'_>) -> Option<OverlayDelete> {
    let collection = keys.required("collection", "Collection of the record, such as refunds.", label());
    let key = keys.required("key", "Key of the record, in CEL over args, tool and result.", expression());
    Some(OverlayDelete { collection: collection?, key: key? })
}

fn read_back(keys: &mut Keys<'_>) -> Option<ReadBack> {
    let tool = keys.required(TOOL, "The tool that reads.", printable("a tool's name", 256));
    let collection = keys.optional("collection", "Collection that is read; that of put or delete unless set.", label());
    let key = keys.required("key", "Key that a call asks for, in CEL over args and tool.", expression());
    let at = keys.or_default(
        "at",
        "Path of the record in the result, as data.item; the result itself unless set.",
        field_path(),
    );
    let result = keys.optional(
        "result",
        "Result of the read, over args, tool and record; the record unless set.",
        Json { null: false },
    );
    let on_missing = keys.optional(
        "on_missing",
        "Result for a removed record; an error not_found unless set.",
        Json { null: false },
    );
    Some(ReadBack { tool: tool?, collection, key: key?, at, result, on_missing })
}

fn list_back(keys: &mut Keys<'_>) -> Option<ListBack> {
    let tool = keys.required(TOOL, "The tool that lists.", printable("a tool's name", 256));
    let collection = keys.optional("collection", "Collection that is read; that of put or delete unless set.", label());
    let items = keys.optional(
        "items",
        "Path of the list in the result, as data.items; the result itself unless set.",
        field_path(),
    );
    let key = keys.optional("key", "The field of an item that is its key.", printable("a field's name", 128));
    let more = keys.optional(
        "more",
        "Path of the field that announces more pages, as has_more or next_cursor; the run's records come with the last \
         page.",
        field_path(),
    );
    let when = keys.optional(
        "when",
        "Condition for a record to be listed, in CEL over args, tool, key (of the record) and record; every record \
         unless set.",
        expression(),
    );
    let line = keys.optional(
        "line",
        "The line of a record where the list is lines of text, over args, tool, key and record.",
        free_text(1_000),
    );
    if key.is_none() == line.is_none() {
        keys.fault("key", "a list has items with a key, or lines of text", "write either key or line");
    }
    let (items, key) = (items.unwrap_or_default(), key.unwrap_or_default());
    Some(ListBack { tool: tool?, collection, items, key, more, when, line })
}

#[expect(clippy::unnecessary_wraps, reason = "a record may be faulty; this one has no key that must be there")]
fn staleness(keys: &mut Keys<'_>) -> Option<StaleLimits> {
    let live_mismatches = keys.optional(
        "live_mismatches",
        "Live results in a row that do not fit the contract (3 unless set).",
        whole(1..=1_000),
    );
    let max_age = keys.optional(
        "max_age",
        "Longest time without a live result that fits; no limit unless set.",
        Time(Duration::from_mins(1)..=Duration::from_hours(24 * 3_650)),
    );
    Some(StaleLimits { live_mismatches, max_age })
}

fn expression() -> Text<String> {
    free_text(MAX_EXPRESSION)
}

/// Shape of a name of letters, digits, `_`, `-`, `.` and `/`.
fn label() -> Text<String> {
    text("a name", 64, |text| {
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
        if plain { Ok(text.to_owned()) } else { Err("use letters, digits, `_`, `-`, `.` and `/`".to_owned()) }
    })
}

/// Shape of a path of fields, joined by dots.
fn field_path() -> Text<String> {
    text("a path of fields", 256, |text| {
        if text.split('.').all(|part| !part.is_empty() && part.chars().all(is_printable)) {
            Ok(text.to_owned())
        } else {
            Err("write fields joined by dots: data.items".to_owned())
        }
    })
}

fn endpoint() -> Text<String> {
    text("a URL", 2_048, |text| {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let plain = text.chars().all(|c| is_printable(c) && !c.is_whitespace());
        match rest.and_then(|rest| rest.split(['/', '?', '#']).next()) {
            Some(host) if plain && !host.is_empty() && !host.contains('@') => Ok(text.to_owned()),
            _ => Err("write http:// or https:// with a host, without a password: https://sandbox.acme.io".to_owned()),
        }
    })
}

/// The schema of an operation that is wanted: arguments or result.
#[derive(Clone, Copy)]
enum OperationPart {
    Input,
    Output,
}

/// Shape of a JSON Schema, written out or in an OpenAPI file.
struct SchemaShape<'a> {
    files: &'a Files<'a>,
    part: OperationPart,
    /// Slot for the operation's own example.
    example: Option<&'a RefCell<Option<Value>>>,
}

impl Shape for SchemaShape<'_> {
    type Value = Value;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<Value> {
        if node.get("openapi").is_none() {
            return JsonObject.read(node, faults);
        }
        let Operation { input, output, example } = self.files.operation(node, faults)?;
        if let Some(slot) = self.example {
            slot.replace(example);
        }
        let (schema, what) = match self.part {
            OperationPart::Input => (input, "arguments"),
            OperationPart::Output => (output, "a JSON result of a 2xx response"),
        };
        if schema.is_none() {
            faults.fault(node.at, format!("the operation has no {what}"), "write the schema itself instead");
        }
        schema
    }

    fn schema(&mut self) -> Value {
        JsonObject.schema()
    }
}
