//! Strategic merge patch: JSON merged by what the Go types say about their lists and maps.
//!
//! Pure, on JSON, with `resource::PatchMeta` for the types. The order of merged lists, the directives
//! and the refusals are those of Go's `strategicpatch`. Reading the patch and reading the result as a
//! kind is the business of `patch`.

mod list;
mod map;
mod order;
mod refusal;
mod text;

pub(super) use refusal::Refusal;
pub(super) use text::shown;

use serde_json::{Map, Value};

use aplomb_apimachinery::resource::PatchMeta;

/// Says what to do with the map or list item it is in.
const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// Merges `patch` into `original`. The patch is left as the server leaves it, which is how it shows
/// it in a refusal of the result.
///
/// # Errors
/// What Go's code finds wrong with the patch.
pub(super) fn merge(
    original: Map<String, Value>,
    patch: &mut Map<String, Value>,
    meta: &dyn PatchMeta,
) -> Result<Value, Refusal> {
    map::merge(original, patch, meta).map(Value::Object)
}

#[cfg(test)]
mod tests {
    use aplomb_apimachinery::resource::Resource;
    use aplomb_builtin_kinds as kinds;
    use serde_json::{Value, json};

    use super::*;

    fn resource(kind: &str) -> Resource {
        kinds::builtin()
            .into_iter()
            .find(|resource| resource.kind == kind)
            .expect("a built-in kind")
    }

    fn merged(kind: &str, original: Value, patch: Value) -> Result<Value, Refusal> {
        let resource = resource(kind);
        let meta = resource.strategy.patch_meta().expect("a typed kind");
        let (Value::Object(original), Value::Object(mut patch)) = (original, patch) else {
            panic!("both are objects");
        };
        merge(original, &mut patch, &*meta)
    }

    fn refused(kind: &str, original: Value, patch: Value) -> String {
        match merged(kind, original, patch) {
            Err(Refusal::Malformed(why)) => why.to_owned(),
            Err(Refusal::Other(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn containers_are_merged_by_name_and_new_ones_go_where_the_patch_has_them() {
        let live = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}});
        let patch = json!({"spec": {"containers": [{"name": "c", "image": "1"}, {"name": "b", "image": "2"}]}});
        let names = merged("Pod", live, patch).expect("merged");
        assert_eq!(
            names["spec"]["containers"],
            json!([{"name": "c", "image": "1"}, {"name": "a", "image": "1"}, {"name": "b", "image": "2"}])
        );
    }

    #[test]
    fn items_go_by_a_directive_and_maps_are_replaced_by_one() {
        let live = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"ports": [{"port": 1}, {"port": 2}]}});
        let patch = json!({
            "metadata": {"labels": {"$patch": "replace", "b": "2"}},
            "spec": {"ports": [{"port": 1, "$patch": "delete"}]},
        });
        assert_eq!(
            merged("Service", live, patch).expect("merged"),
            json!({"metadata": {"labels": {"b": "2"}}, "spec": {"ports": [{"port": 2}]}})
        );
    }

    #[test]
    fn an_order_can_be_given_and_scalars_be_taken_away() {
        let live = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
        let patch = json!({"metadata": {
            "$deleteFromPrimitiveList/finalizers": ["b"],
            "$setElementOrder/finalizers": ["c", "a"],
        }});
        assert_eq!(
            merged("Service", live, patch).expect("merged"),
            json!({"metadata": {"finalizers": ["c", "a"]}})
        );
    }

    #[test]
    fn retained_keys_are_all_that_is_left() {
        let live = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
        assert_eq!(
            merged("Deployment", live, patch).expect("merged"),
            json!({"spec": {"strategy": {"type": "Recreate"}}})
        );
    }

    #[test]
    fn refusals_are_in_the_words_of_go() {
        let live = json!({"spec": {"ports": [{"port": 1}], "selector": {"a": "b"}}});
        let cases = [
            (
                json!({"spec": {"ports": [{"name": "x"}]}}),
                "map: map[name:x] does not contain declared merge key: port",
            ),
            (
                json!({"spec": {"$patch": "x", "a": 1}}),
                "unknown patch type: x in map: map[$patch:x a:1]",
            ),
            (
                json!({"spec": {"ports": ["x"]}}),
                "list element types are not identical: [[map[port:1]] [x]]",
            ),
            (
                json!({"spec": {"$setElementOrder/nothing": []}}),
                "unable to find api field in struct ServiceSpec for the json field \"nothing\"",
            ),
            (
                json!({"spec": {"$setElementOrder": []}}),
                "invalid patch format of setElementOrder list",
            ),
        ];
        for (patch, why) in cases {
            assert_eq!(refused("Service", live.clone(), patch), why);
        }
    }
}
