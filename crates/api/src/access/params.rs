//! Parameters from the query string and, with POST, from a form or a JSON object in the body: one
//! list, those of the body first.

use std::str::FromStr;

use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};

use query::Restriction;
use query::macros::Callable;
use serde_json::{Map, Value};

use crate::access::principal::Principal;
use crate::known;
use crate::wire::body::read_whole;
use crate::wire::error::{ApiError, ApiResult};

/// Limit of a body with parameters. A longer one is refused with 413.
const FORM_BYTES_MAX: usize = 1 << 20;

/// The parameters of a request.
#[derive(Debug, Default)]
pub struct Params {
    pairs: Vec<(String, String)>,
    /// The lines that the caller may see, whatever the request selects.
    restriction: Restriction,
    /// The macros that the caller may call.
    macros: Callable,
}

impl Params {
    /// Parses `a=1&b=2`, percent-decoded; bytes that are not UTF-8 become U+FFFD. They know no
    /// caller: handlers that read lines take theirs from the request.
    pub fn parse(text: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(text)
            .map(|(name, value)| (name.into_owned(), value.into_owned()));
        Params { pairs: pairs.collect(), ..Params::default() }
    }

    /// Parses a JSON object whose values are strings, numbers, booleans, or lists of those.
    pub fn parse_json(text: &[u8]) -> ApiResult<Self> {
        let wrong = |what: String| {
            ApiError::bad_request(format!(
                "the body is not a JSON object with strings and numbers: {what}"
            ))
        };
        let object: Map<String, Value> =
            serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
        let mut pairs = Vec::new();
        for (name, value) in object {
            let values = match value {
                Value::Array(values) => values,
                value => vec![value],
            };
            for value in values {
                match value {
                    Value::Null => {}
                    Value::String(text) => pairs.push((name.clone(), text)),
                    Value::Number(_) | Value::Bool(_) => {
                        pairs.push((name.clone(), value.to_string()));
                    }
                    Value::Array(_) | Value::Object(_) => return Err(wrong(format!("'{name}'"))),
                }
            }
        }
        Ok(Params { pairs, ..Params::default() })
    }

    /// Parameters of a query that the server runs for a caller by itself.
    pub fn of_principal(principal: &Principal, pairs: Vec<(String, String)>) -> Params {
        let mut params = Params { pairs, ..Params::default() };
        params.set_caller(Some(principal));
        params
    }

    /// What the caller may see, without the parameters.
    pub fn of_caller(&self) -> &Restriction {
        &self.restriction
    }

    /// The macros that the caller may call.
    pub fn macros(&self) -> Callable {
        self.macros
    }

    fn set_caller(&mut self, principal: Option<&Principal>) {
        self.restriction = principal.map(|known| known.restriction.clone()).unwrap_or_default();
        self.macros = principal.map(Principal::callable).unwrap_or_default();
    }

    /// All parameters, in order.
    pub fn pairs(&self) -> Vec<(String, String)> {
        self.pairs.clone()
    }

    /// The first value of a parameter; an empty one counts as missing.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.as_str())
    }

    /// All values of a parameter that are not empty, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.as_str())
    }

    /// A required parameter.
    pub fn required(&self, name: &str) -> ApiResult<&str> {
        self.get(name)
            .ok_or_else(|| ApiError::bad_request(format!("the parameter '{name}' is missing")))
    }

    /// A number, or `None` if it is missing.
    pub fn number<T: FromStr>(&self, name: &str) -> ApiResult<Option<T>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse().map_err(|_| {
            ApiError::bad_request(format!(
                "the parameter '{name}' must be a whole number, not '{text}'"
            ))
        })?;
        Ok(Some(number))
    }

    /// A switch: on if it is given, unless as `0` or `false`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "0" && value != "false")
    }
}

impl<S: Send + Sync> FromRequest<S> for Params {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> ApiResult<Self> {
        let mut params = Params::default();
        let path = request.uri().path().to_owned();
        let form = is_of_type(&request, b"application/x-www-form-urlencoded");
        let json = is_of_type(&request, b"application/json");
        let principal = request.extensions().get::<Principal>().cloned();
        let in_address = request.uri().query().map(|query| Params::parse(query.as_bytes()));
        if is_of_type(&request, b"multipart/form-data") {
            return Err(ApiError::bad_request(
                "send parameters in the address or as application/x-www-form-urlencoded (curl \
                -d), not as \
                 multipart/form-data (curl -F)",
            ));
        }
        if form || json {
            let too_long =
                || ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 1 MiB");
            let body =
                read_whole(request.into_body(), FORM_BYTES_MAX).await?.ok_or_else(too_long)?;
            params = match json {
                // vmalert sends the media type of JSON with an empty body.
                true if body.trim_ascii().is_empty() => Params::default(),
                true => Params::parse_json(&body)?,
                false => Params::parse(&body),
            };
        }
        // Those in the query string have been checked before.
        let pairs = params.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        known::check(&path, pairs)?;
        params.pairs.extend(in_address.unwrap_or_default().pairs);
        params.set_caller(principal.as_ref());
        Ok(params)
    }
}

/// The parameters in the address of a request whose body is a text, and that text. A body of more
/// than 1 MiB, or that is not UTF-8, is refused.
pub struct ParamsAndText(pub Params, pub String);

impl<S: Send + Sync> FromRequest<S> for ParamsAndText {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> ApiResult<Self> {
        let query = request.uri().query().unwrap_or_default();
        let mut params = Params::parse(query.as_bytes());
        params.set_caller(request.extensions().get::<Principal>());
        let too_long =
            || ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 1 MiB");
        let body = read_whole(request.into_body(), FORM_BYTES_MAX).await?.ok_or_else(too_long)?;
        let text = String::from_utf8(body)
            .map_err(|_| ApiError::bad_request("the body is not UTF-8 text"))?;
        Ok(ParamsAndText(params, text))
    }
}

/// Whether the body of a request has that media type.
fn is_of_type(request: &Request, name: &[u8]) -> bool {
    let given = request.headers().get(CONTENT_TYPE);
    let given = given.and_then(|given| given.as_bytes().split(|&b| b == b';').next());
    request.method() == Method::POST
        && given.is_some_and(|given| given.trim_ascii().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_found() {
        let params = Params::parse(b"query=a%20b+c&field=x&field=y&limit=5&empty=&keep=1&n=x");
        assert_eq!(params.get("query"), Some("a b c"));
        assert_eq!(params.all("field").collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(params.number::<u64>("limit").unwrap(), Some(5));
        assert_eq!(params.number::<u64>("absent").unwrap(), None);
        assert!(params.number::<u64>("n").is_err());
        assert_eq!(params.get("empty"), None);
        assert!(params.flag("keep") && !params.flag("absent"));
        assert!(params.required("absent").is_err());
    }

    #[test]
    fn objects_of_json_are_parameters_too() {
        let params = Params::parse_json(
            br#"{"query":"a \"b\"","limit":5,"include":["_line_id","_line"],"keep":true,"end":null}"#,
        )
        .unwrap();
        assert_eq!(params.get("query"), Some("a \"b\""));
        assert_eq!(params.number::<u64>("limit").unwrap(), Some(5));
        assert_eq!(params.all("include").collect::<Vec<_>>(), ["_line_id", "_line"]);
        assert!(params.flag("keep") && params.get("end").is_none());
        for wrong in [&b"[]"[..], b"{", br#"{"query":{}}"#, br#"{"query":[[]]}"#] {
            assert!(Params::parse_json(wrong).is_err());
        }
    }
}
