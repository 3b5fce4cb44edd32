//! The verbs as cases write them, and the paths of what they work on.

use anyhow::Result;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::case_run::{APPLY, CaseRun, GROUP, JSON_PATCH, MERGE};

impl CaseRun {
    /// Path of the Widgets of this trial's namespace.
    #[must_use]
    pub fn widgets(&self) -> String {
        format!("/apis/{GROUP}/v1/namespaces/{}/widgets", self.namespace)
    }

    /// Path of one Widget.
    #[must_use]
    pub fn widget(&self, name: &str) -> String {
        format!("{}/{name}", self.widgets())
    }

    /// Path of a core resource in this trial's namespace: `core("configmaps/a")`.
    #[must_use]
    pub fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace)
    }

    /// Path of a resource of a group in this trial's namespace: `api("apps/v1", "deployments")`.
    #[must_use]
    pub fn api(&self, group_version: &str, rest: &str) -> String {
        format!("/apis/{group_version}/namespaces/{}/{rest}", self.namespace)
    }

    /// GET.
    ///
    /// # Errors
    /// When no answer came; the same for every verb below.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send("GET", path, &[], "").await
    }

    /// POST.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn create(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send("POST", path, &[], body.to_string()).await
    }

    /// PUT.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send("PUT", path, &[], body.to_string()).await
    }

    /// PATCH with a merge patch.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn merge(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send("PATCH", path, &[("content-type", MERGE)], body.to_string())
            .await
    }

    /// PATCH with a strategic merge patch.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn strategic(&self, path: &str, body: &Value) -> Result<Answer> {
        let kind = "application/strategic-merge-patch+json";
        self.send("PATCH", path, &[("content-type", kind)], body.to_string())
            .await
    }

    /// PATCH with a JSON patch.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn json_patch(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send("PATCH", path, &[("content-type", JSON_PATCH)], body.to_string())
            .await
    }

    /// Server-side apply as `manager`.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn apply(&self, path: &str, manager: &str, body: &Value) -> Result<Answer> {
        let path = format!("{path}?fieldManager={manager}");
        self.send("PATCH", &path, &[("content-type", APPLY)], body.to_string())
            .await
    }

    /// Server-side apply that takes what others own.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn force_apply(&self, path: &str, manager: &str, body: &Value) -> Result<Answer> {
        let path = format!("{path}?fieldManager={manager}&force=true");
        self.send("PATCH", &path, &[("content-type", APPLY)], body.to_string())
            .await
    }

    /// DELETE.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send("DELETE", path, &[], "").await
    }

    /// DELETE with options in the body.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn delete_with(&self, path: &str, options: &Value) -> Result<Answer> {
        self.send("DELETE", path, &[], options.to_string()).await
    }

    /// Creates a Widget that has to be accepted.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn new_widget(&self, name: &str, spec: Value) -> Result<Answer> {
        self.create(&self.widgets(), &widget(name, spec)).await?.code(201)
    }
}

/// A Widget.
#[must_use]
#[allow(clippy::needless_pass_by_value, reason = "cases write the spec in place")]
pub fn widget(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "Widget",
        "metadata": { "name": name },
        "spec": spec,
    })
}

/// A ConfigMap.
#[must_use]
#[allow(clippy::needless_pass_by_value, reason = "cases write the data in place")]
pub fn config_map(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name },
        "data": data,
    })
}

/// `object` with `patch` merged over it (RFC 7386): how cases edit what they read.
#[must_use]
#[allow(clippy::needless_pass_by_value, reason = "cases write the change in place")]
pub fn with(object: &Value, patch: Value) -> Value {
    let mut changed = object.clone();
    json_patch::merge(&mut changed, &patch);
    changed
}
