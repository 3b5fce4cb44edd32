//! Validation rules of tunnels, each with a message that states what to write instead.

use crate::schema_util::CelRule;

pub(super) const NO_WILDCARD: CelRule = (
    "!self.contains('*')",
    "wildcards are not supported: name every hostname, like app.example.com",
);
pub(super) const NO_IP: CelRule = (
    "!isIP(self)",
    "an IP address is not a hostname: write a domain name, like app.example.com",
);
/// The last label begins with a letter. Otherwise a resolver would read 127.1 as an address.
pub(super) const DOMAIN: CelRule = (
    "self.matches('^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?[.])+[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",
    "not a full domain name: write it in lower case and without a dot at the end, like app.example.com",
);
pub(super) const HOST: CelRule = (
    "self.matches('^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?[.])*[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",
    "not a hostname: write it in lower case, like app.example.com",
);
pub(super) const LABEL: CelRule = (
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "not a label: write at most 63 lower case letters, digits and '-', like web-1",
);

pub(super) const ORIGIN: CelRule = (
    r"self.matches('^https?://([^]/?#@:[]+|[[][^]/?#@[]+])(:[0-9]+)?$')",
    "write http://host:port or https://host:port, without user, path, query and fragment (a path \
     goes into a URLRewrite filter)",
);
pub(super) const ORIGIN_PORT: CelRule = (
    "!self.matches(':[0-9]+$') || self.matches(':0*([1-9]|[1-9][0-9]{1,3}|[1-5][0-9]{4}|\
     6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$')",
    "the port must be from 1 to 65535",
);

pub(super) const BACKEND_ONE: CelRule = (
    "has(self.instance) ? !has(self.endpoint) && !has(self.connector) : has(self.endpoint)",
    "give endpoint (and connector, if an agent dials it), or instance alone",
);
/// Unspecified, link-local and multicast addresses are not origins. Metadata services are link-local.
pub(super) const BACKEND_ADDRESS: CelRule = (
    "!has(self.endpoint) || [self.endpoint.find('//([^]/:[]+|[[][^]]+)').replace('//', '').replace('[', '')].all(host, \
     !isIP(host) || ip(host).isGlobalUnicast() || ip(host).isLoopback())",
    "unspecified, link-local and multicast addresses are not allowed: write the origin's own address",
);
pub(super) const BACKEND_LOOPBACK: CelRule = (
    "has(self.connector) || !has(self.endpoint) || \
     [self.endpoint.find('//([^]/:[]+|[[][^]]+)').replace('//', '').replace('[', '')].all(host, \
     isIP(host) ? !ip(host).isLoopback() : !host.matches('(^|[.])localhost$'))",
    "localhost and loopback addresses can only be dialed by an agent: name its connector, or use another host",
);
pub(super) const BACKEND_DOMAIN: CelRule = (
    "has(self.connector) || !has(self.endpoint) || \
     [self.endpoint.find('//([^]/:[]+|[[][^]]+)').replace('//', '').replace('[', '')].all(host, \
     isIP(host) || host.contains('.') || host in ['', 'localhost'])",
    "a host without a dot is a name in an agent's network: name its connector, or write the full \
     domain name, like web.default.svc",
);
pub(super) const BACKEND_TLS_NAME: CelRule = (
    "!has(self.endpoint) || !self.endpoint.startsWith('https:') || (has(self.tls) && has(self.tls.hostname)) || \
     [self.endpoint.find('//([^]/:[]+|[[][^]]+)').replace('//', '').replace('[', '')].all(host, !isIP(host))",
    "an https endpoint with an IP address needs tls.hostname: the name in its certificate",
);
pub(super) const BACKEND_TLS_USED: CelRule = (
    "!has(self.tls) || !has(self.endpoint) || self.endpoint.startsWith('https:')",
    "tls is only for https endpoints: write https:// or leave tls out",
);

pub(super) const RULE_BACKEND: CelRule = (
    "(has(self.backends) && self.backends.size() > 0) || \
     (has(self.filters) && self.filters.exists(f, f.type == 'RequestRedirect'))",
    "a rule needs a backend, or a RequestRedirect filter: give one",
);
pub(super) const RULE_REDIRECT: CelRule = (
    "!(has(self.backends) && self.backends.size() > 0 && \
     has(self.filters) && self.filters.exists(f, f.type == 'RequestRedirect'))",
    "a redirect does not use backends: leave out the backends, or the RequestRedirect filter",
);
pub(super) const RULE_PREFIX: CelRule = (
    "!has(self.filters) || !self.filters.exists(f, (has(f.urlRewrite) && has(f.urlRewrite.path) && \
     f.urlRewrite.path.type == 'ReplacePrefixMatch') || (has(f.requestRedirect) && \
     has(f.requestRedirect.path) && f.requestRedirect.path.type == 'ReplacePrefixMatch')) || \
     !has(self.matches) || self.matches.size() == 0 || (self.matches.size() == 1 && \
     (!has(self.matches[0].path) || self.matches[0].path.type == 'PathPrefix'))",
    "ReplacePrefixMatch needs exactly one match, by PathPrefix: split the rule, or use ReplaceFullPath",
);
pub(super) const RULE_BACKEND_PREFIX: CelRule = (
    "!has(self.backends) || !self.backends.exists(b, has(b.filters) && b.filters.exists(f, \
     has(f.urlRewrite) && has(f.urlRewrite.path) && f.urlRewrite.path.type == 'ReplacePrefixMatch')) || \
     !has(self.matches) || self.matches.size() == 0 || (self.matches.size() == 1 && \
     (!has(self.matches[0].path) || self.matches[0].path.type == 'PathPrefix'))",
    "ReplacePrefixMatch needs exactly one match, by PathPrefix: split the rule, or use ReplaceFullPath",
);
pub(super) const RULES_NAMES: CelRule = (
    "self.all(a, !has(a.name) || self.exists_one(b, has(b.name) && b.name == a.name))",
    "two rules have the same name: use unique names",
);
pub(super) const RULES_MATCHES: CelRule = (
    "self.map(r, has(r.matches) && r.matches.size() > 0 ? r.matches.size() : 1).sum() <= 128",
    "more than 128 matches in all rules: split the tunnel into several",
);

pub(super) const PATH: CelRule = (
    r"self.type == 'RegularExpression' || self.value.matches('^/([-A-Za-z0-9/._~!$&\x27()*+,;=:@]|%[0-9a-fA-F]{2})*$')",
    "a path must begin with '/', and characters other than letters, digits and -._~!$&'()*+,;=:@ \
     must be written like %20",
);
pub(super) const PATH_NORMAL: CelRule = (
    "self.type == 'RegularExpression' || !self.value.matches('//|/[.][.]?(/|$)|%2[fF]')",
    "a compared path never contains //, /./, /../ or %2F: leave them out",
);
pub(super) const PATH_REGEX: CelRule = (
    "self.type != 'RegularExpression' || ''.matches(self.value) in [true, false]",
    "not a regular expression: write it in RE2 syntax, like /users/[0-9]+",
);
pub(super) const VALUE_REGEX: CelRule = (
    "self.type != 'RegularExpression' || ''.matches(self.value) in [true, false]",
    "not a regular expression: write it in RE2 syntax, like v[0-9]+",
);

pub(super) const FILTER_MEMBER: CelRule = (
    "has(self.requestHeaderModifier) == (self.type == 'RequestHeaderModifier') && \
     has(self.responseHeaderModifier) == (self.type == 'ResponseHeaderModifier') && \
     has(self.requestRedirect) == (self.type == 'RequestRedirect') && \
     has(self.urlRewrite) == (self.type == 'URLRewrite')",
    "set the field that type names, and no other: requestHeaderModifier for RequestHeaderModifier, and so on",
);
pub(super) const FILTERS_EITHER: CelRule = (
    "!(self.exists(f, f.type == 'RequestRedirect') && self.exists(f, f.type == 'URLRewrite'))",
    "a redirected request is not rewritten: use one of RequestRedirect and URLRewrite",
);
pub(super) const FILTERS_ONCE: CelRule = (
    "self.all(a, self.exists_one(b, b.type == a.type))",
    "two filters have the same type: put everything into one",
);
pub(super) const FILTERS_BACKEND: CelRule = (
    "!self.exists(f, f.type == 'RequestRedirect')",
    "a redirect does not use backends: put RequestRedirect into the rule's filters, and leave out the backends",
);

pub(super) const TOKEN: CelRule = (
    r"self.matches('^[-A-Za-z0-9!#$%&\x27*+.^_`|~]+$')",
    "not a header or parameter name: write letters, digits and -!#$%&'*+.^_`|~, like X-Request-Id",
);
pub(super) const HEADER_VALUE: CelRule = (
    r"!self.matches('[^\t -~]')",
    "a header value must be one line of ASCII: encode other characters",
);
pub(super) const NO_HOST: CelRule = (
    "!(has(self.set) && self.set.exists(h, h.name.lowerAscii() == 'host')) && \
     !(has(self.add) && self.add.exists(h, h.name.lowerAscii() == 'host')) && \
     !(has(self.remove) && self.remove.exists(n, n.lowerAscii() == 'host'))",
    "a header modifier cannot change the Host header: use urlRewrite.hostname",
);
pub(super) const MODIFIER_FRAMING: CelRule = (
    "!(has(self.set) && self.set.exists(h, h.name.lowerAscii() in ['connection', \
     'content-length', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade'])) && \
     !(has(self.add) && self.add.exists(h, h.name.lowerAscii() in ['connection', \
     'content-length', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade'])) && \
     !(has(self.remove) && self.remove.exists(n, n.lowerAscii() in ['connection', \
     'content-length', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade']))",
    "Connection, Content-Length, Keep-Alive, TE, Trailer, Transfer-Encoding and Upgrade belong to \
     the connection: leave them out",
);
pub(super) const MODIFIER_EMPTY: CelRule = (
    "(has(self.set) && self.set.size() > 0) || (has(self.add) && self.add.size() > 0) || \
     (has(self.remove) && self.remove.size() > 0)",
    "the modifier is empty: give set, add or remove",
);
pub(super) const PATH_MEMBER: CelRule = (
    "has(self.replaceFullPath) == (self.type == 'ReplaceFullPath') && \
     has(self.replacePrefixMatch) == (self.type == 'ReplacePrefixMatch')",
    "set the field that type names, and no other: replaceFullPath or replacePrefixMatch",
);
pub(super) const FULL_PATH: CelRule = (
    "self.matches('^/[!-~]*$') && !self.matches('[?#]')",
    "a path must begin with '/' and have no spaces, query or fragment: write it like /docs",
);
pub(super) const PREFIX: CelRule = (
    "self == '' || (self.matches('^/[!-~]*$') && !self.matches('[?#]'))",
    "a prefix must be empty, or begin with '/' and have no spaces, query or fragment: write it like /docs",
);

pub(super) const RELAY: CelRule = (
    "isURL(self) && self.matches('^https?://[^/?#@]+/?$') && url(self).getHostname() != ''",
    "not a relay's URL: write it like https://relay.example.com, without user, path and query",
);
pub(super) const ENDPOINT_ID: CelRule = (
    "self.matches('^[0-9a-f]{64}$')",
    "not an endpoint id: write the 64 hexadecimal digits that the gateway or agent shows, in lower case",
);
pub(super) const NETWORK: CelRule = (
    "isCIDR(self) && cidr(self).masked().ip() == cidr(self).ip()",
    "not a network: write it like 10.20.0.0/16, fd12:3456::/48 or, for one address, 10.20.0.7/32",
);
pub(super) const SOCKET: CelRule = (
    r"self.matches('^([0-9.]+|[[][0-9a-f:.]+]):[0-9]{1,5}$')",
    "not a socket: write it like 192.0.2.7:80 or [2001:db8::7]:80",
);
pub(super) const IP: CelRule = (
    "isIP(self)",
    "not an IP address: write it like 192.0.2.7 or 2001:db8::7",
);
pub(super) const PROXY_NAME: CelRule = (
    "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "metadata.name is used to name the tunnel's other objects: write at most 63 lower case \
     letters, digits and '-', without dots",
);
pub(super) const CONNECTOR_NAME: CelRule = (
    "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "metadata.name is used as a label of a domain name: write at most 63 lower case letters, \
     digits and '-', without dots",
);
pub(super) const CLAIM_STAYS: CelRule = (
    "self == oldSelf",
    "spec is immutable: delete the claim, then claim the hostname again",
);
pub(super) const PROOF_INTERVAL: CelRule = (
    "duration(self) >= duration('2s') && duration(self) <= duration('1h')",
    "write from 2s to 1h: shorter is too much load, longer does not prove the tunnel",
);
pub(super) const TIMEOUT: CelRule = (
    "duration(self) >= duration('10ms') && duration(self) <= duration('24h')",
    "write from 10ms to 24h",
);
