//! What a request asks for, read from its method, path, query and headers.
//!
//! Owns parsing. Must not look at objects or at the table of kinds.

use std::collections::BTreeMap;

use http::{Method, header};

use super::failure::{Failure, Outcome, unsupported_word};
use crate::schema::{FieldError, FieldErrorKind};

/// What is done to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Read one.
    Get,
    /// Read many.
    List,
    /// Follow changes.
    Watch,
    /// Make one.
    Create,
    /// Replace one.
    Update,
    /// Change a part of one.
    Patch,
    /// Remove one.
    Delete,
    /// Remove many.
    DeleteCollection,
}

impl Verb {
    /// The verb as the audit log of a real server writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether it may change something.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Health, version, discovery, OpenAPI.
    Path,
    /// Objects.
    Resource(ResourcePath),
}

/// The parts of a path to objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

/// One request, read.
#[derive(Clone, Debug)]
pub(crate) struct RequestInfo {
    pub(crate) verb: Verb,
    pub(crate) path: String,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) user_agent: String,
    pub(crate) accept: String,
    pub(crate) content_type: String,
}

/// The query parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    fn parse(query: &str) -> Self {
        Self(
            form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// A parameter; empty when it is not there.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// A parameter that says yes or no: all but a no is a yes.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0
            .get(key)
            .is_some_and(|word| word != "0" && !word.eq_ignore_ascii_case("false"))
    }

    /// Yes, no, or not said.
    pub(crate) fn choice(&self, key: &str) -> Option<bool> {
        (!self.text(key).is_empty()).then(|| self.flag(key))
    }

    /// A parameter that is a number.
    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Outcome<Option<T>> {
        match self.text(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                Failure::bad_request(format!(
                    "strconv.ParseInt: parsing \"{text}\": invalid syntax"
                ))
            }),
        }
    }

    /// Refuses options of a write that make no sense.
    fn check_write(&self, options: &str) -> Outcome<()> {
        const WORDS: [&str; 3] = ["Ignore", "Warn", "Strict"];
        const LONGEST: usize = 128;
        let (validation, manager) = (self.text("fieldValidation"), self.text("fieldManager"));
        let cause = if !validation.is_empty() && !WORDS.contains(&validation) {
            unsupported_word("fieldValidation", validation, &WORDS)
        } else if manager.len() > LONGEST {
            let rule = format!("may not be more than {LONGEST} bytes");
            FieldError::bare(FieldErrorKind::TooLong, "fieldManager", &rule)
        } else {
            return Ok(());
        };
        Err(Failure::invalid_kind("meta.k8s.io", options, "", &[cause]))
    }

    /// Whether nothing may be stored; the other options of a write are judged on the way.
    pub(crate) fn dry_run(&self, options: &str) -> Outcome<bool> {
        self.check_write(options)?;
        match self.text("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(Failure::invalid_kind(
                "meta.k8s.io",
                options,
                "",
                &[FieldError::not_supported(
                    "dryRun",
                    &serde_json::json!([other]),
                    &["All".into()],
                )],
            )),
        }
    }
}

impl RequestInfo {
    /// Reads the head of a request.
    pub(crate) fn read(head: &http::request::Parts) -> Outcome<Self> {
        let header = |name: header::HeaderName| {
            head.headers
                .get(name)
                .and_then(|v| v.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let path = head.uri.path().to_owned();
        let target = target(&path);
        let verb = verb(&head.method, &target, &query)?;
        Ok(Self {
            verb,
            target,
            query,
            user_agent: header(header::USER_AGENT),
            accept: header(header::ACCEPT),
            content_type: header(header::CONTENT_TYPE),
            path,
        })
    }

    /// The field manager: as asked for, else the first word of the user agent.
    pub(crate) fn manager(&self) -> String {
        crate::apply::manager_name(
            Some(self.query.text("fieldManager")),
            Some(&self.user_agent),
        )
    }
}

fn verb(method: &Method, target: &Target, query: &Query) -> Outcome<Verb> {
    let named = match target {
        Target::Path if matches!(*method, Method::GET | Method::HEAD) => return Ok(Verb::Get),
        Target::Path => return Err(Failure::method_not_allowed()),
        Target::Resource(path) => !path.name.is_empty(),
    };
    Ok(match *method {
        Method::GET if query.flag("watch") && !named => Verb::Watch,
        Method::GET | Method::HEAD if named => Verb::Get,
        Method::GET | Method::HEAD => Verb::List,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if named => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ => return Err(Failure::method_not_allowed()),
    })
}

fn target(path: &str) -> Target {
    let parts: Vec<String> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(decode)
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["api", version, first, rest @ ..] => resource(("", version), first, rest),
        ["apis", group, version, first, rest @ ..] => resource((group, version), first, rest),
        _ => Target::Path,
    }
}

fn resource((group, version): (&str, &str), first: &str, rest: &[&str]) -> Target {
    let (namespace, plural, rest) = match (first, rest) {
        ("namespaces", [_, "status" | "finalize"]) => ("", first, rest),
        ("namespaces", [namespace, plural, rest @ ..]) => (*namespace, *plural, rest),
        _ => ("", first, rest),
    };
    let (name, subresource) = match rest {
        [] => ("", String::new()),
        [name, sub @ ..] => (*name, sub.join("/")),
    };
    Target::Resource(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource,
    })
}

/// Decodes the percent escapes of one path segment; a plus sign stays a plus sign.
fn decode(segment: &str) -> String {
    if !segment.contains('%') {
        return segment.to_owned();
    }
    let escaped = segment.replace('+', "%2B");
    form_urlencoded::parse(escaped.as_bytes())
        .next()
        .map_or_else(|| segment.to_owned(), |(key, _)| key.into_owned())
}
