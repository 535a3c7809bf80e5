//! Values that describe machines and the groups that launch them, as a cloud reports them.
//!
//! Owns the vocabulary shared by decisions and providers. Must not know any one cloud: what a
//! provider cannot say in these words does not reach a decision. Read by `decide` functions,
//! produced by implementations of `Provider`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Makes a newtype over `String`, so that a group id cannot be handed in where a machine id is due.
macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

identifier!(
    /// A machine as its cloud names it, for example `i-0abc`.
    MachineId
);
identifier!(
    /// `Node.spec.providerID`: the one key that ties a Node to its machine.
    ProviderId
);
identifier!(
    /// A group of machines as its cloud names it.
    GroupId
);
identifier!(
    /// The image a machine was started from.
    ImageId
);
identifier!(
    /// Idempotency key of a create call: the same token never makes a second machine.
    Token
);

/// Where a machine is in its life, as the cloud says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MachineState {
    /// The cloud gave no answer that we understand; nothing may be concluded from it.
    Unknown,
    /// Asked for, not yet running.
    Creating,
    /// Running.
    Ready,
    /// Switched off but still there.
    Stopped,
    /// On its way out.
    Terminating,
    /// Gone, or never heard of.
    Terminated,
    /// The cloud gave up on it.
    Failed,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The cloud's name of the machine.
    pub id: MachineId,
    /// What the kubelet of this machine registers as `spec.providerID`.
    pub provider_id: ProviderId,
    /// The group that owns the machine, if any.
    pub group: Option<GroupId>,
    /// The zone it runs in.
    pub zone: String,
    /// The image it was started from.
    pub image: ImageId,
    /// Where it is in its life.
    pub state: MachineState,
    /// Whether the group may pick it when it scales in.
    pub protected: bool,
    /// Our tags and everybody else's.
    pub tags: BTreeMap<String, String>,
    /// The subnet it is in, where the cloud says.
    #[serde(default)]
    pub subnet: Option<String>,
}

/// One group: what it launches and how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The cloud's name of the group.
    pub id: GroupId,
    /// The image that the group's **current** template launches.
    pub image: ImageId,
    /// Zones the group may use.
    pub zones: Vec<String>,
    /// Fewest machines allowed.
    pub min: u32,
    /// Most machines allowed.
    pub max: u32,
    /// Machines asked for.
    pub desired: u32,
    /// Whether `max` is raised for a replacement and put back, so that it is no limit.
    #[serde(default)]
    pub raises_max: bool,
    /// The template that it launches from, where the cloud has such things.
    #[serde(default)]
    pub template: Option<Template>,
}

impl Group {
    /// How many machines more it takes; `None` when nothing limits it. `on_their_way` are those that it
    /// will be asked for and does not count yet.
    pub fn room(&self, on_their_way: usize) -> Option<usize> {
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let taken = count(self.desired).saturating_add(on_their_way);
        (!self.raises_max).then(|| count(self.max).saturating_sub(taken))
    }
}

/// A launch template and the version that a group asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// The cloud's name of it.
    pub id: String,
    /// The version.
    pub version: String,
}

/// What a replacement must look like. Frozen in the task's status before the call is made, so that
/// a repeated call carries the same words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacementRequest {
    /// The same token never makes a second machine.
    pub token: Token,
    /// The group to launch in, from its current template.
    pub group: GroupId,
    /// The zone to launch in.
    pub zone: String,
    /// The machine that will be removed once this one has taken over.
    pub replaces: MachineId,
    /// Tags set in the same call that creates the machine.
    pub tags: BTreeMap<String, String>,
}
