//! What a cloud is made of and how it behaves.
//!
//! Owns plain values; must not hold state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;

/// The groups of a cloud and the images they may launch.
#[derive(Clone, Debug, Default)]
pub struct CloudSpec {
    /// The region that zones belong to.
    pub region: String,
    /// The groups.
    pub groups: Vec<GroupSpec>,
    /// Kubelet version of an image; images that are not named here get the version of the world.
    pub kubelet_versions: BTreeMap<String, String>,
    /// How machines are named.
    pub names: MachineNames,
    /// How the cloud behaves.
    pub settings: CloudSettings,
}

/// How machines are named, which is also how their kubelets name them to the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MachineNames {
    /// `workers-001`, so that a person can follow a story.
    #[default]
    Readable,
    /// `i-` and 17 hexadecimal digits, as the AWS wire form needs.
    Aws,
}

/// One group at the start of a world.
#[derive(Clone, Debug)]
pub struct GroupSpec {
    /// Its name.
    pub id: String,
    /// The image of its first template.
    pub image: String,
    /// The image its first machines were started from, when that is not the template's: those
    /// machines are out of date from the start.
    pub running_image: Option<String>,
    /// Zones it may use; the first machines are dealt out over them in turn.
    pub zones: Vec<String>,
    /// Fewest machines.
    pub min: u32,
    /// Most machines.
    pub max: u32,
    /// Machines asked for.
    pub desired: u32,
    /// Labels its kubelets register with.
    pub labels: BTreeMap<String, String>,
    /// Taints its kubelets register with.
    pub taints: Vec<Taint>,
    /// Size of each machine.
    pub size: MachineSize,
}

/// What a machine offers to pods.
#[derive(Clone, Copy, Debug)]
pub struct MachineSize {
    /// Thousandths of a core.
    pub cpu_millis: u64,
    /// Mebibytes of memory.
    pub memory_mib: u64,
    /// Most pods.
    pub pods: u32,
}

impl Default for MachineSize {
    fn default() -> Self {
        Self {
            cpu_millis: 4_000,
            memory_mib: 16_384,
            pods: 110,
        }
    }
}

/// How a cloud behaves. The defaults are those of an ordinary day.
#[derive(Clone, Debug)]
pub struct CloudSettings {
    /// From the call to a running machine.
    pub boot: Duration,
    /// From the end's request to the machine's end.
    pub terminate: Duration,
    /// How long a group takes to notice that it is short of machines or has too many.
    pub heal: Duration,
    /// For how long a machine that has ended is still listed.
    pub remember: Duration,
    /// How far up and down the delays vary, in percent.
    pub jitter: u8,
    /// Reads of machines show the world as it was this long ago. A machine's own id, once handed
    /// out, can always be read.
    pub read_lag: Duration,
    /// In how many of a hundred changing calls the answer is lost after the effect.
    pub lost_answers: u8,
    /// At most this many calls a second; the rest is throttled.
    pub calls_per_second: Option<u32>,
    /// Changing calls that the caller has no right to, by name.
    pub denied_calls: BTreeSet<String>,
    /// Zones without capacity.
    pub full_zones: BTreeSet<String>,
    /// Images whose machines boot but never join the cluster.
    pub broken_images: BTreeSet<String>,
    /// Images whose machines join the cluster but never get ready.
    pub unready_images: BTreeSet<String>,
    /// Images whose machines get ready though pods on them reach no service.
    pub unconnected_images: BTreeSet<String>,
    /// Images whose kubelets register with the taint of the gate.
    pub gated_images: BTreeSet<String>,
    /// Whether no name server answers anybody.
    pub dns_down: bool,
}

impl Default for CloudSettings {
    fn default() -> Self {
        Self {
            boot: Duration::from_secs(45),
            terminate: Duration::from_secs(30),
            heal: Duration::from_secs(20),
            remember: Duration::from_hours(1),
            jitter: 20,
            read_lag: Duration::ZERO,
            lost_answers: 0,
            calls_per_second: None,
            denied_calls: BTreeSet::new(),
            full_zones: BTreeSet::new(),
            broken_images: BTreeSet::new(),
            unready_images: BTreeSet::new(),
            unconnected_images: BTreeSet::new(),
            gated_images: BTreeSet::new(),
            dns_down: false,
        }
    }
}
