//! Tables as text, laid out as kubectl does: columns three spaces apart and at least six wide. While rows are
//! streamed, a column keeps its width.

use super::{ObjectTable, TableColumn, TableRow};

/// Spaces between two columns.
const GAP: usize = 3;
/// Minimum width of a column, including its gap.
const MIN_WIDTH: usize = 6;

/// How a table is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStyle {
    /// Also print columns with a priority above zero.
    pub wide: bool,
    /// Print the namespace as the first column.
    pub namespaces: bool,
    /// Print no titles.
    pub no_headers: bool,
    /// The prefix of each name, such as `stableegress.aplomb.dev/`.
    pub prefix: String,
}

/// Widths of columns, kept from one call to the next.
#[derive(Clone, Debug, Default)]
pub struct TableLayout {
    widths: Vec<usize>,
}

impl ObjectTable {
    /// As `kubectl get` prints it.
    #[must_use]
    pub fn to_text(&self, style: &TableStyle) -> String {
        TableLayout::default().format_lines(&self.to_lines(style))
    }

    /// The cells of the printed columns, titles first.
    #[must_use]
    pub fn to_lines(&self, style: &TableStyle) -> Vec<Vec<String>> {
        let namespaces = style.namespaces && self.namespaced;
        let head = std::iter::once(title_cells(&self.columns, namespaces, style));
        let rows = self.rows.iter();
        let rows = rows.map(|row| row_cells(&self.columns, row, namespaces, style));
        head.filter(|_| !style.no_headers).chain(rows).collect()
    }
}

fn title_cells(columns: &[TableColumn], namespaces: bool, style: &TableStyle) -> Vec<String> {
    let first = namespaces.then(|| "NAMESPACE".to_owned());
    let shown = columns.iter().filter(|column| is_shown(column, style));
    let titles = shown.map(|column| column.name.to_uppercase());
    first.into_iter().chain(titles).collect()
}

fn row_cells(columns: &[TableColumn], row: &TableRow, namespaces: bool, style: &TableStyle) -> Vec<String> {
    let first = namespaces.then(|| row.namespace.clone().unwrap_or_default());
    let cells = columns.iter().zip(&row.cells).enumerate();
    let shown = cells.filter(|(_, (column, _))| is_shown(column, style));
    let texts = shown.map(|(n, (_, cell))| match n {
        0 => format!("{}{cell}", style.prefix),
        _ => cell.clone(),
    });
    first.into_iter().chain(texts).collect()
}

fn is_shown(column: &TableColumn, style: &TableStyle) -> bool {
    style.wide || column.priority == 0
}

impl TableLayout {
    /// Lines of equal length as columns, never narrower than before.
    pub fn format_lines(&mut self, lines: &[Vec<String>]) -> String {
        self.format_painted(lines, |_, _, cell| cell.to_owned())
    }

    /// The same, where `paint` colors the cell of a line and a column; color codes do not count as width.
    pub fn format_painted(&mut self, lines: &[Vec<String>], paint: impl Fn(usize, usize, &str) -> String) -> String {
        self.widen_columns(lines);
        let mut text = String::new();
        for (n, line) in lines.iter().enumerate() {
            for (column, cell) in line.iter().enumerate() {
                text.push_str(&paint(n, column, cell));
                if column + 1 < line.len() {
                    let room = self.widths[column].saturating_sub(cell.chars().count());
                    text.extend(std::iter::repeat_n(' ', room));
                }
            }
            text.push('\n');
        }
        text
    }

    fn widen_columns(&mut self, lines: &[Vec<String>]) {
        for line in lines {
            for (column, cell) in line.iter().enumerate() {
                if column == self.widths.len() {
                    self.widths.push(MIN_WIDTH);
                }
                let width = cell.chars().count() + GAP;
                self.widths[column] = self.widths[column].max(width);
            }
        }
    }
}

/// Lines of equal length, as columns.
#[must_use]
pub fn align_columns(lines: &[Vec<String>]) -> String {
    let text = TableLayout::default().format_lines(lines);
    let lines = text.lines().map(str::trim_end);
    lines.flat_map(|line| [line, "\n"]).collect()
}
