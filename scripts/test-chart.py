#!/usr/bin/env python3
"""The chart for Kubernetes, and what Prometheus' own parsers say of metrics and alerts.

`scripts/test-chart.py --light` (a part of `make test`) needs nothing but Python. It reads the files of the chart: every
value that a template uses is in the schema, and every value of the schema is used; no container may be root, write to its
file system, or have a capability (the collector is root without capabilities); no image is `latest`; no template makes a
Secret; the version is that of the workspace.

`scripts/test-chart.py` (a part of `make test-long`) renders the chart as CHARTS says, by helm, and checks each object by
the schemas of several versions of Kubernetes, which the package kubernetes-validate has. Values that docs/kubernetes.md
shows are rendered, too. It installs helm (by Go) and the
package once. With LOGINSON_BIN, `loginson check-config` reads the settings of each rendered chart, and promlint reads
/metrics of a running server. Wrong values must be refused.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "packaging/helm/loginson"
KEPT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", os.path.expanduser("~/.cache/loginson/target"))) / "test-chart"
HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
PACKAGES = ["kubernetes-validate==1.37.0", "PyYAML"]
# Versions of Kubernetes whose schemas the objects must fit.
VERSIONS = ("1.29", "1.32", "1.35")
CLUSTER = """
mode: cluster
replicas: 3
cluster:
  kafka: {brokers: ["kafka-0.kafka:9092", "kafka-1.kafka:9092"], partitions: 12}
  objects: {endpoint: "https://s3.example", bucket: logs, secret: s3}
  postgresql: {connection: "host=db user=loginson dbname=loginson", secret: db}
secrets: {token: {name: token}}
"""
# Values of charts that are rendered, and the kinds of their objects.
CHARTS = {
    "single": ("", "ConfigMap Service Service StatefulSet"),
    "single with a collector": (
        "collector: {enabled: true, exclude: ['/var/log/pods/kube-system_*/**']}\nsecrets: {node: {name: nodes}}\n",
        "ConfigMap ConfigMap DaemonSet Service Service StatefulSet",
    ),
    "everything": (
        """
service: {type: LoadBalancer, syslog: true, hosts: [logs.example], annotations: {a: b}}
ingress: {enabled: true, className: nginx, host: logs.example, tlsSecret: page, annotations: {c: d}}
networkPolicy: {enabled: true, from: [{matchLabels: {team: shop}}]}
podMonitor: {enabled: true, labels: {release: prometheus}, tokenSecret: {name: scrape, key: token}, tlsConfig: {insecureSkipVerify: true}}
collector: {enabled: true, priorityClassName: system-node-critical, nodeSelector: {kubernetes.io/os: linux}}
secrets: {node: {name: nodes}, tls: {name: t, ca: ca.crt}, more: [kafka-login]}
settings: |
  data_dir = "/var/lib/loginson/data"
  [retention]
  age = "30d"
  [query]
  rows_max = 20000000
  [[kafka]]
  brokers = ["kafka:9092"]
  topics = ["logs"]
  password_file = "/etc/loginson/secrets/kafka-login/password"
  user = "loginson"
image: {repository: registry.example/loginson, digest: "sha256:"""
        + "0" * 64
        + """", pullSecrets: [registry]}
persistence: {size: 1Ti, storageClass: fast}
podLabels: {team: logs}
podAnnotations: {e: f}
priorityClassName: high
nodeSelector: {disk: fast}
tolerations: [{key: logs, operator: Exists}]
affinity: {nodeAffinity: {}}
""",
        "ConfigMap ConfigMap DaemonSet Ingress NetworkPolicy NetworkPolicy PodMonitor Service Service Service StatefulSet",
    ),
    "stores": (
        "mode: stores\nreplicas: 4\ncollector: {enabled: true}\nnetworkPolicy: {enabled: true}\n"
        "secrets: {node: {name: nodes}, token: {name: t}, tls: {name: t, ca: ca.crt}}\n",
        "ConfigMap ConfigMap ConfigMap DaemonSet NetworkPolicy NetworkPolicy NetworkPolicy PodDisruptionBudget Service Service"
        " Service StatefulSet StatefulSet",
    ),
    "cluster": (CLUSTER, "ConfigMap PodDisruptionBudget Service Service StatefulSet"),
    "cluster with collectors": (
        CLUSTER + "collector: {enabled: true}\n",
        "ConfigMap ConfigMap DaemonSet PodDisruptionBudget Service Service StatefulSet",
    ),
}
# Values that are refused, and what the refusal says.
REFUSED = {
    "image: {tag: latest}": "/image/tag",
    "sevice: {}": "sevice",
    "mode: several": "/mode",
    "replicas: 0": "/replicas",
    "mode: cluster": "needs cluster.kafka.brokers",
    "cluster: {postgresql: {connection: 'host=db password=x'}}": "/cluster/postgresql/connection",
    "ingress: {enabled: true}": "ingress.host",
    "secrets: {more: [tls]}": "/secrets/more",
    "collector: {enabled: true}": "collectors need secrets.node",
    "settings: 'a = '": "settings is no TOML",
}
FAULTS = []


def fault(text):
    FAULTS.append(text)


def leaves(schema, place=()):
    """The values of a schema that hold no further ones that it names."""
    inner = schema.get("properties")
    if not inner:
        return {".".join(place)}
    return {leaf for key, more in inner.items() for leaf in leaves(more, (*place, key))}


def light():
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = leaves(schema)
    used = set()
    for template in sorted((CHART / "templates").iterdir()):
        text = template.read_text()
        for name in re.findall(r"(?:\.Values|\$values)\.([a-zA-Z.]+)", text):
            used.add(name)
            if not any(leaf == name or leaf.startswith(name + ".") or name.startswith(leaf + ".") for leaf in known):
                fault(f"{template.name}: the schema does not know {name}")
        for word in ("kind: Secret", "hostNetwork", "hostPID", "privileged", ":latest", "runAsUser: 0", "add: ["):
            if word in text and (template.name, word) != ("collector.yaml", "runAsUser: 0"):
                fault(f"{template.name} says {word}")
        containers = len(re.findall(r"^ +image: ", text, re.M))
        confined = text.count('securityContext: {{- include "loginson.confined"')
        if containers != confined:
            fault(f"{template.name}: {containers} containers, {confined} of them confined")
    helpers = (CHART / "templates/_helpers.tpl").read_text()
    for word in ("runAsNonRoot: true", "readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false", "drop: [ALL]", "RuntimeDefault"):
        if word not in helpers:
            fault(f"_helpers.tpl does not say {word}")
    for leaf in sorted(known - {"global"}):
        if not any(leaf == name or leaf.startswith(name + ".") for name in used):
            fault(f"no template uses {leaf}")
    given = re.findall(r"^([a-zA-Z]+):", (CHART / "values.yaml").read_text(), re.M)
    if set(given) != set(schema["properties"]) - {"global"}:
        fault(f"values.yaml and the schema differ: {set(given) ^ set(schema['properties'])}")
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    for key in ("version", "appVersion"):
        if not re.search(rf'^{key}: "?{re.escape(version)}"?$', (CHART / "Chart.yaml").read_text(), re.M):
            fault(f"Chart.yaml: {key} is not {version}, the version of the workspace")
    return len(used)


def tools():
    """helm and a Python with the schemas, installed once."""
    KEPT.mkdir(parents=True, exist_ok=True)
    helm, python = KEPT / "helm", KEPT / "python/bin/python"
    if not helm.exists():
        subprocess.run(["go", "install", HELM], env={**os.environ, "GOBIN": str(KEPT), "GOFLAGS": "-buildvcs=false"}, check=True)
    if not (KEPT / "python/ready").exists():
        venv.create(KEPT / "python", with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        (KEPT / "python/ready").touch()
    return helm, python


def rendered(helm, values, *more):
    return subprocess.run(
        [helm, "template", "logs", CHART, "--namespace", "logging", "--kube-version", VERSIONS[-1] + ".0", "-f", "-", *more],
        input=values, capture_output=True, text=True,
    )


# Reads rendered charts with the Python that has the schemas: objects as JSON, and what is wrong with each.
READS = r"""
import json, sys, yaml, kubernetes_validate
objects = [one for one in yaml.safe_load_all(sys.stdin.read()) if one]
faults = []
for one in objects:
    for version in sys.argv[1:]:
        try:
            kubernetes_validate.validate(one, version, strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            if one["kind"] != "PodMonitor":
                faults.append(f"{one['kind']}: no schema in {version}")
        except kubernetes_validate.ValidationError as error:
            faults.append(f"{one['kind']} {one['metadata']['name']}, {version}: {error.message}")
print(json.dumps({"objects": objects, "faults": faults}))
"""


def prometheus():
    """What Prometheus' own parsers say of alerts, of the dashboard, and of /metrics of a running server."""
    program = KEPT / "promcheck"
    source = ROOT / "scripts/promcheck"
    if not program.exists() or program.stat().st_mtime < (source / "main.go").stat().st_mtime:
        build = ["go", "build", "-o", program, "."]
        subprocess.run(build, cwd=source, env={**os.environ, "GOFLAGS": "-buildvcs=false"}, check=True)
    dashboard = json.loads((ROOT / "packaging/grafana/loginson.json").read_text())
    targets = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "expressions").write_text("".join(text.replace("$__rate_interval", "5m") + "\n" for text in targets))
        files = [("rules", ROOT / "packaging/prometheus/loginson.rules.yml"), ("expressions", folder / "expressions")]
        if binary := os.environ.get("LOGINSON_BIN"):
            ready = folder / "ready.json"
            command = [binary, "serve", "--data-dir", folder / "data", "--http-listen", "127.0.0.1:0", "--ready-file", ready]
            command += ["--syslog-udp-listen", "off", "--syslog-tcp-listen", "off"]
            with open(folder / "log", "w") as log, subprocess.Popen(command, stderr=log) as server:
                while not ready.exists() and server.poll() is None:
                    time.sleep(0.05)
                if ready.exists():
                    address = json.loads(ready.read_text())["http"]
                    with urllib.request.urlopen(f"http://{address}/metrics") as answer:
                        (folder / "metrics").write_bytes(answer.read())
                    files.append(("metrics", folder / "metrics"))
                else:
                    fault(f"the server does not start: {(folder / 'log').read_text()}")
                server.terminate()
        for kind, file in files:
            done = subprocess.run([program, kind, file], capture_output=True, text=True)
            if done.returncode != 0:
                fault(f"{kind}: {done.stdout}{done.stderr}")


def check_pod(chart, workload):
    """Who a pod is and what it may do; that its volumes and ports are there."""
    spec = workload["spec"]["template"]["spec"]
    name, context = workload["metadata"]["name"], spec["securityContext"]
    is_collector = workload["kind"] == "DaemonSet"
    if not is_collector and not (context["runAsNonRoot"] and context["runAsUser"] > 0):
        fault(f"{chart}: {name} may be root")
    if spec["automountServiceAccountToken"] is not False:
        fault(f"{chart}: {name} gets a token of the API server")
    volumes = {volume["name"] for volume in spec["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
    if any("hostPath" in volume for volume in spec["volumes"]) != is_collector:
        fault(f"{chart}: {name} and directories of the node")
    for container in spec["containers"]:
        own = container["securityContext"]
        if not own["readOnlyRootFilesystem"] or own["allowPrivilegeEscalation"] or own["capabilities"] != {"drop": ["ALL"]}:
            fault(f"{chart}: {name} is not confined")
        if {mount["name"] for mount in container["volumeMounts"]} != volumes:
            fault(f"{chart}: {name} mounts other volumes than it has")
        ports = {port["name"] for port in container["ports"]}
        for probe in ("livenessProbe", "readinessProbe"):
            if container[probe]["httpGet"]["port"] not in ports:
                fault(f"{chart}: {probe} of {name}")
        if container["image"].endswith(":latest") or not re.search(r":[^/]+$", container["image"]):
            fault(f"{chart}: the image of {name} has no version")


def check_references(chart, objects):
    """Services and policies select pods that are there, with ports that they have."""
    pods = [one["spec"]["template"] for one in objects if one["kind"] in ("StatefulSet", "DaemonSet")]
    for one in objects:
        name = f"{chart}: {one['kind']} {one['metadata']['name']}"
        if one["kind"] == "Service":
            chosen = [pod for pod in pods if one["spec"]["selector"].items() <= pod["metadata"]["labels"].items()]
            ports = {port["name"] for pod in chosen for container in pod["spec"]["containers"] for port in container["ports"]}
            if len(chosen) != 1 or not {port["targetPort"] for port in one["spec"]["ports"]} <= ports:
                fault(f"{name} selects {len(chosen)} pods, with the ports {ports}")
        if one["kind"] in ("NetworkPolicy", "PodDisruptionBudget"):
            selector = one["spec"].get("podSelector") or one["spec"]["selector"]
            if not any(selector["matchLabels"].items() <= pod["metadata"]["labels"].items() for pod in pods):
                fault(f"{name} selects no pod")


def check_settings(chart, objects, binary):
    """The settings that the pods get, read by Loginson itself. Secrets are stood in for by files."""
    for one in objects:
        for name, text in one.get("data", {}).items() if one["kind"] == "ConfigMap" else ():
            tomllib.loads(text)
            if not binary:
                continue
            with tempfile.TemporaryDirectory() as folder:
                for path in re.findall(r"/etc/loginson/secrets/([^\"']+)", text):
                    file = pathlib.Path(folder, path)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text("0123456789abcdef0123456789abcdef\n")
                    file.chmod(0o600)
                if "tls/tls.key" in text:
                    subprocess.run(
                        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9",
                         "-subj", "/CN=logs", "-keyout", f"{folder}/tls/tls.key", "-out", f"{folder}/tls/tls.crt"],
                        check=True, capture_output=True,
                    )
                    pathlib.Path(folder, "tls/ca.crt").write_bytes(pathlib.Path(folder, "tls/tls.crt").read_bytes())
                settings = pathlib.Path(folder, name)
                settings.write_text(text.replace("/etc/loginson/secrets", folder))
                collector = ["--collector"] if name == "collector.toml" else []
                done = subprocess.run(
                    [binary, "check-config", *collector, settings], capture_output=True, text=True,
                    env={**os.environ, "NODE_NAME": "node-1"},
                )
                if done.returncode != 0:
                    fault(f"{chart}: {one['metadata']['name']}: {done.stdout}{done.stderr}")


def full():
    helm, python = tools()
    linted = subprocess.run([helm, "lint", "--strict", "--kube-version", VERSIONS[-1] + ".0", CHART], capture_output=True, text=True)
    if linted.returncode != 0:
        fault(linted.stdout + linted.stderr)
    count = 0
    for chart, (values, kinds) in CHARTS.items():
        made = rendered(helm, values)
        if made.returncode != 0:
            fault(f"{chart}: {made.stderr}")
            continue
        read = json.loads(
            subprocess.run([python, "-c", READS, *VERSIONS], input=made.stdout, capture_output=True, text=True, check=True).stdout
        )
        objects = read["objects"]
        FAULTS.extend(f"{chart}: {text}" for text in read["faults"])
        if " ".join(sorted(one["kind"] for one in objects)) != kinds:
            fault(f"{chart} has {' '.join(sorted(one['kind'] for one in objects))}, not {kinds}")
        for one in objects:
            if one["kind"] in ("StatefulSet", "DaemonSet"):
                check_pod(chart, one)
        check_references(chart, objects)
        check_settings(chart, objects, os.environ.get("LOGINSON_BIN"))
        count += len(objects)
    for values in re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/kubernetes.md").read_text(), re.M | re.S):
        made = rendered(helm, values, "--set", "secrets.node.name=nodes")
        if made.returncode != 0:
            fault(f"docs/kubernetes.md: {values}{made.stderr}")
    for values, expected in REFUSED.items():
        made = rendered(helm, values)
        if made.returncode == 0 or expected not in made.stderr:
            fault(f"{values!r} is not refused with {expected!r}: {made.stderr}")
    prometheus()
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--light", action="store_true", help="only what needs no helm")
    arguments = parser.parse_args()
    used = light()
    objects = 0 if arguments.light else full()
    print("\n".join(FAULTS))
    print(f"{used} values, {len(CHARTS)} charts, {objects} objects")
    print(f"{int(not FAULTS)} passed, {len(FAULTS)} failed")
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
