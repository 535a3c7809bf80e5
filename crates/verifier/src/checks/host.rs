//! What only the network of the host shows: connection tracking, kube-proxy, the name server of the node.
//!
//! Owns what is read and asked there. Run apart from all other checks (`--host`): in the network of the host they would
//! leave out what they are to check.

use std::io;
use std::path::Path;

use futures::future::{BoxFuture, FutureExt};
use tokio::time::Instant;

use super::{Round, judged};
use crate::contact;
use crate::lookup::Transport;
use crate::report::{Check, Finding, Phase, Trouble};
use crate::settings::Host;

/// Where the kernel tells how many connections it tracks.
const TRACKING: &str = "/proc/sys/net/netfilter";

/// All that is asked of the host.
pub(super) fn checks<'a>(round: &'a Round<'_>, host: &'a Host) -> Vec<BoxFuture<'a, Vec<Finding>>> {
    let tracked = async { tracking(Path::new(TRACKING), host.max_conntrack_percent) };
    let mut work = vec![judged(Check::HostConntrack, TRACKING.to_owned(), tracked).boxed()];
    if let Some(address) = host.kube_proxy {
        let target = format!("http://{address}/healthz");
        let asked = kube_proxy(address, round.until());
        work.push(judged(Check::HostKubeProxy, target, asked).boxed());
    }
    if let Some(server) = host.node_local_dns {
        for name in &round.settings.names {
            let lookup = async move {
                round.lookup(server, Transport::Udp, name).await?;
                round.lookup(server, Transport::Tcp, name).await
            };
            work.push(judged(Check::HostDns, format!("{name}. @{server}"), lookup).boxed());
        }
    }
    work
}

fn tracking(folder: &Path, most: u32) -> Result<String, Trouble> {
    let read = |file: &str| -> io::Result<u64> {
        let text = std::fs::read_to_string(folder.join(file))?;
        text.trim().parse().map_err(io::Error::other)
    };
    let numbers = read("nf_conntrack_count").and_then(|used| Ok((used, read("nf_conntrack_max")?)));
    match numbers {
        Ok((used, room)) => judge_tracking(used, room, most),
        Err(error) => {
            let message = format!("cannot be read: {error}; does this kernel track connections?");
            Err(Trouble::new(Phase::Connect, message))
        }
    }
}

fn judge_tracking(used: u64, room: u64, most: u32) -> Result<String, Trouble> {
    let said = format!("{used} of {room} connections are tracked");
    if used == 0 {
        let why = "none at all, which proves nothing: is this the network of the host?";
        return Ok(format!("{said}, {why}"));
    }
    if used.saturating_mul(100) > room.saturating_mul(most.into()) {
        let message = format!("{said}, more than {most} %: further ones will be dropped");
        return Err(Trouble::new(Phase::Connect, message));
    }
    Ok(said)
}

async fn kube_proxy(address: std::net::SocketAddr, until: Instant) -> Result<String, Trouble> {
    let reply = contact::get_plain(address, "/healthz", until).await?;
    match reply.status {
        200 => Ok("kube-proxy is well".to_owned()),
        status => {
            let message = format!("answers {status}: kube-proxy has not got its rules in place");
            Err(Trouble::new(Phase::Http, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_fills_up_fails_and_an_empty_one_proves_nothing() {
        for (used, is_fine) in [(1, true), (900, true), (901, false), (2000, false)] {
            assert_eq!(judge_tracking(used, 1000, 90).is_ok(), is_fine, "{used}");
        }
        assert!(
            judge_tracking(0, 1000, 90)
                .unwrap()
                .contains("proves nothing")
        );
        assert!(
            judge_tracking(u64::MAX, u64::MAX, 90).is_ok(),
            "no overflow"
        );
    }

    #[test]
    fn a_kernel_that_tracks_nothing_is_told() {
        let trouble = tracking(Path::new("no/such/folder"), 90).unwrap_err();
        assert!(
            trouble.message.contains("does this kernel track"),
            "{trouble:?}"
        );
    }
}
