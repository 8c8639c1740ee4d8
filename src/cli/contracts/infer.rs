//! `umbra contracts infer`: infers contracts, as YAML, from recorded calls.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::super::{CommandFailure, GlobalOptions, complain};
use umbra_boundary::stub::{
    infer::LEAST_RECORDED,
    recordings::{MAX_LINE_BYTES, Recordings},
};
use umbra_config::tools::write;
use umbra_domain::Effect;

/// Most bytes of a file.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

#[derive(Debug, Args)]
pub(in super::super) struct InferOptions {
    /// Lines of {"tool": ..., "args": {...}, "result": ...}, oldest first; at least five of a tool.
    file: PathBuf,
    /// Effect of the tools: read, write or destructive; derived from each name unless given.
    #[arg(long, value_name = "EFFECT", value_parser = effect)]
    effect: Option<Effect>,
}

fn effect(word: &str) -> Result<Effect, String> {
    Effect::parse(word).ok_or_else(|| "write read, write or destructive".to_owned())
}

pub(super) fn run(global: &GlobalOptions, options: &InferOptions) -> Result<(), CommandFailure> {
    let inferred = read(options)?.infer(options.effect);
    let (contracts, left_out) = (inferred.contracts, inferred.left_out);
    for (tool, why) in &left_out {
        complain(&format!("{tool}: {why}"));
    }
    if contracts.is_empty() {
        let why = format!("no contract could be inferred: a tool needs {LEAST_RECORDED} recorded results");
        return Err(anyhow::anyhow!(why).into());
    }
    let yaml = write(&contracts);
    let document = json!({"yaml": yaml, "contracts": contracts.len(), "left_out": left_out});
    global.print(&document, || yaml)
}

fn read(options: &InferOptions) -> anyhow::Result<Recordings> {
    let name = options.file.display();
    let file = File::open(&options.file).with_context(|| format!("{name} cannot be read"))?;
    let mut lines = BufReader::new(file.take(MAX_BYTES));
    let mut recordings = Recordings::default();
    let mut line = Vec::new();
    for number in 1_usize.. {
        line.clear();
        let most = MAX_LINE_BYTES as u64 + 1;
        let length = (&mut lines).take(most).read_until(b'\n', &mut line);
        if length.with_context(|| format!("{name} cannot be read"))? == 0 {
            break;
        }
        recordings.take(&line).map_err(|bad| anyhow::anyhow!("{name}:{number}:{}: {bad}", bad.column))?;
    }
    Ok(recordings)
}
