//! Query strings as Go's `url.ParseQuery` reads them: pairs it cannot read are dropped, not errors.
//!
//! Nothing here knows which parameters exist.

/// The parameters of a query, in order.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a raw query string.
    #[must_use]
    pub fn parse(raw: &str) -> Self {
        let pairs = raw.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        Self(pairs.filter_map(read_pair).collect())
    }

    /// The first value of a parameter.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// A flag: absent is false, anything but `false` and `0` is true.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.first(name)
            .map(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }
}

fn read_pair(pair: &str) -> Option<(String, String)> {
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    Some((unescape(key, true)?, unescape(value, true)?))
}

/// Undoes percent-encoding; `None` where Go finds a bad escape. Bytes that are not UTF-8 are
/// replaced.
#[must_use]
pub fn unescape(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = match byte {
            b'%' => {
                let (high, low) = (hex(*tail.first()?)?, hex(*tail.get(1)?)?);
                bytes.push(high << 4 | low);
                &tail[2..]
            }
            b'+' if plus_is_space => {
                bytes.push(b' ');
                tail
            }
            other => {
                bytes.push(other);
                tail
            }
        };
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_pairs_are_dropped_and_the_rest_kept() {
        let query = Query::parse("a=%zz&limit=5;x=1&b=c+d%2F&b=2&flag");
        assert_eq!(query.first("a"), None);
        assert_eq!(query.first("limit"), None);
        assert_eq!(query.all("b").collect::<Vec<_>>(), ["c d/", "2"]);
        assert_eq!(query.flag("flag"), Some(true));
    }
}
