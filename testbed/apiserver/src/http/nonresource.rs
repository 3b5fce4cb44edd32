//! Paths that are not resources: discovery, OpenAPI, health, version.

use aplomb_apimachinery::status::ApiError;
use aplomb_go_compat::html_escape as gojson;
use http::Method;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use serde::Serialize;
use serde_json::{Value, json};

use super::builtin::is_builtin;
use super::filters::Context;
use super::negotiate::{self, Form, Offer, Output, Shape, header, produces};
use super::response::Reply;
use super::route::split_path;
use super::router::{no_such_path, not_allowed, not_found, router_not_acceptable};
use super::{discovery, health, openapi, openid};

pub(super) fn answer(context: &Context<'_>) -> Reply {
    let found = find(context);
    found.unwrap_or_else(|error| context.error(&error))
}

fn find(context: &Context<'_>) -> Result<Reply, ApiError> {
    let path = context.info.path.as_str();
    let parts = split_path(path);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [] if path.starts_with('/') => Ok(Reply::json(200, gojson::pretty(&paths(context)))),
        ["version"] => version(context),
        [".well-known", "openid-configuration"] | ["openid", "v1", "jwks"] => openid::answer(context),
        ["healthz" | "livez" | "readyz", ..] => health::answer(context, &parts),
        ["openapi", "v2"] if !path.ends_with('/') => Ok(openapi::swagger(context)),
        ["openapi", "v3"] if !path.ends_with('/') => Ok(openapi::index(context)),
        ["openapi", "v3", ..] => {
            let document = path.trim_start_matches("/openapi/v3/");
            Ok(openapi::document(context, document))
        }
        ["api"] => api(context),
        ["apis"] => apis(context),
        ["api", "v1"] => router_list(context, "", "v1"),
        ["api", ..] => Err(not_found()),
        ["apis", group] => discovered(context, discovery::group(&context.shared.server, group)),
        ["apis", group, version] if is_builtin(group) => router_list(context, group, version),
        ["apis", group, version] => discovered(
            context,
            discovery::resource_list(&context.shared.server, group, version),
        ),
        _ => Err(no_such_path()),
    }
}

/// A document served whatever the method.
fn discovered(context: &Context<'_>, document: Option<Value>) -> Result<Reply, ApiError> {
    let document = document.ok_or_else(no_such_path)?;
    let output = negotiate::output(&context.headers, &context.query, Offer::Plain)?;
    Ok(Reply::object(200, &document, &output))
}

/// A document of the router, which looks at method and Accept first.
fn router_list(context: &Context<'_>, group: &str, version: &str) -> Result<Reply, ApiError> {
    if !discovery::serves_group(&context.shared.server, group) {
        return Err(no_such_path());
    }
    let list = discovery::resource_list(&context.shared.server, group, version);
    let list = list.ok_or_else(not_found)?;
    router_get(context)?;
    let output = negotiate::output(&context.headers, &context.query, Offer::Plain)?;
    Ok(Reply::object(200, &list, &output))
}

fn router_get(context: &Context<'_>) -> Result<(), ApiError> {
    let types = [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
    ];
    if context.method != Method::GET {
        return Err(not_allowed());
    }
    if produces(&context.headers, &types) {
        Ok(())
    } else {
        Err(router_not_acceptable(&types.join(", ")))
    }
}

fn api(context: &Context<'_>) -> Result<Reply, ApiError> {
    router_get(context)?;
    let output = negotiate::output(&context.headers, &context.query, Offer::Discovery)?;
    if output.shape != Shape::Object {
        return Ok(aggregated(context, true, &output));
    }
    let host = header(&context.headers, "host");
    let address = if host.is_empty() { "127.0.0.1" } else { host };
    let document = json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": address }],
    });
    Ok(Reply::object(200, &document, &output))
}

fn apis(context: &Context<'_>) -> Result<Reply, ApiError> {
    let output = negotiate::output(&context.headers, &context.query, Offer::Discovery)?;
    if output.shape != Shape::Object {
        return Ok(aggregated(context, false, &output));
    }
    Ok(Reply::object(
        200,
        &discovery::group_list(&context.shared.server),
        &output,
    ))
}

fn aggregated(context: &Context<'_>, core: bool, output: &Output) -> Reply {
    let document = discovery::aggregated(&context.shared.server, core);
    let etag = discovery::etag(&document);
    let mut reply = if header(&context.headers, IF_NONE_MATCH.as_str()) == etag {
        let mut reply = Reply::json(304, "");
        reply.headers.remove(CONTENT_TYPE);
        reply
    } else {
        let kind = if output.form == Form::Protobuf {
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        } else {
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        };
        Reply::object(200, &document, output).with(CONTENT_TYPE, HeaderValue::from_static(kind))
    };
    reply.headers.insert(VARY, HeaderValue::from_static("Accept"));
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(etag) = HeaderValue::try_from(etag) {
        reply.headers.insert(ETAG, etag);
    }
    reply
}

/// What `/version` says, in the order of the server.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Release {
    major: &'static str,
    minor: &'static str,
    emulation_major: &'static str,
    emulation_minor: &'static str,
    min_compatibility_major: &'static str,
    min_compatibility_minor: &'static str,
    git_version: &'static str,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: &'static str,
}

const RELEASE: Release = Release {
    major: "1",
    minor: "36",
    emulation_major: "1",
    emulation_minor: "36",
    min_compatibility_major: "1",
    min_compatibility_minor: "35",
    git_version: "v1.36.4",
    git_commit: "$Format:%H$",
    git_tree_state: "clean",
    build_date: "1970-01-01T00:00:00Z",
    go_version: "go1.26.8",
    compiler: "gc",
    platform: "linux/amd64",
};

fn version(context: &Context<'_>) -> Result<Reply, ApiError> {
    if context.method != Method::GET {
        return Err(not_allowed());
    }
    if !produces(&context.headers, &["application/json"]) {
        return Err(router_not_acceptable("application/json"));
    }
    Ok(Reply::json(200, gojson::pretty(&RELEASE)))
}

/// Every path of the root document.
fn paths(context: &Context<'_>) -> Value {
    let mut paths: Vec<String> = [
        "/.well-known/openid-configuration",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/openid/v1/jwks",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    let list = discovery::group_list(&context.shared.server);
    for group in list["groups"].as_array().into_iter().flatten() {
        paths.push(format!("/apis/{}", group["name"].as_str().unwrap_or_default()));
        for version in group["versions"].as_array().into_iter().flatten() {
            paths.push(format!(
                "/apis/{}",
                version["groupVersion"].as_str().unwrap_or_default()
            ));
        }
    }
    for endpoint in ["healthz", "livez", "readyz"] {
        paths.push(format!("/{endpoint}"));
        paths.extend(
            health::checks(endpoint)
                .iter()
                .map(|check| format!("/{endpoint}/{check}")),
        );
    }
    paths.sort();
    json!({ "paths": paths })
}
