//! What is wrong with the security contexts and the DNS settings of a pod.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::value::{at, has, list, text};
use super::super::{check, require, shown};

const ID: &str = "must be between 0 and 2147483647, inclusive";

fn is_id(id: i64) -> bool {
    (0..=i64::from(i32::MAX)).contains(&id)
}

/// The security context of the whole pod.
pub(super) fn of_pod(context: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        errors.extend(require::holds(context, key, field, is_id, ID));
    }
    for (index, group) in list(context, &["supplementalGroups"]).iter().enumerate() {
        let id = group.as_i64().unwrap_or(0);
        if !is_id(id) {
            let field = format!("{field}.supplementalGroups[{index}]");
            errors.push(FieldError::invalid(field, id, ID));
        }
    }
    let sysctls = list(context, &["sysctls"]);
    for (index, sysctl) in sysctls.iter().enumerate() {
        let field = format!("{field}.sysctls[{index}]");
        let name = text(sysctl, &["name"]);
        errors.extend(require::given(sysctl, "name", &field, ""));
        let known = |earlier: &Value| text(earlier, &["name"]) == name;
        if !name.is_empty() && sysctls[..index].iter().any(known) {
            errors.push(FieldError::duplicate(format!("{field}.name"), name));
        }
    }
    let (key, policies) = ("fsGroupChangePolicy", &["Always", "OnRootMismatch"]);
    errors.extend(require::known(context, key, field, policies));
    errors.extend(profile(context, "seccompProfile", "seccomp type", field));
    errors.extend(profile(context, "appArmorProfile", "AppArmor type", field));
    let (key, policies) = ("supplementalGroupsPolicy", &["Merge", "Strict"]);
    errors.extend(require::known(context, key, field, policies));
    errors
}

/// The security context of one container.
pub(super) fn of_container(context: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["runAsUser", "runAsGroup"] {
        errors.extend(require::holds(context, key, field, is_id, ID));
    }
    errors.extend(require::known(context, "procMount", field, &["Default", "Unmasked"]));
    errors.extend(profile(context, "seccompProfile", "seccomp type", field));
    if at(context, &["allowPrivilegeEscalation"]) == false && at(context, &["privileged"]) == true {
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.push(shown::invalid(field, &internal(context), why));
    }
    errors.extend(profile(context, "appArmorProfile", "AppArmor type", field));
    errors
}

/// A security context in the names and the order of the server's own type.
fn internal(context: &Value) -> String {
    let names = [
        ("Capabilities", "capabilities"),
        ("Privileged", "privileged"),
        ("SELinuxOptions", "seLinuxOptions"),
        ("WindowsOptions", "windowsOptions"),
        ("RunAsUser", "runAsUser"),
        ("RunAsGroup", "runAsGroup"),
        ("RunAsNonRoot", "runAsNonRoot"),
        ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
        ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
        ("ProcMount", "procMount"),
        ("SeccompProfile", "seccompProfile"),
        ("AppArmorProfile", "appArmorProfile"),
    ];
    let part = |(go, key): (&'static str, &str)| (go, at(context, &[key]).to_string());
    shown::object(&names.map(part))
}

/// Which profile confines a process.
fn profile(context: &Value, key: &str, called: &str, field: &str) -> Vec<FieldError> {
    let profile = at(context, &[key]);
    if profile.is_null() {
        return Vec::new();
    }
    let field = format!("{field}.{key}");
    let kind = text(profile, &["type"]);
    let kinds = &["Localhost", "RuntimeDefault", "Unconfined"];
    let mut errors = match kind {
        "" if key == "appArmorProfile" => {
            vec![FieldError::required(
                format!("{field}.type"),
                "type is required when appArmorProfile is set",
            )]
        }
        kind => check::one_of(&format!("{field}.type"), kind, kinds),
    };
    if kind == "Localhost" && !has(profile, &["localhostProfile"]) {
        let why = format!("must be set when {called} is Localhost");
        errors.push(FieldError::required(format!("{field}.localhostProfile"), why));
    }
    errors
}

/// The DNS settings of a pod.
pub(super) fn dns(spec: &Value, field: &str) -> Vec<FieldError> {
    let config = at(spec, &["dnsConfig"]);
    let field = format!("{field}.dnsConfig");
    if text(spec, &["dnsPolicy"]) == "None" {
        if config.is_null() {
            let why = "must provide `dnsConfig` when `dnsPolicy` is None";
            return vec![FieldError::required(field, why)];
        }
        if list(config, &["nameservers"]).is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return vec![FieldError::required(format!("{field}.nameservers"), why)];
        }
    }
    let mut errors = name_servers(config, &field);
    errors.extend(searches(config, &field));
    for (index, option) in list(config, &["options"]).iter().enumerate() {
        if text(option, &["name"]).is_empty() {
            let field = format!("{field}.options[{index}]");
            errors.push(FieldError::required(field, "must not be empty"));
        }
    }
    errors
}

fn name_servers(config: &Value, field: &str) -> Vec<FieldError> {
    let servers = list(config, &["nameservers"]);
    let mut errors = Vec::new();
    if servers.len() > 3 {
        let shown = at(config, &["nameservers"]).to_string();
        let why = "must not have more than 3 nameservers";
        errors.push(shown::invalid(format!("{field}.nameservers"), &shown, why));
    }
    for (index, server) in servers.iter().enumerate() {
        let server = server.as_str().unwrap_or("");
        errors.extend(check::ip(server, &format!("{field}.nameservers[{index}]")));
    }
    errors
}

fn searches(config: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let searches = list(config, &["searches"]);
    if searches.len() > 32 {
        let shown = at(config, &["searches"]).to_string();
        let why = "must not have more than 32 search paths";
        errors.push(shown::invalid(format!("{field}.searches"), &shown, why));
    }
    for (index, search) in searches.iter().enumerate() {
        let search = search.as_str().unwrap_or("");
        let name = search.strip_suffix('.').unwrap_or(search);
        if search != "." {
            let field = format!("{field}.searches[{index}]");
            errors.extend(check::invalid(&field, name, validation::underscored_subdomain(name)));
        }
    }
    errors
}
