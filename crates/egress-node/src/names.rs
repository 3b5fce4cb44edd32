//! Addresses by name, read from the status of StableEgress objects.
//!
//! Read-only, and an address is never dropped: one that no object has any more stays until another replaces it, so that
//! a mistake or an outage elsewhere cannot take it from a serving node.

use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Context, Controller, Engine, Predicate, Scope};
use aplomb_api::StableEgress;
use tokio::sync::watch;

use crate::Slot;

/// An outage of the API server may last any time; known addresses stay meanwhile.
const NO_TIMEOUT: Duration = Duration::from_secs(365 * 86_400);

/// An engine that fills in the slots that have a name.
pub(crate) fn engine(client: kube::Client, slots: watch::Sender<Vec<Slot>>) -> Engine {
    let scope = watch_scope(&slots.borrow());
    let pass = move |egress: Arc<StableEgress>, _: Context<StableEgress>| {
        fill_slots(&slots, &egress);
        async { Ok(Action::Done) }
    };
    let controller = Controller::new("egress-host", pass)
        .without_leader_election()
        .predicate(Predicate::changed_by(|egress: &StableEgress| {
            reported_ip(egress).map(str::to_owned)
        }))
        .in_scope(scope);
    Engine::new("egress-host", client)
        .configure(|settings| settings.sync_deadline = NO_TIMEOUT)
        .controller(controller)
}

/// One object if there is one name, otherwise all.
fn watch_scope(slots: &[Slot]) -> Scope {
    let names: Vec<_> = slots.iter().filter_map(|slot| slot.name.as_ref()).collect();
    let fields = match names[..] {
        [name] => Some(format!("metadata.name={name}")),
        _ => None,
    };
    Scope {
        fields,
        ..Scope::default()
    }
}

fn reported_ip(egress: &StableEgress) -> Option<&str> {
    egress.status.as_ref()?.ip.as_deref()
}

fn fill_slots(slots: &watch::Sender<Vec<Slot>>, egress: &StableEgress) {
    let (name, said) = (egress.metadata.name.as_deref(), reported_ip(egress));
    let Some(said) = said else {
        return;
    };
    // An IPv6 network is represented by its first address.
    let ip = said.split('/').next().unwrap_or_default().parse();
    let Ok(ip) = ip else {
        tracing::warn!(stable_egress = name, said, "Failed to parse StableEgress address");
        return;
    };
    slots.send_if_modified(|slots| {
        let named = slots.iter_mut().filter(|slot| slot.name.as_deref() == name);
        let mut other = named.filter(|slot| slot.ip != Some(ip)).peekable();
        let changed = other.peek().is_some();
        other.for_each(|slot| slot.ip = Some(ip));
        changed
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn egress(name: &str, ip: Option<&str>) -> StableEgress {
        let object = json!({
            "apiVersion": "aplomb.dev/v1alpha1",
            "kind": "StableEgress",
            "metadata": {"name": name},
            "spec": {"floatingIP": {"name": "office"}},
            "status": {"ip": ip, "activeWasCandidate": false, "candidates": {"total": 0, "ready": 0}},
        });
        serde_json::from_value(object).unwrap()
    }

    fn slots(names: &[&str]) -> watch::Sender<Vec<Slot>> {
        let slot = |name: &&str| Slot {
            name: Some((*name).to_owned()),
            ip: None,
        };
        watch::Sender::new(names.iter().map(slot).collect())
    }

    fn ips(slots: &watch::Sender<Vec<Slot>>) -> Vec<Option<String>> {
        let ip = |slot: &Slot| slot.ip.map(|ip| ip.to_string());
        slots.borrow().iter().map(ip).collect()
    }

    #[test]
    fn each_slot_gets_the_address_of_its_name() {
        let slots = slots(&["office", "lab"]);
        fill_slots(&slots, &egress("lab", Some("2001:db8::1/64")));
        fill_slots(&slots, &egress("elsewhere", Some("203.0.113.9")));
        assert_eq!(ips(&slots), [None, Some("2001:db8::1".to_owned())]);
    }

    #[test]
    fn an_address_stays_until_another_is_known() {
        let slots = slots(&["office"]);
        fill_slots(&slots, &egress("office", Some("203.0.113.7")));
        for nothing in [None, Some("gone")] {
            fill_slots(&slots, &egress("office", nothing));
            assert_eq!(ips(&slots), [Some("203.0.113.7".to_owned())]);
        }
        fill_slots(&slots, &egress("office", Some("203.0.113.8")));
        assert_eq!(ips(&slots), [Some("203.0.113.8".to_owned())]);
    }

    #[test]
    fn an_unchanged_address_does_not_notify() {
        let slots = slots(&["office"]);
        let mut woken = slots.subscribe();
        fill_slots(&slots, &egress("office", Some("203.0.113.7")));
        assert!(woken.has_changed().unwrap());
        woken.mark_unchanged();
        fill_slots(&slots, &egress("office", Some("203.0.113.7")));
        assert!(!woken.has_changed().unwrap());
    }

    #[test]
    fn one_name_is_watched_alone() {
        assert_eq!(
            watch_scope(&slots(&["office"]).borrow()).fields.as_deref(),
            Some("metadata.name=office")
        );
        assert_eq!(watch_scope(&slots(&["office", "lab"]).borrow()).fields, None);
    }
}
