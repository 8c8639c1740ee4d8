//! `mcp`: the proxy in front of servers of the Model Context Protocol. YAML in; profiles of servers out, with the
//! values of their variables and headers.

use std::{collections::BTreeMap, time::Duration};

use secrecy::{ExposeSecret, SecretString};

use super::{
    super::{
        Environment,
        keys::{Keys, Record, Shape},
        number::{Bytes, Time, whole},
        rules::tool_glob,
        shape::{Flag, List, MappingShape},
        text::{agent_glob, free_text, printable, text},
    },
    KIB, MIB,
    models::{Callable, variable_name},
    ms, secs,
    section::{Section as _, section},
};

/// Most profiles.
const MAX_PROFILES: usize = 64;
/// Most servers of a profile.
const MAX_UPSTREAMS: usize = 32;
/// Most tools that a profile lists for a task, and most that it always lists.
const MAX_SELECTED: u64 = 500;
/// Variables of this process that a server's process gets: none of them holds a secret.
const PLAIN_VARIABLES: [&str; 9] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SHELL", "TERM"];

section! {
    /// The proxy in front of MCP servers.
    #[derive(PartialEq)]
    Mcp {
        /// Longest time that a server may be silent about a request (60s unless set); a report of progress restarts it.
        call_timeout: Duration = secs(60), Time(ms(10)..=secs(24 * 3600));
        /// Longest time that a request may take, whatever progress is reported (10m unless set).
        max_call_timeout: Duration = secs(600), Time(ms(10)..=secs(24 * 3600));
        /// Longest time that a server may take to start and shake hands (30s unless set).
        start_timeout: Duration = secs(30), Time(ms(10)..=secs(600));
        /// Largest result that is passed on (4MiB unless set); a larger one is answered as an error that says so.
        max_result_bytes: usize = 4 * 1024 * 1024, Bytes(KIB..=256 * MIB);
        /// True to hide tools whose description gives orders to the model, or changed since it was pinned.
        withhold_suspicious: bool = false, Flag;
    }
    and {
        /// The profiles, by the name in `/mcp/{profile}`.
        profiles: BTreeMap<String, McpProfile> = BTreeMap::new();
    }
}

impl Mcp {
    /// Returns the names of servers whose annotations are believed.
    pub fn trusted(&self) -> impl Iterator<Item = &str> {
        self.upstreams().filter(|(_, upstream)| upstream.trusted).map(|(name, _)| name)
    }

    fn upstreams(&self) -> impl Iterator<Item = (&str, &McpUpstream)> {
        self.profiles.values().flat_map(|profile| &profile.upstreams).map(|(name, upstream)| (name.as_str(), upstream))
    }
}

/// MCP servers behind one address.
#[derive(Debug, Clone, PartialEq)]
pub struct McpProfile {
    /// Name of the agent, where the client does not say it.
    pub agent: String,
    /// Bounds of the list of tools; without them all tools are listed.
    pub select: Option<McpSelect>,
    /// The servers, by the name that contracts and rules use.
    pub upstreams: BTreeMap<String, McpUpstream>,
}

/// Bounds of a profile's list of tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct McpSelect {
    /// Most tools that are listed because they fit the task.
    pub limit: usize,
    /// Names of tools that are always listed.
    pub always_include: Vec<String>,
}

/// One MCP server of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct McpUpstream {
    /// Command or address of the server.
    pub at: UpstreamAt,
    /// True if the server's annotations are believed.
    pub trusted: bool,
    /// Agents that see the server's tools, as globs; empty for all.
    pub agents: Vec<String>,
}

/// Command or address of a server.
#[derive(Debug, Clone)]
pub enum UpstreamAt {
    /// A program that we start.
    Command(UpstreamCommand),
    /// A server that others run.
    Url {
        /// Address of the server's MCP endpoint.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, SecretString>,
    },
}

impl PartialEq for UpstreamAt {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Command(one), Self::Command(other)) => one == other,
            (Self::Url { url, headers }, Self::Url { url: other, headers: others }) => {
                let plain = |(name, value): (&String, &SecretString)| (name.clone(), value.expose_secret().to_owned());
                url == other && headers.iter().map(plain).eq(others.iter().map(plain))
            }
            _ => false,
        }
    }
}

/// A program to start. `Debug` shows the program alone: arguments and variables may hold secrets.
#[derive(Clone, PartialEq)]
pub struct UpstreamCommand {
    /// The program.
    pub program: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// All variables that the program gets; `None` for those of this process.
    pub only_env: Option<BTreeMap<String, String>>,
    /// Variables of this process that the program does not get.
    pub without_env: Vec<String>,
}

impl std::fmt::Debug for UpstreamCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamCommand").field("program", &self.program).finish_non_exhaustive()
    }
}

impl UpstreamCommand {
    /// Creates a command of a person at the command line: it gets the person's variables, without those for Umbra.
    pub fn of_person(program: String, args: Vec<String>, env: &Environment) -> Self {
        let ours = |name: &str| name.starts_with("UMBRA_") || name == "DATABASE_URL";
        let without_env = env.iter().map(|(name, _)| name).filter(|name| ours(name)).map(ToOwned::to_owned).collect();
        Self { program, args, only_env: None, without_env }
    }
}

/// The `mcp` section.
pub(super) fn section<'a>(env: &'a Environment, callable: Callable<'a>) -> impl Shape<Value = Mcp> + 'a {
    Record(move |keys: &mut Keys<'_>| {
        let mut mcp = Mcp::default();
        mcp.declare(keys);
        let profiles = MappingShape {
            max: MAX_PROFILES,
            key: plain_name,
            value: Record(move |keys: &mut Keys<'_>| profile(keys, env, callable)),
        };
        keys.set("profiles", "Servers behind /mcp/{profile}, by the profile's name.", profiles, &mut mcp.profiles);
        // Trust goes by the server's name, whatever the profile.
        let odd =
            mcp.upstreams().find(|(name, upstream)| !upstream.trusted && mcp.trusted().any(|other| other == *name));
        if let Some(name) = odd.map(|(name, _)| name.to_owned()) {
            let message = format!("the server {name} is trusted in one profile and not trusted in another");
            keys.fault("profiles", message, "give one of the two servers another name");
        }
        Some(mcp)
    })
}

/// Checks the name of a server or profile. `__` separates a server's name from its tool's, and the first one counts.
///
/// # Errors
/// Advice on what to write instead.
pub fn plain_name(name: &str) -> Result<(), &'static str> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if plain && (1..=32).contains(&name.len()) && !name.contains("__") && !name.ends_with('_') {
        Ok(())
    } else {
        Err("use 1 to 32 of A-Z, a-z, 0-9, - and _, without two _ together or one at the end")
    }
}

fn profile(keys: &mut Keys<'_>, env: &Environment, callable: Callable<'_>) -> Option<McpProfile> {
    let agent = keys.optional(
        "agent",
        "Name of the calling agent, where the client does not say it by ?agent= (mcp unless set).",
        printable("an agent's name", 256),
    );
    let upstreams = keys.required(
        "upstreams",
        "The servers, by the name that contracts and rules use.",
        MappingShape {
            max: MAX_UPSTREAMS,
            key: plain_name,
            value: Record(move |keys: &mut Keys<'_>| upstream(keys, env, callable)),
        },
    )?;
    if upstreams.is_empty() {
        keys.fault(
            "upstreams",
            "the profile has no server",
            "declare at least one server: files: {command: [program, argument]}",
        );
    }
    let select = keys.optional(
        "select",
        "Bounds of the list of tools: only those that fit the task, if there are more; search_tools and call_tool \
         reach all.",
        Record(select),
    );
    Some(McpProfile { agent: agent.unwrap_or_else(|| "mcp".to_owned()), select, upstreams })
}

fn select(keys: &mut Keys<'_>) -> Option<McpSelect> {
    let mut select = McpSelect::default();
    keys.required(
        "limit",
        "Most tools that are listed because they fit the task (`?task=`, or the session's); 0 lists none by itself.",
        whole(0..=MAX_SELECTED),
    )
    .map(|limit| select.limit = limit)?;
    keys.set(
        "always_include",
        "Tools that are always listed: a name, or `server.tool`.",
        List { len: 0..=500, single: true, item: tool_glob() },
        &mut select.always_include,
    );
    Some(select)
}

fn upstream(keys: &mut Keys<'_>, env: &Environment, callable: Callable<'_>) -> Option<McpUpstream> {
    let command = keys.optional(
        "command",
        "The program to start and its arguments.",
        List { len: 1..=256, single: false, item: free_text(8_192) },
    );
    let url = keys.optional("url", "The address of a server that others run.", text("a URL", 2_048, http_url));
    let own = keys.or_default(
        "env",
        "Variables that the program gets, besides PATH, HOME, USER, LANG, LC_ALL, TZ, TMPDIR, SHELL and TERM.",
        MappingShape { max: 256, key: variable, value: free_text(8_192) },
    );
    let from = keys.or_default(
        "env_from",
        "Names of variables of this process that the program gets as well.",
        List { len: 0..=256, single: true, item: text("the name of a variable", 128, variable_name) },
    );
    let headers = keys.or_default(
        "headers_env",
        "Headers of each request to `url`, with the name of the variable that holds the value.",
        MappingShape { max: 32, key: header, value: text("the name of a variable", 128, variable_name).secret() },
    );
    let trusted = keys.optional("trusted", "True if the server's annotations are believed (false unless set).", Flag);
    let agents = keys.or_default(
        "agents",
        "Agents (names or globs) that see the server's tools; all when not set.",
        List { len: 1..=100, single: true, item: agent_glob() },
    );
    let at = match (command, url) {
        (Some(mut command), None) => {
            if keys.has("headers_env") {
                keys.fault("headers_env", "headers apply only to a server with a url", "use env or env_from");
            }
            let ours = PLAIN_VARIABLES.iter().map(|name| (*name).to_owned()).chain(from);
            let ours = ours.filter_map(|name| env.get(&name).map(ToOwned::to_owned).map(|value| (name, value)));
            let only_env = Some(ours.chain(own).collect());
            let program = command.remove(0);
            UpstreamAt::Command(UpstreamCommand { program, args: command, only_env, without_env: Vec::new() })
        }
        (None, Some(url)) => {
            if let Err(why) = callable(&url) {
                keys.fault("url", "this address may not be called", why);
            }
            for key in ["env", "env_from"] {
                if keys.has(key) {
                    keys.fault(key, "variables apply only to a server with a command", "use headers_env");
                }
            }
            UpstreamAt::Url { url, headers: looked_up(keys, env, headers)? }
        }
        (None, None) if keys.has("command") || keys.has("url") => return None,
        (command, _) => {
            let message =
                if command.is_some() { "both command and url are set" } else { "neither command nor url is set" };
            keys.fault("url", message, "write command: [program, argument], or url: https://host/mcp");
            return None;
        }
    };
    Some(McpUpstream { at, trusted: trusted.unwrap_or(false), agents })
}

/// Looks up the values of headers.
pub(super) fn looked_up(
    keys: &mut Keys<'_>,
    env: &Environment,
    headers: BTreeMap<String, String>,
) -> Option<BTreeMap<String, SecretString>> {
    let mut values = BTreeMap::new();
    let count = headers.len();
    for (name, variable) in headers {
        match env.get(&variable).map(str::trim) {
            Some(value) if !value.is_empty() && value.chars().all(|c| c == '\t' || (' '..='~').contains(&c)) => {
                values.insert(name, SecretString::from(value));
            }
            Some(_) => {
                keys.fault(
                    "headers_env",
                    format!("the value of the variable {variable} is not allowed in a header"),
                    "set the variable to printable ASCII",
                );
            }
            None => {
                keys.fault(
                    "headers_env",
                    format!("the variable {variable} is not set"),
                    "set it, or remove the header",
                );
            }
        }
    }
    (values.len() == count).then_some(values)
}

fn variable(name: &str) -> Result<(), &'static str> {
    variable_name(name).map(drop).map_err(|_| "use A-Z, a-z, 0-9 and _, not beginning with a digit")
}

/// Checks a header's name. Headers that belong to the protocol are not for the settings.
pub(super) fn header(name: &str) -> Result<(), &'static str> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') && (1..=64).contains(&name.len());
    let lower = name.to_ascii_lowercase();
    let theirs = ["host", "content-type", "content-length", "accept", "connection", "last-event-id"];
    if plain && !lower.starts_with("mcp-") && !theirs.contains(&lower.as_str()) {
        Ok(())
    } else {
        Err("use a header of your own, such as authorization or x-api-key")
    }
}

fn http_url(url: &str) -> Result<String, String> {
    let known = url.starts_with("https://") || url.starts_with("http://");
    let plain = url.chars().all(|c| c.is_ascii_graphic() && c != '#');
    if known && plain {
        Ok(url.to_owned())
    } else {
        Err("write https://host/path of the server's MCP endpoint".to_owned())
    }
}
