//! Detector of random letters. In: a value. Out: true if it reads like no word. There is no dictionary: a table of how
//! often one letter follows another in English technical prose suffices.

/// Mean score, in tenths, below which letters count as random: one English word in a hundred is below, and nine of ten
/// random strings of eight letters.
const GIBBERISH_BELOW: u32 = 58;

/// True if the letters of a value follow each other as in no English word. Shorter than five letters, a value is a
/// word.
pub(super) fn is_gibberish(word: &str) -> bool {
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).map(|b| usize::from(b.to_ascii_lowercase() - b'a'));
    let (mut sum, mut pairs) = (0, 0_u32);
    for (a, b) in letters.clone().zip(letters.skip(1)) {
        let score = BIGRAMS.get(a).and_then(|row| row.as_bytes().get(b)).copied().unwrap_or(b'0');
        sum += u32::from(score - b'0');
        pairs += 1;
    }
    if pairs < 4 {
        return false;
    }
    // An English word, or an identifier made of words, averages above 6; random letters about 4.
    sum * 10 < pairs.saturating_mul(GIBBERISH_BELOW)
}

/// Row: a letter; column: the letter after it; from 0 (hardly ever) to 9 on a logarithmic scale. Counted over the words
/// of several hundred README files of Rust crates.
const BIGRAMS: [&str; 26] = [
    "26762453615867160778553353",
    "84548233733843730774730052",
    "71538227607631841657610141",
    "74369453832644731663643240",
    "63785552412668354886354631",
    "74448730920743800656703250",
    "71439567700656721863714343",
    "84338322802554831646602050",
    "65766560013669752577261405",
    "82658266626424842472855424",
    "73459543833646652585634330",
    "73368430834733740066641172",
    "86448321822462781263623242",
    "73777583724435640278552141",
    "55663452535678660866766422",
    "83448346723742770867621141",
    "22242222222844222222925224",
    "83559442815465740576643060",
    "62638327704554664378724150",
    "72538336801542730776624161",
    "66656552602778460787311303",
    "82429230800330700033320343",
    "80338047803507830765333343",
    "64748416811563581138434551",
    "66657444703667680586445405",
    "75449144715451641441611366",
];
