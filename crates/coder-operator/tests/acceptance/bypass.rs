//! Guarantee: the rate limit is bypassed only where the spec says so; a refusal costs one more
//! request per token and hour, and a header without effect is detected and reported.

use aplomb_fake_services::coderd::{Role, Version};
use http::StatusCode;
use serde_json::json;
use tokio::time::sleep;

use crate::lab::{Around, Lab, TEAM, minutes, on_box, seconds};
use crate::site::{self, Options};

/// Calls for which coderd lets an owner bypass the limiter; the others carry no header.
fn may_bypass(method: &str, path: &str) -> bool {
    let path = path.trim_start_matches("/api/v2/");
    let keys = path.ends_with("/provisionerkeys") || path.contains("/provisionerkeys/");
    let writes = path.starts_with("workspaceproxies") && method != "GET";
    (keys && !path.ends_with("/daemons")) || writes
}

/// Rotates the key of an object with the bypass every ten minutes, `many` times.
async fn rotate_many(lab: Lab, many: u32) -> Lab {
    let _replica = lab.start_settled(&json!({ "bypassRateLimit": true })).await;
    for number in 0..many {
        lab.annotate(TEAM, "coder.aplomb.dev/rotate", &number.to_string()).await;
        sleep(minutes(10)).await;
    }
    lab
}

fn with_role(change: impl FnOnce(&mut Options)) -> Around {
    Around::with_seed(1).with_server(change)
}

#[test]
fn without_the_switch_there_is_no_header() {
    on_box(1, |lab| async move {
        let _replica = lab.start_settled(&json!({})).await;
        lab.annotate(TEAM, "coder.aplomb.dev/rotate", "one").await;
        sleep(minutes(10)).await;
        assert!(lab.coderd.requests(0).iter().all(|it| !it.bypass));
    });
}

#[test]
fn an_owner_passes_a_limit_of_one() {
    with_role(|it| it.role = Role::Owner).run(|lab| async move {
        let _replica = lab.start_settled(&json!({ "bypassRateLimit": true })).await;
        let requests = lab.coderd.requests(0);
        for it in &requests {
            let may = may_bypass(&it.method, &it.path);
            assert!(!it.bypass || may, "{} {}", it.method, it.path);
        }
        let passed = requests.iter().filter(|it| it.bypass).count();
        assert!(passed > 0, "no call had the bypass header");
        assert!(
            requests.iter().all(|it| !it.bypass || !it.counted),
            "no call was counted"
        );
        println!("an owner: {passed} of {} calls bypassed the limiter", requests.len());
    });
}

#[test]
fn a_refused_bypass_costs_one_request_per_token_and_hour() {
    for refusal in [StatusCode::PRECONDITION_REQUIRED, StatusCode::PRECONDITION_FAILED] {
        let around = with_role(move |it| it.bypass_refusal = refusal);
        around.run(move |lab| async move {
            let lab = rotate_many(lab, 12).await;
            let requests = lab.coderd.requests(0);
            let code = refusal.as_u16();
            let refused: Vec<_> = requests.iter().filter(|it| it.status == Some(code)).collect();
            let asked = requests.iter().filter(|it| it.bypass).count();
            let all = requests.iter().filter(|it| may_bypass(&it.method, &it.path)).count();
            println!(
                "not an owner ({code}): {} of {all} calls in 2 h were refused their bypass, {asked} sent the header",
                refused.len()
            );
            assert!((2..=3).contains(&refused.len()), "one an hour: {refused:?}");
            assert_eq!(asked, refused.len());
            for pair in refused.windows(2) {
                let apart = pair[1].time.duration_since(pair[0].time).as_secs();
                assert!(apart >= 3600, "{apart} s");
            }
            assert!(lab.is_ready(TEAM));
        });
    }
}

#[test]
fn another_token_is_tried_again() {
    with_role(|_| {}).run(|lab| async move {
        let _replica = lab.start_settled(&json!({ "bypassRateLimit": true })).await;
        let refused = |lab: &Lab| {
            let all = lab.coderd.requests(0);
            all.iter().filter(|it| it.status == Some(428)).count()
        };
        assert_eq!(refused(&lab), 1);
        lab.token(crate::lab::SECRET, site::NEXT_TOKEN).await;
        lab.annotate(TEAM, "coder.aplomb.dev/rotate", "one").await;
        sleep(minutes(10)).await;
        assert_eq!(refused(&lab), 2, "one for each token");
    });
}

/// Before 2.32 the header did nothing: the first 429 despite it shows that.
#[test]
fn a_bypass_without_effect_is_seen_and_reported() {
    let old = |it: &mut Options| {
        it.version = Version::new(2, 30);
        it.role = Role::Owner;
        it.limit = 4;
    };
    with_role(old).run(|lab| async move {
        for number in 0..6 {
            let name = format!("team-{number}");
            lab.provisioner(&name, &json!({ "bypassRateLimit": true })).await;
        }
        let replica = crate::operator::Replica::start(&lab, "first");
        for number in 0..6 {
            lab.wait_ready(&format!("team-{number}"), minutes(30)).await;
        }
        let requests = lab.coderd.requests(0);
        let asked = requests.iter().filter(|it| it.bypass).count();
        let refused = requests.iter().filter(|it| it.status == Some(429)).count();
        println!("an old server, limit 4: {asked} calls with the header, {refused} were refused for their rate");
        assert!(refused <= 8, "it learns: {refused}");
        let said = lab.events().iter().any(|(reason, _)| reason.contains("Bypass"));
        assert!(said, "{:?}", lab.events());
        assert!(replica.metric(&["bypass"]) >= 1.0, "{}", replica.metrics());
    });
}

/// The same on a server that should support it: a proxy in front limits too.
#[test]
fn a_429_despite_the_header_is_seen_and_reported() {
    with_role(|it| it.role = Role::Owner).run(|lab| async move {
        let replica = lab.start_settled(&json!({ "bypassRateLimit": true })).await;
        lab.coderd
            .fault(&json!({ "path": "/api/v2/organizations/*/provisionerkeys", "status": 429, "times": 1 }));
        lab.annotate(TEAM, "coder.aplomb.dev/rotate", "one").await;
        sleep(seconds(300)).await;
        let said = lab.events().iter().any(|(reason, _)| reason.contains("Bypass"));
        assert!(said, "{:?}", lab.events());
        assert!(replica.metric(&["bypass"]) >= 1.0);
        assert!(lab.is_ready(TEAM));
    });
}
