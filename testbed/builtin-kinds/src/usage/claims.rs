//! What a PersistentVolumeClaim uses: itself and its storage, in all and of its class.

use serde_json::Value;

use super::super::quantity::Quantity;
use super::super::value::{at, text};
use super::amounts::Amounts;

const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Whether a resource is counted of claims.
pub(super) fn counts(name: &str) -> bool {
    let of_class = name.rsplit_once(OF_CLASS).map(|(_, counted)| counted);
    name == COUNT || [CLAIMS, STORAGE].contains(&of_class.unwrap_or(name))
}

/// What one claim uses.
pub(super) fn usage(claim: &Value) -> Amounts {
    let one = || Quantity::count(1);
    let mut used = Amounts::from([(CLAIMS.to_owned(), one()), (COUNT.to_owned(), one())]);
    let class = class(claim);
    let named = !class.is_empty();
    if named {
        used.insert(format!("{class}{OF_CLASS}{CLAIMS}"), one());
    }
    if let Some(storage) = storage(claim) {
        if named {
            used.insert(format!("{class}{OF_CLASS}{STORAGE}"), storage.clone());
        }
        used.insert(STORAGE.to_owned(), storage);
    }
    used
}

fn class(claim: &Value) -> &str {
    let old = at(claim, &["metadata", "annotations", OLD_CLASS]).as_str();
    old.unwrap_or_else(|| text(claim, &["spec", "storageClassName"]))
}

/// What is asked for, or what was already set aside where that is more; in whole bytes.
fn storage(claim: &Value) -> Option<Quantity> {
    let amount = |path: &[&str]| {
        let amount = Quantity::parse(at(claim, path).as_str()?).ok()?;
        Some(amount.rounded_up())
    };
    let asked = amount(&["spec", "resources", "requests", "storage"])?;
    let allocated = amount(&["status", "allocatedResources", "storage"]);
    Some(allocated.filter(|it| *it > asked).unwrap_or(asked))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::amounts::shown;
    use super::*;

    #[test]
    fn storage_counts_in_all_and_for_its_class() {
        let claim = json!({ "spec": { "storageClassName": "gold",
            "resources": { "requests": { "storage": "1Gi" } } } });
        let each = "gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/requests.storage=1Gi";
        assert_eq!(
            shown(&usage(&claim)),
            format!("count/persistentvolumeclaims=1,{each},persistentvolumeclaims=1,requests.storage=1Gi")
        );
        assert!(each.split(',').all(|it| counts(it.split('=').next().unwrap_or(""))));
        assert!(!counts("gold.storageclass.storage.k8s.io/pods"));
    }

    #[test]
    fn what_was_set_aside_counts_where_it_is_more() {
        let claim = json!({ "spec": { "resources": { "requests": { "storage": "1500m" } } },
            "status": { "allocatedResources": { "storage": "5" } } });
        assert_eq!(usage(&claim)[STORAGE].to_string(), "5");
        let claim = json!({ "spec": { "resources": { "requests": { "storage": "1500m" } } } });
        assert_eq!(usage(&claim)[STORAGE].to_string(), "2");
    }
}
