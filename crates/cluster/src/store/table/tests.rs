//! What a list or an event does to what is remembered.

use k8s_openapi::api::core::v1::Node;

use super::*;

fn node(name: &str, version: &str) -> Entry<Node> {
    let mut node = Node::default();
    node.metadata.name = Some(name.into());
    node.metadata.resource_version = Some(version.into());
    Entry::of(node, |node| node)
}

fn told(changes: Vec<Change<Node>>) -> Vec<String> {
    let tell = |change: Change<Node>| match change {
        Change::Applied { old: None, new } => format!("+{}", new.name_any()),
        Change::Applied { old: Some(_), new } => format!("~{}", new.name_any()),
        Change::Deleted { old } => format!("-{}", old.name_any()),
    };
    changes.into_iter().map(tell).collect()
}

fn names(table: &Table<Node>) -> Vec<String> {
    table.list().iter().map(|node| node.name_any()).collect()
}

#[test]
fn a_list_tells_removals_then_additions_in_the_order_of_keys() {
    let mut table = Table::default();
    table.replace(vec![node("c", "1"), node("a", "2"), node("b", "3")], "3");
    let changes = table.replace(vec![node("d", "5"), node("b", "3"), node("a", "4")], "5");
    assert_eq!(told(changes), ["-c", "~a", "+d"]);
}

#[test]
fn an_object_read_live_after_the_list_was_taken_outlives_the_list() {
    let mut table = Table::default();
    table.replace(vec![], "3");
    table.apply(node("new", "9"));
    assert_eq!(
        told(table.replace(vec![node("new", "4")], "5")),
        Vec::<String>::new()
    );
    table.apply(node("later", "8"));
    assert_eq!(
        told(table.replace(vec![node("new", "4")], "6")),
        Vec::<String>::new()
    );
    assert_eq!(names(&table), ["later", "new"]);
}

#[test]
fn a_history_that_went_backwards_is_taken_as_it_is() {
    let mut table = Table::default();
    table.replace(vec![node("kept", "90"), node("lost", "95")], "100");
    let changes = table.replace(vec![node("kept", "40")], "50");
    assert_eq!(told(changes), ["-lost", "~kept"]);
    let forty = Version::parse("51").unwrap();
    assert!(
        !table.has_seen(&forty),
        "what was seen of the other history does not count"
    );
}

#[test]
fn an_event_older_than_what_is_known_changes_nothing() {
    let mut table = Table::default();
    table.apply(node("a", "10"));
    assert!(table.apply(node("a", "9")).is_none());
    assert!(table.apply(node("a", "10")).is_none());
    assert!(
        table.delete(&node("a", "9")).is_none(),
        "it was made anew since"
    );
    assert!(table.delete(&node("a", "11")).is_some());
}

#[test]
fn versions_without_order_are_taken_as_they_come() {
    let mut table = Table::default();
    table.apply(node("a", "x"));
    assert!(table.apply(node("a", "y")).is_some());
    assert_eq!(told(table.replace(vec![], "z")), ["-a"]);
}

#[test]
fn an_index_added_late_knows_what_was_there() {
    let mut table = Table::default();
    table.apply(node("a", "1"));
    table.add_index("name", |node: &Node| vec![node.name_any()]);
    assert_eq!(table.by_index("name", "a").unwrap().len(), 1);
    assert!(table.by_index("name", "b").unwrap().is_empty());
    assert!(table.by_index("other", "a").is_none());
}
