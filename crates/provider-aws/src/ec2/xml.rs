//! Picking values out of an answer of EC2 by the names of its elements.
//!
//! Owns three small questions about an element. Must not know any action: `ec2::calls` does. The
//! whole document is checked before anything is read from it, so half an answer is no answer.

use roxmltree::Node;

/// The first child of this name.
pub(crate) fn child<'a, 'input>(element: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    element
        .children()
        .find(|child| child.is_element() && child.tag_name().name() == name)
}

/// The text behind a path of names, unless it is empty.
pub(crate) fn text<'a>(element: Node<'a, '_>, path: &[&str]) -> Option<&'a str> {
    let found = path
        .iter()
        .try_fold(element, |element, name| child(element, name))?;
    found.text().map(str::trim).filter(|text| !text.is_empty())
}

/// The items of a set: EC2 names each of them `item`.
pub(crate) fn items<'a, 'input>(
    element: Node<'a, 'input>,
    set: &str,
) -> impl Iterator<Item = Node<'a, 'input>> + use<'a, 'input> {
    let set = child(element, set);
    set.into_iter()
        .flat_map(|set| set.children())
        .filter(|child| child.is_element() && child.tag_name().name() == "item")
}
