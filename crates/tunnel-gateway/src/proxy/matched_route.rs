//! Forwards a request to its origin and the response back, with the headers for each side.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, COOKIE, EXPECT, HOST, HeaderMap, HeaderValue, TE};
use http::request::Parts;
use http::uri::Uri;
use http::{Request, StatusCode, Version};
use http_body::Body;

use super::error_response::ErrorResponse;
use super::forward::{self, ResponseTimeout};
use super::handle::RequestOutcome;
use super::headers::{self, ForwardedInfo};
use super::request_body::{BoxError, UploadBody, UploadProgress, UpstreamSender};
use super::request_record::RequestRecord;
use super::shared::ProxyShared;
use super::upgrade::UpgradeRequest;
use crate::origin::pool::PoolKey;
use crate::reason;
use crate::routing::{OriginTarget, TableRoute, TunnelInfo, filters};

/// The origin of a request, and the rule that matched.
#[derive(Clone, Copy)]
pub(super) struct MatchedRoute<'a> {
    pub(super) shared: &'a ProxyShared,
    pub(super) tunnel: &'a Arc<TunnelInfo>,
    pub(super) route: &'a TableRoute,
    pub(super) origin: &'a Arc<OriginTarget>,
}

impl MatchedRoute<'_> {
    /// Forwards a request, and returns the origin's response.
    pub(super) async fn forward<B>(
        self,
        record: &mut RequestRecord,
        (mut head, body): (Parts, B),
        asked: ForwardedInfo<'_>,
        wanted: Option<UpgradeRequest>,
    ) -> Result<RequestOutcome, ErrorResponse>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let share = self.shared.request_limit.try_acquire(self.tunnel.uid.clone());
        let too_many = || ErrorResponse::new(503, reason::TOO_MANY, "the tunnel is at its limit");
        record.set_slot(share.ok_or_else(too_many)?);
        let expects = headers::expects_continue(&head);
        self.prepare_head(&mut head, record.request_id(), asked, wanted.as_ref());
        let (upload, progress) = UploadBody::new(body, self.shared.limits.body_idle);
        record.set_upload(progress.clone());
        let request = with_body(Request::from_parts(head, ()), upload, &progress, expects);
        let (mut response, lease) = forward::send_request(
            self.shared,
            self.pool_key(),
            request,
            &progress,
            self.response_timeout(),
        )
        .await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let unasked = || ErrorResponse::new(502, reason::ORIGIN_BROKEN, "the origin upgraded without a request");
            let wanted = wanted.ok_or_else(unasked)?;
            return Ok(RequestOutcome::Upgrade(wanted, response, lease));
        }
        headers::strip_hop_by_hop(response.headers_mut());
        *response.version_mut() = Version::HTTP_11;
        filters::apply_to_response(&self.route.filters, response.headers_mut());
        Ok(RequestOutcome::Origin(response, lease))
    }

    fn pool_key(&self) -> PoolKey {
        PoolKey {
            tunnel: self.tunnel.uid.clone(),
            origin: self.origin.clone(),
        }
    }

    fn response_timeout(&self) -> ResponseTimeout {
        match self.route.timeout {
            Some(limit) => ResponseTimeout::SinceRequest(limit),
            None => ResponseTimeout::SinceLastByte(self.shared.limits.response_timeout),
        }
    }

    /// The request head for the origin.
    fn prepare_head(&self, head: &mut Parts, id: &str, asked: ForwardedInfo<'_>, wanted: Option<&UpgradeRequest>) {
        let trailers = headers::accepts_trailers(head);
        let filters = &self.route.filters;
        headers::strip_hop_by_hop(&mut head.headers);
        headers::set_forwarded_headers(&mut head.headers, asked);
        merge_cookies(&mut head.headers);
        let id = HeaderValue::from_str(id).expect("made of harmless characters");
        head.headers.insert(headers::REQUEST_ID, id);
        let host = filters::rewritten_host(filters).unwrap_or_else(|| asked.host.clone());
        head.headers.insert(HOST, host);
        filters::apply_to_request(filters, &mut head.headers);
        if trailers {
            let trailers = HeaderValue::from_static("trailers");
            head.headers.insert(TE, trailers);
            let te = HeaderValue::from_static("te");
            head.headers.append(CONNECTION, te);
        }
        if let Some(wanted) = wanted {
            wanted.set_upgrade_headers(&mut head.headers);
        }
        head.uri = Uri::from(filters::rewritten_path(filters, &head.uri, self.route.path_prefix()));
        head.version = Version::HTTP_11;
    }
}

/// A request with its body, which is held back if the client waits for "100 Continue".
fn with_body<B>(
    mut request: Request<()>,
    upload: UploadBody<B>,
    progress: &UploadProgress,
    expects: bool,
) -> Request<UpstreamSender>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let upload = if expects && !progress.is_finished() {
        upload.delayed_until(forward::wait_continue(&mut request))
    } else {
        request.headers_mut().remove(EXPECT);
        upload
    };
    request.map(|()| upload.boxed())
}

/// HTTP/2 may split the cookie into several headers; HTTP/1.1 requires one.
fn merge_cookies(headers: &mut HeaderMap) {
    let mut values = headers.get_all(COOKIE).iter();
    if values.by_ref().take(2).count() < 2 {
        return;
    }
    let parts: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(whole) = HeaderValue::from_bytes(&parts.join(&b"; "[..])) {
        headers.insert(COOKIE, whole);
    }
}
