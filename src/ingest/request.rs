//! Reads requests by people and programs from JSON bodies of their own shape, by the same rules as events. All faults
//! are reported at once, with their pointers.

use utoipa::ToSchema;

use super::{
    Limits,
    fault::{At, RequestFault, RequestFaults, code},
    native::{Fields, any_text, bounded, listed, name, not_blank, trigger, word},
    strict,
    tree::Tree,
};
use umbra_domain::{
    Trigger,
    key::{AgentGlobs, Scope, may_bind},
};

/// Most bytes of a key's name.
const KEY_NAME_BYTES: usize = 100;
/// Most globs of one key.
const KEY_AGENTS: usize = 100;

/// Text to be reviewed now.
#[derive(Clone, PartialEq, Eq, ToSchema)]
pub struct ReviewRequest {
    /// Agent that wrote the text.
    #[schema(min_length = 1, max_length = 256)]
    pub target: String,
    /// Trigger of the review.
    #[schema(example = "task_complete", value_type = String)]
    pub trigger: Trigger,
    /// Shadow that reviews; without it, the first that watches the target for the trigger.
    pub shadow: Option<String>,
    /// Instruction that the agent was given.
    pub task: Option<String>,
    /// Text to review; for `code_written` and `security_risk` it is read as a program or a script, fenced or not.
    pub output: String,
    /// Input of the agent.
    pub context: Option<String>,
}

/// Key to be made.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[schema(as = NewKeyRequest)]
pub struct KeyRequest {
    /// Purpose of the key.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// Rights of the key: ingest, read, decide, declare, admin.
    #[schema(min_items = 1)]
    pub scopes: Vec<Scope>,
    /// Agents that the key may speak for, as globs; all without it.
    #[schema(max_items = 100, value_type = Option<Vec<String>>)]
    pub agents: Vec<String>,
}

/// Reads the body of `POST /v1/reviews`.
pub fn review_request(body: &[u8], limits: &Limits) -> Result<ReviewRequest, Vec<RequestFault>> {
    read(body, limits, |fields| {
        let target = fields.required("target", "the agent that made the output", name);
        let trigger = fields.required("trigger", "the trigger of the review, such as task_complete", trigger);
        let shadow = fields.optional("shadow", name);
        let task = fields.optional("task", any_text);
        let output = fields.required("output", "the text to review", any_text);
        let context = fields.optional("context", any_text);
        Some(ReviewRequest { target: target?, trigger: trigger?, shadow, task, output: output?, context })
    })
}

/// Reads the body of `POST /v1/admin/keys`.
pub fn key_request(body: &[u8], limits: &Limits) -> Result<KeyRequest, Vec<RequestFault>> {
    read(body, limits, |fields| {
        let name = fields.required("name", "the key's name", |tree, at, faults| {
            bounded(tree, KEY_NAME_BYTES, at, faults).and_then(|text| not_blank(text, at, faults))
        });
        let scopes =
            fields.required("scopes", "the key's scopes, a list of ingest, read, decide, declare and admin", scopes);
        let given = fields.gives("agents");
        let agents = fields.optional("agents", agents);
        let agents = if given { agents? } else { vec!["*".to_owned()] };
        let (name, scopes) = (name?, scopes?);
        if !may_bind(&scopes, &agents) {
            let detail = "a key with the scope read or admin sees every agent: leave out agents, or that scope";
            fields.fault("agents", code::FORMAT, detail);
        }
        Some(KeyRequest { name, scopes, agents })
    })
}

pub(super) fn read<T>(
    body: &[u8],
    limits: &Limits,
    shape: impl FnOnce(&mut Fields<'_>) -> Option<T>,
) -> Result<T, Vec<RequestFault>> {
    let mut faults = RequestFaults::default();
    let tree = strict::text(body, &mut faults).and_then(|text| strict::within(text, limits, At::Root, &mut faults));
    let read = tree.and_then(|tree| {
        let mut fields = Fields::open(tree, At::Root, &mut faults)?;
        let value = shape(&mut fields);
        fields.refuse_rest_of_request();
        value
    });
    faults.unless_any(read)
}

fn scopes(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Vec<Scope>> {
    const KNOWN: &str = "ingest, read, decide, declare, admin";
    let scopes = listed(tree, r#"a list such as ["ingest"]"#, usize::MAX, at, faults, word(Scope::parse, KNOWN))?;
    if scopes.is_empty() {
        return faults.refuse(at, code::RANGE, format!("must have at least one of {KNOWN}"));
    }
    Some(scopes)
}

fn agents(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Vec<String>> {
    let glob = |tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults| {
        let glob = name(tree, at, faults)?;
        if AgentGlobs::compile(std::slice::from_ref(&glob)).is_err() {
            return faults.refuse(at, code::FORMAT, "must be a glob such as writer-*, *-agent, {a,b} or [ab]?");
        }
        Some(glob)
    };
    let globs = listed(tree, r#"a list such as ["writer-*"]"#, KEY_AGENTS, at, faults, glob)?;
    if globs.is_empty() {
        return faults.refuse(at, code::RANGE, format!("must have 1 to {KEY_AGENTS} entries, has 0"));
    }
    if AgentGlobs::compile(&globs).is_err() {
        return faults.refuse(at, code::FORMAT, "these globs are too large together: write fewer or shorter globs");
    }
    Some(globs)
}
