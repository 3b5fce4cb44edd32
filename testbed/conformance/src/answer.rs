//! One answer of a server, with the questions cases ask of it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// What came back: code, the headers that matter, and the body.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Method and path, for messages.
    pub request: String,
    /// HTTP status.
    pub code: u16,
    /// `Content-Type`.
    pub content_type: String,
    /// Texts of the `Warning: 299` headers.
    pub warnings: Vec<String>,
    /// `Retry-After`.
    pub retry_after: Option<String>,
    /// The body: JSON if it is JSON, otherwise a string.
    pub body: Value,
}

impl Answer {
    /// Insists on a status code.
    ///
    /// # Errors
    /// When it is another one.
    pub fn code(self, code: u16) -> Result<Self> {
        ensure!(
            self.code == code,
            "{}: expected {code}, got {} {}",
            self.request,
            self.code,
            self.body
        );
        Ok(self)
    }

    /// Insists on a code and on `reason` of the Status.
    ///
    /// # Errors
    /// When either is another one.
    pub fn refused(self, code: u16, reason: &str) -> Result<Self> {
        let answer = self.code(code)?;
        let got = answer.body["reason"].as_str().unwrap_or_default();
        ensure!(
            got == reason,
            "{}: expected reason {reason}, got {}",
            answer.request,
            answer.body
        );
        Ok(answer)
    }

    /// Insists that the Status message contains `text`.
    ///
    /// # Errors
    /// When it does not.
    pub fn says(self, text: &str) -> Result<Self> {
        let message = self.body["message"].as_str().or_else(|| self.body.as_str());
        let message = message.unwrap_or_default();
        ensure!(message.contains(text), "{}: no `{text}` in `{message}`", self.request);
        Ok(self)
    }

    /// Insists on the value at a JSON pointer; `Value::Null` means absent or null.
    ///
    /// # Errors
    /// When it is another one.
    pub fn has(self, pointer: &str, want: impl Into<Value>) -> Result<Self> {
        let want = want.into();
        let got = self.body.pointer(pointer).cloned().unwrap_or_default();
        ensure!(got == want, "{}: {pointer} should be {want}, is {got}", self.request);
        Ok(self)
    }

    /// Insists that nothing is at a JSON pointer.
    ///
    /// # Errors
    /// When something is.
    pub fn lacks(self, pointer: &str) -> Result<Self> {
        let got = self.body.pointer(pointer);
        ensure!(
            got.is_none(),
            "{}: {pointer} should be absent, is {got:?}",
            self.request
        );
        Ok(self)
    }

    /// Insists on one warning that contains `text`.
    ///
    /// # Errors
    /// When there is none.
    pub fn warns(self, text: &str) -> Result<Self> {
        let unquoted = |warning: &String| warning.replace("\\\"", "\"");
        let found = self.warnings.iter().map(unquoted).any(|warning| warning.contains(text));
        ensure!(found, "{}: no warning `{text}` in {:?}", self.request, self.warnings);
        Ok(self)
    }

    /// The value at a JSON pointer, null when absent.
    #[must_use]
    pub fn at(&self, pointer: &str) -> Value {
        self.body.pointer(pointer).cloned().unwrap_or_default()
    }

    /// A text at a JSON pointer, empty when absent.
    #[must_use]
    pub fn text(&self, pointer: &str) -> String {
        self.body
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    }

    /// `metadata.resourceVersion` as a number.
    ///
    /// # Errors
    /// When there is none or it is no number.
    pub fn version(&self) -> Result<u64> {
        let text = self.text("/metadata/resourceVersion");
        text.parse()
            .with_context(|| format!("{}: no version in {}", self.request, self.body))
    }

    /// `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> String {
        self.text("/metadata/uid")
    }

    /// `metadata.generation`, if there is one.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.at("/metadata/generation").as_i64()
    }

    /// `details.causes` as (reason, field) pairs.
    #[must_use]
    pub fn causes(&self) -> Vec<(String, String)> {
        let causes = self.at("/details/causes");
        let part = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
        let pair = |cause| (part(cause, "reason"), part(cause, "field"));
        causes
            .as_array()
            .map(|all| all.iter().map(pair).collect())
            .unwrap_or_default()
    }

    /// The managers of the object as `manager/operation/subresource`, in the server's order.
    #[must_use]
    pub fn managers(&self) -> Vec<String> {
        let entries = self.at("/metadata/managedFields");
        let part = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let name = |entry: &Value| {
            format!(
                "{}/{}/{}",
                part(entry, "manager"),
                part(entry, "operation"),
                part(entry, "subresource")
            )
        };
        entries
            .as_array()
            .map(|all| all.iter().map(name).collect())
            .unwrap_or_default()
    }

    /// The fields one manager owns (`FieldsV1`), by the name [`Answer::managers`] gives it.
    #[must_use]
    pub fn owned_by(&self, manager: &str) -> Value {
        let at = self.managers().iter().position(|name| name == manager);
        at.map(|at| self.at(&format!("/metadata/managedFields/{at}/fieldsV1")))
            .unwrap_or_default()
    }

    /// The names of a list's items.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let items = self.at("/items");
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        items
            .as_array()
            .map(|all| all.iter().map(name).collect())
            .unwrap_or_default()
    }
}
