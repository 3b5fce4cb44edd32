//! An error as one line with the problem and the fix. Never more than one line, and never a whole object.

use std::error::Error as StdError;

use kube::core::Status;

/// The line for an error, without the program's name.
pub(crate) fn error_line(error: &anyhow::Error) -> String {
    let mut said: Vec<String> = Vec::new();
    for cause in error.chain() {
        if let Some(refusal) = cause.downcast_ref::<kube::Error>() {
            push_cause(&mut said, server_error_line(refusal));
            break;
        }
        push_cause(&mut said, cause.to_string());
    }
    to_one_line(&said.join(": "))
}

/// Skips a cause that an outer error already repeats.
fn push_cause(said: &mut Vec<String>, text: String) {
    if !said.iter().any(|before| before.contains(&text)) {
        said.retain(|before| !text.contains(before.as_str()));
        said.push(text);
    }
}

/// A text with line breaks and indentation replaced by spaces.
fn to_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A usage error: clap's message, its hints, and the usage.
pub(crate) fn usage_error_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let paragraphs = text.split("\n\n").map(to_one_line);
    let said = paragraphs.filter(|it| !it.is_empty() && !it.starts_with("For more information"));
    let said = said.map(|it| match it.strip_prefix("Usage: ") {
        Some(usage) => format!("usage: {usage}"),
        None => it.trim_start_matches("error: ").to_owned(),
    });
    format!("{}; see --help", said.collect::<Vec<_>>().join("; "))
}

/// The message for an error of the API server, or of the connection to it.
pub(crate) fn server_error_line(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status_line(status),
        kube::Error::Auth(cause) => format!(
            "cannot use the kubeconfig's credentials ({}); get a new kubeconfig, or log in again",
            root_cause(cause)
        ),
        kube::Error::Service(cause) => unreachable_line(cause.as_ref()),
        kube::Error::HyperError(cause) => unreachable_line(cause),
        kube::Error::InferConfig(_) | kube::Error::InferKubeconfig(_) => {
            format!("no cluster configured: {}; set --kubeconfig FILE", root_cause(error))
        }
        other => root_cause(other),
    }
}

fn status_line(status: &Status) -> String {
    let message = status.message.trim();
    match status.code {
        401 => "the API server rejected the credentials: the token is wrong or has expired; get a \
                new kubeconfig, or log in again"
            .to_owned(),
        403 => format!("{message}; ask a cluster administrator for a Role that allows it; aplomb-view allows reading"),
        404 if message.is_empty()
            || message.contains("page not found")
            || message.contains("could not find the requested resource") =>
        {
            "Aplomb's kinds are not installed; install them with `aplomb crds --apply`".to_owned()
        }
        429 | 503 => format!("the API server is overloaded ({message}); try again later"),
        _ => message.to_owned(),
    }
}

fn unreachable_line(cause: &(dyn StdError + 'static)) -> String {
    let why = root_cause(cause);
    if why.contains("certificate") {
        return format!("the API server's certificate is not trusted ({why}); use the kubeconfig of this cluster");
    }
    format!("the API server cannot be reached ({why}); check its address and that it is running")
}

/// The last cause: the message of the operating system or of the peer.
fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    to_one_line(&last.to_string())
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    fn api_error(code: u16, message: &str) -> anyhow::Error {
        let status = Status::failure(message, "Reason").with_code(code);
        kube::Error::Api(Box::new(status)).into()
    }

    #[test]
    fn every_api_error_is_one_line_with_a_remedy() {
        for (code, message, way) in [
            (401, "Unauthorized", "new kubeconfig"),
            (403, "pods is forbidden: User \"a\" cannot list", "Role"),
            (404, "404 page not found\n", "aplomb crds --apply"),
            (503, "overloaded", "later"),
        ] {
            let said = error_line(&api_error(code, message));
            assert!(said.contains(way) && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn a_cause_is_not_repeated() {
        let error = anyhow::anyhow!("no such file").context("read it: no such file");
        assert_eq!(error_line(&error), "read it: no such file");
    }

    #[test]
    fn the_context_of_an_error_comes_first() {
        let error = Err::<(), _>(api_error(400, "bad\n  selector")).context("list tunnels");
        let said = error_line(&error.expect_err("it is an error"));
        assert_eq!(said, "list tunnels: bad selector");
    }
}
