//! `umbra bench tools`: measures how well the sidecar finds the tool for a task.
//!
//! The input is tools, and tasks with the tools that serve them. With `--memory K` there are further tasks, of which
//! the first K of each tool, in the order of their file, are remembered as successes. The result is how often a right
//! tool is among the first, and the time of a selection.
//!
//! A remembered task that is nearly the same as the query (or is the same row) would give its tool away: it is left out
//! for that one selection. Tasks are nearly the same if they share four fifths of their words.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, anyhow};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    super::{CommandFailure, GlobalOptions, answer, answer_json, table, usage},
    labelled,
};
use umbra_domain::{Effect, ToolAnnotations, ToolName};
use umbra_sidecar::tools::{Catalogue, Memory, OfferRules, Parameter, Ranked, SelectionRequest, Task, Tool, closeness};

/// Share of common words from which two tasks are nearly the same.
const NEARLY_THE_SAME: f64 = 0.8;
/// Number of tools that are ranked for a task.
const DEPTH: usize = 10;
/// Texts of one request to the embedding model.
const BATCH: usize = 16;

/// Columns of the table: heading, figure, and digits behind the point.
const FIGURES: [(&str, &str, usize); 13] = [
    ("queries", "n", 0),
    ("tools", "tools", 0),
    ("remembered", "remembered", 0),
    ("hit@1", "hit@1", 3),
    ("hit@3", "hit@3", 3),
    ("hit@5", "hit@5", 3),
    ("hit@10", "hit@10", 3),
    ("MRR", "mrr", 3),
    ("nDCG@10", "ndcg@10", 3),
    ("confidence", "confidence", 3),
    ("error", "calibration_error", 3),
    ("µs", "us_per_query", 0),
    ("p99", "p99_us", 0),
];

/// Tools and tasks to measure on.
#[derive(Debug, Args)]
pub(in crate::cli) struct ToolsBenchOptions {
    /// Tools: a JSON object `{id, name, description, parameters}` each line, where `parameters` is a JSON Schema or
    /// descriptions by name; or one object of descriptions by name.
    #[arg(long, value_name = "FILE")]
    tools: PathBuf,
    /// Tasks: `{query, tool}` with a name, or `{query, relevant}` with a list of ids, each line.
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Tasks for which tools succeeded before, in the same form. Tasks nearly the same as a query do not count for it.
    #[arg(long, value_name = "FILE", requires = "memory", group = "remembered")]
    examples: Option<PathBuf>,
    /// Split the queries in two, every second line, and measure each half with the other one as examples.
    #[arg(long, requires = "memory", group = "remembered")]
    halves: bool,
    /// Number of tasks that are remembered for each tool: the first in the order of the file.
    #[arg(long, value_name = "K", requires = "remembered")]
    memory: Option<usize>,
    /// Measure similarity by the embedding model of the settings, instead of the built-in word vectors.
    #[arg(long)]
    embedding: bool,
}

/// Tools of a file.
struct ListedTools {
    tools: Vec<Tool>,
    /// Names of tools by id, or by name where the file has no ids.
    by_key: HashMap<String, ToolName>,
}

/// Task with the tools that serve it.
#[derive(Clone)]
struct ToolQuery {
    query: String,
    task: Task,
    tools: Vec<ToolName>,
}

/// Figures of the search for tools.
#[derive(Debug, Serialize)]
struct ToolSearchReport {
    n: usize,
    tools: usize,
    #[serde(rename = "hit@1")]
    hit_at_1: f64,
    #[serde(rename = "hit@3")]
    hit_at_3: f64,
    #[serde(rename = "hit@5")]
    hit_at_5: f64,
    #[serde(rename = "hit@10")]
    hit_at_10: f64,
    mrr: f64,
    #[serde(rename = "ndcg@10")]
    ndcg_at_10: f64,
    /// Mean confidence of the selections.
    confidence: f64,
    /// Expected calibration error: the mean difference between confidence and hit@1, over ten bands of confidence.
    calibration_error: f64,
    /// Median time of a selection, in microseconds.
    us_per_query: f64,
    p99_us: f64,
    /// Number of remembered tasks.
    remembered: usize,
    /// Number of queries for which remembered tasks were left out.
    kept_apart: usize,
}

pub(in crate::cli) async fn run(global: &GlobalOptions, options: &ToolsBenchOptions) -> Result<(), CommandFailure> {
    let listed = ListedTools::read(&options.tools)?;
    let queries = listed.wanted(&options.queries)?;
    let most = options.memory.unwrap_or_default();
    let vectors = if options.embedding { Some(vectors(global, &listed, &queries).await?) } else { None };
    if options.halves {
        let half = |second: bool| -> Vec<ToolQuery> {
            queries.iter().enumerate().filter(|(at, _)| (at % 2 == 1) == second).map(|(_, one)| one.clone()).collect()
        };
        let of = |asked: bool| {
            ToolSearchReport::of(
                listed.tools.clone(),
                &half(asked),
                &first_of_each(half(!asked), most),
                vectors.as_ref(),
            )
        };
        let halves = [of(false)?, of(true)?];
        if global.json {
            return answer_json(&serde_json::json!({"halves": halves}));
        }
        return Ok(ToolSearchReport::show(&halves)?);
    }
    let examples = match &options.examples {
        Some(file) => first_of_each(listed.wanted(file)?, most),
        None => Vec::new(),
    };
    let report = ToolSearchReport::of(listed.tools, &queries, &examples, vectors.as_ref())?;
    if global.json {
        return answer_json(&report);
    }
    Ok(ToolSearchReport::show(&[report])?)
}

/// Computes vectors of all tools and tasks, by their texts.
async fn vectors(
    global: &GlobalOptions,
    listed: &ListedTools,
    queries: &[ToolQuery],
) -> Result<HashMap<String, Vec<f32>>, CommandFailure> {
    let gateway = global.setup(None)?.gateway(None)?;
    if gateway.embedding_model().is_none() {
        return usage("--embedding: declare a model with kind: embedding in the settings");
    }
    let catalogue = Catalogue::of(listed.tools.clone());
    let texts = catalogue.summaries().iter().flatten().chain(queries.iter().map(|wanted| &wanted.query));
    let texts: Vec<String> = texts.cloned().collect::<HashSet<_>>().into_iter().collect();
    let mut vectors = HashMap::new();
    for batch in texts.chunks(BATCH) {
        let made = gateway.embed(batch).await.map_err(|failure| anyhow!("the embedding model: {}", failure.message))?;
        vectors.extend(batch.iter().cloned().zip(made));
    }
    Ok(vectors)
}

impl ListedTools {
    fn read(path: &Path) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Line {
            id: Option<Value>,
            #[serde(alias = "tool")]
            name: String,
            #[serde(default)]
            description: String,
            #[serde(default, alias = "input_schema", alias = "inputSchema")]
            parameters: Value,
        }
        let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let lines = match serde_json::from_str::<HashMap<String, String>>(&text) {
            Ok(descriptions) => descriptions
                .into_iter()
                .map(|(name, description)| Line { id: None, name, description, parameters: Value::Null })
                .collect(),
            Err(_) => labelled::lines(path, |_, line: Line| Ok(line))?,
        };
        let (mut named, mut listed) = (HashSet::new(), Self { tools: Vec::new(), by_key: HashMap::new() });
        for Line { id, name, description, parameters } in lines {
            let key = id.map_or_else(|| name.clone(), key);
            let mut name = ToolName::bare(name);
            // A memory would take tools of one name for the same: all but the first get a server of their own, whose
            // name is no word.
            if !named.insert(name.joined()) {
                name.server = Some(no_word(listed.tools.len()));
            }
            listed.by_key.insert(key, name.clone());
            let (parameters, annotations) = (parameters_of(&parameters), ToolAnnotations::default());
            listed.tools.push(Tool { name, description, parameters, effect: Effect::Read, annotations });
        }
        Ok(listed)
    }

    fn wanted(&self, path: &Path) -> anyhow::Result<Vec<ToolQuery>> {
        #[derive(Deserialize)]
        struct Line {
            query: String,
            tool: Option<String>,
            #[serde(default)]
            relevant: Vec<Value>,
        }
        labelled::lines(path, |place, line: Line| {
            let keys = line.tool.into_iter().chain(line.relevant.into_iter().map(key));
            let tools = keys.map(|key| {
                let known = self.by_key.get(&key).cloned();
                known.ok_or_else(|| anyhow!("{place}: tool {} not found", table::plain(&key)))
            });
            let tools = tools.collect::<anyhow::Result<Vec<_>>>()?;
            if tools.is_empty() {
                return Err(anyhow!("{place}: `tool` or `relevant` must name a tool"));
            }
            Ok(ToolQuery { task: Task::of(&line.query), query: line.query, tools })
        })
    }
}

/// Returns the key of a tool as a task names it.
fn key(id: Value) -> String {
    match id {
        Value::String(name) => name,
        other => other.to_string(),
    }
}

/// Writes a number in letters that form no word.
fn no_word(number: usize) -> String {
    std::iter::once('q').chain(number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'q'))).collect()
}

/// Reads parameters from a JSON Schema, or from an object of descriptions.
fn parameters_of(given: &Value) -> Vec<Parameter> {
    let described = given.as_object().into_iter().flatten().filter_map(|(name, description)| {
        Some(Parameter { name: name.clone(), description: description.as_str()?.to_owned() })
    });
    match given.get("properties") {
        Some(Value::Object(_)) => Parameter::all_of(given),
        _ => described.collect(),
    }
}

/// Returns the first tasks of each tool, in their order.
fn first_of_each(all: Vec<ToolQuery>, most: usize) -> Vec<ToolQuery> {
    let mut counts: HashMap<ToolName, usize> = HashMap::new();
    let mut first = Vec::new();
    for ToolQuery { query, task, tools } in all {
        let mut below = |tool: &ToolName| {
            let count = counts.entry(tool.clone()).or_default();
            *count += 1;
            *count <= most
        };
        let tools: Vec<_> = tools.into_iter().filter(|tool| below(tool)).collect();
        if !tools.is_empty() {
            first.push(ToolQuery { query, task, tools });
        }
    }
    first
}

/// Builds a memory of these examples.
fn memory_of<'a>(examples: impl Iterator<Item = &'a ToolQuery>) -> Memory {
    let mut memory = Memory::new(usize::MAX);
    for ToolQuery { task, tools, .. } in examples {
        for tool in tools {
            memory.record(tool, task, true);
        }
    }
    memory
}

impl ToolSearchReport {
    #[expect(clippy::cast_precision_loss, reason = "counts of rows")]
    fn of(
        tools: Vec<Tool>,
        queries: &[ToolQuery],
        examples: &[ToolQuery],
        vectors: Option<&HashMap<String, Vec<f32>>>,
    ) -> anyhow::Result<Self> {
        let (catalogue, limits) = (Catalogue::of(tools), OfferRules::of(&[])?);
        let whole = memory_of(examples.iter());
        let (mut times, mut kept_apart) = (Vec::with_capacity(queries.len()), 0);
        let (mut hits, mut mrr, mut ndcg) = ([0_usize; DEPTH], 0.0, 0.0);
        let (mut confidence, mut bands) = (0.0, [0.0_f64; 10]);
        for ToolQuery { query, task, tools } in queries {
            let near = |example: &&ToolQuery| example.task.likeness(task) >= NEARLY_THE_SAME;
            let apart = examples.iter().any(|example| near(&example));
            kept_apart += usize::from(apart);
            let rest = apart.then(|| memory_of(examples.iter().filter(|example| !near(example))));
            let memory = rest.as_ref().unwrap_or(&whole);
            let started = Instant::now();
            let vector = |text: &String| vectors?.get(text).map(Vec::as_slice);
            let of_tools = || catalogue.summaries().iter().map(|summary| vector(summary.as_ref()?));
            let closeness = vector(query).map(|query| closeness(query, of_tools()));
            let selection = catalogue.select(&SelectionRequest {
                limit: DEPTH,
                closeness: closeness.as_deref(),
                ..SelectionRequest::new(task, memory, &limits)
            });
            times.push(started.elapsed());
            let right = |one: &Ranked<'_>| tools.contains(one.tool);
            let found: Vec<usize> =
                selection.ranked.iter().enumerate().filter(|(_, one)| right(one)).map(|(at, _)| at).collect();
            let first = if found.first() == Some(&0) { 1.0 } else { 0.0 };
            confidence += selection.confidence;
            let band = (1..bands.len()).take_while(|band| *band as f64 / 10.0 <= selection.confidence).count();
            bands[band] += selection.confidence - first;
            let gain = |at: usize| 1.0 / (at as f64 + 2.0).log2();
            if let Some(first) = found.first() {
                hits.iter_mut().skip(*first).for_each(|hits| *hits += 1);
                mrr += 1.0 / (*first as f64 + 1.0);
            }
            let best: f64 = (0..tools.len().min(DEPTH)).map(gain).sum();
            ndcg += found.into_iter().map(gain).sum::<f64>() / best;
        }
        times.sort_unstable();
        let n = queries.len();
        let [hit_at_1, hit_at_3, hit_at_5, hit_at_10] = [1, 3, 5, 10].map(|k| hits[k - 1] as f64 / n as f64);
        let time = |percent: usize| {
            let time = times.get((n - 1) * percent / 100).copied().unwrap_or_default();
            time.as_secs_f64() * 1e6
        };
        Ok(Self {
            n,
            tools: catalogue.len(),
            hit_at_1,
            hit_at_3,
            hit_at_5,
            hit_at_10,
            mrr: mrr / n as f64,
            ndcg_at_10: ndcg / n as f64,
            confidence: confidence / n as f64,
            calibration_error: bands.into_iter().map(f64::abs).sum::<f64>() / n as f64,
            us_per_query: time(50),
            p99_us: time(99),
            remembered: examples.iter().map(|example| example.tools.len()).sum(),
            kept_apart,
        })
    }

    fn show(reports: &[Self]) -> serde_json::Result<()> {
        let mut rows = table::new(&FIGURES.map(|(heading, ..)| heading));
        for report in reports {
            let report = serde_json::to_value(report)?;
            let cell = |name: &str, digits| format!("{:.digits$}", report[name].as_f64().unwrap_or_default());
            rows.add_row(FIGURES.map(|(_, name, digits)| cell(name, digits)));
        }
        answer(&format!("{rows}\n"));
        let kept_apart: usize = reports.iter().map(|report| report.kept_apart).sum();
        if kept_apart > 0 {
            answer(&format!("for {kept_apart} queries, nearly identical remembered tasks were left out\n"));
        }
        Ok(())
    }
}
