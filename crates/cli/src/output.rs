//! Standard output: text, with colors on a terminal. Only data is printed there.

use std::io::{IsTerminal, Write};

use anyhow::Result;
use aplomb_console::table::TableLayout;
use serde::Serialize;
use serde_json::Value;

use crate::args::ColorMode;

#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputStream {
    color: bool,
}

impl OutputStream {
    /// Colors by flag, else by environment, else by terminal.
    pub(crate) fn new(color: ColorMode) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0" && !value.is_empty());
        let color = match color {
            ColorMode::Always => true,
            ColorMode::Never => false,
            ColorMode::Auto => !set("NO_COLOR") && (forced || std::io::stdout().is_terminal()),
        };
        Self { color }
    }

    pub(crate) fn has_color(&self) -> bool {
        self.color
    }

    /// Prints and flushes, so that readers of a pipe get it at once.
    pub(crate) fn print(&self, text: &str) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()?;
        Ok(())
    }

    /// Lines as columns, with the status of conditions colored.
    pub(crate) fn format_table(&self, layout: &mut TableLayout, lines: &[Vec<String>]) -> String {
        layout.format_painted(lines, |_, _, cell| self.paint_state(cell))
    }

    /// The same, without spaces at the ends of lines.
    pub(crate) fn format_columns(&self, layout: &mut TableLayout, lines: &[Vec<String>]) -> String {
        let text = self.format_table(layout, lines);
        let lines = text.lines().map(str::trim_end);
        lines.flat_map(|line| [line, "\n"]).collect()
    }

    /// A word in the color of its meaning.
    pub(crate) fn paint_state(&self, word: &str) -> String {
        let code = match word {
            "True" | "true" | "ok" | "leading" => "32",
            "False" | "false" | "error" | "gone" => "31",
            "Unknown" | "<unknown>" | "warning" | "standby" => "33",
            _ => return word.to_owned(),
        };
        match self.color {
            true => format!("\u{1b}[{code}m{word}\u{1b}[0m"),
            false => word.to_owned(),
        }
    }
}

/// Indented by four spaces, as kubectl does.
pub(crate) fn json_text(value: &Value) -> String {
    let mut text = Vec::new();
    let indented = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, indented);
    value.serialize(&mut serializer).expect("a parsed value serializes");
    text.push(b'\n');
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_have_no_width() {
        let lines = [["READY", "AGE"], ["True", "5m"]].map(|line| line.map(str::to_owned).to_vec());
        let plain = OutputStream::new(ColorMode::Never).format_table(&mut TableLayout::default(), &lines);
        let bright = OutputStream::new(ColorMode::Always).format_table(&mut TableLayout::default(), &lines);
        assert_eq!(plain, "READY   AGE\nTrue    5m\n");
        assert_eq!(bright, "READY   AGE\n\u{1b}[32mTrue\u{1b}[0m    5m\n");
    }
}
