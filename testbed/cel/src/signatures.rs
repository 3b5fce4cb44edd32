//! The functions expressions may call and the types they take, as a table.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::types::Type;

/// `name(args) result`, or `receiver.name(args) result`; capital letters are type parameters.
const TABLE: &str = "
!_(bool) bool
-_(int) int
-_(double) double
_==_(A, A) bool
_!=_(A, A) bool
_?_:_(bool, A, A) A
_[_](list(A), int) A
_[_](map(A, B), A) B
_[_](optional(list(A)), int) optional(A)
_[_](optional(map(A, B)), A) optional(B)
_[?_](list(A), int) optional(A)
_[?_](map(A, B), A) optional(B)
_[?_](optional(list(A)), int) optional(A)
_[?_](optional(map(A, B)), A) optional(B)
@in(A, list(A)) bool
@in(A, map(A, B)) bool
_+_(int, int) int
_+_(uint, uint) uint
_+_(double, double) double
_+_(string, string) string
_+_(bytes, bytes) bytes
_+_(list(A), list(A)) list(A)
_+_(timestamp, duration) timestamp
_+_(duration, timestamp) timestamp
_+_(duration, duration) duration
_-_(int, int) int
_-_(uint, uint) uint
_-_(double, double) double
_-_(timestamp, timestamp) duration
_-_(timestamp, duration) timestamp
_-_(duration, duration) duration
_*_(int, int) int
_*_(uint, uint) uint
_*_(double, double) double
_/_(int, int) int
_/_(uint, uint) uint
_/_(double, double) double
_%_(int, int) int
_%_(uint, uint) uint
size(string) int
size(bytes) int
size(list(A)) int
size(map(A, B)) int
string.size() int
bytes.size() int
list(A).size() int
map(A, B).size() int
string.contains(string) bool
string.startsWith(string) bool
string.endsWith(string) bool
string.matches(string) bool
matches(string, string) bool
type(A) type(A)
dyn(A) dyn
bool(bool) bool
bool(string) bool
bytes(bytes) bytes
bytes(string) bytes
double(double) double
double(int) double
double(uint) double
double(string) double
int(int) int
int(uint) int
int(double) int
int(string) int
int(timestamp) int
int(duration) int
uint(uint) uint
uint(int) uint
uint(double) uint
uint(string) uint
string(string) string
string(bool) string
string(int) string
string(uint) string
string(double) string
string(bytes) string
string(timestamp) string
string(duration) string
duration(duration) duration
duration(string) duration
duration(int) duration
timestamp(timestamp) timestamp
timestamp(string) timestamp
timestamp(int) timestamp
string.charAt(int) string
string.indexOf(string) int
string.indexOf(string, int) int
string.lastIndexOf(string) int
string.lastIndexOf(string, int) int
string.lowerAscii() string
string.upperAscii() string
string.replace(string, string) string
string.replace(string, string, int) string
string.split(string) list(string)
string.split(string, int) list(string)
string.substring(int) string
string.substring(int, int) string
string.trim() string
list(string).join() string
list(string).join(string) string
string.format(list(dyn)) string
strings.quote(string) string
string.find(string) string
string.findAll(string) list(string)
string.findAll(string, int) list(string)
list(A).isSorted() bool
list(int).sum() int
list(uint).sum() uint
list(double).sum() double
list(duration).sum() duration
list(A).min() A
list(A).max() A
list(A).indexOf(A) int
list(A).lastIndexOf(A) int
list(A).slice(int, int) list(A)
list(A).flatten() list(dyn)
list(A).flatten(int) list(dyn)
list(A).sort() list(A)
list(A).distinct() list(A)
list(A).reverse() list(A)
lists.range(int) list(int)
sets.contains(list(A), list(A)) bool
sets.equivalent(list(A), list(A)) bool
sets.intersects(list(A), list(A)) bool
isURL(string) bool
url(string) URL
URL.getScheme() string
URL.getHost() string
URL.getHostname() string
URL.getPort() string
URL.getEscapedPath() string
URL.getQuery() map(string, list(string))
isIP(string) bool
ip(string) IP
ip.isCanonical(string) bool
IP.family() int
IP.isUnspecified() bool
IP.isLoopback() bool
IP.isLinkLocalMulticast() bool
IP.isLinkLocalUnicast() bool
IP.isGlobalUnicast() bool
string(IP) string
isCIDR(string) bool
cidr(string) CIDR
CIDR.containsIP(IP) bool
CIDR.containsIP(string) bool
CIDR.containsCIDR(CIDR) bool
CIDR.containsCIDR(string) bool
CIDR.ip() IP
CIDR.masked() CIDR
CIDR.prefixLength() int
string(CIDR) string
isQuantity(string) bool
quantity(string) Quantity
Quantity.sign() int
Quantity.isInteger() bool
Quantity.asInteger() int
Quantity.asApproximateFloat() double
Quantity.isGreaterThan(Quantity) bool
Quantity.isLessThan(Quantity) bool
Quantity.compareTo(Quantity) int
Quantity.add(Quantity) Quantity
Quantity.add(int) Quantity
Quantity.sub(Quantity) Quantity
Quantity.sub(int) Quantity
isSemver(string) bool
isSemver(string, bool) bool
semver(string) Semver
semver(string, bool) Semver
Semver.major() int
Semver.minor() int
Semver.patch() int
Semver.isGreaterThan(Semver) bool
Semver.isLessThan(Semver) bool
Semver.compareTo(Semver) int
format.named(string) optional(Format)
format.dns1123Label() Format
format.dns1123Subdomain() Format
format.dns1035Label() Format
format.qualifiedName() Format
format.dns1123LabelPrefix() Format
format.dns1123SubdomainPrefix() Format
format.dns1035LabelPrefix() Format
format.labelValue() Format
format.uri() Format
format.uuid() Format
format.byte() Format
format.date() Format
format.datetime() Format
Format.validate(string) optional(list(string))
optional.of(A) optional(A)
optional.ofNonZeroValue(A) optional(A)
optional.none() optional(A)
optional(A).hasValue() bool
optional(A).value() A
optional(A).or(optional(A)) optional(A)
optional(A).orValue(A) A
timestamp.getFullYear() int
timestamp.getFullYear(string) int
timestamp.getMonth() int
timestamp.getMonth(string) int
timestamp.getDate() int
timestamp.getDate(string) int
timestamp.getDayOfMonth() int
timestamp.getDayOfMonth(string) int
timestamp.getDayOfWeek() int
timestamp.getDayOfWeek(string) int
timestamp.getDayOfYear() int
timestamp.getDayOfYear(string) int
timestamp.getHours() int
timestamp.getHours(string) int
timestamp.getMinutes() int
timestamp.getMinutes(string) int
timestamp.getSeconds() int
timestamp.getSeconds(string) int
timestamp.getMilliseconds() int
timestamp.getMilliseconds(string) int
duration.getHours() int
duration.getMinutes() int
duration.getSeconds() int
duration.getMilliseconds() int
Authorizer.path(string) PathCheck
Authorizer.group(string) GroupCheck
Authorizer.serviceAccount(string, string) Authorizer
GroupCheck.resource(string) ResourceCheck
ResourceCheck.subresource(string) ResourceCheck
ResourceCheck.namespace(string) ResourceCheck
ResourceCheck.name(string) ResourceCheck
ResourceCheck.fieldSelector(string) ResourceCheck
ResourceCheck.labelSelector(string) ResourceCheck
PathCheck.check(string) Decision
ResourceCheck.check(string) Decision
Decision.errored() bool
Decision.error() string
Decision.allowed() bool
Decision.reason() string
";

/// Namespaces whose functions are called as `namespace.name(...)` without a receiver.
const NAMESPACES: [&str; 6] = ["sets", "lists", "optional", "format", "ip", "strings"];

/// The names of types the Kubernetes libraries add.
const OPAQUE: [(&str, &str); 11] = [
    ("Authorizer", "kubernetes.authorization.Authorizer"),
    ("PathCheck", "kubernetes.authorization.PathCheck"),
    ("GroupCheck", "kubernetes.authorization.GroupCheck"),
    ("ResourceCheck", "kubernetes.authorization.ResourceCheck"),
    ("Decision", "kubernetes.authorization.Decision"),
    ("URL", "kubernetes.URL"),
    ("IP", "net.IP"),
    ("CIDR", "net.CIDR"),
    ("Quantity", "kubernetes.Quantity"),
    ("Semver", "kubernetes.Semver"),
    ("Format", "kubernetes.NamedFormat"),
];

/// One way to call a function.
pub(super) struct Overload {
    pub(super) receiver: bool,
    pub(super) args: Vec<Type>,
    pub(super) result: Type,
}

static FUNCTIONS: LazyLock<BTreeMap<String, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<String, Vec<Overload>> = BTreeMap::new();
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        let (name, overload) = parse_line(line);
        functions.entry(name).or_default().push(overload);
    }
    for operator in ["_<_", "_<=_", "_>_", "_>=_"] {
        functions.insert(operator.to_owned(), comparisons());
    }
    functions
});

/// Every way to call `name`; `None` when there is no such function.
pub(super) fn lookup(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

/// Numbers of all kinds compare with each other, other values with their like.
fn comparisons() -> Vec<Overload> {
    let numbers = [Type::Int, Type::Uint, Type::Double];
    let pairs = numbers
        .iter()
        .flat_map(|a| numbers.iter().map(move |b| vec![a.clone(), b.clone()]));
    let others = [Type::Bool, Type::String, Type::Bytes, Type::Timestamp, Type::Duration];
    let all = pairs.chain(others.map(|t| vec![t.clone(), t]));
    all.map(|args| Overload {
        receiver: false,
        args,
        result: Type::Bool,
    })
    .collect()
}

fn parse_line(line: &str) -> (String, Overload) {
    let (head, result) = split_call(line);
    let open = argument_list(head);
    let (callee, args) = (&head[..open], &head[open + 1..head.len() - 1]);
    let mut types: Vec<Type> = split_types(args).iter().map(|text| parse_type(text)).collect();
    let dot = callee
        .rfind('.')
        .filter(|_| !callee.starts_with('_') && !callee.starts_with('@'));
    let (name, receiver) = match dot {
        Some(dot) if !NAMESPACES.contains(&&callee[..dot]) => {
            types.insert(0, parse_type(&callee[..dot]));
            (&callee[dot + 1..], true)
        }
        _ => (callee, false),
    };
    (
        name.to_owned(),
        Overload {
            receiver,
            args: types,
            result: parse_type(result),
        },
    )
}

/// Splits `call(args) result` at the space after the arguments.
fn split_call(line: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, c) in line.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ' ' if depth == 0 => return (&line[..at], &line[at + 1..]),
            _ => {}
        }
    }
    (line, "dyn")
}

/// Where the last parenthesis on the outermost level opens.
fn argument_list(head: &str) -> usize {
    let mut depth = 0;
    for (at, c) in head.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    0
}

fn split_types(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
        .iter()
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect()
}

fn parse_type(text: &str) -> Type {
    if let Some((name, inner)) = text.split_once('(') {
        let inner: Vec<Arc<Type>> = split_types(&inner[..inner.len() - 1])
            .iter()
            .map(|part| Arc::new(parse_type(part)))
            .collect();
        return match (name, inner.as_slice()) {
            ("list", [item]) => Type::List(item.clone()),
            ("optional", [value]) => Type::Optional(value.clone()),
            ("type", [value]) => Type::Kind(value.clone()),
            ("map", [key, value]) => Type::Map(key.clone(), value.clone()),
            _ => Type::Dyn,
        };
    }
    if let Some((_, name)) = OPAQUE.iter().find(|(short, _)| *short == text) {
        return Type::Opaque(name);
    }
    match text {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "A" => Type::Param('A'),
        "B" => Type::Param('B'),
        _ => Type::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let index = lookup("_[_]").expect("indexing");
        assert_eq!(index[1].args[0].to_string(), "map(A, B)");
        let contains = lookup("sets.contains").expect("a namespaced function");
        assert!(!contains[0].receiver);
        let join = lookup("join").expect("a member function");
        assert!(join[0].receiver && join[0].args[0].to_string() == "list(string)");
    }
}
