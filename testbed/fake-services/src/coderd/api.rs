//! The calls clients may make, each in the order of the server's checks.
//!
//! The limiter and the faults are over when a call gets here; nothing here knows of them.

use http::{Method, StatusCode};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::core::CoderdCore;
use super::error::ApiError;
use super::json;
use super::model::Organization;
use super::store::KEY_LENGTH;
use super::users::User;

/// One admitted request.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) now: Timestamp,
    pub(super) method: &'a Method,
    /// The parts of the path after `/api/v2`.
    pub(super) parts: Vec<&'a str>,
    pub(super) body: &'a [u8],
    /// Whose the session token is.
    pub(super) user: Option<User>,
    /// Whether there was one at all.
    pub(super) has_token: bool,
    /// What a daemon says its key is.
    pub(super) daemon_key: Option<&'a str>,
}

/// Status and body of an answer.
pub(super) type Answer = Result<(StatusCode, Option<Value>), ApiError>;

/// A feature that a licence allows, by the name people see.
pub(super) const PROVISIONERS: &str = "External Provisioner Daemons";
pub(super) const PROXIES: &str = "Workspace Proxy";

impl CoderdCore {
    /// Carries a call out.
    pub(super) fn perform(&mut self, call: &Call<'_>) -> Answer {
        match *call.parts {
            ["buildinfo"] => {
                call.only(&Method::GET)?;
                ok(json::build(self.config.version, self.config.agpl))
            }
            ["users", "me"] => {
                let user = call.signed_in()?;
                call.only(&Method::GET)?;
                ok(json::user(&self.store, user))
            }
            ["organizations", ref rest @ ..] => self.organizations(call, rest),
            _ if self.config.agpl => Err(ApiError::no_route()),
            ["entitlements"] => {
                call.only(&Method::GET)?;
                ok(json::entitlements(self.config.licensed, call.now))
            }
            ["provisionerkeys", _] => {
                call.only(&Method::GET)?;
                self.check_key(call)
            }
            ["workspaceproxies", ref rest @ ..] => {
                self.licensed(PROXIES)?;
                self.proxies(call, rest)
            }
            _ => Err(ApiError::no_route()),
        }
    }

    fn organizations(&mut self, call: &Call<'_>, rest: &[&str]) -> Answer {
        let user = call.signed_in()?;
        let Some((word, rest)) = rest.split_first() else {
            call.only(&Method::GET)?;
            let all = self.store.organizations.iter();
            let seen = all.filter(|it| user.sees(&it.name));
            let seen: Vec<Value> = seen.map(|it| json::organization(&self.store, it)).collect();
            return ok(json!(seen));
        };
        let found = self.store.organization(word);
        let found = found.filter(|it| user.sees(&it.name)).cloned();
        let organization = found.ok_or_else(ApiError::missing)?;
        match rest {
            [] => {
                call.only(&Method::GET)?;
                ok(json::organization(&self.store, &organization))
            }
            ["provisionerkeys", rest @ ..] if !self.config.agpl => {
                self.licensed(PROVISIONERS)?;
                self.keys(call, user, &organization, rest)
            }
            _ => Err(ApiError::no_route()),
        }
    }

    fn keys(&mut self, call: &Call<'_>, user: &User, organization: &Organization, rest: &[&str]) -> Answer {
        match (call.method, rest) {
            (&Method::GET, []) => ok(self.list_keys(organization)),
            (&Method::POST, []) => self.create_key(call, user, organization),
            (&Method::GET, ["daemons"]) => ok(self.list_daemons(call.now, organization)),
            (&Method::DELETE, [name]) => self.delete_key(call, user, organization, name),
            (_, [] | [_]) => Err(not_allowed()),
            _ => Err(ApiError::no_route()),
        }
    }

    /// What a daemon asks before it connects. Its key is in the path, too; the header counts.
    fn check_key(&self, call: &Call<'_>) -> Answer {
        let unauthorized = |message| ApiError::new(StatusCode::UNAUTHORIZED, message);
        let given = call.daemon_key;
        let given = given.ok_or_else(|| unauthorized("provisioner daemon key required"))?;
        if given.len() != KEY_LENGTH {
            let message = "provisioner daemon key invalid: must be 43 characters";
            return Err(ApiError::new(StatusCode::BAD_REQUEST, message));
        }
        let key = self.store.key_with(given);
        let key = key.ok_or_else(|| unauthorized("provisioner daemon key invalid"))?;
        let organization = self.store.organization(&key.organization);
        let organization = organization.ok_or_else(ApiError::missing)?;
        ok(json::key(key, organization))
    }

    fn licensed(&self, feature: &str) -> Result<(), ApiError> {
        match self.config.licensed {
            true => Ok(()),
            false => Err(ApiError::unlicensed(feature)),
        }
    }
}

impl Call<'_> {
    pub(super) fn signed_in(&self) -> Result<&User, ApiError> {
        let why = match self.has_token {
            true => "API key is invalid.",
            false => "Cookie \"coder_session_token\" or query parameter must be provided.",
        };
        self.user.as_ref().ok_or_else(|| ApiError::signed_out(why))
    }

    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(self.body).map_err(|error| ApiError::bad_json(error.to_string()))
    }

    pub(super) fn only(&self, method: &Method) -> Result<(), ApiError> {
        match self.method == method {
            true => Ok(()),
            false => Err(not_allowed()),
        }
    }
}

pub(super) fn ok(body: Value) -> Answer {
    Ok((StatusCode::OK, Some(body)))
}

pub(super) fn not_allowed() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed.")
}
