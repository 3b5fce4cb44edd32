//! Writes `src/data/cluster.json.gz` anew: what a fresh server makes for itself.
//!
//! ```sh
//! kubectl get -A -o json clusterroles,clusterrolebindings,roles,rolebindings,flowschemas,prioritylevelconfigurations,priorityclasses,apiservices,servicecidrs \
//!     | cargo run -p aplomb-builtin-kinds --example vendor_cluster
//! ```

use std::error::Error;
use std::io::{Read, Write};
use std::path::Path;

use flate2::{Compression, GzBuilder};
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut list: Value = serde_json::from_str(&text)?;
    let items = list["items"].as_array_mut().ok_or("not a list")?;
    items.iter_mut().for_each(forget_the_moment);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/data/cluster.json.gz");
    let file = std::fs::File::create(path)?;
    // No name and no time, so that the same objects give the same bytes.
    let mut packer = GzBuilder::new().write(file, Compression::best());
    packer.write_all(Value::from(items.clone()).to_string().as_bytes())?;
    packer.finish()?;
    Ok(())
}

/// Leaves out what each server gives anew.
fn forget_the_moment(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "generation",
        ] {
            metadata.remove(key);
        }
    }
    let own_status = object["kind"] == "APIService";
    let empty = object["status"].as_object().is_none_or(serde_json::Map::is_empty);
    if let Some(members) = object.as_object_mut()
        && (own_status || empty)
    {
        members.remove("status");
    }
    let conditions = object.pointer_mut("/status/conditions");
    for condition in conditions.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("lastTransitionTime");
        }
    }
}
