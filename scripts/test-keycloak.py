#!/usr/bin/env python3
"""Logs users in by a real Keycloak, changes and locks them there, and logs them out.

    LOGINSON_BIN=target/release/loginson scripts/test-keycloak.py

scripts/servers/keycloak.sh starts Keycloak. A realm with two groups, three users and a client is made by its REST API. A small
browser (cookies of each server, forms, redirects that are followed one by one) then does what a person would: it logs in by
the authorization code flow, is refused without a group, and logs out. In between, an administrator of Keycloak moves a user to
another group, makes new keys, locks a user, and ends Keycloak; each time the sessions must do what docs/access.md says.
"""

import html
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
REALM = "trial"
SECRET = "the secret of the client"


def fail(why):
    sys.exit(f"test-keycloak: {why}")


def until(holds, what):
    """Waits for ten minutes at most: then it hangs."""
    for _ in range(6000):
        if found := holds():
            return found
        time.sleep(0.1)
    fail(f"waited in vain: {what}")


def expect(what, found, expected):
    if found != expected:
        fail(f"{what}: found {found!r}, expected {expected!r}")
    print(f"ok   {what}", flush=True)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Keycloak:
    def __init__(self, folder):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.variables = {**os.environ, "KEYCLOAK_PORT": str(self.port), "LOGINSON_SERVERS_DATA": folder}
        self.run("start")

    def run(self, word):
        script = ROOT / "scripts/servers/keycloak.sh"
        subprocess.run([script, word], env=self.variables, check=True, stdout=subprocess.DEVNULL)

    def call(self, method, path, body=None):
        """Calls the REST API as an administrator, with a token of its own: tokens last a minute."""
        fields = {"grant_type": "password", "client_id": "admin-cli", "username": "admin", "password": "admin"}
        form = urllib.parse.urlencode(fields).encode()
        with urllib.request.urlopen(f"{self.url}/realms/master/protocol/openid-connect/token", form) as answer:
            token = json.load(answer)["access_token"]
        request = urllib.request.Request(f"{self.url}/admin/realms{path}", method=method)
        request.add_header("Authorization", f"Bearer {token}")
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            fail(f"Keycloak answered {method} {path} with {error.code}: {error.read().decode()}")

    def prepare(self, page):
        self.call("POST", "", {"realm": REALM, "enabled": True, "sslRequired": "none"})
        mapper = {
            "name": "groups", "protocol": "openid-connect", "protocolMapper": "oidc-group-membership-mapper",
            "config": {"claim.name": "groups", "full.path": "false", "id.token.claim": "true", "userinfo.token.claim": "true"},
        }
        self.call("POST", f"/{REALM}/clients", {
            "clientId": "loginson", "secret": SECRET, "protocol": "openid-connect", "publicClient": False,
            "redirectUris": [f"{page}/api/v1/login/oidc/keycloak/callback"], "protocolMappers": [mapper],
            "attributes": {"post.logout.redirect.uris": f"{page}/", "pkce.code.challenge.method": "S256"},
        })
        for group in ["ops", "staff"]:
            self.call("POST", f"/{REALM}/groups", {"name": group})
        for name, groups in {"ann": ["ops"], "bob": ["staff"], "eve": []}.items():
            self.call("POST", f"/{REALM}/users", {
                "username": name, "enabled": True, "email": f"{name}@example.com", "emailVerified": True, "firstName": name,
                "lastName": "Example", "groups": groups,
                "credentials": [{"type": "password", "value": f"password of {name}", "temporary": False}],
            })

    def user(self, name):
        return self.call("GET", f"/{REALM}/users?exact=true&username={name}")[0]["id"]

    def group(self, name):
        return next(group["id"] for group in self.call("GET", f"/{REALM}/groups") if group["name"] == name)


class Loginson:
    def __init__(self, binary, folder, keycloak, port):
        self.folder, self.url = folder, f"http://127.0.0.1:{port}"
        secret = f"{folder}/secret"
        with open(secret, "w") as file:
            file.write(SECRET)
        with open(f"{folder}/loginson.toml", "w") as file:
            file.write(
                f"[access]\nexternal_url = '{self.url}'\n"
                f"[[access.oidc]]\nname = 'keycloak'\nissuer = '{keycloak.url}/realms/{REALM}'\nclient_id = 'loginson'\n"
                f"client_secret_file = '{secret}'\nrecheck = '1s'\n"
                "[[access.groups]]\ngroup = 'ops'\nrole = 'operate'\n[[access.groups]]\ngroup = 'staff'\nrole = 'read'\n"
            )
        ready = f"{folder}/ready"
        self.log = open(f"{folder}/log", "ab")
        self.process = subprocess.Popen(
            [binary, "serve", "--config", f"{folder}/loginson.toml", "--http-listen", f"127.0.0.1:{port}", "--data-dir",
             f"{folder}/data", "--ready-file", ready, "--syslog-udp-listen", "off", "--syslog-tcp-listen", "off"],
            stderr=self.log,
        )
        until(lambda: os.path.exists(ready) or self.process.poll() is not None, "the server's start")
        if self.process.poll() is not None:
            fail("the server ended:\n" + self.text())

    def text(self):
        with open(f"{self.folder}/log") as file:
            return file.read()

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Browser:
    """Keeps cookies for each server, and follows no redirect by itself. Cookies count for loopback even if they are `Secure`,
    as they do in browsers."""

    def __init__(self):
        self.cookies = {}

    def ask(self, method, url, fields=None, headers=()):
        parts = urllib.parse.urlsplit(url)
        jar = self.cookies.setdefault(parts.netloc, {})
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in jar.items()), **dict(headers)}
        body = None
        if fields is not None:
            body = urllib.parse.urlencode(fields)
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection(parts.netloc, timeout=300)
        connection.request(method, urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, "")), body, sent)
        answer = connection.getresponse()
        for name, value in answer.getheaders():
            if name.lower() == "set-cookie":
                cookie, _, attributes = value.partition(";")
                name, _, value = cookie.partition("=")
                jar[name] = value
                if "max-age=0" in attributes.lower().replace(" ", ""):
                    del jar[name]
        text = answer.read().decode(errors="replace")
        location = answer.getheader("Location")
        connection.close()
        return answer.status, location and urllib.parse.urljoin(url, location), text

    def log_in(self, loginson, name):
        """Logs in by Keycloak; status and text of the last answer of Loginson."""
        status, location, text = self.ask("GET", f"{loginson.url}/api/v1/login/oidc/keycloak")
        if status != 303:
            return status, text
        status, back, text = self.ask("GET", location)
        if status == 200:
            form = re.search(r'<form[^>]*id="kc-form-login"[^>]*action="([^"]*)"', text)
            if not form:
                fail(f"Keycloak shows no form:\n{text[:2000]}")
            fields = {"username": name, "password": f"password of {name}", "credentialId": ""}
            status, back, text = self.ask("POST", html.unescape(form[1]), fields)
        if status != 302:
            fail(f"Keycloak answered the login of {name} with {status}:\n{text[:2000]}")
        status, _, text = self.ask("GET", back)
        return status, text

    def me(self, loginson):
        me = json.loads(self.ask("GET", f"{loginson.url}/api/v1/me")[2])
        return me["name"], me["role"]

    def status(self, loginson):
        return self.ask("GET", f"{loginson.url}/api/v1/status")[0]


def try_all(binary, folder):
    port = free_port()
    keycloak = Keycloak(f"{folder}/servers")
    loginson = None
    try:
        keycloak.prepare(f"http://127.0.0.1:{port}")
        loginson = Loginson(binary, folder, keycloak, port)
        check(keycloak, loginson)
    finally:
        if loginson:
            loginson.stop()
        keycloak.run("wipe")


def check(keycloak, loginson):
    ann, bob, eve = Browser(), Browser(), Browser()
    expect("without a login nothing is shown", ann.status(loginson), 401)
    expect("a user logs in", ann.log_in(loginson, "ann")[0], 303)
    expect("name and role come from Keycloak", ann.me(loginson), ("ann@keycloak", "operate"))
    expect("the session lets in", ann.status(loginson), 200)
    bob.log_in(loginson, "bob")
    expect("another group, another role", bob.me(loginson), ("bob@keycloak", "read"))
    status, text = eve.log_in(loginson, "eve")
    expect("a user without a group is refused", (status, "no group of eve@keycloak" in text), (403, True))

    user = keycloak.user("ann")
    keycloak.call("PUT", f"/{REALM}/users/{user}/groups/{keycloak.group('staff')}")
    keycloak.call("DELETE", f"/{REALM}/users/{user}/groups/{keycloak.group('ops')}")
    until(lambda: ann.me(loginson) == ("ann@keycloak", "read"), "the other role")
    print("ok   a session has another role after the user has another group", flush=True)

    realm = keycloak.call("GET", f"/{REALM}")["id"]
    keycloak.call("POST", f"/{REALM}/components", {
        "name": "new", "providerId": "rsa-generated", "providerType": "org.keycloak.keys.KeyProvider", "parentId": realm,
        "config": {"priority": ["1000"], "keySize": ["2048"], "algorithm": ["PS256"]},
    })
    keycloak.call("PUT", f"/{REALM}", {"defaultSignatureAlgorithm": "PS256"})
    again = Browser()
    expect("a user logs in after Keycloak made new keys, of another kind", again.log_in(loginson, "ann")[0], 303)

    status, _, text = ann.ask("POST", f"{loginson.url}/api/v1/logout", {}, {"Origin": loginson.url})
    leads = json.loads(text)["next"]
    expect("after a logout the session has ended", (status, ann.status(loginson)), (200, 401))
    status, back, text = ann.ask("GET", leads)
    expect("the logout leads through Keycloak, and back", (status, back), (302, f"{loginson.url}/"))
    _, location, _ = ann.ask("GET", f"{loginson.url}/api/v1/login/oidc/keycloak")
    status, _, text = ann.ask("GET", location)
    expect("Keycloak asks for the password again", (status, "kc-form-login" in text), (200, True))

    # It is asked again after `recheck`, which is a second; that nobody answers is in the log.
    keycloak.run("kill")
    until(lambda: bob.me(loginson) and "'keycloak' cannot be asked" in loginson.text(), "a question to Keycloak that is away")
    expect("a session goes on while Keycloak is away", bob.me(loginson), ("bob@keycloak", "read"))
    keycloak.run("start")
    ann = Browser()
    expect("a user logs in after it came back", ann.log_in(loginson, "ann")[0], 303)

    keycloak.call("PUT", f"/{REALM}/users/{user}", {"enabled": False})
    until(lambda: ann.status(loginson) == 401, "the end of the session of a user who is locked")
    print("ok   the session of a user who is locked ends", flush=True)
    keycloak.call("PUT", f"/{REALM}/users/{user}", {"enabled": True})
    expect("and does not come back", ann.me(loginson), (None, None))


def main():
    binary = os.environ.get("LOGINSON_BIN") or fail("LOGINSON_BIN names no binary to test")
    with tempfile.TemporaryDirectory() as folder:
        try_all(os.path.abspath(binary), folder)
    print("Keycloak: all as documented")


main()
