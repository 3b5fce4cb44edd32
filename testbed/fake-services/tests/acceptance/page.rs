//! Runs the examples of a page about a stand-in: what stands in a `sh` block is done, what stands
//! below it is what comes of it. Members and headers that the page leaves out may be anything.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::Value;
use tower::{BoxError, Service};

/// The heading that the examples begin with.
const SCENE: &str = "\n## Setting the scene\n";

/// The fenced blocks with a language, in order.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks.retain(|(language, _)| !language.is_empty());
    blocks
}

/// The commands of a block as words; quotes hold words together, also over lines.
fn commands(block: &str, token: &str) -> Vec<Vec<String>> {
    let mut commands = vec![vec![String::new()]];
    let mut quote = None;
    let text = block.replace("$SIM", "http://sim.example.com").replace("$TOKEN", token);
    for c in text.chars() {
        let words = commands.last_mut().expect("there is always one");
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('\n', None) => commands.push(vec![String::new()]),
            (' ', None) => words.push(String::new()),
            _ => words.last_mut().expect("there is always one").push(c),
        }
    }
    commands
        .iter_mut()
        .for_each(|words| words.retain(|word| !word.is_empty()));
    commands.retain(|words| !words.is_empty());
    commands
}

fn request(words: &[String]) -> Request<Bytes> {
    let mut request = Request::builder();
    let mut body = Bytes::new();
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("the option has a value").as_str();
        request = match word.as_str() {
            "-i" => request,
            "-X" => request.method(value()),
            "-H" => {
                let (name, value) = value().split_once(": ").expect("a header");
                request.header(name, value)
            }
            "-d" => {
                body = Bytes::copy_from_slice(value().as_bytes());
                request
            }
            url => request.uri(url),
        };
    }
    request.body(body).expect("a request")
}

fn assert_contains(have: &Value, want: &Value, example: &str) {
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => {
            for (name, want) in want {
                let have = have.get(name).unwrap_or_else(|| panic!("no {name}: {example}"));
                assert_contains(have, want, example);
            }
        }
        (Value::Array(have), Value::Array(want)) => {
            assert_eq!(have.len(), want.len(), "{example}: {have:?}");
            have.iter()
                .zip(want)
                .for_each(|(have, want)| assert_contains(have, want, example));
        }
        _ => assert_eq!(have, want, "{example}"),
    }
}

fn assert_head(have: &Response<Bytes>, want: &str, example: &str) {
    for line in want.lines() {
        if let Some(status) = line.strip_prefix("HTTP/1.1 ") {
            assert_eq!(have.status().to_string(), status, "{example}");
        } else {
            let (name, value) = line.split_once(": ").expect("a header");
            let have = have.headers().get(name).expect("the header is there");
            assert_eq!(have, value, "{name}: {example}");
        }
    }
}

/// Runs a page's examples against a service, and says how many answers it has compared.
pub(crate) async fn run<S>(mut service: S, page: &str, token: &str) -> usize
where
    S: Service<Request<Bytes>, Response = Response<Bytes>, Error = BoxError>,
{
    let (mut last, mut example, mut compared) = (None, String::new(), 0);
    // What comes before it starts the process that the test stands in for.
    let (_, examples) = page.split_once(SCENE).expect("the page sets a scene");
    for (language, text) in blocks(examples) {
        if language == "sh" {
            for words in commands(&text, token) {
                if words[0] == "sleep" {
                    let seconds = words[1].parse().expect("seconds");
                    tokio::time::advance(Duration::from_secs(seconds)).await;
                    continue;
                }
                assert_eq!(words[0], "curl");
                example = words.join(" ");
                last = Some(service.call(request(&words)).await.expect("an answer"));
            }
            continue;
        }
        compared += 1;
        let answer = last.as_ref().expect("a command comes first");
        if language == "json" {
            let want = serde_json::from_str(&text).expect("JSON");
            let have = serde_json::from_slice(answer.body()).expect("JSON");
            assert_contains(&have, &want, &example);
        } else {
            assert_head(answer, &text, &example);
        }
    }
    compared
}
