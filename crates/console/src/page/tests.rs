//! The page of fixed values, and what no value can do to it.

use super::*;
use crate::fixture;
use crate::status::{ObjectMap, OverviewInputs};

fn status_of(objects: &ObjectMap) -> Overview {
    Overview::from_inputs(OverviewInputs {
        objects,
        engines: &[],
        journal: &|_| Vec::new(),
        at: fixture::fixture_time(),
    })
}

#[test]
fn every_part_is_on_the_page() {
    let main = render_overview(&fixture::status()).expect("a page");
    for part in [
        "tunnels",
        "findings",
        "egress",
        "coder",
        "budgets",
        "queues",
        "kinds",
        "operators",
        "objects",
    ] {
        assert!(main.contains(&format!("<section id=\"{part}\"")), "{part} is missing");
    }
    assert!(main.contains("data-light=\"amber\" data-stage=\"childrenWritten\""));
    assert!(main.contains("3 conflicts"));
    assert!(main.contains("proven in 412 ms"));
    assert!(main.contains("closed for 12 s"));
}

#[test]
fn rows_have_the_attributes_that_scripts_read() {
    let main = render_overview(&fixture::status()).expect("a page");
    let row = "data-kind=\"HTTPProxy\" data-namespace=\"default\" data-name=\"api\" data-version=\"812\"";
    assert!(main.contains(&format!("<tr id=\"row-httpproxies-default-api\" {row}>")));
    assert!(main.contains("<td data-column=\"Ready\">True</td>"));
    assert!(main.contains(&format!("<li class=\"tunnel\" id=\"tunnel-default-api\" {row}>")));
}

#[test]
fn hostile_names_and_messages_are_escaped() {
    let mut tunnel = fixture::proven("\"><script>alert(1)</script>");
    tunnel["status"]["conditions"][0]["status"] = "False".into();
    tunnel["status"]["conditions"][0]["message"] = "<script>alert(2)</script>".into();
    tunnel["status"]["hostname"] = "'><img src=x onerror=alert(3)>".into();
    let mut objects = ObjectMap::default();
    objects.insert("HTTPProxy", vec![tunnel]);
    let main = render_overview(&status_of(&objects)).expect("a page");
    let page = render_document("<script>", main, "/events?of=\"><script>").expect("a page");
    assert_eq!(page.matches("<script").count(), 1, "a script other than ours");
    assert!(!page.contains("<img"));
    assert!(page.contains("&lt;script&gt;alert(2)"));
}

#[test]
fn nothing_secret_is_on_the_page() {
    let main = render_overview(&fixture::status()).expect("a page");
    assert!(!main.contains(fixture::SECRET) && !main.contains("coder-token"));
}

#[test]
fn nothing_is_inline_and_nothing_is_external() {
    let main = render_overview(&fixture::status()).expect("a page");
    let page = render_document("Aplomb", main, "/events").expect("a page");
    for word in [" style=", " onclick=", "<style", "http://", "//cdn", "javascript:"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn an_empty_process_has_instructions() {
    let mut objects = ObjectMap::default();
    for kind in ["HTTPProxy", "StableEgress", "CoderProvisioner"] {
        objects.insert(kind, Vec::new());
    }
    let main = render_overview(&status_of(&objects)).expect("a page");
    for word in [
        "aplomb connect 3000",
        "kubectl apply -f deploy/egress",
        "kubectl apply -f deploy/coder",
    ] {
        assert!(main.contains(word), "{word}");
    }
    let none = render_overview(&Overview::default()).expect("a page");
    assert!(none.contains("aplomb run tunnel"));
}
