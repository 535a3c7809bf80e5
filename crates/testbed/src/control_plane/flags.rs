//! The command lines of the four parts.
//!
//! Owns flags and nothing else. Everything listens on loopback. Called by the harness.

use super::Layout;

/// Far above what they need, so that a roll never waits for their own limits.
const UNHURRIED: [&str; 2] = ["--kube-api-qps=500", "--kube-api-burst=1000"];

impl Layout {
    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub(super) fn etcd(&self) -> Vec<String> {
        let client = format!("http://127.0.0.1:{}", self.etcd_client);
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer);
        vec![
            "--name=testbed".into(),
            format!("--data-dir={}", self.file("etcd")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=testbed={peer}"),
            // The data ends with the test: durability would only cost time.
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
        ]
    }

    pub(super) fn api_server(&self) -> Vec<String> {
        let mut flags = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_client),
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            format!("--secure-port={}", self.secure),
            format!("--tls-cert-file={}", self.file("serving.crt")),
            format!("--tls-private-key-file={}", self.file("serving.key")),
            format!("--client-ca-file={}", self.file("ca.crt")),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", self.file("sa.pub")),
            format!("--service-account-signing-key-file={}", self.file("sa.key")),
            "--service-cluster-ip-range=10.0.0.0/16".into(),
            "--authorization-mode=Node,RBAC".into(),
            "--enable-admission-plugins=NodeRestriction".into(),
            "--allow-privileged=true".into(),
            "--endpoint-reconciler-type=none".into(),
            format!("--audit-policy-file={}", self.file("audit-policy.json")),
            format!("--audit-log-path={}", self.file("audit.log")),
            // Written before the answer goes out, so that a test finds what it has just done.
            "--audit-log-mode=blocking".into(),
            // In megabytes: a log that begins anew in the middle of a story has lost its first half.
            "--audit-log-maxsize=16384".into(),
            "--profiling=false".into(),
        ];
        if !self.controllers {
            flags.push("--disable-admission-plugins=ServiceAccount".into());
        }
        flags
    }

    pub(super) fn controller_manager(&self) -> Vec<String> {
        let [port, _] = self.metrics;
        vec![
            format!(
                "--kubeconfig={}",
                self.file("kube-controller-manager.kubeconfig")
            ),
            format!("--service-account-private-key-file={}", self.file("sa.key")),
            format!("--root-ca-file={}", self.file("ca.crt")),
            "--use-service-account-credentials".into(),
            "--leader-elect=false".into(),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", self.file("controller-manager-certs")),
            "--node-monitor-period=1s".into(),
            // Our kubelets renew every ten seconds, as real ones do.
            "--node-monitor-grace-period=40s".into(),
        ]
        .into_iter()
        .chain(UNHURRIED.map(str::to_owned))
        .collect()
    }

    pub(super) fn scheduler(&self) -> Vec<String> {
        let [_, port] = self.metrics;
        vec![
            format!("--kubeconfig={}", self.file("kube-scheduler.kubeconfig")),
            "--leader-elect=false".into(),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", self.file("scheduler-certs")),
        ]
        .into_iter()
        .chain(UNHURRIED.map(str::to_owned))
        .collect()
    }
}
