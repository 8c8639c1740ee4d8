//! The words that say what a number behind them is. In: a text. Out: where such words stand and what they announce.
//! One pass over the text; a word counts only where a word begins, some only where it also ends.

use std::{cell::OnceCell, ops::Range, sync::LazyLock};

use super::{super::needles::Needles, national::NATIONAL};

/// What a word announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    /// A telephone number, for sure: `Phone:`.
    Phone,
    /// Perhaps a telephone number: `call`, `registered`.
    Reach,
    /// Which of a person's lines a number is: `office`, before it or behind it.
    Line,
    /// A payment card.
    Card,
    /// A number of something else, such as an order.
    Thing,
    /// A driving licence.
    Licence,
    /// A passport or an identity card.
    Passport,
    /// The sort code of a bank's branch.
    SortCode,
    /// A date of birth.
    Birth,
    /// An address in a network.
    Network,
    /// An address of hardware.
    Hardware,
    /// A person: `my`, `customer`.
    Person,
    /// A name follows, of someone in care or under contract.
    Patient,
    /// A name follows.
    Name,
    /// An address of a household.
    Home,
    /// The national number at this place of [`NATIONAL`].
    National(usize),
}

/// Bytes of the longest hint.
const LONGEST_HINT: usize = 24;

/// A word, and whether the text's word must end where it does.
type Word = (&'static str, bool);

/// What announces a number that is looked at for its form.
const HINTS: &[(Topic, &[Word])] = &[
    (
        Topic::Phone,
        &[
            ("phone", false),
            ("telephone", false),
            ("tel.", false),
            ("tel", true),
            ("telefon", false),
            ("teléfono", true),
            ("téléphone", true),
            ("telefoon", false),
            ("mobile", true),
            ("mobil", true),
            ("móvil", true),
            ("celular", true),
            ("cellphone", false),
            ("cell", true),
            ("handynummer", true),
            ("fax", true),
            ("whatsapp", true),
            ("voicemail", true),
            ("hotline", true),
            ("msisdn", true),
            ("call me", true),
            ("call us", true),
            ("call him", true),
            ("call her", true),
            ("call back", true),
            ("call at", true),
            ("ring me", true),
            ("text me", true),
            ("reach me", true),
            ("reach him", true),
            ("reach her", true),
            ("reach us", true),
            ("contact me", true),
            ("messages to", true),
            ("message to", true),
            ("sms", true),
            ("appelez", true),
            ("llámame", true),
            ("anrufen", true),
            ("puh.", false),
            ("tlf", true),
            ("gsm", true),
            ("电话", false),
            ("手机", false),
            ("電話", false),
            ("携帯", false),
            ("전화", false),
            ("тел.", false),
            ("телефон", false),
            ("फ़ोन", false),
        ],
    ),
    (
        Topic::Reach,
        &[
            ("call", true),
            ("calling", true),
            ("dial", true),
            ("ring", true),
            ("reach", true),
            ("contact", true),
            ("number", true),
            ("registered", true),
        ],
    ),
    (
        Topic::Line,
        &[("office", true), ("home", true), ("work", true), ("desk", true), ("direct", true), ("main", true)],
    ),
    (
        Topic::Card,
        &[
            ("card", false),
            ("credit", true),
            ("visa", true),
            ("mastercard", true),
            ("amex", true),
            ("american express", true),
            ("discover", true),
            ("diners", true),
            (" cc ", false),
            ("cc:", false),
            ("ccnum", false),
            ("cardholder", true),
            ("kreditkarte", false),
            ("carte bancaire", true),
            ("carte bleue", true),
            ("tarjeta", true),
            ("cartão", true),
            ("carta di credito", true),
            ("creditcard", false),
        ],
    ),
    (
        Topic::Thing,
        &[
            ("order", true),
            ("invoice", true),
            ("tracking", true),
            ("serial", true),
            ("trace", false),
            ("span_id", true),
            ("request_id", true),
            ("timestamp", true),
            ("epoch", true),
            ("isbn", true),
            ("ean", true),
            ("gtin", true),
            ("sku", true),
            ("inode", true),
            ("offset", true),
            ("commit", true),
            ("build", true),
            ("ticket", true),
            ("port", true),
            ("version", true),
            ("pid", true),
            ("bytes", true),
            ("checksum", true),
        ],
    ),
    (
        Topic::Network,
        &[("address", true), ("ip address", true), ("ip:", false), (" ip ", false), ("logged in from", true)],
    ),
    (
        Topic::Person,
        &[
            ("i can't", true),
            ("i can’t", true),
            ("i cannot", true),
            ("your", true),
            ("i am", true),
            ("i'm", true),
            ("my ", false),
            ("his ", false),
            ("her ", false),
            ("user's", true),
            ("customer", false),
            ("visitor", false),
            ("client's", true),
            ("patient", false),
            ("subscriber", false),
            ("employee", false),
            ("resident", true),
            ("complainant", true),
        ],
    ),
];

/// What announces a value that is looked for behind it.
const LABELS: &[(Topic, &[Word])] = &[
    (
        Topic::Licence,
        &[
            ("driver's license", false),
            ("driver’s license", false),
            ("drivers license", false),
            ("driver license", false),
            ("driver's licence", false),
            ("driving licence", false),
            ("driving license", false),
            ("drivers licence", false),
            ("driver_license", false),
            ("führerschein", false),
            ("permis de conduire", false),
            ("permiso de conducir", false),
            ("licencia de conducir", false),
            ("patente di guida", false),
            ("rijbewijs", false),
        ],
    ),
    (
        Topic::Passport,
        &[
            ("passport n", false),
            ("passport:", false),
            ("passport #", false),
            ("passport is", true),
            ("passport_n", false),
            ("passport ", false),
            ("passeport", true),
            ("pasaporte", true),
            ("reisepass", false),
            ("personalausweis", false),
            ("passaporto", true),
            ("paspoort", false),
            ("护照", false),
        ],
    ),
    (Topic::SortCode, &[("sort code", true), ("sort-code", true), ("sort_code", true), ("sortcode", true)]),
    (
        Topic::Birth,
        &[
            ("date of birth", true),
            ("birth date", true),
            ("birthdate", true),
            ("date_of_birth", true),
            ("birthday", true),
            ("dob", true),
            ("born", true),
            ("geboren", true),
            ("geburtsdatum", true),
            ("né le", true),
            ("née le", true),
            ("fecha de nacimiento", true),
            ("data de nascimento", true),
            ("data di nascita", true),
            ("geboortedatum", true),
        ],
    ),
    (Topic::Hardware, &[("mac address", true), ("mac:", false), ("bluetooth address", true)]),
    (
        Topic::Patient,
        &[
            ("patient", true),
            ("patient name", true),
            ("patient_name", true),
            ("cardholder", true),
            ("cardholder name", true),
            ("next of kin", true),
            ("emergency contact", true),
            ("insured person", true),
            ("claimant", true),
            ("patientin", true),
            ("paciente", true),
        ],
    ),
    (
        Topic::Name,
        &[
            ("full name", true),
            ("full_name", true),
            ("customer name", true),
            ("customer_name", true),
            ("employee name", true),
            ("maiden name", true),
            ("applicant", true),
            ("account holder", true),
            ("beneficiary", true),
            ("kontoinhaber", true),
            ("nom et prénom", true),
            ("nombre completo", true),
            ("name", true),
        ],
    ),
    (
        Topic::Home,
        &[
            ("home address", true),
            ("mailing address", true),
            ("shipping address", true),
            ("billing address", true),
            ("delivery address", true),
            ("postal address", true),
            ("residential address", true),
            ("street address", true),
            ("lives at", true),
            ("living at", true),
            ("resides at", true),
            ("address", true),
            ("wohnhaft in", true),
            ("anschrift", true),
            ("adresse", true),
            ("domicilio", true),
            ("dirección", true),
        ],
    ),
];

/// Words with what they announce.
#[derive(Debug)]
struct Lexicon {
    needles: Needles,
    topics: Vec<(Topic, bool)>,
}

impl Lexicon {
    fn new(words: impl Iterator<Item = (&'static str, Topic, bool)> + Clone) -> Self {
        let needles = Needles::new(words.clone().map(|(word, _, _)| word));
        Self { needles, topics: words.map(|(_, topic, whole)| (topic, whole)).collect() }
    }

    fn find(&self, text: &str) -> Vec<Place> {
        let bytes = text.as_bytes();
        let joins = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let mut found = Vec::new();
        self.needles.find(text, |number, at| {
            if let Some((topic, whole)) = self.topics.get(number) {
                // `phoneNumber`, `user_phone`: a name made of words has them at its humps and underscores.
                let first = bytes.get(at.start).copied().unwrap_or_default();
                let begins = !joins(at.start.checked_sub(1).and_then(|before| bytes.get(before)))
                    || first.is_ascii_uppercase()
                    || !first.is_ascii_alphanumeric();
                let ends = !whole || !bytes.get(at.end).is_some_and(u8::is_ascii_lowercase);
                if begins && ends {
                    found.push((at, *topic));
                }
            }
            true
        });
        found
    }
}

/// Where a word stands, and what it announces.
type Place = (Range<usize>, Topic);

fn words(table: &'static [(Topic, &[Word])]) -> impl Iterator<Item = (&'static str, Topic, bool)> + Clone {
    table.iter().flat_map(|(topic, words)| words.iter().map(|(word, whole)| (*word, *topic, *whole)))
}

/// The announcing words of a text. Those that only numbers of some length ask for are looked for when one does.
#[derive(Debug)]
pub(super) struct Contexts<'t> {
    text: &'t str,
    labels: Vec<Place>,
    hints: OnceCell<Vec<Place>>,
}

impl<'t> Contexts<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| {
            let national = NATIONAL.iter().enumerate();
            let national = national
                .flat_map(|(place, kind)| kind.words.iter().map(move |word| (*word, Topic::National(place), true)));
            Lexicon::new(words(LABELS).chain(national))
        });
        Self { text, labels: LEXICON.find(text), hints: OnceCell::new() }
    }

    /// Whether a label of the topic stands anywhere.
    pub(super) fn has(&self, topic: Topic) -> bool {
        self.labels.iter().any(|(_, here)| *here == topic)
    }

    /// Every label with its topic, in order of place.
    pub(super) fn labels(&self) -> impl Iterator<Item = (&Range<usize>, Topic)> {
        self.labels.iter().map(|(at, topic)| (at, *topic))
    }

    fn hints(&self) -> &[Place] {
        static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::new(words(HINTS)));
        self.hints.get_or_init(|| LEXICON.find(self.text))
    }

    /// Whether a hint at the topic ends in the `reach` bytes before a place.
    pub(super) fn before(&self, place: usize, reach: usize, topic: Topic) -> bool {
        let hints = self.hints();
        let end = hints.partition_point(|(at, _)| at.start < place);
        let nearest = hints.get(..end).unwrap_or_default().iter().rev();
        nearest
            .take_while(|(at, _)| at.start + reach + LONGEST_HINT >= place)
            .any(|(at, here)| *here == topic && at.end <= place && at.end + reach >= place)
    }

    /// Whether a hint at the topic begins in the `reach` bytes from a place on.
    pub(super) fn after(&self, place: usize, reach: usize, topic: Topic) -> bool {
        let hints = self.hints();
        let start = hints.partition_point(|(at, _)| at.start < place);
        let next = hints.get(start..).unwrap_or_default().iter();
        next.take_while(|(at, _)| at.start <= place + reach).any(|(_, here)| *here == topic)
    }
}
