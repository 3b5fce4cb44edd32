//! Who may call: users, their roles, and tokens of which only the digest is kept.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use aplomb_apimachinery::clock::uuid;

/// What a user may do. Roles are the server's own words.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Anything, and past the limiter if asked for.
    Owner,
    /// Anything in its organisations.
    OrganizationAdmin,
    /// Provisioner keys among other things.
    TemplateAdmin,
    /// Looks.
    #[default]
    Member,
}

impl Role {
    /// The server's word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::OrganizationAdmin => "organization-admin",
            Self::TemplateAdmin => "template-admin",
            Self::Member => "member",
        }
    }

    fn named(name: &str) -> Option<Self> {
        let all = [Self::Owner, Self::OrganizationAdmin, Self::TemplateAdmin, Self::Member];
        all.into_iter().find(|role| role.name() == name)
    }
}

/// A user.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct User {
    /// Made of the name where it is left out.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Names of its organisations; absent: all of them.
    pub organizations: Option<Vec<String>>,
    /// SHA-256 of its tokens, in hex.
    pub tokens_sha256: Vec<String>,
    /// Its tokens, to set them. They are never shown.
    #[serde(skip_serializing)]
    tokens: Vec<Secret>,
}

impl User {
    /// A user of all organisations with one token.
    #[must_use]
    pub fn new(name: &str, role: Role, token: &str) -> Self {
        Self {
            name: name.to_owned(),
            role,
            tokens: vec![Secret(token.to_owned())],
            ..Self::default()
        }
        .complete()
    }

    /// The same user in these organisations only.
    #[must_use]
    pub fn of(mut self, organizations: &[&str]) -> Self {
        let names = organizations.iter().map(|&name| name.to_owned());
        self.organizations = Some(names.collect());
        self
    }

    /// Fills in what was left out, and keeps of tokens only their digests.
    pub(super) fn complete(mut self) -> Self {
        if self.id.is_empty() {
            self.id = id_of(&self.name);
        }
        let given = self.tokens.drain(..).map(|token| digest(&token.0));
        self.tokens_sha256.extend(given);
        self
    }

    pub(super) fn has(&self, token: &str) -> bool {
        self.tokens_sha256.contains(&digest(token))
    }

    /// Whether it sees an organisation.
    pub(super) fn sees(&self, organization: &str) -> bool {
        let own = self.organizations.as_ref();
        self.role == Role::Owner || own.is_none_or(|own| own.iter().any(|it| it == organization))
    }

    /// Whether it may make and delete provisioner keys where it is.
    pub(super) fn manages_keys(&self) -> bool {
        self.role != Role::Member
    }

    /// Reads a token file: `TOKEN USER ROLE` per line; `#` starts a comment line. Lines of the same
    /// user add tokens.
    ///
    /// # Errors
    /// What is wrong, with the number of the line and without its text.
    pub fn file(text: &str) -> Result<Vec<Self>, String> {
        let mut users: Vec<Self> = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let user = Self::line(line).map_err(|why| format!("line {}: {why}", n + 1))?;
            match users.iter_mut().find(|known| known.name == user.name) {
                Some(known) => known.tokens_sha256.extend(user.tokens_sha256),
                None => users.push(user),
            }
        }
        match users.is_empty() {
            true => Err("no token in it: write one per line, `TOKEN USER ROLE`".to_owned()),
            false => Ok(users),
        }
    }

    fn line(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [token, name, role] = words[..] else {
            return Err("write `TOKEN USER ROLE`".to_owned());
        };
        let known = "owner, organization-admin, template-admin or member";
        let role = Role::named(role).ok_or_else(|| format!("the role is {known}"))?;
        Ok(Self::new(name, role, token))
    }
}

/// Something that is taken and never shown.
#[derive(Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(transparent)]
pub(super) struct Secret(pub(super) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// SHA-256 in hex: what is kept of tokens and keys.
pub(super) fn digest(secret: &str) -> String {
    let digest = Sha256::digest(secret.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An id that depends on nothing but a name.
pub(super) fn id_of(name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    let bits = digest.iter().take(16);
    uuid(bits.fold(0, |bits, byte| (bits << 8) | u128::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_file_names_users_and_their_roles() {
        let text = "# who\none admin owner\n\ntwo build template-admin\nthree admin owner\n";
        let users = User::file(text).expect("users");
        assert_eq!(users.len(), 2);
        assert!(users[0].has("one") && users[0].has("three") && !users[0].has("two"));
        assert_eq!(users[1].role, Role::TemplateAdmin);
        assert!(!format!("{users:?}").contains("three"));
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number_alone() {
        for text in ["secret", "secret admin", "\nsecret admin king", "# none"] {
            let why = User::file(text).expect_err("it is wrong");
            assert!(!why.contains("secret") && !why.is_empty(), "{why}");
        }
    }
}
