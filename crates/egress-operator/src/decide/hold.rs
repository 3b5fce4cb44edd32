//! Whether a person has frozen automation, and until when.

use jiff::Timestamp;

use aplomb_api::egress::annotations;

use crate::world::Observed;

/// Automation is frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ActiveHold {
    /// Until when; for ever if not said.
    pub(super) until: Option<Timestamp>,
    /// Who says so, for people.
    pub(super) message: String,
}

/// Whether `world` is held at `now`: by its spec, by its annotation, or by both, and then until the
/// later one ends.
pub(super) fn active_hold(world: &Observed, now: Timestamp) -> Option<ActiveHold> {
    match (hold_from_spec(world, now), hold_from_annotation(world, now)) {
        (Some(one), Some(other)) if ends_later(&other, &one) => Some(other),
        (one, other) => one.or(other),
    }
}

fn ends_later(one: &ActiveHold, other: &ActiveHold) -> bool {
    match (one.until, other.until) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(one), Some(other)) => one > other,
    }
}

fn hold_from_spec(world: &Observed, now: Timestamp) -> Option<ActiveHold> {
    let hold = world.spec.hold.as_ref()?;
    let until = hold.until.as_ref().map(|time| time.0);
    if until.is_some_and(|until| until <= now) {
        return None;
    }
    let why = hold.reason.as_deref().unwrap_or("no reason is given");
    Some(ActiveHold {
        until,
        message: hold_message("spec.hold", until, why),
    })
}

fn hold_from_annotation(world: &Observed, now: Timestamp) -> Option<ActiveHold> {
    let text = world.hold.as_deref()?.trim();
    let key = annotations::HOLD;
    if text.is_empty() || text.eq_ignore_ascii_case("false") {
        return None;
    }
    let forever = |why: &str| ActiveHold {
        until: None,
        message: hold_message(&format!("the annotation {key}"), None, why),
    };
    if text.eq_ignore_ascii_case("true") {
        return Some(forever("remove it to go on"));
    }
    let Ok(until) = text.parse::<Timestamp>() else {
        let fix = format!(
            "its value {text:?} cannot be read, so that nothing is moved to be safe: write true, \
             false, or a time like 2026-01-31T18:00:00Z"
        );
        return Some(forever(&fix));
    };
    (until > now).then(|| ActiveHold {
        until: Some(until),
        message: hold_message(
            &format!("the annotation {key}"),
            Some(until),
            "remove it to go on",
        ),
    })
}

fn hold_message(who: &str, until: Option<Timestamp>, why: &str) -> String {
    match until {
        Some(until) => format!("{who} freezes automation until {until}: {why}"),
        None => format!("{who} freezes automation: {why}"),
    }
}
