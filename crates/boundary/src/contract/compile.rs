//! Compiles a contract and reports every fault at once, each with the key that holds it. A contract without faults is
//! tried out: each response is rendered with sample arguments and checked against the output schema, and its overlay is
//! stored.

use serde_json::{Value, json};

use super::{
    CompiledContract, CompiledDelete, CompiledFault, CompiledPut, CompiledResponse, Lister, RecordReader, Schema,
};
use crate::{
    overlay,
    stub::{
        RunState, SharedMint, StubCall, sample,
        template::{TEXT_FUNCTIONS, Template, add_functions},
        tool_variable,
    },
};
use umbra_domain::{
    Effect, ToolName,
    contract::{ContractFault, Overlay, ToolContract},
    tool::is_wild,
};
use umbra_policy::{EvalError, EvaluationScope, Expression};

/// Variables of responses, faults and keys of readers.
const CALL: [&str; 2] = ["args", "tool"];
/// Variables of keys that a call writes or removes.
const WRITTEN: [&str; 3] = ["args", "tool", "result"];
/// Variables of results that a reader renders.
const READ: [&str; 3] = ["args", "tool", "record"];
/// Variables of values that a call stores.
const STORED: [&str; 4] = ["args", "tool", "result", "record"];
/// Variables of conditions and lines of lists.
const LISTED: [&str; 4] = ["args", "tool", "key", "record"];

/// Compiles a contract.
///
/// # Errors
/// All of its faults.
pub fn compile(contract: ToolContract) -> Result<CompiledContract, Vec<ContractFault>> {
    let mut faults = Vec::new();
    let input = schema(contract.input_schema.as_ref(), "input_schema", &mut faults);
    let output = schema(contract.output_schema.as_ref(), "output_schema", &mut faults);
    let responses = responses(&contract, &mut faults);
    let compiled_faults = fault_rules(&contract, &mut faults);
    let overlay = contract.overlay.clone().unwrap_or_default();
    let (put, delete) = written(&overlay, &mut faults);
    let (readers, listers) = read_back(&contract.id(), &overlay, &mut faults);
    let compiled = CompiledContract {
        id: contract.id(),
        input,
        output,
        responses,
        faults: compiled_faults,
        put,
        delete,
        readers,
        listers,
        contract,
    };
    if faults.is_empty() {
        try_out(&compiled, &mut faults);
    }
    if faults.is_empty() { Ok(compiled) } else { Err(faults) }
}

/// Returns the faults that compiling a contract shows.
pub fn faults(contract: &ToolContract) -> Vec<ContractFault> {
    compile(contract.clone()).err().unwrap_or_default()
}

fn schema(schema: Option<&Value>, key: &'static str, faults: &mut Vec<ContractFault>) -> Option<Schema> {
    Schema::compile(schema?)
        .map_err(|message| faults.push(ContractFault::of(key, message, "see json-schema.org, draft 2020-12")))
        .ok()
}

fn template(value: &Value, variables: &[&str]) -> Result<Template, (String, &'static str)> {
    Template::compile(value, variables).map_err(|message| (message, "templates are {{ CEL }}: {{ args.amount }}"))
}

fn predicate(source: &str, variables: &[&str]) -> Result<Expression, (String, &'static str)> {
    let compiled = Expression::compile_with(source, &TEXT_FUNCTIONS).and_then(|expression| {
        expression.expect_variables(variables)?;
        Ok(expression)
    });
    compiled.map_err(|error| (error.to_string(), "predicates are CEL: args.amount > 500.0"))
}

/// Unwraps a result, or records its fault.
fn note<T>(
    result: Result<T, (String, &'static str)>,
    at: &ContractFault,
    faults: &mut Vec<ContractFault>,
) -> Option<T> {
    result
        .map_err(|(message, help)| {
            let message = format!("{}{message}", at.message);
            faults.push(ContractFault { message, help: help.to_owned(), ..at.clone() });
        })
        .ok()
}

/// Place of a fault whose message follows later, with `part` before it.
fn at(key: &'static str, part: &str) -> ContractFault {
    ContractFault::of(key, if part.is_empty() { String::new() } else { format!("{part}: ") }, "")
}

fn responses(contract: &ToolContract, faults: &mut Vec<ContractFault>) -> Vec<CompiledResponse> {
    let each = contract.responses.iter().enumerate().filter_map(|(index, response)| {
        let when = response.when.as_deref();
        let when = when.map(|when| note(predicate(when, &CALL), &at("responses", "when").at(index), faults));
        let result = note(template(&response.result, &CALL), &at("responses", "result").at(index), faults);
        Some(CompiledResponse { when: when.flatten(), result: result? })
    });
    each.collect()
}

fn fault_rules(contract: &ToolContract, faults: &mut Vec<ContractFault>) -> Vec<CompiledFault> {
    let each = contract.faults.iter().enumerate().filter_map(|(index, fault)| {
        let default = || match &fault.message {
            Some(message) => json!({"error": fault.error, "message": message}),
            None => json!({"error": fault.error}),
        };
        let result = fault.result.clone().unwrap_or_else(default);
        let result = note(template(&result, &CALL), &at("faults", "result").at(index), faults);
        Some(CompiledFault { rate: fault.rate, error: fault.error.clone(), result: result? })
    });
    each.collect()
}

fn written(overlay: &Overlay, faults: &mut Vec<ContractFault>) -> (Option<CompiledPut>, Option<CompiledDelete>) {
    let put = overlay.put.as_ref().and_then(|put| {
        let key = note(predicate(&put.key, &WRITTEN), &at("overlay", "put.key"), faults);
        let value = put.value.as_ref();
        let value = value.map(|value| note(template(value, &STORED), &at("overlay", "put.value"), faults));
        if put.partial && matches!(put.value, Some(Value::Array(_) | Value::Number(_) | Value::Bool(_))) {
            let message = "put.value: a partial record must be a mapping of the fields that change";
            faults.push(ContractFault::of("overlay", message, "write a mapping, such as {status: closed}"));
        }
        let mut optional = |source: &Option<String>, part: &str| {
            note(predicate(source.as_ref()?, &WRITTEN), &at("overlay", part), faults)
        };
        let (edits, from) = (optional(&put.edits, "put.edits"), optional(&put.from, "put.from"));
        let (collection, partial) = (put.collection.clone(), put.partial);
        Some(CompiledPut { collection, key: key?, value: value.flatten(), partial, edits, from })
    });
    let delete = overlay.delete.as_ref().and_then(|delete| {
        let key = note(predicate(&delete.key, &WRITTEN), &at("overlay", "delete.key"), faults);
        Some(CompiledDelete { collection: delete.collection.clone(), key: key? })
    });
    (put, delete)
}

fn read_back(id: &str, overlay: &Overlay, faults: &mut Vec<ContractFault>) -> (Vec<RecordReader>, Vec<Lister>) {
    let own = overlay.put.as_ref().map(|put| &put.collection);
    let own = own.or(overlay.delete.as_ref().map(|delete| &delete.collection));
    let mut readers = Vec::new();
    for (index, read) in overlay.reads.iter().enumerate() {
        let place = |part: &str| at("overlay", &format!("reads[{index}].{part}"));
        if is_wild(&read.tool) {
            faults.push(ContractFault::of(
                "overlay",
                format!("reads[{index}]: a reader must be a single tool"),
                "write the tool's name",
            ));
        }
        let key = note(predicate(&read.key, &CALL), &place("key"), faults);
        let result = read.result.as_ref().map(|result| note(template(result, &READ), &place("result"), faults));
        let missing = read.on_missing.as_ref();
        let missing = missing.map(|missing| note(template(missing, &CALL), &place("on_missing"), faults));
        let (Some(key), Some(collection)) = (key, read.collection.as_ref().or(own)) else { continue };
        readers.push(RecordReader {
            tool: read.tool.clone(),
            contract: id.to_owned(),
            collection: collection.clone(),
            key,
            at: read.at.clone(),
            result: result.flatten(),
            on_missing: missing.flatten(),
        });
    }
    let listers = overlay.lists.iter().enumerate().filter_map(|(index, list)| {
        let place = |part: &str| at("overlay", &format!("lists[{index}].{part}"));
        let when = list.when.as_ref().map(|when| note(predicate(when, &LISTED), &place("when"), faults));
        let line = list.line.as_ref().map(|line| note(template(&json!(line), &LISTED), &place("line"), faults));
        Some(Lister {
            tool: list.tool.clone(),
            collection: list.collection.as_ref().or(own)?.clone(),
            items: list.items.clone(),
            key: list.key.clone(),
            more: list.more.clone(),
            when: when.flatten(),
            line: line.flatten(),
        })
    });
    let listers = listers.collect();
    (readers, listers)
}

/// Tries out a contract with sample arguments: renders each response and fault, checks it against the output schema,
/// and stores its overlay. Without valid sample arguments, only parts that do not depend on arguments are tried.
fn try_out(contract: &CompiledContract, faults: &mut Vec<ContractFault>) {
    let mut state = RunState::seeded("lint", None);
    let mint = SharedMint::of(&state);
    let known = contract
        .input
        .as_ref()
        .and_then(|input| sample(input.source(), &json!({}), &mint).ok().filter(|arguments| input.fits(arguments)));
    let is_known = known.is_some();
    let arguments = known.unwrap_or_else(|| json!({}));
    let tool = ToolName::bare(&contract.contract.tool);
    let tool_value = tool_variable(&tool);
    let mut scope = EvaluationScope::new();
    scope.set("args", &arguments);
    scope.set("tool", &tool_value);
    add_functions(&mut scope, &mint);
    let is_sure = |reads_arguments: bool| is_known || !reads_arguments;
    let help = |is_of_bounds: bool| match (is_of_bounds, is_known) {
        (true, _) => "write a smaller result, or split it into several responses",
        (false, true) => "the arguments are a sample of input_schema; `examples` in the schema make a better sample",
        (false, false) => "the expression fails for all arguments",
    };
    let mut answer = None;
    for (index, response) in contract.responses.iter().enumerate() {
        let mut told =
            |message: String, help: &str| faults.push(ContractFault::of("responses", message, help).at(index));
        let holds = response.when.as_ref().map_or(Ok(true), |when| when.holds(&scope));
        let asks = response.when.as_ref().is_some_and(|when| when.variables().any(|name| name == "args"));
        if let Err(error) = &holds
            && (is_sure(asks) || *error == EvalError::Budget)
        {
            told(format!("when: {error}"), help(*error == EvalError::Budget));
        }
        let echoes = response.result.reads("args");
        match response.result.render(&scope) {
            Err(error) if is_sure(echoes) || error.is_of_bounds() => {
                told(format!("result: {error}"), help(error.is_of_bounds()));
            }
            Ok(Value::Null) if contract.output.is_none() && is_sure(echoes) => {
                let help = "write the tool's result; for a tool without a result, add output_schema: {type: \"null\"}";
                told("result: the result is null, and no output_schema allows null".to_owned(), help);
            }
            Ok(result) if is_sure(echoes) => {
                for mismatch in contract.check_result(&result).err().unwrap_or_default().iter().take(3) {
                    let place = if mismatch.pointer.is_empty() { "the whole result" } else { &mismatch.pointer };
                    let message = format!("the stub does not fit output_schema: {place}: {}", mismatch.message);
                    told(message, "change the result, or the schema");
                }
                answer = answer.or_else(|| (holds == Ok(true)).then_some(result));
            }
            _ => {}
        }
    }
    for (index, fault) in contract.faults.iter().enumerate() {
        if let Err(error) = fault.result.render(&scope)
            && (is_sure(fault.result.reads("args")) || error.is_of_bounds())
        {
            faults.push(ContractFault::of("faults", format!("result: {error}"), help(error.is_of_bounds())).at(index));
        }
    }
    if contract.responses.is_empty() && contract.effect() != Effect::Read {
        faults.extend(without_responses(contract, &arguments, is_known, &mint));
    }
    if let Some(result) = answer.filter(|_| is_known) {
        let call = StubCall {
            tool: &tool,
            args: &arguments,
            output_schema: None,
            fallback: None,
            says_read: false,
            recorded: &[],
        };
        let kept = overlay::store_records(contract, &call, &result, &mut state, &mint);
        faults.extend(kept.err().map(|error| ContractFault::of("overlay", error.to_string(), help(false))));
    }
}

/// Reports that no stub can be made of a contract without responses, neither by its example nor by a sample of its
/// output schema.
fn without_responses(
    contract: &CompiledContract,
    arguments: &Value,
    is_known: bool,
    mint: &SharedMint,
) -> Option<ContractFault> {
    let output = contract.output.as_ref()?;
    let answers = |result: &Value| output.fits(result);
    if contract.contract.example.as_ref().is_some_and(answers) {
        return None;
    }
    let why = match sample(output.source(), arguments, mint) {
        Ok(result) if answers(&result) || !is_known => return None,
        Ok(_) => "a sample of the schema does not fit the schema".to_owned(),
        Err(error) => error,
    };
    let help = "write responses, or add `examples` to the schema";
    Some(ContractFault::of("output_schema", format!("no stub can be made from the schema: {why}"), help))
}
