//! Three namespaces in a row: a node, the way, and a cluster with name servers and an API server.
//!
//! Owns names, addresses and routes; all of it goes when the stage does.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use shipshape_verifier::{Overrides, PEER_PORT, Report, Responder, Settings, verify};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::servers::{API, API_V6, Addresses, Authority, Cluster};

/// Address of the DNS service.
pub(crate) const DNS: &str = "10.77.2.10";
pub(crate) const DNS_V6: &str = "fd77:2::10";
/// The name servers behind it.
pub(crate) const ENDPOINTS: [&str; 3] = ["10.77.2.11", "10.77.2.12", "10.77.2.13"];

/// The peers, in the same place.
pub(crate) const PEER: &str = "10.77.2.30";
pub(crate) const PEER_V6: &str = "fd77:2::30";

/// For one attempt to connect, and for all of them.
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(20);

/// Tests of one process do not share namespaces.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// What the network speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Families {
    V4,
    V6,
    Both,
}

/// The three namespaces, with servers in the last.
pub(crate) struct Stage {
    families: Families,
    node: String,
    way: String,
    cluster: String,
    files: TempDir,
    servers: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Stage {
    pub(crate) fn start(families: Families, cluster: Cluster) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |part: &str| format!("shipshape-{}-{number}-{part}", std::process::id());
        let mut stage = Self {
            families,
            node: name("node"),
            way: name("way"),
            cluster: name("cluster"),
            files: tempfile::tempdir().unwrap(),
            servers: None,
        };
        stage.lay_cables();
        for family in [Families::V4, Families::V6] {
            if families == family || families == Families::Both {
                stage.give_addresses(family);
            }
        }
        let authority = Authority::new();
        std::fs::write(stage.path("ca.crt"), authority.pem()).unwrap();
        std::fs::write(stage.path("resolv.conf"), stage.resolv_conf()).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let addresses = stage.served();
        let servers = in_namespace(&stage.cluster, move |runtime| {
            runtime.block_on(cluster.serve(&authority, addresses, ready, stopped));
        });
        is_ready.recv().unwrap();
        stage.servers = Some((stop, servers));
        stage.wait_for_links();
        stage
    }

    /// A fresh link of IPv6 takes a moment before it carries anything.
    fn wait_for_links(&self) {
        let Addresses { api, .. } = self.served();
        let node = in_namespace(&self.node, move |runtime| {
            runtime.block_on(async {
                for at in api {
                    let attempt =
                        async { while timeout(SHORT, TcpStream::connect(at)).await.is_err() {} };
                    timeout(LONG, attempt).await.unwrap();
                }
            });
        });
        node.join().unwrap();
    }

    fn lay_cables(&self) {
        for name in [&self.node, &self.way, &self.cluster] {
            run(&format!("ip netns add {name}"));
            run(&format!("ip -n {name} link set lo up"));
        }
        for (end, inner) in [(&self.node, "n0"), (&self.cluster, "c0")] {
            let way = &self.way;
            run(&format!(
                "ip -n {way} link add {inner} type veth peer name eth0 netns {end}"
            ));
            run(&format!("ip -n {way} link set {inner} up"));
            run(&format!("ip -n {end} link set eth0 up"));
        }
        run(&format!(
            "ip netns exec {} sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
            self.way
        ));
    }

    fn give_addresses(&self, family: Families) {
        let (prefix, length, extra) = match family {
            Families::V6 => ("fd77:", "64 nodad", vec![DNS_V6, API_V6, PEER_V6]),
            Families::V4 | Families::Both => {
                let [first, second, third] = ENDPOINTS;
                ("10.77.", "24", vec![DNS, API, PEER, first, second, third])
            }
        };
        let at = |net: u8, host: u8| match family {
            Families::V6 => format!("{prefix}{net}::{host}"),
            Families::V4 | Families::Both => format!("{prefix}{net}.{host}"),
        };
        let Self {
            node, way, cluster, ..
        } = self;
        for (name, link, address) in [
            (node, "eth0", at(1, 2)),
            (way, "n0", at(1, 1)),
            (way, "c0", at(2, 1)),
            (cluster, "eth0", at(2, 2)),
        ] {
            run(&format!(
                "ip -n {name} addr add {address}/{length} dev {link}"
            ));
        }
        for address in extra {
            run(&format!(
                "ip -n {cluster} addr add {address}/{length} dev eth0"
            ));
        }
        run(&format!("ip -n {node} route add default via {}", at(1, 1)));
        run(&format!(
            "ip -n {cluster} route add default via {}",
            at(2, 1)
        ));
    }

    fn served(&self) -> Addresses {
        let (mut dns, mut api) = (Vec::new(), Vec::new());
        if self.families != Families::V6 {
            dns.extend(ENDPOINTS);
            dns.push(DNS);
            api.push(API);
        }
        if self.families != Families::V4 {
            dns.push(DNS_V6);
            api.push(API_V6);
        }
        let at = |port| move |text: &str| SocketAddr::new(text.parse().unwrap(), port);
        Addresses {
            dns: dns.into_iter().map(at(53)).collect(),
            api: api.into_iter().map(at(443)).collect(),
        }
    }

    /// Where peers listen.
    pub(crate) fn peers(&self) -> Vec<SocketAddr> {
        let ips = match self.families {
            Families::V4 => vec![PEER],
            Families::V6 => vec![PEER_V6],
            Families::Both => vec![PEER, PEER_V6],
        };
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), PEER_PORT);
        ips.into_iter().map(at).collect()
    }

    /// Starts peers in the cluster; they go with what is returned.
    pub(crate) fn start_peers(&self) -> Peers {
        self.start_peers_at(self.peers())
    }

    /// The same at other addresses.
    pub(crate) fn start_peers_at(&self, addresses: Vec<SocketAddr>) -> Peers {
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = in_namespace(&self.cluster, move |runtime| {
            runtime.block_on(async {
                for address in addresses {
                    let responder = Responder::bind(address).await.unwrap();
                    tokio::spawn(async move { responder.serve().await });
                }
                ready.send(()).unwrap();
                // The other end is dropped, not used.
                drop(stopped.await);
            });
        });
        is_ready.recv().unwrap();
        Peers {
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Runs work on the node.
    pub(crate) fn on_node<T: Send + 'static>(
        &self,
        work: impl FnOnce(Runtime) -> T + Send + 'static,
    ) -> T {
        self.node_thread(work).join().unwrap()
    }

    /// Runs work on the node, beside the test.
    pub(crate) fn node_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(Runtime) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        in_namespace(&self.node, work)
    }

    /// Runs work on the way, which has addresses of its own.
    pub(crate) fn on_way<T: Send + 'static>(
        &self,
        work: impl FnOnce(Runtime) -> T + Send + 'static,
    ) -> T {
        self.way_thread(work).join().unwrap()
    }

    /// The same beside the test.
    pub(crate) fn way_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(Runtime) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        in_namespace(&self.way, work)
    }

    /// Runs work in the cluster, beside the test.
    pub(crate) fn cluster_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(Runtime) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        in_namespace(&self.cluster, work)
    }

    fn resolv_conf(&self) -> String {
        let server = match self.families {
            Families::V6 => DNS_V6,
            Families::V4 | Families::Both => DNS,
        };
        format!(
            "search default.svc.cluster.local svc.cluster.local cluster.local\n\
             nameserver {server}\noptions ndots:5\n"
        )
    }

    fn path(&self, file: &str) -> String {
        self.files.path().join(file).display().to_string()
    }

    /// Runs all checks on the node, with more settings if there are any.
    pub(crate) fn verify(&self, more: &str) -> Report {
        self.verify_with(more, Overrides::default())
    }

    /// The same, with flags.
    pub(crate) fn verify_with(&self, more: &str, overrides: Overrides) -> Report {
        let Addresses { api, .. } = self.served();
        let resolv_conf = self.path("resolv.conf");
        let dns = match more.strip_prefix("dns: {") {
            Some(rest) => format!("dns: {{resolvConf: {resolv_conf}, {rest}"),
            None => format!("dns: {{resolvConf: {resolv_conf}}}\n{more}"),
        };
        let text = format!(
            "checkTimeoutSeconds: 2\napiServer: {{host: '{}', caFile: {}}}\n{dns}\n",
            api.first().unwrap().ip(),
            self.path("ca.crt"),
        );
        let settings = Settings::of(&text, overrides).unwrap();
        self.on_node(move |runtime| runtime.block_on(verify(&settings)).unwrap())
    }

    /// Adds rules where packets pass.
    pub(crate) fn nft(&self, rules: &str) {
        let file = self.path("rules.nft");
        std::fs::write(&file, rules).unwrap();
        run(&format!("ip netns exec {} nft -f {file}", self.way));
    }

    /// Makes the way take smaller packets than both its ends believe.
    pub(crate) fn narrow_the_way(&self, mtu: u32) {
        for link in ["n0", "c0"] {
            run(&format!("ip -n {} link set {link} mtu {mtu}", self.way));
        }
    }

    /// Runs a command in the cluster's namespace.
    pub(crate) fn in_cluster(&self, command: &str) {
        run(&format!("ip netns exec {} {command}", self.cluster));
    }
}

/// Peers that serve until this is dropped.
pub(crate) struct Peers {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Peers {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // What it has to say about its end was said when it panicked.
            drop(thread.join());
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some((stop, servers)) = self.servers.take() {
            drop(stop);
            // What a server has to say about its end was said when it panicked.
            drop(servers.join());
        }
        for name in [&self.node, &self.way, &self.cluster] {
            // Those that were never made cannot be removed.
            drop(Command::new("ip").args(["netns", "del", name]).output());
        }
    }
}

/// Runs work on a thread that lives in a namespace, with a runtime of its own.
fn in_namespace<T: Send + 'static>(
    name: &str,
    work: impl FnOnce(Runtime) -> T + Send + 'static,
) -> JoinHandle<T> {
    let namespace = File::open(format!("/run/netns/{name}")).unwrap();
    thread::spawn(move || {
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), network).unwrap();
        work(Builder::new_current_thread().enable_all().build().unwrap())
    })
}

#[track_caller]
fn run(command: &str) {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output();
    assert!(output.is_ok(), "cannot run {command}: {output:?}");
    let output = output.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command}: {complaint}; these tests need root, ip and nft"
    );
}
