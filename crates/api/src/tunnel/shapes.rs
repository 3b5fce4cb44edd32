//! Schemas of the strings and lists of tunnels. Each message states what to write instead. Every string and
//! list is bounded, because an API server rejects rules whose cost has no bound.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::rules;
use crate::shape::{NAME, URL_HOST, described, text};

/// A list of unique strings.
fn set(most: u32, description: &str, item: Schema) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": most,
        "x-kubernetes-list-type": "set",
        "items": described(description, item),
    })
}

/// A public hostname: a full domain name.
pub(super) fn domain(_: &mut SchemaGenerator) -> Schema {
    text(1, 253, &[rules::NO_WILDCARD, rules::NO_IP, rules::DOMAIN])
}

/// Hostnames of a tunnel.
pub(super) fn hostnames(generator: &mut SchemaGenerator) -> Schema {
    let description = "A full domain name in lower case, like app.example.com.";
    set(16, description, domain(generator))
}

/// A hostname of one or more labels; not an IP address.
pub(super) fn host(_: &mut SchemaGenerator) -> Schema {
    text(1, 253, &[rules::NO_IP, rules::HOST])
}

/// The name of an object.
pub(super) fn name(_: &mut SchemaGenerator) -> Schema {
    text(1, 253, &[NAME])
}

/// Names of objects in the record of a gateway.
pub(super) fn names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 65_536,
        "items": { "type": "string", "maxLength": 400 },
    })
}

/// The name of an object that is also used as a label of a domain name.
pub(super) fn label(_: &mut SchemaGenerator) -> Schema {
    text(1, 63, &[rules::LABEL])
}

/// The origin of a URL.
pub(super) fn endpoint(_: &mut SchemaGenerator) -> Schema {
    let rules = [rules::ORIGIN, URL_HOST, rules::ORIGIN_PORT];
    text(1, 300, &rules)
}

/// The name of a header or of a query parameter.
pub(super) fn token(_: &mut SchemaGenerator) -> Schema {
    text(1, 128, &[rules::TOKEN])
}

/// Names of headers.
pub(super) fn tokens(generator: &mut SchemaGenerator) -> Schema {
    set(16, "The name of a header.", token(generator))
}

/// The value of a header.
pub(super) fn header_value(_: &mut SchemaGenerator) -> Schema {
    text(1, 4096, &[rules::HEADER_VALUE])
}

/// A path that replaces another.
pub(super) fn full_path(_: &mut SchemaGenerator) -> Schema {
    text(1, 1024, &[rules::FULL_PATH])
}

/// A prefix that replaces the prefix of a path.
pub(super) fn prefix(_: &mut SchemaGenerator) -> Schema {
    text(0, 1024, &[rules::PREFIX])
}

/// Relays.
pub(super) fn relays(_: &mut SchemaGenerator) -> Schema {
    let description = "The URL of a relay, like https://relay.example.com.";
    set(16, description, text(1, 512, &[rules::RELAY]))
}

/// The identity of an iroh endpoint.
pub(super) fn endpoint_id(_: &mut SchemaGenerator) -> Schema {
    text(64, 64, &[rules::ENDPOINT_ID])
}

/// Identities of iroh endpoints.
pub(super) fn endpoint_ids(generator: &mut SchemaGenerator) -> Schema {
    set(64, "An endpoint id in hex.", endpoint_id(generator))
}

/// Networks.
pub(super) fn networks(_: &mut SchemaGenerator) -> Schema {
    let description = "A network in CIDR notation, like 10.20.0.0/16.";
    set(64, description, text(1, 43, &[rules::NETWORK]))
}

/// An address and a port.
pub(super) fn socket(_: &mut SchemaGenerator) -> Schema {
    text(1, 64, &[rules::SOCKET])
}

/// An IP address.
pub(super) fn ip(_: &mut SchemaGenerator) -> Schema {
    text(1, 45, &[rules::IP])
}

/// The scheme of a redirect.
pub(super) fn scheme(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["http", "https"] })
}

/// Status codes of redirects.
pub(super) fn redirect_code(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "enum": [301, 302, 303, 307, 308] })
}
