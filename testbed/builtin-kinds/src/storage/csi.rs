//! CSI drivers, the nodes they run on and the capacity they report.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::Value;

use super::super::behavior::KindBehavior;
use super::super::print::{NONE, age, flag, name, name_and_creation, or};
use super::super::value::{at, default_to, list, set, text};
use super::super::{check, require, shown};

const TOKEN_WARNING: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";

/// How CSI drivers behave.
pub(in super::super) const DRIVER: KindBehavior = KindBehavior {
    default: default_driver,
    validate: |driver| driver_spec(at(driver, &["spec"])),
    validate_update: |new, old, _| {
        let mut errors = driver_spec(at(new, &["spec"]));
        if at(new, &["spec", "attachRequired"]) != at(old, &["spec", "attachRequired"]) {
            let value = at(new, &["spec", "attachRequired"]).clone();
            errors.push(FieldError::invalid(
                "spec.attachedRequired",
                value,
                "field is immutable",
            ));
        }
        errors.extend(check::immutable(new, old, &["spec", "volumeLifecycleModes"]));
        errors
    },
    validates_updates: false,
    warnings: |driver| token_warning(driver, &Value::Null),
    update_warnings: token_warning,
    unconditional: false,
    generation: &[&["spec"]],
    starts_without_generation: true,
    cells: driver_cells,
    ..KindBehavior::PLAIN
};

/// How CSI nodes behave.
pub(in super::super) const NODE: KindBehavior = KindBehavior {
    validate: node_drivers,
    validate_update: |new, old, _| node_drivers_stay(new, old),
    unconditional: false,
    cells: |node, now| {
        let drivers = list(node, &["spec", "drivers"]).len();
        vec![name(node), drivers.into(), age(node, now)]
    },
    ..KindBehavior::PLAIN
};

/// How reported capacities behave.
pub(in super::super) const CAPACITY: KindBehavior = KindBehavior {
    validate: capacity,
    validate_update: |new, old, _| {
        let mut errors = Vec::new();
        if at(new, &["nodeTopology"]) != at(old, &["nodeTopology"]) {
            let shown = shown::selector(at(new, &["nodeTopology"]));
            errors.push(shown::invalid("nodeTopology", &shown, "field is immutable"));
        }
        errors.extend(check::immutable(new, old, &["storageClassName"]));
        errors
    },
    unconditional: false,
    cells: name_and_creation,
    ..KindBehavior::PLAIN
};

fn driver_cells(driver: &Value, now: Timestamp) -> Vec<Value> {
    let flag = |key: &str, otherwise| flag(driver, &["spec", key], otherwise);
    let modes: Vec<&str> = list(driver, &["spec", "volumeLifecycleModes"])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let audiences: Vec<&str> = list(driver, &["spec", "tokenRequests"])
        .iter()
        .map(|request| text(request, &["audience"]))
        .collect();
    let audiences = if audiences.is_empty() {
        "<unset>".to_owned()
    } else {
        audiences.join(",")
    };
    vec![
        name(driver),
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        audiences.into(),
        flag("requiresRepublish", false),
        or(&modes.join(","), NONE).into(),
        age(driver, now),
    ]
}

fn default_driver(driver: &mut Value) {
    let Some(spec) = driver.get_mut("spec") else {
        return;
    };
    default_to(spec, "attachRequired", true);
    for key in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        default_to(spec, key, false);
    }
    default_to(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if list(spec, &["volumeLifecycleModes"]).is_empty() {
        set(spec, &["volumeLifecycleModes"], Value::from(vec!["Persistent"]));
    }
}

fn token_warning(driver: &Value, old: &Value) -> Vec<String> {
    let requests = ["spec", "tokenRequests"];
    let changed = at(driver, &requests) != at(old, &requests);
    let asks = changed && !list(driver, &requests).is_empty();
    if !asks || !at(driver, &["spec", "serviceAccountTokenInSecrets"]).is_null() {
        return Vec::new();
    }
    vec![TOKEN_WARNING.to_owned()]
}

fn driver_spec(spec: &Value) -> Vec<FieldError> {
    let policies = &["File", "None", "ReadWriteOnceWithFSType"];
    let mut errors = require::known(spec, "fsGroupPolicy", "spec", policies);
    let requests = list(spec, &["tokenRequests"]);
    for (index, request) in requests.iter().enumerate() {
        let field = format!("spec.tokenRequests[{index}]");
        let audience = text(request, &["audience"]);
        if requests[..index]
            .iter()
            .any(|earlier| text(earlier, &["audience"]) == audience)
        {
            errors.push(FieldError::duplicate(format!("{field}.audience"), audience));
            continue;
        }
        let key = "expirationSeconds";
        let why = "may not specify a duration less than 10 minutes";
        errors.extend(require::holds(request, key, &field, |n| n >= 600, why));
        let why = "may not specify a duration larger than 2^32 seconds";
        errors.extend(require::holds(request, key, &field, |n| n <= 1 << 32, why));
    }
    for mode in list(spec, &["volumeLifecycleModes"]) {
        let (field, mode) = ("spec.volumeLifecycleModes", mode.as_str().unwrap_or(""));
        errors.extend(check::one_of(field, mode, &["Persistent", "Ephemeral"]));
    }
    let key = "nodeAllocatableUpdatePeriodSeconds";
    let why = "must be greater than or equal to 10 seconds";
    errors.extend(require::holds(spec, key, "spec", |n| n >= 10, why));
    errors
}

fn node_drivers(node: &Value) -> Vec<FieldError> {
    let drivers = list(node, &["spec", "drivers"]);
    let mut errors = Vec::new();
    for (index, driver) in drivers.iter().enumerate() {
        let field = format!("spec.drivers[{index}]");
        let name = text(driver, &["name"]);
        errors.extend(validation::csi_driver(name, &format!("{field}.name")));
        errors.extend(require::given(driver, "nodeID", &field, ""));
        let count = format!("{field}.allocatable.count");
        errors.extend(check::nonnegative(driver, &["allocatable", "count"], &count));
        if drivers[..index].iter().any(|earlier| text(earlier, &["name"]) == name) {
            errors.push(FieldError::duplicate(format!("{field}.name"), name));
        }
        for key in list(driver, &["topologyKeys"]) {
            let key = key.as_str().unwrap_or("");
            errors.extend(check::invalid(&field, key, validation::label_key(key)));
        }
    }
    errors
}

/// A driver that is there stays as it is, but for how many volumes it takes.
fn node_drivers_stay(new: &Value, old: &Value) -> Vec<FieldError> {
    let fixed = |driver: &Value| {
        let mut driver = driver.clone();
        set(&mut driver, &["allocatable"], Value::Null);
        driver
    };
    let before: Vec<Value> = list(old, &["spec", "drivers"]).iter().map(fixed).collect();
    list(new, &["spec", "drivers"])
        .iter()
        .map(fixed)
        .filter(|now| before.iter().any(|old| old["name"] == now["name"] && old != now))
        .map(|now| shown::invalid("spec.drivers", &now.to_string(), "field is immutable"))
        .collect()
}

fn capacity(capacity: &Value) -> Vec<FieldError> {
    let mut errors = check::label_selector(at(capacity, &["nodeTopology"]), "nodeTopology");
    let class = text(capacity, &["storageClassName"]);
    errors.extend(check::invalid(
        "storageClassName",
        class,
        validation::dns_subdomain(class, false),
    ));
    errors.extend(require::nonnegative_quantity(at(capacity, &["capacity"]), "capacity"));
    errors
}
