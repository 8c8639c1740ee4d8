//! Tests of tokens that are broken, escaped or encoded: the whole disguise is redacted, and nothing else.

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::redact;

/// An invented token of a provider's format; the compiler joins its parts.
const TOKEN: &str = concat!("dop_v1_", "4f2a9c1e7d6b5a4938271605f4e3d2c1", "b0a998874f2a9c1e7d6b5a4938271605");

#[test]
fn token_split_by_quotes_or_line_ends_is_redacted_whole() {
    let (head, tail) = TOKEN.split_at(20);
    for (before, broken, after) in [
        ("const t = '", format!("{head}' + '{tail}"), "';"),
        ("t = (\"", format!("{head}\"\n     \"{tail}"), "\")"),
        ("export T=", format!("{head}\"\"{tail}"), " # deploy"),
        ("$t = '", format!("{head}' . '{tail}"), "';"),
        ("token: >-\n  ", format!("{head}\n  {tail}"), "\nname: x"),
        ("it is ", format!("{head}\r\n{tail}"), " there"),
        ("run ", format!("{head}\\\n{tail}"), "\nand go on"),
        ("const t = '", format!("dop_v1_' + '{}' + '{tail}", &head[7..]), "'"),
    ] {
        let cleaned = redact(&format!("{before}{broken}{after}"));
        assert_eq!(cleaned.as_str(), format!("{before}[secret:digitalocean_token]{after}"), "{broken}");
        assert_eq!(redact(cleaned.as_str()), cleaned);
    }
}

#[test]
fn continuation_of_a_complete_token_is_redacted_with_it() {
    let (head, tail) = (concat!("sk_live_", "4eC39HqLyjWDarjt"), "T1zdp7dcQm8Zr1Lm");
    for broken in [format!("'{head}' + '{tail}'"), format!("'{head}\n  {tail}'")] {
        assert_eq!(redact(&broken).as_str(), "'[secret:stripe_live_key]'", "{broken}");
    }
    for (before, after) in [("", " T1zdp7dcQm8Zr1Lm"), ("", "\nPORT2=8080"), ("'", "', 'T1zdp7dcQm8Zr1Lm'")] {
        let text = format!("{before}{head}{after}");
        assert_eq!(redact(&text).as_str(), format!("{before}[secret:stripe_live_key]{after}"));
    }
}

#[test]
fn text_after_an_incomplete_token_is_kept() {
    for text in [
        "it begins with sk_live_4eC39H\nand the rest is in the vault",
        "'sk_live_' + account.key",
        "\"api-\" + \"name\" + \"of the thing\"",
        "see sk_live_\n4eC39HqLyjWDarjt",
    ] {
        assert_eq!(redact(text).as_str(), text);
    }
}

#[test]
fn escaped_or_encoded_token_is_redacted() {
    let escape = |escape: &dyn Fn(u8) -> String| TOKEN.bytes().map(escape).collect::<String>();
    let wide = |byte: u8| char::from_u32(u32::from(byte) + 0xfee0).map_or_else(String::new, String::from);
    for escaped in [
        escape(&|byte| format!("%{byte:02X}")),
        escape(&|byte| format!("%{byte:02x}")),
        escape(&|byte| format!("&#{byte};")),
        escape(&|byte| format!("&#x{byte:x};")),
        escape(&|byte| format!("\\x{byte:02x}")),
        escape(&|byte| format!("\\u{byte:04x}")),
        escape(&|byte| format!("{byte:02x}")),
        escape(&wide),
        BASE64_STANDARD.encode(TOKEN),
        BASE64_STANDARD.encode(BASE64_STANDARD.encode(TOKEN)),
    ] {
        for before in ["", "take ", "in a sentence of some length before it, é, take "] {
            let cleaned = redact(&format!("{before}{escaped} from there"));
            assert_eq!(cleaned.as_str(), format!("{before}[secret:digitalocean_token] from there"), "{escaped}");
        }
    }
}

#[test]
fn escaped_text_without_a_credential_is_kept() {
    for text in [
        "%E4%BD%A0%E5%A5%BD%E4%B8%96%E7%95%8C%E4%BD%A0%E5%A5%BD%E4%B8%96%E7%95%8C",
        "&#20320;&#22909;&#19990;&#30028;&#20320;&#22909;&#19990;&#30028;",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "6768705f206e6f7420612073656372657420617420616c6c206e6f7065",
    ] {
        assert_eq!(redact(text).as_str(), text);
    }
}

#[test]
fn seed_phrases_are_redacted_and_prose_about_them_is_not() {
    let words = "gravity machine north sort system female filter attitude volume fold club stay";
    assert_eq!(redact(&format!("seed phrase: {words}\n")).as_str(), "seed phrase: [secret:seed_phrase]\n");
    let prose = "seed phrase: twelve short words that only the owner should know and never share";
    assert_eq!(redact(prose).as_str(), prose);
}
