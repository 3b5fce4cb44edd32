//! The configuration of a lease: name, identity and times.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, ErrorClass, Result};

/// The annotation of a Lease with the admin address of its holder.
pub const ADMIN_ANNOTATION: &str = "aplomb.dev/admin";

/// How a replica contends for a lease. The times are those of client-go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// The namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The identity of this replica. No two processes may share it, not even one after the other: a process
    /// that starts with the name of a paused one would take its renewals for its own.
    pub identity: String,
    /// How long others wait after the last renewal they saw.
    pub lease_duration: Duration,
    /// How long this replica acts after the last renewal it sent. The difference to `duration`
    /// is the clock drift that is tolerated in that time.
    pub renew_deadline: Duration,
    /// How often the holder renews, and how long a replica waits after a failed call.
    pub retry_period: Duration,
    /// Annotations that the holder writes to the Lease.
    pub annotations: BTreeMap<String, String>,
}

impl LeaseConfig {
    /// The lease `namespace`/`name`, held as `identity`: 15 s, renewed every 2 s, lost after 10 s.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            annotations: BTreeMap::new(),
        }
    }

    /// The same with the admin address of the holder, under [`ADMIN`].
    #[must_use]
    pub fn with_admin_address(mut self, admin: Option<&str>) -> Self {
        let shown = admin.map(|admin| (ADMIN_ANNOTATION.to_owned(), admin.to_owned()));
        self.annotations.extend(shown);
        self
    }

    /// How long one call may take: half of the time for a renewal, so that there is a second attempt.
    pub(super) fn request_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }

    /// Rejects times with which two replicas could act at once, or a leader could not renew.
    pub(super) fn validate(&self) -> Result<()> {
        let wrong = if self.identity.is_empty() {
            "the identity is empty"
        } else if self.lease_duration.as_secs() == 0 || self.lease_duration.subsec_nanos() != 0 {
            "the duration must be whole seconds, at least one"
        } else if self.lease_duration <= self.renew_deadline {
            "the duration must be longer than the renewal deadline"
        } else if self.renew_deadline <= self.retry_period.mul_f64(1.2) || self.retry_period.is_zero() {
            "the renewal deadline must be longer than 1.2 times the retry period"
        } else {
            return Ok(());
        };
        Err(Error::new(
            ErrorClass::Invalid,
            format!("lease {}/{}: {wrong}", self.namespace, self.name),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_sound() {
        assert!(LeaseConfig::new("default", "demo", "a").validate().is_ok());
    }

    #[test]
    fn times_that_would_let_two_replicas_act_are_refused() {
        let mut config = LeaseConfig::new("default", "demo", "a");
        config.renew_deadline = config.lease_duration;
        let refused = config.validate().expect_err("no margin");
        assert_eq!(refused.class(), ErrorClass::Invalid);
        assert!(refused.to_string().contains("longer than the renewal"));
    }

    #[test]
    fn fractions_of_a_second_cannot_be_written_to_a_lease() {
        let mut config = LeaseConfig::new("default", "demo", "a");
        config.lease_duration = Duration::from_millis(15_500);
        assert!(config.validate().is_err());
    }
}
