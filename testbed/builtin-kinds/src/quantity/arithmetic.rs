//! Sums and differences of quantities, in the spelling the server gives them.
//!
//! A result is spelled like its first operand, or like the second where the first is nothing.

use super::{Format, NANO, Quantity};

impl Quantity {
    /// Nothing.
    pub(crate) fn zero() -> Self {
        Self::count(0)
    }

    /// A number of things.
    pub(crate) fn count(things: usize) -> Self {
        let things = i128::try_from(things).unwrap_or(i128::MAX);
        Self::of(things.saturating_mul(unit()), Format::DecimalSi)
    }

    fn of(nanos: i128, format: Format) -> Self {
        Self {
            nanos,
            format,
            kept: None,
        }
    }

    /// This and `more` of it.
    pub(crate) fn plus(&self, more: &Self) -> Self {
        Self::of(self.nanos.saturating_add(more.nanos), self.format_with(more))
    }

    /// This without `less` of it, and never less than nothing.
    pub(crate) fn minus(&self, less: &Self) -> Self {
        let left = self.nanos.saturating_sub(less.nanos);
        if left <= 0 {
            return Self::zero();
        }
        Self::of(left, self.format_with(less))
    }

    fn format_with(&self, other: &Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }

    /// In whole units, rounded up.
    pub(crate) fn rounded_up(self) -> Self {
        if self.is_whole() {
            return self;
        }
        Self::of(self.parts(0).saturating_mul(unit()), self.format)
    }

    /// How many parts of a unit this is, where a unit has 10 to the `digits` of them, rounded up.
    pub(crate) fn parts(&self, digits: u32) -> i128 {
        let part = 10_i128.pow(NANO.saturating_sub(digits));
        self.nanos.div_euclid(part) + i128::from(self.nanos.rem_euclid(part) != 0)
    }
}

fn unit() -> i128 {
    10_i128.pow(NANO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).expect("a quantity")
    }

    #[test]
    fn a_sum_is_spelled_like_its_first_part() {
        for (a, b, sum) in [
            ("512Mi", "512Mi", "1Gi"),
            ("1Gi", "1G", "2073741824"),
            ("1G", "1Gi", "2073741824"),
            ("0", "1Gi", "1Gi"),
            ("500m", "1.500", "2"),
            ("0", "1.500", "1500m"),
            ("1k", "1e3", "2k"),
        ] {
            assert_eq!(quantity(a).plus(&quantity(b)).to_string(), sum, "{a} + {b}");
        }
    }

    #[test]
    fn a_difference_is_never_less_than_nothing() {
        assert_eq!(quantity("1Gi").minus(&quantity("512Mi")).to_string(), "512Mi");
        assert_eq!(quantity("1").minus(&quantity("2")).to_string(), "0");
    }

    #[test]
    fn parts_are_rounded_up() {
        assert_eq!(quantity("1.5").parts(0), 2);
        assert_eq!(quantity("1.5").parts(3), 1500);
        assert_eq!(quantity("1u").parts(3), 1);
        assert_eq!(quantity("1500m").rounded_up().to_string(), "2");
    }
}
