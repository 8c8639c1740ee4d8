//! Fits texts into a budget of characters: whole if they fit, else head, tail and every part that a check marked.
//! In: texts, marked places, a budget. Out: excerpts that state in place what was left out. Never: more than the
//! budget (the notices apart, of which there are at most [`MAX_WINDOWS`] + 1 for each text).

use std::ops::Range;

use umbra_domain::Severity;

/// Most separate marked parts kept of one text.
pub(super) const MAX_WINDOWS: usize = 24;
/// Longest notice, in bytes.
pub(super) const NOTICE_BYTES: usize = 64;
/// Characters kept before and after a marked part, most first: the widest context that fits is taken.
const CONTEXTS: [usize; 4] = [200, 80, 20, 0];
/// Most characters kept of one marked part.
const MARK_CHARS: usize = 400;

/// A text cut to its budget.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// Text that is shown, with a notice wherever something is left out.
    pub text: String,
    /// Characters that are not shown.
    pub omitted: usize,
}

/// Shares a budget among texts of these lengths: small ones get all they need, the rest is split evenly.
pub(super) fn share(lengths: &[usize], budget: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&index| lengths.get(index));
    let mut shares = vec![0; lengths.len()];
    let mut left = budget;
    for (done, index) in order.into_iter().enumerate() {
        let fair = left / (lengths.len() - done);
        if let (Some(share), Some(&length)) = (shares.get_mut(index), lengths.get(index)) {
            *share = length.min(fair);
            left -= *share;
        }
    }
    shares
}

/// Cuts `text` to `budget` characters. `marks` returns byte ranges of it, and is called only if the text must be cut.
pub(super) fn excerpt(text: &str, budget: usize, marks: impl FnOnce() -> Vec<(Severity, Range<usize>)>) -> Excerpt {
    let total = text.chars().count();
    if total <= budget {
        return Excerpt { text: text.to_owned(), omitted: 0 };
    }
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let in_chars = |bytes: Range<usize>| {
        let first = starts.partition_point(|&at| at < bytes.start);
        let last = starts.partition_point(|&at| at < bytes.end).min(first + MARK_CHARS);
        first..last.max(first)
    };
    let mut marks: Vec<_> = marks().into_iter().map(|(severity, bytes)| (severity, in_chars(bytes))).collect();
    marks.sort_by_key(|(severity, chars)| (std::cmp::Reverse(*severity), chars.start));

    let mut kept = windows(&marks, total, budget - budget / 4);
    let rest = budget - covered(&kept);
    let tail = rest * 2 / 5;
    kept.extend([0..rest - tail, total - tail..total]);
    join(text, &starts, &merge(kept))
}

/// Returns the marked parts (worst first) with the widest context at which all fit; else as many as fit without
/// context.
fn windows(marks: &[(Severity, Range<usize>)], total: usize, budget: usize) -> Vec<Range<usize>> {
    let fits = |kept: &[Range<usize>]| kept.len() <= MAX_WINDOWS && covered(kept) <= budget;
    for context in CONTEXTS {
        let widen = |mark: &Range<usize>| mark.start.saturating_sub(context)..(mark.end + context).min(total);
        let all = merge(marks.iter().map(|(_, mark)| widen(mark)).collect());
        if fits(&all) {
            return all;
        }
    }
    let mut kept = Vec::new();
    for (_, mark) in marks {
        let mut more = kept.clone();
        more.push(mark.clone());
        let more = merge(more);
        if fits(&more) {
            kept = more;
        }
    }
    kept
}

fn covered(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

/// Sorts ranges and joins those that touch; empty ones are dropped.
fn merge(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

fn join(text: &str, starts: &[usize], kept: &[Range<usize>]) -> Excerpt {
    let byte = |char: usize| starts.get(char).copied().unwrap_or(text.len());
    let mut out = Excerpt { text: String::new(), omitted: 0 };
    let leave_out = |out: &mut Excerpt, chars: usize| {
        if chars > 0 {
            out.omitted += chars;
            out.text.extend(["[… ", &grouped(chars), " characters left out …]"]);
        }
    };
    let mut shown_to = 0;
    for range in kept {
        leave_out(&mut out, range.start - shown_to);
        out.text.push_str(text.get(byte(range.start)..byte(range.end)).unwrap_or_default());
        shown_to = range.end;
    }
    leave_out(&mut out, starts.len() - shown_to);
    out
}

/// Formats a number with commas between thousands.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
