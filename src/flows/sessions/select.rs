//! Selection of the tools that fit an agent's next task.

use std::{collections::HashSet, sync::Arc};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;

use super::{AgentFilter, Sidecar, attach::StepError, cleaned, request_deadline::RequestDeadline};
use crate::ingest::{SelectRequest, ToolDefinition};
use umbra_boundary::tools::Tools;
use umbra_domain::{GuardVerdict, Session, SessionState, ShownTool, ToolAnnotations, ToolName, tool::plain_tool_name};
use umbra_policy::AgentContext;
use umbra_sidecar::tools::{Catalogue, Parameter, SelectionRequest, Task, Tool};

/// Tools in an answer if the request names no limit.
const RANKED: usize = 10;
/// Most excluded tools that the record of a turn keeps.
const MOST_KEPT: usize = 50;
/// Most bytes of a name.
const NAME_BYTES: usize = 256;

/// A tool that fits the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RankedTool {
    /// Name of the tool.
    pub tool: ToolName,
    /// Fit, from 0 to 1; greater is better.
    pub score: f64,
    /// Words of the task that the tool has, and where; closeness in meaning; similar tasks for which it was used
    /// before.
    pub reason: String,
    /// Verdict of the rules on the tool.
    pub guard: GuardVerdict,
    /// Claims of the tool's server about it.
    pub annotations: ToolAnnotations,
}

/// A tool that may not be offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExcludedTool {
    /// Name of the tool.
    pub tool: ToolName,
    /// Reason in words.
    pub reason: String,
}

/// Tools that fit a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ToolChoice {
    /// Tools that may be offered, best first: as many as `limit` says, and those of `always_include`.
    pub ranked: Vec<RankedTool>,
    /// Probability that the first tool is the right one, from 0 to 1. Below about 0.4, offer all that is allowed.
    #[serde(default)]
    pub confidence: f64,
    /// All tools that may be offered now, fitting or not; null in the record of a turn, which does not keep them.
    #[serde(default)]
    pub allowed: Option<Vec<ToolName>>,
    /// All tools that may not be offered now; fifty of them in the record of a turn.
    pub excluded: Vec<ExcludedTool>,
}

impl ToolChoice {
    /// Returns a warning about names in `always_include` that no tool has.
    pub(super) fn unknown(&self, always: &[ToolName]) -> Option<String> {
        let excluded = self.excluded.iter().map(|one| &one.tool);
        let known: HashSet<String> = self.allowed.iter().flatten().chain(excluded).map(ToolName::joined).collect();
        let unknown: Vec<String> =
            always.iter().filter(|name| !known.contains(&name.joined())).map(ToString::to_string).collect();
        let words = "always_include has names that match no tool: write `server.tool`";
        (!unknown.is_empty()).then(|| format!("{words}: {}", unknown.join(", ")))
    }

    /// Returns the part that the record of a turn keeps: the lists that grow with all tools are left out or cut.
    pub(super) fn kept(&self) -> Self {
        let excluded = self.excluded.iter().take(MOST_KEPT).cloned().collect();
        Self { ranked: self.ranked.clone(), confidence: self.confidence, allowed: None, excluded }
    }
}

/// Answer to a request for tools alone.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Selection {
    /// Tools that fit the task.
    #[serde(flatten)]
    pub choice: ToolChoice,
    /// Version of all rules in force, by their text.
    pub policy_version: String,
    /// True if part of the answer is missing.
    pub degraded: bool,
    /// Missing parts, and other remarks.
    pub warnings: Vec<String>,
}

/// Returns tools as they are kept: without hidden characters and credentials, with their effects.
pub(super) fn shown(definitions: &[ToolDefinition], tools: &Tools) -> Vec<ShownTool> {
    let shown = |definition: &ToolDefinition| {
        let description = cleaned(definition.description.as_deref().unwrap_or_default());
        let parameters = Parameter::all_of(&definition.input_schema);
        ShownTool {
            effect: tools.effect_as_known(&definition.name, &description, None),
            name: definition.name.clone(),
            description,
            parameters: parameters.into_iter().map(|one| (cleaned(&one.name), cleaned(&one.description))).collect(),
            annotations: definition.annotations,
        }
    };
    definitions.iter().map(shown).collect()
}

/// Returns a tool as the index takes it.
pub(super) fn listed(tool: ShownTool) -> Tool {
    Tool {
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters.into_iter().map(|(name, description)| Parameter { name, description }).collect(),
        effect: tool.effect,
        annotations: tool.annotations,
    }
}

/// Returns the usable definitions, and a warning for each other one: a malformed tool of one server must not cost an
/// agent its sidecar.
pub(super) fn usable(definitions: &[ToolDefinition]) -> (Vec<ToolDefinition>, Vec<String>) {
    let (mut usable, mut left_out) = (Vec::with_capacity(definitions.len()), Vec::new());
    for (at, definition) in definitions.iter().enumerate() {
        let ToolName { server, name } = &definition.name;
        let why = |name: &String| match name.len() {
            0 => Some("the tool has no name"),
            1..=NAME_BYTES => plain_tool_name(name).err(),
            _ => Some("the name of the tool or of its server has more than 256 bytes"),
        };
        match std::iter::once(name).chain(server).find_map(why) {
            None => usable.push(definition.clone()),
            Some(why) => left_out.push(format!("tools/{at} is not offered: {why}")),
        }
    }
    (usable, left_out)
}

impl Sidecar {
    /// Chooses the tools that fit a task and may be offered.
    pub(super) fn choose(
        &self,
        catalogue: &Catalogue,
        (task, closeness): (&str, Option<&[f64]>),
        (limit, always): (Option<usize>, &[ToolName]),
        context: AgentContext<'_>,
    ) -> ToolChoice {
        let limit = limit.unwrap_or(RANKED);
        let (rules, memory, task) = (self.rules.load(), self.known.memory(context.agent), Task::of(task));
        let limits = &rules.limits;
        let request = SelectionRequest { task: &task, closeness, memory: &memory, limits, context, limit, always };
        let found = catalogue.select(&request);
        let ranked = found.ranked.into_iter().map(|one| RankedTool {
            tool: one.tool.clone(),
            score: one.score,
            reason: one.reason,
            guard: one.guard,
            annotations: one.annotations,
        });
        let excluded =
            found.excluded.into_iter().map(|one| ExcludedTool { tool: one.tool.clone(), reason: one.reason });
        let allowed = found.allowed.into_iter().cloned();
        ToolChoice {
            ranked: ranked.collect(),
            confidence: found.confidence,
            allowed: Some(allowed.collect()),
            excluded: excluded.collect(),
        }
    }

    /// Returns the index of a session's tools; `None` if the session is unknown or has none, or they are not available
    /// in time.
    pub(super) async fn catalogue(
        &self,
        session: Option<&Session>,
        patience: &mut RequestDeadline<'_>,
    ) -> Option<Arc<Catalogue>> {
        let digest = session?.tools_digest.as_deref()?;
        if let Some(made) = self.catalogue_made(digest) {
            return Some(made);
        }
        let body = patience.ask("tools are not ranked", self.store.sessions().session_tools(digest)).await??;
        let tools: Vec<ShownTool> = serde_json::from_str(&body).ok()?;
        let catalogue =
            tokio::task::block_in_place(|| Arc::new(Catalogue::of(tools.into_iter().map(listed).collect())));
        self.keep_catalogue(digest, &catalogue);
        Some(catalogue)
    }

    /// Selects the tools that fit: of a session, or of those in the request.
    ///
    /// # Errors
    /// There is no such session, or it is closed.
    pub async fn select(
        &self,
        asked: Instant,
        request: SelectRequest,
        may: AgentFilter<'_>,
    ) -> Result<Selection, StepError> {
        let mut patience = self.patience(asked, request.deadline_ms);
        let mut session = None;
        if let Some(id) = request.session
            && let Some(found) = patience.ask("the session could not be read", self.store.sessions().get(id)).await
        {
            let (found, _) = found.filter(|(found, _)| may(&found.agent)).ok_or(StepError::Unknown)?;
            if found.state == SessionState::Closed {
                return Err(StepError::Closed);
            }
            session = Some(found);
        }
        let (usable, left_out) = request.tools.as_deref().map(usable).unwrap_or_default();
        for warning in left_out {
            patience.warn(warning);
        }
        let catalogue = match &request.tools {
            Some(_) => Some(tokio::task::block_in_place(|| {
                let shown = shown(&usable, &self.boundary.rules.load().tools);
                Arc::new(Catalogue::of(shown.into_iter().map(listed).collect()))
            })),
            None => self.catalogue(session.as_ref(), &mut patience).await,
        };
        let task = request.query.as_deref().map(cleaned);
        let task = task.or_else(|| session.as_ref().and_then(|session| session.task.clone())).unwrap_or_default();
        if task.trim().is_empty() {
            patience.warn("no task is given: send `query`, or give the session a `task`".to_owned());
        }
        let agent = request.agent.as_deref().map(|agent| self.boundary.name_of(agent));
        let id = session.as_ref().map(|session| session.id.to_string());
        let (route, modes) = (request.route.as_deref().map(cleaned), request.modes.clone());
        let context = match &session {
            Some(session) => AgentContext {
                agent: &session.agent,
                route: route.as_deref().or(session.route.as_deref()),
                modes: modes.as_deref().unwrap_or(&session.modes),
                taints: &session.taints,
                session: id.as_deref(),
            },
            None => AgentContext {
                agent: agent.as_deref().unwrap_or_default(),
                route: route.as_deref(),
                modes: modes.as_deref().unwrap_or_default(),
                ..AgentContext::default()
            },
        };
        let wanted = (request.limit, request.always_include.as_slice());
        let choice = match &catalogue {
            Some(catalogue) => {
                self.embed(&task, Some(catalogue), &patience).await;
                let closeness = self.closeness(catalogue, &task, &mut patience);
                Some(self.choose(catalogue, (&task, closeness.as_deref()), wanted, context))
            }
            None => None,
        };
        if let Some(warning) = choice.as_ref().and_then(|choice| choice.unknown(wanted.1)) {
            patience.warn(warning);
        }
        let choice = choice.unwrap_or_default();
        let (degraded, warnings) = patience.end();
        Ok(Selection { choice, policy_version: self.policy_version(), degraded, warnings })
    }
}
