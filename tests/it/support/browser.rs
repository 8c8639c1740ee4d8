//! Chromium without a window, driven by `ChromeDriver` over the `WebDriver` protocol.

use std::process::Stdio;

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::{server::client, until};

/// Arguments of Chromium: no window, no sandbox (tests may run as root), no traffic of its own.
const ARGUMENTS: [&str; 8] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
    "--lang=en-US",
];

/// Returns the port that `ChromeDriver` has chosen; `None` if it ends before it says so.
async fn port_of(driver: &mut Child) -> Option<String> {
    let mut lines = BufReader::new(driver.stdout.take()?).lines();
    while let Some(line) = lines.next_line().await.ok()? {
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            return Some(port.trim_end_matches('.').to_owned());
        }
    }
    None
}

/// Session of a browser.
pub struct Browser {
    session: String,
    client: reqwest::Client,
    driver: Child,
    _profile: TempDir,
}

impl Drop for Browser {
    /// Kills the browser, too: it outlives its driver.
    fn drop(&mut self) {
        if let Some(pid) = self.driver.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

impl Browser {
    /// Starts a browser. `None` where no `chromedriver` is installed; in CI (variable `CI`) that is a failure.
    pub async fn start() -> Option<Self> {
        let program = std::env::var("UMBRA_CHROMEDRIVER").unwrap_or_else(|_| "chromedriver".to_owned());
        let mut attempts = 0..5;
        let (driver, port) = loop {
            let mut command = Command::new(&program);
            command.arg("--port=0").stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
            let started = command.spawn();
            let Ok(mut driver) = started else {
                let cure = "install chromium and chromium-driver, or name chromedriver in UMBRA_CHROMEDRIVER";
                assert!(std::env::var_os("CI").is_none(), "the page is not tried in a browser: {cure}");
                eprintln!("passed over: {cure}");
                return None;
            };
            match port_of(&mut driver).await {
                Some(port) => break (driver, port),
                // It ends if its free port of IPv6 is taken for IPv4.
                None => assert!(attempts.next().is_some(), "ChromeDriver says its port"),
            }
        };
        let profile = TempDir::new().expect("a directory");
        let arguments: Vec<String> = ARGUMENTS
            .iter()
            .map(|argument| (*argument).to_owned())
            .chain([format!("--user-data-dir={}", profile.path().display())])
            .collect();
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}});
        let (client, base) = (client(), format!("http://127.0.0.1:{port}/session"));
        let made = client.post(&base).json(&wanted).send().await.expect("ChromeDriver answers");
        let made: Value = made.json().await.expect("JSON");
        let id = made["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {made}"));
        Some(Self { session: format!("{base}/{id}"), client, driver, _profile: profile })
    }

    /// Sends a command to `ChromeDriver`, and returns the value of the answer.
    pub async fn ask(&self, what: &str, body: &Value) -> Value {
        let sent = self.client.post(format!("{}/{what}", self.session)).json(body).send().await;
        let answer: Value = sent.expect("ChromeDriver answers").json().await.expect("JSON");
        assert!(answer["value"]["error"].is_null(), "{what}: {answer}");
        answer["value"].clone()
    }

    /// Runs a script's body in the page, and returns its value.
    pub async fn run(&self, script: &str) -> Value {
        self.ask("execute/sync", &json!({"script": script, "args": []})).await
    }

    /// Sets the width of the viewport, in CSS pixels; a narrow one is a phone's.
    pub async fn resize(&self, width: u64) {
        let metrics = json!({"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600});
        let command = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics});
        self.ask("goog/cdp/execute", &command).await;
    }

    /// Loads an address, and waits until its view is drawn.
    pub async fn open(&self, address: &str) {
        self.ask("url", &json!({"url": "about:blank"})).await;
        self.ask("url", &json!({"url": address})).await;
        self.until("the view to be drawn", "document.getElementById('view')?.getAttribute('aria-busy') === 'false'")
            .await;
    }

    /// Waits until an expression is true in the page.
    pub async fn until(&self, what: &str, expression: &str) {
        let script = format!("return Boolean({expression})");
        until(what, async || (self.run(&script).await == true).then_some(())).await;
    }

    /// Presses a key (a `WebDriver` code point or text) at the element that a selector names.
    pub async fn press(&self, selector: &str, key: &str) {
        let found = self.ask("element", &json!({"using": "css selector", "value": selector})).await;
        let id = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str).expect("an element");
        self.ask(&format!("element/{id}/value"), &json!({"text": key})).await;
    }
}
