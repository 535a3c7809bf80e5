//! DeleteOptions, from the body of a request or from its query.

use serde_json::Value;

use crate::schema::FieldError;
use crate::server::{
    failure::{Failure, Outcome, unsupported_word},
    kinds::Kind,
    meta,
    request::Query,
    state::Call,
};

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// How to delete.
#[derive(Clone, Debug, Default)]
pub(super) struct DeleteOptions {
    pub(super) grace: Option<i64>,
    pub(super) propagation: Option<Propagation>,
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
    pub(super) dry_run: bool,
}

impl DeleteOptions {
    /// Reads the options of a call; the body wins over the query.
    pub(super) fn read(call: &Call<'_>) -> Outcome<Self> {
        if call.body.is_empty() {
            return Self::from_query(&call.info.query);
        }
        let body: Value = serde_json::from_slice(call.body).map_err(|error| {
            Failure::bad_request(format!("could not read delete options: {error}"))
        })?;
        let sent = meta::text(&body, &["kind"]);
        if !matches!(sent, "" | "DeleteOptions") {
            return Err(Failure::bad_request(format!(
                "{sent} cannot be handled as DeleteOptions"
            )));
        }
        let mut options = Self::from_value(&body)?;
        options.dry_run |= call.info.query.dry_run("DeleteOptions")?;
        Ok(options)
    }

    fn from_query(query: &Query) -> Outcome<Self> {
        Ok(Self {
            grace: query.number("gracePeriodSeconds")?,
            propagation: propagation(
                query.text("propagationPolicy"),
                query.choice("orphanDependents"),
            )?,
            dry_run: query.dry_run("DeleteOptions")?,
            ..Self::default()
        })
    }

    /// Reads options that stand in a body.
    pub(super) fn from_value(body: &Value) -> Outcome<Self> {
        let owned = |path: &[&str]| {
            meta::at(body, path)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let dry_run = match meta::items(body, &["dryRun"]) {
            [] => false,
            [Value::String(all)] if all == "All" => true,
            [other, ..] => {
                return Err(invalid(unsupported_word(
                    "dryRun",
                    &other.to_string(),
                    &["All"],
                )));
            }
        };
        Ok(Self {
            grace: meta::number(body, &["gracePeriodSeconds"]),
            propagation: propagation(
                meta::text(body, &["propagationPolicy"]),
                meta::at(body, &["orphanDependents"]).and_then(Value::as_bool),
            )?,
            uid: owned(&["preconditions", "uid"]),
            version: owned(&["preconditions", "resourceVersion"]),
            dry_run,
        })
    }

    /// Refuses when the object is not the one that the client means.
    pub(super) fn check(&self, kind: &Kind, object: &Value) -> Outcome<()> {
        let name = meta::meta_text(object, "name");
        let uid = meta::meta_text(object, "uid");
        let version = meta::meta_text(object, "resourceVersion");
        if let Some(wanted) = self.uid.as_deref().filter(|wanted| *wanted != uid) {
            return Err(Failure::precondition(
                kind,
                name,
                &format!(
                    "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
                ),
            ));
        }
        if let Some(wanted) = self.version.as_deref().filter(|wanted| *wanted != version) {
            return Err(Failure::precondition(
                kind,
                name,
                &format!(
                    "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
                ),
            ));
        }
        Ok(())
    }
}

fn invalid(cause: FieldError) -> Failure {
    Failure::invalid_kind("meta.k8s.io", "DeleteOptions", "", &[cause])
}

fn propagation(policy: &str, orphan: Option<bool>) -> Outcome<Option<Propagation>> {
    if !policy.is_empty() && orphan.is_some() {
        return Err(invalid(FieldError::invalid(
            "propagationPolicy",
            &policy.into(),
            "orphanDependents and deletionPropagation cannot be both set",
        )));
    }
    match (policy, orphan) {
        ("", None) => Ok(None),
        ("Orphan", _) | ("", Some(true)) => Ok(Some(Propagation::Orphan)),
        ("Background", _) | ("", Some(false)) => Ok(Some(Propagation::Background)),
        ("Foreground", _) => Ok(Some(Propagation::Foreground)),
        (other, _) => Err(invalid(unsupported_word(
            "propagationPolicy",
            other,
            &["Foreground", "Background", "Orphan", "nil"],
        ))),
    }
}
