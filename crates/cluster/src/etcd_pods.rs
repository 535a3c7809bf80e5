//! Where etcd's members are reached, as kubeadm's own pods say.
//!
//! Owns the reading of those pods. Must not speak to etcd. A pod says where a member is, never whether
//! it is well. Called before every look at etcd.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use crate::error::{Result, call};

/// Where kubeadm runs etcd.
const NAMESPACE: &str = "kube-system";
/// The labels of its pods.
const LABELS: &str = "component=etcd,tier=control-plane";
/// The annotation in which kubeadm notes where a member is reached.
const ADVERTISED: &str = "kubeadm.kubernetes.io/etcd.advertise-client-urls";
/// Where etcd serves its clients unless somebody says otherwise.
const PORT: u16 = 2379;

/// Addresses of all members that run as pods of kubeadm, asked live.
pub async fn endpoints(client: Client) -> Result<Vec<String>> {
    let api: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let params = ListParams::default().labels(LABELS);
    let pods = call("list", "Pods of etcd", api.list(&params)).await?;
    let mut found: Vec<String> = pods.items.iter().flat_map(addresses).collect();
    found.sort();
    found.dedup();
    Ok(found)
}

fn addresses(pod: &Pod) -> Vec<String> {
    if let Some(urls) = pod.annotations().get(ADVERTISED) {
        return urls.split(',').map(|url| url.trim().to_owned()).collect();
    }
    let status = pod.status.as_ref();
    let address = status.and_then(|status| status.pod_ip.as_deref());
    let url = |address: &str| {
        if address.contains(':') {
            format!("https://[{address}]:{PORT}")
        } else {
            format!("https://{address}:{PORT}")
        }
    };
    address.map(url).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodStatus;

    use super::*;

    #[test]
    fn what_kubeadm_notes_counts_before_the_address_of_the_pod() {
        let mut pod = Pod {
            status: Some(PodStatus {
                pod_ip: Some("10.0.0.7".to_owned()),
                ..PodStatus::default()
            }),
            ..Pod::default()
        };
        assert_eq!(addresses(&pod), ["https://10.0.0.7:2379"]);
        if let Some(status) = &mut pod.status {
            status.pod_ip = Some("fd00::7".to_owned());
        }
        assert_eq!(addresses(&pod), ["https://[fd00::7]:2379"]);
        let noted = "https://10.0.0.8:2379, https://10.0.0.9:2379".to_owned();
        pod.annotations_mut().insert(ADVERTISED.to_owned(), noted);
        let both = ["https://10.0.0.8:2379", "https://10.0.0.9:2379"];
        assert_eq!(addresses(&pod), both);
        assert_eq!(addresses(&Pod::default()), Vec::<String>::new());
    }
}
