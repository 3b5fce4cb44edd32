//! Schemas of the strings and lists of tunnels. Each message states what to write instead. Every string and
//! list is bounded, because an API server rejects rules whose cost has no bound.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::validation;
use crate::schema_util::{NAME, URL_HOST, string_schema, with_description};

/// A list of unique strings.
fn set_schema(most: u32, description: &str, item: Schema) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": most,
        "x-kubernetes-list-type": "set",
        "items": with_description(description, item),
    })
}

/// A public hostname: a full domain name.
pub(super) fn domain(_: &mut SchemaGenerator) -> Schema {
    string_schema(
        1,
        253,
        &[validation::NO_WILDCARD, validation::NO_IP, validation::DOMAIN],
    )
}

pub(super) fn hostnames(generator: &mut SchemaGenerator) -> Schema {
    let description = "A full domain name in lower case, like app.example.com.";
    set_schema(16, description, domain(generator))
}

/// A hostname of one or more labels; not an IP address.
pub(super) fn host(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 253, &[validation::NO_IP, validation::HOST])
}

pub(super) fn name(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 253, &[NAME])
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
    string_schema(1, 63, &[validation::LABEL])
}

pub(super) fn endpoint(_: &mut SchemaGenerator) -> Schema {
    let rules = [validation::ORIGIN, URL_HOST, validation::ORIGIN_PORT];
    string_schema(1, 300, &rules)
}

/// The name of a header or of a query parameter.
pub(super) fn token(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 128, &[validation::TOKEN])
}

pub(super) fn tokens(generator: &mut SchemaGenerator) -> Schema {
    set_schema(16, "The name of a header.", token(generator))
}

pub(super) fn header_value(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 4096, &[validation::HEADER_VALUE])
}

pub(super) fn full_path(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 1024, &[validation::FULL_PATH])
}

/// A prefix that replaces the prefix of a path.
pub(super) fn prefix(_: &mut SchemaGenerator) -> Schema {
    string_schema(0, 1024, &[validation::PREFIX])
}

pub(super) fn relays(_: &mut SchemaGenerator) -> Schema {
    let description = "The URL of a relay, like https://relay.example.com.";
    set_schema(16, description, string_schema(1, 512, &[validation::RELAY]))
}

pub(super) fn endpoint_id(_: &mut SchemaGenerator) -> Schema {
    string_schema(64, 64, &[validation::ENDPOINT_ID])
}

pub(super) fn endpoint_ids(generator: &mut SchemaGenerator) -> Schema {
    set_schema(64, "An endpoint id in hex.", endpoint_id(generator))
}

pub(super) fn networks(_: &mut SchemaGenerator) -> Schema {
    let description = "A network in CIDR notation, like 10.20.0.0/16.";
    set_schema(64, description, string_schema(1, 43, &[validation::NETWORK]))
}

pub(super) fn socket(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 64, &[validation::SOCKET])
}

pub(super) fn ip(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 45, &[validation::IP])
}

pub(super) fn scheme(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["http", "https"] })
}

pub(super) fn redirect_code(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "enum": [301, 302, 303, 307, 308] })
}
