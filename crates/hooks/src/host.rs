//! The hosts: their names, the answers that they read, and what they honour of an answer.

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `hookSpecificOutput` with a `permissionDecision`.
    Claude,
    /// `decision` and `reason`, as Gemini CLI reads them.
    Gemini,
    /// `permission`, which must be given for an allowed call too.
    Cursor,
    /// `cancel`.
    Cline,
    /// The form of our own plugins: `decision`, `reason`, `input`, `context`.
    Plugin,
}

/// A coding agent whose hooks Umbra knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Name on the command line and in paths.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Form of the answers.
    pub dialect: Dialect,
    /// Tools that run a shell line.
    pub shells: &'static [&'static str],
    /// Argument of these tools with the line; for Cline a list of lines.
    pub shell_argument: &'static str,
    /// True if the host runs a call with the arguments of our answer in place of its own.
    pub rewrites: bool,
    /// True if a text in our answer to a prompt reaches the model.
    pub takes_context: bool,
    /// Text between server and tool in the name of a tool of an MCP server, where names do not begin with `mcp__`.
    pub mcp_separator: Option<&'static str>,
    /// Sentences about events that the host's hooks do not show or stop.
    pub unseen: &'static [&'static str],
}

const CLAUDE: Host = Host {
    name: "claude-code",
    title: "Claude Code",
    dialect: Dialect::Claude,
    shells: &["Bash"],
    shell_argument: "command",
    rewrites: true,
    takes_context: true,
    mcp_separator: None,
    unseen: &[],
};

/// All hosts.
pub const HOSTS: [Host; 10] = [
    CLAUDE,
    Host {
        name: "codex",
        title: "Codex CLI",
        unseen: &[
            "Codex runs no hook for `write_stdin`: what is typed into a shell that an allowed call has started is not \
             seen. A rule of the tools file can forbid to start one.",
            "Codex skips hooks that it does not trust, and all of them under --disable hooks or --ignore-user-config, \
             without a word. Then nothing arrives: look at the time of its last event.",
        ],
        ..CLAUDE
    },
    Host {
        name: "gemini-cli",
        title: "Gemini CLI",
        dialect: Dialect::Gemini,
        shells: &["run_shell_command"],
        ..CLAUDE
    },
    // Arguments in an answer are ignored: the call runs as it was.
    Host { name: "qwen-code", title: "Qwen Code", shells: &["run_shell_command"], rewrites: false, ..CLAUDE },
    Host { name: "copilot", title: "Copilot CLI", shells: &["Bash", "bash"], ..CLAUDE },
    Host {
        name: "droid",
        title: "Factory Droid",
        shells: &["Execute"],
        mcp_separator: Some("___"),
        unseen: &[
            "A project can switch off the hooks of its user (hooksDisabled), and one invalid entry of another program \
             voids all hooks of the file. Then nothing arrives: look at the time of its last event.",
        ],
        ..CLAUDE
    },
    Host { name: "cursor", title: "Cursor", dialect: Dialect::Cursor, shells: &["Shell"], ..CLAUDE },
    Host {
        name: "cline",
        title: "Cline CLI",
        dialect: Dialect::Cline,
        shells: &["run_commands"],
        shell_argument: "commands",
        takes_context: false,
        mcp_separator: Some("__"),
        unseen: &[
            "Cline runs a call if its hook's script is removed or killed: no setting of Cline's prevents that.",
            "A denied call of a tool other than `run_commands` and `editor` ends the run of Cline.",
        ],
        ..CLAUDE
    },
    Host { name: "opencode", title: "opencode", dialect: Dialect::Plugin, shells: &["bash"], ..CLAUDE },
    Host { name: "pi", title: "pi", dialect: Dialect::Plugin, shells: &["bash"], ..CLAUDE },
];

impl Host {
    /// Returns the argument that holds the shell line, if the tool runs one.
    pub fn shell_argument_of(&self, tool: &str) -> Option<&'static str> {
        self.shells.contains(&tool).then_some(self.shell_argument)
    }
}

/// Returns the host of a name.
pub fn host(name: &str) -> Option<&'static Host> {
    HOSTS.iter().find(|host| host.name == name)
}

/// Force of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HookMode {
    /// Events are copied; nothing is stopped.
    #[default]
    Observe,
    /// Each call is decided before it runs, and does not run without a decision.
    Enforce,
}

impl HookMode {
    /// Returns the word of the command line and of the query.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Enforce => "enforce",
        }
    }

    /// Reads the word of the command line and of the query.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Observe, Self::Enforce].into_iter().find(|mode| mode.as_str() == word)
    }
}
