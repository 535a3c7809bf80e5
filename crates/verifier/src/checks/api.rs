//! The API server: by its service address, by the addresses behind it, with much to say and to hear, and its clock.

use std::net::SocketAddr;

use futures::future::{join, join_all};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::{Round, finding};
use crate::clock;
use crate::contact::{Client, Reply};
use crate::report::{Check, Finding, Phase, Trouble};
use crate::settings::Api;

/// Header lines that make a request of about 12 kilobytes, which is at least two packets on every network.
const PADDING: usize = 4;
/// An answer shorter than this may fit into one packet.
const LARGE: usize = 1500;

/// All that is asked of the API server.
pub(super) async fn check(round: &Round<'_>, api: &Api, client: &Client) -> Vec<Finding> {
    let direct = join_all(
        api.endpoints
            .iter()
            .map(|address| version(round, client, *address)),
    );
    let (mut findings, direct) = join(by_service(round, api, client), direct).await;
    findings.extend(direct.into_iter().map(|(finding, _)| finding));
    findings
}

async fn by_service(round: &Round<'_>, api: &Api, client: &Client) -> Vec<Finding> {
    let begin = Instant::now();
    let address = match round.addresses(&api.target, round.until()).await {
        Ok(addresses) => addresses.first().copied(),
        Err(trouble) => {
            let target = format!("https://{}/version", api.target);
            return vec![finding(Check::ApiVersion, target, begin, Err(trouble))];
        }
    };
    // A name that resolves has at least one address.
    let Some(address) = address else {
        return Vec::new();
    };
    let (first, reply) = version(round, client, address).await;
    let Some((reply, heard)) = reply else {
        return vec![first];
    };
    let (answer, request) = join(
        large_answer(round, api, client, address),
        large_request(round, client, address),
    )
    .await;
    let skew = judge_clock(&reply, heard, api);
    let clock = finding(
        Check::ApiClock,
        format!("https://{address}"),
        Instant::now(),
        skew,
    );
    vec![first, answer, request, clock]
}

/// Asks for the version; with the answer and when it came, if it is one of an API server.
async fn version(
    round: &Round<'_>,
    client: &Client,
    address: SocketAddr,
) -> (Finding, Option<(Reply, Timestamp)>) {
    let begin = Instant::now();
    let reply = client.get(address, "/version", 0, round.until()).await;
    let heard = clock::now();
    let (result, reply) = match reply {
        Err(trouble) => (Err(trouble), None),
        Ok(reply) => {
            let result = judge_version(&reply);
            let reply = result.is_ok().then_some((reply, heard));
            (result, reply)
        }
    };
    let target = format!("https://{address}/version");
    (finding(Check::ApiVersion, target, begin, result), reply)
}

/// A stranger may be turned away: that too is an answer, and it came over a connection that is proven.
fn judge_version(reply: &Reply) -> Result<String, Trouble> {
    match reply.status {
        200 => {
            let version = serde_json::from_slice::<Value>(&reply.body)
                .ok()
                .and_then(|body| body.get("gitVersion")?.as_str().map(str::to_owned));
            version.ok_or_else(|| {
                let message = "the answer has no gitVersion: this is not a Kubernetes API server";
                Trouble::new(Phase::Http, message)
            })
        }
        401 | 403 => Ok(format!(
            "answers {} to a request without a token, which is proof enough",
            reply.status
        )),
        status => Err(Trouble::new(Phase::Http, format!("answers {status}"))),
    }
}

async fn large_answer(
    round: &Round<'_>,
    api: &Api,
    client: &Client,
    address: SocketAddr,
) -> Finding {
    let begin = Instant::now();
    let path = &api.large_answer_path;
    let reply = client.get(address, path, 0, round.until()).await;
    let result = reply.map(|reply| match reply.bytes {
        bytes if bytes >= LARGE => format!("{bytes} bytes came through"),
        bytes => format!(
            "the answer ({}) has {bytes} bytes only, which proves nothing about large packets",
            reply.status
        ),
    });
    let target = format!("https://{address}{path}");
    finding(Check::ApiLargeAnswer, target, begin, result)
}

async fn large_request(round: &Round<'_>, client: &Client, address: SocketAddr) -> Finding {
    let begin = Instant::now();
    let reply = client
        .get(address, "/version", PADDING, round.until())
        .await;
    let result = reply.map(|_| "12 kilobytes came through".to_owned());
    let target = format!("https://{address}/version");
    finding(Check::ApiLargeRequest, target, begin, result)
}

/// The header has whole seconds and is older than its arrival, so a second more or less says nothing.
fn judge_clock(reply: &Reply, heard: Timestamp, api: &Api) -> Result<String, Trouble> {
    let Some(theirs) = reply.date else {
        let message = "cannot be compared: the answer has no Date";
        return Err(Trouble::new(Phase::Http, message));
    };
    let skew = heard.duration_since(theirs);
    let seconds = skew.unsigned_abs().as_secs();
    let side = if skew.is_negative() {
        "behind"
    } else {
        "ahead of"
    };
    let said = format!("this node's clock is {seconds} s {side} that of the API server");
    if skew.abs() > api.max_clock_skew {
        let most = api.max_clock_skew.as_secs();
        return Err(Trouble::new(
            Phase::Http,
            format!("{said}, {most} s are allowed"),
        ));
    }
    Ok(said)
}
