//! Whether a person has frozen automation, and until when.

use jiff::Timestamp;

use aplomb_api::egress::annotations;

use crate::world::Observed;

/// Automation is frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ActiveHold {
    /// Until when; without end if `None`.
    pub(super) until: Option<Timestamp>,
    /// Which hold it is, for people.
    pub(super) message: String,
}

/// The hold on `world` at `now`, by its spec or its annotation; of two, the one that ends later.
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
    let why = hold.reason.as_deref().unwrap_or("no reason given");
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
        message: hold_message(&format!("annotation {key}"), None, why),
    };
    if text.eq_ignore_ascii_case("true") {
        return Some(forever("remove it to resume"));
    }
    let Ok(until) = text.parse::<Timestamp>() else {
        let fix = format!(
            "cannot parse {text:?}, so nothing is moved: write true, false, or a time like \
             2026-01-31T18:00:00Z"
        );
        return Some(forever(&fix));
    };
    (until > now).then(|| ActiveHold {
        until: Some(until),
        message: hold_message(&format!("annotation {key}"), Some(until), "remove it to resume"),
    })
}

fn hold_message(who: &str, until: Option<Timestamp>, why: &str) -> String {
    match until {
        Some(until) => format!("{who} freezes automation until {until}: {why}"),
        None => format!("{who} freezes automation: {why}"),
    }
}
