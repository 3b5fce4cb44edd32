//! `metav1.Time` and `metav1.MicroTime`: what Go's `time.Parse` accepts, and its error texts.

use jiff::Timestamp;
use jiff::civil::DateTime;

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Reads an RFC 3339 time and writes it as `metav1.Time` does: UTC, whole seconds.
pub fn seconds(text: &str) -> Result<String, String> {
    let (time, _) = Parser {
        text,
        rest: text,
        layout: SECONDS,
    }
    .parse()?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Reads a time with exactly six fractional digits and writes it as `metav1.MicroTime` does.
pub fn micros(text: &str) -> Result<String, String> {
    let (time, nanos) = Parser {
        text,
        rest: text,
        layout: MICROS,
    }
    .parse()?;
    Ok(format!("{}.{:06}Z", time.strftime("%Y-%m-%dT%H:%M:%S"), nanos / 1000))
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Parser<'_> {
    fn parse(mut self) -> Result<(Timestamp, u32), String> {
        let year = self.digits(4, "2006")?;
        self.literal("-")?;
        let month = self.ranged("01", 1..=12, "month")?;
        self.literal("-")?;
        let day = self.digits(2, "02")?;
        self.literal("T")?;
        let hour = self.ranged("15", 0..=23, "hour")?;
        self.literal(":")?;
        let minute = self.ranged("04", 0..=59, "minute")?;
        self.literal(":")?;
        let second = self.ranged("05", 0..=59, "second")?;
        let nanos = self.fraction()?;
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {:?}: extra text: {:?}", self.text, self.rest));
        }
        self.assemble([year, month, day, hour, minute, second], offset)
            .map(|time| (time, nanos))
    }

    fn assemble(&self, [year, month, day, hour, minute, second]: [i64; 6], offset: i64) -> Result<Timestamp, String> {
        let narrow = |value: i64| i8::try_from(value).unwrap_or(-1);
        let civil = i16::try_from(year).ok().and_then(|year| {
            DateTime::new(
                year,
                narrow(month),
                narrow(day),
                narrow(hour),
                narrow(minute),
                narrow(second),
                0,
            )
            .ok()
        });
        let utc = civil.and_then(|civil| civil.to_zoned(jiff::tz::TimeZone::UTC).ok());
        utc.and_then(|utc| {
            utc.timestamp()
                .checked_sub(jiff::SignedDuration::from_secs(offset))
                .ok()
        })
        .ok_or_else(|| format!("parsing time {:?}: day out of range", self.text))
    }

    fn bad<T>(&self, element: &str) -> Result<T, String> {
        Err(format!(
            "parsing time {:?} as {:?}: cannot parse {:?} as {element:?}",
            self.text, self.layout, self.rest
        ))
    }

    fn digits(&mut self, count: usize, element: &str) -> Result<i64, String> {
        let field = self.rest.get(..count).filter(|f| f.bytes().all(|b| b.is_ascii_digit()));
        let Some(number) = field.and_then(|f| f.parse().ok()) else {
            return self.bad(element);
        };
        self.rest = &self.rest[count..];
        Ok(number)
    }

    fn ranged(&mut self, element: &str, range: std::ops::RangeInclusive<i64>, what: &str) -> Result<i64, String> {
        let number = self.digits(2, element)?;
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(format!("parsing time {:?}: {what} out of range", self.text))
        }
    }

    fn literal(&mut self, expected: &str) -> Result<(), String> {
        match self.rest.strip_prefix(expected) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => self.bad(expected),
        }
    }

    /// A layout with a fraction wants exactly that many digits; one without takes any number.
    fn fraction(&mut self) -> Result<u32, String> {
        let digits = self
            .rest
            .strip_prefix(['.', ','])
            .map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
        if self.layout == MICROS && (digits < 6) {
            return self.bad(".000000");
        }
        if digits == 0 {
            return Ok(0);
        }
        let used = if self.layout == MICROS { 6 } else { digits };
        let padded: String = self.rest[1..=used].chars().chain("000000000".chars()).take(9).collect();
        self.rest = &self.rest[1 + used..];
        Ok(padded.parse().unwrap_or(0))
    }

    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let Some(zone) = self.rest.get(..6).filter(|z| z.as_bytes()[3] == b':') else {
            return self.bad("Z07:00");
        };
        let sign = match zone.as_bytes()[0] {
            b'+' => 1,
            b'-' => -1,
            _ => return self.bad("Z07:00"),
        };
        let (Ok(hours), Ok(minutes)) = (zone[1..3].parse::<i64>(), zone[4..6].parse::<i64>()) else {
            return self.bad("Z07:00");
        };
        self.rest = &self.rest[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_lose_their_fraction_and_zone() {
        assert_eq!(
            seconds("2026-01-02T03:04:05.9+01:00").as_deref(),
            Ok("2026-01-02T02:04:05Z")
        );
        assert_eq!(
            seconds("2026-01-02T03:04:05,678+02:00").as_deref(),
            Ok("2026-01-02T01:04:05Z")
        );
        assert_eq!(
            micros("2026-01-02T03:04:05.123456Z").as_deref(),
            Ok("2026-01-02T03:04:05.123456Z")
        );
    }

    #[test]
    fn errors_are_those_of_the_go_parser() {
        assert_eq!(
            seconds("x").unwrap_err(),
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#
        );
        assert_eq!(
            micros("2026-01-02T03:04:05Z").unwrap_err(),
            r#"parsing time "2026-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
        assert_eq!(
            seconds("2026-13-02T03:04:05Z").unwrap_err(),
            r#"parsing time "2026-13-02T03:04:05Z": month out of range"#
        );
    }
}
