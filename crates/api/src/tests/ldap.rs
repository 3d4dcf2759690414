//! Logins by a directory: a real OpenLDAP (`slapd`) on loopback, over TLS.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, ORIGIN, SET_COOKIE};
use cluster::engines::Secret;
use serde_json::{Value, json};

use super::gate::{basic, bearer, with_access};
use super::*;
use crate::access::groups::{GroupRule, Groups};
use crate::access::ldap::Directories;
use crate::access::ldap::filter::Filter;
use crate::access::ldap::options::{LdapOptions, Server};
use crate::access::outside::{Outside, Told};
use crate::access::principal::Role;

/// The longest wait in these tests; beyond it a test fails.
const PATIENCE: Duration = Duration::from_secs(300);
const ANN: &str = "uid=ann,ou=people,dc=example";

/// Who is there at the beginning. Bob has a name that filters and names of entries must escape.
const ENTRIES: &str = "\
dn: dc=example
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: cn=reader,dc=example
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword: the reader's password

dn: ou=people,dc=example
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example
objectClass: organizationalUnit
ou: groups

dn: ou=others,ou=groups,dc=example
objectClass: organizationalUnit
ou: others

dn: uid=ann,ou=people,dc=example
objectClass: inetOrgPerson
uid: ann
cn: Ann
sn: Example
mail: ann@example.com
userPassword: ann's password

dn: uid=bob,ou=people,dc=example
objectClass: inetOrgPerson
uid: bob
cn: Bob (of *, \\ and more)
sn: Example
userPassword: bob's password

dn: uid=eve,ou=people,dc=example
objectClass: inetOrgPerson
uid: eve
cn: Eve
sn: Example
userPassword: eve's password

dn: cn=Ops,ou=groups,dc=example
objectClass: groupOfNames
cn: Ops
member: uid=ann,ou=people,dc=example

dn: cn=staff,ou=groups,dc=example
objectClass: groupOfNames
cn: staff
member: uid=ann,ou=people,dc=example
member: uid=bob,ou=people,dc=example

dn: cn=ops,ou=others,ou=groups,dc=example
objectClass: groupOfNames
cn: ops
member: uid=eve,ou=people,dc=example
";

/// A directory with its entries; ended when dropped.
struct Slapd {
    child: Option<Child>,
    directory: tempfile::TempDir,
    plain: u16,
    tls: u16,
}

/// A port on which nothing listens now.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Slapd {
    fn start() -> Slapd {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(at.join("certificate.pem"), issued.cert.pem()).unwrap();
        std::fs::write(at.join("key.pem"), issued.signing_key.serialize_pem()).unwrap();
        std::fs::create_dir(at.join("data")).unwrap();
        let here = at.display();
        let settings = format!(
            "include /etc/ldap/schema/core.schema\ninclude /etc/ldap/schema/cosine.schema\n\
             include /etc/ldap/schema/inetorgperson.schema\nmodulepath /usr/lib/ldap\n\
             moduleload back_mdb\nmoduleload memberof\nmoduleload ppolicy\npidfile {here}/pid\n\
             TLSCertificateFile {here}/certificate.pem\nTLSCertificateKeyFile {here}/key.pem\n\
             database mdb\nmaxsize 16777216\nsuffix dc=example\nrootdn cn=admin,dc=example\n\
             rootpw secret\ndirectory {here}/data\noverlay memberof\noverlay ppolicy\n\
             access to attrs=userPassword by anonymous auth by * none\n\
             access to * by dn=cn=reader,dc=example read by * none\n"
        );
        std::fs::write(at.join("slapd.conf"), settings).unwrap();
        let mut slapd = Slapd { child: None, directory, plain: free_port(), tls: free_port() };
        slapd.resume();
        slapd.change("ldapadd", ENTRIES);
        slapd
    }

    /// Starts the server, at the same ports as before.
    fn resume(&mut self) {
        let urls = format!("ldap://127.0.0.1:{} ldaps://127.0.0.1:{}", self.plain, self.tls);
        let mut command = Command::new("/usr/sbin/slapd");
        // With a level of debugging it stays in the foreground.
        command.args(["-d", "0", "-h", &urls, "-f"]).arg(self.path("slapd.conf"));
        let child = command.spawn().expect("slapd is missing; install it with: make test-deps");
        self.child = Some(child);
        let started = Instant::now();
        while [self.plain, self.tls].iter().any(|p| TcpStream::connect(("127.0.0.1", *p)).is_err())
        {
            assert!(started.elapsed() < PATIENCE, "slapd does not listen");
            std::thread::yield_now();
        }
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// Changes entries, as an administrator of the directory.
    fn change(&self, command: &str, changes: &str) {
        let url = format!("ldap://127.0.0.1:{}", self.plain);
        let mut child = Command::new(command)
            .args(["-x", "-H", &url, "-D", "cn=admin,dc=example", "-w", "secret"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("ldapadd is missing; install it with: make test-deps");
        child.stdin.take().unwrap().write_all(changes.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{changes}");
    }

    /// The settings of the directory, over TLS, with the account that reads.
    fn options(&self) -> LdapOptions {
        LdapOptions {
            name: "corp".into(),
            servers: vec![server(&format!("ldaps://localhost:{}", self.tls))],
            ca: Some(self.path("certificate.pem")),
            account: Some(account("the reader's password")),
            user_base: "ou=people,dc=example".into(),
            user_filter: filter("(uid={user})"),
            name_attribute: "uid".into(),
            groups_attribute: Some("memberOf".into()),
            groups_base: Some("ou=Groups, dc=Example".into()),
            groups_filter: None,
            recheck: Duration::ZERO,
            timeout: Duration::from_secs(120),
        }
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        self.stop();
    }
}

fn server(url: &str) -> Server {
    Server::parse(url, true).unwrap()
}

fn filter(text: &str) -> Filter {
    Filter::parse(text).unwrap()
}

fn account(password: &str) -> (String, Secret) {
    ("cn=reader,dc=example".to_owned(), Secret::new(password))
}

fn rule(group: &str, role: Role) -> GroupRule {
    GroupRule { from: None, group: Some(group.into()), rights: Arc::new(role.into()) }
}

/// A server whose users are those of these directories, besides its own.
fn server_of(directories: Vec<LdapOptions>) -> Fixture {
    Fixture::new(|options| {
        with_access(options);
        options.access.ldap = directories;
        options.access.groups = Groups(vec![
            rule("cn=staff,ou=groups,dc=example", Role::Read),
            rule("Ops", Role::Operate),
        ]);
    })
}

impl Fixture {
    async fn with_password(&self, name: &str, password: &str) -> StatusCode {
        let request = Request::get("/api/v1/status").header(HOST, "localhost");
        let request = request.header(AUTHORIZATION, basic(name, password)).body(Body::empty());
        self.answer(request).await.status()
    }

    /// The cookie of a login at the page, or why there is none.
    pub(super) async fn log_in_at_page(
        &self,
        name: &str,
        password: &str,
    ) -> Result<String, String> {
        let form = [("name", name), ("password", password)];
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = Request::post("/api/v1/login")
            .header(HOST, "localhost")
            .header(ORIGIN, "http://localhost")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Body::from(form));
        let response = self.answer(request).await;
        let status = response.status();
        if status != 200 {
            return Err(format!("{status} {}", text(response).await));
        }
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap();
        Ok(cookie.split(';').next().unwrap().to_owned())
    }

    async fn who(&self, cookie: &str) -> Value {
        let request = Request::get("/api/v1/me").header(HOST, "localhost").header(COOKIE, cookie);
        let answer = text(self.answer(request.body(Body::empty())).await).await;
        serde_json::from_str(&answer).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_a_directory_log_in() {
    let slapd = Slapd::start();
    let fixture = server_of(vec![slapd.options()]);
    assert_eq!(fixture.who("").await["passwords"], true);
    for (typed, password, name, role) in [
        ("ann", "ann's password", "ann@corp", "operate"),
        ("ANN", "ann's password", "ann@corp", "operate"),
        ("ann@corp", "ann's password", "ann@corp", "operate"),
        ("bob", "bob's password", "bob@corp", "read"),
    ] {
        let cookie = fixture.log_in_at_page(typed, password).await.unwrap();
        let me = fixture.who(&cookie).await;
        assert_eq!((&me["name"], &me["role"]), (&json!(name), &json!(role)), "{typed}");
        assert_eq!(fixture.with_password(typed, password).await, 200, "{typed}");
    }
    // The group of the same short name elsewhere is another one.
    let eve = fixture.log_in_at_page("eve", "eve's password").await.unwrap_err();
    assert!(eve.starts_with("403") && eve.contains("no group of eve@corp"), "{eve}");
    assert_eq!(fixture.with_password("eve", "eve's password").await, 403);
    for (name, password) in [
        ("ann", ""),
        ("ann", "bob's password"),
        ("ann", "Ann's password"),
        ("zoe", "ann's password"),
        ("", "ann's password"),
        ("*", "ann's password"),
        ("an*", "ann's password"),
        ("ann)(uid=*", "ann's password"),
        ("*)(|(uid=*", "ann's password"),
        ("\\61nn", "ann's password"),
        ("ann\0", "ann's password"),
        ("ann@other", "ann's password"),
        ("cn=reader,dc=example", "the reader's password"),
        (ANN, "ann's password"),
    ] {
        assert_eq!(fixture.with_password(name, password).await, 401, "{name:?}");
        let refused = fixture.log_in_at_page(name, password).await.unwrap_err();
        assert!(refused.starts_with("401"), "{name:?}: {refused}");
    }
    // A name of a user of this server is not looked up in the directory.
    assert_eq!(fixture.with_password("read", "correct horse").await, 200);
    assert_eq!(fixture.with_password("read", "ann's password").await, 401);
    let users = Request::get("/api/v1/users").header(HOST, "localhost");
    let users = users.header(AUTHORIZATION, bearer(Role::Admin)).body(Body::empty());
    let users: Value = serde_json::from_str(&text(fixture.answer(users).await).await).unwrap();
    let outside = users["users"].as_array().unwrap().iter().filter(|user| user["from"] == "corp");
    let outside: Vec<_> = outside.map(|user| user["name"].as_str().unwrap()).collect();
    assert_eq!(outside, ["ann@corp", "bob@corp"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_when_the_directory_says_so() {
    let slapd = Slapd::start();
    let fixture = server_of(vec![slapd.options()]);
    let modify = |dn: &str, what: &str| {
        slapd.change("ldapmodify", &format!("dn: {dn}\nchangetype: modify\n{what}\n"));
    };
    let ops = "cn=Ops,ou=groups,dc=example";
    let ann = fixture.log_in_at_page("ann", "ann's password").await.unwrap();
    let bob = fixture.log_in_at_page("bob", "bob's password").await.unwrap();
    assert_eq!(fixture.who(&ann).await["role"], "operate");
    // Another group, another role.
    modify(
        ops,
        &format!(
            "add: member\nmember: uid=bob,ou=people,dc=example\n-\ndelete: member\nmember: {ANN}"
        ),
    );
    assert_eq!(fixture.who(&ann).await["role"], "read");
    assert_eq!(fixture.who(&bob).await["role"], "operate");
    // An administrator of the directory locks the user.
    modify(ANN, "add: pwdAccountLockedTime\npwdAccountLockedTime: 000001010000Z");
    assert_eq!(fixture.who(&ann).await["role"], Value::Null);
    assert_eq!(fixture.with_password("ann", "ann's password").await, 401);
    modify(ANN, "delete: pwdAccountLockedTime");
    // The session does not come back.
    assert_eq!(fixture.who(&ann).await["role"], Value::Null);
    let ann = fixture.log_in_at_page("ann", "ann's password").await.unwrap();
    assert_eq!(fixture.who(&ann).await["role"], "read");
    // The user is renamed, and then gone.
    slapd.change("ldapmodify", &format!("dn: {ANN}\nchangetype: delete\n"));
    assert_eq!(fixture.who(&ann).await["role"], Value::Null);
    assert_eq!(fixture.who(&bob).await["role"], "operate");
    modify("cn=staff,ou=groups,dc=example", "replace: member\nmember: cn=reader,dc=example");
    modify(ops, "replace: member\nmember: cn=reader,dc=example");
    assert_eq!(fixture.who(&bob).await["role"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_away() {
    let mut slapd = Slapd::start();
    let options = LdapOptions { recheck: Duration::from_secs(86_400), ..slapd.options() };
    let at_once = LdapOptions { name: "strict".into(), ..slapd.options() };
    let fixture = server_of(vec![options, at_once]);
    let ann = fixture.log_in_at_page("ann", "ann's password").await.unwrap();
    let strict = fixture.log_in_at_page("ann@strict", "ann's password").await.unwrap();
    slapd.stop();
    // Each session goes on, whether its directory is asked or not.
    assert_eq!(fixture.who(&ann).await["role"], "operate");
    assert_eq!(fixture.who(&strict).await["role"], "operate");
    // Users of this server do not depend on it. Others do, and are told so.
    assert_eq!(fixture.with_password("read", "correct horse").await, 200);
    let away = fixture.log_in_at_page("bob", "bob's password").await.unwrap_err();
    assert!(away.starts_with("502") && away.contains("directory 'corp' cannot be asked"), "{away}");
    assert_eq!(fixture.with_password("bob@strict", "bob's password").await, 502);
    slapd.resume();
    let started = Instant::now();
    while fixture.with_password("bob", "bob's password").await != 200 {
        assert!(started.elapsed() < PATIENCE, "the directory is not asked again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_password_is_kept_for_a_short_time() {
    let mut slapd = Slapd::start();
    let directory = LdapOptions { recheck: Duration::from_secs(60), ..slapd.options() };
    let directory = crate::access::ldap::directory::Directory::new(directory).unwrap();
    assert!(directory.known("ann", b"ann's password").is_none());
    assert_eq!(directory.log_in("ann", b"ann's password").unwrap().unwrap().subject, ANN);
    let known = directory.known("ann", b"ann's password");
    assert!(directory.known("ann", b"another").is_none());
    assert!(directory.known("an", b"nann's password").is_none());
    assert!(directory.known("ANN", b"ann's password").is_none());
    slapd.stop();
    // On a machine that is very busy the minute may be over.
    if let Some(known) = known {
        assert_eq!(known.name, "ann");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_and_certificates() {
    let slapd = Slapd::start();
    let other = Slapd::start();
    let url = |scheme: &str, port: u16| server(&format!("{scheme}://localhost:{port}"));
    let with = |name: &str, change: &dyn Fn(&mut LdapOptions)| {
        let mut options = LdapOptions { name: name.into(), ..slapd.options() };
        change(&mut options);
        options
    };
    let fixture = server_of(vec![
        // The first server is away; the second one is asked, by StartTLS.
        with("start", &|o| o.servers = vec![url("ldaps", free_port()), url("ldap", slapd.plain)]),
        // A port of LDAP where TLS is expected, and the reverse.
        with("mixed", &|o| o.servers = vec![url("ldaps", slapd.plain)]),
        with("plain", &|o| o.servers = vec![url("ldap", slapd.tls)]),
        // A certificate that another authority signed, and one for another name.
        with("stranger", &|o| o.ca = Some(other.path("certificate.pem"))),
        with("name", &|o| o.servers[0].host = "127.0.0.1".into()),
        with("account", &|o| o.account = Some(account("another"))),
        with("base", &|o| o.user_base = "ou=nobody,dc=example".into()),
        with("several", &|o| o.user_filter = filter("(|(uid={user})(objectClass=person))")),
    ]);
    for (system, status) in [
        ("start", 200),
        ("mixed", 502),
        ("plain", 502),
        ("stranger", 502),
        ("name", 502),
        ("account", 502),
        ("base", 502),
        ("several", 401),
    ] {
        let name = format!("ann@{system}");
        assert_eq!(fixture.with_password(&name, "ann's password").await, status, "{system}");
    }
    let me = fixture.log_in_at_page("ann", "ann's password").await.unwrap();
    assert_eq!(fixture.who(&me).await["name"], "ann@start");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_searched() {
    let slapd = Slapd::start();
    let fixture = server_of(vec![LdapOptions {
        groups_attribute: None,
        groups_filter: Some(filter("(&(objectClass=groupOfNames)(member={dn}))")),
        user_filter: filter("(|(uid={user})(mail={user})(cn={user}))"),
        ..slapd.options()
    }]);
    for (typed, password, name, role) in [
        ("ann@example.com", "ann's password", "ann@corp", "operate"),
        // Every character that has a meaning in filters means itself.
        ("Bob (of *, \\ and more)", "bob's password", "bob@corp", "read"),
    ] {
        let cookie = fixture.log_in_at_page(typed, password).await.unwrap();
        let me = fixture.who(&cookie).await;
        assert_eq!((&me["name"], &me["role"]), (&json!(name), &json!(role)), "{typed}");
    }
    assert_eq!(fixture.with_password("eve", "eve's password").await, 403);
}

/// Accepts connections and answers nothing until it is dropped, as a directory that hangs.
struct Silent {
    address: SocketAddr,
    accepted: Arc<std::sync::Mutex<Vec<TcpStream>>>,
    is_over: Arc<AtomicBool>,
}

impl Silent {
    fn start() -> Silent {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted: Arc<std::sync::Mutex<Vec<TcpStream>>> = Arc::default();
        let is_over = Arc::new(AtomicBool::new(false));
        let (kept, over) = (Arc::clone(&accepted), Arc::clone(&is_over));
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if over.load(Relaxed) {
                    return;
                }
                kept.lock().unwrap().push(connection.unwrap());
            }
        });
        Silent { address, accepted, is_over }
    }

    fn connections(&self) -> usize {
        self.accepted.lock().unwrap().len()
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // Whoever waits is told that the connection has ended, and so is the thread.
        self.accepted.lock().unwrap().clear();
        let _ = TcpStream::connect(self.address);
    }
}

/// Sessions of a directory that hangs are asked about in a queue of their own: a login by another
/// directory is answered meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_a_slow_directory_do_not_delay_logins() {
    let slapd = Slapd::start();
    let silent = Silent::start();
    let url = format!("ldap://{}", silent.address);
    let hanging = LdapOptions {
        name: "slow".into(),
        servers: vec![server(&url)],
        timeout: Duration::from_secs(3_600),
        ..slapd.options()
    };
    let directories = Directories::new(&[slapd.options(), hanging], None);
    let session = || {
        let told = Told {
            name: "ann".into(),
            subject: ANN.into(),
            groups: Vec::new(),
            refresh: Some("ann".into()),
            id_token: None,
        };
        Arc::new(Outside::new("slow".into(), &told, &Groups::default()))
    };
    let mut checks = Vec::new();
    for _ in 0..40 {
        let (directories, outside) = (directories.clone(), session());
        checks.push(tokio::spawn(async move {
            directories.confirmed("ann@slow", &outside, &Groups::default()).await
        }));
    }
    while silent.connections() < 4 {
        tokio::task::yield_now().await;
    }
    // More sessions wait than logins may run, and none of them is in the way.
    let found = directories.log_in("ann@corp", b"ann's password", true).await.unwrap();
    assert_eq!(found.ok().unwrap().told.name, "ann");
    assert_eq!(silent.connections(), 4);
    drop(silent);
    for check in checks {
        // The directory is away, and sessions go on for an hour.
        assert_eq!(check.await.unwrap(), Ok(()));
    }
}
