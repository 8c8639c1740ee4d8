//! HTTP client of commands that ask a running server.

use std::{fs, net::SocketAddr, time::Duration};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, Method, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;

use super::{
    CommandFailure, GlobalOptions, answer, answer_json, complain,
    health::reachable,
    table::{self, plain},
};
use umbra_config::Environment;
use umbra_domain::clock::Clock;
use umbra_llm::OutboundPolicy;

/// Longest wait for an answer to begin. A server decides within its own deadlines, which are shorter.
const DEADLINE: Duration = Duration::from_secs(30);
/// Most bytes of a line before its end comes: contents are bounded far below it.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// Server that a command asks. Its key, if one is needed, is in `UMBRA_API_KEY` or `UMBRA_API_KEY_FILE`.
#[derive(Debug, Clone, Args)]
pub(super) struct Server {
    /// Address of the server (also `UMBRA_URL`); by default the one that the settings name.
    #[arg(long, value_name = "URL", global = true, visible_alias = "url")]
    server: Option<String>,
}

/// Connection to a server.
pub(super) struct Remote {
    client: Client,
    base: Url,
    key: Option<SecretString>,
}

/// Body of an answer, line by line.
pub(super) struct Lines {
    response: Response,
    rest: Vec<u8>,
}

impl Lines {
    /// Reads the body of an answer.
    pub const fn of(response: Response) -> Self {
        Self { response, rest: Vec::new() }
    }

    /// Returns the next line without its end; `None` at the end of the body.
    ///
    /// # Errors
    /// The connection broke, or a line is too long.
    pub async fn next(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            anyhow::ensure!(self.rest.len() <= LONGEST_LINE, "a line is longer than {LONGEST_LINE} bytes");
            match self.response.chunk().await? {
                Some(piece) => self.rest.extend_from_slice(&piece),
                None => return Ok(None),
            }
        }
    }
}

/// Columns of a list: heading, and the places of its value as JSON pointers, of which the first with a value counts.
pub(super) type Columns = [(&'static str, &'static [&'static str])];

/// Command that asks a server: the server, and the action.
#[derive(Debug, Args)]
pub(super) struct RemoteCommand<A: Subcommand> {
    #[command(flatten)]
    pub server: Server,
    #[command(subcommand)]
    pub action: A,
}

impl Server {
    /// Returns this server, or one at another address if neither the command line nor the environment names one.
    pub fn or(&self, url: Option<String>) -> Self {
        Self { server: if self.is_named() { self.server.clone() } else { url } }
    }

    /// True if the command line or the environment names a server.
    pub fn is_named(&self) -> bool {
        self.server.is_some() || Environment::of_process().get("UMBRA_URL").is_some()
    }

    /// Prepares a connection. Nothing is sent yet.
    ///
    /// # Errors
    /// The address is invalid, or the settings that name one are faulty.
    pub fn remote(&self, global: &GlobalOptions) -> Result<Remote, CommandFailure> {
        let environment = Environment::of_process();
        let variable = |name| environment.get(name).map(str::to_owned).filter(|value| !value.trim().is_empty());
        let url = match self.server.clone().or_else(|| variable("UMBRA_URL")) {
            Some(url) => url,
            None => address(global.quiet_setup()?.settings.server.bind),
        };
        // A password before the host is not shown.
        let shown = url.rsplit('@').next().unwrap_or_default();
        let bad = |why: String| {
            CommandFailure::Usage(format!("{shown} is not the address of a server ({why}): write http://HOST:PORT"))
        };
        let host = Url::parse(&url).map_err(|error| bad(error.to_string()))?;
        let host = host.host_str().unwrap_or_default().to_owned();
        // The user has chosen the host.
        let policy = OutboundPolicy::new([host]);
        let (client, mut base) = umbra_llm::client(&url, &policy).map_err(|error| bad(error.to_string()))?;
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let key = match (variable("UMBRA_API_KEY"), variable("UMBRA_API_KEY_FILE")) {
            (Some(key), _) => Some(key),
            (None, Some(file)) => {
                Some(fs::read_to_string(&file).with_context(|| format!("UMBRA_API_KEY_FILE: {file}"))?)
            }
            (None, None) => None,
        };
        if key.as_deref().is_some_and(|key| !key.trim().bytes().all(|byte| byte.is_ascii_graphic())) {
            let fault = "the API key has characters that no key has: remove blanks and line ends within it";
            return Err(CommandFailure::Usage(fault.to_owned()));
        }
        let key = key.map(|key| SecretString::from(key.trim().to_owned()));
        Ok(Remote { client, base, key })
    }
}

fn address(bind: SocketAddr) -> String {
    format!("http://{}", reachable(bind))
}

impl Remote {
    /// Gets a resource as JSON.
    ///
    /// # Errors
    /// As [`Remote::open`].
    pub async fn get(&self, path: &str, query: &impl Serialize) -> Result<Value, CommandFailure> {
        json(self.open(Method::GET, path, query, None).await?).await
    }

    /// Gets a list and prints it: a table of these columns, or the answer as it came.
    ///
    /// # Errors
    /// As [`Remote::open`].
    pub async fn list(
        &self,
        json: bool,
        path: &str,
        query: &impl Serialize,
        columns: &Columns,
    ) -> Result<(), CommandFailure> {
        let list = self.get(path, query).await?;
        if json {
            return answer_json(&list);
        }
        let mut rows = table::new(&columns.iter().map(|(heading, _)| *heading).collect::<Vec<_>>());
        for item in items(&list) {
            rows.add_row(columns.iter().map(|(_, places)| cell(first_of(item, places))));
        }
        answer(&rows.to_string());
        if list["next_cursor"].is_string() {
            complain("umbra: there are more: --limit (up to 500), --since and --until choose others");
        }
        Ok(())
    }

    /// Sends a request with a body and returns the answer as JSON.
    ///
    /// # Errors
    /// As [`Remote::open`].
    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, CommandFailure> {
        json(self.open(method, path, &(), Some(body)).await?).await
    }

    /// Sends a request and returns the answer, whose body is still to be read. Members of the query without a value are
    /// not sent.
    ///
    /// # Errors
    /// No server answers there, or it refuses: in its own words, with each field at fault.
    pub async fn open(
        &self,
        method: Method,
        path: &str,
        query: &impl Serialize,
        body: Option<&Value>,
    ) -> Result<Response, CommandFailure> {
        let mut url = self.base.join(path).with_context(|| format!("{path} is not a valid path"))?;
        let query = serde_json::to_value(query)?;
        for (name, value) in query.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            url.query_pairs_mut().append_pair(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        let mut request = self.client.request(method, url);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose_secret());
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answered = tokio::time::timeout(DEADLINE, request.send()).await;
        let answered = answered.map_err(|_| anyhow!("{} did not answer within {DEADLINE:?}", self.base))?;
        let answered = answered.map_err(|error| unanswered(&self.base, &error))?;
        if answered.status().is_success() {
            Ok(answered)
        } else {
            Err(refused(answered, self.key.is_some()).await.into())
        }
    }
}

async fn json(response: Response) -> Result<Value, CommandFailure> {
    let url = response.url().clone();
    let value = response.json().await;
    Ok(value.with_context(|| format!("the answer of {url} is not JSON: is it an Umbra server?"))?)
}

fn unanswered(base: &Url, error: &reqwest::Error) -> anyhow::Error {
    // The error of the TLS library about an answer that is no TLS has no type here.
    if format!("{error:?}").contains("InvalidContentType") {
        return anyhow!("{base}: what listens there speaks no TLS: write http:// instead of https://");
    }
    let cause = if error.is_connect() { "no connection" } else { "the connection broke" };
    anyhow!("{base}: {cause}. Start a server (umbra serve), or name another server by --server or UMBRA_URL")
}

/// Renders a refusal: the problem, and a remedy where the key is at fault.
async fn refused(response: Response, has_key: bool) -> anyhow::Error {
    let (status, url) = (response.status(), response.url().clone());
    let problem: Value = response.json().await.unwrap_or_default();
    let told = if problem["detail"].is_string() { problem_text(&problem) } else { format!("{url} answers {status}") };
    let cure = match status.as_u16() {
        401 if has_key => "\n  the key is that of UMBRA_API_KEY or UMBRA_API_KEY_FILE",
        401 => "\n  put a key into UMBRA_API_KEY or UMBRA_API_KEY_FILE (umbra keys create makes a key)",
        _ => "",
    };
    anyhow!("{told}{cure}")
}

/// Renders a problem: its detail and, each on a line, its faults.
pub(super) fn problem_text(problem: &Value) -> String {
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let faults = problem["errors"].as_array().into_iter().flatten();
    let faults = faults.map(|fault| format!("\n  {}: {}", text(&fault["pointer"]), text(&fault["detail"])));
    text(&problem["detail"]) + &faults.collect::<String>()
}

/// Renders a value for a table: text as it is, other values as JSON, cut at a width.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => table::short(text),
        other => table::short(&other.to_string()),
    }
}

/// Renders the distance of a time from now: `3m`, `2h`.
pub(super) fn distance(value: &Value) -> String {
    let at = value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let Some(at) = at else { return "-".to_owned() };
    let seconds = Clock::system().now().duration_since(at).unsigned_abs().as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns the items of a list.
pub(super) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

/// Returns the first value that an item has at these places.
pub(super) fn first_of<'a>(item: &'a Value, places: &[&str]) -> &'a Value {
    places.iter().filter_map(|place| item.pointer(place)).find(|value| !value.is_null()).unwrap_or(&Value::Null)
}

/// Returns a path with an escaped name in it.
pub(super) fn path_with(before: &str, name: &str, after: &str) -> String {
    // Dots are escaped, too: `..` is no name in a path.
    const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');
    format!("{before}{}{after}", utf8_percent_encode(name, &ESCAPED))
}
