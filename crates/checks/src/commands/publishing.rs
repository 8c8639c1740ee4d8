//! Commands that publish: what others install from then on cannot be taken back. In: one call. Out: what it publishes.

use super::Sight;
use umbra_analysis::shell::Call;
use umbra_domain::Severity::Warning;

/// Tool, and the words one of which begins what publishes.
const TOOLS: &[(&str, &[&str])] = &[
    ("npm pnpm yarn bun lerna", &["publish", "npm publish"]),
    ("cargo uv poetry hatch flit pdm jsr deno vsce ovsx dart flutter rye", &["publish", "pub publish"]),
    ("twine", &["upload"]),
    ("gem", &["push"]),
    ("docker podman nerdctl buildah crane oras img", &["push", "image push", "manifest push", "compose push"]),
    ("helm", &["push"]),
    ("skopeo", &["copy"]),
    ("mvn mvnw", &["deploy", "release:perform", "nexus-staging:release"]),
    ("gradle gradlew", &["publish", "publishPlugins", "publishToMavenCentral", "uploadArchives"]),
    ("dotnet", &["nuget push"]),
    ("nuget choco", &["push"]),
    ("pod", &["trunk push"]),
    ("mix", &["hex.publish"]),
    ("rebar3", &["hex publish"]),
    ("anaconda conda", &["upload"]),
    ("goreleaser", &["release"]),
    ("gh glab", &["release create"]),
    ("luarocks", &["upload"]),
    ("cpan-upload", &[]),
    ("stack cabal", &["upload"]),
    ("snapcraft", &["upload", "release"]),
    ("semantic-release", &[]),
];

/// What the call publishes.
pub(super) fn look(call: &Call, sights: &mut Vec<Sight>) {
    let module = call.program.starts_with("python") && call.says("-m") && call.says("twine");
    let program = if module { "twine" } else { call.program.as_str() };
    let Some((_, verbs)) = TOOLS.iter().find(|(names, _)| names.split(' ').any(|name| name == program)) else { return };
    let mut words: Vec<&str> = call.operands().collect();
    words.retain(|word| !module || *word != "twine");
    let publishes = verbs.is_empty()
        || verbs.iter().any(|verb| {
            let parts: Vec<&str> = verb.split(' ').collect();
            let anywhere = program.starts_with("mvn") || program.starts_with("gradle");
            words.starts_with(&parts) || anywhere && words.contains(verb)
        });
    let local = words.iter().any(|word| word.contains("localhost") || word.contains("127.0.0.1"));
    let rehearses = call.says_any(&["--snapshot", "-n", "--skip-publish", "--draft"]);
    if publishes && !local && !rehearses {
        let what = format!("`{}` publishes: whoever installs it gets what was built here.", call.shown());
        sights.push(Sight::new("publishing", Warning, what));
    }
}
