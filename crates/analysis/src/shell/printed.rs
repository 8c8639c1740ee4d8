//! Output of a pipeline, where its text alone determines it. In: commands. Out: the output of the last one. Known are
//! programs that print their arguments, and programs that undo an encoding, which can hide a command. Nothing is run.

use base64::{Engine, alphabet, engine};

use super::{
    parse::{LONGEST_SCRIPT, ShellCommand, Word},
    words::unescape,
};

/// Lenient base64: commands are hidden in texts without padding, or with trailing bits.
const BASE64: engine::GeneralPurpose = engine::GeneralPurpose::new(
    &alphabet::STANDARD,
    engine::GeneralPurposeConfig::new()
        .with_decode_padding_mode(engine::DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Returns the output of a whole pipeline; `None` where it is not known.
pub fn pipeline_output(pipeline: &[ShellCommand]) -> Option<String> {
    let mut printed = None;
    for command in pipeline {
        printed = Some(next(command, printed.as_deref())?);
    }
    printed
}

/// Returns the output of a command that reads `input`; `None` where it is not known.
pub(super) fn next(command: &ShellCommand, input: Option<&str>) -> Option<String> {
    let (program, args) = command.words.split_first()?;
    let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    let input = input.or(command.given.as_deref());
    let says = |options: &[&str]| texts.iter().any(|arg| options.contains(arg));
    let printed = match program.text.rsplit('/').next()? {
        "echo" | "write-output" => echoed(args),
        "printf" => formatted(&texts),
        "cat" | "tee" if args.iter().all(|arg| matches!(arg.text.as_str(), "-" | "-a") || program.text == "tee") => {
            input?.to_owned()
        }
        "mktemp" => "/tmp/mktemp".to_owned(),
        "pwd" => ".".to_owned(),
        "which" | "type" => (*texts.last()?).to_owned(),
        "command" if says(&["-v"]) => (*texts.last()?).to_owned(),
        "rev" => input?.trim_end().chars().rev().collect(),
        "base64" if says(&["-d", "-D", "--decode", "-di"]) => decoded(input?)?,
        "openssl" if says(&["base64", "-base64", "-a"]) && says(&["-d"]) => decoded(input?)?,
        "xxd" if texts.iter().any(|arg| arg.starts_with("-r")) => unhexed(input?)?,
        _ => return None,
    };
    (printed.len() <= LONGEST_SCRIPT).then_some(printed)
}

fn echoed(args: &[Word]) -> String {
    let is_option = |arg: &&Word| matches!(arg.text.as_str(), "-e" | "-n" | "-E" | "-ne" | "-en");
    let options = args.iter().take_while(is_option).count();
    let escapes = args.iter().take(options).any(|arg| arg.text.contains('e'));
    let text = args.iter().skip(options).map(|arg| arg.text.as_str()).collect::<Vec<_>>().join(" ");
    if escapes { unescape(&text) } else { text }
}

fn formatted(texts: &[&str]) -> String {
    let Some((format, values)) = texts.split_first() else { return String::new() };
    if !format.contains('%') {
        return unescape(format);
    }
    let mut values = values.iter();
    let mut out = String::new();
    let mut pieces = format.split('%');
    out.push_str(&unescape(pieces.next().unwrap_or_default()));
    for piece in pieces {
        let rest = match piece.chars().next() {
            Some('s' | 'b' | 'q') => {
                out.push_str(&unescape(values.next().copied().unwrap_or_default()));
                piece.get(1..).unwrap_or_default()
            }
            _ => piece,
        };
        out.push_str(&unescape(rest));
    }
    // The format is used again for the remaining values.
    for value in values {
        out.push(' ');
        out.push_str(value);
    }
    out
}

fn decoded(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    String::from_utf8(BASE64.decode(text).ok()?).ok()
}

fn unhexed(text: &str) -> Option<String> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).filter_map(|d| u8::try_from(d).ok()).collect();
    let bytes = digits.chunks_exact(2).filter_map(|pair| match pair {
        [high, low] => Some(high * 16 + low),
        _ => None,
    });
    String::from_utf8(bytes.collect()).ok()
}
