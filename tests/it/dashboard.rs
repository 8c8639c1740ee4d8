//! The web page: complete, from this server alone, and without data for visitors without a key.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Umbra, server::Answered};

/// Returns the files that a file of the page loads: the values of `href` and `src`, and the imports of a script at
/// `path`.
fn loaded(path: &str, text: &str) -> Vec<String> {
    let quoted = |beginning: &str| {
        let parts = text.split(beginning).skip(1).filter_map(|rest| rest.split('"').next());
        parts.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let imported = quoted("from \"").into_iter().filter_map(|name| match name.strip_prefix("../") {
        Some(above) => Some(format!("{}/{above}", folder.rsplit_once('/')?.0)),
        None => Some(format!("{folder}/{}", name.strip_prefix("./")?)),
    });
    let linked = quoted("href=\"").into_iter().chain(quoted("src=\"")).filter(|path| path.starts_with('/'));
    imported.chain(linked.filter(|path| !path.starts_with("/docs"))).collect()
}

/// Returns every file of the page by its path, as it is served.
async fn files(umbra: &Umbra) -> BTreeMap<String, Answered> {
    let mut files = BTreeMap::new();
    let mut wanted = vec!["/".to_owned()];
    while let Some(path) = wanted.pop() {
        if files.contains_key(&path) {
            continue;
        }
        let file = umbra.send(Method::GET, &path, &[], None).await;
        assert_eq!(file.status, 200, "{path}");
        wanted.extend(loaded(&path, &file.text));
        files.insert(path, file);
    }
    files
}

/// Returns the words of a text that have an underscore within: names of the API, since the scripts' own are in camel
/// case.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_name =
        |word: &&str| word.bytes().any(|b| b.is_ascii_lowercase()) && !word.bytes().any(|b| b.is_ascii_uppercase());
    words.filter(|word| word.trim_matches('_') == *word && word.contains('_')).filter(is_name).collect()
}

/// The scripts without their comments.
fn code(files: &BTreeMap<String, Answered>) -> String {
    let scripts = files.iter().filter(|(path, _)| path.rsplit('.').next() == Some("js"));
    let lines = scripts.flat_map(|(_, file)| file.text.lines());
    let is_comment = |line: &&str| ["//", "/*", "*"].iter().any(|mark| line.trim_start().starts_with(mark));
    lines.filter(|line| !is_comment(line)).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn page_is_self_contained_and_builds_no_markup_from_text() {
    let umbra = Umbra::with().go().await;
    let files = files(&umbra).await;
    assert_eq!(files.len(), 19, "the page, its style and its scripts: {:?}", files.keys());
    for (path, file) in &files {
        let kind = match path.rsplit_once('.') {
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!(file.headers["content-type"], kind, "{path}");
        assert_eq!(file.headers["cache-control"], "no-cache", "{path}");
        let policy = file.headers["content-security-policy"].to_str().unwrap_or_default();
        assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
        let elsewhere = file.text.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"), "{path}: nothing from elsewhere");
        for markup in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", "onclick="]
        {
            assert!(!file.text.contains(markup), "{path}: what agents wrote never becomes markup: {markup}");
        }
    }
}

#[tokio::test]
async fn page_uses_only_names_and_paths_of_the_openapi_document() {
    let umbra = Umbra::with().go().await;
    let files = files(&umbra).await;
    let contract = umbra.send(Method::GET, "/openapi.json", &[], None).await.text;
    let (code, known) = (code(&files), names(&contract));
    let strangers: Vec<&str> = names(&code).difference(&known).copied().collect();
    assert!(strangers.is_empty(), "no such name in the contract: {strangers:?}");

    let contract: Value = serde_json::from_str(&contract).expect("JSON");
    let paths: Vec<&String> = contract["paths"].as_object().expect("paths").keys().collect();
    let asked = code.split(['"', '`']).filter(|text| text.starts_with("/v1/"));
    for asked in asked {
        // A template's expression replaces a parameter.
        let bare = asked.split('?').next().unwrap_or_default();
        let is_same = |path: &&&String| {
            let (mut theirs, mut ours) = (path.split('/'), bare.split('/'));
            theirs.by_ref().zip(ours.by_ref()).all(|(own, given)| own == given || given.starts_with("${"))
                && path.matches('/').count() == bare.matches('/').count()
        };
        assert!(paths.iter().any(|path| is_same(&path)), "the contract has no path like {asked}");
    }
    assert!(code.matches("\"/v1/").count() + code.matches("`/v1/").count() > 15, "the page asks for much more");

    // New choices of the API are offered, new reasons are explained.
    let choices = [
        ("Severity", ""),
        ("FindingCategory", ""),
        ("FindingStatus", ""),
        ("Mode", ""),
        ("Assessment", ""),
        ("ReviewState", ""),
        ("SkipReason", ":"),
    ];
    for (schema, after) in choices {
        for word in contract["components"]["schemas"][schema]["enum"].as_array().expect("an enum") {
            let word = word.as_str().expect("a word");
            let is_there = if after.is_empty() {
                code.contains(&format!("\"{word}\""))
            } else {
                code.contains(&format!("{word}{after} "))
            };
            assert!(is_there, "{schema}: the page does not know {word}");
        }
    }
}

#[tokio::test]
async fn server_with_keys_serves_the_page_without_data() {
    let umbra = Umbra::with().go().await;
    let made = umbra.cli(&["keys", "create", "--name", "admin", "--scope", "admin,read"], None);
    assert!(made.status.success());
    crate::support::until("the key to count", async || {
        (umbra.send(Method::GET, "/v1/status", &[], None).await.status == 401).then_some(())
    })
    .await;
    assert_eq!(umbra.send(Method::GET, "/", &[], None).await.status, 200);
    assert_eq!(umbra.send(Method::GET, "/dashboard/app.js", &[], None).await.status, 200);
}

#[tokio::test]
async fn watch_rules_are_shown_in_the_units_of_the_shadows_file() {
    let shadows = "
shadow_agents:
  - name: dear
    model: checks
    mode: review
    watch: [{agent: 'writer-*', triggers: [task_complete], min_cost: 0.25, except: [writer-test]}]
";
    let umbra = Umbra::with().shadows(shadows).go().await;
    let rule = &umbra.get("/v1/shadows/dear").await["watch"][0];
    assert_eq!(
        *rule,
        json!({"agent": "writer-*", "triggers": ["task_complete"], "all": false, "task_type": null, "min_cost": 0.25,
            "metadata": {}, "except": ["writer-test"]})
    );
    crate::support::until("failures to write files to be told as 0", async || {
        let metrics = umbra.send(Method::GET, "/metrics", &[], None).await.text;
        metrics.contains("\numbra_artifact_failures_total 0\n").then_some(())
    })
    .await;
}
