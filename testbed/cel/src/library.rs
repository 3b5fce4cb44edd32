//! Functions of the Kubernetes libraries (addresses, quantities, URLs, versions, formats), which
//! the `kube-cel` crate has.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use aplomb_go_compat::quote as go_quote;
use aplomb_go_compat::statics::aside;
use kube_cel::KubeCelExt as _;
use kube_cel::cel::objects::{Key as CelKey, Map as CelMap, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, Program, Value as CelValue};

use super::conversions::print;
use super::eval::{NO_OVERLOAD, Outcome};
use super::value::{Key, Opaque, Val};

static LIBRARY: LazyLock<Context<'static>> = LazyLock::new(|| aside(|| Context::default().with_all()));

/// Names of the library's types, found in what its values print as.
const TYPES: [(&str, &str); 6] = [
    ("Quantity", "kubernetes.Quantity"),
    ("Url", "kubernetes.URL"),
    ("Semver", "kubernetes.Semver"),
    ("Cidr", "net.CIDR"),
    ("Ip", "net.IP"),
    ("Format", "kubernetes.NamedFormat"),
];

/// Calls a library function.
pub(super) fn call(function: &str, values: &[Val], receiver: bool) -> Outcome {
    let names: Vec<String> = (0..values.len()).map(|index| format!("a{index}")).collect();
    let source = match names.split_first() {
        Some((first, rest)) if receiver => format!("{first}.{function}({})", rest.join(", ")),
        _ => format!("{function}({})", names.join(", ")),
    };
    let program = Program::compile(&source).map_err(|_| NO_OVERLOAD.to_owned())?;
    let mut context = LIBRARY.new_inner_scope();
    for (name, value) in names.iter().zip(values) {
        context.add_variable_from_value(name.as_str(), to_library(value));
    }
    match program.execute(&context) {
        Ok(value) => Ok(as_declared(function, from_library(&value))),
        Err(ExecutionError::FunctionError { message, .. }) => Err(complaint(function, values).unwrap_or(message)),
        Err(_) => Err(NO_OVERLOAD.to_owned()),
    }
}

/// What is looked up by name may not be there, so it comes as an optional.
fn as_declared(function: &str, value: Val) -> Val {
    match (function, value) {
        ("format.named", value @ Val::Optional(_)) => value,
        ("format.named", value) => Val::some(value),
        (_, value) => value,
    }
}

/// The server's words for a text that is no address or quantity.
fn complaint(function: &str, values: &[Val]) -> Option<String> {
    let Some(Val::String(text)) = values.first() else {
        return None;
    };
    let text = go_quote(text);
    match function {
        "ip" => Some(format!(
            "IP Address {text} parse error during conversion from string: ParseAddr({text}): unable to parse IP"
        )),
        "quantity" => Some(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned(),
        ),
        _ => None,
    }
}

fn to_library(value: &Val) -> CelValue {
    match value {
        Val::Null => CelValue::Null,
        Val::Bool(value) => CelValue::Bool(*value),
        Val::Int(value) => CelValue::Int(*value),
        Val::Uint(value) => CelValue::UInt(*value),
        Val::Double(value) => CelValue::Float(*value),
        Val::String(text) => CelValue::String(Arc::new(text.to_string())),
        Val::Bytes(bytes) => CelValue::Bytes(Arc::new(bytes.clone())),
        Val::List(items, _) => CelValue::List(Arc::new(items.iter().map(to_library).collect())),
        Val::Map(entries) => {
            let pairs = entries
                .iter()
                .map(|(key, value)| (key_to_library(key), to_library(value)));
            CelValue::Map(CelMap {
                map: Arc::new(pairs.collect()),
            })
        }
        Val::Opaque(opaque) => opaque.value.clone(),
        other => CelValue::String(Arc::new(print(other))),
    }
}

fn key_to_library(key: &Key) -> CelKey {
    match key {
        Key::Bool(value) => CelKey::Bool(*value),
        Key::Int(value) => CelKey::Int(*value),
        Key::Uint(value) => CelKey::Uint(*value),
        Key::String(text) => CelKey::String(Arc::new(text.to_string())),
    }
}

fn from_library(value: &CelValue) -> Val {
    match value {
        CelValue::Null => Val::Null,
        CelValue::Bool(value) => Val::Bool(*value),
        CelValue::Int(value) => Val::Int(*value),
        CelValue::UInt(value) => Val::Uint(*value),
        CelValue::Float(value) => Val::Double(*value),
        CelValue::String(text) => Val::text(text),
        CelValue::Bytes(bytes) => Val::Bytes(bytes.to_vec()),
        CelValue::List(items) => Val::list(items.iter().map(from_library).collect()),
        CelValue::Map(map) => {
            let entries = map
                .map
                .iter()
                .map(|(key, value)| (key_from_library(key), from_library(value)));
            Val::Map(Arc::new(entries.collect::<BTreeMap<Key, Val>>()))
        }
        CelValue::Opaque(_) => opaque_from_library(value),
        _ => Val::Null,
    }
}

fn key_from_library(key: &CelKey) -> Key {
    match key {
        CelKey::Bool(value) => Key::Bool(*value),
        CelKey::Int(value) => Key::Int(*value),
        CelKey::Uint(value) => Key::Uint(*value),
        CelKey::String(text) => Key::String(text.as_str().into()),
    }
}

fn opaque_from_library(value: &CelValue) -> Val {
    if let Ok(optional) = <&OptionalValue>::try_from(value) {
        return Val::Optional(optional.value().map(|inner| Box::new(from_library(inner))));
    }
    let printed = format!("{value:?}").to_lowercase();
    let known = TYPES.iter().find(|(name, _)| printed.contains(&name.to_lowercase()));
    Val::Opaque(Opaque {
        type_name: known.map_or("dyn", |(_, name)| name),
        value: value.clone(),
    })
}
