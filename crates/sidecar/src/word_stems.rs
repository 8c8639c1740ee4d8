//! Words of texts and of identifiers. In: any text. Out: its words, by their stems, without function words.
//!
//! The stemmer is our own: ten endings of English, which bring `searching`, `searches` and `searched` together.
//! Measured with `umbra bench tools` it does as well as Snowball's English, without a dependency of 19,000 lines.

use std::borrow::Cow;

/// Least share of common words for two tasks to count as alike.
pub(super) const LIKE: f64 = 0.3;

/// Most words of a task that count.
const MOST_OF_A_TASK: usize = 200;
/// Longest word, in characters: longer ones are ids, digests, encoded data.
const LONGEST: usize = 40;

/// Closed classes of English (articles, pronouns, auxiliaries, prepositions, conjunctions), and the rests of their
/// contractions. Tools are described without most of them, so their rarity means nothing. Sorted.
const FUNCTION_WORDS: [&str; 112] = [
    "a", "about", "again", "all", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being", "both", "but",
    "by", "can", "could", "d", "did", "do", "does", "down", "each", "few", "for", "from", "had", "has", "have",
    "having", "he", "her", "here", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "ll", "m",
    "may", "me", "might", "mine", "more", "most", "must", "my", "no", "nor", "not", "of", "off", "on", "only", "or",
    "our", "out", "over", "please", "re", "s", "shall", "she", "should", "so", "some", "such", "t", "than", "that",
    "the", "their", "them", "then", "there", "these", "they", "this", "those", "through", "to", "too", "under", "up",
    "us", "ve", "very", "was", "we", "were", "what", "when", "where", "which", "who", "whom", "whose", "why", "will",
    "with", "would", "you", "your",
];

/// Words of a task, each once, in order of their stems.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Task {
    words: Vec<StemmedWord>,
}

/// A word by which texts are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StemmedWord {
    pub stem: String,
    /// The word as in the text, in small letters.
    pub shown: String,
}

impl Task {
    /// Splits the text of a request into words.
    pub fn of(text: &str) -> Self {
        let mut words: Vec<StemmedWord> = words(text).take(MOST_OF_A_TASK).collect();
        words.sort_by(|a, b| a.stem.cmp(&b.stem));
        words.dedup_by(|a, b| a.stem == b.stem);
        Self { words }
    }

    pub(super) fn words(&self) -> &[StemmedWord] {
        &self.words
    }

    /// Returns the share of the words of both tasks that they have in common (Jaccard index): 1 for the same words, 0
    /// for none, and if neither has any.
    #[expect(clippy::cast_precision_loss, reason = "counts of words")]
    pub fn likeness(&self, other: &Self) -> f64 {
        let (mut own, mut others) = (self.words.iter().peekable(), other.words.iter().peekable());
        let mut common = 0;
        while let (Some(a), Some(b)) = (own.peek(), others.peek()) {
            let order = a.stem.cmp(&b.stem);
            common += usize::from(order.is_eq());
            if order.is_le() {
                own.next();
            }
            if order.is_ge() {
                others.next();
            }
        }
        let all = self.words.len() + other.words.len() - common;
        if all == 0 { 0.0 } else { common as f64 / all as f64 }
    }
}

/// Returns the words of a text, in its order.
pub(super) fn words(text: &str) -> impl Iterator<Item = StemmedWord> {
    let runs = text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty());
    runs.flat_map(parts).filter(|part| part.chars().count() <= LONGEST).map(str::to_lowercase).filter_map(|shown| {
        let counts = FUNCTION_WORDS.binary_search(&shown.as_str()).is_err();
        counts.then(|| StemmedWord { stem: stem(&shown).into_owned(), shown })
    })
}

/// Splits an identifier into words: `getHTTPUrl2` into get, HTTP, Url, 2; `URLs` stays one.
fn parts(run: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = run.char_indices().collect();
    let is = |at: usize, of: fn(char) -> bool| chars.get(at).is_some_and(|(_, c)| of(*c));
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, (byte, _)) in chars.iter().enumerate().skip(1) {
        let number = is(at - 1, char::is_numeric) != is(at, char::is_numeric);
        let camel = is(at - 1, char::is_lowercase) && is(at, char::is_uppercase);
        let plural = is(at + 1, |c| c == 's') && !is(at + 2, char::is_alphabetic);
        let acronym = is(at - 1, char::is_uppercase) && is(at, char::is_uppercase) && is(at + 1, char::is_lowercase);
        if number || camel || acronym && !plural {
            parts.extend(run.get(start..*byte));
            start = *byte;
        }
    }
    parts.extend(run.get(start..));
    parts
}

/// Returns a word without its inflection. Words with other than small ASCII letters stay as they are.
fn stem(word: &str) -> Cow<'_, str> {
    if word.len() < 4 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Cow::Borrowed(word);
    }
    let mut stem = match word {
        _ if word.ends_with("sses") => word.strip_suffix("es").unwrap_or(word).to_owned(),
        _ if word.ends_with("ies") => word.strip_suffix("ies").unwrap_or(word).to_owned() + "y",
        _ if ["ss", "us", "is"].iter().any(|end| word.ends_with(end)) => word.to_owned(),
        _ => word.strip_suffix('s').unwrap_or(word).to_owned(),
    };
    let verb = stem.strip_suffix("ing").or_else(|| stem.strip_suffix("ed"));
    if let Some(verb) = verb.filter(|verb| verb.len() >= 3 && verb.contains(['a', 'e', 'i', 'o', 'u', 'y'])) {
        let doubled = verb.as_bytes().windows(2).last().is_some_and(|pair| {
            let [a, b] = pair else { return false };
            a == b && !b"lsz".contains(b)
        });
        let length = verb.len() - usize::from(doubled && verb.len() > 3);
        stem.truncate(length);
    }
    if stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    if stem.len() > 3 && stem.ends_with('y') {
        stem.pop();
        stem.push('i');
    }
    Cow::Owned(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems(text: &str) -> Vec<String> {
        words(text).map(|word| word.stem).collect()
    }

    #[test]
    fn identifiers_and_sentences_have_the_same_stems() {
        for (text, expected) in [
            ("getHTTPUrl2", &["get", "http", "url", "2"] as &[&str]),
            ("math.hypot_v3", &["math", "hypot", "v", "3"]),
            ("list-all-URLs", &["list", "url"]),
            ("SEARCHES searching, searched!", &["search", "search", "search"]),
            ("currencies of a currency", &["currenci", "currenci"]),
            ("planning plans planned", &["plan", "plan", "plan"]),
            ("process the address of classes", &["process", "address", "class"]),
            ("Could you please tell me what it is?", &["tell"]),
            ("Übersetze Überweisungen", &["übersetze", "überweisungen"]),
            ("0123456789012345678901234567890123456789012 \u{200b}", &[]),
        ] {
            assert_eq!(stems(text), expected, "{text}");
        }
        assert!(FUNCTION_WORDS.is_sorted());
    }

    #[test]
    fn likeness_is_the_share_of_common_words() {
        let like = |a: &str, b: &str| Task::of(a).likeness(&Task::of(b));
        assert!((like("Convert euros to dollars", "converting a euro into dollars!") - 1.0).abs() < 1e-9);
        assert!((like("convert euros", "convert dollars") - 1.0 / 3.0).abs() < 1e-9);
        assert!(like("convert euros", "book a flight").abs() < 1e-9);
        assert!(like("", "of the").abs() < 1e-9);
    }
}
