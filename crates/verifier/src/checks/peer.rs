//! Peers that dial back: whether others can reach this node, which no dialling out shows.
//!
//! Owns who is asked, and what their answers come to. A name stands for several peers
//! of which any may be down: of each family some are asked, and most of them must agree.

mod asked;

use std::net::SocketAddr;

use futures::future::{OptionFuture, join, join_all};
use tokio::time::Instant;

pub(super) use self::asked::count;
use self::asked::{Deal, ask};
use super::{Round, finding, udp};
use crate::peer::random;
use crate::report::{Check, Finding, Phase, Trouble};
use crate::settings::Udp;
use crate::target::{Host, Target};

/// So many addresses of one name and family are asked.
const ASKED: usize = 3;

/// What is said of a name that stands for nobody.
const NOBODY: &str = "the name has no address: no peer is in service yet, and nothing is proven";

type Said = Result<String, Trouble>;

/// What came of one peer.
struct Meeting {
    peer: SocketAddr,
    dialled: Said,
    /// Nothing if it is not asked for, or could only repeat that the peer cannot be reached.
    loss: Option<Said>,
}

/// All that is asked of one entry of `peers`.
pub(super) async fn check(round: &Round<'_>, target: &Target) -> Vec<Finding> {
    let (begin, until) = (Instant::now(), round.until());
    let name = target.to_string();
    let peers = match addresses(round, target, until).await {
        Ok(addresses) if !addresses.is_empty() => some_of_each_family(addresses),
        // The first node of a cluster must come through, and there is nobody to ask yet.
        Ok(_) => return vec![finding(Check::Peer, name, begin, Ok(NOBODY.to_owned()))],
        Err(trouble) => return vec![finding(Check::Peer, name, begin, Err(trouble))],
    };
    let udp = round.settings.udp.as_ref();
    let meetings = join_all(peers.into_iter().map(|peer| meet(peer, udp, until))).await;
    let dialled: Vec<_> = meetings
        .iter()
        .map(|one| (one.peer, &one.dialled))
        .collect();
    let losses = meetings
        .iter()
        .filter_map(|one| Some((one.peer, one.loss.as_ref()?)));
    let losses: Vec<_> = losses.collect();
    let mut findings = vec![finding(Check::Peer, name.clone(), begin, judge(&dialled))];
    if !losses.is_empty() {
        findings.push(finding(Check::UdpLoss, name, begin, judge(&losses)));
    }
    findings
}

/// The addresses of an entry; none if its name is known and stands for nobody.
async fn addresses(
    round: &Round<'_>,
    target: &Target,
    until: Instant,
) -> Result<Vec<SocketAddr>, Trouble> {
    let ips = match &target.host {
        Host::Address(ip) => vec![*ip],
        Host::Name(name) => {
            let known = round.resolver.known(name, until).await?;
            known.ok_or_else(|| Trouble::new(Phase::Dns, "there is no such name"))?
        }
    };
    let at = |ip| SocketAddr::new(ip, target.port);
    Ok(ips.into_iter().map(at).collect())
}

/// A few addresses of each family, by chance, so that not every node asks the same peers.
fn some_of_each_family(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let (four, six): (Vec<_>, Vec<_>) = addresses.into_iter().partition(SocketAddr::is_ipv4);
    let some = |mut family: Vec<SocketAddr>| {
        if family.len() > ASKED {
            let chance = random().map_or(0, usize::from_be_bytes);
            let middle = chance.checked_rem(family.len()).unwrap_or(0);
            family.rotate_left(middle);
            family.truncate(ASKED);
        }
        family
    };
    [some(four), some(six)].concat()
}

/// Of each family most must be fine; the first trouble of one in which they are not is told.
fn judge(all: &[(SocketAddr, &Said)]) -> Said {
    let mut words = Vec::new();
    for is_four in [true, false] {
        let family: Vec<_> = all
            .iter()
            .filter(|(peer, _)| peer.is_ipv4() == is_four)
            .collect();
        let fine = family.iter().filter(|(_, said)| said.is_ok()).count();
        let is_enough = fine * 2 > family.len() || family.is_empty();
        for (peer, said) in &family {
            match said {
                Ok(said) => words.push(format!("{}: {said}", peer.ip())),
                Err(Trouble { phase, message }) if !is_enough => {
                    let count = family.len() - fine;
                    let of_many = match family.len() {
                        1 => String::new(),
                        asked => format!("{count} of {asked} peers: "),
                    };
                    let message = format!("{of_many}{}: {message}", peer.ip());
                    return Err(Trouble::new(*phase, message));
                }
                Err(trouble) => {
                    words.push(format!("{}, not counted: {}", peer.ip(), trouble.message));
                }
            }
        }
    }
    Ok(words.join("; "))
}

async fn meet(peer: SocketAddr, udp: Option<&Udp>, until: Instant) -> Meeting {
    let asked = match ask(peer, until).await {
        Ok(asked) => asked,
        Err(trouble) => {
            return Meeting {
                peer,
                dialled: Err(trouble),
                loss: None,
            };
        }
    };
    let Deal { own, cookie, .. } = asked.deal;
    let loss = udp.map(|udp| udp::measure(peer, own, cookie, udp, until));
    let (dialled, loss) = join(asked.wait(until), OptionFuture::from(loss)).await;
    Meeting {
        peer,
        dialled,
        loss,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        format!("{text}:1").parse().unwrap()
    }

    #[test]
    fn a_few_of_each_family_are_asked_and_each_only_once() {
        let mut all: Vec<SocketAddr> = (1..=200).map(|n| at(&format!("10.0.0.{n}"))).collect();
        all.push(at("[fd00::1]"));
        let mut some = some_of_each_family(all);
        assert_eq!(some.len(), ASKED + 1);
        some.sort();
        some.dedup();
        assert_eq!(some.len(), ASKED + 1);
        let few = vec![at("10.0.0.1"), at("10.0.0.2")];
        assert_eq!(some_of_each_family(few.clone()), few);
    }

    #[test]
    fn most_of_each_family_must_be_fine() {
        let (fine, bad) = (
            Ok("dialled back".to_owned()),
            Err(Trouble::new(Phase::Connect, "gone")),
        );
        let [a, b, c, six] = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "[fd00::1]"].map(at);
        let said = judge(&[(a, &fine), (b, &bad), (c, &fine)]).unwrap();
        assert!(said.contains("10.0.0.2, not counted: gone"), "{said}");
        let trouble = judge(&[(a, &bad), (b, &bad), (c, &fine)]).unwrap_err();
        assert_eq!(trouble.message, "2 of 3 peers: 10.0.0.1: gone");
        assert_eq!(judge(&[(a, &bad)]).unwrap_err().message, "10.0.0.1: gone");
        assert!(judge(&[(a, &fine), (b, &bad)]).is_err(), "half is not most");
        assert!(judge(&[(a, &fine), (b, &fine), (six, &bad)]).is_err());
    }
}
