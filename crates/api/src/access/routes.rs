//! The registry of routes, each with its scope.
//!
//! Invariant: every route passes the gate ([`super::gate::pass`]), and only behind it the check of
//! its parameters, so that a caller without credentials gets 401 whatever the request looks like.
//! [`Routes`] has no function that adds a route without a scope, and no other module of this crate
//! makes an [`axum::Router`] or adds a route to one; a test checks the sources for that. The
//! registry keeps a table of its routes, which tests walk, and compare with `docs/access.md`.

use std::pin::Pin;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{MethodFilter, on};

use super::gate;
use super::principal::Scope;
use crate::known;

/// What happens between the gate and the handlers of some routes.
pub type Within = fn(Request, Next) -> Pin<Box<dyn Future<Output = Response> + Send>>;

/// Routes with their scopes.
pub struct Routes<S> {
    router: Router<S>,
    table: Vec<Route>,
    within: Option<Within>,
}

/// One call: a method of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The method. `GET` answers `HEAD` too.
    pub method: Method,
    /// The path, with `{name}` for what varies.
    pub path: String,
    /// The scope that the role of a caller has to cover.
    pub scope: Scope,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Routes<S> {
        Routes { router: Router::new(), table: Vec::new(), within: None }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// An empty registry.
    pub fn new() -> Routes<S> {
        Routes::default()
    }

    /// Adds one call.
    ///
    /// # Panics
    /// When there is one with that method and path already.
    pub fn on<H, T>(mut self, method: Method, scope: Scope, path: &str, handler: H) -> Routes<S>
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("a method of routes");
        let pass = move |request: Request, next: Next| gate::pass(scope, request, next);
        let mut handled = on(filter, handler);
        if let Some(within) = self.within {
            handled = handled.route_layer(from_fn(within));
        }
        // The last layer is the outermost: nothing happens before the gate.
        let handled = handled.route_layer(from_fn(known::checked));
        self.router = self.router.route(path, handled.route_layer(from_fn(pass)));
        self.table.push(Route { method, path: path.to_owned(), scope });
        self
    }

    /// Routes that are added from here on pass `within` behind the gate.
    pub fn within(self, within: Within) -> Routes<S> {
        Routes { within: Some(within), ..self }
    }

    /// Adds a `GET`.
    pub fn get<H, T>(self, scope: Scope, path: &str, handler: H) -> Routes<S>
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.on(Method::GET, scope, path, handler)
    }

    /// Adds a `POST`.
    pub fn post<H, T>(self, scope: Scope, path: &str, handler: H) -> Routes<S>
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.on(Method::POST, scope, path, handler)
    }

    /// Adds a `PUT`.
    pub fn put<H, T>(self, scope: Scope, path: &str, handler: H) -> Routes<S>
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.on(Method::PUT, scope, path, handler)
    }

    /// Adds a `DELETE`.
    pub fn delete<H, T>(self, scope: Scope, path: &str, handler: H) -> Routes<S>
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.on(Method::DELETE, scope, path, handler)
    }

    /// Adds a call that reads, as `GET` and as `POST`, because its parameters may be too long for
    /// an address.
    pub fn query<H, T>(self, path: &str, handler: H) -> Routes<S>
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.get(Scope::Read, path, handler.clone()).post(Scope::Read, path, handler)
    }

    /// Adds the routes of another registry.
    pub fn merge(mut self, other: Routes<S>) -> Routes<S> {
        self.router = self.router.merge(other.router);
        self.table.extend(other.table);
        self
    }

    /// Provides the state of the handlers.
    pub fn with_state<S2: Clone + Send + Sync + 'static>(self, state: S) -> Routes<S2> {
        let Routes { router, table, within } = self;
        Routes { router: router.with_state(state), table, within }
    }

    /// The router and the table of its routes. For callers that put layers around the router; a
    /// route that they added would bypass the gate.
    pub fn into_parts(self) -> (Router<S>, Vec<Route>) {
        (self.router, self.table)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// What no other source file may contain.
    const MAKES_ROUTES: [&str; 6] = [
        "Router::new(",
        "Router::default(",
        ".route(",
        ".route_service(",
        ".nest(",
        "MethodRouter",
    ];

    fn look(dir: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                look(&path, found);
            } else if !path.ends_with("access/routes.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let words = MAKES_ROUTES.iter().filter(|word| text.contains(**word));
                found.extend(words.map(|word| format!("{}: {word}", path.display())));
            }
        }
    }

    #[test]
    fn nothing_else_adds_a_route() {
        let mut found = Vec::new();
        look(Path::new("src"), &mut found);
        assert_eq!(found, [""; 0], "use access::routes::Routes, where every route has its scope");
    }
}
