//! The billing agent of `examples/` from rehearsal to production: one server, five decorators and one switch.

use std::{fs, path::Path, process::Command};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::support::Umbra;

/// Returns the path of a folder of the repository.
fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

impl Umbra {
    /// Runs the agent and returns its last words; its books are beside the server's files.
    fn bills(&self) -> String {
        let ended = block_in_place(|| {
            Command::new("python3")
                .arg(folder("examples/billing/agent.py"))
                .arg(self.file("books.json"))
                .env("PYTHONPATH", crate::python::path())
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .env("UMBRA_URL", &self.base)
                .env("UMBRA_AGENT", "billing")
                .env_remove("UMBRA_API_KEY")
                .env_remove("UMBRA_RUN")
                .env_remove("AGENT_SAFE_MODE")
                .output()
        });
        let Ok(ended) = ended else { return "python3 is not there".to_owned() };
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8_lossy(&ended.stdout).trim().to_owned()
    }

    fn books(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.file("books.json")).unwrap_or_default()).unwrap_or_default()
    }

    /// Returns exit code and standard output of a command that asks this server.
    fn commanded(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.cli_in(&[("UMBRA_URL", &self.base)], args, None);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_is_rehearsed_promoted_and_audited() {
    let umbra = Umbra::with().tools("tools: []\n").go().await;
    fs::copy(folder("examples/billing/books.json"), umbra.file("books.json")).expect("books");
    let untouched = umbra.books();
    // Rehearse: the one switch.
    let switch = ["execution", "shadow", "billing", "--for", "2h", "--reason", "rehearsal"];
    assert_eq!(umbra.commanded(&switch).0, Some(0));
    assert_eq!(umbra.bills(), "charged 2");
    assert_eq!(umbra.books(), untouched, "nothing was charged, sent or filed");
    let decisions = umbra.audit("agent=billing&order=asc").await;
    let of = |decision: &str| decisions.iter().filter(|row| row["decision"] == decision).count();
    assert_eq!((decisions.len(), of("execute"), of("stub")), (8, 3, 5), "one decision a call: {decisions:?}");

    // Promote: the gate lists what is missing, then nothing.
    let gate = |umbra: &Umbra| umbra.commanded(&["check", "--environment", "production"]);
    let (code, reasons) = gate(&umbra);
    assert_eq!(code, Some(1), "{reasons}");
    for missing in ["billing.charge", "billing.send_receipt", "billing.file_report", "agent:billing"] {
        assert!(reasons.contains(missing), "{missing}: {reasons}");
    }
    fs::copy(folder("examples/billing/tools.yaml"), umbra.file("tools.yaml")).expect("contracts");
    assert_eq!(umbra.send(Method::POST, "/v1/admin/reload", &[], None).await.status, 200);
    assert_eq!(umbra.bills(), "charged 2", "contracts answer as the stubs did");
    assert_eq!(umbra.books(), untouched);
    assert_eq!(umbra.commanded(&["execution", "lift", "billing", "--reason", "promoted"]).0, Some(0));
    let (code, reasons) = gate(&umbra);
    assert_eq!(code, Some(0), "{reasons}");
    assert_eq!(umbra.bills(), "charged 2");
    let books = umbra.books();
    assert_eq!((&books["invoices"][0]["state"], &books["reports"]), (&json!("paid"), &json!(["charged 2"])));
    assert_eq!(books["sent"], json!(["ann@example.com", "bob@example.com"]));
    assert_eq!(umbra.bills(), "charged 0", "nothing is overdue any more");

    // Inspect: what it would have charged, who switched it, and whether the log is complete.
    let charged = ["audit", "list", "--tool", "billing.charge", "--execution", "shadow", "--json"];
    let (code, rows) = umbra.commanded(&charged);
    let rows: Value = serde_json::from_str(&rows).unwrap_or_default();
    let rows = rows["items"].as_array().cloned().unwrap_or_default();
    let amounts: f64 = rows.iter().filter_map(|row| row["args"]["amount"].as_f64()).sum();
    assert_eq!((code, rows.len(), amounts), (Some(0), 4, 2.0 * 200.5), "two rehearsals: {rows:?}");
    let switched = umbra.audit("kind=execution").await;
    let said: Vec<_> =
        switched.iter().map(|row| [&row["change"], &row["override"]["reason"], &row["reason"]]).collect();
    let (set, lifted) = (json!(["set", "rehearsal", null]), json!(["lifted", "rehearsal", "promoted"]));
    assert_eq!(json!(said), json!([set, lifted]));
    let (code, verified) = umbra.commanded(&["audit", "verify"]);
    assert_eq!(code, Some(0), "{verified}");
}
