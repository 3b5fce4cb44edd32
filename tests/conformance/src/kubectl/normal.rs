//! Hides what cannot be equal in kubectl's output: ages, versions, UIDs, addresses, column widths.

use regex::Regex;

use crate::mask::Mask;

/// Makes outputs of one session comparable.
#[derive(Debug)]
pub struct Normal {
    mask: Mask,
    patterns: Vec<(Regex, &'static str)>,
}

impl Default for Normal {
    fn default() -> Self {
        let patterns = [
            (r#"(resourceVersion: )"?\d+"?"#, "$1<version>"),
            (r#"("resourceVersion": ?)"\d+""#, "$1\"<version>\""),
            (r"\b10\.0\.0\.\d+\b", "<address>"),
            (r"(?m)(\s)(?:\d+[smhd])+(\s|$)", "$1<age>$2"),
            (r"(?m) +$", ""),
            (r"(\S)  +", "$1  "),
        ];
        let compile = |(text, by)| (Regex::new(text).expect("a constant pattern is valid"), by);
        Self {
            mask: Mask::default(),
            patterns: patterns.map(compile).to_vec(),
        }
    }
}

impl Normal {
    /// The comparable form of an output.
    pub fn apply(&mut self, output: &str) -> String {
        let mut text = self.mask.text(output);
        for (pattern, by) in &self.patterns {
            text = pattern.replace_all(&text, *by).into_owned();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_widths_do_not_count() {
        let mut normal = Normal::default();
        let one = normal.apply("NAME    COLOR   AGE\na       red     3s\n");
        let two = normal.apply("NAME  COLOR  AGE\na     red    1m12s\n");
        assert_eq!(one, two);
    }
}
