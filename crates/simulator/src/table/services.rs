//! The table of services.
//!
//! Owns their cells. Must not decide anything. Called by `built_in`.

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use super::cells::{labels, list, name, number, text, text_or};

/// The cells of one service.
pub(crate) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        Value::from(text(object, "/spec/type")),
        Value::from(text_or(object, "/spec/clusterIPs/0", "<none>")),
        Value::from(external_addresses(object)),
        Value::from(ports(object)),
        Value::from(age::since_text(
            object.pointer("/metadata/creationTimestamp"),
            now,
        )),
        Value::from(labels(object, "/spec/selector")),
    ]
}

fn external_addresses(object: &Value) -> String {
    let given = list(object, "/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str);
    let given: Vec<&str> = given.collect();
    match text(object, "/spec/type") {
        "ClusterIP" | "NodePort" if given.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => given.join(","),
        "LoadBalancer" => {
            let mut balanced: Vec<&str> = list(object, "/status/loadBalancer/ingress")
                .iter()
                .map(|ingress| text_or(ingress, "/ip", text(ingress, "/hostname")))
                .filter(|address| !address.is_empty())
                .collect();
            balanced.sort_unstable();
            balanced.extend(given);
            if balanced.is_empty() {
                "<pending>".to_owned()
            } else {
                balanced.join(",")
            }
        }
        "ExternalName" => text(object, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(object: &Value) -> String {
    let ports: Vec<String> = list(object, "/spec/ports")
        .iter()
        .map(|port| {
            let protocol = text_or(port, "/protocol", "TCP");
            match number(port, "/nodePort") {
                0 => format!("{}/{protocol}", number(port, "/port")),
                node => format!("{}:{node}/{protocol}", number(port, "/port")),
            }
        })
        .collect();
    if ports.is_empty() {
        "<none>".to_owned()
    } else {
        ports.join(",")
    }
}
