//! Requests and how their answers are read: one constructor for each call.
//!
//! A name becomes one segment of a path and never more: what could lead elsewhere is escaped, and what
//! cannot be escaped is refused before anything is sent.

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

/// A request whose answer is a `T`.
pub struct CoderCall<T> {
    /// Which call.
    pub endpoint: CoderEndpoint,
    /// How.
    pub(super) method: Method,
    /// What the server's rate limit counts by: the path, without a query.
    pub path: String,
    pub(super) body: Option<Bytes>,
    parse: fn(&[u8]) -> Option<T>,
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
            parse: read,
        }
    }

    fn with_body(mut self, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("strings and flags are JSON");
        self.body = Some(Bytes::from(body));
        self
    }

    pub(super) fn parse(&self, body: &[u8]) -> Option<T> {
        (self.parse)(body)
    }
}

impl CoderCall<BuildInfo> {
    /// Which version the server is.
    #[must_use]
    pub fn build_info() -> Self {
        let path = "/api/v2/buildinfo".to_owned();
        Self::new(CoderEndpoint::BuildInfo, Method::GET, path, parse_object)
    }
}

impl CoderCall<CoderUser> {
    /// Whose token it is.
    #[must_use]
    pub fn user() -> Self {
        let path = "/api/v2/users/me".to_owned();
        Self::new(CoderEndpoint::User, Method::GET, path, parse_object)
    }
}

impl CoderCall<Organization> {
    /// The organisation of a name or id.
    ///
    /// # Errors
    /// As all that take a name: it cannot be part of a path.
    pub fn organization(name: &str) -> Result<Self> {
        let endpoint = CoderEndpoint::Organization;
        let path = format!("/api/v2/organizations/{}", encode_segment(endpoint, name)?);
        Ok(Self::new(endpoint, Method::GET, path, parse_object))
    }
}

impl CoderCall<Vec<ProvisionerKey>> {
    /// The keys of an organisation.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn keys(organization: &str) -> Result<Self> {
        let path = keys_path(CoderEndpoint::ListKeys, organization)?;
        Ok(Self::new(CoderEndpoint::ListKeys, Method::GET, path, parse_list))
    }
}

impl CoderCall<CreatedKey> {
    /// A new key.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn create_key(
        organization: &str,
        name: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let endpoint = CoderEndpoint::CreateKey;
        let path = keys_path(endpoint, organization)?;
        let ask = Self::new(endpoint, Method::POST, path, |body| {
            let made = parse_object::<CreateKeyResponse>(body)?.key;
            (!made.is_empty()).then_some(CreatedKey(made))
        });
        Ok(ask.with_body(&CreateKeyRequest { name, tags }))
    }
}

impl CoderCall<Vec<ProvisionerKeyDaemons>> {
    /// The keys of an organisation and the daemons that are connected with each.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn daemons(organization: &str) -> Result<Self> {
        let endpoint = CoderEndpoint::ListDaemons;
        let path = format!("{}/daemons", keys_path(endpoint, organization)?);
        Ok(Self::new(endpoint, Method::GET, path, parse_list))
    }
}

impl CoderCall<Entitlements> {
    /// What the licence allows.
    #[must_use]
    pub fn entitlements() -> Self {
        let path = "/api/v2/entitlements".to_owned();
        Self::new(CoderEndpoint::Entitlements, Method::GET, path, parse_object)
    }
}

impl CoderCall<WorkspaceProxy> {
    /// The workspace proxy of a name or id.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn proxy(name: &str) -> Result<Self> {
        let path = proxy_path(CoderEndpoint::GetProxy, name)?;
        Ok(Self::new(CoderEndpoint::GetProxy, Method::GET, path, parse_object))
    }
}

impl CoderCall<Vec<WorkspaceProxy>> {
    /// All workspace proxies.
    #[must_use]
    pub fn proxies() -> Self {
        let path = "/api/v2/workspaceproxies".to_owned();
        Self::new(CoderEndpoint::GetProxy, Method::GET, path, |body| {
            Some(parse_object::<Regions>(body)?.regions.unwrap_or_default())
        })
    }
}

impl CoderCall<CreatedProxy> {
    /// A new workspace proxy.
    #[must_use]
    pub fn create_proxy(looks: &ProxyDisplay) -> Self {
        let path = "/api/v2/workspaceproxies".to_owned();
        let ask = Self::new(CoderEndpoint::CreateProxy, Method::POST, path, parse_created_proxy);
        ask.with_body(looks)
    }

    /// Other looks or another token for a workspace proxy.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn patch_proxy(id: &str, looks: &ProxyDisplay, regenerate_token: bool) -> Result<Self> {
        let path = proxy_path(CoderEndpoint::PatchProxy, id)?;
        let ask = Self::new(CoderEndpoint::PatchProxy, Method::PATCH, path, parse_created_proxy);
        Ok(ask.with_body(&ProxyPatch {
            id,
            looks,
            regenerate_token,
        }))
    }
}

impl CoderCall<()> {
    /// The end of a key.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn delete_key(organization: &str, name: &str) -> Result<Self> {
        let endpoint = CoderEndpoint::DeleteKey;
        let name = encode_segment(endpoint, name)?;
        let path = format!("{}/{name}", keys_path(endpoint, organization)?);
        Ok(Self::new(endpoint, Method::DELETE, path, ignore_body))
    }

    /// The end of a workspace proxy.
    ///
    /// # Errors
    /// See [`CoderCall::organization`].
    pub fn delete_proxy(id: &str) -> Result<Self> {
        let path = proxy_path(CoderEndpoint::DeleteProxy, id)?;
        Ok(Self::new(
            CoderEndpoint::DeleteProxy,
            Method::DELETE,
            path,
            ignore_body,
        ))
    }
}

fn keys_path(endpoint: CoderEndpoint, organization: &str) -> Result<String> {
    let organization = encode_segment(endpoint, organization)?;
    Ok(format!(
        "/api/v2/organizations/{organization}/provisionerkeys"
    ))
}

fn proxy_path(endpoint: CoderEndpoint, name: &str) -> Result<String> {
    Ok(format!(
        "/api/v2/workspaceproxies/{}",
        encode_segment(endpoint, name)?
    ))
}

/// One segment of a path: whatever is not a letter, a digit or one of `-._~` is escaped. Dots alone mean
/// another path even when they are escaped, and nothing at all means the path above.
fn encode_segment(endpoint: CoderEndpoint, text: &str) -> Result<String> {
    if matches!(text, "" | "." | "..") {
        return Err(CallError::invalid_request(endpoint));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    Ok(text.bytes().map(one).collect())
}

/// An object. A list would be read as its fields in their order, which nobody meant.
fn parse_object<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    let object = body.trim_ascii_start().starts_with(b"{");
    object.then(|| serde_json::from_slice(body).ok())?
}

/// An empty list may come as null.
fn parse_list<T: DeserializeOwned>(body: &[u8]) -> Option<Vec<T>> {
    let list = serde_json::from_slice::<Option<Vec<T>>>(body).ok()?;
    Some(list.unwrap_or_default())
}

fn parse_created_proxy(body: &[u8]) -> Option<CreatedProxy> {
    let made = parse_object::<CreateProxyResponse>(body)?;
    let token = Some(made.proxy_token).filter(|token| !token.is_empty());
    Some(CreatedProxy {
        proxy: made.proxy,
        token: token.map(CreatedKey),
    })
}

fn ignore_body(_: &[u8]) -> Option<()> {
    Some(())
}

/// Without the body: nothing in it is worth the doubt.
impl<T> fmt::Debug for CoderCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("endpoint", &self.endpoint)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
