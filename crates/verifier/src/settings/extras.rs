//! Settings of the checks that nobody gets unasked: peers, lost packets, the host.
//!
//! Owns what their values mean. Called by `settings`.

use std::net::SocketAddr;

use super::file::File;
use super::{SettingsError, dns_address, from_to, optional, targets, wrong};
use crate::peer::{LONGEST_PACKET, MOST_PACKETS, PACKET_HEAD};
use crate::target::{self, Target};

/// Each entry may take several of the ports at which workers listen.
const MOST_PEERS: usize = 16;
/// Fewer packets say little about loss.
const LEAST_PACKETS: u32 = 10;

/// A sequence of packets to each peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Udp {
    pub(crate) packets: u32,
    pub(crate) bytes: usize,
    pub(crate) max_loss_percent: u32,
}

/// What is asked of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) max_conntrack_percent: u32,
    pub(crate) kube_proxy: Option<SocketAddr>,
    pub(crate) node_local_dns: Option<SocketAddr>,
}

pub(super) fn peers(file: &File) -> Result<Vec<Target>, SettingsError> {
    let given = file.peers.len();
    if given > MOST_PEERS {
        let complaint = format!(
            "has {given} entries, {MOST_PEERS} are allowed; the name of a headless Service stands for many peers"
        );
        return Err(wrong("peers", complaint));
    }
    targets("peers", &file.peers)
}

pub(super) fn udp(file: &File) -> Result<Option<Udp>, SettingsError> {
    let Some(given) = &file.udp else {
        return Ok(None);
    };
    if file.peers.is_empty() {
        let complaint = "needs somebody to send to: set peers to a list of HOST:PORT";
        return Err(wrong("udp", complaint));
    }
    let least = u32::try_from(PACKET_HEAD).unwrap_or(u32::MAX);
    let most = u32::try_from(LONGEST_PACKET).unwrap_or(u32::MAX);
    let bytes = from_to("udp.bytes", given.bytes, least, most)?;
    Ok(Some(Udp {
        packets: from_to("udp.packets", given.packets, LEAST_PACKETS, MOST_PACKETS)?,
        bytes: usize::try_from(bytes).unwrap_or(LONGEST_PACKET),
        max_loss_percent: from_to("udp.maxLossPercent", given.max_loss_percent, 0, 99)?,
    }))
}

pub(super) fn host(file: &File) -> Result<Host, SettingsError> {
    let given = &file.host;
    let kube_proxy = |text: &str| target::address(text, 10_256);
    Ok(Host {
        max_conntrack_percent: from_to(
            "host.maxConntrackPercent",
            given.max_conntrack_percent,
            1,
            100,
        )?,
        kube_proxy: optional("host.kubeProxy", given.kube_proxy.as_deref(), kube_proxy)?,
        node_local_dns: optional(
            "host.nodeLocalDns",
            given.node_local_dns.as_deref(),
            dns_address,
        )?,
    })
}
