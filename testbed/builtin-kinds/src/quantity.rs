//! Resource quantities (`100m`, `1Gi`): parsing, comparing and the server's canonical spelling.
//!
//! Amounts are kept in billionths, the finest the API knows.

mod arithmetic;

use std::cmp::Ordering;

const NANO: u32 = 9;
const FORMAT: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NUMERIC: &str = "unable to parse numeric part of quantity";
const SUFFIX: &str = "unable to parse quantity's suffix";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    DecimalExponent,
    DecimalSi,
    BinarySi,
}

/// A parsed quantity.
#[derive(Clone, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    format: Format,
    /// The spelling the server keeps as it is because it takes it for canonical.
    kept: Option<String>,
}

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
    /// A decimal point without a single digit around it.
    bare: bool,
}

impl Quantity {
    /// Reads `text`; the error is the server's.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err(FORMAT);
        }
        let parts = split(text)?;
        let (base, exponent, format) = interpret(parts.suffix).ok_or(SUFFIX)?;
        if parts.bare {
            return Err(NUMERIC);
        }
        let digits = format!("{}{}", parts.whole, parts.fraction);
        let mantissa: i128 = digits.parse().map_err(|_| NUMERIC)?;
        let places = i32::try_from(parts.fraction.len()).map_err(|_| NUMERIC)?;
        let scaled = match base {
            2 => scale(mantissa.saturating_mul(1 << exponent), -places),
            _ => scale(mantissa, exponent - places),
        };
        let nanos = if parts.negative { -scaled } else { scaled };
        let kept = keeps_spelling(format, mantissa, &digits, exponent, places).then(|| text.to_owned());
        Ok(Self { nanos, format, kept })
    }

    /// The quantity in whole thousandths, rounded up; `None` when it already is.
    pub(crate) fn rounded_to_milli(&self) -> Option<Self> {
        let milli = 10_i128.pow(NANO - 3);
        let rest = self.nanos.rem_euclid(milli);
        (rest != 0).then(|| Self {
            nanos: self.nanos - rest + milli,
            format: self.format,
            kept: None,
        })
    }

    /// Less than nothing.
    pub(crate) fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether this is nothing at all.
    pub(crate) fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// A whole number of units.
    pub(crate) fn is_whole(&self) -> bool {
        self.nanos % 10_i128.pow(NANO) == 0
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(kept) = &self.kept {
            return f.write_str(kept);
        }
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let unit = 10_i128.pow(NANO);
        let small = self.nanos.abs() < 1024 * unit;
        match self.format {
            Format::BinarySi if !small && self.is_whole() => binary(self.nanos / unit, f),
            Format::DecimalExponent => decimal(self.nanos, true, f),
            _ => decimal(self.nanos, false, f),
        }
    }
}

fn split(text: &str) -> Result<Parts<'_>, &'static str> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, rest) = take(rest, |c| c.is_ascii_digit());
    let (fraction, rest, point) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (fraction, rest) = take(rest, |c| c.is_ascii_digit());
            (fraction, rest, true)
        }
        None => ("", rest, false),
    };
    let (_, tail) = take(rest, |c| "eEinumkKMGTP".contains(c));
    let tail = tail.strip_prefix(['-', '+']).unwrap_or(tail);
    if !take(tail, |c| c.is_ascii_digit()).1.is_empty() {
        return Err(FORMAT);
    }
    let whole = whole.trim_start_matches('0');
    let bare = point && whole.is_empty() && fraction.is_empty() && !rest.is_empty();
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(Parts {
        negative,
        whole,
        fraction,
        suffix: rest,
        bare,
    })
}

fn take(text: &str, keep: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !keep(c)).unwrap_or(text.len()))
}

fn interpret(suffix: &str) -> Option<(u32, i32, Format)> {
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let position = |table: &[&str]| table.iter().position(|s| *s == suffix);
    if let Some(at) = position(&decimal) {
        return Some((10, i32::try_from(at).ok()? * 3 - 9, Format::DecimalSi));
    }
    if let Some(at) = position(&binary) {
        return Some((2, (i32::try_from(at).ok()? + 1) * 10, Format::BinarySi));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
    Some((10, exponent, Format::DecimalExponent))
}

/// `mantissa * 10^exponent` in billionths; what is finer is rounded up.
fn scale(mantissa: i128, exponent: i32) -> i128 {
    let shift = exponent.saturating_add(9);
    let power = 10_i128.checked_pow(shift.unsigned_abs()).unwrap_or(i128::MAX);
    if shift >= 0 {
        mantissa.saturating_mul(power)
    } else {
        mantissa / power + i128::from(mantissa % power != 0)
    }
}

fn keeps_spelling(format: Format, mantissa: i128, digits: &str, exponent: i32, places: i32) -> bool {
    if format == Format::BinarySi {
        return places == 0 && mantissa & 0x07 != 0;
    }
    let scale = exponent - places;
    let canonical = scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0');
    digits.len() <= 18 && scale >= -9 && canonical
}

fn decimal(nanos: i128, exponent_form: bool, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    let (mut mantissa, mut exponent) = (nanos, -9);
    while mantissa % 1000 == 0 {
        mantissa /= 1000;
        exponent += 3;
    }
    let suffix = match exponent {
        0 => String::new(),
        e if exponent_form => format!("e{e}"),
        e => usize::try_from((e + 9) / 3)
            .ok()
            .and_then(|at| ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].get(at))
            .map_or_else(|| format!("e{e}"), |s| (*s).to_owned()),
    };
    write!(f, "{mantissa}{suffix}")
}

fn binary(units: i128, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    let (mut mantissa, mut at) = (units, 0);
    while mantissa % 1024 == 0 && at < 6 {
        mantissa /= 1024;
        at += 1;
    }
    write!(f, "{mantissa}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][at])
}

/// A quantity as Go keeps it once read: a scaled number, or a decimal where that is too small.
pub(super) struct GoFields {
    pub(super) value: i64,
    pub(super) scale: i32,
    /// In billionths.
    pub(super) decimal: Option<i128>,
    pub(super) spelling: String,
    pub(super) format: &'static str,
}

/// What Go keeps of a quantity that is stored.
pub(super) fn go_fields(text: &str) -> GoFields {
    let mut fields = GoFields {
        value: 0,
        scale: 0,
        decimal: None,
        spelling: text.to_owned(),
        format: "DecimalSI",
    };
    let parts = split(text).ok();
    let read = parts.and_then(|parts| Some((interpret(parts.suffix)?, parts)));
    let Some(((_, exponent, format), parts)) = read.filter(|_| text != "0") else {
        return fields;
    };
    let places = i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
    fields.format = match format {
        Format::BinarySi if places == 0 => "BinarySI",
        Format::DecimalExponent => "DecimalExponent",
        Format::BinarySi | Format::DecimalSi => "DecimalSI",
    };
    let digits = format!("{}{}", parts.whole, parts.fraction);
    let mantissa: i128 = digits.parse().unwrap_or_default();
    let mut keeps = false;
    if let Some((value, scale)) = as_integer(format, mantissa, digits.len(), exponent, places) {
        fields.value = if parts.negative { -value } else { value };
        fields.scale = scale;
        keeps = keeps_spelling(format, mantissa, &digits, exponent, places);
    } else {
        let quantity = Quantity::parse(text).ok();
        fields.decimal = quantity.map(|quantity| quantity.nanos);
    }
    if !keeps {
        fields.spelling = String::new();
    }
    fields
}

/// The number and its scale that Go keeps for these digits, where they leave it room enough.
fn as_integer(format: Format, mantissa: i128, digits: usize, exponent: i32, places: i32) -> Option<(i64, i32)> {
    let digits = i32::try_from(digits).unwrap_or(i32::MAX);
    let (precision, scale, factor) = match format {
        Format::BinarySi if places == 0 => {
            let factor = 1_i64.checked_shl(exponent.unsigned_abs())?;
            (14 - digits - exponent * 3 / 10, 0, factor)
        }
        Format::BinarySi => return None,
        Format::DecimalSi | Format::DecimalExponent => (18 - digits, exponent - places, 1),
    };
    let value = i64::try_from(mantissa).ok()?.checked_mul(factor)?;
    (precision >= 0 && scale >= -9).then_some((value, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_become_canonical() {
        let cases = [
            ("0", "0"),
            ("00", "0"),
            ("1", "1"),
            ("1000", "1k"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("+1", "+1"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("100Ki", "100Ki"),
            ("1e3", "1e3"),
            ("1000e3", "1e6"),
            ("0.1n", "1n"),
            ("-1000", "-1k"),
            ("1Ki", "1Ki"),
            ("8Ki", "8Ki"),
            ("512", "512"),
            ("12345678", "12345678"),
            ("100M", "100M"),
        ];
        for (text, canonical) in cases {
            assert_eq!(
                Quantity::parse(text).map(|q| q.to_string()).as_deref(),
                Ok(canonical),
                "{text}"
            );
        }
    }

    #[test]
    fn nonsense_is_refused_in_the_servers_words() {
        for (text, why) in [
            ("", FORMAT),
            ("abc", FORMAT),
            ("1x", FORMAT),
            ("1mm", SUFFIX),
            ("1.2.3", FORMAT),
        ] {
            assert_eq!(Quantity::parse(text).err(), Some(why), "{text}");
        }
    }
}
