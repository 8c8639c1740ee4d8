//! Tables for people: as wide as the terminal, without lines where nobody looks.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use super::on_terminal;
use umbra_config::fault::is_printable;

/// A table with these headings. The first column names the rows (an id, a shadow) and is never wrapped, so that it
/// can be copied.
pub fn new(headings: &[&str]) -> Table {
    fitted(headings, on_terminal())
}

fn fitted(headings: &[&str], to_terminal: bool) -> Table {
    let mut table = Table::new();
    table
        .load_style(if to_terminal { presets::UTF8_HORIZONTAL_ONLY } else { presets::NOTHING })
        .set_content_arrangement(if to_terminal { ContentArrangement::Dynamic } else { ContentArrangement::Disabled })
        .set_header(headings.iter().copied());
    if let Some(first) = table.column_mut(0) {
        first.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
}

/// Text that agents chose, made harmless for a terminal: what moves its cursor or reorders what it shows is a space.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_printable(c) { c } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::{fitted, plain};

    #[test]
    fn what_names_a_row_is_whole_on_a_narrow_terminal() {
        let id = "key_0197a3c1d2e47f00a1b2c3d4e5f60718";
        let mut table = fitted(&["id", "name", "agents"], true);
        table.set_width(50).add_row([id, "a name of several words", "writer-*, reader-*"]);
        assert!(table.to_string().contains(id), "{table}");
    }

    #[test]
    fn text_of_agents_moves_no_cursor_and_reorders_nothing() {
        assert_eq!(plain("a\u{1b}[2Jb\u{202e}c\u{2066}d\u{200b}e\nf é😀"), "a [2Jb c d e f é😀");
    }
}
