//! Typed calls of the provider's API. Each returns the response headers, which carry the rate limit.
//!
//! One call is one request. This module does not wait, retry or decide; all calls go through [`super::HcloudAccount`],
//! which owns the rate limiter.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt;

use aplomb_http_client::{ApiToken, Transport};

use super::error::HcloudError;
use super::model::{AssignRequest, FloatingIp, FloatingIpPage, HcloudAction, LabelsRequest, OneAction, OneFloatingIp};

pub const ENDPOINT: &str = "https://api.hetzner.cloud/v1";
/// Maximum number of floating IPs on a page.
pub const PER_PAGE: u32 = 50;
/// Header with the lane of a request. The provider ignores it; simulators and proxies can log it.
const LANE_HEADER: &str = "x-aplomb-lane";

/// A client for one token. Cheap to clone.
#[derive(Clone)]
pub struct HcloudClient {
    transport: Transport,
    endpoint: Arc<str>,
    token: ApiToken,
    lane: Option<&'static str>,
}

/// Filter and page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FloatingIpQuery {
    /// Only the floating IP with this name.
    pub name: Option<String>,
    /// The page, from 1; 0 means the first page.
    pub page: u32,
}

/// A successful response.
#[derive(Clone, Debug)]
pub struct HcloudResponse<T> {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: T,
}

pub type Result<T> = std::result::Result<HcloudResponse<T>, HcloudError>;

impl HcloudClient {
    /// A client that reaches `endpoint` over `transport`.
    #[must_use]
    pub fn new(transport: Transport, endpoint: &str, token: ApiToken) -> Self {
        Self {
            transport,
            endpoint: endpoint.trim_end_matches('/').into(),
            token,
            lane: None,
        }
    }

    /// The same client, sending `lane` in a header of each request.
    #[must_use]
    pub fn with_lane(&self, lane: &'static str) -> Self {
        Self {
            lane: Some(lane),
            ..self.clone()
        }
    }

    /// One page of the project's floating IPs.
    ///
    /// # Errors
    /// The provider returned an error, or did not respond.
    pub async fn floating_ips(&self, query: &FloatingIpQuery) -> Result<FloatingIpPage> {
        let mut path = format!("/floating_ips?per_page={PER_PAGE}");
        if query.page > 1 {
            path.push_str(&format!("&page={}", query.page));
        }
        if let Some(name) = &query.name {
            path.push_str("&name=");
            path.push_str(&encode_query(name));
        }
        self.send(Method::GET, &path, None::<&()>).await
    }

    /// One floating IP.
    pub async fn floating_ip(&self, id: i64) -> Result<FloatingIp> {
        let path = format!("/floating_ips/{id}");
        let read: HcloudResponse<OneFloatingIp> = self.send(Method::GET, &path, None::<&()>).await?;
        Ok(read.map(|body| body.floating_ip))
    }

    /// Assigns a floating IP to a server. The returned action may still be running.
    ///
    /// # Errors
    /// See [`HcloudClient::floating_ips`]. Without a response, the assignment may still have happened.
    pub async fn assign(&self, floating_ip: i64, server: i64) -> Result<HcloudAction> {
        let path = format!("/floating_ips/{floating_ip}/actions/assign");
        let body = AssignRequest { server };
        let begun: HcloudResponse<OneAction> = self.send(Method::POST, &path, Some(&body)).await?;
        Ok(begun.map(|body| body.action))
    }

    /// Reads the state of an action.
    pub async fn action(&self, id: i64) -> Result<HcloudAction> {
        let path = format!("/actions/{id}");
        let read: HcloudResponse<OneAction> = self.send(Method::GET, &path, None::<&()>).await?;
        Ok(read.map(|body| body.action))
    }

    /// Replaces all labels of a floating IP.
    pub async fn update_labels(&self, floating_ip: i64, labels: &BTreeMap<String, String>) -> Result<FloatingIp> {
        let path = format!("/floating_ips/{floating_ip}");
        let body = LabelsRequest { labels };
        let written: HcloudResponse<OneFloatingIp> = self.send(Method::PUT, &path, Some(&body)).await?;
        Ok(written.map(|body| body.floating_ip))
    }

    async fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Result<T> {
        let lost = |cause: &dyn std::fmt::Display| HcloudError::no_answer(&self.token, cause);
        let request = self.build_request(method, path, body).map_err(|cause| lost(&cause))?;
        let answer = self.transport.clone().oneshot(request).await;
        let (head, body) = answer.map_err(|cause| lost(&cause))?.into_parts();
        if !head.status.is_success() {
            return Err(HcloudError::from_response(
                &self.token,
                head.status,
                head.headers,
                &body,
            ));
        }
        match serde_json::from_slice(&body) {
            Ok(body) => Ok(HcloudResponse {
                status: head.status.as_u16(),
                headers: head.headers,
                body,
            }),
            Err(cause) => Err(HcloudError::unreadable(&self.token, head.status, head.headers, &cause)),
        }
    }

    fn build_request(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> std::result::Result<Request<Bytes>, http::Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.endpoint))
            .header(header::AUTHORIZATION, self.token.to_header_value("Bearer "))
            .header(header::ACCEPT, "application/json");
        if let Some(lane) = self.lane {
            request = request.header(LANE_HEADER, HeaderValue::from_static(lane));
        }
        let Some(body) = body else {
            return request.body(Bytes::new());
        };
        let body = serde_json::to_vec(body).expect("numbers and strings are JSON");
        request
            .header(header::CONTENT_TYPE, "application/json")
            .body(Bytes::from(body))
    }
}

impl<T> HcloudResponse<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> HcloudResponse<U> {
        HcloudResponse {
            status: self.status,
            headers: self.headers,
            body: change(self.body),
        }
    }
}

/// Percent-encodes a query value: all but letters, digits and `-._~`.
fn encode_query(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

impl std::fmt::Debug for HcloudClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HcloudClient")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
