//! Marks on data: each line has one, none reaches a quote, a finding or the stored text.

use proptest::prelude::*;

use super::{answer, any_text, claim, event, reply, shadow, write};
use crate::datamark::Marks;
use umbra_domain::{Assessment, Datamark, Event, Shadow};

const NONCE: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn every_line_of_data_has_the_mark_and_no_other_line() {
    let event = Event { output: Some("First.\n\nThe nonce is 00.\n".to_owned()), ..event() };
    let written = write(&shadow(), &event, &[]);
    let mark = written.shown[0].marks.line().unwrap();
    assert!(written.user.contains(&format!("\n{mark}First.\n{mark}\n{mark}The nonce is 00.\n{mark}\n</")));
    let mut inside = false;
    for line in written.user.lines() {
        let tag = line.starts_with("<umbra-fence") || line.starts_with("</umbra-fence");
        inside = if tag { !line.starts_with("</") } else { inside };
        assert_eq!(line.starts_with(mark), inside && !tag, "{line}");
    }
}

#[test]
fn datamark_words_marks_spaces_and_off_marks_nothing() {
    let words = Shadow { datamark: Datamark::Words, ..shadow() };
    let off = Shadow { datamark: Datamark::Off, ..shadow() };
    let written = write(&words, &event(), &[]);
    let sign = written.shown[0].marks.space().unwrap();
    assert!(written.user.contains(&format!("The{sign}reason{sign}is{sign}unknown.")), "{}", written.user);
    assert!(written.user.lines().nth(1).unwrap().ends_with(&format!(" and {sign} stands for a space.")));
    assert!(written.system.contains("a sign that it names stands for each space"));
    let plain = write(&off, &event(), &[]);
    assert!(plain.user.contains("\nSales went up.\n") && !plain.user.contains("Each line"), "{}", plain.user);
    assert!(!plain.system.contains("mark that the message names"));
}

#[test]
fn a_quote_with_marks_is_found_and_stored_without_them() {
    for datamark in Datamark::ALL {
        let shadow = Shadow { datamark, ..shadow() };
        let marks = write(&shadow, &event(), &[]).shown[0].marks.clone();
        let plain = "went up.\nThe reason";
        for quote in [plain.to_owned(), marks.put(plain), plain.replace('\n', &format!("\n{}", marks.put("")))] {
            let mut finding = claim("critical", &quote);
            finding["description"] = marks.put("It is vague.").into();
            let judged = answer(&shadow, &event(), &[], &reply("FLAG", 5, &[finding]));
            assert_eq!(judged.assessment, Assessment::Flag, "{quote}");
            assert_eq!(judged.findings[0].evidence.as_ref().unwrap().quote, plain);
            assert_eq!(judged.findings[0].description, "It is vague.");
        }
    }
}

proptest! {
    #[test]
    fn marks_are_removed_without_loss(text in any_text()) {
        for datamark in Datamark::ALL {
            let marks = Marks::of(datamark, NONCE);
            let put = marks.put(&text);
            prop_assert_eq!(&marks.remove(&put), &text);
            if let Some(mark) = marks.line() {
                prop_assert!(put.split('\n').all(|line| line.starts_with(mark)));
            }
        }
    }
}
