//! Removal of characters that a reader cannot see or that change what is shown. In: any text. Out: the text without
//! them, and the removals by kind. Visible characters stay, and so do joiners where a script or an emoji needs them. A
//! second run changes nothing.

use std::borrow::Cow;

use umbra_domain::Severity;

/// A kind of hidden character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HiddenCharacterKind {
    /// Tag characters (U+E0000 block), which spell invisible ASCII.
    Tags,
    /// Controls of writing direction, which reorder the shown text (CVE-2021-42574).
    Bidi,
    /// Characters without width: spaces, joiners, fillers, selectors out of place.
    ZeroWidth,
    /// Terminal escape sequences.
    Ansi,
    /// Other C0 and C1 controls.
    Control,
}

impl HiddenCharacterKind {
    const ALL: [Self; 5] = [Self::Tags, Self::Bidi, Self::ZeroWidth, Self::Ansi, Self::Control];

    /// The rule's name.
    pub(super) fn rule(self) -> &'static str {
        match self {
            Self::Tags => "hidden_text",
            Self::Bidi => "bidi_control",
            Self::ZeroWidth => "zero_width",
            Self::Ansi => "ansi_escape",
            Self::Control => "control_character",
        }
    }

    /// Returns the sentence of a finding.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Tags => "Contains text hidden in invisible Unicode tag characters; Umbra removed it.",
            Self::Bidi => "Contains direction controls that reorder the displayed text; Umbra removed them.",
            Self::ZeroWidth => "Contains invisible zero-width characters; Umbra removed them.",
            Self::Ansi => "Contains terminal escape sequences; Umbra removed them.",
            Self::Control => "Contains control characters; Umbra removed them.",
        }
    }

    /// Returns the severity: colors in captured terminal output are ordinary, all other kinds are not.
    pub(super) fn severity(self) -> Severity {
        if self == Self::Ansi { Severity::Info } else { Severity::Warning }
    }
}

/// Removals from a text: the first place of each kind, as a byte offset into the cleaned text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Removed(pub(super) Vec<(HiddenCharacterKind, usize)>);

impl Removed {
    fn note(&mut self, kind: HiddenCharacterKind, at: usize) {
        if !self.0.iter().any(|(known, _)| *known == kind) {
            self.0.push((kind, at));
        }
    }
}

/// Returns the text without hidden characters, borrowed when there were none.
pub(super) fn clean(text: &str) -> (Cow<'_, str>, Removed) {
    let mut removed = Removed::default();
    let mut out = String::new();
    let mut copied = 0;
    let mut from = 0;
    while let Some((at, c)) = next_hidden(text, from) {
        if out.capacity() == 0 {
            out.reserve(text.len());
        }
        let (kept, rest) = text.split_at(at);
        out.push_str(kept.get(copied..).unwrap_or_default());
        let step = step(c, rest, &out);
        from = at + step.len;
        copied = if let Some(kind) = step.kind {
            removed.note(kind, out.len());
            from
        } else {
            at
        };
    }
    if removed.0.is_empty() {
        return (Cow::Borrowed(text), removed);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    removed.0.sort_by_key(|(kind, _)| HiddenCharacterKind::ALL.iter().position(|k| k == kind));
    (Cow::Owned(out), removed)
}

/// Finds the next character, from a place on, that may have to be removed.
fn next_hidden(text: &str, from: usize) -> Option<(usize, char)> {
    let mut start = from;
    for chunk in text.as_bytes().get(from..)?.chunks(64) {
        if may_hide(chunk) {
            let suspects = chunk.iter().enumerate().filter(|(_, byte)| SUSPECT[usize::from(**byte)]);
            let mut chars = suspects.filter_map(|(at, _)| Some((start + at, text.get(start + at..)?.chars().next()?)));
            if let Some(hidden) = chars.find(|(_, c)| looks_hidden(*c)) {
                return Some(hidden);
            }
        }
        start += chunk.len();
    }
    None
}

/// Decision on the next bytes: keep them (`None`) or remove them.
struct Step {
    len: usize,
    kind: Option<HiddenCharacterKind>,
}

fn step(c: char, rest: &str, before: &str) -> Step {
    let one = |kind| Step { len: c.len_utf8(), kind };
    let next = rest.chars().nth(1);
    match c {
        '\n' | '\t' | '\r' => one(None),
        '\u{1b}' => Step { len: escape_len(rest), kind: Some(HiddenCharacterKind::Ansi) },
        '\u{9b}' => Step {
            len: c.len_utf8() + csi_len(rest.get(2..).unwrap_or_default()),
            kind: Some(HiddenCharacterKind::Ansi),
        },
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => one(Some(HiddenCharacterKind::Control)),
        '\u{e0000}'..='\u{e0fff}' => {
            if let Some(len) = flag_len(before, rest) {
                return Step { len, kind: None };
            }
            let selector = ('\u{e0100}'..='\u{e01ef}').contains(&c);
            if selector && before.chars().next_back().is_some_and(is_ideograph) {
                one(None)
            } else {
                one(Some(if selector { HiddenCharacterKind::ZeroWidth } else { HiddenCharacterKind::Tags }))
            }
        }
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => one(Some(HiddenCharacterKind::Bidi)),
        // Direction marks are part of ordinary Arabic and Hebrew text.
        '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            // They stand beside digits, brackets and Latin names, but never within an ASCII word.
            const NEAR: usize = 24;
            let amid = before.ends_with(|c: char| c.is_ascii_alphanumeric())
                && next.is_some_and(|c| c.is_ascii_alphanumeric());
            let near = before.chars().rev().take(NEAR).any(is_rtl) || rest.chars().skip(1).take(NEAR).any(is_rtl);
            one((!near || amid).then_some(HiddenCharacterKind::Bidi))
        }
        '\u{200c}' | '\u{200d}' => {
            let previous = before.chars().next_back();
            let script = previous.is_some_and(joins) && next.is_some_and(joins);
            let emoji = c == '\u{200d}' && previous.is_some_and(ends_emoji) && next.is_some_and(is_emoji);
            one((!script && !emoji).then_some(HiddenCharacterKind::ZeroWidth))
        }
        '\u{fe00}'..='\u{fe0f}' => {
            let fits = before.chars().next_back().is_some_and(|p| is_emoji(p) || is_ideograph(p) || is_keycap(p));
            one((!fits).then_some(HiddenCharacterKind::ZeroWidth))
        }
        _ if is_invisible(c) => one(Some(HiddenCharacterKind::ZeroWidth)),
        _ => one(None),
    }
}

/// True if bytes may hold a hidden character. Plain ASCII is recognized without branches, sixteen bytes at a time.
fn may_hide(chunk: &[u8]) -> bool {
    let plain = |byte: u8| matches!(byte, 0x20..=0x7e | b'\n' | b'\t' | b'\r');
    let odd = chunk.iter().fold(false, |odd, byte| odd | !plain(*byte));
    odd && chunk.iter().any(|byte| SUSPECT[usize::from(*byte)])
}

/// First UTF-8 bytes of all characters that may have to be removed.
static SUSPECT: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte < 0x20 && byte != 0x0a && byte != 0x09 && byte != 0x0d)
            || matches!(byte, 0x7f | 0xc2 | 0xcd | 0xd8 | 0xe1 | 0xe2 | 0xe3 | 0xef | 0xf3);
        byte += 1;
    }
    table
};

fn looks_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{61c}'
        | '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}')
        || is_invisible(c)
}

/// True for characters that show nothing and that no ordinary text needs.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'
        | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}')
}

/// Returns the length of an escape sequence that starts with ESC (ECMA-48: CSI, OSC and other strings, two-byte forms).
fn escape_len(rest: &str) -> usize {
    let body = rest.get(1..).unwrap_or_default();
    match body.bytes().next() {
        Some(b'[') => 2 + csi_len(body.get(1..).unwrap_or_default()),
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            // A terminal string ends with BEL or ESC \; without an end within 256 bytes it is no sequence.
            let end = body.bytes().take(256).position(|b| b == 0x07 || b == 0x1b || b == b'\n');
            match end.map(|at| (at, body.as_bytes().get(at).copied(), body.as_bytes().get(at + 1).copied())) {
                Some((at, Some(0x07), _)) => 1 + at + 1,
                Some((at, Some(0x1b), Some(b'\\'))) => 1 + at + 2,
                _ => 2,
            }
        }
        Some(b'(' | b')' | b'#') => 2 + usize::from(body.as_bytes().get(1).is_some_and(u8::is_ascii_alphanumeric)),
        Some(0x30..=0x7e) => 2,
        _ => 1,
    }
}

/// Returns the length of the parameters and the final byte of a control sequence.
fn csi_len(body: &str) -> usize {
    let parameters = body.bytes().take(64).take_while(|b| (0x20..0x40).contains(b)).count();
    parameters + usize::from(body.as_bytes().get(parameters).is_some_and(|b| (0x40..0x7f).contains(b)))
}

/// Returns the length of the tags that turn a black flag into one of the three regional flags that Unicode recommends.
fn flag_len(before: &str, rest: &str) -> Option<usize> {
    const REGIONS: [&str; 3] = [
        "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        "\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
        "\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
    ];
    let tags = REGIONS.iter().find(|tags| rest.starts_with(**tags))?;
    before.ends_with('\u{1f3f4}').then_some(tags.len())
}

fn is_emoji(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2100}'..='\u{2bff}' | '\u{3030}' | '\u{303d}'
        | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

fn ends_emoji(c: char) -> bool {
    is_emoji(c) || c == '\u{fe0f}' || c == '\u{e007f}'
}

fn is_keycap(c: char) -> bool {
    c.is_ascii_digit() || c == '#' || c == '*'
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{1820}'..='\u{18aa}' | '\u{3000}'..='\u{303f}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{ff01}'..='\u{ff60}' | '\u{20000}'..='\u{3ffff}')
}

/// True for letters and marks of scripts that use joiners: Arabic, Syriac, the Brahmic scripts, Khmer, Mongolian.
fn joins(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{60b}' | '\u{610}'..='\u{61b}' | '\u{620}'..='\u{8ff}' | '\u{900}'..='\u{109f}' | '\u{1780}'..='\u{17b3}'
        | '\u{17b6}'..='\u{17ff}' | '\u{1820}'..='\u{18aa}')
}

fn is_rtl(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{61b}' | '\u{61d}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
}
