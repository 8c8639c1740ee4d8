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
    tool::{is_wild, joined, normal_pattern},
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
    let mut parts = PartCompiler::default();
    let input = parts.schema(contract.input_schema.as_ref(), "input_schema");
    let output = parts.schema(contract.output_schema.as_ref(), "output_schema");
    let responses = parts.responses(&contract);
    let faults = parts.fault_rules(&contract);
    let overlay = contract.overlay.clone().unwrap_or_default();
    let (put, delete) = parts.written(&overlay);
    let (readers, listers) = parts.read_back(&contract.id(), &overlay);
    let id = contract.id();
    let compiled = CompiledContract { contract, id, input, output, responses, faults, put, delete, readers, listers };
    let PartCompiler(mut faults) = parts;
    if faults.is_empty() {
        try_out(&compiled, &mut faults);
    }
    if faults.is_empty() { Ok(compiled) } else { Err(faults) }
}

/// Returns the faults that compiling a contract shows.
pub fn faults(contract: &ToolContract) -> Vec<ContractFault> {
    compile(contract.clone()).err().unwrap_or_default()
}

/// Place of a fault whose message follows later, with `part` before it.
fn at(key: &'static str, part: &str) -> ContractFault {
    ContractFault::of(key, format!("{part}: "), "")
}

/// Compiles the parts of a contract and collects their faults.
#[derive(Default)]
struct PartCompiler(Vec<ContractFault>);

impl PartCompiler {
    fn schema(&mut self, schema: Option<&Value>, key: &'static str) -> Option<Schema> {
        let compiled = Schema::compile(schema?);
        compiled.map_err(|fault| self.0.push(ContractFault::of(key, fault, "see json-schema.org, draft 2020-12"))).ok()
    }

    fn template(&mut self, at: &ContractFault, value: &Value, variables: &[&str]) -> Option<Template> {
        self.note(at, Template::compile(value, variables), "templates are {{ CEL }}: {{ args.amount }}")
    }

    fn predicate(&mut self, at: &ContractFault, source: &str, variables: &[&str]) -> Option<Expression> {
        let compiled = Expression::compile_with(source, &TEXT_FUNCTIONS);
        let compiled = compiled.and_then(|expression| expression.expect_variables(variables).map(|()| expression));
        self.note(at, compiled, "predicates are CEL: args.amount > 500.0")
    }

    fn note<T>(&mut self, at: &ContractFault, compiled: Result<T, String>, help: &str) -> Option<T> {
        let fault = |message: String| {
            let message = format!("{}{message}", at.message);
            self.0.push(ContractFault { message, help: help.to_owned(), ..at.clone() });
        };
        compiled.map_err(fault).ok()
    }

    fn responses(&mut self, contract: &ToolContract) -> Vec<CompiledResponse> {
        let each = contract.responses.iter().enumerate().filter_map(|(index, response)| {
            let when = response.when.as_deref();
            let when = when.and_then(|when| self.predicate(&at("responses", "when").at(index), when, &CALL));
            let result = self.template(&at("responses", "result").at(index), &response.result, &CALL)?;
            Some(CompiledResponse { when, result })
        });
        each.collect()
    }

    fn fault_rules(&mut self, contract: &ToolContract) -> Vec<CompiledFault> {
        let each = contract.faults.iter().enumerate().filter_map(|(index, fault)| {
            let default = || match &fault.message {
                Some(message) => json!({"error": fault.error, "message": message}),
                None => json!({"error": fault.error}),
            };
            let result = fault.result.clone().unwrap_or_else(default);
            let result = self.template(&at("faults", "result").at(index), &result, &CALL)?;
            Some(CompiledFault { rate: fault.rate, error: fault.error.clone(), result })
        });
        each.collect()
    }

    fn written(&mut self, overlay: &Overlay) -> (Option<CompiledPut>, Option<CompiledDelete>) {
        let put = overlay.put.as_ref().and_then(|put| {
            let key = self.predicate(&at("overlay", "put.key"), &put.key, &WRITTEN);
            let value = put.value.as_ref();
            let value = value.and_then(|value| self.template(&at("overlay", "put.value"), value, &STORED));
            if put.partial && matches!(put.value, Some(Value::Array(_) | Value::Number(_) | Value::Bool(_))) {
                let message = "put.value: a partial record must be a mapping of the fields that change";
                self.0.push(ContractFault::of("overlay", message, "write a mapping, such as {status: closed}"));
            }
            let mut optional = |source: &Option<String>, part| {
                source.as_ref().and_then(|source| self.predicate(&at("overlay", part), source, &WRITTEN))
            };
            let (edits, from) = (optional(&put.edits, "put.edits"), optional(&put.from, "put.from"));
            let (collection, partial) = (put.collection.clone(), put.partial);
            Some(CompiledPut { collection, key: key?, value, partial, edits, from })
        });
        let delete = overlay.delete.as_ref().and_then(|delete| {
            let key = self.predicate(&at("overlay", "delete.key"), &delete.key, &WRITTEN)?;
            Some(CompiledDelete { collection: delete.collection.clone(), key })
        });
        (put, delete)
    }

    fn read_back(&mut self, id: &str, overlay: &Overlay) -> (Vec<RecordReader>, Vec<Lister>) {
        let own = overlay.put.as_ref().map(|put| &put.collection);
        let own = own.or(overlay.delete.as_ref().map(|delete| &delete.collection));
        let readers = overlay.reads.iter().enumerate().filter_map(|(index, read)| {
            let place = |part: &str| at("overlay", &format!("reads[{index}].{part}"));
            if is_wild(&read.tool) {
                let message = format!("reads[{index}]: a reader must be a single tool");
                self.0.push(ContractFault::of("overlay", message, "write the tool's name"));
            }
            let key = self.predicate(&place("key"), &read.key, &CALL);
            let result = read.result.as_ref().and_then(|result| self.template(&place("result"), result, &READ));
            let on_missing = read.on_missing.as_ref();
            let on_missing = on_missing.and_then(|missing| self.template(&place("on_missing"), missing, &CALL));
            Some(RecordReader {
                tool: joined(&normal_pattern(&read.tool)),
                contract: id.to_owned(),
                collection: read.collection.as_ref().or(own)?.clone(),
                key: key?,
                at: read.at.clone(),
                result,
                on_missing,
            })
        });
        let readers = readers.collect();
        let listers = overlay.lists.iter().enumerate().filter_map(|(index, list)| {
            let place = |part: &str| at("overlay", &format!("lists[{index}].{part}"));
            let when = list.when.as_ref().and_then(|when| self.predicate(&place("when"), when, &LISTED));
            let line = list.line.as_ref().and_then(|line| self.template(&place("line"), &json!(line), &LISTED));
            Some(Lister {
                tool: joined(&normal_pattern(&list.tool)),
                collection: list.collection.as_ref().or(own)?.clone(),
                items: list.items.clone(),
                key: list.key.clone(),
                more: list.more.clone(),
                when,
                line,
            })
        });
        (readers, listers.collect())
    }
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
    let mut scope = EvaluationScope::of([("args", &arguments), ("tool", &tool_value)]);
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
                    let message = format!("the stub does not fit output_schema: {}", mismatch.told());
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
