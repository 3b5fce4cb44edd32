//! Requests and how their responses are decoded: one constructor for each call.
//!
//! A name is always exactly one path segment: special characters are escaped, and names that cannot
//! be escaped are refused before anything is sent.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::endpoint::CoderEndpoint;
use super::error::CallError;
use super::model::{
    BuildInfo, CoderUser, CreateKeyRequest, CreateKeyResponse, CreateProxyResponse, CreatedKey,
    CreatedProxy, Entitlements, Organization, ProvisionerKey, ProvisionerKeyDaemons, ProxyDisplay,
    ProxyPatch, Regions, WorkspaceProxy,
};

type Result<T> = std::result::Result<T, CallError>;

/// A request with response type `T`.
pub struct CoderCall<T> {
    /// The endpoint.
    pub endpoint: CoderEndpoint,
    /// The HTTP method.
    pub(super) method: Method,
    /// The path without a query, by which the server's rate limit counts.
    pub path: String,
    pub(super) body: Option<Bytes>,
    read: fn(&[u8]) -> Option<T>,
}

impl<T> CoderCall<T> {
    fn new(
        endpoint: CoderEndpoint,
        method: Method,
        path: String,
        read: fn(&[u8]) -> Option<T>,
    ) -> Self {
        Self {
            endpoint,
            method,
            path,
            body: None,
            read,
        }
    }

    fn with(mut self, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("strings and flags are JSON");
        self.body = Some(Bytes::from(body));
        self
    }

    pub(super) fn read(&self, body: &[u8]) -> Option<T> {
        (self.read)(body)
    }
}

impl CoderCall<BuildInfo> {
    /// Version of the server.
    #[must_use]
    pub fn build_info() -> Self {
        let path = "/api/v2/buildinfo".to_owned();
        Self::new(CoderEndpoint::BuildInfo, Method::GET, path, json)
    }
}

impl CoderCall<CoderUser> {
    /// The user of the token.
    #[must_use]
    pub fn user() -> Self {
        let path = "/api/v2/users/me".to_owned();
        Self::new(CoderEndpoint::User, Method::GET, path, json)
    }
}

impl CoderCall<Organization> {
    /// The organization with a name or ID.
    ///
    /// # Errors
    /// The name cannot be part of a path.
    pub fn organization(name: &str) -> Result<Self> {
        let endpoint = CoderEndpoint::Organization;
        let path = format!("/api/v2/organizations/{}", segment(endpoint, name)?);
        Ok(Self::new(endpoint, Method::GET, path, json))
    }
}

impl CoderCall<Vec<ProvisionerKey>> {
    /// The keys of an organization.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn keys(organization: &str) -> Result<Self> {
        let path = keys(CoderEndpoint::ListKeys, organization)?;
        Ok(Self::new(CoderEndpoint::ListKeys, Method::GET, path, list))
    }
}

impl CoderCall<CreatedKey> {
    /// Creates a key.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn new_key(
        organization: &str,
        name: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let endpoint = CoderEndpoint::CreateKey;
        let path = keys(endpoint, organization)?;
        let ask = Self::new(endpoint, Method::POST, path, |body| {
            let made = json::<CreateKeyResponse>(body)?.key;
            (!made.is_empty()).then_some(CreatedKey(made))
        });
        Ok(ask.with(&CreateKeyRequest { name, tags }))
    }
}

impl CoderCall<Vec<ProvisionerKeyDaemons>> {
    /// The keys of an organization, with the daemons connected with each.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn daemons(organization: &str) -> Result<Self> {
        let endpoint = CoderEndpoint::ListDaemons;
        let path = format!("{}/daemons", keys(endpoint, organization)?);
        Ok(Self::new(endpoint, Method::GET, path, list))
    }
}

impl CoderCall<Entitlements> {
    /// The features of the license.
    #[must_use]
    pub fn entitlements() -> Self {
        let path = "/api/v2/entitlements".to_owned();
        Self::new(CoderEndpoint::Entitlements, Method::GET, path, json)
    }
}

impl CoderCall<WorkspaceProxy> {
    /// The workspace proxy with a name or ID.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn proxy(name: &str) -> Result<Self> {
        let path = proxy(CoderEndpoint::GetProxy, name)?;
        Ok(Self::new(CoderEndpoint::GetProxy, Method::GET, path, json))
    }
}

impl CoderCall<Vec<WorkspaceProxy>> {
    /// All workspace proxies.
    #[must_use]
    pub fn proxies() -> Self {
        let path = "/api/v2/workspaceproxies".to_owned();
        Self::new(CoderEndpoint::GetProxy, Method::GET, path, |body| {
            Some(json::<Regions>(body)?.regions.unwrap_or_default())
        })
    }
}

impl CoderCall<CreatedProxy> {
    /// Registers a workspace proxy.
    #[must_use]
    pub fn new_proxy(looks: &ProxyDisplay) -> Self {
        let path = "/api/v2/workspaceproxies".to_owned();
        let ask = Self::new(CoderEndpoint::CreateProxy, Method::POST, path, made_proxy);
        ask.with(looks)
    }

    /// Changes the display fields of a workspace proxy, or its token.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn patch_proxy(id: &str, looks: &ProxyDisplay, regenerate_token: bool) -> Result<Self> {
        let path = proxy(CoderEndpoint::PatchProxy, id)?;
        let ask = Self::new(CoderEndpoint::PatchProxy, Method::PATCH, path, made_proxy);
        Ok(ask.with(&ProxyPatch {
            id,
            looks,
            regenerate_token,
        }))
    }
}

impl CoderCall<()> {
    /// Deletes a key.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn delete_key(organization: &str, name: &str) -> Result<Self> {
        let endpoint = CoderEndpoint::DeleteKey;
        let name = segment(endpoint, name)?;
        let path = format!("{}/{name}", keys(endpoint, organization)?);
        Ok(Self::new(endpoint, Method::DELETE, path, nothing))
    }

    /// Deletes a workspace proxy.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn delete_proxy(id: &str) -> Result<Self> {
        let path = proxy(CoderEndpoint::DeleteProxy, id)?;
        Ok(Self::new(
            CoderEndpoint::DeleteProxy,
            Method::DELETE,
            path,
            nothing,
        ))
    }
}

fn keys(endpoint: CoderEndpoint, organization: &str) -> Result<String> {
    let organization = segment(endpoint, organization)?;
    Ok(format!(
        "/api/v2/organizations/{organization}/provisionerkeys"
    ))
}

fn proxy(endpoint: CoderEndpoint, name: &str) -> Result<String> {
    Ok(format!(
        "/api/v2/workspaceproxies/{}",
        segment(endpoint, name)?
    ))
}

/// One path segment: all but letters, digits and `-._~` is escaped. Segments of dots mean another
/// path even when escaped, and an empty one means the parent.
fn segment(endpoint: CoderEndpoint, text: &str) -> Result<String> {
    if matches!(text, "" | "." | "..") {
        return Err(CallError::unsendable(endpoint));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    Ok(text.bytes().map(one).collect())
}

/// An object. A list is rejected: serde would read its items as the fields in their order.
fn json<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    let object = body.trim_ascii_start().starts_with(b"{");
    object.then(|| serde_json::from_slice(body).ok())?
}

/// An empty list may be null.
fn list<T: DeserializeOwned>(body: &[u8]) -> Option<Vec<T>> {
    let list = serde_json::from_slice::<Option<Vec<T>>>(body).ok()?;
    Some(list.unwrap_or_default())
}

fn made_proxy(body: &[u8]) -> Option<CreatedProxy> {
    let made = json::<CreateProxyResponse>(body)?;
    let token = Some(made.proxy_token).filter(|token| !token.is_empty());
    Some(CreatedProxy {
        proxy: made.proxy,
        token: token.map(CreatedKey),
    })
}

fn nothing(_: &[u8]) -> Option<()> {
    Some(())
}

/// Leaves the body out: it may contain secrets.
impl<T> fmt::Debug for CoderCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("endpoint", &self.endpoint)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
