//! Which product and version a server is.

use serde_json::Value;

use crate::destination::{Delivered, Fault};
use crate::http::compress::Encoding;
use crate::http::{Client, Method, Request, judge};

/// What a server says at `GET /`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Elasticsearch or its fork.
    pub product: Product,
    /// Major and minor version; the newest known one if the credentials do not permit to ask.
    pub version: (u32, u32),
}

/// Elasticsearch or its fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// Elasticsearch.
    Elasticsearch,
    /// OpenSearch.
    OpenSearch,
}

impl Server {
    /// Whether the server has composable templates (`_index_template`), as Elasticsearch from 7.8
    /// and all of OpenSearch.
    pub fn has_composable_templates(&self) -> bool {
        self.product == Product::OpenSearch || self.version >= (7, 8)
    }

    /// Whether the server has data streams, as Elasticsearch from 7.9 and all of OpenSearch.
    pub fn check_data_streams(&self) -> Result<(), Fault> {
        if self.product == Product::OpenSearch || self.version >= (7, 9) {
            return Ok(());
        }
        let (major, minor) = self.version;
        Err(Fault::new(
            format!("Elasticsearch {major}.{minor} has no data streams"),
            "use `index` instead of `data_stream`, or Elasticsearch 7.9 or later",
        ))
    }

    fn from_json(answer: &Value) -> Option<Server> {
        let number = answer["version"]["number"].as_str()?;
        let mut parts = number.split('.').map(str::parse::<u32>);
        let version = (parts.next()?.ok()?, parts.next()?.ok()?);
        let product = match answer["version"]["distribution"].as_str() {
            Some("opensearch") => Product::OpenSearch,
            _ => Product::Elasticsearch,
        };
        Some(Server { product, version })
    }
}

/// Asks the server for its version.
pub fn detect(client: &mut Client) -> Result<Server, Delivered> {
    let reply = client.send(Request {
        method: Method::Get,
        path: "/",
        content_type: "",
        encoding: Encoding::Plain,
        body: &[],
    })?;
    if reply.status == 403 {
        // Keys that may only write are common. Servers with such keys are new enough.
        return Ok(Server { product: Product::Elasticsearch, version: (9, 0) });
    }
    if let Some(failure) = judge::failure(client, &reply, &[]) {
        return Err(failure);
    }
    let answer: Value = serde_json::from_str(&reply.body).unwrap_or_default();
    let Some(server) = Server::from_json(&answer) else {
        let what = format!("{}, which names no version", judge::describe(client, &reply));
        let remedy = "check that the address is that of Elasticsearch or OpenSearch itself";
        return Err(Delivered::unavailable(Fault::new(what, remedy)));
    };
    if server.product == Product::Elasticsearch && server.version.0 < 7 {
        let (major, minor) = server.version;
        let what = format!("Elasticsearch {major}.{minor} is too old");
        let remedy = "use Elasticsearch 7 or later, or OpenSearch";
        return Err(Delivered::unavailable(Fault::new(what, remedy)));
    }
    Ok(server)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn products_and_versions() {
        let server = |number: &str, distribution: Option<&str>| {
            let version = json!({"number": number, "distribution": distribution});
            Server::from_json(&json!({ "version": version }))
        };
        let old = server("7.7.1", None).unwrap();
        assert_eq!(old, Server { product: Product::Elasticsearch, version: (7, 7) });
        assert!(!old.has_composable_templates() && old.check_data_streams().is_err());
        let new = server("9.1.0-SNAPSHOT", None).unwrap();
        assert!(new.has_composable_templates() && new.check_data_streams().is_ok());
        let fork = server("1.3.20", Some("opensearch")).unwrap();
        assert!(fork.has_composable_templates() && fork.check_data_streams().is_ok());
        assert_eq!(server("x", None), None);
        assert_eq!(Server::from_json(&json!({"cluster_name": "other"})), None);
    }
}
