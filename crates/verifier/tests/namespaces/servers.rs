//! Name servers and API servers, as small as they can be, that misbehave as they are told.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{RData, Record, RecordType};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

/// Address of the API server.
pub(crate) const API: &str = "10.77.2.20";
pub(crate) const API_V6: &str = "fd77:2::20";

const NAME: &str = "kubernetes.default.svc.cluster.local.";
/// As long as a real one with all its lines.
const LIVEZ_LINES: usize = 60;
/// Names that make a certificate as large as those of big clusters are.
const MANY_NAMES: usize = 80;

/// How the servers behave.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// What the name of the API server's service resolves to.
    pub(crate) service: Vec<IpAddr>,
    pub(crate) certificate: Certificate,
    /// Seconds by which the API server's clock is ahead of the node's.
    pub(crate) clock_offset: i64,
    /// How the API server answers.
    pub(crate) manner: Manner,
}

/// How the API server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As it should.
    Polite,
    /// With this status, and nothing to say.
    Curt(u16),
    /// Without a word about the time.
    Timeless,
}

/// Where servers listen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) dns: Vec<SocketAddr>,
    pub(crate) api: Vec<SocketAddr>,
}

/// What the API server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certificate {
    /// Fits into one small packet.
    Small,
    /// Does not.
    Large,
    OfAnotherAuthority,
}

/// Signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    fn server(&self, names: Vec<String>) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap()
    }
}

impl Cluster {
    /// Nothing is wrong with it.
    pub(crate) fn healthy() -> Self {
        Self {
            service: vec![API.parse().unwrap()],
            certificate: Certificate::Small,
            clock_offset: 0,
            manner: Manner::Polite,
        }
    }

    /// Serves at the given addresses until told to stop; says which they are, should a port be free to choose.
    pub(crate) async fn serve(
        self,
        authority: &Authority,
        wanted: Addresses,
        ready: Sender<Addresses>,
        stopped: oneshot::Receiver<()>,
    ) {
        let cluster = Arc::new(self);
        let acceptor = TlsAcceptor::from(Arc::new(cluster.tls(authority)));
        let mut bound = Addresses::default();
        for at in wanted.dns {
            let tcp = TcpListener::bind(at).await.unwrap();
            let at = tcp.local_addr().unwrap();
            let udp = UdpSocket::bind(at).await.unwrap();
            tokio::spawn(serve_names_by_udp(udp, cluster.clone()));
            tokio::spawn(serve_names_by_tcp(tcp, cluster.clone()));
            bound.dns.push(at);
        }
        for at in wanted.api {
            let tcp = TcpListener::bind(at).await.unwrap();
            bound.api.push(tcp.local_addr().unwrap());
            tokio::spawn(serve_api(tcp, acceptor.clone(), cluster.clone()));
        }
        ready.send(bound).unwrap();
        // The other end is dropped, not used.
        drop(stopped.await);
    }

    fn tls(&self, authority: &Authority) -> ServerConfig {
        let mut names = [API, API_V6, "127.0.0.1"].map(String::from).to_vec();
        match self.certificate {
            Certificate::Small => authority.server(names),
            Certificate::Large => {
                names.extend((0..MANY_NAMES).map(|number| format!("name-{number}.example.com")));
                authority.server(names)
            }
            Certificate::OfAnotherAuthority => Authority::new().server(names),
        }
    }

    fn resolve(&self, question: &[u8]) -> Vec<u8> {
        let question = Message::from_vec(question).unwrap();
        let query = question.queries.first().unwrap().clone();
        let mut answer = question.into_response();
        if query.name.to_string() != NAME {
            answer.metadata.response_code = ResponseCode::NXDomain;
            return answer.to_vec().unwrap();
        }
        for address in &self.service {
            let data = match (address, query.query_type) {
                (IpAddr::V4(ip), RecordType::A) => RData::A(A(*ip)),
                (IpAddr::V6(ip), RecordType::AAAA) => RData::AAAA(AAAA(*ip)),
                _ => continue,
            };
            answer.add_answer(Record::from_rdata(query.name.clone(), 5, data));
        }
        answer.to_vec().unwrap()
    }

    fn answer(&self, request: &str) -> String {
        let body = if request.starts_with("GET /livez?verbose ") {
            "[+]poststarthook/some-controller ok\n".repeat(LIVEZ_LINES)
        } else {
            r#"{"major":"1","minor":"35","gitVersion":"v1.35.0"}"#.to_owned()
        };
        let (status, body) = match self.manner {
            Manner::Polite | Manner::Timeless => (200, body),
            Manner::Curt(status) => (status, String::new()),
        };
        let date = match self.manner {
            Manner::Timeless => String::new(),
            Manner::Polite | Manner::Curt(_) => format!("Date: {}\r\n", self.date()),
        };
        format!(
            "HTTP/1.1 {status} Word\r\n{date}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the node's clock is real, and this one is compared with it"
    )]
    fn date(&self) -> String {
        let clock = Timestamp::now() + SignedDuration::from_secs(self.clock_offset);
        rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&clock)
            .unwrap()
    }
}

async fn serve_names_by_udp(socket: UdpSocket, cluster: Arc<Cluster>) {
    let mut question = [0; 512];
    while let Ok((length, asker)) = socket.recv_from(&mut question).await {
        let answer = cluster.resolve(question.get(..length).unwrap());
        // Where the way back is cut the answer cannot be sent, and that is what is tested.
        drop(socket.send_to(&answer, asker).await);
    }
}

async fn serve_names_by_tcp(listener: TcpListener, cluster: Arc<Cluster>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            let length = stream.read_u16().await?;
            let mut question = vec![0; length.into()];
            stream.read_exact(&mut question).await?;
            let answer = cluster.resolve(&question);
            stream
                .write_u16(u16::try_from(answer.len()).unwrap())
                .await?;
            stream.write_all(&answer).await
        });
    }
}

async fn serve_api(listener: TcpListener, acceptor: TlsAcceptor, cluster: Arc<Cluster>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, cluster) = (acceptor.clone(), cluster.clone());
        tokio::spawn(answer_once(stream, acceptor, cluster));
    }
}

async fn answer_once(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    cluster: Arc<Cluster>,
) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let answer = cluster.answer(&String::from_utf8_lossy(&request));
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
