//! The web page: whole, from this server alone, and without data for who has no key.

use std::collections::BTreeMap;

use reqwest::Method;

use crate::support::Umbra;

/// The values of `href` and `src`, and what scripts import.
fn loaded(text: &str) -> Vec<String> {
    let beginnings = ["href=\"", "src=\"", "from \"./"];
    let found = beginnings.iter().flat_map(|beginning| {
        text.split(beginning)
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .map(|path| if beginning.starts_with("from") { format!("/dashboard/{path}") } else { path.to_owned() })
    });
    found.filter(|path| path.starts_with('/') && !path.starts_with("/docs")).collect()
}

#[tokio::test]
async fn the_page_brings_everything_with_it() {
    let umbra = Umbra::with().go().await;
    let page = umbra.send(Method::GET, "/", &[], None).await;
    assert_eq!(
        (page.status.as_u16(), &page.headers["content-type"]),
        (200, &"text/html; charset=utf-8".parse().expect("a value"))
    );
    let mut wanted = loaded(&page.text);
    let mut files = BTreeMap::from([("/".to_owned(), page.text)]);
    while let Some(path) = wanted.pop() {
        if files.contains_key(&path) {
            continue;
        }
        let file = umbra.send(Method::GET, &path, &[], None).await;
        assert_eq!(file.status, 200, "{path}");
        let policy = file.headers["content-security-policy"].to_str().unwrap_or_default();
        assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
        wanted.extend(loaded(&file.text));
        files.insert(path, file.text);
    }
    assert_eq!(files.len(), 5, "the page, its style and three scripts: {:?}", files.keys());
    for text in files.values() {
        let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"), "nothing from elsewhere");
        for markup in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!text.contains(markup), "what agents wrote never becomes markup: {markup}");
        }
    }
}

#[tokio::test]
async fn a_server_with_keys_serves_the_page_and_keeps_its_data() {
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
