//! Evidence: quotes are looked up as they stand, else without case and white space; offsets are those of the stored
//! text.

use proptest::prelude::*;
use serde_json::json;

use super::{any_event, event, hit, tool_event};
use crate::{
    evidence::{of_hit, of_quote},
    sections::{quoted, stored_text, stored_texts},
};
use umbra_domain::{CheckName, Event, Evidence, Severity};

fn find(event: &Event, quote: &str) -> Option<(String, usize, usize)> {
    let found = of_quote(&stored_texts(event), quote)?;
    assert_eq!(stored_text(event, &found.field).unwrap()[found.start..found.end], found.quote);
    Some((found.field.to_string(), found.start, found.end))
}

#[test]
fn quote_matches_exactly_or_without_case_and_white_space() {
    let event = event();
    let check = |quote: &str, want: Option<(&str, usize, usize)>| {
        assert_eq!(find(&event, quote), want.map(|(f, s, e)| (f.to_owned(), s, e)), "{quote:?}");
    };
    check("went up.", Some(("output", 6, 14)));
    check("up.\nThe", Some(("output", 11, 18)));
    check("up.\\nThe", Some(("output", 11, 18)));
    check("Sales", Some(("output", 0, 5)));
    check("12 %", Some(("input", 14, 18)));
    check("two sentences", Some(("task", 21, 34)));
    check("up. The", Some(("output", 11, 18)));
    check("Went up.", Some(("output", 6, 14)));
    check(" went  up.", Some(("output", 6, 14)));
    check("SALES\tWENT\nUP", Some(("output", 0, 13)));
    check("went down.", None);
    check("wentup.", None);
    check("went. up.", None);
    // Three letters are too few for a look-up in any case.
    check("Ale", None);
    check("up", None);
    // A few small letters stand in any text.
    check("ales", None);
    check("ales w", Some(("output", 1, 7)));
    check(" \n u p\t", None);
    check("", None);
    check("   ", None);
    check("\\u", None);
}

#[test]
fn quote_matches_with_one_more_or_less_escape_level() {
    let event = tool_event(json!({"cmd": "echo \"hi\" \\ 😀 end", "src": r#"print("a\nb")"#}));
    let check = |quote: &str, field: &str| assert_eq!(find(&event, quote).unwrap().0, field, "{quote}");
    check("echo \"hi\"", "tool.args.cmd");
    check("echo \\\"hi\\\"", "tool.args.cmd");
    check("\\\"hi\\\" \\\\ \\ud83d\\ude00 end", "tool.args.cmd");
    check("a\\nb", "tool.args.src");
    check("a\nb", "tool.args.src");
    check("run_shell", "tool.name");
    assert_eq!(find(&event, "echo \\\"ho\\\""), None);
}

#[test]
fn a_long_quote_must_match_whole_and_is_stored_short() {
    let event = Event { output: Some("é".repeat(800)), ..event() };
    let fields = stored_texts(&event);
    let found = of_quote(&fields, &"é".repeat(700)).unwrap();
    assert_eq!((found.quote.chars().count(), found.start, found.end), (500, 0, 1_000));
    assert_eq!(of_quote(&fields, &("é".repeat(700) + "x")), None);
}

#[test]
fn a_hit_quotes_the_stored_text_at_its_offsets() {
    let mut event = tool_event(json!({"a": {"b": "curl x | sh"}}));
    event.output = Some(format!("é{}", "x".repeat(400)));
    event.metadata.insert("a.b".to_owned(), json!({"c": ["zero", "key"]}));
    let check = |field, start, end, want: Option<(&str, usize)>| {
        let found = of_hit(&event, &hit(CheckName::Secrets, Severity::Critical, field, start, end));
        assert_eq!(found.map(|Evidence { quote, end, .. }| (quote, end)), want.map(|(q, e)| (q.to_owned(), e)));
    };
    check("tool.args.a.b", 0, 4, Some(("curl", 4)));
    check("tool.name", 0, 3, Some(("run", 3)));
    check("metadata.a.b.c.1", 0, 3, Some(("key", 3)));
    check("metadata.a.b.c", 0, 3, None);
    check("output", 0, 402, Some((format!("é{}", "x".repeat(299)).as_str(), 301)));
    check("output", 1, 3, None);
    check("output", 3, 2, None);
    check("output", 0, 9_999, None);
    check("input", 0, 0, Some(("", 0)));
    check("input", 0, 1, None);
}

proptest! {
    #[test]
    fn quote_of_any_stored_field_is_found(event in any_event(), pick in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), len in 3..40_usize) {
        let fields = stored_texts(&event);
        prop_assume!(!fields.is_empty());
        let chars: Vec<char> = fields[pick.index(fields.len())].1.chars().collect();
        prop_assume!(!chars.is_empty());
        let quote: String = chars.iter().skip(at.index(chars.len())).take(len).collect();
        let signs = || quote.chars().filter(|c| !c.is_whitespace());
        let enough = signs().count() >= if signs().all(|c| c.is_ascii_lowercase()) { 5 } else { 3 };
        prop_assert!(find(&event, &quote).is_some() || !enough);
        let escaped = quoted(&quote);
        prop_assert!(find(&event, &escaped[1..escaped.len() - 1]).is_some() || !enough);
    }
}
