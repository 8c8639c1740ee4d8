//! README, CONTRIBUTING and the pages of `docs/`, followed by a reader: requests are sent, answers compare with the
//! printed ones, commands are run.

use std::{fs, path::Path};

use reqwest::Method;
use serde_json::Value;

use crate::support::Umbra;

/// Returns the fenced blocks of a language.
fn fences<'g>(guide: &'g str, language: &str) -> Vec<&'g str> {
    let opening = format!("```{language}\n");
    guide.split(&opening).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

struct Request {
    method: Method,
    path: String,
    body: Option<String>,
}

/// Returns the requests of a block of `curl` lines.
fn requests(block: &str) -> Vec<Request> {
    let block = format!("\n{block}");
    let commands = block.split("\ncurl -s ").skip(1).map(str::trim);
    commands
        .map(|command| {
            let path = command.split("http://127.0.0.1:7817").nth(1).unwrap_or_default();
            let path = path.split(['\'', ' ', '\n']).next().unwrap_or_default().to_owned();
            let body = command.split("-d '").nth(1).and_then(|body| body.split('\'').next()).map(ToOwned::to_owned);
            let method = match (command.starts_with("-X PUT"), &body) {
                (true, _) => Method::PUT,
                (false, Some(_)) => Method::POST,
                (false, None) => Method::GET,
            };
            Request { method, path, body }
        })
        .collect()
}

/// True if the answer has all that is printed.
fn holds(answer: &Value, printed: &Value) -> bool {
    match (answer, printed) {
        (Value::Object(answer), Value::Object(printed)) => {
            printed.iter().all(|(key, value)| answer.get(key).is_some_and(|said| holds(said, value)))
        }
        _ => answer == printed,
    }
}

#[tokio::test]
async fn requests_of_the_guide_get_the_printed_answers() {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/boundary.md")).expect("the guide");
    let umbra = Umbra::with().tools(include_str!("../../config/tools.example.yaml")).go().await;
    let mut answers: Vec<Value> = Vec::new();
    let mut approval = String::new();
    let all: Vec<Request> = fences(&guide, "sh").into_iter().flat_map(requests).collect();
    assert!(all.len() >= 14, "{}", all.len());
    for Request { method, path, body } in all {
        let path = path.replace("$APPROVAL", &approval);
        let answer =
            umbra.send(method, &path, &[("content-type", "application/json")], body.map(String::into_bytes)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        if let Some(id) = answer.body["approval"]["id"].as_str() {
            id.clone_into(&mut approval);
        }
        answers.push(answer.body);
    }
    let of = |call: &str| answers.iter().filter(|answer| answer["call_id"] == call).collect::<Vec<_>>();
    for printed in fences(&guide, "json") {
        let printed: Value = serde_json::from_str(&printed.replace(", ...", "")).expect("JSON");
        let call = printed["call_id"].as_str().expect("a call");
        assert!(of(call).iter().any(|answer| holds(answer, &printed)), "{printed}: {:?}", of(call));
    }
    // Claims of the text about the other calls.
    let decided = |call: &str| of(call).first().map(|answer| answer["decision"].clone());
    assert_eq!(decided("r1-3"), Some("stub".into()));
    assert_eq!(decided("r1-5"), Some("stub".into()));
    assert_eq!((decided("d-1"), decided("d-2")), (Some("ask".into()), Some("execute".into())));
    let effective = umbra.get("/v1/execution/effective?agent=rehearsal-1&tool=stripe.process_refund").await;
    assert_eq!(effective["execution"], "live");
}

#[tokio::test]
async fn requests_of_readme_shadows_and_sidecar_pages_succeed() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let umbra = Umbra::with().sidecar(include_str!("../../config/sidecar.example.yaml")).go().await;
    for page in ["README.md", "docs/shadows.md", "docs/sidecar.md"] {
        let text = std::fs::read_to_string(root.join(page)).expect(page);
        let (mut session, mut sent) = (String::new(), 0);
        for Request { method, path, body } in fences(&text, "sh").into_iter().flat_map(requests) {
            sent += 1;
            let path = path.replace("$ID", &session);
            let headers = [("content-type", "application/json")];
            let answer = umbra.send(method, &path, &headers, body.map(String::into_bytes)).await;
            assert!(answer.status.is_success(), "{page}: {path}: {} {}", answer.status, answer.text);
            if let Some(id) = answer.body["id"].as_str().filter(|_| path == "/v1/sessions") {
                session = id.to_owned();
            }
        }
        assert!(sent > 0, "{page}");
    }
}

/// Commands that a story cannot run as they are typed: how the line begins, the file that runs it, and its words there.
const RUN_ELSEWHERE: [(&str, &str, &str); 18] = [
    ("cargo fmt", ".ci/run", "cargo fmt --check"),
    ("cargo clippy", ".ci/run", "RUSTC_WORKSPACE_WRAPPER=clippy-driver"),
    ("cargo test", ".ci/run", "\ncargo test"),
    ("UMBRA_UPDATE=1 cargo test", ".ci/run", "\ncargo test"),
    ("scripts/bench.sh", "scripts/bench.sh", "umbra-bench"),
    ("scripts/fuzz.sh", ".ci/run", "scripts/fuzz.sh"),
    ("cargo run --release -- serve", "tests/it/support/server.rs", "\"serve\""),
    (
        "UMBRA__SIDECAR__PATH=config/sidecar.example.yaml cargo run",
        "tests/it/sidecar/example.rs",
        "sidecar.example.yaml",
    ),
    ("umbra serve", "tests/it/support/server.rs", "\"serve\""),
    ("umbra bench checks", "tests/it/bench.rs", "\"checks\""),
    ("UMBRA_AGENT=billing python3 examples/", "tests/it/billing.rs", "agent.py"),
    ("pip install ./clients/python", "scripts/wheel.sh", "./clients/python"),
    ("pip install umbra_shadow", "scripts/wheel.sh", "pip\" install"),
    ("python3 scripts/unseen_sets.py", "scripts/unseen_sets.py", "--clone"),
    ("deploy/secrets.sh", "scripts/deploy.sh", "deploy/secrets.sh"),
    ("docker compose up", "scripts/deploy.sh", "docker compose up"),
    ("curl -H \"authorization: Bearer $(cat secrets", "scripts/deploy.sh", "/v1/status"),
    ("curl -s ", "tests/it/guide.rs", "requests(block"),
];

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_the_pages_run_as_typed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).expect("docs").map(|file| file.expect("a page").path());
    let mut pages: Vec<_> = docs.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|page| root.join(page)));
    let umbra = Umbra::with().go().await;
    let (mut ran, mut faults) = (Vec::new(), Vec::new());
    for page in pages {
        let text = fs::read_to_string(&page).expect("it is read");
        // Lines after the first of a request are indented or end a quotation.
        let lines = fences(&text, "sh").into_iter().flat_map(str::lines).filter(|line| !line.is_empty());
        for line in lines.filter(|line| !line.starts_with([' ', '"', '}'])) {
            if let Some((_, file, words)) = RUN_ELSEWHERE.iter().find(|(start, ..)| line.starts_with(start)) {
                let runs = fs::read_to_string(root.join(file)).expect(file).contains(words);
                faults.extend((!runs).then(|| format!("{line}\n{file} does not run it")));
                continue;
            }
            let output = umbra.shell(line);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            // The gate exits with 1 for what is not ready for production.
            let is_fine =
                output.status.success() || (line.starts_with("umbra check") && output.status.code() == Some(1));
            faults.extend((!is_fine).then(|| format!("{}: {line}\n{said}", page.display())));
            ran.push(line.to_owned());
        }
    }
    assert!(faults.is_empty() && ran.len() >= 7, "{ran:?}\n{}", faults.join("\n"));
}
