//! GET of one object.

use std::time::Duration;

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::status::ApiError;

use super::served;
use crate::call::{Call, Outcome};
use crate::server::{ApiServer, key_of};

/// How long a read waits for a version that is not there yet.
const FRESH_WAIT: Duration = Duration::from_secs(3);

pub(super) async fn get(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    let wanted = version(call.options.resource_version.as_deref()).map_err(|e| ApiError::new(500, "", e))?;
    wait_until_fresh(server, wanted).await?;
    let name = call.name.as_deref().unwrap_or_default();
    let key = key_of(&call.resource.storage, call.namespace.as_deref(), name);
    let stored = match server.as_of() {
        None => server.store().get(&key),
        Some(revision) => {
            let past = server.store().snapshot_at(&key.resource, revision);
            past.ok().and_then(|past| past.objects.get(&key.path()).cloned())
        }
    };
    let Some(stored) = stored else {
        return Err(ApiError::not_found(&call.resource.group_resource(), name));
    };
    let object = served(&call.resource, &stored);
    Ok(Outcome::Object {
        code: 200,
        object,
        warnings: Vec::new(),
    })
}

/// Reads a `resourceVersion` parameter: 0 when unset, the server's message when it is no number.
pub(super) fn version(text: Option<&str>) -> Result<u64, String> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(0);
    };
    // Go takes no sign.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| {
        let text = go_quote(text);
        format!("resourceVersion: Invalid value: {text}: strconv.ParseUint: parsing {text}: invalid syntax")
    })
}

/// Waits a little for a version from the future, then gives up as the server does.
pub(super) async fn wait_until_fresh(server: &ApiServer, wanted: u64) -> Result<(), ApiError> {
    if wanted <= server.store().revision() {
        return Ok(());
    }
    tokio::time::sleep(FRESH_WAIT).await;
    let current = server.store().revision();
    if wanted <= current {
        return Ok(());
    }
    Err(too_large(wanted, current))
}

/// 504 about a version from the future.
pub(super) fn too_large(wanted: u64, current: u64) -> ApiError {
    let cause = serde_json::json!([{
        "reason": "ResourceVersionTooLarge",
        "message": "Too large resource version",
    }]);
    let message = format!("Too large resource version: {wanted}, current: {current}");
    ApiError::timeout(&message, 1).with_detail("causes", cause)
}
