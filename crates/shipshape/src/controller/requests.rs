//! Requests to the API server, counted by verb, resource and code.
//!
//! Owns the layer around the client and how a request is named. Names of objects are left out:
//! there is no end to them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Method, Request, Response, Uri};
use shipshape_controllers::Vitals;
use tower::{Layer, Service};

/// Counts what passes through.
#[derive(Clone)]
pub(super) struct Counting(pub(super) Vitals);

impl<S> Layer<S> for Counting {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            vitals: self.0.clone(),
        }
    }
}

/// A service whose requests are counted.
#[derive(Clone)]
pub(super) struct Counted<S> {
    inner: S,
    vitals: Vitals,
}

impl<S, A, B> Service<Request<A>> for Counted<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (verb, resource) = name(request.method(), request.uri());
        let vitals = self.vitals.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
            vitals.saw_request(verb, resource, code);
            answer
        })
    }
}

/// The verb and the resource of a request, as roles and audit logs name them.
fn name(method: &Method, uri: &Uri) -> (&'static str, String) {
    let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
    let is_api = match parts.next() {
        Some("api") => parts.next().is_some(),
        Some("apis") => parts.next().is_some() && parts.next().is_some(),
        _ => false,
    };
    let parts: Vec<&str> = parts.collect();
    let parts = match parts.as_slice() {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    let (resource, is_named) = match parts {
        [resource] if is_api => ((*resource).to_owned(), false),
        [resource, _] if is_api => ((*resource).to_owned(), true),
        [resource, _, sub, ..] if is_api => (format!("{resource}/{sub}"), true),
        _ => ("other".to_owned(), true),
    };
    (verb(method, uri, is_named), resource)
}

fn verb(method: &Method, uri: &Uri, is_named: bool) -> &'static str {
    let is_watch = || {
        uri.query()
            .is_some_and(|query| query.contains("watch=true"))
    };
    match (method.as_str(), is_named) {
        ("GET", true) => "get",
        ("GET", false) if is_watch() => "watch",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_named_by_verb_and_resource_and_never_by_an_object() {
        let cases = [
            ("GET", "/api/v1/nodes?limit=500", ("list", "nodes")),
            ("GET", "/api/v1/nodes?watch=true&a=b", ("watch", "nodes")),
            ("GET", "/api/v1/nodes/n1", ("get", "nodes")),
            ("GET", "/api/v1/namespaces/x", ("get", "namespaces")),
            (
                "POST",
                "/api/v1/namespaces/x/pods/p/eviction",
                ("create", "pods/eviction"),
            ),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/x/leases/l",
                ("update", "leases"),
            ),
            (
                "PATCH",
                "/apis/shipshape.dev/v1alpha1/namespaces/x/nodepatchruns/r/status",
                ("patch", "nodepatchruns/status"),
            ),
            ("GET", "/version", ("get", "other")),
        ];
        for (method, path, expected) in cases {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let (verb, resource) = name(&method, &path.parse().unwrap());
            assert_eq!((verb, resource.as_str()), expected, "{path}");
        }
    }
}
