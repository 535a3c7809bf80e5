//! Tables of figures, as Markdown that also reads well in a terminal.
//!
//! Owns the layout of every table that a benchmark prints. Must not compute a figure.

/// Columns with a heading each, and rows under them.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub(super) fn new(headings: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut table = Self::default();
        table.row(headings);
        table
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The text: the first column to the left, figures to the right.
    pub(super) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut lines: Vec<String> = self.rows.iter().map(|row| line(row, &widths)).collect();
        let rule: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| match column {
                0 => "-".repeat(*width),
                _ => format!("{}:", "-".repeat(width.saturating_sub(1).max(1))),
            })
            .collect();
        lines.insert(1.min(lines.len()), line(&rule, &widths));
        lines.join("\n")
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut text = String::from("|");
    for (column, width) in widths.iter().enumerate() {
        let cell = cells.get(column).map_or("", String::as_str);
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        text += &match column {
            0 => format!(" {cell}{padding} |"),
            _ => format!(" {padding}{cell} |"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["what", "seen"]);
        table.row(["wall", "12 s"]);
        table.row(["CPU per node", "3 ms"]);
        let text = table.render();
        assert_eq!(
            text,
            "| what         | seen |\n\
             | ------------ | ---: |\n\
             | wall         | 12 s |\n\
             | CPU per node | 3 ms |"
        );
    }
}
