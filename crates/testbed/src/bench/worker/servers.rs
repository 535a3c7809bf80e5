//! A name server and an API server on loopback that know one answer each.
//!
//! Owns their threads, which end with the process.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use anyhow::Result;
use jiff::fmt::rfc2822::DateTimePrinter;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use shipshape_cluster::Clock;

const NAME: &str = "kubernetes.default.svc.cluster.local";
/// An address of loopback that nobody else is likely to serve at.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 53, 0, 1);
/// Where a worker looks for the name server and the API server unless told otherwise.
const USUAL_PORTS: (u16, u16) = (53, 443);
/// A record of IPv4 in the question of a name.
const RECORD_A: [u8; 2] = [0, 1];
/// Before the name of a question.
const HEAD: usize = 12;
/// As many as a real one has.
const LIVEZ_LINES: usize = 60;

/// Where they listen.
pub(super) struct Servers {
    pub(super) api: SocketAddr,
    dns: SocketAddr,
}

impl Servers {
    /// Starts both and leaves the files of a pod that knows them.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let (dns_port, api_port) = USUAL_PORTS;
        let dns = bind(dns_port)?;
        let dns_at = dns.local_addr()?;
        let packets = UdpSocket::bind(dns_at)?;
        thread::spawn(move || serve_packets(&packets));
        thread::spawn(move || each(&dns, answer_by_tcp));
        let tls = Arc::new(tls(folder)?);
        let api = bind(api_port)?;
        let api_at = api.local_addr()?;
        thread::spawn(move || each(&api, move |stream| answer_request(stream, &tls)));
        fs::write(
            folder.join("resolv.conf"),
            format!(
                "nameserver {ADDRESS}\nsearch default.svc.cluster.local svc.cluster.local\noptions ndots:5\n"
            ),
        )?;
        Ok(Self {
            api: api_at,
            dns: dns_at,
        })
    }

    /// Whether a worker finds them without a word, as in a cluster. Else somebody else is there, or this is not root.
    pub(super) fn are_at_usual_ports(&self) -> bool {
        (self.dns.port(), self.api.port()) == USUAL_PORTS
    }

    /// Settings of the checks: everything there is, the optional ones too. On a busy machine packets get lost.
    pub(super) fn settings(&self, folder: &Path, peer: u16) -> String {
        let Self { api, dns } = self;
        let resolv_conf = folder.join("resolv.conf");
        format!(
            "clusterDnsIp: '{dns}'\ndns: {{resolvConf: '{}', endpoints: ['{dns}']}}\nservices: ['{NAME}:{}']\n\
             peers: ['127.0.0.1:{peer}']\nudp: {{maxLossPercent: 99}}\n",
            resolv_conf.display(),
            api.port()
        )
    }
}

/// Serves connections one after the other; what goes wrong with one shows in the checks.
fn each(listener: &TcpListener, serve: impl Fn(TcpStream) -> std::io::Result<()>) {
    while let Ok((stream, _)) = listener.accept() {
        if let Err(error) = serve(stream) {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

fn serve_packets(socket: &UdpSocket) {
    let mut buffer = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        let question = buffer.get(..length).unwrap_or_default();
        if let Some(answer) = resolve(question)
            && let Err(error) = socket.send_to(&answer, from)
        {
            tracing::debug!(%error, "an answer was not sent");
        }
    }
}

fn answer_by_tcp(mut stream: TcpStream) -> std::io::Result<()> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut question = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut question)?;
    let answer = resolve(&question).unwrap_or_default();
    let length = u16::try_from(answer.len()).map_err(std::io::Error::other)?;
    stream.write_all(&[length.to_be_bytes().as_slice(), &answer].concat())
}

/// The port that is wanted, or any.
fn bind(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((ADDRESS, port)).or_else(|_| TcpListener::bind((ADDRESS, 0)))
}

/// The address of the servers for every name.
fn resolve(question: &[u8]) -> Option<Vec<u8>> {
    let (id, rest) = question.split_first_chunk::<2>()?;
    let asked = rest.get(HEAD - 2..)?;
    let end = asked.iter().position(|byte| *byte == 0)?;
    // The name, its end, kind and class.
    let asked = asked.get(..end + 5)?;
    let is_four = asked.get(end + 1..end + 3)? == RECORD_A;
    let mut answer = id.to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_four), 0, 0, 0, 0]);
    answer.extend(asked);
    if is_four {
        answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4]);
        answer.extend(ADDRESS.octets());
    }
    Some(answer)
}

fn answer_request(stream: TcpStream, tls: &Arc<ServerConfig>) -> std::io::Result<()> {
    let connection = ServerConnection::new(tls.clone()).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            length => request.extend(buffer.get(..length).unwrap_or_default()),
        }
    }
    let body = if request.starts_with(b"GET /livez") {
        "[+]poststarthook/some-controller ok\n".repeat(LIVEZ_LINES)
    } else {
        r#"{"gitVersion":"v1.35.0"}"#.to_owned()
    };
    let date = DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&Clock::System.now())
        .map_err(std::io::Error::other)?;
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// A certificate for loopback, and the authority behind it as a file.
fn tls(folder: &Path) -> Result<ServerConfig> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    fs::write(folder.join("ca.crt"), params.self_signed(&key)?.pem())?;
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate()?;
    let certificate =
        CertificateParams::new(vec![ADDRESS.to_string()])?.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?)
}
