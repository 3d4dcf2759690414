//! Whose lines a caller writes and reads, where the configuration has tenants.
//!
//! A caller is bound to one tenant, names one with each request (a proxy in front of several), or
//! is for all: then a request reads the default tenant unless it names others. Requests name a
//! tenant as clients of VictoriaLogs do, by `AccountID` and `ProjectID`, and several by the
//! parameter `tenants` in the address; or, at the API of Loki, as Loki's clients do, by
//! `X-Scope-OrgID`.
//!
//! Invariants: a caller that is not for all calls no route of [`Scope::ReadAll`], which show what
//! was made of the lines of others; without `tenants=*` no line of a tenant that was not named is
//! read; what is said twice, and differently, is refused and never guessed.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use node::ingest::tenants::{QueryKind, QueryPlace, TenantOptions, Tenants};
use query::Filter;
use query::source::{Table, Tables};
use record::Tenant;

use super::principal::{Role, Scope};
use crate::known::{TENANT_NUMBERS, TENANTS};
use crate::wire::error::{ApiError, ApiResult};

/// What people save for all that may read, by the beginnings of its calls: it belongs to the
/// administrators of all tenants, and a caller that is not for all does not see it.
const OF_ALL: [&str; 1] = ["/api/v1/lookups"];
/// The header by which clients of Loki name a tenant by its name or id, or several, separated by
/// `|`. Other calls do not read it.
const ORG: &str = "X-Scope-OrgID";
/// Tenants that a request may name at once.
const NAMED_MAX: usize = 100;

/// What `tenant` of a user or a token says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TenantRight {
    /// Nothing: the roles `read` and `ingest` are bound to the default tenant, others are for all.
    #[default]
    Unsaid,
    /// Bound to the tenant of this name or id.
    One(Arc<str>),
    /// Each request names one.
    Named,
    /// For all.
    All,
}

impl TenantRight {
    /// Reads what is written.
    pub fn parse(text: &str) -> TenantRight {
        match text {
            "" => TenantRight::Unsaid,
            "named" => TenantRight::Named,
            "all" => TenantRight::All,
            tenant => TenantRight::One(tenant.into()),
        }
    }

    /// Why a role cannot have it.
    pub fn refusal(&self, role: Role) -> Option<String> {
        let is_bound = matches!(self, TenantRight::One(_) | TenantRight::Named);
        (is_bound && !matches!(role, Role::Read | Role::Ingest)).then(|| {
            format!(
                "the role {} is for all tenants; leave tenant out, or use the role read or ingest",
                role.name()
            )
        })
    }

    /// Checks that the tenant is there.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, tenants: &Tenants) -> Result<(), String> {
        match self {
            TenantRight::Unsaid => Ok(()),
            _ if tenants.is_off() => {
                Err("tenant: there are no tenants; list them in [[tenants]] first".to_owned())
            }
            TenantRight::One(tenant) => {
                tenants.find(tenant).map(|_| ()).map_err(|why| format!("tenant: {why}"))
            }
            TenantRight::Named | TenantRight::All => Ok(()),
        }
    }

    /// Whether a caller of that role is not for all tenants, whatever it asks for.
    pub fn is_bound(&self, role: Role) -> bool {
        self.of(role) != TenantRight::All
    }

    fn of(&self, role: Role) -> TenantRight {
        match self {
            TenantRight::Unsaid if matches!(role, Role::Read | Role::Ingest) => {
                TenantRight::One(Tenant::DEFAULT.to_string().into())
            }
            TenantRight::Unsaid => TenantRight::All,
            said => said.clone(),
        }
    }
}

impl fmt::Display for TenantRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TenantRight::Unsaid => "",
            TenantRight::One(tenant) => tenant,
            TenantRight::Named => "named",
            TenantRight::All => "all",
        })
    }
}

/// Whose lines a request writes and reads. By default there are no tenants.
#[derive(Clone, Debug, Default)]
pub struct OfTenants {
    known: Option<Arc<Tenants>>,
    /// Whose lines it writes.
    written: Tenant,
    /// Whose lines it reads; none: all.
    read: Option<Vec<Tenant>>,
    /// The tenant that the request named although its caller is not bound to one.
    named: Option<Tenant>,
    /// Whether its caller is not for all.
    is_bound: bool,
    /// Whose dashboards and links it reads and changes; none: those of all.
    views: Option<Tenant>,
}

impl OfTenants {
    /// What a request says, of a caller with that right and role.
    ///
    /// # Errors
    /// 400 for a tenant that is not there, 403 for one that is not the caller's.
    pub fn of(
        tenants: &Arc<Tenants>,
        right: &TenantRight,
        role: Role,
        scope: Scope,
        request: &Request,
    ) -> ApiResult<OfTenants> {
        // Nodes ask for queries that were restricted where they began.
        if role == Role::Node {
            return Ok(OfTenants::default());
        }
        let mut numbers = numbers(request)?;
        let mut several = several(request)?;
        let orgs = orgs(request)?;
        let mut of = OfTenants { known: Some(Arc::clone(tenants)), ..OfTenants::default() };
        let right = right.of(role);
        match (&right, &orgs[..]) {
            (_, []) => {}
            // A caller that is bound learns of no other tenant whether it is there.
            (TenantRight::One(own), all) => {
                let own = tenants.find(own).map_err(|why| forbidden(&why))?;
                if all.iter().any(|org| tenants.find(org) != Ok(own)) {
                    return Err(forbidden(
                        "X-Scope-OrgID names another tenant than that of this caller; leave it out",
                    ));
                }
            }
            (_, [org]) => {
                let named = known(tenants, org)?;
                if several.is_some() || numbers.is_some_and(|other| other != named) {
                    return Err(ApiError::bad_request(
                        "the request names tenants by X-Scope-OrgID and by AccountID, ProjectID or \
                         'tenants'; leave out one of them",
                    ));
                }
                numbers = Some(named);
            }
            (_, all) => {
                if several.is_some() {
                    return Err(ApiError::bad_request(
                        "the request names tenants by X-Scope-OrgID and by 'tenants'; leave out \
                         one of them",
                    ));
                }
                several = Some(all.join(","));
            }
        }
        if right != TenantRight::All && several.is_some() {
            return Err(forbidden(
                "tenants: only callers for all tenants name several; leave the parameter out",
            ));
        }
        match right {
            TenantRight::One(tenant) => {
                let own = tenants.find(&tenant).map_err(|why| forbidden(&why))?;
                if numbers.is_some_and(|named| named != own) {
                    return Err(forbidden(
                        "AccountID and ProjectID name another tenant than that of this caller; \
                         leave them out",
                    ));
                }
                (of.written, of.is_bound) = (own, true);
            }
            TenantRight::Named | TenantRight::All | TenantRight::Unsaid => {
                of.is_bound = right == TenantRight::Named;
                of.named = of.is_bound.then_some(numbers.unwrap_or_default());
                of.written = known(tenants, &numbers.unwrap_or_default().to_string())?;
            }
        }
        of.views = (of.is_bound || numbers.is_some()).then_some(of.written);
        if of.is_bound && OF_ALL.iter().any(|calls| request.uri().path().starts_with(calls)) {
            return Err(forbidden(
                "tables of lookups belong to those who may read the lines of all tenants",
            ));
        }
        of.read = Some(vec![of.written]);
        let Some(several) = several else { return Ok(of) };
        if numbers.is_some() {
            return Err(ApiError::bad_request(
                "the request names tenants by 'tenants' and by AccountID or ProjectID; leave out \
                 one of them",
            ));
        }
        if scope == Scope::Ingest {
            return Err(ApiError::bad_request(
                "tenants: lines are those of one tenant; name it by AccountID and ProjectID",
            ));
        }
        of.read = match several.trim() {
            "*" => None,
            list => {
                let each = list.split(',').take(NAMED_MAX + 1);
                let mut read: Vec<Tenant> =
                    each.map(|text| known(tenants, text.trim())).collect::<ApiResult<_>>()?;
                if read.len() > NAMED_MAX {
                    return Err(ApiError::bad_request(format!(
                        "tenants: there are more than {NAMED_MAX}; '*' names all"
                    )));
                }
                read.sort_unstable();
                read.dedup();
                Some(read)
            }
        };
        Ok(of)
    }

    /// Whether there are tenants.
    pub fn are_there(&self) -> bool {
        self.known.is_some()
    }

    /// Whose lines the request writes.
    pub fn written(&self) -> Tenant {
        self.written
    }

    /// Whose dashboards and links the request reads and changes: of the caller's tenant, or of that
    /// which it names; none: those of all.
    pub fn views(&self) -> Option<Tenant> {
        self.views
    }

    /// Whether the caller is not for all tenants.
    pub fn is_bound(&self) -> bool {
        self.is_bound
    }

    /// What is added to the name of a caller that names a tenant with each request, so that what it
    /// owns for one tenant is not found by requests for another.
    pub fn suffix(&self) -> Option<String> {
        self.named.map(|tenant| format!("/{tenant}"))
    }

    /// The lines that the request reads; none: all. Rows that Loginson makes of the lines of all
    /// tenants are not among those of some.
    pub fn filter(&self) -> Option<Filter> {
        let read = self.read.as_ref()?;
        Some(Filter::and(vec![Filter::without_own(), Filter::of_tenants(read)]))
    }

    /// A filter of lines that are to be changed, of the lines of these tenants alone.
    pub fn narrowed(&self, filter: &str) -> String {
        match &self.read {
            Some(read) => format!("{} ({filter}\n)", Filter::of_tenants(read)),
            None => filter.to_owned(),
        }
    }

    /// The tenant whose lines alone the request reads, if there are tenants.
    pub fn only(&self) -> Option<(&Arc<Tenants>, Tenant)> {
        match (&self.known, self.read.as_deref()) {
            (Some(known), Some([tenant])) => Some((known, *tenant)),
            _ => None,
        }
    }

    /// What the configuration says of that tenant.
    pub fn options(&self) -> Option<&TenantOptions> {
        self.only().and_then(|(known, tenant)| known.options(tenant))
    }

    /// A place for a query of the lines of one tenant, until it is dropped.
    ///
    /// # Errors
    /// 429: the tenant has no other.
    pub fn begin_query(&self, kind: QueryKind) -> ApiResult<Option<QueryPlace>> {
        let Some((known, tenant)) = self.only() else { return Ok(None) };
        known.begin_query(tenant, kind).map(Some).map_err(|limit| {
            let what = match kind {
                QueryKind::Awaited => "queries of the tenant",
                QueryKind::Tail => "tails of the tenant",
            };
            let text = format!(
                "{limit} {what} {tenant} run or wait, which is {} of [[tenants]]; try again when \
                 one has ended",
                kind.key()
            );
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, text).retry_after(1)
        })
    }

    /// Notes that a query has ended, for the tenant whose lines alone it read.
    pub fn note_query(&self, now_ns: i64, lines_scanned: u64, bytes_scanned: u64) {
        if let Some((known, tenant)) = self.only() {
            known.note_query(tenant, now_ns, lines_scanned, bytes_scanned);
        }
    }

    /// An error if the tenant has as many background queries as it may, or if the rows of those
    /// that have ended take as much as they may.
    ///
    /// # Errors
    /// 429.
    pub fn check_background(&self, queries: usize, results_bytes: u64) -> ApiResult<()> {
        let Some((known, tenant)) = self.only() else { return Ok(()) };
        let Some(options) = known.options(tenant) else { return Ok(()) };
        let text = match (options.background_max, options.results_bytes_max) {
            (Some(limit), _) if queries >= limit => format!(
                "{queries} background queries of the tenant {tenant} wait, run or are paused, and \
                 background_max of [[tenants]] is {limit}; try again when one has ended"
            ),
            (_, Some(limit)) if results_bytes >= limit => format!(
                "the results of background queries of the tenant {tenant} take {results_bytes} \
                 bytes, and results_bytes_max of [[tenants]] is {limit}; delete some (DELETE \
                 /api/v1/queries/ID)"
            ),
            _ => return Ok(()),
        };
        known.note_refusal(tenant);
        Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, text))
    }

    /// An error if the tenant is beyond its rate, and its lines cannot be taken now.
    ///
    /// # Errors
    /// 429.
    pub fn check_rate(&self) -> ApiResult<()> {
        let refusal = |tenants: &Arc<Tenants>| tenants.refusal(self.written, Instant::now());
        let Some(wait) = self.known.as_ref().and_then(refusal) else { return Ok(()) };
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
        let text = format!(
            "the tenant {} sends more than its bytes_per_s or lines_per_s allows; send again in \
             {seconds} s, or raise them in [[tenants]]",
            self.written
        );
        Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, text).retry_after(seconds))
    }
}

/// The tables of callers that are not for all: none.
#[derive(Debug)]
pub struct NoTables;

impl Tables for NoTables {
    fn table(&self, _: &str) -> Option<Arc<dyn Table>> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

fn known(tenants: &Tenants, text: &str) -> ApiResult<Tenant> {
    tenants.find(text).map_err(ApiError::bad_request)
}

fn forbidden(why: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, why)
}

/// The tenant that a request names by its numbers; none if it names none.
fn numbers(request: &Request) -> ApiResult<Option<Tenant>> {
    let mut found = [None, None];
    for (name, found) in TENANT_NUMBERS.iter().zip(&mut found) {
        for text in values(request, name) {
            let number = text.trim().parse::<u32>().map_err(|_| {
                ApiError::bad_request(format!("{name} is '{text}'; it is a number below 2^32"))
            })?;
            if found.is_some_and(|before| before != number) {
                return Err(ApiError::bad_request(format!("{name} is there twice")));
            }
            *found = Some(number);
        }
    }
    let [account, project] = found;
    let is_there = account.or(project).is_some();
    let number = Option::unwrap_or_default;
    Ok(is_there.then(|| Tenant { account: number(account), project: number(project) }))
}

/// The tenants that a request names by their list.
fn several(request: &Request) -> ApiResult<Option<String>> {
    let mut all = in_address(request, TENANTS);
    match (all.pop(), all.is_empty()) {
        (found, true) => Ok(found),
        (_, false) => Err(ApiError::bad_request("tenants is there twice; separate them by commas")),
    }
}

/// The tenants that a request to the API of Loki names by its header; none if it names none.
fn orgs(request: &Request) -> ApiResult<Vec<String>> {
    let path = request.uri().path();
    if !["/loki/", "/insert/loki/"].iter().any(|api| path.starts_with(api)) {
        return Ok(Vec::new());
    }
    let of_header = request.headers().get_all(ORG);
    let mut values = of_header.iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let Some(first) = values.next() else { return Ok(Vec::new()) };
    if values.next().is_some() {
        return Err(ApiError::bad_request("X-Scope-OrgID is there twice; separate them by '|'"));
    }
    let names = first.split('|').map(str::trim).filter(|name| !name.is_empty());
    let names: Vec<String> = names.take(NAMED_MAX + 1).map(str::to_owned).collect();
    match names.iter().find(|name| name.contains([',', '*'])) {
        Some(name) => Err(ApiError::bad_request(format!(
            "X-Scope-OrgID: '{}' is not the name or the id of a tenant",
            name.chars().take(100).collect::<String>()
        ))),
        None => Ok(names),
    }
}

fn values(request: &Request, name: &str) -> Vec<String> {
    let of_headers = |headers: &HeaderMap| {
        let all = headers.get_all(name).iter();
        all.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect::<Vec<_>>()
    };
    let mut values = of_headers(request.headers());
    values.extend(in_address(request, name));
    values.retain(|value| !value.trim().is_empty());
    values
}

fn in_address(request: &Request, name: &str) -> Vec<String> {
    let pairs = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    let own = pairs.filter(|(key, value)| key == name && !value.is_empty());
    own.map(|(_, value)| value.into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use node::ingest::tenants::TenantOptions;

    use super::*;

    fn tenants() -> Arc<Tenants> {
        let tenant = |account, project, name: &str| TenantOptions {
            id: Tenant { account, project },
            name: Some(name.to_owned()),
            ..TenantOptions::default()
        };
        Arc::new(Tenants::new(vec![tenant(12, 3, "shop"), tenant(13, 0, "bank")]).unwrap())
    }

    /// Whose lines are written and read, or the status.
    fn asked(right: &str, role: Role, query: &str, headers: &[(&str, &str)]) -> String {
        asked_at("/select/logsql/query", right, role, query, headers)
    }

    fn asked_at(
        path: &str,
        right: &str,
        role: Role,
        query: &str,
        headers: &[(&str, &str)],
    ) -> String {
        let mut request = Request::builder().uri(format!("{path}?{query}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        let scope = if role == Role::Ingest { Scope::Ingest } else { Scope::Read };
        match OfTenants::of(&tenants(), &TenantRight::parse(right), role, scope, &request) {
            Err(error) => error.status().as_u16().to_string(),
            Ok(of) => {
                let read = of.read.map_or("all".to_owned(), |read| {
                    read.iter().map(Tenant::to_string).collect::<Vec<_>>().join(",")
                });
                format!("{} {read}{}", of.written, if of.is_bound { " bound" } else { "" })
            }
        }
    }

    #[test]
    fn whose_lines_a_request_writes_and_reads() {
        let (account, both) = ([("AccountID", "13")], [("AccountID", "12"), ("ProjectID", "3")]);
        use Role::{Admin, Auditor, Ingest, Operate, Read};
        for (right, role, query, headers, expected) in [
            ("", Read, "", &[][..], "0:0 0:0 bound"),
            ("", Ingest, "", &[], "0:0 0:0 bound"),
            ("shop", Read, "", &[], "12:3 12:3 bound"),
            ("12:3", Ingest, "", &[], "12:3 12:3 bound"),
            ("shop", Read, "", &both, "12:3 12:3 bound"),
            ("shop", Read, "", &account, "403"),
            ("shop", Read, "AccountID=13", &[], "403"),
            ("shop", Read, "tenants=shop", &[], "403"),
            ("shop", Read, "tenants=*", &[], "403"),
            ("", Read, "", &account, "403"),
            ("gone", Read, "", &[], "403"),
            ("named", Read, "", &[], "0:0 0:0 bound"),
            ("named", Read, "", &account, "13:0 13:0 bound"),
            ("named", Read, "AccountID=12&ProjectID=3", &[], "12:3 12:3 bound"),
            ("named", Read, "AccountID=99", &[], "400"),
            ("named", Read, "AccountID=x", &[], "400"),
            ("named", Read, "AccountID=-1", &[], "400"),
            ("named", Read, "AccountID=12", &account, "400"),
            ("named", Read, "tenants=*", &[], "403"),
            ("all", Read, "tenants=*", &[], "0:0 all"),
            ("", Admin, "", &[], "0:0 0:0"),
            ("", Operate, "tenants=bank", &[], "0:0 13:0"),
            ("", Auditor, "tenants=bank,12:3,bank", &[], "0:0 12:3,13:0"),
            ("", Admin, "tenants=*", &[], "0:0 all"),
            ("", Admin, "tenants=gone", &[], "400"),
            ("", Admin, "tenants=shop&tenants=bank", &[], "400"),
            ("", Admin, "tenants=shop", &account, "400"),
            ("", Admin, "", &both, "12:3 12:3"),
            ("all", Ingest, "", &account, "13:0 13:0"),
            ("all", Ingest, "tenants=bank", &[], "400"),
        ] {
            let found = asked(right, role, query, headers);
            assert_eq!(found, expected, "{right} {role:?} {query} {headers:?}");
        }
        assert_eq!(asked("", Admin, &format!("tenants={}", ["0:0"; 101].join(",")), &[]), "400");
    }

    #[test]
    fn clients_of_loki_name_tenants_by_their_header() {
        use Role::{Admin, Ingest, Read};
        let (query, push) = ("/loki/api/v1/query_range", "/insert/loki/api/v1/push");
        for (path, right, role, address, org, expected) in [
            (query, "named", Read, "", "bank", "13:0 13:0 bound"),
            (query, "named", Read, "", "12:3", "12:3 12:3 bound"),
            (query, "named", Read, "", "", "0:0 0:0 bound"),
            (query, "named", Read, "", "gone", "400"),
            (query, "named", Read, "", "shop|bank", "403"),
            (query, "named", Read, "AccountID=13", "bank", "13:0 13:0 bound"),
            (query, "named", Read, "AccountID=13", "shop", "400"),
            (query, "shop", Read, "", "shop", "12:3 12:3 bound"),
            (query, "shop", Read, "", "bank", "403"),
            (query, "shop", Read, "", "shop|bank", "403"),
            (query, "shop", Read, "", "gone", "403"),
            (query, "", Read, "", "shop", "403"),
            (query, "", Read, "", "default", "0:0 0:0 bound"),
            (query, "", Admin, "", "shop | bank", "0:0 12:3,13:0"),
            (query, "", Admin, "", "bank", "13:0 13:0"),
            (query, "", Admin, "", "*", "400"),
            (query, "", Admin, "", "shop|*", "400"),
            (query, "", Admin, "", "shop,bank", "400"),
            (query, "", Admin, "tenants=*", "shop", "400"),
            (query, "", Admin, "tenants=*", "shop|bank", "400"),
            (push, "named", Ingest, "", "bank", "13:0 13:0 bound"),
            (push, "all", Ingest, "", "shop|bank", "400"),
            // Only Loki's API has this header.
            ("/select/logsql/query", "named", Read, "", "bank", "0:0 0:0 bound"),
            ("/insert/jsonline", "all", Ingest, "", "bank", "0:0 0:0"),
        ] {
            let found = asked_at(path, right, role, address, &[("x-scope-orgid", org)]);
            assert_eq!(found, expected, "{path} {right} {role:?} {address} {org}");
        }
        let twice = [("x-scope-orgid", "shop"), ("X-Scope-OrgID", "bank")];
        assert_eq!(asked_at(query, "", Admin, "", &twice), "400");
    }

    #[test]
    fn rights_are_written_as_they_are_read() {
        for text in ["", "named", "all", "shop", "12:3"] {
            assert_eq!(TenantRight::parse(text).to_string(), text);
        }
        for role in Role::ALL {
            let may = matches!(role, Role::Read | Role::Ingest);
            for text in ["shop", "named"] {
                assert_eq!(TenantRight::parse(text).refusal(role).is_none(), may, "{role:?}");
            }
            for text in ["", "all"] {
                assert_eq!(TenantRight::parse(text).refusal(role), None);
            }
        }
    }

    #[test]
    fn the_filter_names_the_tenants_alone() {
        let of = OfTenants { read: Some(vec![Tenant::DEFAULT]), ..OfTenants::default() };
        let shown = of.filter().unwrap().to_string();
        assert_eq!(shown, "!_type:in(\"summary\", \"alert\", \"audit\") _tenant:=\"\"");
        assert!(OfTenants::default().filter().is_none());
        assert_eq!(of.narrowed("a or b # c"), "_tenant:=\"\" (a or b # c\n)");
        assert_eq!(OfTenants::default().narrowed("a or b"), "a or b");
    }
}
