//! A request to the API server: TLS with the cluster's authority, then one HTTP/1.1 exchange; or the latter alone.
//!
//! Owns the few lines of both protocols that the checks need. Sends no token: what a stranger is told is enough.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::dial;
use crate::report::{Phase, Trouble};
use crate::target::Host;

/// Longest answer that is read; nothing that is asked for comes near it.
const LONGEST_ANSWER: usize = 1 << 20;
/// A header line of a padded request; servers and balancers take four of these.
const PADDING_LINE: usize = 3000;

/// Speaks to one API server, at whatever address.
#[derive(Clone)]
pub(crate) struct Client {
    connector: TlsConnector,
    name: ServerName<'static>,
    host: String,
}

/// What it said.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Its clock.
    pub(crate) date: Option<Timestamp>,
    pub(crate) body: Vec<u8>,
    /// The whole answer.
    pub(crate) bytes: usize,
}

impl Client {
    /// Trusts the authorities in a PEM file.
    pub(crate) fn new(ca_file: &Path, host: &Host) -> Result<Self, crate::Error> {
        let pem = std::fs::read(ca_file).map_err(|source| crate::Error::File {
            what: "the certificates of the API server's authority, apiServer.caFile",
            path: ca_file.to_owned(),
            source,
        })?;
        Self::of(&pem, host).map_err(|why| crate::Error::Authority {
            path: ca_file.to_owned(),
            why,
        })
    }

    fn of(pem: &[u8], host: &Host) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("is not PEM: {error}"))?;
            roots
                .add(certificate)
                .map_err(|error| format!("holds a certificate that is no authority: {error}"))?;
        }
        if roots.is_empty() {
            return Err("holds no certificate in PEM form".to_owned());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Each handshake is a whole one: its size is part of what is checked.
        config.resumption = rustls::client::Resumption::disabled();
        let name = match host {
            Host::Address(address) => ServerName::IpAddress((*address).into()),
            Host::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|error| format!("{name}: {error}"))?
            }
        };
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name,
            host: host.to_string(),
        })
    }

    /// One request on a connection of its own; `padding` header lines make it a large one.
    pub(crate) async fn get(
        &self,
        address: SocketAddr,
        path: &str,
        padding: usize,
        until: Instant,
    ) -> Result<Reply, Trouble> {
        let stream = dial::connect(address, until).await?;
        let handshake = self.connector.connect(self.name.clone(), stream);
        let mut stream = dial::step(until, Phase::Tls, handshake).await?;
        exchange(&mut stream, &request(&self.host, path, padding), until).await
    }
}

/// One request without TLS, to a server on the same machine.
pub(crate) async fn get_plain(
    address: SocketAddr,
    path: &str,
    until: Instant,
) -> Result<Reply, Trouble> {
    let mut stream = dial::connect(address, until).await?;
    exchange(&mut stream, &request(&address.to_string(), path, 0), until).await
}

fn request(host: &str, path: &str, padding: usize) -> String {
    let mut request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: shipshape-verify\r\nAccept: */*\r\nConnection: close\r\n",
    );
    for number in 0..padding {
        request += &format!("X-Padding-{number}: {}\r\n", "x".repeat(PADDING_LINE));
    }
    request + "\r\n"
}

async fn exchange(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &str,
    until: Instant,
) -> Result<Reply, Trouble> {
    let answer = dial::step(until, Phase::Http, async {
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        read(stream).await
    })
    .await?;
    parse(&answer).map_err(|message| Trouble::new(Phase::Http, message))
}

/// Reads until the answer is whole or the other side has no more to say.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    while answer.len() < LONGEST_ANSWER && !is_whole(&answer) {
        match stream.read_buf(&mut answer).await {
            Ok(0) => break,
            Ok(_) => {}
            // Many servers end without a farewell.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// Head and body, once the head is there.
fn split(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    Some((head, answer.get(end + 4..)?))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn is_whole(answer: &[u8]) -> bool {
    let Some((head, body)) = split(answer) else {
        return false;
    };
    match header(head, "content-length").and_then(|length| length.parse().ok()) {
        Some(length) => body.len() >= length,
        None => header(head, "transfer-encoding").is_some() && body.ends_with(b"0\r\n\r\n"),
    }
}

fn parse(answer: &[u8]) -> Result<Reply, String> {
    let (head, body) = split(answer).ok_or_else(|| match answer.len() {
        0 => "the connection ended without an answer".to_owned(),
        bytes => format!("the connection ended after {bytes} bytes that are no HTTP answer"),
    })?;
    let length = header(head, "content-length").and_then(|length| length.parse().ok());
    let is_cut_short = answer.len() < LONGEST_ANSWER;
    if let Some(expected) = length.filter(|expected| is_cut_short && body.len() < *expected) {
        return Err(format!(
            "the connection ended after {} of {expected} bytes",
            body.len()
        ));
    }
    let status = head
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1)?.parse().ok())
        .ok_or("the answer is not HTTP/1.1")?;
    Ok(Reply {
        status,
        date: header(head, "date")
            .and_then(|date| rfc2822::parse(date).ok().map(|at| at.timestamp())),
        body: body.to_vec(),
        bytes: answer.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] =
        b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\n\r\n{}";

    #[test]
    fn an_answer_is_read_with_status_date_and_body() {
        let reply = parse(ANSWER).unwrap();
        assert_eq!(
            (reply.status, reply.body.as_slice()),
            (200, b"{}".as_slice())
        );
        assert_eq!(reply.date.unwrap().to_string(), "1994-11-06T08:49:37Z");
        assert_eq!(reply.bytes, ANSWER.len());
    }

    #[test]
    fn an_answer_is_whole_when_its_last_byte_is_there() {
        assert!(is_whole(ANSWER));
        for end in 0..ANSWER.len() {
            assert!(!is_whole(&ANSWER[..end]), "{end}");
        }
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
        assert!(is_whole(chunked) && !is_whole(&chunked[..chunked.len() - 1]));
    }

    #[test]
    fn an_answer_that_breaks_off_is_said_to() {
        let complaint = |bytes: &[u8]| parse(bytes).unwrap_err();
        assert_eq!(complaint(b""), "the connection ended without an answer");
        assert!(complaint(b"SSH-2.0").contains("7 bytes"));
        let end = ANSWER.len() - 1;
        assert!(complaint(&ANSWER[..end]).contains("1 of 2 bytes"));
        assert!(complaint(b"ICY 200 OK\r\n\r\n").contains("not HTTP/1.1"));
    }

    #[test]
    fn a_file_without_authorities_is_refused_with_a_word() {
        let host = Host::Name("a".to_owned());
        for (pem, why) in [
            ("", "holds no certificate"),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "no authority",
            ),
        ] {
            let complaint = Client::of(pem.as_bytes(), &host).err().unwrap();
            assert!(complaint.contains(why), "{complaint}");
        }
    }
}
