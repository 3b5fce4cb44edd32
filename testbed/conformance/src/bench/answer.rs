//! Reading one HTTP/1.1 answer: no more than the answers of a kube-apiserver and of the box need.

use std::io::{BufRead, Read};

use anyhow::{Context, Result, bail, ensure};

/// A whole answer, its headers left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// How an answer says where it ends.
enum Framing {
    Length(u64),
    Chunked,
}

/// Reads one answer and nothing of the next.
pub(super) fn read(from: &mut impl BufRead) -> Result<Answer> {
    let mut line = String::new();
    next_line(from, &mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.with_context(|| format!("not a status line: {line:?}"))?;
    let mut framing = None;
    while next_line(from, &mut line)? {
        framing = self::framing(&line)?.or(framing);
    }
    let mut body = Vec::new();
    match framing {
        Some(Framing::Length(length)) => exactly(from, length, &mut body)?,
        Some(Framing::Chunked) => chunks(from, &mut body)?,
        None => bail!("an answer of status {status} does not say where it ends"),
    }
    Ok(Answer { status, body })
}

fn framing(header: &str) -> Result<Option<Framing>> {
    let (name, value) = header.split_once(':').context("a header without a colon")?;
    Ok(if name.eq_ignore_ascii_case("content-length") {
        Some(Framing::Length(value.trim().parse()?))
    } else if name.eq_ignore_ascii_case("transfer-encoding") {
        Some(Framing::Chunked)
    } else {
        None
    })
}

fn chunks(from: &mut impl BufRead, body: &mut Vec<u8>) -> Result<()> {
    let mut line = String::new();
    loop {
        next_line(from, &mut line)?;
        let length = u64::from_str_radix(&line, 16).with_context(|| format!("not the length of a chunk: {line:?}"))?;
        exactly(from, length, body)?;
        next_line(from, &mut line)?;
        if length == 0 {
            return Ok(());
        }
    }
}

fn exactly(from: &mut impl BufRead, length: u64, body: &mut Vec<u8>) -> Result<()> {
    body.reserve(usize::try_from(length)?);
    let read = from.take(length).read_to_end(body)?;
    ensure!(read as u64 == length, "the answer was cut short");
    Ok(())
}

/// The next line without its end; `false` if it is empty.
fn next_line(from: &mut impl BufRead, line: &mut String) -> Result<bool> {
    line.clear();
    from.read_line(line)?;
    ensure!(line.ends_with('\n'), "the server hung up");
    line.truncate(line.trim_end().len());
    Ok(!line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (Result<Answer>, &str) {
        let mut rest = text.as_bytes();
        let answer = read(&mut rest);
        (answer, &text[text.len() - rest.len()..])
    }

    #[test]
    fn an_answer_ends_where_it_says() {
        let (answer, rest) = of("HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200");
        let answer = answer.expect("whole");
        assert_eq!((answer.status, &*answer.body), (201, b"{}".as_slice()));
        assert_eq!(rest, "HTTP/1.1 200");
    }

    #[test]
    fn chunks_are_put_together() {
        let (answer, rest) =
            of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n{\"items\":[\r\n2\r\n]}\r\n0\r\n\r\nnext");
        assert_eq!(answer.expect("whole").body, b"{\"items\":[]}");
        assert_eq!(rest, "next");
    }

    #[test]
    fn half_an_answer_is_an_error() {
        for half in [
            "",
            "HTTP/1.1 200 OK\r\nContent-Le",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}",
            "HTTP/1.1 200 OK\r\n\r\n{}",
        ] {
            assert!(of(half).0.is_err(), "{half:?}");
        }
    }
}
