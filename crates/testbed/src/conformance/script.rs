//! Request sequences as text.
//!
//! Owns the format; knows nothing of worlds or answers. A file holds sequences; each starts with
//! `== name` and has requests separated by blank lines:
//!
//! ```text
//! METHOD PATH [WORD...] [=> NAME]
//! body, if any
//! ```
//!
//! `@cm` in a path stands for the collection of ConfigMaps in the sequence's namespace (`ALIASES`
//! has them all), `$ns` for the namespace, `$mib` for a mebibyte of letters, `$NAME.rv`, `.uid`, `.name`, `.generation` and
//! `.continue` for parts of an earlier answer. Words: `json`, `merge`, `strategic`, `apply`
//! (content type of a patch), `type=T` (any other), `table`, `meta`, `metalist`, `discovery`
//! (what is accepted), `events=N` (a watch, cut after N events), `through=NAME` (a watch, cut after
//! an event of that object), `subset` (the real answer may
//! hold more), `until=CODE` (asked again until both say so).

use anyhow::{Context, Result, bail};
use http::Method;

/// Several requests that share a namespace.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    /// Unique name.
    pub(crate) name: String,
    /// The namespace, made before the first request.
    pub(crate) namespace: String,
    /// What is sent, in order.
    pub(crate) requests: Vec<Request>,
}

/// One request, still with its `$` references.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// As written, for the report.
    pub(crate) text: String,
    /// HTTP method.
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    /// What is asked for.
    pub(crate) accept: &'static str,
    /// What is sent.
    pub(crate) content_type: Option<String>,
    /// Sent as it is, after the references are filled in.
    pub(crate) body: Option<String>,
    /// How the answer is read.
    pub(crate) reading: Reading,
    /// Under which name later requests find the answer.
    pub(crate) save: Option<String>,
}

/// How an answer is read and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reading {
    /// One JSON document, equal in both worlds.
    Whole,
    /// One JSON document; lists of the real one may hold more entries.
    Subset,
    /// A stream of watch events, cut after so many.
    Events(usize),
    /// A stream of watch events, cut after one of the object with this name.
    Through(String),
    /// Asked again until this status code comes, then compared as a whole.
    Until(u16),
}

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const META: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const META_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Short names of collections.
const ALIASES: [(&str, &str); 30] = [
    ("cm", "/api/v1/namespaces/$ns/configmaps"),
    ("pod", "/api/v1/namespaces/$ns/pods"),
    ("svc", "/api/v1/namespaces/$ns/services"),
    ("sa", "/api/v1/namespaces/$ns/serviceaccounts"),
    ("secret", "/api/v1/namespaces/$ns/secrets"),
    ("event", "/api/v1/namespaces/$ns/events"),
    ("pvc", "/api/v1/namespaces/$ns/persistentvolumeclaims"),
    ("node", "/api/v1/nodes"),
    ("namespace", "/api/v1/namespaces"),
    ("pv", "/api/v1/persistentvolumes"),
    ("deploy", "/apis/apps/v1/namespaces/$ns/deployments"),
    ("rs", "/apis/apps/v1/namespaces/$ns/replicasets"),
    ("sts", "/apis/apps/v1/namespaces/$ns/statefulsets"),
    ("ds", "/apis/apps/v1/namespaces/$ns/daemonsets"),
    ("job", "/apis/batch/v1/namespaces/$ns/jobs"),
    ("pdb", "/apis/policy/v1/namespaces/$ns/poddisruptionbudgets"),
    (
        "lease",
        "/apis/coordination.k8s.io/v1/namespaces/$ns/leases",
    ),
    (
        "crd",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    ),
    ("va", "/apis/storage.k8s.io/v1/volumeattachments"),
    ("pc", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    (
        "npr",
        "/apis/shipshape.dev/v1alpha1/namespaces/$ns/nodepatchruns",
    ),
    (
        "npt",
        "/apis/shipshape.dev/v1alpha1/namespaces/$ns/nodepatchtasks",
    ),
    ("nv", "/apis/shipshape.dev/v1alpha1/nodeversions"),
    ("sg", "/apis/shipshape.dev/v1alpha1/scalinggroups"),
    ("pn", "/apis/shipshape.dev/v1alpha1/pendingnodes"),
    ("as", "/apis/shipshape.dev/v1alpha1/autoscalingstrategies"),
    ("du", "/apis/shipshape.dev/v1alpha1/directupdates"),
    ("su", "/apis/shipshape.dev/v1alpha1/scheduledupdates"),
    ("us", "/apis/shipshape.dev/v1alpha1/updateschedules"),
    (
        "widget",
        "/apis/conformance.example/v1/namespaces/$ns/widgets",
    ),
];

/// Reads all sequences of a text; their namespaces carry `prefix` and a number.
pub(crate) fn parse(text: &str, prefix: &str) -> Result<Vec<Sequence>> {
    let mut sequences: Vec<Sequence> = Vec::new();
    for block in blocks(text) {
        let block = match block.strip_prefix("== ") {
            Some(headed) => {
                let (title, rest) = headed.split_once('\n').unwrap_or((headed, ""));
                let namespace = format!("{prefix}-{}", sequences.len());
                let name = format!("{prefix}: {}", title.trim());
                sequences.push(Sequence {
                    name,
                    namespace,
                    requests: Vec::new(),
                });
                rest
            }
            None => block.as_str(),
        };
        let sequence = sequences
            .last_mut()
            .context("a request before the first `== name`")?;
        if !block.is_empty() {
            let request = request(block).with_context(|| format!("{}:\n{block}", sequence.name))?;
            sequence.requests.push(request);
        }
    }
    Ok(sequences)
}

/// Texts between blank lines, without comment lines.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match (line.trim().is_empty(), blocks.last_mut()) {
            (true, _) => blocks.push(String::new()),
            (false, Some(block)) if block.is_empty() => block.push_str(line),
            (false, Some(block)) => {
                block.push('\n');
                block.push_str(line);
            }
            (false, None) => {}
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

fn request(block: &str) -> Result<Request> {
    let (head, body) = block
        .split_once('\n')
        .map_or((block, None), |(head, body)| (head, Some(body)));
    let (head, save) = match head.split_once("=>") {
        Some((head, name)) => (head, Some(name.trim().to_owned())),
        None => (head, None),
    };
    let mut words = head.split_whitespace();
    let method: Method = words.next().context("no method")?.parse()?;
    let path = expand(words.next().context("no path")?)?;
    let mut request = Request {
        text: block.to_owned(),
        content_type: body.map(|_| JSON.to_owned()),
        method,
        path,
        accept: JSON,
        body: body.map(str::to_owned),
        reading: Reading::Whole,
        save,
    };
    for word in words {
        apply(&mut request, word)?;
    }
    Ok(request)
}

fn apply(request: &mut Request, word: &str) -> Result<()> {
    let patch = |name: &str| Some(format!("application/{name}"));
    match word.split_once('=').unwrap_or((word, "")) {
        ("json", _) => request.content_type = patch("json-patch+json"),
        ("merge", _) => request.content_type = patch("merge-patch+json"),
        ("strategic", _) => request.content_type = patch("strategic-merge-patch+json"),
        ("apply", _) => request.content_type = patch("apply-patch+yaml"),
        ("type", value) => request.content_type = Some(value.to_owned()),
        ("table", _) => request.accept = TABLE,
        ("meta", _) => request.accept = META,
        ("metalist", _) => request.accept = META_LIST,
        ("discovery", _) => request.accept = DISCOVERY,
        ("subset", _) => request.reading = Reading::Subset,
        ("events", count) => request.reading = Reading::Events(count.parse()?),
        ("through", name) => request.reading = Reading::Through(name.to_owned()),
        ("until", code) => request.reading = Reading::Until(code.parse()?),
        _ => bail!("unknown word {word}"),
    }
    Ok(())
}

fn expand(path: &str) -> Result<String> {
    let Some(rest) = path.strip_prefix('@') else {
        return Ok(path.to_owned());
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (alias, tail) = rest.split_at(end);
    let (_, full) = ALIASES
        .iter()
        .find(|(name, _)| *name == alias)
        .with_context(|| format!("no alias {alias}"))?;
    Ok(format!("{full}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_with_alias_words_and_body_is_read() {
        let text =
            "# note\n== one\nPOST @cm?dryRun=All => a\n{\"x\":\n1}\n\nPATCH @cm/a merge\n{}\n";
        let sequences = parse(text, "t").unwrap();
        assert_eq!(sequences.len(), 1);
        let [create, patch] = sequences[0].requests.as_slice() else {
            panic!("two requests")
        };
        assert_eq!(create.path, "/api/v1/namespaces/$ns/configmaps?dryRun=All");
        assert_eq!(create.save.as_deref(), Some("a"));
        assert_eq!(create.body.as_deref(), Some("{\"x\":\n1}"));
        assert_eq!(
            patch.content_type.as_deref(),
            Some("application/merge-patch+json")
        );
    }

    #[test]
    fn unknown_word_is_refused() {
        assert!(parse("== one\nGET @cm nonsense\n", "t").is_err());
    }
}
