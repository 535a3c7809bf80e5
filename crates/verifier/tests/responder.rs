//! People who would like to misuse a peer, and peers that cheat, in network namespaces of the test's own.
//!
//! Needs root, `ip` and `nft`; nothing is sent outside the namespaces.

#![expect(
    clippy::unwrap_used,
    reason = "the steps of the tests are functions, which the lint does not take for tests"
)]

#[path = "namespaces/servers.rs"]
#[expect(dead_code, reason = "what is wrong with an answer is for other tests")]
mod servers;
#[path = "namespaces/stage.rs"]
#[expect(dead_code, reason = "some of it is for the tests of other checks")]
mod stage;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use servers::Cluster;
use shipshape_verifier::{Check, Phase, Report, WORKER_PORTS};
use stage::{Families, Stage};

const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(5);

fn settings(stage: &Stage, more: &str) -> String {
    let peer = stage.peers().first().unwrap().to_string();
    format!("peers: ['{peer}']\n{more}")
}

/// What failed, where, and in what words.
fn failures(report: &Report) -> Vec<(Check, Phase, &str)> {
    let failed = report.findings.iter().filter(|finding| !finding.ok);
    failed
        .map(|finding| {
            (
                finding.check,
                finding.phase.unwrap(),
                finding.message.as_str(),
            )
        })
        .collect()
}

fn ask(at: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    // Whoever sends too much is cut off before all was read.
    drop(stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

/// Asks to be dialled back; what the peer says first.
fn cookie_of(at: SocketAddr) -> String {
    let nonce = "0".repeat(32);
    let answer = ask(
        at,
        format!("shipshape-peer/1 dial 47300 {nonce}\n").as_bytes(),
    );
    let cookie = answer.strip_prefix("cookie ").unwrap();
    cookie.split(' ').next().unwrap().to_owned()
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_bad_request_gets_one_line_and_an_end() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let _peers = stage.start_peers();
    let peer = *stage.peers().first().unwrap();
    stage.on_node(move |_| {
        let nonce = "0".repeat(32);
        for (request, word) in [
            ("GET / HTTP/1.1\n".to_owned(), "is expected"),
            (
                format!("shipshape-peer/1 dial 22 {nonce}\n"),
                "ports from 47300 to 47399",
            ),
            (
                format!("shipshape-peer/1 dial 10.77.2.20 47300 {nonce}\n"),
                "is expected",
            ),
            ("\n".to_owned(), "is expected"),
            (
                "shipshape-peer/1 count 0000000000000000\n".to_owned(),
                "not known",
            ),
            ("x".repeat(200), "more than 160 bytes"),
        ] {
            let answer = ask(peer, request.as_bytes());
            assert!(
                answer.starts_with("refused ") && answer.contains(word),
                "{request:?}: {answer:?}"
            );
            assert_eq!(answer.lines().count(), 1, "{answer:?}");
        }
    });
}

#[test]
#[ignore = "needs root and network namespaces"]
fn packets_are_echoed_once_to_whom_the_cookie_was_given_and_to_nobody_else() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let _peers = stage.start_peers();
    let peer = *stage.peers().first().unwrap();
    let cookie = stage.on_node(move |_| cookie_of(peer));
    let packet = |cookie: &str, length: usize| {
        let mut packet = b"SHIPPEER".to_vec();
        packet.extend(u64::from_str_radix(cookie, 16).unwrap().to_be_bytes());
        packet.resize(length, 7);
        packet
    };
    let sent = [
        packet(&cookie, 20),
        packet(&cookie, 1400),
        packet(&cookie, 1401),
        packet(&cookie, 19),
        packet("0000000000000001", 100),
        vec![0; 1400],
    ];
    let wanted: Vec<Vec<u8>> = sent.iter().take(2).cloned().collect();
    let echoes = move |sent: Vec<Vec<u8>>| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(SHORT)).unwrap();
        for packet in &sent {
            socket.send_to(packet, peer).unwrap();
        }
        let mut buffer = [0; 2000];
        let mut seen = Vec::new();
        while let Ok(length) = socket.recv(&mut buffer) {
            seen.push(buffer.get(..length).unwrap().to_vec());
        }
        seen
    };
    let copies = sent.to_vec();
    assert_eq!(stage.on_node(move |_| echoes(copies)), wanted);
    // Another address has no use for the same cookie.
    let stolen = vec![packet(&cookie, 100)];
    assert!(stage.on_way(move |_| echoes(stolen)).is_empty());
    // Nor is a cookie good for ever.
    let many = vec![packet(&cookie, 20); 1500];
    let echoed = stage.on_node(move |_| echoes(many)).len();
    assert!(echoed <= 998, "{echoed}");
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_flood_of_connections_from_one_address_does_not_keep_others_out() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    let _peers = stage.start_peers();
    let peer = *stage.peers().first().unwrap();
    let flood = stage.way_thread(move |_| {
        let garbage = UdpSocket::bind("0.0.0.0:0").unwrap();
        let mut held = Vec::new();
        for number in 0..600u32 {
            // Held open without a word.
            held.extend(TcpStream::connect(peer).ok());
            for _ in 0..30 {
                drop(garbage.send_to(&number.to_be_bytes().repeat(300), peer));
            }
        }
        let answers = held.into_iter().map(|mut stream| {
            stream.set_read_timeout(Some(LONG)).unwrap();
            let mut answer = String::new();
            drop(stream.read_to_string(&mut answer));
            answer
        });
        answers.collect::<Vec<String>>()
    });
    // The node is served meanwhile; packets may get lost in the crowd.
    let report = stage.verify(&settings(&stage, ""));
    assert_eq!(failures(&report), []);
    let answers = flood.join().unwrap();
    let busy = answers.iter().filter(|answer| *answer == "busy\n").count();
    assert!(busy > 480, "{busy} of {} were turned away", answers.len());
    // The few that were let in have been sent away.
    let silent = "refused no request came in time\n";
    let rest = answers.iter().filter(|answer| *answer == silent).count();
    assert!(rest > 0 && busy + rest == answers.len(), "{answers:?}");
    let report = stage.verify(&settings(&stage, "udp: {packets: 20}"));
    assert_eq!(failures(&report), []);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_nonce_counts_only_from_the_peers_own_new_connection() {
    let stage = Stage::start(Families::V4, Cluster::healthy());
    // A peer that gives the nonce away: somebody else dials with it.
    let at = *stage.peers().first().unwrap();
    let (heard, nonces) = std::sync::mpsc::channel::<(SocketAddr, String)>();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let thief = stage.cluster_thread(move |_| {
        let listener = TcpListener::bind(at).unwrap();
        ready.send(()).unwrap();
        let (mut stream, from) = listener.accept().unwrap();
        let mut buffer = [0; 200];
        let length = stream.read(&mut buffer).unwrap();
        let line = String::from_utf8_lossy(buffer.get(..length).unwrap()).into_owned();
        let words: Vec<&str> = line.trim_end().split(' ').collect();
        let [_, _, port, nonce] = words.as_slice() else {
            panic!("{line}");
        };
        let back = SocketAddr::new(from.ip(), port.parse().unwrap());
        assert!(WORKER_PORTS.contains(&back.port()));
        stream
            .write_all(format!("cookie {:016x} {}\n", 1, from.ip()).as_bytes())
            .unwrap();
        // The first address of the namespace is not the peer's.
        let mut other = TcpStream::connect(back).unwrap();
        other
            .write_all(format!("shipshape-peer/1 nonce {nonce}\n").as_bytes())
            .unwrap();
        other.shutdown(Shutdown::Both).unwrap();
        heard.send((from, (*nonce).to_owned())).unwrap();
    });
    is_ready.recv().unwrap();
    let report = stage.verify(&settings(&stage, ""));
    let [(Check::Peer, Phase::Connect, said)] = failures(&report)[..] else {
        panic!("{report:#?}");
    };
    assert!(
        said.contains("came from 10.77.2.2 and not from the peer"),
        "{said}"
    );
    thief.join().unwrap();
    assert_eq!(nonces.recv().unwrap().1.len(), 32);
}
