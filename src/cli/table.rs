//! Tables for people: as wide as the terminal, with a colour for words that need attention.

use comfy_table::{Cell, Color, ColumnConstraint, ContentArrangement, LineStyle, TableStyle};

use super::on_terminal;
use crate::telemetry::no_color;
use umbra_config::fault::is_printable;

/// Words that a terminal shows in a colour, at the beginning of a cell.
const COLOURS: [(Color, &[&str]); 3] = [
    (Color::Red, &["FLAG", "critical", "rejected", "broken", "failing", "open"]),
    (Color::Yellow, &["SUGGEST", "INCONCLUSIVE", "warning", "skipped", "half_open"]),
    (Color::Green, &["APPROVE", "accepted", "ok", "holds"]),
];

/// Table for people.
pub struct Table(comfy_table::Table);

impl Table {
    /// Adds a row.
    pub fn add_row<C: ToString>(&mut self, cells: impl IntoIterator<Item = C>) -> &mut Self {
        self.0.add_row(cells.into_iter().map(|cell| {
            let text = cell.to_string();
            let word = text.split([' ', ':', ',']).next().unwrap_or_default();
            let colour = COLOURS.iter().find(|(_, words)| words.contains(&word)).map(|(colour, _)| *colour);
            let cell = Cell::new(&text);
            if let Some(colour) = colour { cell.fg(colour) } else { cell }
        }));
        self
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns a table with these headings. The first column names the rows (an id, a shadow) and is never wrapped: it can
/// be copied.
pub fn new(headings: &[&str]) -> Table {
    Table(fitted(headings, on_terminal(), !no_color()))
}

fn fitted(headings: &[&str], to_terminal: bool, coloured: bool) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    let line = LineStyle::none().fill('─').junction('─');
    table
        .load_style(if to_terminal { TableStyle::new().header_separator(line) } else { TableStyle::new() })
        .set_content_arrangement(if to_terminal { ContentArrangement::Dynamic } else { ContentArrangement::Disabled })
        .set_header(headings.iter().copied());
    if !to_terminal || !coloured {
        table.force_no_tty();
    }
    if let Some(first) = table.column_mut(0) {
        first.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
}

/// Replaces characters that move a terminal's cursor or reorder its text by spaces, in text that agents chose.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_printable(c) { c } else { ' ' }).collect()
}

/// Returns plain text of at most 60 characters for a terminal, and all of it for a file or another program.
pub fn short(text: &str) -> String {
    let text = plain(text);
    match text.char_indices().nth(60) {
        Some((end, _)) if on_terminal() => format!("{}...", text.split_at(end).0),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{fitted, plain};

    #[test]
    fn row_id_stays_whole_on_a_narrow_terminal() {
        let id = "key_0197a3c1d2e47f00a1b2c3d4e5f60718";
        let mut table = fitted(&["id", "name", "agents"], true, false);
        table.set_width(50).add_row([id, "a name of several words", "writer-*, reader-*"]);
        assert!(table.to_string().contains(id), "{table}");
    }

    #[test]
    fn agent_text_loses_control_and_direction_characters() {
        assert_eq!(plain("a\u{1b}[2Jb\u{202e}c\u{2066}d\u{200b}e\nf é😀"), "a [2Jb c d e f é😀");
    }
}
