//! A run in a file, as somebody is about to create it.
//!
//! Owns reading it, and having it checked word by word as it was written: by the cluster, as a dry run,
//! or by the embedded API with the kinds of this version. Nothing is created.

use std::io::Read;
use std::path::Path;

use kube::api::PostParams;
use kube::core::Status;
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use shipshape_api::{NodePatchRun, names};
use shipshape_cluster::Clock;
use shipshape_simulator::ApiServer;

use crate::connect::Cluster;
use crate::failure::Failure;

/// What a server sets; a manifest that came out of a cluster carries it, and none goes back in.
const SET_BY_SERVER: [&str; 9] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];
/// Under its own name a run may exist already; then it is checked under this one.
const OTHER_NAME: &str = "-dry-run";

/// A run with its defaults, as a server would store it.
pub(crate) struct Checked {
    pub(crate) run: NodePatchRun,
    /// What could not be checked about it.
    pub(crate) notes: Vec<String>,
}

/// A manifest as a person wrote it, without what only a server sets.
struct Manifest<'a> {
    path: &'a Path,
    value: Value,
}

/// Reads a file, or standard input for `-`, and has the cluster check it and fill in defaults.
pub(crate) async fn checked(
    cluster: &Cluster,
    asked_namespace: Option<&str>,
    path: &Path,
) -> Result<Checked, Failure> {
    let mut manifest = Manifest::load(path)?;
    let namespace = manifest.settle(asked_namespace, &cluster.namespace)?;
    let note = match manifest.ask(&cluster.client, &namespace).await? {
        Ok(run) => {
            let notes = Vec::new();
            return Ok(Checked { run, notes });
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
            return Err(manifest.wrong(&plainly(&status.message)));
        }
        Err(kube::Error::Api(status)) => why_not(&status, &namespace),
        Err(error) => return Err(cluster.failure("check the manifest", &error)),
    };
    let note = format!(
        "the manifest was not checked by the cluster: {note}; by the kinds of shipshape {} it is right",
        env!("CARGO_PKG_VERSION")
    );
    let run = manifest.ask_here(&namespace).await?;
    let notes = vec![note];
    Ok(Checked { run, notes })
}

/// The same without any cluster.
pub(crate) async fn checked_here(
    asked_namespace: Option<&str>,
    path: &Path,
) -> Result<NodePatchRun, Failure> {
    let mut manifest = Manifest::load(path)?;
    let namespace = manifest.settle(asked_namespace, "default")?;
    manifest.ask_here(&namespace).await
}

/// Why the cluster did not look at a manifest.
fn why_not(status: &Status, namespace: &str) -> String {
    let kind = status.details.as_ref().map(|details| details.kind.as_str());
    match (status.code, kind) {
        (404, Some("namespaces")) => format!("it has no namespace {namespace}"),
        (404, _) => "it does not know the kinds of Shipshape yet".to_owned(),
        _ => status.message.clone(),
    }
}

impl<'a> Manifest<'a> {
    fn load(path: &'a Path) -> Result<Self, Failure> {
        let mut text = String::new();
        let read = if path == Path::new("-") {
            std::io::stdin().read_to_string(&mut text).map(drop)
        } else {
            std::fs::read_to_string(path).map(|found| text = found)
        };
        let wrong = |message: &str| wrong(path, message);
        read.map_err(|error| wrong(&error.to_string()))?;
        let value = parse(&text).map_err(|message| wrong(&message))?;
        Ok(Self { path, value })
    }

    fn wrong(&self, message: &str) -> Failure {
        wrong(self.path, message)
    }

    fn metadata(&self) -> Option<&Map<String, Value>> {
        self.value.get("metadata").and_then(Value::as_object)
    }

    /// The namespace that the run would be created in, which the manifest then names.
    fn settle(&mut self, asked: Option<&str>, otherwise: &str) -> Result<String, Failure> {
        let named = self.metadata().and_then(|one| one.get("namespace"));
        let named = named.and_then(Value::as_str);
        let namespace = match (named, asked) {
            (Some(named), Some(asked)) if named != asked => {
                return Err(self.wrong(&format!(
                    "it names namespace {named}, and -n says {asked}; one of them is wrong"
                )));
            }
            (Some(named), _) => named.to_owned(),
            (None, Some(asked)) => asked.to_owned(),
            (None, None) => otherwise.to_owned(),
        };
        self.put("namespace", &namespace);
        Ok(namespace)
    }

    fn put(&mut self, key: &str, value: &str) {
        if let Some(Value::Object(metadata)) = self.value.get_mut("metadata") {
            metadata.insert(key.to_owned(), value.into());
        }
    }

    /// What an API server says to the creation of exactly this, if need be under another name.
    async fn ask(
        &mut self,
        client: &Client,
        namespace: &str,
    ) -> Result<Result<NodePatchRun, kube::Error>, Failure> {
        match self.send(client, namespace).await? {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            answer => return Ok(answer),
        }
        let name = self.metadata().and_then(|one| one.get("name"));
        let name = name.and_then(Value::as_str).unwrap_or_default().to_owned();
        let room = names::NAME_MAX - OTHER_NAME.len();
        self.put(
            "name",
            &format!("{}{OTHER_NAME}", names::bounded(&name, room)),
        );
        let answer = self.send(client, namespace).await?;
        self.put("name", &name);
        Ok(answer.map(|mut run| {
            run.metadata.name = Some(name);
            run
        }))
    }

    async fn send(
        &self,
        client: &Client,
        namespace: &str,
    ) -> Result<Result<NodePatchRun, kube::Error>, Failure> {
        let address = format!(
            "/apis/{}/{}/namespaces/{namespace}/nodepatchruns?dryRun=All&fieldValidation=Strict",
            names::GROUP,
            names::VERSION
        );
        let body = self.value.to_string().into_bytes();
        let request = http::Request::post(address)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| self.wrong(&format!("namespace {namespace}: {error}")))?;
        Ok(client.request(request).await)
    }

    /// Has the embedded API look at it, with the kinds of this version.
    async fn ask_here(&mut self, namespace: &str) -> Result<NodePatchRun, Failure> {
        let other = |error: &kube::Error| Failure::Other {
            action: "check the manifest".to_owned(),
            why: error.to_string(),
        };
        let client = ApiServer::new(Clock::System).client("shipshape-cli");
        let crds = Api::all(client.clone());
        for crd in shipshape_api::crds() {
            let made = crds.create(&PostParams::default(), &crd).await;
            made.map_err(|error| other(&error))?;
        }
        // The one namespace that is there from the start.
        self.put("namespace", "default");
        let answer = self.ask(&client, "default").await?;
        self.put("namespace", namespace);
        match answer {
            Ok(mut run) => {
                run.metadata.namespace = Some(namespace.to_owned());
                Ok(run)
            }
            Err(kube::Error::Api(status)) => Err(self.wrong(&plainly(&status.message))),
            Err(error) => Err(other(&error)),
        }
    }
}

fn wrong(path: &Path, message: &str) -> Failure {
    Failure::WrongInput(format!("-f {}: {message}", path.display()))
}

/// What a server adds to every refusal of a wrong type: it has not looked at what depends on it.
const NOT_LOOKED_AT: (&str, &str) = (", <nil>: Invalid value: ", "to complete validation");
/// How the pattern of a length of time begins, and what it means.
const TIME_PATTERN: (&str, &str) = (
    "should match '^(0|([0-9]{1,5}h)?",
    "should be a length of time such as 90s, 10m or 1h30m",
);

/// A server's refusal without what only its authors understand.
fn plainly(message: &str) -> String {
    let (begin, end) = NOT_LOOKED_AT;
    let mut text = replaced(message, begin, end, "");
    let (begin, words) = TIME_PATTERN;
    while text.contains(begin) {
        let next = replaced(&text, begin, "'", words);
        if next == text {
            break;
        }
        text = next;
    }
    text
}

/// The text with other words from the first `begin` to the next `end`.
fn replaced(text: &str, begin: &str, end: &str, words: &str) -> String {
    let found = text.split_once(begin);
    let found = found.and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    found.map_or_else(
        || text.to_owned(),
        |(before, after)| format!("{before}{words}{after}"),
    )
}

/// The one run of a text, without what only a server sets.
fn parse(text: &str) -> Result<Value, String> {
    let mut value: Value = shipshape_scenarios::yaml::read(text)?;
    if value.as_object().is_none_or(Map::is_empty) {
        return Err("it holds no object; right would be a NodePatchRun".to_owned());
    }
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or("none");
    let wanted = format!("{}/{}", names::GROUP, names::VERSION);
    if field("kind") != "NodePatchRun" || field("apiVersion") != wanted {
        return Err(format!(
            "it holds a {} of {}; right would be one NodePatchRun of {wanted}",
            field("kind"),
            field("apiVersion")
        ));
    }
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
        fields.entry("metadata").or_insert_with(|| json!({}));
    }
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.retain(|key, _| !SET_BY_SERVER.contains(&key.as_str()));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "apiVersion: shipshape.dev/v1alpha1\nkind: NodePatchRun\n\
                       metadata: {name: x, uid: u, resourceVersion: '7', labels: {a: b}}\n\
                       spec: {provider: {type: aws}, paused: 'yes'}\nstatus: {total: 3}\n";

    #[test]
    fn a_manifest_of_another_kind_is_refused_by_name() {
        let words = parse("apiVersion: v1\nkind: Pod\n").unwrap_err();
        assert!(words.contains("it holds a Pod of v1"), "{words}");
        for nothing in ["", "# nothing", "[]", "{}"] {
            let words = parse(nothing).unwrap_err();
            assert!(words.contains("it holds no object"), "{nothing}: {words}");
        }
        let words = parse("a: [").unwrap_err();
        assert!(words.contains("line"), "{words}");
    }

    #[tokio::test]
    async fn a_refusal_says_nothing_of_patterns_and_of_rules_that_were_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.yaml");
        for (spec, expected) in [
            (
                "drain: {timeout: 5y}",
                "\"5y\": spec.drain.timeout in body should be a length of time such as 90s, 10m or 1h30m",
            ),
            (
                "batchSizeImportant: many",
                "spec.batchSizeImportant in body must be of type integer",
            ),
        ] {
            let run = RUN.replace("paused: 'yes'", spec);
            std::fs::write(&path, run).unwrap();
            let Err(refused) = checked_here(None, &path).await else {
                panic!("{spec} is taken");
            };
            let words = refused.to_string();
            assert!(words.contains(expected), "{words}");
            for word in ["[0-9]", "<nil>", "null"] {
                assert!(!words.contains(word), "{words}");
            }
        }
    }

    #[test]
    fn what_a_server_sets_is_left_out_and_the_rest_stays_as_it_was_written() {
        let value = parse(RUN).unwrap();
        assert_eq!(
            value["metadata"],
            json!({ "name": "x", "labels": { "a": "b" } })
        );
        assert_eq!(value["spec"]["paused"], "yes");
        assert_eq!(value.get("status"), None);
    }
}
