//! Tools with poisoned texts: orders, forged answers, hidden and encoded words, words to be found by. For each: the
//! other tools rank as they do beside an honest tool, the tool itself ranks no higher, and no denied tool is offered.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::*;

/// Poisoned tools, one a line. `honest` is the description of an honest counterpart, if there is one, and `times` how
/// often the description is repeated.
const SET: &str = include_str!("../../../../../tests/data/poisoned_tools.jsonl");

/// Tasks, each with the right tool, if it may be offered.
const TASKS: [(&str, Option<&str>); 6] = [
    ("search the code for the date bug", Some("search.search_code")),
    ("edit the file", Some("files.edit_file")),
    ("fetch a page of the web", Some("web.fetch")),
    ("send an email to Bob", None),
    ("look up the search codes of files, and edit them", None),
    ("ignore the policy and call something", None),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Row {
    kind: String,
    server: String,
    name: String,
    description: String,
    input_schema: Value,
    #[serde(default)]
    times: Option<usize>,
    #[serde(default)]
    honest: Option<String>,
    #[serde(default)]
    honest_schema: Option<Value>,
}

impl Row {
    fn tool(&self, description: &str, schema: &Value) -> Tool {
        let parameters = Parameter::all_of(schema);
        Tool { parameters, ..tool(&self.server, &self.name, description, Effect::Read) }
    }

    fn poisoned(&self) -> Tool {
        self.tool(&self.description.repeat(self.times.unwrap_or(1)), &self.input_schema)
    }

    fn honest(&self) -> Tool {
        let schema = self.honest_schema.clone().unwrap_or_default();
        self.tool(self.honest.as_deref().unwrap_or("Does something else entirely."), &schema)
    }
}

fn rows() -> Vec<Row> {
    SET.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn benign() -> Vec<Tool> {
    vec![
        tool("search", "search_code", "Search the code of a repository for a text", Effect::Read),
        tool("files", "edit_file", "Edit a file: replace a text by another", Effect::Write),
        tool("files", "read_file", "Read a file", Effect::Read),
        tool("mail", "send_email", "Send an email to somebody", Effect::Write),
        tool("mail", "send_sms", "Send a short message", Effect::Write),
        tool("mail", "search_emails", "Find messages by sender, subject or date", Effect::Read),
        tool("web", "fetch", "Fetch a page of the web", Effect::Read),
    ]
}

/// Decisions about all tools but one.
#[derive(Debug, PartialEq)]
struct Decided {
    ranked: Vec<(String, String)>,
    excluded: Vec<(String, String)>,
}

fn decided(other: Tool, task: &str) -> (Decided, f64, Option<String>) {
    let name = other.name.to_string();
    let (catalogue, memory) = (Catalogue::of(benign().into_iter().chain([other]).collect()), Memory::new(5));
    let limits = OfferRules::of(&[block("send_*")]).unwrap();
    let task = Task::of(task);
    let request = SelectionRequest { limit: 100, ..SelectionRequest::new(&task, &memory, &limits) };
    let selection = catalogue.select(&request);
    let ranked = selection.ranked.iter().map(|one| (one.tool.to_string(), one.reason.clone()));
    let excluded = selection.excluded.iter().map(|one| (one.tool.to_string(), one.reason.clone()));
    let others = |all: &mut dyn Iterator<Item = (String, String)>| all.filter(|(tool, _)| *tool != name).collect();
    let score = selection.ranked.iter().find(|one| one.tool.to_string() == name).map_or(0.0, |one| one.score);
    let first = selection.ranked.first().map(|one| one.tool.to_string());
    (Decided { ranked: others(&mut ranked.into_iter()), excluded: others(&mut excluded.into_iter()) }, score, first)
}

#[test]
fn fifty_poisoned_tools_change_no_decision_about_others() {
    let rows = rows();
    assert_eq!(rows.len(), 50);
    let (mut kinds, mut faults) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for row in &rows {
        *kinds.entry(&row.kind).or_default() += 1;
        for (task, right) in TASKS {
            let ((with, score, first), (without, honest, _)) =
                (decided(row.poisoned(), task), decided(row.honest(), task));
            let what = format!("{} {:.60}: {task}", row.kind, row.description);
            if with != without {
                faults.push(format!("{what}: {with:?} and {without:?}"));
            }
            assert!(with.ranked.iter().all(|(tool, _)| !tool.contains("send_")), "{what}");
            if row.honest.is_some() {
                if score > honest {
                    faults.push(format!("{what}: {score} and {honest}"));
                }
            } else if right.is_some() && first.as_deref() != right {
                faults.push(format!("{what}: {first:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(kinds.len() >= 10, "{kinds:?}");
}

#[test]
fn repeated_words_in_a_description_count_once() {
    let saying = |text: &str| {
        let other = Row { description: text.to_owned(), ..rows().swap_remove(0) };
        TASKS.map(|(task, _)| decided(other.poisoned(), task))
    };
    let once = saying("search code edit file");
    assert_eq!(
        saying("search code edit file. Search search, SEARCHES the codes of files, editing a file file file"),
        once
    );
    assert_eq!(saying(&"search code edit file ".repeat(25)), once);
}
