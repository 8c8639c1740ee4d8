//! `umbra hook HOST`: one payload on standard input, the host's answer on standard output. It asks the server and runs
//! before all else: without a runtime, settings or logs, so that a hook costs little more than the start of a process.
//!
//! In `enforce` anything that goes wrong denies the call, in the host's own form: no server, no answer in time, an answer
//! that is not Umbra's, a payload that cannot be read, a panic, SIGTERM. On other events, and in `observe`, a failure is
//! silence. Whoever is first to answer, the exchange or one of the guards beside it, writes and ends the process.
#![expect(clippy::disallowed_methods, reason = "it is a process of its own: it reads no settings")]

use std::{
    ffi::OsString,
    fs,
    io::{Read, Write},
    net::IpAddr,
    panic,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use clap::{Args, Parser, builder::PossibleValuesParser};
use nix::sys::signal::{SigSet, Signal};
use serde_json::Value;
use ureq::{Agent, http::Uri};

use umbra_hooks::{Dialect, EventKind, HOSTS, HookAnswer, HookMessage, HookMode, Host, event::kind_of, host};

/// Longest time for an answer in `enforce`; a host waits longer.
const DEADLINE: Duration = Duration::from_secs(2);
/// Longest time for an answer in `observe`, where nothing depends on it.
const OBSERVED_DEADLINE: Duration = Duration::from_millis(250);
/// Most bytes of a payload.
const PAYLOAD_BYTES: u64 = 16 * 1024 * 1024;
/// Most bytes of an answer.
const ANSWER_BYTES: u64 = 4 * 1024 * 1024;
/// Address of the server where none is named.
pub const DEFAULT_URL: &str = "http://127.0.0.1:7817";

/// Options of a hook.
#[derive(Debug, Clone, Args)]
pub struct ShimOptions {
    /// Coding agent whose hook this is.
    #[arg(value_name = "HOST", value_parser = PossibleValuesParser::new(HOSTS.map(|host| host.name)))]
    pub host: String,
    /// Event of the hook, as the agent names it.
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// `observe`: copy events, stop nothing; `enforce`: no call without a decision.
    #[arg(long, value_name = "MODE", default_value = "observe", value_parser = PossibleValuesParser::new(["observe", "enforce"]))]
    mode: String,
    /// Address of the server (also `UMBRA_URL`): on this machine, or https.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Name of the agent (also `UMBRA_AGENT`); the host's name by default.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Word to print where the answer is silence, for a shell line that takes silence for a failure.
    #[arg(long, value_name = "WORD", hide = true)]
    pass: Option<String>,
}

/// The same options as a program of its own: the rest of the command line need not be built for a hook.
#[derive(Debug, Parser)]
#[command(name = "umbra hook", disable_help_flag = true)]
struct Program {
    #[command(flatten)]
    options: ShimOptions,
}

/// Answers a hook, if the arguments of `umbra` ask for one.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let words: Vec<OsString> = arguments.skip(1).take(32).collect();
    let (command, rest) = words.split_first()?;
    let name = rest.first()?.to_str()?;
    (command == "hook" && host(name).is_some()).then(|| answer(&words))
}

/// Answers a hook: the whole of `umbra-hook`.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    answer(&arguments.take(32).collect::<Vec<_>>())
}

fn answer(words: &[OsString]) -> ExitCode {
    let shim = Program::try_parse_from(words).map(|program| Shim::new(&program.options));
    match shim {
        Ok(Some(shim)) => shim.run(),
        Ok(None) => ExitCode::from(2),
        // A wrong word on the installed line must not open the gate: the exit code 2 denies the call on most hosts.
        Err(error) => {
            drop(writeln!(std::io::stderr(), "{error}"));
            ExitCode::from(2)
        }
    }
}

/// Returns a variable of the process that is set, without blanks around it.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// A hook under way.
struct Shim {
    host: &'static Host,
    mode: HookMode,
    event: Option<String>,
    url: String,
    agent: Option<String>,
    pass: Option<String>,
    /// Payload, once it is read. Locked for good by the first that writes an answer.
    message: Mutex<Option<HookMessage>>,
}

/// Reason why there is no answer of the server.
struct Failure(String, &'static str);

/// Advice where no server answers.
const START: &str = " Ask the user to start it: umbra serve";
/// Advice where the server or the hook is set up wrongly.
const MEND: &str = " Ask the user to run: umbra hook status";

impl Shim {
    fn new(options: &ShimOptions) -> Option<Self> {
        Some(Self {
            host: host(&options.host)?,
            mode: HookMode::parse(&options.mode)?,
            event: options.event.clone(),
            url: options.url.clone().or_else(|| variable("UMBRA_URL")).unwrap_or_else(|| DEFAULT_URL.to_owned()),
            agent: options.agent.clone().or_else(|| variable("UMBRA_AGENT")),
            pass: options.pass.clone(),
            message: Mutex::default(),
        })
    }

    fn run(self) -> ExitCode {
        panic::set_hook(Box::new(|_| {}));
        let shim = Arc::new(self);
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            signals.add(signal);
        }
        let _ = signals.thread_block();
        let deadline = shim.deadline();
        let watchdog = Arc::clone(&shim);
        drop(thread::Builder::new().spawn(move || {
            thread::sleep(deadline);
            watchdog.fail(&format!("did not answer in {}", seconds(deadline)), START);
        }));
        let listener = Arc::clone(&shim);
        drop(thread::Builder::new().spawn(move || {
            if signals.wait().is_ok() {
                listener.fail("was told to stop before it could answer", "");
            }
        }));
        let exchanged = panic::catch_unwind(panic::AssertUnwindSafe(|| shim.exchange()));
        match exchanged {
            Ok(Ok(answer)) => shim.finish(&answer),
            Ok(Err(Failure(why, advice))) => shim.fail(&why, advice),
            Err(_) => shim.fail("failed", MEND),
        }
        ExitCode::SUCCESS
    }

    fn deadline(&self) -> Duration {
        if self.mode == HookMode::Enforce { DEADLINE } else { OBSERVED_DEADLINE }
    }

    /// Sends the payload, and returns the answer.
    fn exchange(&self) -> Result<Value, Failure> {
        let mut payload = Vec::new();
        let read = std::io::stdin().lock().take(PAYLOAD_BYTES + 1).read_to_end(&mut payload);
        read.map_err(|error| Failure(format!("could not read the hook's input ({error})"), ""))?;
        if payload.len() as u64 > PAYLOAD_BYTES {
            return Err(Failure(format!("takes no call of more than {} MiB", PAYLOAD_BYTES >> 20), ""));
        }
        if let Ok(value) = serde_json::from_slice::<Value>(&payload) {
            let message = HookMessage::read(self.host, self.event.as_deref(), &value);
            *self.lock() = Some(message);
        }
        self.ask(&payload)
    }

    fn ask(&self, payload: &[u8]) -> Result<Value, Failure> {
        if !is_near_or_private(&self.url) {
            let text = "is set to an address that is neither on this machine nor https (UMBRA_URL)";
            return Err(Failure(text.to_owned(), MEND));
        }
        if self.url.starts_with("https:") {
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let agent: Agent = Agent::config_builder()
            .timeout_global(Some(self.deadline()))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build()
            .into();
        let nonce = uuid::Uuid::now_v7().simple().to_string();
        let mut request = agent
            .post(format!("{}/v1/hooks/{}", self.url.trim_end_matches('/'), self.host.name))
            .header("content-type", "application/json")
            .query("mode", self.mode.as_str())
            .query("nonce", &nonce);
        for (name, value) in [("agent", &self.agent), ("event", &self.event)] {
            if let Some(value) = value {
                request = request.query(name, value);
            }
        }
        if let Some(key) = key() {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut answered = request.send(payload).map_err(|error| match error {
            ureq::Error::Timeout(_) => Failure(format!("did not answer in {}", seconds(self.deadline())), START),
            error => Failure(format!("cannot be reached at {} ({error})", self.url), START),
        })?;
        let status = answered.status();
        let body = answered.body_mut().with_config().limit(ANSWER_BYTES).read_to_vec().unwrap_or_default();
        let body: Option<Value> = serde_json::from_slice(&body).ok();
        if !status.is_success() {
            let detail = body.as_ref().and_then(|problem| problem["detail"].as_str()).unwrap_or("no detail");
            return Err(Failure(format!("refused the hook's request ({}: {detail})", status.as_u16()), MEND));
        }
        let is_umbra = answered.headers().get("umbra-hook").is_some_and(|proof| proof.as_bytes() == nonce.as_bytes());
        match body {
            Some(answer) if is_umbra && answer.is_object() => Ok(answer),
            _ => Err(Failure(format!("did not answer: another program does, at {}", self.url), START)),
        }
    }

    /// Answers without the server: a call in `enforce` is denied, everything else passes in silence.
    fn fail(&self, why: &str, advice: &str) {
        let mut message = self.lock().clone().unwrap_or_default();
        if message.event.is_empty() {
            message.event = self.event.clone().unwrap_or_else(|| "PreToolUse".to_owned());
        }
        let may_be_call = kind_of(&message.event).is_none_or(|kind| kind == EventKind::Call);
        if self.mode == HookMode::Enforce && may_be_call {
            let reason = format!("Umbra {}, so the call was not made.{advice}", why.trim_end_matches('.'));
            self.finish(&HookAnswer::Deny(reason).render(message.reader(self.host), &message));
        }
        self.finish(&Value::Null);
    }

    /// Writes the answer in one piece and ends the process. Only the first caller gets that far.
    fn finish(&self, answer: &Value) {
        let _first = self.lock();
        let says_something = answer.as_object().is_some_and(|members| !members.is_empty());
        // Cline takes the line with this mark for the answer, whatever else is printed.
        let mark = if self.host.dialect == Dialect::Cline { "HOOK_CONTROL\t" } else { "" };
        let text = if says_something { Some(format!("{mark}{answer}")) } else { self.pass.clone() };
        if let Some(text) = text {
            let mut out = std::io::stdout().lock();
            let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            if written.is_err() && self.mode == HookMode::Enforce {
                // Nothing printed is an allowance.
                std::process::exit(2);
            }
        }
        std::process::exit(0);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<HookMessage>> {
        self.message.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f32())
}

/// Returns the key for the server.
fn key() -> Option<String> {
    variable("UMBRA_API_KEY").or_else(|| {
        let file = variable("UMBRA_API_KEY_FILE")?;
        Some(fs::read_to_string(file).ok()?.trim().to_owned())
    })
}

/// True for an address on this machine, or one that is reached by TLS: payloads hold contents of files.
pub fn is_near_or_private(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else { return false };
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        // A password would stand in the settings, and in what the model reads.
        return false;
    }
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_near = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => is_near,
        _ => false,
    }
}
