//! Forms and checks of national identity numbers. In: letters and digits without separators. Out: true for such a
//! number. A check is used where it has a public definition.

use super::cards::luhn;

/// Counts the digits of an id.
pub(super) fn digits_of(id: &str) -> usize {
    id.bytes().filter(u8::is_ascii_digit).count()
}

pub(super) fn is_digits(id: &str, length: usize) -> bool {
    id.len() == length && id.bytes().all(|byte| byte.is_ascii_digit()) && !is_repeated(id)
}

fn is_repeated(id: &str) -> bool {
    id.bytes().skip(1).all(|byte| Some(&byte) == id.as_bytes().first())
}

/// True if an id has a form: `A` stands for a letter, `9` for a digit, `*` for either.
pub(super) fn has_form(id: &str, form: &str) -> bool {
    id.len() == form.len()
        && id.bytes().zip(form.bytes()).all(|(byte, kind)| match kind {
            b'A' => byte.is_ascii_uppercase(),
            b'9' => byte.is_ascii_digit(),
            _ => byte.is_ascii_alphanumeric(),
        })
}

pub(super) fn number(id: &str, at: std::ops::Range<usize>) -> u64 {
    id.get(at).and_then(|part| part.parse().ok()).unwrap_or(u64::MAX)
}

pub(super) fn digit(id: &str, at: usize) -> u32 {
    id.as_bytes().get(at).map_or(99, |byte| u32::from(byte.wrapping_sub(b'0')))
}

fn weighted(id: &str, weights: &[u32]) -> u32 {
    id.bytes().zip(weights).map(|(byte, weight)| u32::from(byte.wrapping_sub(b'0')) * weight).sum()
}

/// True if an id begins with a day and a month.
pub(super) fn day_month(id: &str) -> bool {
    (1..=31).contains(&number(id, 0..2)) && (1..=12).contains(&number(id, 2..4))
}

pub(super) fn us_itin(id: &str) -> bool {
    is_digits(id, 9) && id.starts_with('9') && matches!(number(id, 3..5), 50..=65 | 70..=88 | 90..=92 | 94..=99)
}

pub(super) fn ca_sin(id: &str) -> bool {
    is_digits(id, 9) && !id.starts_with(['0', '8']) && luhn(id)
}

pub(super) fn uk_nhs(id: &str) -> bool {
    let rest = 11 - weighted(id, &[10, 9, 8, 7, 6, 5, 4, 3, 2]) % 11;
    is_digits(id, 10) && rest % 11 == digit(id, 9)
}

pub(super) fn uk_nino(id: &str) -> bool {
    has_form(id, "AA999999A")
        && !id.starts_with(['D', 'F', 'I', 'Q', 'U', 'V'])
        && !id.get(1..2).is_some_and(|second| "DFIOQUV".contains(second))
        && !["BG", "GB", "NK", "KN", "TN", "NT", "ZZ"].iter().any(|never| id.starts_with(never))
        && id.ends_with(['A', 'B', 'C', 'D'])
}

pub(super) fn ie_pps(id: &str) -> bool {
    let second = id.as_bytes().get(8).map_or(0, |byte| u32::from(byte - b'A') + 1);
    let sum = weighted(id, &[8, 7, 6, 5, 4, 3, 2]) + 9 * second;
    let check = b"WABCDEFGHIJKLMNOPQRSTUV".get(sum as usize % 23);
    (has_form(id, "9999999A") || has_form(id, "9999999AA")) && id.as_bytes().get(7) == check
}

pub(super) fn nl_bsn(id: &str) -> bool {
    is_digits(id, 9)
        && (weighted(id, &[9, 8, 7, 6, 5, 4, 3, 2]) + 10 * digit(id, 8)).is_multiple_of(11)
        && id != "123456782"
}

pub(super) fn be_national(id: &str) -> bool {
    let check = number(id, 9..11);
    let of = |prefix: u64| 97 - (prefix * 1_000_000_000 + number(id, 0..9) % 1_000_000_000) % 97;
    is_digits(id, 11) && (of(0) == check || of(2) == check)
}

pub(super) fn de_tax_id(id: &str) -> bool {
    if !is_digits(id, 11) || id.starts_with('0') {
        return false;
    }
    // ISO 7064, MOD 11,10.
    let product = id.bytes().take(10).fold(10, |product, byte| {
        let sum = (u32::from(byte - b'0') + product) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    (11 - product) % 10 == digit(id, 10)
}

/// True for an Austrian number: its check digit is the fourth, between the serial and the date of birth.
pub(super) fn at_svnr(id: &str) -> bool {
    let sum = weighted(id, &[3, 7, 9, 0, 5, 8, 4, 2, 1, 6]) % 11;
    is_digits(id, 10)
        && !id.starts_with('0')
        && sum == digit(id, 3)
        && (1..=31).contains(&number(id, 4..6))
        && (1..=15).contains(&number(id, 6..8))
}

pub(super) fn ch_ahv(id: &str) -> bool {
    let sum = weighted(id, &[1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1]);
    is_digits(id, 13) && id.starts_with("756") && sum.is_multiple_of(10)
}

pub(super) fn es_dni(id: &str) -> bool {
    let numbered = match id.as_bytes().first() {
        Some(first @ b'X'..=b'Z') => format!("{}{}", first - b'X', id.get(1..).unwrap_or_default()),
        _ => id.to_owned(),
    };
    let check = b"TRWAGMYFPDXBNJZSQVHLCKE".get(usize::try_from(number(&numbered, 0..8) % 23).unwrap_or(99));
    has_form(&numbered, "99999999A") && numbered.as_bytes().get(8) == check && id != "12345678Z"
}

pub(super) fn pt_nif(id: &str) -> bool {
    let rest = weighted(id, &[9, 8, 7, 6, 5, 4, 3, 2]) % 11;
    let check = if rest < 2 { 0 } else { 11 - rest };
    is_digits(id, 9) && id.starts_with(['1', '2', '3']) && check == digit(id, 8) && id != "123456789"
}

pub(super) fn it_codice_fiscale(id: &str) -> bool {
    /// Value of a character at an odd place (Decreto ministeriale 12 marzo 1974).
    const ODD: [u32; 26] =
        [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
    if !has_form(id, "AAAAAA99A99A999A") || !id.get(8..9).is_some_and(|month| "ABCDEHLMPRST".contains(month)) {
        return false;
    }
    let value = |byte: u8| if byte.is_ascii_digit() { byte - b'0' } else { byte - b'A' };
    let sum: u32 = id
        .bytes()
        .take(15)
        .enumerate()
        .map(|(at, byte)| {
            let value = value(byte);
            if at % 2 == 0 { ODD.get(usize::from(value)).copied().unwrap_or_default() } else { u32::from(value) }
        })
        .sum();
    id.as_bytes().get(15).is_some_and(|check| u32::from(check - b'A') == sum % 26)
}

pub(super) fn fr_nir(id: &str) -> bool {
    // Corsica's departments are 2A and 2B.
    let plain = id.replacen("2A", "19", 1).replacen("2B", "18", 1);
    let month = number(&plain, 3..5);
    is_digits(&plain, 15)
        && plain.starts_with(['1', '2'])
        && matches!(month, 1..=12 | 20..=42 | 50..=99)
        && 97 - number(&plain, 0..13) % 97 == number(&plain, 13..15)
}

pub(super) fn pl_pesel(id: &str) -> bool {
    let sum = weighted(id, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]);
    let (month, day) = (number(id, 2..4), number(id, 4..6));
    is_digits(id, 11) && sum.is_multiple_of(10) && (1..=12).contains(&(month % 20)) && (1..=31).contains(&day)
}

pub(super) fn se_personnummer(id: &str) -> bool {
    let own = if id.len() == 12 { id.get(2..).unwrap_or_default() } else { id };
    is_digits(own, 10) && (1..=12).contains(&number(own, 2..4)) && luhn(own)
}

pub(super) fn no_fodselsnummer(id: &str) -> bool {
    let first = weighted(id, &[3, 7, 6, 1, 8, 9, 4, 5, 2, 1]);
    let second = weighted(id, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1]);
    is_digits(id, 11) && first.is_multiple_of(11) && second.is_multiple_of(11)
}

pub(super) fn fi_hetu(id: &str) -> bool {
    // The century sign may be a letter; a separator was removed already.
    let digits: String =
        id.chars().enumerate().filter(|(at, c)| !(*at == 6 && c.is_ascii_alphabetic())).map(|(_, c)| c).collect();
    let value = format!("{}{}", digits.get(..6).unwrap_or_default(), digits.get(6..9).unwrap_or_default());
    let check = b"0123456789ABCDEFHJKLMNPRSTUVWXY".get(usize::try_from(number(&value, 0..9) % 31).unwrap_or(99));
    has_form(&digits, "999999999*") && day_month(&digits) && digits.as_bytes().get(9) == check
}

pub(super) fn br_cpf(id: &str) -> bool {
    let check = |weights: &[u32]| match weighted(id, weights) * 10 % 11 {
        10 => 0,
        rest => rest,
    };
    is_digits(id, 11)
        && check(&[10, 9, 8, 7, 6, 5, 4, 3, 2]) == digit(id, 9)
        && check(&[11, 10, 9, 8, 7, 6, 5, 4, 3, 2]) == digit(id, 10)
        && id != "12345678909"
}

pub(super) fn in_aadhaar(id: &str) -> bool {
    is_digits(id, 12) && !id.starts_with(['0', '1']) && verhoeff(id)
}

/// True if Verhoeff's check passes: permutations, and the multiplication of the dihedral group of order ten.
fn verhoeff(id: &str) -> bool {
    const PERMUTATION: [usize; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];
    let times = |a: usize, b: usize| match (a < 5, b < 5) {
        (true, true) => (a + b) % 5,
        (true, false) => 5 + (a + b - 5) % 5,
        (false, true) => 5 + (a - 5 + 5 - b) % 5,
        (false, false) => (a + 5 - b) % 5,
    };
    let sum = id.bytes().rev().enumerate().fold(0, |sum, (place, byte)| {
        let start = usize::from(byte - b'0');
        let value = (0..place % 8).fold(start, |value, _| PERMUTATION.get(value).copied().unwrap_or_default());
        times(sum, value)
    });
    sum == 0
}

pub(super) fn in_pan(id: &str) -> bool {
    // The fourth letter is the kind of holder: P is a person.
    has_form(id, "AAAAA9999A") && id.get(3..4) == Some("P") && id != "ABCPE1234F"
}

pub(super) fn cn_resident_id(id: &str) -> bool {
    // GB 11643: region, date of birth, sequence, and a check of ISO 7064 MOD 11-2.
    let sum = weighted(id, &[7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2]);
    let check = b"10X98765432".get(sum as usize % 11);
    (has_form(id, "999999999999999999") || has_form(id, "99999999999999999A"))
        && (11..=82).contains(&number(id, 0..2))
        && (1900..2100).contains(&number(id, 6..10))
        && (1..=12).contains(&number(id, 10..12))
        && (1..=31).contains(&number(id, 12..14))
        && id.as_bytes().get(17) == check
}

pub(super) fn kr_rrn(id: &str) -> bool {
    is_digits(id, 13)
        && (1..=12).contains(&number(id, 2..4))
        && (1..=31).contains(&number(id, 4..6))
        && (1..=8).contains(&digit(id, 6))
}

pub(super) fn jp_my_number(id: &str) -> bool {
    let rest = weighted(id, &[6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11;
    let check = if rest <= 1 { 0 } else { 11 - rest };
    is_digits(id, 12) && check == digit(id, 11)
}

pub(super) fn sg_nric(id: &str) -> bool {
    let numbered = id.get(1..).unwrap_or_default();
    let shift = if id.starts_with(['T', 'G']) { 4 } else { 0 };
    let sum = weighted(numbered, &[2, 7, 6, 5, 4, 3, 2]) + shift;
    let letters: &[u8; 11] = if id.starts_with(['S', 'T']) { b"JZIHGFEDCBA" } else { b"XWUTRQPNMLK" };
    has_form(id, "A9999999A")
        && id.starts_with(['S', 'T', 'F', 'G'])
        && id.as_bytes().get(8) == letters.get(sum as usize % 11)
}

pub(super) fn au_tfn(id: &str) -> bool {
    is_digits(id, 9) && weighted(id, &[1, 4, 3, 7, 5, 8, 6, 9, 10]).is_multiple_of(11) && id != "123456782"
}

pub(super) fn au_medicare(id: &str) -> bool {
    let own = id.get(..10).unwrap_or_default();
    matches!(id.len(), 10 | 11)
        && is_digits(own, 10)
        && own.starts_with(['2', '3', '4', '5', '6'])
        && weighted(own, &[1, 3, 7, 9, 1, 3, 7, 9]) % 10 == digit(own, 8)
}

pub(super) fn tr_kimlik(id: &str) -> bool {
    let odd: u32 = (0..9).step_by(2).map(|at| digit(id, at)).sum();
    let even: u32 = (1..8).step_by(2).map(|at| digit(id, at)).sum();
    let all: u32 = (0..10).map(|at| digit(id, at)).sum();
    is_digits(id, 11) && !id.starts_with('0') && (odd * 7 + 90 - even) % 10 == digit(id, 9) && all % 10 == digit(id, 10)
}

pub(super) fn mx_curp(id: &str) -> bool {
    has_form(id, "AAAA999999AAAAAA*9")
        && id.get(10..11).is_some_and(|sex| "HMX".contains(sex))
        && (1..=12).contains(&number(id, 6..8))
        && (1..=31).contains(&number(id, 8..10))
}

pub(super) fn cl_rut(id: &str) -> bool {
    let Some((body, check)) = id.split_at_checked(id.len().saturating_sub(1)) else { return false };
    let weights = [2, 3, 4, 5, 6, 7].into_iter().cycle();
    let sum: u32 =
        body.bytes().rev().zip(weights).map(|(byte, weight)| u32::from(byte.wrapping_sub(b'0')) * weight).sum();
    let expected = match 11 - sum % 11 {
        11 => "0".to_owned(),
        10 => "K".to_owned(),
        digit => digit.to_string(),
    };
    (is_digits(body, 7) || is_digits(body, 8)) && check == expected && id != "123456785"
}

pub(super) fn ar_dni(id: &str) -> bool {
    // Seven or eight digits without a check, issued in order: those of living people begin at three million.
    (is_digits(id, 7) || is_digits(id, 8)) && number(id, 0..id.len()) >= 3_000_000 && id != "12345678"
}
