//! Addresses of Bitcoin wallets, by which all that their owner pays and receives can be followed. In: a word. Out: whether
//! it is one: base58 with the check of its double hash, or Bech32 with its own (BIP 173, BIP 350).

use sha2::{Digest, Sha256};

/// Whether a word is an address whose check holds.
pub(super) fn is_address(word: &str) -> bool {
    match word.as_bytes() {
        [b'1' | b'3', ..] if (26..=35).contains(&word.len()) => is_base58(word),
        [b'b' | b'B', b'c' | b'C', b'1', data @ ..] if matches!(word.len(), 42 | 62) => is_bech32(data),
        _ => false,
    }
}

/// Version, hash and the first four bytes of both hashed twice.
fn is_base58(word: &str) -> bool {
    const DIGITS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut bytes = [0_u8; 25];
    for byte in word.bytes() {
        let Some(digit) = DIGITS.iter().position(|digit| *digit == byte) else { return false };
        let mut carry = digit;
        for place in bytes.iter_mut().rev() {
            carry += usize::from(*place) * 58;
            *place = u8::try_from(carry & 0xff).unwrap_or_default();
            carry >>= 8;
        }
        if carry != 0 {
            return false;
        }
    }
    let (payload, check) = bytes.split_at(21);
    let twice = Sha256::digest(Sha256::digest(payload));
    matches!(payload.first(), Some(0 | 5)) && twice.get(..4) == Some(check)
}

/// The polynomial of `bc` and the data is 1 for version 0, and the constant of Bech32m for later ones.
fn is_bech32(data: &[u8]) -> bool {
    const DIGITS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    const GENERATORS: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let lower = data.iter().all(|byte| !byte.is_ascii_uppercase());
    let upper = data.iter().all(|byte| !byte.is_ascii_lowercase());
    let mut values = vec![3, 3, 0, 2, 3];
    for byte in data {
        match DIGITS.iter().position(|digit| *digit == byte.to_ascii_lowercase()).and_then(|at| u32::try_from(at).ok())
        {
            Some(value) => values.push(value),
            None => return false,
        }
    }
    let sum = values.iter().fold(1_u32, |sum, value| {
        let top = sum >> 25;
        let next = (sum & 0x01ff_ffff) << 5 ^ value;
        GENERATORS.iter().enumerate().filter(|(bit, _)| top >> bit & 1 == 1).fold(next, |next, (_, part)| next ^ part)
    });
    let expected = if values.get(5) == Some(&0) { 1 } else { 0x2bc8_30a3 };
    (lower || upper) && sum == expected
}
