//! Every kind of ours, printed as a table.

use serde_json::json;

use super::*;

const AT: &str = "2026-01-01T00:05:00.9Z";

fn egress() -> Value {
    json!({
        "apiVersion": "aplomb.dev/v1alpha1", "kind": "StableEgress",
        "metadata": {
            "name": "web", "uid": "u", "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "status": {
            "ip": "192.0.2.7", "activeNode": "a",
            "conditions": [{ "type": "Ready", "status": "True", "reason": "Routed" }],
            "candidates": { "ready": 2 },
        },
    })
}

fn test_time() -> Timestamp {
    AT.parse().expect("a time")
}

fn find_one(word: &str) -> KindInfo {
    find_by_name(word).into_iter().next().expect(word)
}

#[test]
fn a_row_has_the_cells_of_the_definition_and_the_identity_of_its_object() {
    let table = find_one("seg").build_table([&egress()], test_time());
    let row = &table.rows[0];
    assert_eq!((row.uid.as_str(), row.resource_version.as_str()), ("u", "7"));
    assert_eq!((row.generation, row.namespace.as_deref()), (2, None));
    assert_eq!(table.cell(row, "Ready"), Some("True"));
    assert_eq!(table.cell(row, "Last-Move"), Some(""));
    assert_eq!(table.cell(row, "Nothing"), None);
}

#[test]
fn the_text_is_laid_out_as_kubectl_does_it() {
    let table = find_one("stableegress").build_table([&egress()], test_time());
    let plain = "\
NAME   IP          NODE   READY   REASON   LAST-MOVE   AGE
web    192.0.2.7   a      True    Routed               5m
";
    assert_eq!(table.to_text(&TableStyle::default()), plain);
    let style = TableStyle {
        wide: true,
        no_headers: true,
        prefix: "stableegress.aplomb.dev/".to_owned(),
        ..TableStyle::default()
    };
    let wide = "stableegress.aplomb.dev/web   192.0.2.7   a     True   Routed         5m    2           \n";
    assert_eq!(table.to_text(&style), wide);
}

#[test]
fn a_namespace_is_shown_where_there_are_any() {
    let style = TableStyle {
        namespaces: true,
        ..TableStyle::default()
    };
    let cluster = find_one("seg").build_table([&egress()], test_time());
    assert!(cluster.to_text(&style).starts_with("NAME "));
    let mut tunnel = egress();
    tunnel["metadata"]["namespace"] = json!("team");
    let text = find_one("hp").build_table([&tunnel], test_time()).to_text(&style);
    assert!(text.starts_with("NAMESPACE   NAME "), "{text}");
    assert!(text.contains("\nteam        web "), "{text}");
}

#[test]
fn rows_are_in_the_order_of_their_names() {
    let mut other = egress();
    other["metadata"]["name"] = json!("app");
    let table = find_one("seg").build_table([&egress(), &other], test_time());
    assert_eq!(table.rows[0].name, "app");
}

#[test]
fn a_streamed_row_keeps_to_the_columns_above_it() {
    let mut layout = TableLayout::default();
    let line = |cells: [&str; 2]| vec![cells.map(str::to_owned).to_vec()];
    assert_eq!(layout.format_lines(&line(["a-long-name", "x"])), "a-long-name   x\n");
    assert_eq!(layout.format_lines(&line(["b", "x"])), "b             x\n");
}

#[test]
fn kinds_are_known_by_every_name_they_have() {
    for word in ["httpproxies", "httpproxy", "HTTPProxy", "hp", "httpproxies.aplomb.dev"] {
        let found: Vec<String> = find_by_name(word).into_iter().map(|it| it.kind).collect();
        assert_eq!(found, ["HTTPProxy"], "{word}");
    }
    assert_eq!(find_by_name("all").len(), aplomb_api::definitions().len());
    assert!(find_by_name("aplomb").len() > 5);
    assert!(find_by_name("pods").is_empty());
}

#[test]
fn a_table_survives_its_json() {
    let table = find_one("seg").build_table([&egress()], test_time());
    let text = serde_json::to_string(&table).expect("JSON");
    assert_eq!(serde_json::from_str::<ObjectTable>(&text).expect("a table"), table);
}
