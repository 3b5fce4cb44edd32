//! Server URLs in normalized form, so that two spellings of one address share a rate limit.

use std::fmt;
use std::sync::Arc;

use http::Uri;

/// The normalized URL of a server. Contains no credentials.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerUrl {
    url: Arc<str>,
    /// Offset of the host.
    host_start: usize,
}

impl ServerUrl {
    /// Parses a URL: `http` or `https`, a host, optionally a port and a path. Case, default ports,
    /// trailing and doubled slashes make no difference.
    /// An error says what to change, without the URL itself: it may contain a password.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let uri: Uri = text.parse().map_err(|_| "is not a URL".to_owned())?;
        let scheme = match uri.scheme_str().map(str::to_ascii_lowercase).as_deref() {
            Some("http") => "http",
            Some("https") => "https",
            _ => return Err("must start with http:// or https://".to_owned()),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err("must not contain a user or password".to_owned());
        }
        if text.contains(['?', '#']) {
            return Err("must not contain ? or #".to_owned());
        }
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        if host.is_empty() {
            return Err("has no host".to_owned());
        }
        let port = match parse_port(authority, &host)? {
            None => String::new(),
            Some(80) if scheme == "http" => String::new(),
            Some(443) if scheme == "https" => String::new(),
            Some(port) => format!(":{port}"),
        };
        let path = normalize_path(uri.path())?;
        Ok(Self {
            url: format!("{scheme}://{host}{port}{path}").into(),
            host_start: scheme.len() + "://".len(),
        })
    }

    /// The URL, without a trailing slash.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The server's name in metrics and messages: host, port unless it is the default, and path.
    pub(crate) fn name(&self) -> &str {
        &self.url[self.host_start..]
    }
}

fn parse_port(authority: &str, host: &str) -> Result<Option<u16>, String> {
    match authority[host.len()..].strip_prefix(':') {
        None | Some("") => Ok(None),
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => Ok(Some(port)),
            _ => Err("has an invalid port".to_owned()),
        },
    }
}

/// The path without empty segments. Dot segments are refused, because they lead elsewhere.
fn normalize_path(path: &str) -> Result<String, String> {
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    let mut clean = String::new();
    for segment in segments {
        let dots = segment.to_ascii_lowercase().replace("%2e", ".");
        if matches!(dots.as_str(), "." | "..") {
            return Err("must not have . or .. in its path".to_owned());
        }
        clean.push('/');
        clean.push_str(segment);
    }
    Ok(clean)
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_address_is_one() {
        for (text, url) in [
            ("https://coder.example.com", "https://coder.example.com"),
            ("https://coder.example.com/", "https://coder.example.com"),
            ("HTTPS://Coder.Example.COM:443//", "https://coder.example.com"),
            (" http://coder.example.com:80/\n", "http://coder.example.com"),
            ("http://192.0.2.1:7080/Sub//dir/", "http://192.0.2.1:7080/Sub/dir"),
            ("http://[2001:DB8::1]:3000", "http://[2001:db8::1]:3000"),
            ("https://coder.example.com:80", "https://coder.example.com:80"),
        ] {
            let base = ServerUrl::parse(text).expect(text);
            assert_eq!(base.url(), url, "{text}");
            assert_eq!(ServerUrl::parse(base.url()), Ok(base));
        }
    }

    #[test]
    fn its_name_has_no_scheme() {
        let base = ServerUrl::parse("https://Coder.example.com:8443/x/").expect("an address");
        assert_eq!(base.name(), "coder.example.com:8443/x");
    }

    #[test]
    fn an_invalid_address_is_rejected_and_not_repeated() {
        for text in [
            "",
            "coder.example.com",
            "ftp://secret.example.com",
            "https://",
            "https://me:secret@coder.example.com",
            "https://coder.example.com/?secret=1",
            "https://coder.example.com/#secret",
            "https://coder.example.com:0",
            "https://coder.example.com:99999",
            "https://coder.example.com/a/../secret",
            "https://coder.example.com/%2E%2e/secret",
            "https://co der.example.com/secret",
            "https://cod\u{e9}r.example.com/secret",
        ] {
            let told = ServerUrl::parse(text).expect_err(text);
            assert!(!told.contains("secret"), "{told}");
        }
    }
}
