//! Asks name servers: one of them by one transport, or all of them as the pod's resolver would.
//!
//! Owns repetition, order and fallback. Keeps nothing: no cache, no hosts file.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use futures::future::{join, join_all};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout_at};

use crate::codec::{self, Answer, Family};
use crate::dial;
use crate::report::{Phase, Trouble};
use crate::resolv::ResolvConf;

/// How often a question is sent by UDP before its time is over: one lost packet is no fault of a node.
const SENDS: u32 = 3;
/// Longest answer by UDP that is looked at.
const DATAGRAM: usize = 4096;

/// By what a question goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// Whom to ask, and what to complete short names with.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    pub(crate) conf: ResolvConf,
    pub(crate) servers: Vec<SocketAddr>,
}

/// Asks one server several times at once for both families; every question must be answered.
pub(crate) async fn ask_often(
    server: SocketAddr,
    transport: Transport,
    name: &str,
    times: u32,
    until: Instant,
) -> Result<Vec<IpAddr>, Trouble> {
    let asks = (0..times).map(|_| ask_once(server, transport, name, until));
    let (mut addresses, mut failed) = (BTreeSet::new(), Vec::new());
    for result in join_all(asks).await {
        match result {
            Ok(found) => addresses.extend(found),
            Err(trouble) => failed.push(trouble),
        }
    }
    match failed.first() {
        None => Ok(addresses.into_iter().collect()),
        Some(Trouble { phase, message }) => {
            let count = failed.len();
            let message = format!("{count} of {times} lookups failed: {message}");
            Err(Trouble::new(*phase, message))
        }
    }
}

/// Asks one server for both families.
async fn ask_once(
    server: SocketAddr,
    transport: Transport,
    name: &str,
    until: Instant,
) -> Result<Vec<IpAddr>, Trouble> {
    let answers = ask_both(server, transport, name, until).await?;
    let mut addresses = Vec::new();
    for (family, answer) in answers {
        if !answer.is_no_error() {
            let (record, code) = (family.record(), answer.code_name());
            let message = format!("the answer to the question for {record} records is {code}");
            return Err(Trouble::new(Phase::Dns, message));
        }
        addresses.extend(answer.addresses);
    }
    if addresses.is_empty() {
        let message = "the answer has no address, neither of IPv4 nor of IPv6";
        return Err(Trouble::new(Phase::Dns, message));
    }
    Ok(addresses)
}

async fn ask_both(
    server: SocketAddr,
    transport: Transport,
    name: &str,
    until: Instant,
) -> Result<[(Family, Answer); 2], Trouble> {
    let (four, six) = join(
        ask(server, transport, name, Family::V4, until),
        ask(server, transport, name, Family::V6, until),
    )
    .await;
    Ok([(Family::V4, four?), (Family::V6, six?)])
}

async fn ask(
    server: SocketAddr,
    transport: Transport,
    name: &str,
    family: Family,
    until: Instant,
) -> Result<Answer, Trouble> {
    let question = codec::question(any_id(), name, family);
    if transport == Transport::Udp {
        let answer = ask_by_udp(server, &question, family, until).await?;
        // What was cut off is asked for again by TCP, as every resolver does.
        if !answer.is_truncated || !answer.addresses.is_empty() {
            return Ok(answer);
        }
    }
    let stream = dial::connect(server, until).await?;
    dial::step(until, Phase::Dns, ask_by_tcp(stream, &question, family)).await
}

async fn ask_by_udp(
    server: SocketAddr,
    question: &[u8],
    family: Family,
    until: Instant,
) -> Result<Answer, Trouble> {
    let trouble = |error: io::Error| Trouble::new(Phase::Dns, error.to_string());
    let local: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((local, 0)).await.map_err(trouble)?;
    socket.connect(server).await.map_err(trouble)?;
    let pause = until.saturating_duration_since(Instant::now()) / SENDS;
    let mut datagram = vec![0; DATAGRAM];
    for _ in 0..SENDS {
        // The same socket each time: a service sends all of them to the same server behind it.
        socket.send(question).await.map_err(trouble)?;
        let next = Instant::now() + pause;
        while let Ok(received) = timeout_at(next, socket.recv(&mut datagram)).await {
            let length = received.map_err(trouble)?;
            let message = datagram.get(..length).unwrap_or_default();
            if let Some(answer) = codec::answer(message, question, family) {
                return Ok(answer);
            }
        }
    }
    let message = format!("no answer in time, though asked {SENDS} times");
    Err(Trouble::new(Phase::Dns, message))
}

async fn ask_by_tcp(mut stream: TcpStream, question: &[u8], family: Family) -> io::Result<Answer> {
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    let mut message = length.to_be_bytes().to_vec();
    message.extend(question);
    stream.write_all(&message).await?;
    let length = stream.read_u16().await.map_err(closed)?;
    let mut answer = vec![0; length.into()];
    stream.read_exact(&mut answer).await.map_err(closed)?;
    codec::answer(&answer, question, family)
        .ok_or_else(|| io::Error::other("what came back is not an answer to the question"))
}

/// The library's words for a connection that ended are "early eof".
fn closed(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return io::Error::other("the server closed the connection before a whole answer came");
    }
    error
}

/// An id that others cannot guess well enough to answer in a server's place.
fn any_id() -> u16 {
    let [first, second, ..] = RandomState::new().build_hasher().finish().to_be_bytes();
    u16::from_be_bytes([first, second])
}

impl Resolver {
    /// All addresses of a name that may be short, as a program in the pod would get them.
    pub(crate) async fn resolve(&self, name: &str, until: Instant) -> Result<Vec<IpAddr>, Trouble> {
        match self.known(name, until).await? {
            Some(addresses) if !addresses.is_empty() => Ok(addresses),
            Some(_) | None => {
                let candidates = self.conf.candidates(name).join(", ");
                let message = format!("no address under any of {candidates}");
                Err(Trouble::new(Phase::Dns, message))
            }
        }
    }

    /// The same for a name that may be known and have no address, as that of a Service without pods; nothing if it is not
    /// known.
    pub(crate) async fn known(
        &self,
        name: &str,
        until: Instant,
    ) -> Result<Option<Vec<IpAddr>>, Trouble> {
        let mut known = None;
        for candidate in self.conf.candidates(name) {
            match self.addresses(&candidate, until).await? {
                Some(addresses) if !addresses.is_empty() => return Ok(Some(addresses)),
                Some(none) => known = Some(none),
                None => {}
            }
        }
        Ok(known)
    }

    /// The addresses of a full name from the first server that knows; nothing if there is no such name.
    async fn addresses(&self, name: &str, until: Instant) -> Result<Option<Vec<IpAddr>>, Trouble> {
        let mut last = Trouble::new(Phase::Dns, "no name server is configured");
        for (number, server) in self.servers.iter().enumerate() {
            let others = u32::try_from(self.servers.len() - number).unwrap_or(u32::MAX);
            let share = until.saturating_duration_since(Instant::now()) / others;
            match self.ask_for_program(*server, name, share).await {
                Ok(addresses) => return Ok(addresses),
                Err(Trouble { phase, message }) => {
                    last = Trouble::new(phase, format!("{}: {message}", server.ip()));
                }
            }
        }
        Err(last)
    }

    async fn ask_for_program(
        &self,
        server: SocketAddr,
        name: &str,
        share: Duration,
    ) -> Result<Option<Vec<IpAddr>>, Trouble> {
        let until = Instant::now() + share;
        let (mut addresses, mut is_known) = (Vec::new(), false);
        for (_, answer) in ask_both(server, Transport::Udp, name, until).await? {
            if !answer.is_no_error() && !answer.is_no_such_name() {
                let message = format!("the answer for {name} is {}", answer.code_name());
                return Err(Trouble::new(Phase::Dns, message));
            }
            is_known |= answer.is_no_error();
            addresses.extend(answer.addresses);
        }
        Ok(is_known.then_some(addresses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_closes_the_connection_is_told_in_words() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap());
        let (stream, accepted) = join(stream, listener.accept()).await;
        let (mut server, _) = accepted.unwrap();
        // Half of an answer's length, and then no more.
        server.write_all(&[0]).await.unwrap();
        server.shutdown().await.unwrap();
        let told = ask_by_tcp(stream.unwrap(), &[0; 12], Family::V4).await;
        let told = told.unwrap_err().to_string();
        assert!(told.contains("closed the connection"), "{told}");
    }
}
