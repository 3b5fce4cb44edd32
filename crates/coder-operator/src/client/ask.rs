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

use super::error::CallError;
use super::model::{
    BuildInfo, CoderUser, CreateKeyRequest, CreateKeyResponse, CreateProxyResponse, CreatedKey, CreatedProxy,
    Entitlements, Organization, ProvisionerKey, ProvisionerKeyDaemons, ProxyDisplay, ProxyPatch, Regions,
    WorkspaceProxy,
};

type Result<T> = std::result::Result<T, CallError>;

/// A request with response type `T`.
pub(crate) struct CoderCall<T> {
    pub(crate) endpoint: CoderEndpoint,
    pub(super) method: Method,
    /// The path without a query, by which the server's rate limit counts.
    pub(crate) path: String,
    pub(super) body: Option<Bytes>,
    parse: fn(&[u8]) -> Option<T>,
}

impl<T> CoderCall<T> {
    fn new(endpoint: CoderEndpoint, method: Method, path: String, read: fn(&[u8]) -> Option<T>) -> Self {
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
    pub(crate) fn build_info() -> Self {
        let path = "/api/v2/buildinfo".to_owned();
        Self::new(CoderEndpoint::BuildInfo, Method::GET, path, parse_object)
    }
}

impl CoderCall<CoderUser> {
    pub(crate) fn user() -> Self {
        let path = "/api/v2/users/me".to_owned();
        Self::new(CoderEndpoint::User, Method::GET, path, parse_object)
    }
}

impl CoderCall<Organization> {
    /// The organization with a name or ID.
    pub(crate) fn organization(name: &str) -> Result<Self> {
        let endpoint = CoderEndpoint::Organization;
        let path = format!("/api/v2/organizations/{}", encode_segment(endpoint, name)?);
        Ok(Self::new(endpoint, Method::GET, path, parse_object))
    }
}

impl CoderCall<Vec<ProvisionerKey>> {
    /// The keys of an organization.
    pub(crate) fn keys(organization: &str) -> Result<Self> {
        let path = keys_path(CoderEndpoint::ListKeys, organization)?;
        Ok(Self::new(CoderEndpoint::ListKeys, Method::GET, path, parse_list))
    }
}

impl CoderCall<CreatedKey> {
    /// Creates a key.
    pub(crate) fn create_key(organization: &str, name: &str, tags: &BTreeMap<String, String>) -> Result<Self> {
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
    /// The keys of an organization, with the daemons connected with each.
    pub(crate) fn daemons(organization: &str) -> Result<Self> {
        let endpoint = CoderEndpoint::ListDaemons;
        let path = format!("{}/daemons", keys_path(endpoint, organization)?);
        Ok(Self::new(endpoint, Method::GET, path, parse_list))
    }
}

impl CoderCall<Entitlements> {
    /// The features of the license.
    pub(crate) fn entitlements() -> Self {
        let path = "/api/v2/entitlements".to_owned();
        Self::new(CoderEndpoint::Entitlements, Method::GET, path, parse_object)
    }
}

impl CoderCall<WorkspaceProxy> {
    /// The workspace proxy with a name or ID.
    pub(crate) fn proxy(name: &str) -> Result<Self> {
        let path = proxy_path(CoderEndpoint::GetProxy, name)?;
        Ok(Self::new(CoderEndpoint::GetProxy, Method::GET, path, parse_object))
    }
}

impl CoderCall<Vec<WorkspaceProxy>> {
    /// All workspace proxies.
    pub(crate) fn proxies() -> Self {
        let path = "/api/v2/workspaceproxies".to_owned();
        Self::new(CoderEndpoint::GetProxy, Method::GET, path, |body| {
            Some(parse_object::<Regions>(body)?.regions.unwrap_or_default())
        })
    }
}

impl CoderCall<CreatedProxy> {
    /// Registers a workspace proxy.
    pub(crate) fn create_proxy(looks: &ProxyDisplay) -> Self {
        let path = "/api/v2/workspaceproxies".to_owned();
        Self::new(CoderEndpoint::CreateProxy, Method::POST, path, parse_created_proxy).with_body(looks)
    }

    /// Changes the display fields of a workspace proxy, or its token.
    pub(crate) fn patch_proxy(id: &str, looks: &ProxyDisplay, regenerate_token: bool) -> Result<Self> {
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
    /// Deletes a key.
    pub(crate) fn delete_key(organization: &str, name: &str) -> Result<Self> {
        let endpoint = CoderEndpoint::DeleteKey;
        let name = encode_segment(endpoint, name)?;
        let path = format!("{}/{name}", keys_path(endpoint, organization)?);
        Ok(Self::new(endpoint, Method::DELETE, path, ignore_body))
    }

    /// Deletes a workspace proxy.
    pub(crate) fn delete_proxy(id: &str) -> Result<Self> {
        let path = proxy_path(CoderEndpoint::DeleteProxy, id)?;
        Ok(Self::new(CoderEndpoint::DeleteProxy, Method::DELETE, path, ignore_body))
    }
}

fn keys_path(endpoint: CoderEndpoint, organization: &str) -> Result<String> {
    let organization = encode_segment(endpoint, organization)?;
    Ok(format!("/api/v2/organizations/{organization}/provisionerkeys"))
}

fn proxy_path(endpoint: CoderEndpoint, name: &str) -> Result<String> {
    Ok(format!("/api/v2/workspaceproxies/{}", encode_segment(endpoint, name)?))
}

/// One path segment: all but letters, digits and `-._~` is escaped. Segments of dots mean another
/// path even when escaped, and an empty one means the parent.
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

/// An object. A list is rejected: serde would read its items as the fields in their order.
fn parse_object<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    let object = body.trim_ascii_start().starts_with(b"{");
    object.then(|| serde_json::from_slice(body).ok())?
}

/// An empty list may be null.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CoderEndpoint {
    BuildInfo,
    User,
    Organization,
    ListKeys,
    CreateKey,
    DeleteKey,
    ListDaemons,
    Entitlements,
    GetProxy,
    CreateProxy,
    PatchProxy,
    DeleteProxy,
}

impl CoderEndpoint {
    pub(crate) const ALL: [Self; 12] = [
        Self::BuildInfo,
        Self::User,
        Self::Organization,
        Self::ListKeys,
        Self::CreateKey,
        Self::DeleteKey,
        Self::ListDaemons,
        Self::Entitlements,
        Self::GetProxy,
        Self::CreateProxy,
        Self::PatchProxy,
        Self::DeleteProxy,
    ];

    pub(crate) const fn phrase(self) -> &'static str {
        match self {
            Self::BuildInfo => "read version",
            Self::User => "read user",
            Self::Organization => "read organization",
            Self::ListKeys => "list keys",
            Self::CreateKey => "create key",
            Self::DeleteKey => "delete key",
            Self::ListDaemons => "list daemons",
            Self::Entitlements => "read entitlements",
            Self::GetProxy => "read proxy",
            Self::CreateProxy => "create proxy",
            Self::PatchProxy => "patch proxy",
            Self::DeleteProxy => "delete proxy",
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::BuildInfo => "buildinfo",
            Self::User => "user",
            Self::Organization => "organization",
            Self::ListKeys => "list_keys",
            Self::CreateKey => "create_key",
            Self::DeleteKey => "delete_key",
            Self::ListDaemons => "list_daemons",
            Self::Entitlements => "entitlements",
            Self::GetProxy => "get_proxy",
            Self::CreateProxy => "create_proxy",
            Self::PatchProxy => "patch_proxy",
            Self::DeleteProxy => "delete_proxy",
        }
    }

    /// Whether the rate-limit bypass is allowed for it, if configured.
    pub(crate) const fn may_bypass(self) -> bool {
        matches!(
            self,
            Self::ListKeys
                | Self::CreateKey
                | Self::DeleteKey
                | Self::CreateProxy
                | Self::PatchProxy
                | Self::DeleteProxy
        )
    }

    /// Whether the server authenticates it. Otherwise no token is sent.
    pub(crate) const fn needs_token(self) -> bool {
        !matches!(self, Self::BuildInfo | Self::Entitlements)
    }

    /// Whether it only reads.
    pub(crate) const fn is_read(self) -> bool {
        !matches!(
            self,
            Self::CreateKey | Self::DeleteKey | Self::CreateProxy | Self::PatchProxy | Self::DeleteProxy
        )
    }
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
