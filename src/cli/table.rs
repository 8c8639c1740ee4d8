//! Tables for people: as wide as the terminal, without lines where nobody looks.

use comfy_table::{ContentArrangement, Table, presets};

use super::on_terminal;

/// A table with these headings.
pub(super) fn new(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(if on_terminal() { presets::UTF8_HORIZONTAL_ONLY } else { presets::NOTHING })
        .set_content_arrangement(if on_terminal() { ContentArrangement::Dynamic } else { ContentArrangement::Disabled })
        .set_header(headings.iter().copied());
    table
}

/// Text that agents chose, made harmless for a terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
