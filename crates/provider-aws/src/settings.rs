//! What a manifest and the controller's configuration say about Amazon Web Services.
//!
//! Owns plain values and their defaults; must not read the environment: the SDK does that for
//! credentials and endpoints.

use std::collections::BTreeMap;
use std::time::Duration;

use shipshape_api::AwsProvider;

/// How one cluster's machines are treated; from the `provider` block of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AwsSettings {
    /// The region.
    pub region: String,
    /// Where a replacement may come up.
    pub placement: Placement,
    /// Tags of every machine that is made, besides ours.
    pub extra_tags: BTreeMap<String, String>,
    /// The cluster's name in tags.
    pub cluster_id: Option<String>,
}

/// Where a replacement may come up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// In the zone of the machine it replaces, or not at all.
    #[default]
    SameZone,
    /// In another zone of the group when that one is full.
    OtherZonesToo,
}

impl From<&AwsProvider> for AwsSettings {
    fn from(block: &AwsProvider) -> Self {
        Self {
            region: block.region.clone(),
            placement: if block.strict_az() {
                Placement::SameZone
            } else {
                Placement::OtherZonesToo
            },
            extra_tags: block.extra_tags.clone(),
            cluster_id: block.cluster_id().map(str::to_owned),
        }
    }
}

/// How the clients of a region behave; from the controller's configuration.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// What may be done about a group that is at its maximum.
    pub full_groups: FullGroups,
    /// How machines are launched.
    pub launch: LaunchMode,
    /// For how long the cloud may not list what it has made.
    pub settle: Duration,
    /// How long a call waits for a new machine to run before it joins its group.
    pub run_wait: Duration,
    /// Time between two looks while waiting.
    pub poll: Duration,
    /// How long a read waits for others to be read with it.
    pub window: Duration,
    /// How fast the cloud is asked.
    pub pace: PaceSettings,
}

/// What may be done about a group that is at its maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullGroups {
    /// Nothing: there is no capacity.
    #[default]
    Respect,
    /// Its maximum is raised by one for a replacement, and put back afterwards.
    Raise,
}

/// How machines are launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaunchMode {
    /// By the group itself where the service can, else by EC2.
    #[default]
    GroupFirst,
    /// By EC2, and then attached to the group.
    RunAndAttach,
}

/// How fast the cloud is asked.
#[derive(Clone, Debug)]
pub struct PaceSettings {
    /// Reads a second, over a long time.
    pub reads_per_second: u32,
    /// Reads at once after a quiet time.
    pub read_burst: u32,
    /// Changes a second, over a long time.
    pub writes_per_second: u32,
    /// Changes at once after a quiet time.
    pub write_burst: u32,
    /// Time for one answer.
    pub attempt: Duration,
    /// Time for a call with all its repeats.
    pub deadline: Duration,
    /// Wait before the first repeat; it doubles from one to the next.
    pub first_wait: Duration,
    /// Longest wait between repeats.
    pub longest_wait: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            full_groups: FullGroups::default(),
            launch: LaunchMode::default(),
            settle: Duration::from_mins(2),
            run_wait: Duration::from_mins(2),
            poll: Duration::from_secs(2),
            window: Duration::from_millis(5),
            pace: PaceSettings::default(),
        }
    }
}

impl Default for PaceSettings {
    fn default() -> Self {
        Self {
            reads_per_second: 10,
            read_burst: 50,
            writes_per_second: 5,
            write_burst: 20,
            attempt: Duration::from_secs(10),
            deadline: Duration::from_secs(30),
            first_wait: Duration::from_millis(200),
            longest_wait: Duration::from_secs(5),
        }
    }
}
