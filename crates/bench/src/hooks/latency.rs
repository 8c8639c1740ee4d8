//! Time of a hook, from its start to its answer, beside the start of a process that does nothing.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, ensure};
use serde_json::json;
use tokio::task::block_in_place;

use crate::{BenchGlobalOptions, answer, answer_json, load::Answered, testbed::Testbed};

/// Runs a hook so many times, one after the other, with the server on loopback, and prints its times.
///
/// # Errors
/// The server does not start, or a hook denies an allowed call.
pub async fn run(global: &BenchGlobalOptions, calls: usize) -> anyhow::Result<()> {
    let (idle, hook, bytes) = Testbed::with(global, async |bed| {
        let server = bed.serve("latency", &bed.shadows(None)?, &[]).await?;
        let (umbra, url) = (bed.umbra.with_file_name("umbra-hook"), format!("http://{}", server.address));
        block_in_place(|| measure(calls, &umbra, &url))
    })
    .await?;
    let [p50, p99, base50] = [hook.quantile_ms(0.5), hook.quantile_ms(0.99), idle.quantile_ms(0.5)];
    if global.json {
        return answer_json(
            &json!({"calls": calls, "p50_ms": p50, "p99_ms": p99, "idle_p50_ms": base50, "bytes": bytes}),
        );
    }
    answer(&format!(
        "{calls} hooks in enforce: p50 {p50:.1} ms, p99 {p99:.1} ms; a process that does nothing: p50 {base50:.1} ms"
    ));
    answer(&format!("size of the program: {} MB", bytes / 1_000_000));
    Ok(())
}

/// Returns the times of a process that does nothing and of the hook, and the size of the hook's program.
fn measure(calls: usize, umbra: &Path, url: &str) -> anyhow::Result<(Answered, Answered, u64)> {
    let idle = times(calls, |_| start(Path::new("/bin/true"), &[], ""))?;
    let options = ["claude-code", "--mode", "enforce", "--event", "PreToolUse", "--url", url];
    let hook = times(calls, |n| {
        let payload = json!({"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash",
            "tool_use_id": format!("c{n}"), "tool_input": {"command": format!("echo {n} > file")}});
        let said = start(umbra, &options, &payload.to_string())?;
        ensure!(said.is_empty(), "an allowed call was answered with {said}");
        Ok(said)
    })?;
    Ok((idle, hook, std::fs::metadata(umbra)?.len()))
}

fn times(calls: usize, mut run: impl FnMut(usize) -> anyhow::Result<String>) -> anyhow::Result<Answered> {
    let (began, mut latencies) = (Instant::now(), Vec::with_capacity(calls));
    for n in 0..calls {
        let asked = Instant::now();
        run(n)?;
        latencies.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    latencies.sort_unstable();
    Ok(Answered { time: began.elapsed(), latencies, in_all: calls as u64 })
}

fn start(program: &Path, arguments: &[&str], input: &str) -> anyhow::Result<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("{} does not start", program.display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        drop(stdin.write_all(input.as_bytes()));
    }
    Ok(String::from_utf8(child.wait_with_output()?.stdout)?)
}
