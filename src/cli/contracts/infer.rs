//! `umbra contracts infer`: recorded calls in, contracts as YAML out.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
};

use anyhow::Context as _;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::{Failure, Global, answer, answer_json, complain},
    judge,
};
use crate::{
    boundary::stub::infer::{LEAST_RECORDED, Recorded, infer},
    config::tools::write,
    domain::Effect,
};

/// Most bytes of a file, and of a line in it.
const MAX_BYTES: u64 = 256 * 1024 * 1024;
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;
/// Most tools of a file, and most calls that are kept of each.
const MAX_TOOLS: usize = 1_000;
const MAX_CALLS: usize = 200;

#[derive(Debug, Args)]
pub(in super::super) struct Options {
    /// Lines of {"tool": ..., "args": {...}, "result": ...}, oldest first; at least five of a tool.
    file: PathBuf,
    /// What the tools do; a record does not say.
    #[arg(long, value_name = "EFFECT", default_value = "destructive", value_parser = effect)]
    effect: Effect,
}

fn effect(word: &str) -> Result<Effect, String> {
    Effect::parse(word).ok_or_else(|| "write read, write or destructive".to_owned())
}

/// A line of the file; others of its fields are of no use here.
#[derive(Debug, Deserialize)]
struct Line {
    tool: String,
    #[serde(default = "nothing")]
    args: Value,
    result: Value,
}

fn nothing() -> Value {
    json!({})
}

pub(super) fn run(global: &Global, options: &Options) -> Result<(), Failure> {
    let calls = read(options)?;
    let (mut contracts, mut left_out) = (Vec::new(), Vec::new());
    for (tool, recorded) in &calls {
        let inferred = infer(tool, options.effect, recorded).and_then(|contract| {
            let faults = judge(&contract);
            faults.first().map_or(Ok(contract), |fault| Err(fault.message.clone()))
        });
        match inferred {
            Ok(contract) => contracts.push(contract),
            Err(why) => left_out.push((tool, why)),
        }
    }
    for (tool, why) in &left_out {
        complain(&format!("{tool}: {why}"));
    }
    if contracts.is_empty() {
        let why = format!("nothing could be inferred: a tool needs {LEAST_RECORDED} recorded results");
        return Err(anyhow::anyhow!(why).into());
    }
    if global.json {
        return answer_json(&json!({"yaml": write(&contracts), "contracts": contracts.len(), "left_out": left_out}));
    }
    answer(write(&contracts).trim_end());
    Ok(())
}

/// The calls of each tool, the latest of them.
fn read(options: &Options) -> anyhow::Result<BTreeMap<String, Vec<Recorded>>> {
    let name = options.file.display();
    let file = File::open(&options.file).with_context(|| format!("{name} cannot be read"))?;
    let mut lines = BufReader::new(file.take(MAX_BYTES));
    let mut calls: BTreeMap<String, Vec<Recorded>> = BTreeMap::new();
    let mut line = Vec::new();
    for number in 1_usize.. {
        line.clear();
        if lines.read_until(b'\n', &mut line).with_context(|| format!("{name} cannot be read"))? == 0 {
            break;
        }
        anyhow::ensure!(line.len() <= MAX_LINE_BYTES, "{name}:{number}: a line of more than {MAX_LINE_BYTES} bytes");
        if line.trim_ascii().is_empty() {
            continue;
        }
        let parsed: Line = serde_json::from_slice(&line).map_err(|error| {
            let column = error.column();
            let help = "write {\"tool\": \"server.tool\", \"args\": {...}, \"result\": ...}";
            anyhow::anyhow!("{name}:{number}:{column}: this is no recorded call; {help}")
        })?;
        anyhow::ensure!(
            !parsed.tool.is_empty() && parsed.tool.len() <= 256 && !parsed.tool.contains(char::is_control),
            "{name}:{number}: a tool's name has 1 to 256 printable characters"
        );
        let recorded = calls.entry(parsed.tool).or_default();
        if recorded.len() == MAX_CALLS {
            recorded.remove(0);
        }
        recorded.push(Recorded { args: parsed.args, result: parsed.result });
        anyhow::ensure!(calls.len() <= MAX_TOOLS, "{name}:{number}: more than {MAX_TOOLS} tools");
    }
    Ok(calls)
}
