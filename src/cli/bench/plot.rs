//! Plots figures as SVG: F1 of each set with its interval, beside the bag of words.

use std::fmt::Write;

use super::sets::Set;

/// Sizes in pixels.
const LEFT: f64 = 240.0;
const WIDTH: f64 = 480.0;
const ROW: f64 = 46.0;
const TOP: f64 = 56.0;
const RIGHT: f64 = 190.0;

/// Renders the picture, with a legend.
pub(super) fn svg(title: &str, sets: &[Set]) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a number of sets")]
    let bottom = TOP + ROW * sets.len() as f64;
    let (width, height) = (LEFT + WIDTH + RIGHT, bottom + 62.0);
    let x = |share: f64| LEFT + share.clamp(0.0, 1.0) * WIDTH;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" role=\"img\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"16\" font-weight=\"600\" fill=\"#1b1f24\">{title}</text>\n",
        title = escaped(title)
    );
    for tenth in [0.0, 0.2, 0.4, 0.6, 0.8, 1.0] {
        let at = x(tenth);
        let _ = writeln!(
            out,
            "<line x1=\"{at}\" y1=\"{TOP}\" x2=\"{at}\" y2=\"{bottom}\" stroke=\"#d8dde3\"/>\
             <text x=\"{at}\" y=\"{}\" text-anchor=\"middle\" fill=\"#57606a\">{tenth}</text>",
            bottom + 18.0
        );
    }
    let mut middle = TOP + ROW / 2.0;
    for set in sets {
        row(&mut out, set, middle, &x);
        middle += ROW;
    }
    let legend = bottom + 44.0;
    let _ = writeln!(
        out,
        "<rect x=\"{LEFT}\" y=\"{}\" width=\"22\" height=\"12\" fill=\"#2f6fb3\"/>\
         <text x=\"{}\" y=\"{legend}\" fill=\"#1b1f24\">F1, with its 95 % interval</text>\
         <rect x=\"{}\" y=\"{}\" width=\"22\" height=\"6\" fill=\"#b9c2cc\"/>\
         <text x=\"{}\" y=\"{legend}\" fill=\"#1b1f24\">bag of words on the same rows</text>\n</svg>",
        legend - 11.0,
        LEFT + 30.0,
        LEFT + 230.0,
        legend - 8.0,
        LEFT + 260.0
    );
    out
}

/// Adds a set's bars around the height `middle`.
fn row(out: &mut String, set: &Set, middle: f64, x: &impl Fn(f64) -> f64) {
    let name = if set.name == set.judge { set.name.clone() } else { format!("{} by {}", set.name, set.judge) };
    let (start, f1, words) = (x(0.0), set.scores.f1.unwrap_or(0.0), set.bag_of_words.f1.unwrap_or(0.0));
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#1b1f24\">{}</text>\
         <rect x=\"{start}\" y=\"{}\" width=\"{:.1}\" height=\"18\" fill=\"#2f6fb3\"/>\
         <rect x=\"{start}\" y=\"{}\" width=\"{:.1}\" height=\"6\" fill=\"#b9c2cc\"/>",
        LEFT - 10.0,
        middle,
        escaped(&name),
        middle - 14.0,
        x(f1) - start,
        middle + 7.0,
        x(words) - start,
    );
    if let Some([low, high]) = set.scores.f1_interval {
        let (low, high, at) = (x(low), x(high), middle - 5.0);
        let _ = writeln!(
            out,
            "<path d=\"M{low:.1} {at}H{high:.1}M{low:.1} {}v10M{high:.1} {}v10\" stroke=\"#0b1f33\" stroke-width=\"1.6\" fill=\"none\"/>",
            at - 5.0,
            at - 5.0
        );
    }
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" fill=\"#1b1f24\">{}<tspan fill=\"#57606a\">  P {}  R {}</tspan></text>",
        x(1.0) + 12.0,
        middle,
        share(set.scores.f1),
        share(set.scores.precision),
        share(set.scores.recall),
    );
}

fn escaped(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control());
    plain.collect::<String>().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
