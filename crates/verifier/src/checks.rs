//! All checks at once, each with a deadline of its own.
//!
//! Owns what is asked of whom. A check that could only repeat what another has said is not run: without an answer of the
//! API server there is neither a large one nor a clock.

mod api;
mod host;
mod peer;
mod udp;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::Path;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join_all};
use tokio::time::Instant;

use crate::contact::Client;
use crate::dial;
use crate::evidence::Evidence;
use crate::lookup::{Resolver, Transport, ask_often};
use crate::report::{Check, Finding, Phase, Report, Trouble, Verdict};
use crate::resolv::{ResolvConf, Server};
use crate::settings::{Access, Metadata, Settings};
use crate::target::{Host, Target};

/// Where name servers listen.
const DNS_PORT: u16 = 53;
/// How long it is tried to dial what should not answer.
const BLOCKED: Duration = Duration::from_secs(2);
/// More addresses than this are not listed.
const SHOWN: usize = 4;

/// One attempt of all checks.
pub(crate) struct Round<'a> {
    settings: &'a Settings,
    /// All name servers that are asked.
    servers: Vec<SocketAddr>,
    /// Asks as a program in the pod would.
    resolver: Resolver,
    resolv_conf: String,
    client: Option<Client>,
    end: Instant,
}

type Work<'a> = BoxFuture<'a, Vec<Finding>>;

/// Where a name server answers. A link-local address says nothing without its interface; one that nobody knows here
/// is left out, and the check says what came of it.
fn at_usual_port(server: &Server) -> SocketAddr {
    let number = |zone: &String| {
        let file = Path::new("/sys/class/net").join(zone).join("ifindex");
        let known = || std::fs::read_to_string(file).ok()?.trim().parse().ok();
        zone.parse().ok().or_else(known)
    };
    match server.address {
        IpAddr::V6(address) => {
            let scope = server.zone.as_ref().and_then(number).unwrap_or(0);
            SocketAddrV6::new(address, DNS_PORT, 0, scope).into()
        }
        address @ IpAddr::V4(_) => SocketAddr::new(address, DNS_PORT),
    }
}

impl<'a> Round<'a> {
    /// Reads what the checks need from the pod.
    pub(crate) fn prepare(settings: &'a Settings, end: Instant) -> Result<Self, crate::Error> {
        let path = &settings.resolv_conf;
        let text = std::fs::read(path).map_err(|source| crate::Error::File {
            what: "the resolver's settings, dns.resolvConf",
            path: path.clone(),
            source,
        })?;
        // As a resolver does, which minds no comment.
        let text = String::from_utf8_lossy(&text).into_owned();
        let conf = ResolvConf::parse(&text);
        let of_pod: Vec<SocketAddr> = conf.servers.iter().map(at_usual_port).collect();
        let mut servers = of_pod.clone();
        servers.extend(&settings.dns_servers);
        let mut seen = BTreeSet::new();
        servers.retain(|server| seen.insert(*server));
        let of_programs = if of_pod.is_empty() {
            servers.clone()
        } else {
            of_pod
        };
        let client = settings
            .api
            .as_ref()
            .map(|api| Client::new(&api.ca_file, &api.server_name))
            .transpose()?;
        Ok(Self {
            settings,
            servers,
            resolver: Resolver {
                conf,
                servers: of_programs,
            },
            resolv_conf: text,
            client,
            end,
        })
    }

    /// Runs all checks.
    pub(crate) async fn play(&self) -> Report {
        let work = match &self.settings.host {
            Some(host) => host::checks(self, host),
            None => self.of_pod(),
        };
        let findings = join_all(work).await.into_iter().flatten();
        let mut report = Report::of(findings.inspect(log).collect());
        if report.verdict == Verdict::Failed {
            report.evidence = Some(Evidence::gather(&self.resolv_conf));
        }
        report
    }

    fn of_pod(&self) -> Vec<Work<'_>> {
        let mut work = self.dns();
        if let (Some(api), Some(client)) = (&self.settings.api, &self.client) {
            work.push(api::check(self, api, client).boxed());
        }
        for (check, targets) in [
            (Check::Network, &self.settings.network),
            (Check::Service, &self.settings.services),
            (Check::Egress, &self.settings.egress),
        ] {
            work.extend(targets.iter().map(|target| self.dialled(check, target)));
        }
        work.extend(
            self.settings
                .metadata
                .iter()
                .map(|given| self.metadata(given)),
        );
        let peers = self.settings.peers.iter();
        work.extend(peers.map(|target| peer::check(self, target).boxed()));
        work
    }

    /// When a check that begins now must have ended.
    fn until(&self) -> Instant {
        (Instant::now() + self.settings.check_timeout).min(self.end)
    }

    fn dns(&self) -> Vec<Work<'_>> {
        let mut work: Vec<Work<'_>> = Vec::new();
        for name in &self.settings.names {
            for server in &self.servers {
                for (check, transport) in [
                    (Check::DnsUdp, Transport::Udp),
                    (Check::DnsTcp, Transport::Tcp),
                ] {
                    let target = format!("{name}. @{server}");
                    let lookup = self.lookup(*server, transport, name);
                    work.push(judged(check, target, lookup).boxed());
                }
            }
            work.extend(self.searched(name));
        }
        if self.servers.is_empty() && !self.settings.names.is_empty() {
            let target = self.settings.resolv_conf.display().to_string();
            let trouble = Trouble::new(Phase::Dns, "names no name server");
            work.push(judged(Check::DnsUdp, target, async { Err(trouble) }).boxed());
        }
        if let Some(name) = self.settings.names.first() {
            let asked = |server| self.endpoint(server, name);
            work.extend(self.settings.dns_endpoints.iter().copied().map(asked));
        }
        work
    }

    async fn lookup(
        &self,
        server: SocketAddr,
        transport: Transport,
        name: &str,
    ) -> Result<String, Trouble> {
        let times = self.settings.dns_repeats;
        let found = ask_often(server, transport, name, times, self.until()).await?;
        Ok(listed(&found))
    }

    /// A name by its short form, where the search list has one for it.
    fn searched(&self, name: &str) -> Option<Work<'_>> {
        let short = self.resolver.conf.short_form(name)?;
        let target = format!("{short} (search list)");
        let lookup = async move {
            let found = self.resolver.resolve(&short, self.until()).await?;
            Ok(listed(&found))
        };
        Some(judged(Check::DnsSearch, target, lookup).boxed())
    }

    /// A name server behind the service, by both transports.
    fn endpoint<'b>(&'b self, server: SocketAddr, name: &'b str) -> Work<'b> {
        let target = format!("{name}. @{server}");
        let lookup = async move {
            let by_udp = self.lookup(server, Transport::Udp, name).await?;
            self.lookup(server, Transport::Tcp, name).await?;
            Ok(by_udp)
        };
        judged(Check::DnsEndpoint, target, lookup).boxed()
    }

    /// Resolves a host, where it is a name, and dials all its addresses.
    fn dialled<'b>(&'b self, check: Check, target: &'b Target) -> Work<'b> {
        let work = async move {
            let until = self.until();
            let addresses = self.addresses(target, until).await?;
            let dials = addresses
                .iter()
                .map(|address| dial::connect(*address, until));
            for (address, result) in addresses.iter().zip(join_all(dials).await) {
                if let Err(Trouble { phase, message }) = result {
                    return Err(Trouble::new(phase, format!("{address}: {message}")));
                }
            }
            let ips: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
            Ok(format!("connected to {}", listed(&ips)))
        };
        judged(check, target.to_string(), work).boxed()
    }

    async fn addresses(&self, target: &Target, until: Instant) -> Result<Vec<SocketAddr>, Trouble> {
        let ips = match &target.host {
            Host::Address(ip) => vec![*ip],
            Host::Name(name) => self.resolver.resolve(name, until).await?,
        };
        Ok(ips
            .into_iter()
            .map(|ip| SocketAddr::new(ip, target.port))
            .collect())
    }

    fn metadata<'b>(&'b self, given: &'b Metadata) -> Work<'b> {
        let Metadata { address, expect } = given;
        let work = async move {
            match expect {
                Access::Reachable => dial::connect(*address, self.until())
                    .await
                    .map(|_| "can be reached, as it should".to_owned()),
                Access::Blocked => {
                    let until = self.until().min(Instant::now() + BLOCKED);
                    match dial::connect(*address, until).await {
                        Err(_) => Ok("is blocked, as it should be".to_owned()),
                        Ok(_) => {
                            let message = "should be blocked, and can be reached";
                            Err(Trouble::new(Phase::Connect, message))
                        }
                    }
                }
            }
        };
        judged(Check::Metadata, address.to_string(), work).boxed()
    }
}

/// Waits for a check and writes down what it saw.
async fn judged(
    check: Check,
    target: String,
    work: impl Future<Output = Result<String, Trouble>> + Send,
) -> Vec<Finding> {
    let begin = Instant::now();
    let result = work.await;
    vec![finding(check, target, begin, result)]
}

fn finding(
    check: Check,
    target: String,
    begin: Instant,
    result: Result<String, Trouble>,
) -> Finding {
    let milliseconds = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (ok, phase, message) = match result {
        Ok(message) => (true, None, message),
        Err(Trouble { phase, message }) => (false, Some(phase), message),
    };
    Finding {
        check,
        target,
        ok,
        phase,
        message,
        milliseconds,
    }
}

fn log(finding: &Finding) {
    let Finding {
        check,
        target,
        ok,
        message,
        milliseconds,
        ..
    } = finding;
    tracing::debug!(%check, at = %target, ok, milliseconds, "{message}");
}

fn listed(addresses: &[IpAddr]) -> String {
    let shown: Vec<String> = addresses
        .iter()
        .take(SHOWN)
        .map(IpAddr::to_string)
        .collect();
    match addresses.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_name_server_is_asked_through_its_interface() {
        let server = |address: &str, zone: Option<&str>| Server {
            address: address.parse().unwrap(),
            zone: zone.map(str::to_owned),
        };
        // Loopback is the first interface everywhere.
        for (zone, scope) in [
            (Some("lo"), 1),
            (Some("7"), 7),
            (Some("nowhere"), 0),
            (None, 0),
        ] {
            let SocketAddr::V6(at) = at_usual_port(&server("fe80::1", zone)) else {
                panic!("it is of version 6")
            };
            assert_eq!((at.port(), at.scope_id()), (53, scope), "{zone:?}");
        }
        let four = at_usual_port(&server("10.0.0.1", Some("lo")));
        assert_eq!(four, "10.0.0.1:53".parse().unwrap());
    }
}
