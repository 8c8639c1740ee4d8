//! `/v1/contracts`: contracts in force and their state, faults of a tools file, and contracts inferred from recorded
//! calls. `umbra contracts` does the same with files.

use std::sync::Arc;

use axum::{Json, extract::Request};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

use crate::api::{
    Api, JsonAnswer,
    auth::Caller,
    body::{Media, expect_media, from_json},
    params::{Params, PathPart, expect_note},
    problem::Problem,
};
use umbra_boundary::{
    contract::{CompiledContract, faults},
    drift::{StaleContract, contract::recorded},
    stub::recordings::{Inferred, Recordings},
};
use umbra_config::{
    Fault,
    tools::{self, ToolsFileValidators},
};
use umbra_domain::{Effect, contract::OnUnavailable};
use umbra_policy::check_condition;

/// Largest tools file, in bytes.
const MAX_YAML_BYTES: usize = 1024 * 1024;
/// Most recorded results that are read from the audit.
const MOST_RECORDED: i64 = 200;

/// A contract in force.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Contract)]
#[expect(clippy::struct_excessive_bools, reason = "what a contract has, for JSON")]
pub struct ContractView {
    /// `tool@version`, as decisions and the audit have it.
    #[schema(example = "stripe.process_refund@2")]
    pub contract: String,
    /// Name of the tool, or a glob of names.
    pub tool: String,
    /// Version of the contract.
    pub version: u32,
    /// Effect of a call of the tool.
    pub effect: Effect,
    /// File that the contract was read from.
    pub source: Option<String>,
    /// True if the contract has a schema of the arguments.
    pub input_schema: bool,
    /// True if the contract has a schema of the result.
    pub output_schema: bool,
    /// Number of responses.
    pub responses: usize,
    /// True if a stub can answer: the contract has a response, an output schema or an example.
    pub answers: bool,
    /// Number of faults that a run may ask for.
    pub faults: usize,
    /// True if simulated writes of a run can be read back.
    pub overlay: bool,
    /// Labels that a call adds to its session.
    pub taints: Vec<String>,
    /// Treatment of a live call when no decision can be stored: `block` or `allow`.
    #[schema(value_type = String)]
    pub on_unavailable: &'static str,
    /// Effect of the arguments on a tool that reads: `looked_at` if they can raise it, `trusted` if not.
    #[schema(value_type = String)]
    pub arguments: &'static str,
    /// Place where the real tool can be tried.
    pub sandbox: Option<String>,
    /// Set while the contract is stale. Its stubs still answer, and each says so in `explain`.
    pub stale: Option<StaleContract>,
    /// Comparison with live results; null until the first, a second after the contract came into force.
    pub live: Option<LiveView>,
}

/// Comparison of a contract with live results.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ContractLive)]
pub struct LiveView {
    /// Time since which this version is in force.
    pub since: Timestamp,
    /// Number of results that were compared with the contract.
    pub results: i64,
    /// Number of latest results in a row that did not fit.
    pub misfits: i64,
    /// Last misfit: its place, and what was expected there.
    pub misfit: Option<String>,
    /// Time of the last reported result.
    pub last_at: Option<Timestamp>,
    /// Time of the last reported result that fitted.
    pub fit_at: Option<Timestamp>,
    /// Time at which a person last confirmed the contract.
    pub confirmed_at: Option<Timestamp>,
}

/// All contracts in force.
#[derive(Debug, Serialize, ToSchema)]
pub struct ContractList {
    /// In the order of the file.
    pub items: Vec<ContractView>,
}

async fn views(api: &Api) -> Result<Vec<ContractView>, Problem> {
    let rules = api.flows.boundary.rules.load_full();
    let store = &api.flows.boundary.store;
    let states = store.contracts().states().await?;
    let stale = rules.tools.stale(&states, store.now().await?);
    let view = |compiled: &Arc<CompiledContract>| {
        let (contract, id) = (compiled.contract(), compiled.id());
        let learned = states.iter().find(|state| state.tool == contract.tool && state.version == contract.version);
        ContractView {
            tool: contract.tool.clone(),
            version: contract.version,
            effect: contract.effect,
            source: rules.file.clone(),
            input_schema: contract.input_schema.is_some(),
            output_schema: contract.output_schema.is_some(),
            responses: contract.responses.len(),
            answers: compiled.answers(),
            faults: contract.faults.len(),
            overlay: contract.overlay.is_some(),
            taints: contract.taints.clone(),
            on_unavailable: OnUnavailable::as_str(contract.on_unavailable),
            arguments: contract.arguments.as_str(),
            sandbox: contract.sandbox.clone(),
            stale: stale.iter().find(|stale| stale.contract == id).cloned(),
            live: learned.map(|state| LiveView {
                since: state.since,
                results: state.results,
                misfits: state.misfits,
                misfit: state.misfit.clone(),
                last_at: state.last_at,
                fit_at: state.fit_at,
                confirmed_at: state.confirmed_at,
            }),
            contract: id.to_owned(),
        }
    };
    Ok(rules.tools.contracts().all().map(view).collect())
}

/// Lists the contracts in force, with their promises and whether live results still fit them.
#[utoipa::path(get, path = "/v1/contracts", tag = "boundary",
    responses((status = 200, description = "The contracts", body = ContractList)))]
pub async fn list_contracts(api: Api, params: Params) -> JsonAnswer<ContractList> {
    params.finish()?;
    Ok(Json(ContractList { items: views(&api).await? }))
}

/// Faults and warnings of a tools file.
#[derive(Debug, Serialize, ToSchema)]
pub struct Lint {
    /// Number of contracts that were read; 0 where there are faults.
    pub contracts: usize,
    /// Faults to correct, each with line and column; none in a usable file.
    pub faults: Vec<Fault>,
    /// Warnings, which do not keep the file from being used.
    pub warnings: Vec<Fault>,
}

/// Checks a tools file, as `umbra contracts lint` does. Each contract is compiled, each stub rendered and checked
/// against its schema. The body is the file, at most 1 MiB; it cannot name OpenAPI files. Nothing is put in force.
#[utoipa::path(post, path = "/v1/contracts/lint", tag = "boundary",
    request_body(content = String, content_type = "application/yaml", description = "The tools file, as YAML (or JSON, which is YAML too)"),
    responses((status = 200, description = "The faults of the file; none if it is valid", body = Lint)))]
pub async fn post_lint(api: Api, request: Request) -> JsonAnswer<Lint> {
    expect_media(request.headers(), &[Media::Yaml, Media::Json])?;
    let body = api.bodies.read(request).await?;
    if body.len() > MAX_YAML_BYTES {
        return Err(Problem::body_too_large(
            "a tools file may have 1 MiB at most in a request; `umbra contracts lint` takes larger files",
        ));
    }
    let Ok(text) = String::from_utf8(body.to_vec()) else {
        return Err(Problem::invalid_request("the body is not UTF-8: save the file as UTF-8"));
    };
    let linted = spawn_blocking(move || {
        match tools::load("body", &text, ToolsFileValidators { contract: &faults, condition: &check_condition }) {
            Ok(loaded) => {
                Lint { contracts: loaded.value.contracts.len(), faults: Vec::new(), warnings: loaded.warnings }
            }
            Err(report) => Lint { contracts: 0, faults: report.faults, warnings: report.warnings },
        }
    });
    Ok(Json(linted.await.map_err(Problem::internal)?))
}

/// Selection of recorded calls in the audit, to infer contracts from.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InferRequest {
    /// Agent whose calls are read; of any agent unless given.
    pub agent: Option<String>,
    /// Tool whose calls are read, as `server.name`.
    pub tool: String,
    /// Effect of the tool; derived from its name unless given.
    pub effect: Option<Effect>,
}

/// Contracts inferred from recorded calls.
#[derive(Debug, Serialize, ToSchema)]
pub struct InferredContracts {
    /// The contracts as a tools file.
    pub yaml: String,
    /// Number of contracts in the file.
    pub contracts: usize,
    /// Tools with too few usable calls.
    pub left_out: Vec<LeftOut>,
}

/// A tool for which no contract can be inferred.
#[derive(Debug, Serialize, ToSchema)]
pub struct LeftOut {
    /// Name of the tool.
    pub tool: String,
    /// Reason.
    pub why: String,
}

/// Infers contracts from recorded calls, as `umbra contracts infer` does: from at least five of a tool. The calls come
/// from the audit (JSON body: `tool`, and `agent` unless calls of any agent count) or from the body: lines of `{"tool",
/// "args", "result"}`, oldest first.
#[utoipa::path(post, path = "/v1/contracts/infer", tag = "boundary",
    params(("effect" = Option<String>, Query,
        description = "Effect of the recorded tools: read, write or destructive; derived from each name unless given")),
    request_body(content((InferRequest = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 200, description = "The contracts that could be inferred", body = InferredContracts)))]
pub async fn post_infer(api: Api, mut params: Params, request: Request) -> JsonAnswer<InferredContracts> {
    let effect = params.parsed("effect", "read, write or destructive", Effect::parse);
    params.finish()?;
    let media = expect_media(request.headers(), &[Media::Json, Media::Ndjson])?;
    let body = api.bodies.read(request).await?;
    let mut recordings = Recordings::default();
    let effect = if media == Media::Json {
        let asked: InferRequest = from_json(&body)?;
        for (pointer, name) in [("/agent", asked.agent.as_ref()), ("/tool", Some(&asked.tool))] {
            let Some(name) = name else { continue };
            if name.is_empty() || name.contains('\0') {
                let problem = Problem::invalid_request("the request has an invalid name");
                return Err(problem.at(pointer, "bad_text", "a name, without U+0000"));
            }
        }
        let store = &api.flows.boundary.store;
        for call in store.contracts().recorded_calls(asked.agent.as_deref(), &asked.tool, MOST_RECORDED).await? {
            if let Some(call) = recorded(&call.decision, &call.outcome, 0) {
                recordings.add(asked.tool.clone(), call);
            }
        }
        asked.effect.or(effect)
    } else {
        for (number, line) in body.split(|byte| *byte == b'\n').enumerate() {
            recordings.take(line).map_err(|bad| {
                let detail = format!("line {}, column {}: {bad}", number + 1, bad.column);
                Problem::invalid_request("the body has lines that are not recorded calls; errors lists them")
                    .at("", "bad_line", detail)
            })?;
        }
        effect
    };
    let inferred = spawn_blocking(move || recordings.infer(effect));
    let Inferred { contracts, left_out } = inferred.await.map_err(Problem::internal)?;
    Ok(Json(InferredContracts {
        yaml: tools::write(&contracts),
        contracts: contracts.len(),
        left_out: left_out.into_iter().map(|(tool, why)| LeftOut { tool, why }).collect(),
    }))
}

/// A person's confirmation that a contract holds.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfirmRequest {
    /// Reason, kept in the audit.
    #[schema(min_length = 1, max_length = 2000)]
    pub reason: String,
}

/// Confirms that a contract in force holds, whatever live results have shown. The contract is no longer stale, and is
/// compared with results from now on. If the tool has changed, write a new version instead.
#[utoipa::path(post, path = "/v1/contracts/{contract}/confirm", tag = "boundary", request_body = ConfirmRequest,
    params(("contract" = String, Path, description = "`tool@version`, as GET /v1/contracts lists it")),
    responses((status = 200, description = "The contract after the change", body = ContractView)))]
pub async fn post_confirm(
    api: Api,
    caller: Caller,
    PathPart(contract): PathPart,
    request: Request,
) -> JsonAnswer<ContractView> {
    let ConfirmRequest { reason } = api.bodies.read_json(request).await?;
    expect_note("/reason", &reason)?;
    let missing = || Problem::not_found("contract not in force; GET /v1/contracts lists the contracts in force");
    let rules = api.flows.boundary.rules.load_full();
    let found = rules.tools.contracts().all().find(|one| one.id() == contract).ok_or_else(missing)?;
    api.flows.boundary.confirm_contract(found.contract(), &reason, caller.key()).await?;
    views(&api).await?.into_iter().find(|view| view.contract == contract).map(Json).ok_or_else(missing)
}
