//! Bearer tokens: a static table, as `--token-auth-file` gives the server.
//!
//! A request without a token is anonymous; a request with an unknown one is refused.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use aplomb_apimachinery::status::ApiError;

use crate::call::User;

/// The group that passes every check.
pub const MASTERS: &str = "system:masters";
/// The group of everybody with a known token.
pub const AUTHENTICATED: &str = "system:authenticated";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Known tokens. Cheap to clone; clones share the table.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Arc<RwLock<BTreeMap<String, User>>>);

impl Tokens {
    /// Makes a token stand for a user; groups do not need `system:authenticated`.
    pub fn insert(&self, token: impl Into<String>, user: User) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(token.into(), user);
    }

    /// Forgets a token.
    pub fn remove(&self, token: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(token);
    }

    /// The user a token stands for, with the groups every known user has.
    #[must_use]
    pub fn user(&self, token: &str) -> Option<User> {
        let known = self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(token)
            .cloned();
        known.map(with_authenticated)
    }

    /// The user of an `Authorization` header.
    ///
    /// # Errors
    /// 401 for a bearer token nobody knows.
    pub fn authenticate(&self, authorization: &str) -> Result<User, ApiError> {
        match bearer(authorization) {
            None => Ok(anonymous()),
            Some(token) => {
                let refused = || ApiError::new(401, "Unauthorized", "Unauthorized");
                self.user(token).ok_or_else(refused)
            }
        }
    }
}

/// The user nobody vouched for.
#[must_use]
pub fn anonymous() -> User {
    User {
        name: ANONYMOUS.into(),
        uid: String::new(),
        groups: vec![UNAUTHENTICATED.into()],
        ..User::default()
    }
}

/// Adds the group of known users, unless the user is the anonymous one.
#[must_use]
pub fn with_authenticated(mut user: User) -> User {
    let group = if user.name == ANONYMOUS {
        UNAUTHENTICATED
    } else {
        AUTHENTICATED
    };
    if !user.groups.iter().any(|g| g == group) {
        user.groups.push(group.into());
    }
    user
}

/// The token of a header: `Bearer`, a space and something without spaces before it.
pub(super) fn bearer(authorization: &str) -> Option<&str> {
    let mut words = authorization.trim().split(' ');
    let scheme = words.next()?;
    let token = words.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        let tokens = Tokens::default();
        let groups = vec!["devs".to_owned()];
        tokens.insert(
            "t",
            User {
                name: "bob".into(),
                uid: "1".into(),
                groups,
                ..User::default()
            },
        );
        tokens
    }

    #[test]
    fn a_known_token_is_its_user_with_the_group_of_known_users() {
        let user = tokens().authenticate("Bearer t").expect("known");
        assert_eq!(
            (user.name.as_str(), user.groups.as_slice()),
            ("bob", &["devs".to_owned(), AUTHENTICATED.to_owned()][..])
        );
    }

    #[test]
    fn no_token_is_anonymous_and_a_wrong_one_is_refused() {
        for header in ["", "Basic YTpi", "Bearer "] {
            assert_eq!(
                tokens().authenticate(header).map(|user| user.name),
                Ok(ANONYMOUS.into())
            );
        }
        assert_eq!(
            tokens().authenticate("Bearer nope").map_err(|error| error.code),
            Err(401)
        );
    }
}
