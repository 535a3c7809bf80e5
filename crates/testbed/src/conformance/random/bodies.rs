//! The bodies of random requests, kind by kind.
//!
//! Owns what an object of the universe looks like. Called by the generator.

use super::dice::Dice;

/// The kinds of the universe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thing {
    /// ConfigMap: no spec, no status, no generation.
    Map,
    /// Custom resource with status and defaults.
    Widget,
    /// Pod: graceful deletion.
    Pod,
    /// Deployment: generation, template.
    Deployment,
    /// Node: cluster-wide.
    Node,
}

impl Thing {
    /// All of them.
    pub(super) const ALL: [Self; 5] = [
        Self::Map,
        Self::Widget,
        Self::Pod,
        Self::Deployment,
        Self::Node,
    ];

    /// The collection's alias in scripts.
    pub(super) fn alias(self) -> &'static str {
        match self {
            Self::Map => "cm",
            Self::Widget => "widget",
            Self::Pod => "pod",
            Self::Deployment => "deploy",
            Self::Node => "node",
        }
    }

    /// Alias and name; nodes carry the namespace in theirs, so that sequences do not meet.
    pub(super) fn path(self, name: &str) -> String {
        format!("{}/{}", self.alias(), self.full(name))
    }

    fn full(self, name: &str) -> String {
        match self {
            Self::Node => format!("$ns-{name}"),
            Self::Map | Self::Widget | Self::Pod | Self::Deployment => name.to_owned(),
        }
    }

    /// An object without anything special.
    pub(super) fn plain(self, name: &str) -> String {
        self.assemble(name, "", self.content(0))
    }

    /// An object with random labels, finalizers and content; `guard` goes into its metadata.
    pub(super) fn body(self, dice: &mut Dice, name: &str, guard: &str) -> String {
        let mut meta = String::from(guard);
        let labels = *dice.pick(&[r#""x":"1""#, r#""x":"2""#, r#""x":"1","y":"1""#, ""]);
        let own = if self == Self::Node {
            r#""ns":"$ns""#
        } else {
            ""
        };
        let comma = if own.is_empty() || labels.is_empty() {
            ""
        } else {
            ","
        };
        meta.push_str(&format!(r#","labels":{{{own}{comma}{labels}}}"#));
        if dice.roll(5) == 0 {
            meta.push_str(r#","finalizers":["x.example/one"]"#);
        }
        let content = self.content(dice.roll(4));
        self.assemble(name, &meta, content)
    }

    /// What an applier owns: fewer fields, so that managers meet and part.
    pub(super) fn applied(self, dice: &mut Dice, name: &str) -> String {
        let labels = *dice.pick(&["", r#","labels":{"x":"1"}"#, r#","labels":{"y":"2"}"#]);
        let meta = match self {
            Self::Node => r#","labels":{"ns":"$ns"}"#,
            Self::Map | Self::Widget | Self::Pod | Self::Deployment => labels,
        };
        let content = self.content(dice.roll(4));
        self.assemble(name, meta, content)
    }

    /// A merge patch of the content, without its braces.
    pub(super) fn change(self, dice: &mut Dice) -> &'static str {
        match self {
            Self::Map => dice.text(&[
                r#""data":{"k":"2"}"#,
                r#""data":{"k":null,"m":"3"}"#,
                r#""data":null"#,
            ]),
            Self::Widget => dice.text(&[
                r#""spec":{"replicas":2}"#,
                r#""spec":{"mode":"Slow"}"#,
                r#""spec":{"replicas":99}"#,
                r#""spec":{"tags":["a"],"unknown":1}"#,
            ]),
            Self::Pod => dice.text(&[
                r#""spec":{"activeDeadlineSeconds":100}"#,
                r#""spec":{"restartPolicy":"Never"}"#,
            ]),
            Self::Deployment => dice.text(&[
                r#""spec":{"replicas":2}"#,
                r#""spec":{"replicas":-1}"#,
                r#""spec":{"paused":true}"#,
            ]),
            Self::Node => dice.text(&[
                r#""spec":{"unschedulable":true}"#,
                r#""spec":{"unschedulable":null}"#,
                r#""spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}"#,
            ]),
        }
    }

    /// A merge patch of the status subresource.
    pub(super) fn status(self, dice: &mut Dice) -> &'static str {
        match self {
            Self::Map => r#"{"data":{"k":"status"}}"#,
            Self::Widget => dice.text(&[
                r#"{"status":{"replicas":1}}"#,
                r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]},"spec":{"mode":"Slow"}}"#,
                r#"{"status":null}"#,
            ]),
            Self::Pod => dice.text(&[
                r#"{"status":{"phase":"Running"}}"#,
                r#"{"status":{"phase":"Succeeded"},"metadata":{"labels":{"x":"9"}}}"#,
            ]),
            Self::Deployment => r#"{"status":{"observedGeneration":1,"replicas":1}}"#,
            Self::Node => {
                r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]},"metadata":{"annotations":{"s":"1"}}}"#
            }
        }
    }

    fn assemble(self, name: &str, meta: &str, content: &str) -> String {
        let (version, kind) = match self {
            Self::Map => ("v1", "ConfigMap"),
            Self::Widget => ("conformance.example/v1", "Widget"),
            Self::Pod => ("v1", "Pod"),
            Self::Deployment => ("apps/v1", "Deployment"),
            Self::Node => ("v1", "Node"),
        };
        let name = self.full(name);
        format!(
            r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"{name}"{meta}}}{content}}}"#
        )
    }

    /// One of four contents.
    fn content(self, which: u64) -> &'static str {
        let all = match self {
            Self::Map => MAPS,
            Self::Widget => WIDGETS,
            Self::Pod => PODS,
            Self::Deployment => DEPLOYMENTS,
            Self::Node => NODES,
        };
        all.get(usize::try_from(which).unwrap_or_default())
            .copied()
            .unwrap_or_default()
    }
}

const MAPS: [&str; 4] = [
    r#","data":{"k":"1"}"#,
    r#","data":{"k":"2","l":"1"}"#,
    "",
    r#","data":{"m":"1"}"#,
];

const WIDGETS: [&str; 4] = [
    r#","spec":{"mode":"Fast"}"#,
    r#","spec":{"mode":"Slow","parts":[{"id":"p"},{"id":"q","weight":1}],"limits":{"x":1}}"#,
    r#","spec":{"mode":"Fast","replicas":3,"tags":["a","b"],"unknown":1}"#,
    r#","spec":{"mode":"Fast","parts":[{"id":"p","weight":2}],"nested":{"depth":1}},"status":{"replicas":1}"#,
];

const PODS: [&str; 4] = [
    r#","spec":{"containers":[{"name":"c","image":"i"}]}"#,
    r#","spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}"#,
    r#","spec":{"nodeName":"n","terminationGracePeriodSeconds":0,"containers":[{"name":"c","image":"i"}]}"#,
    r#","spec":{"containers":[{"name":"c","image":"j"}],"tolerations":[{"key":"t","operator":"Exists"}]}"#,
];

const DEPLOYMENTS: [&str; 4] = [
    r#","spec":{"replicas":1,"selector":{"matchLabels":{"app":"d"}},"template":{"metadata":{"labels":{"app":"d"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}"#,
    r#","spec":{"replicas":2,"selector":{"matchLabels":{"app":"d"}},"template":{"metadata":{"labels":{"app":"d"}},"spec":{"containers":[{"name":"c","image":"j"}]}}}"#,
    r#","spec":{"selector":{"matchLabels":{"app":"d"}},"template":{"metadata":{"labels":{"app":"d"}},"spec":{"containers":[{"name":"c","image":"i"},{"name":"e","image":"i"}]}}}"#,
    r#","spec":{"selector":{"matchLabels":{"app":"e"}},"template":{"metadata":{"labels":{"app":"e"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}"#,
];

const NODES: [&str; 4] = [
    "",
    r#","spec":{"unschedulable":true}"#,
    r#","spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}"#,
    r#","spec":{"providerID":"cloud://one"}"#,
];
