//! Tests of what the cache keeps, which entries it returns and which read it chooses.

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(None, name)
}

fn name(name: &str) -> FloatingIpSelector {
    FloatingIpSelector::Name(name.to_owned())
}

fn ip(id: i64, name: &str, server: i64) -> FloatingIp {
    FloatingIp {
        id,
        name: name.to_owned(),
        ip: "198.51.100.7".parse().expect("an address"),
        server: Some(server),
        blocked: false,
        labels: BTreeMap::new(),
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn one_is_read_by_name_and_then_by_id() {
    let mut known = FloatingIpCache::default();
    known.add_interest(&key("a"), name("web"));
    assert_eq!(known.plan_read(&name("web"), false), ReadPlan::ByName("web".to_owned()));
    known.store_one(ip(7, "web", 1), known.read_mark(secs(0)));
    assert_eq!(known.plan_read(&name("web"), false), ReadPlan::ById(7));
}

#[test]
fn several_are_read_together_unless_that_costs_more() {
    let mut known = FloatingIpCache::default();
    for (who, which) in [("a", name("web")), ("b", FloatingIpSelector::Id(8))] {
        known.add_interest(&key(who), which);
    }
    assert_eq!(known.plan_read(&name("web"), true), ReadPlan::Listing);
    known.store_one(ip(7, "web", 1), known.read_mark(secs(0)));
    known.finish_listing(2, known.read_mark(secs(0)));
    assert_eq!(known.plan_read(&name("web"), false), ReadPlan::Listing, "two for two");
    assert_eq!(
        known.plan_read(&name("web"), true),
        ReadPlan::ById(7),
        "only what it needs"
    );
    known.finish_listing(3, known.read_mark(secs(0)));
    assert_eq!(
        known.plan_read(&FloatingIpSelector::Id(8), false),
        ReadPlan::ById(8),
        "three for two"
    );
    known.remove_interest(&key("b"));
    assert_eq!(known.plan_read(&name("web"), false), ReadPlan::ById(7));
    assert_eq!(known.last_seen(&FloatingIpSelector::Id(8)), None);
}

#[test]
fn what_was_read_before_a_write_is_not_fresh_though_it_is_young() {
    let mut known = FloatingIpCache::default();
    known.add_interest(&key("a"), name("web"));
    let before = known.read_mark(secs(5));
    known.store_one(ip(7, "web", 1), before);
    assert!(known.cached_within(&name("web"), secs(5), secs(30)).is_some());
    known.invalidate();
    assert!(known.cached_within(&name("web"), secs(5), secs(30)).is_none());
    assert!(
        known.last_seen(&name("web")).is_some(),
        "it is still the last known state"
    );
    let after = known.read_mark(secs(5));
    known.store_one(ip(7, "web", 2), after);
    known.store_one(ip(7, "web", 1), before);
    let seen = known.cached_within(&name("web"), secs(5), secs(30)).expect("fresh");
    assert_eq!(
        seen.expect("there").server,
        Some(2),
        "a response that arrived out of order"
    );
}

#[test]
fn a_name_that_was_given_to_another_is_looked_for_again() {
    let mut known = FloatingIpCache::default();
    known.add_interest(&key("a"), name("web"));
    known.store_one(ip(7, "web", 1), known.read_mark(secs(0)));
    known.store_one(ip(7, "old", 1), known.read_mark(secs(30)));
    assert_eq!(known.plan_read(&name("web"), false), ReadPlan::ByName("web".to_owned()));
    known.store_one(ip(9, "web", 2), known.read_mark(secs(31)));
    assert_eq!(known.last_seen(&name("web")).map(|seen| seen.id), Some(9));
}

#[test]
fn what_a_listing_did_not_show_is_not_there() {
    let mut known = FloatingIpCache::default();
    known.add_interest(&key("a"), name("web"));
    known.add_interest(&key("b"), name("db"));
    let mark = known.read_mark(secs(1));
    known.store_page(vec![ip(7, "web", 1), ip(8, "other", 1)], mark);
    assert!(!known.is_complete(mark));
    known.finish_listing(1, mark);
    assert_eq!(
        known.cached_within(&name("db"), secs(2), secs(30)),
        Some(Err(ProviderTrouble::NotFound))
    );
    assert!(
        known.last_seen(&FloatingIpSelector::Id(8)).is_some(),
        "another user may need it next"
    );
    known.finish_listing(1, known.read_mark(secs(2)));
    assert_eq!(
        known.last_seen(&FloatingIpSelector::Id(8)),
        None,
        "deleted without a write of ours"
    );
}

#[test]
fn the_term_is_read_from_its_label() {
    let mut known = FloatingIpCache::default();
    known.add_interest(&key("a"), FloatingIpSelector::Id(7));
    let mut read = ip(7, "web", 1);
    read.labels.insert(labels::TERM.to_owned(), "12".to_owned());
    known.store_one(read, known.read_mark(secs(0)));
    assert_eq!(
        known.last_seen(&FloatingIpSelector::Id(7)).map(|seen| seen.term),
        Some(12)
    );
}
