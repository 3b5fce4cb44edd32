//! Tests of paths: a table, and a model of origins that interpret paths differently.

use proptest::prelude::*;

use super::*;

#[test]
fn a_path_has_one_form() {
    let table = [
        ("/", "/"),
        ("", "/"),
        ("//", "/"),
        ("/..", "/"),
        ("/../../x", "/x"),
        ("/a/b/..", "/a/"),
        ("/a/b/.", "/a/b/"),
        ("/a/./b", "/a/b"),
        ("/a/", "/a/"),
        ("/a", "/a"),
        ("/webhooks/../admin", "/admin"),
        ("/webhooks/%2e%2e/admin", "/admin"),
        ("/webhooks/%2E./admin", "/admin"),
        ("/webhooks//../admin", "/admin"),
        ("/webhooks///..//admin//", "/admin/"),
        ("/webhooks/.../x", "/webhooks/.../x"),
        ("/webhooks/..x", "/webhooks/..x"),
        ("/%61%64min", "/admin"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/café", "/caf%C3%A9"),
        ("/caf%e9", "/caf%E9"),
        ("/a|b{c}", "/a%7Cb%7Bc%7D"),
        ("/100%25", "/100%25"),
        ("/group%2fproject", "/group%2Fproject"),
        ("/a;v=1/b", "/a;v=1/b"),
        ("/a%3bv=1", "/a%3Bv=1"),
        ("/@user/a:b", "/@user/a:b"),
        ("/%40user", "/%40user"),
    ];
    for (path, wanted) in table {
        let got = normalize(path).expect(path);
        assert_eq!(got, wanted, "{path}");
        assert_eq!(normalize(&got).expect("again"), wanted, "{path} twice");
        alternative_paths(&got).expect(path);
    }
}

#[test]
fn ambiguous_paths_are_refused() {
    for path in [
        "/a%00",
        "/a%0a",
        "/a%7f",
        "/a\\b",
        "/a%5cb",
        "/a%zz",
        "/a%2",
        "/a%",
        "/a%u002e",
        "a",
        "*",
        "/%c0%ae%c0%ae/",
        "/%C0%2e",
        "/%c1%9c",
        "/%e0%80%ae",
        "/%f0%80%80%af",
        "/%f8%80%80%80%ae",
        "/x/%c0%af/..",
    ] {
        normalize(path).expect_err(path);
    }
    for path in [
        "/webhooks/..;/admin",
        "/webhooks/.;x/../admin",
        "/webhooks/%252e/../admin",
        "/webhooks/.;x/admin",
        "/webhooks/..%3b/admin",
        "/webhooks/..%3Bx=1/a",
        "/webhooks/..%253b/admin",
        "/webhooks/%2e%2e;/admin",
        "/webhooks/%252e%252e/admin",
        "/webhooks/%25252e%25252e/admin",
        "/webhooks/%25%32%65%252e/admin",
        "/webhooks/..%2fadmin",
        "/webhooks/%2e%2e%2fadmin",
        "/webhooks%2f..%2fadmin",
        "/webhooks%252f..%252fadmin",
        "/webhooks/..%20/admin",
        "/webhooks/%20../admin",
        "/webhooks/..%23/admin",
        "/webhooks/..%3f/x",
        "/webhooks/%ef%bc%8e%ef%bc%8e/admin",
        "/webhooks/..%ef%bc%8fadmin",
        "/webhooks/%e2%80%a5/x",
        "/webhooks/%ef%b8%b0/admin",
        "/webhooks/..%ef%bc%9b/admin",
        "/webhooks/..%ef%b9%94x/admin",
        "/a%2500",
        "/a%255cb",
        "/%25c0%25ae",
        "/%2525252541",
        "/x/;a%2f..%2fadmin",
        "/webhooks/;%3f%2f..;",
    ] {
        normalize(path).expect_err(path);
    }
}

#[test]
fn a_path_is_read_in_few_other_ways() {
    assert_eq!(alternative_paths("/a/b"), Ok(Vec::new()));
    let paths = |path: &str| -> Vec<String> {
        let readings = alternative_paths(path).expect("the path is valid");
        readings.into_iter().map(|it| it.path).collect()
    };
    assert_eq!(paths("/a%2Fb;c/d"), ["/a/b;c/d", "/a/b/d", "/a/b/d"]);
    assert_eq!(
        paths("/a;%2Fb/c"),
        ["/a;/b/c", "/a/b/c", "/a/b/c", "/a/c"],
        "parameters may be removed before decoding"
    );
    assert_eq!(paths("/%40a"), ["/@a"; 3]);
    assert_eq!(paths("/a%3Fb"), ["/a%3Fb", "/a%3Fb", "/a"]);
    assert_eq!(paths("/a%2541"), ["/a%2541", "/a%2541", "/a%2541", "/aA", "/aA", "/aA"]);
}

/// How an origin interprets a path: it decodes it several times, removes parameters or not, treats a
/// backslash as a slash, and resolves dot segments.
fn origin(path: &str, times: usize, parameters: bool) -> String {
    let mut bytes = path.as_bytes().to_vec();
    for _ in 0..times {
        let mut decoded = Vec::new();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let escape = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
            let text = escape.and_then(|it| std::str::from_utf8(it).ok());
            let value = text.and_then(|it| u8::from_str_radix(it, 16).ok());
            decoded.push(value.unwrap_or(*byte));
            at += if value.is_some() { 3 } else { 1 };
        }
        bytes = decoded;
    }
    let text = String::from_utf8_lossy(&bytes).replace('\\', "/");
    let mut kept: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        let segment = if parameters {
            segment
        } else {
            segment.split(';').next().unwrap_or("")
        };
        match segment.trim() {
            "" | "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

fn is_below(path: &str, prefix: &str) -> bool {
    path == prefix || path.strip_prefix(prefix).is_some_and(|it| it.starts_with('/'))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Only `/webhooks` is exposed: every forwarded path is below it in every interpretation.
    #[test]
    fn no_origin_reads_a_path_as_one_outside_the_prefix(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "/", "/", "..", ".", "%2e", "%2E", "%252e", "%25", "2e", "%2f", "%252F", "%5c", "\\", ";", "%3b",
            "%253B", "webhooks", "admin", "a", "%61", "%20", "%3f", "%23", "%00", "%c0%ae", "@", "%40", "é",
        ]), 0..12),
    ) {
        let path = format!("/webhooks/{}", parts.concat());
        if let Ok(normal) = normalize(&path) {
            prop_assert_eq!(super::normalize(&normal), Ok(Cow::Borrowed(&*normal)));
            let Ok(readings) = alternative_paths(&normal) else { return Ok(()) };
            let all = || readings.iter().map(|it| &*it.path).chain([&*normal]);
            if all().all(|it| is_below(it, "/webhooks")) {
                for times in 0..4 {
                    for parameters in [true, false] {
                        let read = origin(&normal, times, parameters);
                        prop_assert!(is_below(&read, "/webhooks"), "{} {} {}", path, normal, read);
                    }
                }
            }
        }
    }
}
