//! Errors by class, because each class of failure is handled differently.
//!
//! kube's own `Status::is_conflict` and similar methods use the reason alone. A proxy's 409 or 404 has
//! none, so the class is derived from reason and code together.

use std::fmt;

use kube::core::Status;
use tokio::time::Instant;

use crate::key::{ObjectRef, ResourceVersion};

/// The result of any operation that can fail with a classified error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The classes of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// Another writer was first: wait for the winning version, then run at once.
    Conflict,
    /// The name is taken: read the object, then adopt it or fail.
    Exists,
    /// A rate limit is exhausted: wait until it allows calls again.
    Throttled,
    /// The other side is down or slow: back off.
    Unavailable,
    /// The API server rejects the call because of RBAC, a quota or an admission policy: back off, and
    /// show its message.
    Forbidden,
    /// An object that is read does not exist.
    Missing,
    /// The other side will never accept this: wait for a change of the spec.
    Invalid,
    /// A failure of the reconcile itself, including a panic or a missed deadline.
    Fault,
}

impl ErrorClass {
    /// Every class, for tables and metrics.
    pub const ALL: [Self; 8] = [
        Self::Conflict,
        Self::Exists,
        Self::Throttled,
        Self::Unavailable,
        Self::Forbidden,
        Self::Missing,
        Self::Invalid,
        Self::Fault,
    ];

    /// The CamelCase word in conditions, metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "Conflict",
            Self::Exists => "AlreadyExists",
            Self::Throttled => "Throttled",
            Self::Unavailable => "Unavailable",
            Self::Forbidden => "Forbidden",
            Self::Missing => "Missing",
            Self::Invalid => "Invalid",
            Self::Fault => "Fault",
        }
    }
}

/// An error with its class. The text is for people and contains no secret.
#[derive(Debug)]
pub struct Error {
    class: ErrorClass,
    message: String,
    until: Option<Instant>,
    object: Option<(ObjectRef, Option<ResourceVersion>)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `class` with the text `what`.
    #[must_use]
    pub fn new(class: ErrorClass, what: impl Into<String>) -> Self {
        Self {
            class,
            message: what.into(),
            until: None,
            object: None,
            source: None,
        }
    }

    /// A fault, with its cause.
    #[must_use]
    pub fn fault(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let cause = cause.into();
        let mut error = Self::new(ErrorClass::Fault, cause.to_string());
        error.source = Some(cause);
        error
    }

    /// No call to the target may be made before `until`.
    #[must_use]
    pub fn throttled(what: impl Into<String>, until: Instant) -> Self {
        let mut error = Self::new(ErrorClass::Throttled, what);
        error.until = Some(until);
        error
    }

    /// Adds the object of the error, and the version of it that had been read.
    #[must_use]
    pub fn with_object(mut self, object: ObjectRef, read: Option<ResourceVersion>) -> Self {
        self.object = Some((object, read));
        self
    }

    /// Adds the operation, in front of the cause.
    #[must_use]
    pub fn with_context(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// The class of the error.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// When the target may be called again, if known.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// The object of the error, and the version of it that had been read.
    #[must_use]
    pub fn object(&self) -> Option<&(ObjectRef, Option<ResourceVersion>)> {
        self.object.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // kube's errors include their sources in their text: passing them on would repeat it.
        let source = self.source.as_deref()?;
        source.source()
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        // Our own error that passed through kube's client keeps its class and its time.
        if let kube::Error::Service(inner) = error {
            return match inner.downcast::<Self>() {
                Ok(ours) => *ours,
                // A client inside a client: the inner one's error is the cause.
                Err(other) => match other.downcast::<kube::Error>() {
                    Ok(inner) => Self::from(*inner),
                    Err(other) => Self::with_source(ErrorClass::Unavailable, other),
                },
            };
        }
        let class = classify(&error);
        let words = match &error {
            kube::Error::Api(status) if matches!(class, ErrorClass::Forbidden | ErrorClass::Invalid) => {
                let kind = status.details.as_ref().map_or("", |it| &*it.kind);
                // A webhook's response does not contain the kind of the object.
                let unknown = kind.is_empty() && status.message.starts_with("admission webhook ");
                Some(status_message(status, unknown || matches!(kind, "secrets" | "Secret")))
            }
            _ => None,
        };
        let mut error = Self::with_source(class, Box::new(error));
        if let Some(words) = words {
            error.message = words;
        }
        error
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::fault(error)
    }
}

impl Error {
    /// A copy for another waiter. The cause stays with the first.
    pub(crate) fn shared_copy(&self) -> Self {
        Self {
            class: self.class,
            message: self.message.clone(),
            until: self.until,
            object: self.object.clone(),
            source: None,
        }
    }

    fn with_source(class: ErrorClass, cause: Box<dyn std::error::Error + Send + Sync>) -> Self {
        let mut error = Self::new(class, cause.to_string());
        error.source = Some(cause);
        error
    }
}

fn classify(error: &kube::Error) -> ErrorClass {
    match error {
        kube::Error::Api(status) => classify_status(status),
        kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) => ErrorClass::Fault,
        _ => ErrorClass::Unavailable,
    }
}

/// The class of a response of an API server.
#[must_use]
pub fn classify_status(status: &Status) -> ErrorClass {
    match (status.code, status.reason.as_str()) {
        (409, "AlreadyExists") => ErrorClass::Exists,
        (409, _) => ErrorClass::Conflict,
        (429, _) => ErrorClass::Throttled,
        (404 | 410, _) => ErrorClass::Missing,
        // RBAC, quotas and policies change independently of the spec.
        (401 | 403, _) => ErrorClass::Forbidden,
        (400..=499, _) => ErrorClass::Invalid,
        _ => ErrorClass::Unavailable,
    }
}

/// The server's message, if it is one and may be shown. A policy or a webhook may quote the rejected
/// object, so for a Secret only messages about RBAC and quotas are shown.
pub(crate) fn status_message(status: &Status, secret: bool) -> String {
    // kube's replacement for a response that is not a Status, for instance the page of a proxy.
    let page = status.reason == "Failed to parse error data";
    if page || status.message.is_empty() || (secret && !has_only_names(status)) {
        let reason = if page { "" } else { &status.reason };
        return format!("server responded with {} {reason}", status.code)
            .trim_end()
            .to_owned();
    }
    status.message.clone()
}

fn has_only_names(status: &Status) -> bool {
    const OWN: [&str; 3] = [
        "User \"",
        "exceeded quota: ",
        "unable to create new content in namespace ",
    ];
    let why = status.message.split_once(" is forbidden: ");
    let own = |why: &str| OWN.iter().any(|it| why.starts_with(it));
    status.code == 403 && why.is_some_and(|(_, why)| own(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str) -> Status {
        serde_json::from_value(serde_json::json!({"code": code, "reason": reason})).expect("a Status")
    }

    #[test]
    fn a_conflict_without_a_reason_is_still_a_conflict() {
        assert_eq!(classify_status(&status(409, "")), ErrorClass::Conflict);
        assert_eq!(classify_status(&status(404, "")), ErrorClass::Missing);
    }

    #[test]
    fn already_exists_is_not_a_conflict() {
        assert_eq!(classify_status(&status(409, "AlreadyExists")), ErrorClass::Exists);
    }

    fn refused(code: u16, kind: &str, message: &str) -> Error {
        let status = serde_json::json!({
            "code": code, "reason": "Forbidden", "message": message, "details": {"kind": kind},
        });
        let status: Status = serde_json::from_value(status).expect("a Status");
        kube::Error::Api(Box::new(status)).into()
    }

    #[test]
    fn refusal_is_shown_with_the_message_of_the_server() {
        let quota = "configmaps \"a\" is forbidden: exceeded quota: few, requested: configmaps=1, used: configmaps=5, limited: configmaps=5";
        let error = refused(403, "configmaps", quota);
        assert_eq!(error.class(), ErrorClass::Forbidden);
        assert_eq!(error.to_string(), quota);
        assert_eq!(refused(401, "", "Unauthorized").class(), ErrorClass::Forbidden);
    }

    #[test]
    fn a_refused_secret_is_not_repeated_but_a_missing_right_to_it_is() {
        let policy = "secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: bad value hunter2";
        assert_eq!(
            refused(403, "secrets", policy).to_string(),
            "server responded with 403 Forbidden"
        );
        assert_eq!(
            refused(422, "secrets", policy).to_string(),
            "server responded with 422 Forbidden"
        );
        let right = "secrets \"a\" is forbidden: User \"bot\" cannot patch resource \"secrets\"";
        assert_eq!(refused(403, "secrets", right).to_string(), right);
        let ending =
            "secrets \"a\" is forbidden: unable to create new content in namespace b because it is being terminated";
        assert_eq!(refused(403, "secrets", ending).to_string(), ending);
        let webhook = "admission webhook \"w\" denied the request: bad value hunter2";
        assert_eq!(
            refused(403, "", webhook).to_string(),
            "server responded with 403 Forbidden"
        );
    }

    #[test]
    fn the_page_of_a_proxy_is_not_shown() {
        let page = Status::failure("<html>", "Failed to parse error data").with_code(403);
        let error = Error::from(kube::Error::Api(Box::new(page)));
        assert_eq!(error.to_string(), "server responded with 403");
    }
}
