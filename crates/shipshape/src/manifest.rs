//! A run in a file, as somebody is about to create it.
//!
//! Owns reading it, and having the API server check it without creating it.

use std::io::Read;
use std::path::Path;

use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::Value;
use shipshape_api::{NodePatchRun, names};

use crate::connect::Cluster;
use crate::failure::Failure;

/// A run that has been read, and what could not be checked about it.
pub(crate) struct Checked {
    pub(crate) run: NodePatchRun,
    pub(crate) notes: Vec<String>,
}

/// Reads a file, or standard input for `-`.
pub(crate) fn load(path: &Path) -> Result<NodePatchRun, Failure> {
    let shown = path.display();
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(path).map(|found| text = found)
    };
    read.map_err(|error| Failure::WrongInput(format!("-f {shown}: {error}")))?;
    parse(&text).map_err(|message| Failure::WrongInput(format!("-f {shown}: {message}")))
}

fn parse(text: &str) -> Result<NodePatchRun, String> {
    let value: Value = shipshape_scenarios::yaml::read(text)?;
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or("none");
    let wanted = format!("{}/{}", names::GROUP, names::VERSION);
    if field("kind") != "NodePatchRun" || field("apiVersion") != wanted {
        return Err(format!(
            "it holds a {} of {}; right would be a NodePatchRun of {wanted}",
            field("kind"),
            field("apiVersion")
        ));
    }
    shipshape_scenarios::yaml::read(text)
}

/// Reads a file and has the server fill in defaults and complain, as a dry run: nothing is created.
pub(crate) async fn checked(cluster: &Cluster, path: &Path) -> Result<Checked, Failure> {
    let mut run = load(path)?;
    let namespace = run.namespace().unwrap_or_else(|| cluster.namespace.clone());
    run.metadata.namespace = Some(namespace.clone());
    let name = run.name_any();
    let mut asked = run.clone();
    // Under its own name it may exist already.
    asked.metadata.name = Some(names::bounded(&format!("{name}-dry-run"), 63));
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let api: Api<NodePatchRun> = Api::namespaced(cluster.client.clone(), &namespace);
    let note = match api.create(&params, &asked).await {
        Ok(filled) => {
            run.spec = filled.spec;
            return Ok(Checked {
                run,
                notes: Vec::new(),
            });
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
            let message = status.message.replace("-dry-run", "");
            return Err(Failure::WrongInput(format!(
                "-f {}: {message}",
                path.display()
            )));
        }
        Err(kube::Error::Api(status)) if status.code == 404 => {
            "the manifest was not checked by the cluster, which does not know the kinds yet, or not the \
             namespace"
                .to_owned()
        }
        Err(kube::Error::Api(status)) => format!(
            "the manifest was not checked by the cluster: {}",
            status.message
        ),
        Err(error) => return Err(cluster.failure("check the manifest", &error)),
    };
    Ok(Checked {
        run,
        notes: vec![note],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_of_another_kind_is_refused_by_name() {
        let words = parse("apiVersion: v1\nkind: Pod\n").unwrap_err();
        assert!(words.contains("it holds a Pod of v1"), "{words}");
        let words = parse("a: [").unwrap_err();
        assert!(words.contains("line"), "{words}");
        let run = "apiVersion: shipshape.dev/v1alpha1\nkind: NodePatchRun\nmetadata: {name: x}\n\
                   spec: {provider: {type: aws}}\n";
        assert_eq!(parse(run).unwrap().name_any(), "x");
    }
}
