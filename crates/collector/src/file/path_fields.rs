//! Fields that the path of a file gives to its lines: an expression whose named groups are the
//! fields. Kubernetes names the files of containers by namespace, pod and container, so these are
//! known without a call to its API server.
//!
//! Left out: labels of pods, which no path has.

use regex::Regex;

use super::FileError;

/// The files of the kubelet: `/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log`, and the links to
/// them, `/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log`. No part of a name contains `_`.
const OF_CONTAINERS: [&str; 2] = [
    r"^/var/log/pods/(?<k8s.namespace.name>[^/_]+)_(?<k8s.pod.name>[^/_]+)_(?<k8s.pod.uid>[^/_]+)/(?<k8s.container.name>[^/]+)/[^/]+$",
    r"^/var/log/containers/(?<k8s.pod.name>[^/_]+)_(?<k8s.namespace.name>[^/_]+)_(?<k8s.container.name>[^/]+)-[0-9a-f]{64}\.log$",
];

/// Expressions for paths, the first of which that matches gives the fields.
#[derive(Clone, Debug)]
pub struct PathFields(Vec<Regex>);

impl PathFields {
    /// An expression with at least one named group.
    ///
    /// # Errors
    /// When the expression is invalid or names no group; the error says why.
    pub fn parse(text: &str) -> Result<PathFields, FileError> {
        let error = |why: String| FileError::Regex { regex: text.to_owned(), why };
        let regex = Regex::new(text).map_err(|why| error(why.to_string()))?;
        if regex.capture_names().flatten().next().is_none() {
            return Err(error("no group has a name; write for example /srv/(?<app>[^/]+)/".into()));
        }
        Ok(PathFields(vec![regex]))
    }

    /// The names of Kubernetes' files, with the names of fields that OpenTelemetry gives.
    pub fn of_containers() -> PathFields {
        PathFields(
            OF_CONTAINERS.iter().map(|text| Regex::new(text).expect("a test parses it")).collect(),
        )
    }

    /// Adds the fields of a path. Fields that are there already stay as they are, and groups that
    /// match nothing give none.
    pub(crate) fn add(&self, path: &str, fields: &mut Vec<(String, String)>) {
        let Some((regex, found)) =
            self.0.iter().find_map(|regex| Some((regex, regex.captures(path)?)))
        else {
            return;
        };
        for name in regex.capture_names().flatten() {
            let value = found.name(name).filter(|value| !value.is_empty());
            if let Some(value) = value.filter(|_| fields.iter().all(|(known, _)| known != name)) {
                fields.push((name.to_owned(), value.as_str().to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fields: &PathFields, path: &str, expected: &[(&str, &str)]) {
        let mut found = vec![("env".to_owned(), "test".to_owned())];
        fields.add(path, &mut found);
        assert_eq!(found.remove(0).1, "test");
        let found: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn paths_of_kubernetes_name_the_container() {
        let fields = PathFields::of_containers();
        let uid = "0a1b2c3d-1111-2222-3333-444455556666";
        let expected = [
            ("k8s.namespace.name", "shop"),
            ("k8s.pod.name", "cart-7d4b9c-x2x"),
            ("k8s.pod.uid", uid),
            ("k8s.container.name", "app"),
        ];
        for name in ["0.log", "12.log", "0.log.20260131-120000"] {
            let path = format!("/var/log/pods/shop_cart-7d4b9c-x2x_{uid}/app/{name}");
            check(&fields, &path, &expected);
        }
        let id = "f0".repeat(32);
        check(
            &fields,
            &format!("/var/log/containers/cart-1_shop_side-car-{id}.log"),
            &[
                ("k8s.pod.name", "cart-1"),
                ("k8s.namespace.name", "shop"),
                ("k8s.container.name", "side-car"),
            ],
        );
        for path in [
            "/var/log/pods/shop_cart/app/0.log",
            "/var/log/pods/a_b_c_d/app/0.log",
            "/var/log/pods/shop_cart_1/0.log",
            "/var/log/containers/cart.log",
            "/srv/var/log/pods/a_b_c/d/0.log",
        ] {
            check(&fields, path, &[]);
        }
    }

    #[test]
    fn named_groups_are_fields() {
        let fields = PathFields::parse(r"^/srv/(?<app>[^/]+)/(?:v(?<version>\d+)/)?").unwrap();
        check(&fields, "/srv/cart/v2/a.log", &[("app", "cart"), ("version", "2")]);
        check(&fields, "/srv/cart/a.log", &[("app", "cart")]);
        check(&fields, "/var/log/a.log", &[]);
        let own = PathFields::parse("(?<env>a)").unwrap();
        check(&own, "a", &[]);
    }

    #[test]
    fn an_expression_without_names_is_refused() {
        let error = PathFields::parse("/srv/([^/]+)/").unwrap_err().to_string();
        assert!(error.contains("no group has a name; write for example"), "{error}");
        let error = PathFields::parse("(").unwrap_err().to_string();
        assert!(error.contains("'(' is not a regular expression"), "{error}");
    }
}
