//! Sets of fields, kept as a tree of path elements.
//!
//! A node of the tree may be a member (the field itself is in the set), have children, or both;
//! a node that is neither is never kept, so two equal sets are equal trees.

use std::cmp::Ordering;

use super::path::PathElement;

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    nodes: Vec<Node>,
}

/// One element of a level of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The last step of the path.
    pub element: PathElement,
    /// Membership and children.
    pub subtree: Subtree,
}

/// What a set says about one path and everything below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subtree {
    /// The path itself is in the set.
    pub member: bool,
    /// Paths below it.
    pub children: Set,
}

impl Subtree {
    /// Only the path itself.
    #[must_use]
    pub fn leaf() -> Self {
        Self {
            member: true,
            children: Set::default(),
        }
    }

    /// Neither a member nor a parent of one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl Set {
    /// A set of these paths.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a [PathElement]>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path);
        }
        set
    }

    /// The elements of the first level, in order.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Adds a path. Its parents are not added; nobody owns the whole object, so the empty path
    /// is not either.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let node = self.descend(first);
        if rest.is_empty() {
            node.member = true;
        } else {
            node.children.insert(rest);
        }
    }

    fn descend(&mut self, element: &PathElement) -> &mut Subtree {
        let at = match self.find(element) {
            Ok(at) => at,
            Err(at) => {
                let node = Node {
                    element: element.clone(),
                    subtree: Subtree::default(),
                };
                self.nodes.insert(at, node);
                at
            }
        };
        &mut self.nodes[at].subtree
    }

    /// Joins what is known about an element of the first level; an empty subtree adds nothing.
    pub fn put(&mut self, element: PathElement, subtree: Subtree) {
        if subtree.is_empty() {
            return;
        }
        if self.nodes.last().is_none_or(|last| last.element < element) {
            self.nodes.push(Node { element, subtree });
            return;
        }
        let node = self.descend(&element);
        node.member |= subtree.member;
        node.children = node.children.union(&subtree.children);
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    /// What the set says about an element of its first level.
    #[must_use]
    pub fn get(&self, element: &PathElement) -> Option<&Subtree> {
        self.find(element).ok().map(|at| &self.nodes[at].subtree)
    }

    /// The same for a field, found without building an element.
    #[must_use]
    pub fn get_field(&self, name: &str) -> Option<&Subtree> {
        let found = self.nodes.binary_search_by(|node| match &node.element {
            PathElement::Field(field) => field.as_str().cmp(name),
            _ => Ordering::Greater,
        });
        found.ok().map(|at| &self.nodes[at].subtree)
    }

    /// Whether a path is in the set.
    #[must_use]
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else {
            return false;
        };
        match self.get(first) {
            Some(node) if rest.is_empty() => node.member,
            Some(node) => node.children.has(rest),
            None => false,
        }
    }

    /// No path at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Paths in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        self.combine(other, |mine, theirs| match (mine, theirs) {
            (Some(a), Some(b)) => Subtree {
                member: a.member || b.member,
                children: a.children.union(&b.children),
            },
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => Subtree::default(),
        })
    }

    /// Paths in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| match (mine, theirs) {
            (Some(a), Some(b)) => Subtree {
                member: a.member && b.member,
                children: a.children.intersection(&b.children),
            },
            _ => Subtree::default(),
        })
    }

    /// Paths of this set that are not in the other. A parent in the other set takes nothing from
    /// its children here.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        self.combine(other, |mine, theirs| match (mine, theirs) {
            (Some(a), Some(b)) => Subtree {
                member: a.member && !b.member,
                children: a.children.difference(&b.children),
            },
            (Some(a), None) => a.clone(),
            (None, _) => Subtree::default(),
        })
    }

    /// As [`Set::difference`], but a member of the other set takes everything below it too.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| match (mine, theirs) {
            (Some(_), Some(b)) if b.member => Subtree::default(),
            (Some(a), Some(b)) => Subtree {
                member: a.member,
                children: a.children.recursive_difference(&b.children),
            },
            (Some(a), None) => a.clone(),
            (None, _) => Subtree::default(),
        })
    }

    fn combine(&self, other: &Self, join: impl Fn(Option<&Subtree>, Option<&Subtree>) -> Subtree) -> Self {
        let (mut mine, mut theirs) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        let mut nodes = Vec::with_capacity(self.nodes.len());
        loop {
            let order = match (mine.peek(), theirs.peek()) {
                (None, None) => return Self { nodes },
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.element.cmp(&b.element),
            };
            let a = if order == Ordering::Greater { None } else { mine.next() };
            let b = if order == Ordering::Less { None } else { theirs.next() };
            let subtree = join(a.map(|n| &n.subtree), b.map(|n| &n.subtree));
            if let (false, Some(node)) = (subtree.is_empty(), a.or(b)) {
                nodes.push(Node {
                    element: node.element.clone(),
                    subtree,
                });
            }
        }
    }

    /// Calls `visit` for each path: the members of a level first, then what is below them.
    pub fn for_each(&self, visit: &mut impl FnMut(&[PathElement])) {
        self.walk(&mut Vec::new(), visit);
    }

    fn walk(&self, path: &mut Vec<PathElement>, visit: &mut impl FnMut(&[PathElement])) {
        for node in self.nodes.iter().filter(|node| node.subtree.member) {
            path.push(node.element.clone());
            visit(path);
            path.pop();
        }
        for node in self.nodes.iter().filter(|node| !node.subtree.children.is_empty()) {
            path.push(node.element.clone());
            node.subtree.children.walk(path, visit);
            path.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::path_text;

    fn path(text: &str) -> Vec<PathElement> {
        text.split('.').map(PathElement::field).collect()
    }

    fn set(paths: &[&str]) -> Set {
        let mut set = Set::default();
        for text in paths {
            set.insert(&path(text));
        }
        set
    }

    #[test]
    fn set_algebra() {
        let (a, b) = (set(&["a", "a.b", "c.d"]), set(&["a", "c.e"]));
        for (name, got, want) in [
            ("union", a.union(&b), set(&["a", "a.b", "c.d", "c.e"])),
            ("intersection", a.intersection(&b), set(&["a"])),
            ("difference keeps children", a.difference(&b), set(&["a.b", "c.d"])),
            ("recursive takes children", a.recursive_difference(&b), set(&["c.d"])),
            ("nothing is left of itself", a.difference(&a), Set::default()),
        ] {
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn membership_is_of_exact_paths() {
        let a = set(&["a.b", "c"]);
        assert!(a.has(&path("a.b")) && a.has(&path("c")));
        assert!(!a.has(&path("a")) && !a.has(&path("c.d")) && !a.has(&[]));
        assert!(a.get_field("c").is_some_and(|node| node.member));
        assert!(a.get_field("zz").is_none());
    }

    #[test]
    fn members_of_a_level_are_visited_before_what_is_below() {
        let mut seen = Vec::new();
        set(&["b", "a.x", "a", "b.y.z"]).for_each(&mut |path| seen.push(path_text(path)));
        assert_eq!(seen, [".a", ".b", ".a.x", ".b.y.z"]);
    }

    #[test]
    fn putting_an_element_twice_joins_it() {
        let mut got = Set::default();
        got.put(PathElement::field("b"), Subtree::leaf());
        got.put(
            PathElement::field("a"),
            Subtree {
                member: false,
                children: set(&["x"]),
            },
        );
        got.put(PathElement::field("a"), Subtree::leaf());
        got.put(PathElement::field("c"), Subtree::default());
        assert_eq!(got, set(&["a", "a.x", "b"]));
    }
}
