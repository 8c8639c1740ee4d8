//! Words that announce the kind of a number or value. In: a text. Out: the places and topics of such words. One pass
//! over the text; a word counts only at the beginning of a word, some only as whole words.

use std::{ops::Range, sync::LazyLock};

pub(super) use super::announcing_words::Topic;
use super::{
    super::literal_scanner::LiteralScanner,
    announcing_words::{HINTS, LABELS, Words},
    national::NATIONAL,
};

/// Longest hint, in bytes.
const LONGEST_HINT: usize = 24;

/// Labels and hints with their topics.
#[derive(Debug)]
struct Lexicon {
    needles: LiteralScanner,
    topics: Vec<(Topic, bool)>,
    /// Number of labels among the words; the rest are hints.
    labels: usize,
}

impl Lexicon {
    fn new() -> Self {
        let national = NATIONAL.iter().enumerate();
        let national =
            national.flat_map(|(place, kind)| kind.words.iter().map(move |word| (*word, Topic::National(place), true)));
        let labels: Vec<_> = words(LABELS).chain(national).collect();
        let all = || labels.iter().copied().chain(words(HINTS));
        Self {
            needles: LiteralScanner::new(all().map(|(word, _, _)| word)),
            topics: all().map(|(_, topic, whole)| (topic, whole)).collect(),
            labels: labels.len(),
        }
    }

    fn find(&self, text: &str) -> Contexts {
        let bytes = text.as_bytes();
        let joins = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let mut contexts = Contexts { labels: Vec::new(), hints: Vec::new(), samples: false };
        self.needles.find(text, |number, at| {
            if let Some((topic, whole)) = self.topics.get(number) {
                // In `phoneNumber` and `user_phone`, words begin at humps and underscores.
                let first = bytes.get(at.start).copied().unwrap_or_default();
                let begins = !joins(at.start.checked_sub(1).and_then(|before| bytes.get(before)))
                    || first.is_ascii_uppercase()
                    || !first.is_ascii_alphanumeric();
                let ends = !whole || !bytes.get(at.end).is_some_and(u8::is_ascii_lowercase);
                if begins && ends {
                    let places = if number < self.labels { &mut contexts.labels } else { &mut contexts.hints };
                    places.push((at, *topic));
                }
            }
            true
        });
        contexts
    }
}

/// Range of a word, and its topic.
type Place = (Range<usize>, Topic);

fn words(table: &'static [(Topic, Words)]) -> impl Iterator<Item = (&'static str, Topic, bool)> {
    let apart = |(topic, words): &(Topic, Words)| words.split('|').map(|word| (word, *topic)).collect::<Vec<_>>();
    table.iter().flat_map(apart).map(|(word, topic)| {
        let open = word.strip_suffix('*');
        (open.unwrap_or(word), topic, open.is_none())
    })
}

/// Announcing words of a text.
#[derive(Debug)]
pub(super) struct Contexts {
    labels: Vec<Place>,
    /// Words that announce a number which is recognized by its form.
    hints: Vec<Place>,
    /// True if sample numbers of documentation and processors count, too.
    pub samples: bool,
}

impl Contexts {
    pub(super) fn of(text: &str) -> Self {
        static LEXICON: LazyLock<Lexicon> = LazyLock::new(Lexicon::new);
        LEXICON.find(text)
    }

    /// True if the text has a label of the topic.
    pub(super) fn has(&self, topic: Topic) -> bool {
        self.labels.iter().any(|(_, here)| *here == topic)
    }

    /// Returns every label with its topic, in order of place.
    pub(super) fn labels(&self) -> impl Iterator<Item = (&Range<usize>, Topic)> {
        self.labels.iter().map(|(at, topic)| (at, *topic))
    }

    /// True if a hint of the topic ends within `reach` bytes before a place.
    pub(super) fn before(&self, place: usize, reach: usize, topic: Topic) -> bool {
        let hints = &self.hints;
        let end = hints.partition_point(|(at, _)| at.start < place);
        let nearest = hints.get(..end).unwrap_or_default().iter().rev();
        nearest
            .take_while(|(at, _)| at.start + reach + LONGEST_HINT >= place)
            .any(|(at, here)| *here == topic && at.end <= place && at.end + reach >= place)
    }

    /// True if a hint of the topic begins within `reach` bytes from a place on.
    pub(super) fn after(&self, place: usize, reach: usize, topic: Topic) -> bool {
        let hints = &self.hints;
        let start = hints.partition_point(|(at, _)| at.start < place);
        let next = hints.get(start..).unwrap_or_default().iter();
        next.take_while(|(at, _)| at.start <= place + reach).any(|(_, here)| *here == topic)
    }
}
