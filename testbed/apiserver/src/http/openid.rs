//! What others need to check the tokens of service accounts: the issuer, and its public key.

use aplomb_apimachinery::status::ApiError;
use aplomb_go_compat::html_escape as gojson;
use http::Method;
use http::header::{CACHE_CONTROL, HeaderValue};
use serde::Serialize;

use super::filters::Context;
use super::negotiate::{header, produces};
use super::response::Reply;
use super::router::{not_allowed, router_not_acceptable};
use crate::auth::accounts::ISSUER;

const KEY_SET: &str = "application/jwk-set+json";

/// What is published about the issuer, in the order of the server.
#[derive(Serialize)]
struct Issuer {
    issuer: &'static str,
    jwks_uri: String,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: [&'static str; 1],
}

pub(super) fn answer(context: &Context<'_>) -> Result<Reply, ApiError> {
    if context.method != Method::GET {
        return Err(not_allowed());
    }
    let keys = context.info.path.ends_with("jwks");
    let kind = if keys { KEY_SET } else { "application/json" };
    if !produces(&context.headers, &[kind]) {
        return Err(router_not_acceptable(kind));
    }
    let document = if keys {
        gojson::compact(&context.shared.server.signer().key_set())
    } else {
        let host = header(&context.headers, "host");
        gojson::compact(&Issuer {
            issuer: ISSUER,
            jwks_uri: format!("https://{host}/openid/v1/jwks"),
            response_types_supported: ["id_token"],
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: ["ES256"],
        })
    };
    let fresh = HeaderValue::from_static("public, max-age=3600");
    let kind = HeaderValue::from_static(kind);
    Ok(Reply::bytes(200, kind, document).with(CACHE_CONTROL, fresh))
}
