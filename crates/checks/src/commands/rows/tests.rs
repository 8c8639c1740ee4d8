//! Tests of patterns of calls: each sign of their grammar.

use super::{CallPattern, Rows};
use umbra_analysis::shell::{ScriptBudget, calls};
use umbra_domain::CheckRule;

/// True if a pattern describes one of the calls of a script.
fn meets(pattern: &str, script: &str) -> bool {
    let row = CheckRule { id: "own".into(), commands: vec![pattern.into()], ..CheckRule::default() };
    let rows = Rows::new([&row].iter());
    let mut sights = Vec::new();
    let budget = ScriptBudget::of(script.len());
    for call in calls(script, &budget) {
        rows.detect_by_rows(&call, &mut sights);
    }
    assert!(sights.is_empty() || rows.wakes(script), "{pattern} does not wake for {script}");
    !sights.is_empty()
}

#[test]
fn call_patterns_match_by_their_grammar() {
    for (pattern, script, is_met) in [
        ("kubectl delete ns|namespace", "kubectl delete ns prod", true),
        ("kubectl delete ns|namespace", "sudo kubectl -n x delete namespace prod", true),
        ("kubectl delete ns|namespace", "kubectl get ns delete ns", false),
        ("kubectl ... ns", "kubectl get ns", true),
        ("aws ... create-access-key", "aws --profile p iam create-access-key --user-name b", true),
        ("git push -f|--force", "git -C dir push -uf origin main", true),
        ("git push -f|--force", "git push origin main", false),
        ("acmectl deploy --env=prod*", "acmectl deploy --env production", true),
        ("acmectl deploy --env=prod*", "acmectl deploy --env=production", true),
        ("acmectl deploy --env=prod*", "acmectl deploy --env test production", false),
        ("acmectl -e|--env=prod", "acmectl -e prod", true),
        ("gcloud ... %roles/owner", "gcloud projects add --role roles/owner", true),
        ("gcloud ... %roles/owner", "gcloud projects add --role roles/viewer", false),
        ("ufw disable !--dry-run", "ufw disable", true),
        ("ufw disable !--dry-run", "ufw disable --dry-run", false),
        ("* >*authorized_keys", "echo key >> ~/.ssh/authorized_keys", true),
        ("* >*authorized_keys", "cat ~/.ssh/authorized_keys", false),
        ("manage.py flush", "python3 manage.py flush --no-input", true),
        ("manage.py flush", "./manage.py flush", true),
        ("manage.py flush", "python3 other.py flush", false),
        ("jenkins-cli.jar delete-*", "java -jar /opt/jenkins-cli.jar delete-job a", true),
        ("mkfs*", "mkfs.ext4 /dev/sdb", true),
        ("sc create binPath*", "SC CREATE binpath= a", true),
        ("sc -D", "sc -d", false),
    ] {
        assert_eq!(meets(pattern, script), is_met, "{pattern}: {script}");
    }
    for (pattern, what) in
        [("", "no word"), ("-x", "no program"), ("a b|", "nothing on one side"), ("a [b", "unclosed")]
    {
        assert!(CallPattern::parse(pattern).is_err_and(|error| error.contains(what)), "{pattern}");
    }
}
