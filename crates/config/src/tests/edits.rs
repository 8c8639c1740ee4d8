//! Tests of changing a shadow's mode in its file, with every other byte unchanged.

use super::{
    super::{Models, shadows::edit::with_mode},
    models,
};
use umbra_domain::{Mode, PricePerMtok};

fn edited(text: &str, to: Mode) -> Result<(String, usize), String> {
    let specs = models();
    with_mode("s.yaml", text, "b", to, &Models { specs: &specs, ceiling: PricePerMtok::from_usd(5.0).unwrap() })
}

/// A file with shadow `b`, whose mode is written as `mode`, between two others.
fn file(mode: &str) -> String {
    format!(
        "# é comment with mode: passive\nshadow_agents:\n  - {{name: a, model: haiku, mode: &m passive, watch: \
         [{{agent: x, triggers: [error]}}]}}\n  - name: b # mode: passive\r\n    model: haiku\n    {mode}\n    watch:\n    \
         - agent: '*'\n      triggers: [error]\n  - {{name: c, model: haiku, mode: passive, watch: [{{agent: x, \
         triggers: [error]}}]}}\n"
    )
}

#[test]
fn mode_edit_replaces_one_word_and_keeps_every_other_byte() {
    for (before, after) in [
        ("mode: passive # is quiet", "mode: review # is quiet"),
        ("mode:   \"passive\"", "mode:   \"review\""),
        ("mode: 'passive'   ", "mode: 'review'   "),
        ("\"mode\": passive", "\"mode\": review"),
        ("mode:\n      passive", "mode:\n      review"),
    ] {
        let (text, line) = edited(&file(before), Mode::Review).unwrap();
        assert_eq!(text, file(after), "{before}");
        assert_eq!(line, 6 + before.matches('\n').count());
    }
    let flow = "shadow_agents: [{mode: review, name: b, model: haiku, watch: [{agent: é, triggers: [error]}]}]";
    assert_eq!(edited(flow, Mode::Active).unwrap().0, flow.replace("review", "active"));
    let bom = format!("\u{feff}{flow}");
    assert_eq!(edited(&bom, Mode::Active).unwrap().0, bom.replace("review", "active"));
}

#[test]
fn mode_edit_of_a_shared_or_missing_value_is_refused() {
    for mode in
        ["mode: *m", "mode: &n passive", "mode: !!str passive", "mode: \"p\\x61ssive\"", "mode: >-\n      passive"]
    {
        match edited(&file(mode), Mode::Review) {
            Err(why) if why.contains("cannot be replaced by itself") => {}
            Ok((text, _)) => assert_eq!(text, file(&mode.replace("passive", "review")), "{mode}"),
            Err(other) => panic!("{mode}: {other}"),
        }
    }
    let refused = |text: &str, to| edited(text, to).unwrap_err();
    assert!(refused(&file("mode: *m"), Mode::Review).contains("cannot be replaced by itself"));
    let other = "shadow_agents:\n  - {name: a, model: haiku, mode: review, watch: [{agent: x, triggers: [error]}]}\n";
    assert!(refused(other, Mode::Active).contains("has no shadow of this name"));
    let passive_key = file("mode: active\n    on_timeout: reject");
    assert!(refused(&passive_key, Mode::Passive).contains("would have faults"));
}
