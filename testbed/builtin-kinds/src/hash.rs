//! The hash Kubernetes' controllers take of a pod template, and name what they make after.
//!
//! It is taken of Go's dump of the typed value, so the dump is made here from the vendored types,
//! byte for byte: every field in its order, with its Go name and type, zero values included.

use std::fmt::Write as _;

use serde_json::Value;

use super::gotype::{self, Field, GoType, Named, Shape};

const TEMPLATE: &str = "k8s.io/api/core/v1.PodTemplateSpec";
const NIL: &str = "<nil>";
/// What hashes are spelled with: no vowels, no digits that look like letters.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Fields whose Go name is not their JSON name with a capital letter.
const NAMES: [(&str, &str); 39] = [
    ("apiGroup", "APIGroup"),
    ("apiVersion", "APIVersion"),
    ("awsElasticBlockStore", "AWSElasticBlockStore"),
    ("cephfs", "CephFS"),
    ("chapAuthDiscovery", "DiscoveryCHAPAuth"),
    ("chapAuthSession", "SessionCHAPAuth"),
    ("csi", "CSI"),
    ("diskURI", "DataDiskURI"),
    ("dnsConfig", "DNSConfig"),
    ("dnsPolicy", "DNSPolicy"),
    ("endpoints", "EndpointsName"),
    ("fc", "FC"),
    ("fsGroup", "FSGroup"),
    ("fsGroupChangePolicy", "FSGroupChangePolicy"),
    ("fsType", "FSType"),
    ("gcePersistentDisk", "GCEPersistentDisk"),
    ("gmsaCredentialSpec", "GMSACredentialSpec"),
    ("gmsaCredentialSpecName", "GMSACredentialSpecName"),
    ("grpc", "GRPC"),
    ("httpGet", "HTTPGet"),
    ("httpHeaders", "HTTPHeaders"),
    ("ip", "IP"),
    ("iqn", "IQN"),
    ("iscsi", "ISCSI"),
    ("iscsiInterface", "ISCSIInterface"),
    ("metadata", "ObjectMeta"),
    ("nfs", "NFS"),
    ("os", "OS"),
    ("pdName", "PDName"),
    ("rbd", "RBD"),
    ("seLinuxChangePolicy", "SELinuxChangePolicy"),
    ("seLinuxOptions", "SELinuxOptions"),
    ("serviceAccount", "DeprecatedServiceAccount"),
    ("sslEnabled", "SSLEnabled"),
    ("storageos", "StorageOS"),
    ("tcpSocket", "TCPSocket"),
    ("tty", "TTY"),
    ("uid", "UID"),
    ("wwids", "WWIDs"),
];
/// The same, of one type only.
const RBD: &str = "RBDVolumeSource";
const RBD_NAMES: [(&str, &str); 4] = [
    ("image", "RBDImage"),
    ("monitors", "CephMonitors"),
    ("pool", "RBDPool"),
    ("user", "RadosUser"),
];

/// The hash of a stored pod template, as `pod-template-hash` has it.
pub fn pod_template(template: &Value, collisions: Option<u32>) -> String {
    let mut dump = String::new();
    let kind = GoType::Named(TEMPLATE.to_owned());
    typed(&kind, template, &mut dump);
    let mut hash = fnv1a(dump.as_bytes(), 2_166_136_261);
    if let Some(collisions) = collisions {
        hash = fnv1a(&u64::from(collisions).to_le_bytes(), hash);
    }
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    hash.to_string().bytes().map(letter).collect()
}

fn fnv1a(bytes: &[u8], start: u32) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
    bytes.iter().fold(start, step)
}

/// A value with its type before it, as a field is dumped.
fn typed(kind: &GoType, value: &Value, out: &mut String) {
    out.push('(');
    out.push_str(&gotype::print(kind));
    out.push(')');
    match kind {
        GoType::Pointer(inner) if !value.is_null() => plain(inner, value, out),
        GoType::Pointer(_) => out.push_str(NIL),
        _ => plain(kind, value, out),
    }
}

/// A value alone.
fn plain(kind: &GoType, value: &Value, out: &mut String) {
    match kind {
        GoType::Bool => out.push_str(if *value == true { "true" } else { "false" }),
        GoType::String => out.push_str(value.as_str().unwrap_or_default()),
        GoType::Int32 | GoType::Int64 => {
            let _ = write!(out, "{}", value.as_i64().unwrap_or_default());
        }
        GoType::Float64 => out.push_str(&aplomb_go_compat::float(value.as_f64().unwrap_or_default())),
        GoType::Slice(inner) => list(inner, value, out),
        GoType::Map(inner) => map(inner, value, out),
        GoType::Named(key) => named(gotype::named(key), value, out),
        // A pod template holds neither bytes nor pointers to pointers.
        GoType::Bytes | GoType::Pointer(_) => out.push_str(NIL),
    }
}

/// Empty and absent are one on the wire that controllers read.
fn list(inner: &GoType, value: &Value, out: &mut String) {
    let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
        out.push_str(NIL);
        return;
    };
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        plain(inner, item, out);
    }
    out.push(']');
}

fn map(inner: &GoType, value: &Value, out: &mut String) {
    let Some(members) = value.as_object().filter(|members| !members.is_empty()) else {
        out.push_str(NIL);
        return;
    };
    let mut keys: Vec<&String> = members.keys().collect();
    keys.sort();
    out.push_str("map[");
    for (index, key) in keys.into_iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.push_str(key);
        out.push(':');
        plain(inner, &members[key], out);
    }
    out.push(']');
}

fn named(named: &Named, value: &Value, out: &mut String) {
    match &named.shape {
        Shape::Alias(kind) => plain(kind, value, out),
        Shape::Struct(fields) => {
            out.push('{');
            for (index, field) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                member(named, field, value, out);
            }
            out.push('}');
        }
        Shape::Custom => match named.go.as_str() {
            "resource.Quantity" => quantity(value.as_str().unwrap_or_default(), out),
            "intstr.IntOrString" => int_or_string(value, out),
            // A template has not been made at any time.
            _ => out.push_str("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"),
        },
    }
}

fn member(owner: &Named, field: &Field, value: &Value, out: &mut String) {
    if field.name.is_empty() {
        let GoType::Named(key) = &field.kind else {
            return;
        };
        out.push_str(gotype::named(key).short());
        out.push(':');
        return typed(&field.kind, value, out);
    }
    let special: &[(&str, &str)] = if owner.short() == RBD { &RBD_NAMES } else { &[] };
    let known = special.iter().chain(&NAMES);
    match known.into_iter().find(|(json, _)| *json == field.name) {
        Some((_, name)) => out.push_str(name),
        None => {
            let mut letters = field.name.chars();
            out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
            out.push_str(letters.as_str());
        }
    }
    out.push(':');
    typed(&field.kind, value.get(&field.name).unwrap_or(&Value::Null), out);
}

fn int_or_string(value: &Value, out: &mut String) {
    let kind = u8::from(value.is_string());
    let number = value.as_i64().unwrap_or_default();
    let text = value.as_str().unwrap_or_default();
    let _ = write!(
        out,
        "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}"
    );
}

fn quantity(text: &str, out: &mut String) {
    let super::quantity::GoFields {
        value,
        scale,
        decimal,
        spelling,
        format,
    } = super::quantity::go_fields(text);
    let _ = write!(
        out,
        "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
         d:(resource.infDecAmount){{Dec:(*inf.Dec)"
    );
    match decimal {
        None => out.push_str(NIL),
        Some(nanos) => {
            let digits = nanos.unsigned_abs();
            #[allow(clippy::cast_possible_truncation)] // the two halves of a number
            let (low, high) = (digits as u64, (digits >> 64) as u64);
            let words = if high == 0 {
                low.to_string()
            } else {
                format!("{low} {high}")
            };
            let _ = write!(
                out,
                "{{unscaled:(big.Int){{neg:(bool){} abs:(big.nat)[{words}]}} scale:(inf.Scale)9}}",
                nanos < 0
            );
        }
    }
    let _ = write!(out, "}} s:(string){spelling} Format:(resource.Format){format}}}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `k8s.io/kubernetes/pkg/controller.ComputeHash` says of each sample.
    const HASHES: [&str; 3] = ["85d79ccb46", "867b5c54b9", "85748b7f68"];

    #[test]
    fn the_hash_is_the_controllers_own() {
        let samples: Vec<Value> = serde_json::from_str(include_str!("testdata/podtemplates.json")).unwrap();
        let hashes: Vec<String> = samples.iter().map(|it| pod_template(it, None)).collect();
        assert_eq!(hashes, HASHES);
    }

    #[test]
    fn collisions_give_other_hashes() {
        let template = Value::Null;
        assert_ne!(pod_template(&template, Some(1)), pod_template(&template, None));
    }
}
