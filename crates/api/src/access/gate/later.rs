//! Callers that are not there: the server works for them later, with the rights that they have
//! then.

use axum::body::Body;
use axum::extract::Request;
use node::ingest::tenants::Tenants;
use record::Tenant;

use super::Gate;
use crate::access::principal::{Principal, Scope};
use crate::known::TENANT_NUMBERS;
use crate::wire::clock::now_ns;

impl Gate {
    /// The user or token of this name as a caller that reads lines now, or anybody where nobody
    /// needs to log in; of the dashboards of a tenant, if one is given.
    ///
    /// # Errors
    /// Nobody has this name any more, or may not read; the text is for the user. Users of other
    /// systems are not known by name, because those systems tell their rights at the login.
    pub fn later(&self, name: Option<&str>, tenant: Option<&str>) -> Result<Principal, String> {
        let access = self.access();
        let mut principal = match name {
            None if access.is_off => Principal::anybody(),
            None => return Err("it was made when nobody had to log in; save it again".to_owned()),
            Some(name) => {
                let user = access.users.iter().find(|known| *known.user.name == *name);
                let now_s = now_ns() / 1_000_000_000;
                let is_valid = |expires_s: Option<i64>| expires_s.is_none_or(|end_s| now_s < end_s);
                let is_named = |token: &&crate::access::users::Token| *token.name == *name;
                let token = access.tokens.iter().find(is_named);
                let token = token.filter(|token| is_valid(token.expires_s));
                match (user, token) {
                    (Some(known), _) => known.principal(),
                    (None, Some(token)) => {
                        Principal::named(token.name.clone(), token.rights.clone())
                    }
                    (None, None) => {
                        return Err(format!("this server has no user or token '{name}' any more"));
                    }
                }
            }
        };
        let request = self.of_tenant(tenant)?;
        let tenants = self.of_tenants(&principal, Scope::Read, &request);
        principal.tenants = tenants.map_err(|error| error.to_string())?;
        if !principal.may(Scope::Read) {
            return Err(format!("'{}' may not read lines any more", name.unwrap_or_default()));
        }
        principal.restriction = self.restriction(&principal, Scope::Read);
        principal.limits = self.limits(&principal);
        Ok(principal)
    }

    /// A request that names a tenant.
    fn of_tenant(&self, tenant: Option<&str>) -> Result<Request, String> {
        let mut request = Request::builder().uri("/api/v1/dashboards");
        if let Some(tenant) = tenant {
            let none = Tenants::default();
            let tenants = self.tenants().map_or(&none, |tenants| &**tenants);
            let Tenant { account, project } = tenants.find(tenant)?;
            let [of_account, of_project] = TENANT_NUMBERS;
            request = request.header(of_account, account).header(of_project, project);
        }
        request.body(Body::empty()).map_err(|error| error.to_string())
    }
}
