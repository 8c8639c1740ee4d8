//! The words that say what a number behind them is. In: a text. Out: where such words stand and what they announce.
//! One pass over the text; a word counts only where a word begins, some only where it also ends.

use std::{ops::Range, sync::LazyLock};

pub(super) use super::words::Topic;
use super::{
    super::needles::Needles,
    national::NATIONAL,
    words::{HINTS, LABELS, Words},
};

/// Bytes of the longest hint.
const LONGEST_HINT: usize = 24;

/// Labels and hints with what they announce.
#[derive(Debug)]
struct Lexicon {
    needles: Needles,
    topics: Vec<(Topic, bool)>,
    /// How many of the words are labels; the rest are hints.
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
            needles: Needles::new(all().map(|(word, _, _)| word)),
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
                // `phoneNumber`, `user_phone`: a name made of words has them at its humps and underscores.
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

/// Where a word stands, and what it announces.
type Place = (Range<usize>, Topic);

fn words(table: &'static [(Topic, Words)]) -> impl Iterator<Item = (&'static str, Topic, bool)> {
    let apart = |(topic, words): &(Topic, Words)| words.split('|').map(|word| (word, *topic)).collect::<Vec<_>>();
    table.iter().flat_map(apart).map(|(word, topic)| {
        let open = word.strip_suffix('*');
        (open.unwrap_or(word), topic, open.is_none())
    })
}

/// The announcing words of a text.
#[derive(Debug)]
pub(super) struct Contexts {
    labels: Vec<Place>,
    /// What announces a number that is looked at for its form.
    hints: Vec<Place>,
    /// True if numbers that documentation and processors use as samples count, too.
    pub samples: bool,
}

impl Contexts {
    pub(super) fn of(text: &str) -> Self {
        static LEXICON: LazyLock<Lexicon> = LazyLock::new(Lexicon::new);
        LEXICON.find(text)
    }

    /// Whether a label of the topic stands anywhere.
    pub(super) fn has(&self, topic: Topic) -> bool {
        self.labels.iter().any(|(_, here)| *here == topic)
    }

    /// Every label with its topic, in order of place.
    pub(super) fn labels(&self) -> impl Iterator<Item = (&Range<usize>, Topic)> {
        self.labels.iter().map(|(at, topic)| (at, *topic))
    }

    /// Whether a hint at the topic ends in the `reach` bytes before a place.
    pub(super) fn before(&self, place: usize, reach: usize, topic: Topic) -> bool {
        let hints = &self.hints;
        let end = hints.partition_point(|(at, _)| at.start < place);
        let nearest = hints.get(..end).unwrap_or_default().iter().rev();
        nearest
            .take_while(|(at, _)| at.start + reach + LONGEST_HINT >= place)
            .any(|(at, here)| *here == topic && at.end <= place && at.end + reach >= place)
    }

    /// Whether a hint at the topic begins in the `reach` bytes from a place on.
    pub(super) fn after(&self, place: usize, reach: usize, topic: Topic) -> bool {
        let hints = &self.hints;
        let start = hints.partition_point(|(at, _)| at.start < place);
        let next = hints.get(start..).unwrap_or_default().iter();
        next.take_while(|(at, _)| at.start <= place + reach).any(|(_, here)| *here == topic)
    }
}
