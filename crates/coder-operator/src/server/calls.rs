//! What can be asked of a server about organizations, licenses and keys.
//!
//! A write that has an answer is put into what is known, so that it need not be read again; one
//! without makes what is known doubtful.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Caller, MaxAge, ServerClient, Timestamped};
use crate::client::{
    CallErrorClass, CoderCall, CreatedKey, Entitlements, Organization, ProvisionerKey, ProvisionerKeyDaemons,
};
use crate::pushback::Pushback;

/// An organization's id does not change; that it is gone is noticed when it is used.
const ORGANIZATION_TTL: Duration = Duration::from_secs(3600);

type Asked<T> = Result<T, Pushback>;
type Look<T> = Asked<Arc<Timestamped<T>>>;

impl ServerClient {
    /// The server's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.now()
    }

    /// What metrics and messages call the server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.site.base.name()
    }

    /// The organization of a name. It is remembered until a call with its id says that there is none.
    ///
    /// # Errors
    /// As all calls: it is not the object's turn, or what the server said.
    pub async fn organization(&self, asker: &Caller<'_>, name: &str) -> Asked<Organization> {
        let ask = CoderCall::organization(name)?;
        let table = &self.0.reads.organizations;
        let fresh = MaxAge::Within(ORGANIZATION_TTL);
        let read = self.read_value(table, asker, fresh, ask).await?;
        Ok(read.value.clone())
    }

    /// The keys of an organization. One that was made with [`Self::create_key`] since the list was read has
    /// no id yet.
    ///
    /// # Errors
    /// See [`Self::organization`].
    pub async fn keys(&self, asker: &Caller<'_>, organization: &str, fresh: MaxAge) -> Look<Vec<ProvisionerKey>> {
        let ask = CoderCall::keys(organization)?;
        let table = &self.0.reads.keys;
        let read = self.read_value(table, asker, fresh, ask).await;
        self.check_organization(organization, read)
    }

    /// The keys of an organization with the daemons that are connected with each.
    ///
    /// # Errors
    /// See [`Self::organization`].
    pub async fn daemons(
        &self,
        asker: &Caller<'_>,
        organization: &str,
        fresh: MaxAge,
    ) -> Look<Vec<ProvisionerKeyDaemons>> {
        let ask = CoderCall::daemons(organization)?;
        let table = &self.0.reads.daemons;
        let read = self.read_value(table, asker, fresh, ask).await;
        self.check_organization(organization, read)
    }

    /// What the license allows. A server without any such thing says [`CallErrorClass::Missing`].
    ///
    /// # Errors
    /// See [`Self::organization`].
    pub async fn entitlements(&self, asker: &Caller<'_>, fresh: MaxAge) -> Look<Entitlements> {
        let table = &self.0.reads.entitlements;
        self.read_value(table, asker, fresh, CoderCall::entitlements()).await
    }

    /// Makes a key. Without an answer it may have been made.
    ///
    /// # Errors
    /// See [`Self::organization`].
    pub async fn create_key(
        &self,
        asker: &Caller<'_>,
        organization: &str,
        name: &str,
        tags: &BTreeMap<String, String>,
    ) -> Asked<CreatedKey> {
        let ask = CoderCall::create_key(organization, name, tags)?;
        let doubt = || self.invalidate_keys(organization);
        let made = self.write(asker, &ask, doubt).await;
        let made = self.check_organization(organization, made)?;
        let key = ProvisionerKey {
            id: String::new(),
            created_at: made.server_time,
            name: name.to_lowercase(),
            tags: Some(tags.clone()),
        };
        self.0.reads.keys.edit(&ask.path, move |keys| {
            if keys.iter().all(|known| known.name != key.name) {
                keys.push(key.clone());
            }
        });
        Ok(made.value)
    }

    /// Deletes a key. [`CallErrorClass::Missing`] may also mean that this token does not see the organization.
    ///
    /// # Errors
    /// See [`Self::organization`].
    pub async fn delete_key(&self, asker: &Caller<'_>, organization: &str, name: &str) -> Asked<()> {
        let ask = CoderCall::delete_key(organization, name)?;
        let doubt = || self.invalidate_keys(organization);
        let gone = self.write(asker, &ask, doubt).await;
        self.check_organization(organization, gone)?;
        let (looks, name) = (&self.0.reads, name.to_lowercase());
        let other = name.clone();
        let keys = CoderCall::keys(organization)?.path;
        looks.keys.edit(&keys, move |keys| keys.retain(|key| key.name != name));
        let daemons = CoderCall::daemons(organization)?.path;
        looks.daemons.edit(&daemons, move |keys| {
            keys.retain(|known| known.key.name != other);
        });
        Ok(())
    }

    /// Forgets an organization that a call with its id did not find.
    fn check_organization<T>(&self, organization: &str, answer: Asked<T>) -> Asked<T> {
        if answer.as_ref().err().and_then(Pushback::class) == Some(CallErrorClass::Missing) {
            let looks = &self.0.reads.organizations;
            looks.invalidate_where(|_, known| known.is_some_and(|known| known.id == organization));
        }
        answer
    }

    fn invalidate_keys(&self, organization: &str) {
        let looks = &self.0.reads;
        if let (Ok(keys), Ok(daemons)) = (CoderCall::keys(organization), CoderCall::daemons(organization)) {
            looks.keys.invalidate(&keys.path);
            looks.daemons.invalidate(&daemons.path);
        }
    }
}
