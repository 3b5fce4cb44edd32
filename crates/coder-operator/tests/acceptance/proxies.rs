//! Guarantee: a workspace proxy is registered, given a new token, displayed as the spec says and
//! deleted, under refusals of every class and with a crash at every effect.

use aplomb_fake_services::coderd::Role;
use aplomb_simulation::{Crash, CrashPoint};
use serde_json::json;
use tokio::time::sleep;

use crate::claims::{proxy_leftover, proxy_unsettled, wait_until_settled};
use crate::crashes::{crash_at, fail_at};
use crate::harness::{Mode, Trouble, play};
use crate::lab::{Around, Lab, TEAM, minutes, until};
use crate::operator::Replica;
use crate::scenario::Story;

/// Runs with an owner's token, since only owners manage proxies.
fn run_with_gc<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    let around = Around::with_seed(seed).with_server(|it| it.role = Role::Owner);
    around.run(scenario)
}

/// A CoderWorkspaceProxy called `team` that a replica has made ready.
async fn start_settled(lab: &Lab) -> Replica {
    lab.proxy(TEAM, &json!({})).await;
    let replica = Replica::start(lab, "first");
    let took = wait_until_settled(minutes(5), || proxy_unsettled(lab, TEAM))
        .await
        .unwrap();
    println!("registered and healthy after {took:.0?}");
    replica
}

fn token(lab: &Lab) -> Option<String> {
    lab.secret("team-proxy-token", "token")
}

#[test]
fn a_proxy_is_created_and_deleted() {
    let played = play(Story::Proxy, 3, &Trouble::default());
    assert_eq!(played.verdict, Ok(()));
    let (effects, calls) = (played.effects.len(), played.requests.len());
    println!("a proxy's life: {effects} effects, {calls} of them calls");
}

/// A lost token cannot be read again, so it is replaced; the pods follow.
#[test]
fn a_secret_that_is_lost_is_a_new_token() {
    run_with_gc(1, |lab| async move {
        let _replica = start_settled(&lab).await;
        let before = token(&lab);
        let deleted = lab.secrets().delete("team-proxy-token", &Default::default()).await;
        deleted.unwrap();
        let back = || match token(&lab) {
            None => Some("no token yet".to_owned()),
            same if same == before => Some("it is the old token".to_owned()),
            _ => proxy_unsettled(&lab, TEAM),
        };
        let took = wait_until_settled(minutes(15), back).await.unwrap();
        println!("a lost Secret holds a new token after {took:.0?}");
        assert_eq!(lab.coderd.sim.proxy_health(TEAM), Some("ok"));
    });
}

#[test]
fn a_new_token_rolls_the_pods() {
    run_with_gc(2, |lab| async move {
        let _replica = start_settled(&lab).await;
        let rotate = json!({ "metadata": { "annotations": { "coder.aplomb.dev/rotate": "one" } } });
        lab.edit_proxy(TEAM, &rotate).await;
        let honoured = || lab.proxy_status(TEAM).rotation.honoured.as_deref() == Some("one");
        until(minutes(10), "executed", honoured).await;
        wait_until_settled(minutes(10), || proxy_unsettled(&lab, TEAM))
            .await
            .unwrap();
        let servers = lab.coderd.sim.state().proxy_servers;
        assert!(servers.iter().all(|it| it.accepted), "{servers:?}");
    });
}

/// 429 for some minutes at each step of a proxy's life.
#[test]
fn each_step_waits_for_the_rate_limit() {
    run_with_gc(3, |lab| async move {
        let _replica = Replica::start(&lab, "first");
        for step in ["register", "new token", "looks", "delete"] {
            lab.coderd.refuse_all(true);
            let since = lab.coderd.last_request();
            match step {
                "register" => lab.proxy(TEAM, &json!({})).await,
                "new token" => {
                    let rotate = json!({ "metadata": { "annotations": { "coder.aplomb.dev/rotate": "one" } } });
                    lab.edit_proxy(TEAM, &rotate).await;
                }
                "looks" => {
                    let looks = json!({ "spec": { "bootstrap": { "displayName": "Near you" } } });
                    lab.edit_proxy(TEAM, &looks).await;
                }
                _ => lab.delete_proxy(TEAM).await,
            }
            sleep(minutes(5)).await;
            let calls = lab.coderd.requests(since).len();
            lab.coderd.clear_faults();
            let took = match step {
                "delete" => wait_until_settled(minutes(15), || proxy_leftover(&lab, TEAM)).await,
                _ => wait_until_settled(minutes(15), || proxy_unsettled(&lab, TEAM)).await,
            };
            println!(
                "{step} under 5 min of 429: {calls} calls, done {:.0?} after",
                took.unwrap()
            );
            assert!(calls <= 12, "{step}: {calls}");
        }
    });
}

/// If the bypass is refused, each step runs at once without it, and no call tries it again for an
/// hour.
#[test]
fn a_step_that_is_refused_its_bypass_does_without() {
    for (refusal, method) in [428_u16, 412]
        .into_iter()
        .flat_map(|refusal| ["POST", "PATCH", "DELETE"].map(|method| (refusal, method)))
    {
        run_with_gc(4, move |lab| async move {
            let path = "/api/v2/workspaceproxies";
            lab.coderd
                .fault(&json!({ "method": method, "path": path, "status": refusal, "times": 1 }));
            let _replica = Replica::start(&lab, "first");
            assert_eq!(Story::Proxy.play(&lab, true).await, Ok(()));
            let requests = lab.coderd.requests(0);
            let at = requests
                .iter()
                .position(|it| it.status == Some(refusal))
                .expect("refused");
            let (refused, next) = (&requests[at], &requests[at + 1]);
            assert!(refused.bypass && !next.bypass, "{refused:?} {next:?}");
            assert_eq!((&refused.method, &refused.path), (&next.method, &next.path));
            let later = requests[at + 1..].iter().filter(|it| it.bypass).count();
            println!("{method} refused its bypass with {refusal}: done without at once, {later} tried again");
            assert_eq!(later, 0);
        });
    }
}

fn assert_clean((runs, wrong): (usize, Vec<String>)) {
    assert!(wrong.is_empty(), "{} of {runs}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_crash_before_or_after_an_effect_changes_nothing_in_the_end() {
    assert_clean(crash_at(Story::Proxy, 2));
}

#[test]
fn a_call_that_fails_in_any_way_changes_nothing_in_the_end() {
    assert_clean(fail_at(Story::Proxy, 13));
}

#[test]
#[ignore = "every effect; make proof runs it"]
fn a_crash_before_or_after_every_effect_changes_nothing_in_the_end() {
    assert_clean(crash_at(Story::Proxy, 1));
}

#[test]
#[ignore = "every call in every way; make proof runs it"]
fn every_call_that_fails_in_every_way_changes_nothing_in_the_end() {
    assert_clean(fail_at(Story::Proxy, 1));
}

/// A crash at every effect while the server refuses in one of three ways.
#[test]
#[ignore = "every effect in three kinds of trouble; make proof runs it"]
fn crashes_under_refusals_change_nothing_in_the_end() {
    let mut wrong = Vec::new();
    let mut runs = 0;
    for mode in [Mode::Refused(429), Mode::Refused(428), Mode::Refused(412)] {
        let recorded = play(
            Story::Proxy,
            5,
            &Trouble {
                bypass: true,
                ..Trouble::default()
            },
        );
        let calls = recorded.requests.len() as u64;
        for (effect, what) in &recorded.effects {
            for point in [CrashPoint::BeforeSend, CrashPoint::AfterCommit] {
                let crash = Some(Crash { effect: *effect, point });
                let fault = Some((1 + effect % calls, mode));
                let trouble = Trouble {
                    crash,
                    fault,
                    bypass: true,
                    ..Trouble::default()
                };
                runs += 1;
                let verdict = play(Story::Proxy, 5, &trouble).verdict;
                wrong.extend(verdict.err().map(|why| format!("{mode:?} {point:?} {what}: {why}")));
            }
        }
    }
    println!("{runs} crashes under 429, 428 and 412");
    assert_clean((runs, wrong));
}

/// The server returns a deleted proxy by its ID as before, with `deleted: true`.
#[test]
fn a_proxy_that_is_deleted_by_hand_is_registered_again() {
    run_with_gc(6, |lab| async move {
        let _replica = start_settled(&lab).await;
        let first = lab.proxy_status(TEAM).proxy_id;
        sleep(minutes(10)).await;
        assert!(lab.coderd.sim.delete_proxy(TEAM));
        let again = || match lab.proxy_status(TEAM).proxy_id {
            id if id == first => Some(format!("it is still {id:?}")),
            _ => proxy_unsettled(&lab, TEAM),
        };
        let took = wait_until_settled(minutes(10), again).await.unwrap();
        println!("a proxy deleted by hand is registered again after {took:.0?}");
        assert!(lab.has_event("ProxyVanished"), "{:?}", lab.events());
    });
}

/// Its name is free at once for another client, whose proxy is not changed.
#[test]
fn a_proxy_that_took_the_name_of_a_deleted_one_is_left_alone() {
    run_with_gc(7, |lab| async move {
        let _replica = start_settled(&lab).await;
        assert!(lab.coderd.sim.delete_proxy(TEAM));
        let theirs = lab.coderd.sim.create_proxy(TEAM).unwrap();
        until(minutes(10), "it is reported", || {
            lab.proxy_condition(TEAM, "Registered").reason == "ProxyNotOurs"
        })
        .await;
        lab.delete_proxy(TEAM).await;
        let gone = || {
            let stored = lab.stored_object("aplomb.dev", "coderworkspaceproxies", TEAM);
            stored.map(|_| "the foreign proxy exists".to_owned())
        };
        wait_until_settled(minutes(10), gone).await.unwrap();
        let there = lab.coderd.sim.proxies();
        assert!(there.iter().any(|it| it.id == theirs), "{there:?}");
    });
}

/// The server makes a new token for a deleted proxy too, but then rejects it.
#[test]
fn a_token_of_a_deleted_proxy_is_not_taken_for_a_new_one() {
    run_with_gc(8, |lab| async move {
        let _replica = start_settled(&lab).await;
        let first = lab.proxy_status(TEAM).proxy_id;
        sleep(minutes(3)).await;
        assert!(lab.coderd.sim.delete_proxy(TEAM));
        let rotate = json!({ "metadata": { "annotations": { "coder.aplomb.dev/rotate": "one" } } });
        lab.edit_proxy(TEAM, &rotate).await;
        let again = || match lab.proxy_status(TEAM).proxy_id {
            id if id == first => Some(format!("it is still {id:?}")),
            _ => proxy_unsettled(&lab, TEAM),
        };
        let took = wait_until_settled(minutes(3), again).await.unwrap();
        println!("deleted right before a rotation: registered again after {took:.0?}");
    });
}
