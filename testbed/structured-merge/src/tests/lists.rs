//! Lists that are merged item by item: ownership, order, duplicates.

use serde_json::{Value, json};

use super::{Story, conflicts};

type Outcome = Result<(), crate::MergeError>;

#[test]
fn items_are_owned_by_key_with_defaults_filled_in() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"ports": [{"port": 80, "name": "http"}]}))?;
    story.apply("b", json!({"ports": [{"port": 53, "proto": "UDP"}]}))?;
    let key = r#"k:{"port":80,"proto":"TCP"}"#;
    assert_eq!(
        story.owned("a"),
        json!({"f:ports": {key: {".": {}, "f:name": {}, "f:port": {}}}})
    );
    story.apply("b", json!({}))?;
    assert_eq!(story.spec(), json!({"ports": [{"port": 80, "name": "http"}]}));
    Ok(())
}

#[test]
fn fields_of_one_item_have_owners_of_their_own() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"ports": [{"port": 80}]}))?;
    story.apply("b", json!({"ports": [{"port": 80, "name": "http"}]}))?;
    let refused = story.apply("c", json!({"ports": [{"port": 80, "name": "web"}]}));
    assert_eq!(conflicts(refused), [r#".spec.ports[port=80,proto="TCP"].name"#]);
    story.apply("b", json!({}))?;
    assert_eq!(story.spec(), json!({"ports": [{"port": 80}]}));
    Ok(())
}

#[test]
fn members_of_a_set_are_owned_one_by_one() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"tags": ["x", "y"]}))?;
    story.apply("b", json!({"tags": ["y", "z"]}))?;
    assert_eq!(story.spec(), json!({"tags": ["x", "y", "z"]}));
    story.apply("a", json!({"tags": []}))?;
    assert_eq!(story.spec(), json!({"tags": ["y", "z"]}));
    Ok(())
}

#[test]
fn merged_order() -> Outcome {
    for (live, applied, merged) in [
        (&["a", "b", "c"][..], &["b"][..], &["a", "b", "c"][..]),
        (&["a", "b"], &["c"], &["a", "b", "c"]),
        (&["a", "b"], &["b", "a"], &["b", "a"]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["a", "b", "c", "d"], &["d", "x", "b"], &["a", "c", "d", "x", "b"]),
        (&[], &["b", "a"], &["b", "a"]),
        (&["a"], &["x", "a", "y"], &["x", "a", "y"]),
        (&["a", "b"], &["x", "b", "y", "a"], &["x", "b", "y", "a"]),
    ] {
        let mut story = Story::new();
        story.update("u", json!({"tags": live}));
        story.apply("a", json!({"tags": applied}))?;
        assert_eq!(story.spec()["tags"], json!(merged), "{applied:?} over {live:?}");
    }
    Ok(())
}

#[test]
fn stored_duplicates_are_one_leaf() -> Outcome {
    let mut story = Story::new();
    story.update(
        "u",
        json!({"tags": ["x", "x", "y"], "ports": [{"port": 1}, {"port": 1, "name": "n"}]}),
    );
    let key = r#"k:{"port":1,"proto":"TCP"}"#;
    assert_eq!(
        story.owned("u"),
        json!({
            ".": {},
            "f:ports": {".": {}, key: {}}, "f:tags": {".": {}, "v:\"x\"": {}, "v:\"y\"": {}},
        })
    );
    story.apply("a", json!({"tags": ["z"]}))?;
    assert_eq!(
        story.spec()["tags"],
        json!(["x", "x", "y", "z"]),
        "others are left alone"
    );
    story.update("u", json!({"tags": ["x", "y", "z"], "ports": [{"port": 1}]}));
    assert_eq!(
        story.owned("u")["f:ports"],
        json!({".": {}, key: {".": {}, "f:port": {}}})
    );
    Ok(())
}

#[test]
fn applying_over_a_duplicate_settles_it() -> Outcome {
    let mut story = Story::new();
    story.update("u", json!({"tags": ["x", "x"]}));
    story.force("a", json!({"tags": ["x"]}))?;
    assert_eq!(story.spec(), json!({"tags": ["x"]}));
    Ok(())
}

#[test]
fn numbers_are_one_key_however_they_are_written() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"ports": [{"port": 80.0, "name": "n"}]}))?;
    assert_eq!(
        story.owned("a")["f:ports"]
            .as_object()
            .map(|keys| keys.keys().cloned().collect::<Vec<_>>()),
        Some(vec![r#"k:{"port":80,"proto":"TCP"}"#.to_owned()])
    );
    let again: Value = json!({"ports": [{"port": 80, "name": "n"}]});
    let before = story.live.clone();
    story.apply("a", again)?;
    assert_eq!(story.live, before);
    Ok(())
}
