//! Test events of about 1.1 KB that resemble agents' work, the same in every run. Of twenty events of an agent ten are
//! reports, six are tool calls that run a command, four are code. All text is clean: nothing in it is redacted or
//! found.

use serde_json::{Value, json};

/// Number of agents.
const AGENTS: usize = 100;
/// Number of different events of each agent.
const EVENTS_EACH: usize = 20;

const SENTENCES: [&str; 12] = [
    "The importer now reads the ledger in pages of 500 rows and keeps the cursor of the last page that was written.",
    "Two of the nine invoices had no purchase order, so they were set aside for a person and not posted.",
    "Average response time over the last seven days was 412 ms, which is 9 % above the week before.",
    "I compared the three suppliers by price, lead time and warranty; the second one is the best fit for the pilot.",
    "The failing test depended on the order of a hash map; it now sorts the names before it compares them.",
    "Customers mention the new onboarding mail mostly in connection with the missing link to the billing page.",
    "No step of the migration locks a table for longer than a second, and each one can be repeated safely.",
    "The summary leaves out the appendix, because its figures are the same as those of table 4.",
    "Next I would check the retry policy of the payment client, which gives up after the first time-out.",
    "The draft keeps the tone of the earlier newsletters: short sentences, one request, no exclamation marks.",
    "Half of the traffic comes from returning visitors, and they read the pricing page twice as often.",
    "All links were opened once; four of them redirect and one answers with a page that was removed.",
];

const COMMANDS: [&str; 6] = [
    "cd services/ledger && cargo test --workspace --quiet 2>&1 | tail -n 40",
    "git diff --stat origin/main...HEAD -- src migrations",
    "ls -la reports/2026 | sort -k5 -n | tail -20",
    "python3 scripts/summarise.py --input data/week-41.csv --output reports/week-41.md",
    "grep -rn 'fn settle' src --include='*.rs' | head",
    "npm run lint -- --max-warnings 0 && npm test -- --runInBand",
];

/// Source files of a few lines each.
pub const CODE: [&str; 3] = [
    "fn settle(entries: &[Entry], until: Date) -> Result<Total, LedgerError> {\n    let mut total = Total::default();\n    for entry in entries.iter().filter(|entry| entry.day <= until) {\n        total.add(entry.amount)?;\n    }\n    Ok(total)\n}\n",
    "def pages(cursor, size=500):\n    while True:\n        rows = cursor.fetchmany(size)\n        if not rows:\n            return\n        yield [normalise(row) for row in rows]\n",
    "export function monthly(rows: Row[]): Map<string, number> {\n  const sums = new Map<string, number>();\n  for (const row of rows) {\n    sums.set(row.month, (sums.get(row.month) ?? 0) + row.amount);\n  }\n  return sums;\n}\n",
];

/// Returns all events of the corpus; neighbours are of different agents.
pub fn events() -> impl Iterator<Item = Value> {
    (0..AGENTS * EVENTS_EACH).map(event)
}

fn event(n: usize) -> Value {
    let (agent, turn) = (n % AGENTS, n / AGENTS);
    let seed = agent * 7 + turn * 5;
    let mut event = json!({
        "agent": format!("agent-{agent:02}"),
        "task_id": format!("task-{agent:02}-{:04}", turn / 4),
        "session_id": format!("session-{agent:02}"),
        "task": prose(seed + 3, 1),
        "cost_usd": 0.0125,
        "task_cost_usd": 0.25,
        "tokens": {"input": 2_840 + seed, "output": 512 + turn},
        "status": "ok",
        "stop_reason": "stop",
        "occurred_at": "2026-02-11T09:30:00Z",
        "metadata": {"repo": "ledger", "branch": format!("topic/{turn}"), "run": seed},
    });
    let more = match (turn + agent) % 10 {
        0..5 => json!({"triggers": ["task_complete"], "task_type": "report", "output": prose(seed, 6)}),
        5..8 => json!({
            "task_type": "shell",
            "tool": {
                "name": "run_command",
                "args": {"command": pick(&COMMANDS, seed), "cwd": "/srv/ledger", "timeout_ms": 60_000},
                "result": prose(seed, 5),
            },
        }),
        _ => json!({
            "task_type": "code",
            "output": format!("{}\n\n```rust\n{}```\n\n{}", prose(seed, 2), pick(&CODE, seed), prose(seed + 5, 2)),
        }),
    };
    if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
        event.extend(more);
    }
    event
}

/// Returns so many sentences, chosen by the seed.
pub fn prose(seed: usize, sentences: usize) -> String {
    let chosen: Vec<&str> = (0..sentences).map(|k| pick(&SENTENCES, seed + k * 5)).collect();
    chosen.join(" ")
}

fn pick<const N: usize>(of: &[&'static str; N], seed: usize) -> &'static str {
    of.get(seed % N).copied().unwrap_or_default()
}
