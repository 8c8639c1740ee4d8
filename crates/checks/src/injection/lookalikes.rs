//! Look-alikes of letters. In: a character. Out: the small Latin letter that a reader sees in it.

/// Stands for a character that looks like an `i` and like an `l`.
pub(super) const EITHER: u8 = b'1';

/// Returns the letter that a character looks like: of digits and signs, of full-width and mathematical letters, of
/// Cyrillic, Greek and accented Latin (Unicode Technical Standard 39, confusables, as far as whole alphabets go).
pub(super) fn skeleton(c: char) -> Option<u8> {
    Some(match c {
        'a'..='z' => c as u8,
        'A'..='Z' => (c as u8).to_ascii_lowercase(),
        '0' | 'о' | 'О' | 'ο' | 'Ο' | 'ό' | 'ö' | 'ó' | 'ò' | 'ô' | 'õ' | 'ø' | 'օ' => b'o',
        '1' => EITHER,
        'і' | 'І' | 'ї' | 'ι' | 'Ι' | 'í' | 'ì' | 'î' | 'ï' | 'ı' => b'i',
        '3' | 'е' | 'Е' | 'ё' | 'ε' | 'Ε' | 'é' | 'è' | 'ê' | 'ë' | 'ҽ' => b'e',
        '4' | '@' | 'а' | 'А' | 'α' | 'Α' | 'á' | 'à' | 'â' | 'ä' | 'ã' | 'å' => b'a',
        '5' | '$' | 'ѕ' | 'Ѕ' | 'ś' | 'š' | 'ş' | 'ꜱ' => b's',
        '7' | 'т' | 'Т' | 'τ' | 'Τ' | 'ţ' => b't',
        '8' | 'в' | 'В' | 'Β' | 'β' => b'b',
        '9' | 'ɡ' | 'ց' | 'ğ' => b'g',
        'с' | 'С' | 'ç' | 'ć' | 'č' | 'ϲ' => b'c',
        'р' | 'Р' | 'ρ' | 'Ρ' => b'p',
        'у' | 'У' | 'γ' | 'υ' | 'ý' | 'ÿ' => b'y',
        'ѵ' | 'ν' => b'v',
        'к' | 'К' | 'κ' | 'Κ' => b'k',
        'м' | 'М' | 'Μ' => b'm',
        'н' | 'Н' | 'Η' => b'h',
        'п' | 'η' | 'ñ' | 'ո' | 'Ν' => b'n',
        'г' | 'ř' => b'r',
        'ú' | 'ù' | 'û' | 'ü' | 'ս' => b'u',
        'ԁ' | 'ɗ' => b'd',
        'ӏ' | 'ł' | 'ⅼ' => b'l',
        'ԝ' | 'ω' => b'w',
        // Full-width, circled and mathematical alphabets, each in the order of the letters.
        '\u{ff21}'..='\u{ff3a}' => nth(c, 0xff21),
        '\u{ff41}'..='\u{ff5a}' => nth(c, 0xff41),
        '\u{24b6}'..='\u{24cf}' => nth(c, 0x24b6),
        '\u{24d0}'..='\u{24e9}' => nth(c, 0x24d0),
        '\u{1d400}'..='\u{1d6a3}' => nth(c, 0x1d400),
        _ => return None,
    })
}

fn nth(c: char, first: u32) -> u8 {
    u8::try_from((u32::from(c) - first) % 26).map_or(b'a', |n| b'a' + n)
}
