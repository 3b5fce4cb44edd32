//! Validation rules of Coder's kinds, each with a message that states what to write instead. Values that
//! coderd would always reject are rejected here, before any request is sent.

use crate::schema_util::CelRule;

pub(super) const ONE_SERVER: CelRule = (
    "has(self.controlPlaneRef) != has(self.server)",
    "name the server by exactly one of controlPlaneRef and server",
);
pub(super) const URL: CelRule = (
    r"self.matches('^https?://([^]/?#@:[]+|[[][^]/?#@[]+])(:[0-9]+)?/?$')",
    "write http:// or https:// and a host, like https://coder.example.com: leave out user, path, query and fragment",
);
pub(super) const URL_PORT: CelRule = (
    "!self.matches(':[0-9]+/?$') || self.matches(':0*([1-9]|[1-9][0-9]{1,3}|[1-5][0-9]{4}|\
     6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])/?$')",
    "the port must be from 1 to 65535",
);
pub(super) const CA_BUNDLE: CelRule = (
    "self.contains('-----BEGIN CERTIFICATE-----') && self.contains('-----END CERTIFICATE-----')",
    "not a PEM certificate: include the lines -----BEGIN CERTIFICATE----- and -----END CERTIFICATE-----",
);
pub(super) const DATA_KEY: CelRule = (
    "self.matches('^[-._a-zA-Z0-9]+$') && !self.matches('^[.][.]?$|^[.][.].')",
    "invalid Secret key: use letters, digits, '-', '_' and '.', like token",
);

pub(super) const ORGANIZATION: CelRule = (
    "self.matches('^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$')",
    "not an organization name: write it as its URL at the server has it, like default",
);
pub(super) const IMAGE: CelRule = (
    "self.matches('^[a-zA-Z0-9][!-~]*$')",
    "not an image reference: write it without spaces, like registry.example.com/coder:v2.36.1",
);

pub(super) const KEY_NAME_EMPTY: CelRule = (
    "self.size() > 0",
    "the name is empty: set a name, or leave key.name out to use the name of this object",
);
pub(super) const KEY_NAME_LENGTH: CelRule = (
    "self.size() <= 64",
    "the server accepts at most 64 characters: shorten the name",
);
pub(super) const KEY_NAME_CASE: CelRule = (
    "!self.matches('[A-Z]')",
    "the server stores names in lower case: write the name in lower case",
);
pub(super) const KEY_NAME_SIGNS: CelRule = (
    "self.matches('^[-_.A-Za-z0-9]*$')",
    "the name may contain only letters, digits, '-', '_' and '.': leave out spaces, slashes, \
     letters with accents and all others",
);
pub(super) const KEY_NAME_ENDS: CelRule = (
    "!self.matches('^[-_.]|[-_.]$')",
    "a name must begin and end with a letter or digit: remove '-', '_' and '.' from the ends",
);
pub(super) const KEY_NAME_RESERVED: CelRule = (
    "!(self.lowerAscii() in ['built-in', 'user-auth', 'psk'])",
    "built-in, user-auth and psk are reserved by the server: choose another name",
);
pub(super) const OBJECT_RESERVED: CelRule = (
    "!(self.metadata.name in ['built-in', 'user-auth', 'psk']) || (has(self.spec.key) && has(self.spec.key.name))",
    "the key gets the name of this object, and built-in, user-auth and psk are reserved by the \
     server: set spec.key.name, or rename the object",
);
pub(super) const KEY_SECRET: CelRule = (
    "!has(self.server) || !has(self.key) || !has(self.key.secretName) || \
     self.key.secretName != self.server.tokenSecretRef.name",
    "the operator writes key.secretName and would overwrite the token in server.tokenSecretRef: choose another name",
);
pub(super) const KEY_SECRET_USUAL: CelRule = (
    "!has(self.spec.server) || (has(self.spec.key) && has(self.spec.key.secretName)) || \
     self.metadata.name + '-provisioner-key' != self.spec.server.tokenSecretRef.name",
    "the key would overwrite the token: by default the key of object NAME is stored in the Secret \
     NAME-provisioner-key. Set spec.key.secretName, or keep the token in another Secret",
);
pub(super) const KEY_DATA: CelRule = (
    "self != 'ca.crt'",
    "ca.crt holds the certificate authorities of the server: choose another key, like key",
);
pub(super) const ROTATE_AFTER: CelRule = (
    "!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || duration(self) >= duration('1h')",
    "every rotation calls the server and restarts the daemons: write 1h or more, like 720h",
);
pub(super) const DELETION_DEADLINE: CelRule = (
    "!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || duration(self) >= duration('1m')",
    "when this time is over, the key or proxy stays on the server: write 1m or more, like 24h",
);

pub(super) const TAG_KEYS: CelRule = (
    "self.all(key, key.size() > 0 && key.size() <= 128)",
    "a tag key must be 1 to 128 characters, like environment",
);
pub(super) const TAG_SIGNS: CelRule = (
    r"self.all(key, !key.matches('[\x00-\x1f\x7f]') && !self[key].matches('[\x00-\x1f\x7f]'))",
    "a tag contains a control character: remove line ends, tabs and the like",
);
pub(super) const TAG_SCOPE: CelRule = (
    "!('scope' in self) || self['scope'] in ['organization', 'user']",
    "the tag scope must be organization or user, or left out",
);

pub(super) const ENV_NAME: CelRule = (
    "self.matches('^[!-<>-~]+$')",
    "not a variable name: write letters, digits and '_', like TF_LOG",
);
pub(super) const ENV_SOURCE: CelRule = (
    "(has(self.configMapKeyRef) ? 1 : 0) + (has(self.secretKeyRef) ? 1 : 0) + (has(self.fieldRef) ? 1 : 0) == 1",
    "give exactly one of configMapKeyRef, secretKeyRef and fieldRef",
);
pub(super) const ENV_EITHER: CelRule = (
    "!has(self.value) || !has(self.valueFrom)",
    "a variable has one source: give value or valueFrom",
);
pub(super) const PROVISIONER_ENV_URL: CelRule = (
    "self.all(e, e.name != 'CODER_URL')",
    "CODER_URL is set from the server: use controlPlaneRef or server.url",
);
pub(super) const PROVISIONER_ENV_KEY: CelRule = (
    "self.all(e, !(e.name in ['CODER_PROVISIONER_DAEMON_KEY', 'CODER_PROVISIONER_DAEMON_PSK']))",
    "CODER_PROVISIONER_DAEMON_KEY is set by the operator, and CODER_PROVISIONER_DAEMON_PSK stops a \
     daemon with a key from starting: use key",
);
pub(super) const PROVISIONER_ENV_TAGS: CelRule = (
    "self.all(e, e.name != 'CODER_PROVISIONERD_TAGS')",
    "tags belong to the key, and CODER_PROVISIONERD_TAGS stops a daemon with a key from starting: use tags",
);
pub(super) const PROVISIONER_ENV_ORGANIZATION: CelRule = (
    "self.all(e, e.name != 'CODER_ORGANIZATION')",
    "the organization belongs to the key, and CODER_ORGANIZATION stops a daemon with a key from \
     starting: use organizationName",
);
pub(super) const PROVISIONER_ARGS: CelRule = (
    "self.all(a, !a.matches('^(--(url|key|psk|tag|org)(=|$)|-[tO])'))",
    "--url, --key, --psk, --tag (-t) and --org (-O) are set by the operator: use server, key, tags \
     and organizationName",
);
pub(super) const PROXY_ENV_URL: CelRule = (
    "self.all(e, e.name != 'CODER_PRIMARY_ACCESS_URL')",
    "CODER_PRIMARY_ACCESS_URL is set from the server: use primaryAccessURL, or bootstrap",
);
pub(super) const PROXY_ENV_TOKEN: CelRule = (
    "self.all(e, e.name != 'CODER_PROXY_SESSION_TOKEN')",
    "CODER_PROXY_SESSION_TOKEN is set from a Secret: use proxySessionTokenSecretRef, or bootstrap",
);
pub(super) const PROXY_ARGS: CelRule = (
    "self.all(a, !a.matches('^--(primary-access-url|proxy-session-token|http-address)(=|$)'))",
    "--primary-access-url, --proxy-session-token and --http-address are set by the operator: use \
     primaryAccessURL, proxySessionTokenSecretRef and service, or bootstrap",
);

pub(super) const PROXY_EITHER: CelRule = (
    "has(self.bootstrap) != has(self.primaryAccessURL)",
    "give exactly one of bootstrap, which registers the proxy, and primaryAccessURL with \
     proxySessionTokenSecretRef, for a proxy that is already registered",
);
pub(super) const PROXY_TOGETHER: CelRule = (
    "has(self.primaryAccessURL) == has(self.proxySessionTokenSecretRef)",
    "primaryAccessURL and proxySessionTokenSecretRef belong together: give both, or bootstrap alone",
);
pub(super) const PROXY_NAME: CelRule = (
    "self.matches('^[a-z0-9]+(-[a-z0-9]+)*$')",
    "not a proxy name: write lower case letters, digits and single '-' between them, like eu-west",
);
pub(super) const PROXY_NAME_LENGTH: CelRule = (
    "self.size() <= 32",
    "the server accepts at most 32 characters: shorten the name",
);
pub(super) const PROXY_NAME_RESERVED: CelRule = (
    "self.lowerAscii() != 'primary'",
    "primary is the name of the server itself: choose another name",
);
pub(super) const PROXY_OBJECT_NAME: CelRule = (
    "!has(self.spec.bootstrap) || has(self.spec.bootstrap.proxyName) || \
     (self.metadata.name != 'primary' && self.metadata.name.matches('^[a-z0-9]+(-[a-z0-9]+)*$'))",
    "the proxy gets the name of this object, and the server rejects dots, double '-' and primary: \
     set spec.bootstrap.proxyName, or rename the object",
);
pub(super) const PROXY_SECRET: CelRule = (
    "!has(self.server) || !has(self.generatedTokenSecretName) || \
     self.generatedTokenSecretName != self.server.tokenSecretRef.name",
    "the operator writes generatedTokenSecretName and would overwrite the token in \
     server.tokenSecretRef: choose another name",
);
pub(super) const PROXY_SECRET_USUAL: CelRule = (
    "!has(self.spec.bootstrap) || !has(self.spec.bootstrap.server) || \
     has(self.spec.bootstrap.generatedTokenSecretName) || \
     self.metadata.name + '-proxy-token' != self.spec.bootstrap.server.tokenSecretRef.name",
    "the proxy's token would overwrite the operator's: by default it is stored in the Secret \
     NAME-proxy-token. Set spec.bootstrap.generatedTokenSecretName, or keep the token in another Secret",
);
pub(super) const DISPLAY_NAME: CelRule = (
    r"!self.matches('^\\s|\\s$|[\x00-\x1f\x7f]')",
    "remove spaces at both ends, and line ends and the like from within: write it like Europe West",
);
pub(super) const ICON: CelRule = (
    "self.matches('^[!-~]+$')",
    "not an icon: write a path on the server or a URL, like /emojis/1f310.png",
);
