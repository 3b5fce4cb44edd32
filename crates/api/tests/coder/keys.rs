//! Key names: names that coderd would reject or change are rejected, each with a message that states the fix.

use serde_json::json;

use crate::Lab;
use crate::fixtures::{PROVISIONER, provisioner};
use crate::lab::Refusal;

const AT: &str = "spec.key.name";
const LENGTH: &str = "at most 64 characters: shorten";
const CASE: &str = "write the name in lower case";
const SIGNS: &str = "leave out spaces, slashes";
const ENDS: &str = "begin and end with a letter or digit";
const RESERVED: &str = "choose another name";

fn name_refusals() -> Vec<Refusal> {
    let name = |name: &str, words: &'static str| (json!({ "key": { "name": name } }), AT, words);
    let mut table = vec![
        name("", "leave key.name out"),
        name(&"a".repeat(65), LENGTH),
        name(&"a".repeat(129), LENGTH),
        name(&"ä".repeat(65), LENGTH),
        name(&"a".repeat(1025), "1024"),
        name("Team", CASE),
        name("teaM", CASE),
        name(&"A".repeat(65), CASE),
        name(&"A".repeat(65), LENGTH),
        name("-team", ENDS),
        name("team.", ENDS),
        name("_", ENDS),
    ];
    for reserved in ["built-in", "user-auth", "psk", "PSK", "Built-In", "USER-auth"] {
        table.push(name(reserved, RESERVED));
    }
    for odd in [
        "a b",
        " team",
        "team ",
        "a/b",
        "../psk",
        "a\\b",
        "größe",
        "a\u{e9}",
        "a\0b",
        "team\n",
        "a\tb",
        "a\u{7f}b",
        "a\u{200b}b",
        "a%20b",
        "a?b",
        "a#b",
        "a:b",
        "a@b",
        "a=b",
        "a,b",
        "日本",
        "\u{1f600}",
    ] {
        table.push(name(odd, SIGNS));
    }
    table
}

pub(crate) async fn rejects(lab: Lab) {
    lab.refuses(PROVISIONER, provisioner(), name_refusals()).await;
    for reserved in ["built-in", "user-auth", "psk"] {
        let said = lab.create(PROVISIONER, reserved, &provisioner()).await;
        let said = said.expect_err("the key would get a reserved name");
        assert!(said.contains("set spec.key.name"), "{said}");
    }
}

pub(crate) async fn accepts(lab: Lab) {
    let longest = "a".repeat(64);
    for name in ["a", "0", "team-1", "team_a.b", "psk-1", "my-psk", &longest] {
        let mut spec = provisioner();
        spec["key"] = json!({ "name": name });
        for object in ["team", "psk", "built-in"] {
            let created = lab.create(PROVISIONER, object, &spec).await;
            assert!(created.is_ok(), "{name}: {created:?}");
        }
    }
    // The operator shortens the key name for an object with a longer name.
    let long = format!("{}.{}", "a".repeat(100), "b".repeat(100));
    let created = lab.create(PROVISIONER, &long, &provisioner()).await;
    assert!(created.is_ok(), "{created:?}");
}
