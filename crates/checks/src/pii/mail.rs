//! E-mail addresses. In: a text. Out: addresses of people; role mailboxes and authors of commits as info. Logins to
//! hosts, package versions and reserved domains are not addresses.

use memchr::memmem;

use super::PersonalFinding;
use crate::word_lists;
use umbra_domain::Severity;

/// File endings that look like a country's domain.
const FILES: &[&str] = &["js", "ts", "py", "md", "rb", "go", "hs"];

/// Most lines of a copyright notice that names its authors.
const NOTICE: usize = 6;

/// Adds addresses in disguise: `jane [at] posteo [dot] de`, `jane(at)posteo.de`; and in the parameters of a URL,
/// `jane%40posteo.de`.
fn find_veiled(text: &str, found: &mut Vec<PersonalFinding>) {
    for sign in ["[at]", "(at)", " AT ", "%40"] {
        for at in memmem::find_iter(text.as_bytes(), sign) {
            let before = text.get(..at).unwrap_or_default();
            let before = before.strip_suffix(' ').unwrap_or(before);
            let own = before.bytes().rev().take(65);
            let local = own.take_while(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(byte)).count();
            let start = before.len() - local;
            let name = before.get(start..).unwrap_or_default();
            let role = word_lists::lists("role_mailboxes", &name.to_ascii_lowercase()) || is_machine(name);
            let (domain, end) = veiled_domain(text, at + sign.len());
            if local > 1 && !role && is_mail_domain(&domain) {
                found.push(PersonalFinding::new("email", "a person's e-mail address", Severity::Warning, start..end));
            }
        }
    }
}

/// Returns the domain that begins at a place, with words for its points, and its end.
fn veiled_domain(text: &str, from: usize) -> (String, usize) {
    const POINTS: [&str; 6] = [" [dot] ", "[dot]", " (dot) ", "(dot)", " DOT ", "."];
    let mut domain = String::new();
    let mut end = from + usize::from(text.get(from..).is_some_and(|rest| rest.starts_with(' ')));
    loop {
        let rest = text.get(end..).unwrap_or_default();
        let label = rest.bytes().take(63).take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'-').count();
        let (own, behind) = rest.split_at(label);
        domain.push_str(own);
        end += label;
        let point = POINTS.iter().find(|point| behind.starts_with(**point)).filter(|point| {
            behind.as_bytes().get(point.len()).is_some_and(u8::is_ascii_alphanumeric) && label > 0 && domain.len() < 254
        });
        let Some(point) = point else { return (domain, end) };
        domain.push('.');
        end += point.len();
    }
}

pub(super) fn find(text: &str, found: &mut Vec<PersonalFinding>) {
    find_veiled(text, found);
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, _) in text.match_indices('@') {
        let local = bytes.get(from..at).unwrap_or_default();
        let local = local.iter().rev().take(65).take_while(|byte| is_local(**byte)).count();
        let domain = bytes.get(at + 1..).unwrap_or_default();
        let domain = domain.iter().take(254).take_while(|byte| is_domain(**byte)).count();
        let end = at + 1 + domain;
        let domain = text.get(at + 1..end).unwrap_or_default().trim_end_matches(['.', '-']);
        let start = at - local;
        let name = text.get(start..at).unwrap_or_default();
        let trimmed = name.trim_start_matches(['.', '\'', '-', '+', '/', '=', '*', '`', '&', '#', '!', '$', '?', '{']);
        let span = at - trimmed.len()..at + 1 + domain.len();
        from = at + 1;
        if (1..=64).contains(&trimmed.len())
            && !trimmed.ends_with('.')
            && is_mail_domain(domain)
            && !is_login(text, span.start, span.end)
        {
            let role = word_lists::lists("role_mailboxes", &trimmed.to_ascii_lowercase()) || is_machine(trimmed);
            let public = role || is_published(text, span.start);
            let (title, severity) = match (role, public) {
                (true, _) => ("a role address such as `info@`", Severity::Info),
                (_, true) => ("the e-mail address of an author", Severity::Info),
                _ => ("a person's e-mail address", Severity::Warning),
            };
            found.push(PersonalFinding::new("email", title, severity, span));
        }
    }
}

fn is_local(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(&byte) || byte >= 0x80
}

fn is_domain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')
}

/// True for a domain that can receive mail and is not reserved for examples (RFC 2606, RFC 6761).
fn is_mail_domain(domain: &str) -> bool {
    let domain = domain.to_ascii_lowercase();
    let Some((rest, tld)) = domain.rsplit_once('.') else { return false };
    let labels = rest.split('.').all(|label| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-'));
    let country = tld.len() == 2 && tld.bytes().all(|b| b.is_ascii_alphabetic()) && !FILES.contains(&tld);
    let second = rest.rsplit('.').next().unwrap_or(rest);
    let reserved =
        matches!(second, "example" | "test" | "yourdomain" | "yourcompany" | "mycompany" | "company" | "domain")
            || domain.ends_with("noreply.github.com")
            || domain.ends_with("gserviceaccount.com");
    labels && !reserved && (country || word_lists::lists("mail_domains", tld) || tld.starts_with("xn--"))
}

/// True for a login: `ssh root@host`, `git@host:path`, `https://user@host`.
fn is_login(text: &str, start: usize, end: usize) -> bool {
    let before = text.get(..start).unwrap_or_default();
    let tail = before.get(before.floor_char_boundary(before.len().saturating_sub(80))..).unwrap_or_default();
    let word = tail.rsplit(char::is_whitespace).next().unwrap_or_default();
    let after = text.as_bytes().get(end..).unwrap_or_default();
    let path =
        after.first() == Some(&b':') && after.get(1).is_some_and(|b| b.is_ascii_alphanumeric() || b"/~.".contains(b));
    let line = tail.rsplit('\n').next().unwrap_or_default();
    let command = line.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`'));
    (word.contains("://") && !word.contains('?'))
        || path
        || command.into_iter().any(|word| matches!(word, "ssh" | "scp" | "rsync" | "sftp" | "mosh" | "ssh-copy-id"))
}

/// True for mailboxes of machines: `ci-bot`, `build+noreply`, `0123456789abcdef0123`.
fn is_machine(local: &str) -> bool {
    let words = local.split(['.', '-', '_', '+']);
    words.into_iter().any(|word| {
        ["bot", "noreply", "reply", "ci", "alerts", "daemon"].iter().any(|name| word.eq_ignore_ascii_case(name))
    })
}

/// True if the line, or the lines right before it, name an author, as at the head of a source file.
fn is_published(text: &str, start: usize) -> bool {
    const NEAR: usize = 400;
    let before = text.get(..start).unwrap_or_default();
    let before = before.get(before.floor_char_boundary(before.len().saturating_sub(NEAR))..).unwrap_or_default();
    let mut lines = before.rsplit('\n').map(str::to_ascii_lowercase);
    let own = lines.next().unwrap_or_default();
    let bare = |line: &str| line.trim_start_matches([' ', '\t', '*', '#', '/', '-', ';']).to_owned();
    let notice = |line: String| line.starts_with("(c) ") || line.contains("copyright");
    word_lists::lines("published_addresses").any(|word| own.contains(word))
        || notice(bare(&own))
        || lines.map(|line| bare(&line)).take_while(|line| !line.is_empty()).take(NOTICE).any(notice)
}
