//! Each finding, their order, and which questions are worth a call.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use shipshape_api::PodRule;

use super::*;
use crate::condition::Truth;
use crate::drain::Refusal;
use crate::settings::Settings;

fn pod(name: &str, app: &str) -> PodView {
    PodView {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        labels: [("app", app)].into(),
        owner: Some(("ReplicaSet".to_owned(), app.to_owned())),
        ready: true,
        ..PodView::default()
    }
}

fn budget(name: &str, app: &str, allowed: i32) -> BudgetView {
    BudgetView {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        selector: Some(LabelSelector {
            match_labels: Some([("app".to_owned(), app.to_owned())].into()),
            match_expressions: None,
        }),
        allowed,
        expected: 3,
        desired: 2,
        ..BudgetView::default()
    }
}

fn usual() -> DrainPolicy {
    DrainPolicy::of(None, &Settings::default().drain)
}

fn look(
    nodes: &[(String, Vec<PodView>)],
    budgets: &[BudgetView],
    around: &Around,
) -> (Vec<(String, &'static str)>, Vec<String>) {
    let wave = Wave {
        nodes,
        budgets,
        around,
        policy: usual(),
    };
    let found = findings(&wave);
    let asked = questions(&wave);
    (
        found
            .into_iter()
            .map(|one| (one.pod.name, one.reason))
            .collect(),
        asked.into_iter().map(|pod| pod.name).collect(),
    )
}

fn node(name: &str, pods: impl IntoIterator<Item = PodView>) -> (String, Vec<PodView>) {
    (name.to_owned(), pods.into_iter().collect())
}

#[test]
fn each_cause_is_found_and_only_pods_that_look_free_are_asked_about() {
    let bare = PodView {
        owner: None,
        ..pod("bare", "bare")
    };
    let cache = PodView {
        local_data: true,
        ..pod("cache", "cache")
    };
    let nodes = [
        node("n1", [pod("web-1", "web"), pod("db-1", "db"), bare]),
        node("n2", [cache, pod("two-1", "two"), pod("api-1", "api")]),
    ];
    let hopeless = BudgetView {
        desired: 3,
        ..budget("db", "db", 0)
    };
    let budgets = [
        budget("web", "web", 1),
        hopeless,
        budget("one", "two", 1),
        budget("other", "two", 1),
        budget("api", "api", 0),
    ];
    let (found, asked) = look(&nodes, &budgets, &Around::default());
    let expected = [
        ("db-1", "BudgetHopeless"),
        ("bare", "BarePod"),
        ("two-1", "ManyBudgets"),
        ("cache", "LocalData"),
    ];
    assert_eq!(found, expected.map(|(pod, why)| (pod.to_owned(), why)));
    assert_eq!(asked, ["web-1", "cache"], "a closed budget is no news");
}

#[test]
fn one_pod_of_each_owner_is_asked_about() {
    let nodes = [
        node("n1", [pod("web-1", "web"), pod("web-2", "web")]),
        node("n2", [pod("web-3", "web"), pod("api-1", "api")]),
    ];
    let (_, asked) = look(&nodes, &[], &Around::default());
    assert_eq!(asked, ["web-1", "api-1"]);
}

#[test]
fn the_servers_refusal_becomes_a_finding() {
    let mut around = Around::default();
    let refusal = Refusal {
        budgets: Vec::new(),
        message: "a webhook says no".to_owned(),
    };
    around.refusals.insert("uid-web-1".to_owned(), refusal);
    let nodes = [node("n1", [pod("web-1", "web")])];
    let (found, _) = look(&nodes, &[], &around);
    assert_eq!(found, [("web-1".to_owned(), "EvictionRefused")]);
}

#[test]
fn one_of_each_cause_comes_before_the_second_of_any() {
    let closed = BudgetView {
        desired: 3,
        ..budget("db", "db", 0)
    };
    let bare = PodView {
        owner: None,
        ..pod("solo", "solo")
    };
    let pods = (0..30).map(|index| pod(&format!("db-{index}"), "db"));
    let nodes = [node("n1", pods.chain([bare]))];
    let wave = Wave {
        nodes: &nodes,
        budgets: &[closed],
        around: &Around::default(),
        policy: usual(),
    };
    let found = findings(&wave);
    let first: Vec<&str> = found.iter().take(2).map(|one| one.reason).collect();
    assert_eq!(first, ["BudgetHopeless", "BarePod"]);
    let looked = Report::looked("v1", 0, Timestamp::UNIX_EPOCH);
    let told = report(&found, looked);
    assert_eq!(told.record.findings.len(), 20);
    assert_eq!(told.record.more, 11);
    assert_eq!(told.truth, Truth::False);
    assert!(told.notice.warning);
    assert!(told.notice.message.contains("and 28 more"), "{told:?}");
}

#[test]
fn a_loss_that_was_asked_for_is_told_and_does_not_fail_the_preflight() {
    let nodes = [node(
        "n1",
        [PodView {
            owner: None,
            ..pod("bare", "bare")
        }],
    )];
    let wave = Wave {
        nodes: &nodes,
        budgets: &[],
        around: &Around::default(),
        policy: DrainPolicy {
            bare_pods: PodRule::Evict,
            ..usual()
        },
    };
    let found = findings(&wave);
    assert_eq!(found[0].weight, Weight::Loses);
    let told = report(&found, Report::looked("v1", 0, Timestamp::UNIX_EPOCH));
    assert_eq!(told.truth, Truth::True);
    assert!(
        told.notice.message.contains("1 pod(s) would lose"),
        "{told:?}"
    );
}

#[test]
fn a_pod_with_two_obstacles_shows_both_and_counts_once() {
    let cache = PodView {
        local_data: true,
        ..pod("two-1", "two")
    };
    let nodes = [node("n1", [cache])];
    let budgets = [budget("one", "two", 1), budget("other", "two", 1)];
    let wave = Wave {
        nodes: &nodes,
        budgets: &budgets,
        around: &Around::default(),
        policy: DrainPolicy {
            empty_dir: PodRule::Block,
            ..usual()
        },
    };
    let found = findings(&wave);
    let reasons: Vec<&str> = found.iter().map(|one| one.reason).collect();
    assert_eq!(reasons, ["LocalData", "ManyBudgets"]);
    assert_eq!(pods_of_weight(&found, Weight::Blocks), 1);
    let told = report(&found, Report::looked("1", 0, Timestamp::UNIX_EPOCH)).notice;
    let words = &told.message;
    assert!(words.starts_with("1 pod(s) on the"), "{words}");
    assert!(
        words.contains("emptyDir") && words.contains("one and other"),
        "{words}"
    );
}
