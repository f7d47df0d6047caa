"""The Kubernetes manifests: their schemas, what a hardened pod needs, and that they name the same things."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml

from tests.deploy.artefacts import (
    ALERTS,
    KUBERNETES,
    OF_PROMETHEUS_OPERATOR,
    example_secrets,
    file_flags,
    jobs_in,
    manifests,
    yaml_documents,
)
from tests.references import PROMETHEUS_RULE, prometheus_rule
from tests.support.api import Api
from tests.support.definitions import define, definition, version
from tests.support.required import KUBECTL, missing
from tests.support.server_process import ServerProcess

MANIFESTS: Final = manifests()
BUILT_IN: Final = {name: found for name, found in MANIFESTS.items() if name not in OF_PROMETHEUS_OPERATOR}
POD: Final[Any] = MANIFESTS["deployment"]["spec"]["template"]["spec"]
CONTAINER: Final[Any] = POD["containers"][0]
PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")
RELEASES: Final = ("1.32", "1.34")


def run(*command: str, stdin: str = "") -> str:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        missing("kubectl", KUBECTL)
    said = subprocess.run(
        [kubectl, *command], input=stdin, capture_output=True, text=True, check=False, timeout=60
    )
    assert said.returncode == 0, said.stderr
    assert "unknown field" not in said.stderr
    return said.stdout


# ---- form


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", BUILT_IN)
def test_a_manifest_is_of_its_types_form(name: str, release: str) -> None:
    kubernetes_validate.validate(BUILT_IN[name], release, strict=True)


@pytest.mark.parametrize("index", range(len(example_secrets())), ids=list(example_secrets()))
def test_an_example_secret_is_of_its_types_form_and_holds_none(index: int) -> None:
    secret = yaml_documents(KUBERNETES / "secrets.example.yaml")[index]
    kubernetes_validate.validate(secret, RELEASES[-1], strict=True)
    assert set(secret["stringData"].values()) == {"REPLACE-ME"}


def an_object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties}


TEXT: Final = {"type": "string"}
KEY_OF_SECRET: Final = an_object("key", name=TEXT, key=TEXT)
ENDPOINT: Final = an_object(
    port=TEXT,
    scheme={"type": "string", "enum": ["http", "https"]},
    path=TEXT,
    interval={"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
    relabelings={"type": "array", "items": an_object(targetLabel=TEXT, replacement=TEXT)},
    authorization=an_object(type=TEXT, credentials=KEY_OF_SECRET),
    tlsConfig=an_object(ca=an_object(secret=KEY_OF_SECRET), serverName=TEXT),
)
TEXTS: Final = {"type": "object", "additionalProperties": TEXT}
ALERT: Final = an_object(
    "alert",
    "expr",
    alert=TEXT,
    expr=TEXT,
    labels=TEXTS,
    annotations=TEXTS,
    **{"for": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$"}},
)
GROUP: Final = an_object("name", name=TEXT, rules={"type": "array", "items": ALERT})
# prometheus-operator's API reference, the part that is used.
SPECS: Final = {
    "ServiceMonitor": an_object(
        "selector",
        "endpoints",
        selector=an_object(matchLabels=TEXTS),
        endpoints={"type": "array", "items": ENDPOINT},
    ),
    "PrometheusRule": an_object(groups={"type": "array", "items": GROUP}),
}
DEFINITIONS: Final = [
    definition(
        "monitoring.coreos.com",
        version(schema=an_object("spec", spec=spec)),
        plural=f"{kind.lower()}s",
        kind=kind,
    )
    for kind, spec in SPECS.items()
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of our own, which has the Prometheus operator's types."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as server, Api(server) as api:
        for each in DEFINITIONS:
            define(api, each)
        yield server


@pytest.mark.parametrize("name", OF_PROMETHEUS_OPERATOR)
def test_what_the_prometheus_operator_reads_is_of_its_types_form(api: Api, namespace: str, name: str) -> None:
    document = json.loads(moved(MANIFESTS[name], namespace))
    path = f"/apis/monitoring.coreos.com/v1/namespaces/{namespace}/{name}s?fieldValidation=Strict"
    assert api.post(path, document).ok()["spec"] == document["spec"]


def test_the_prometheus_rule_has_the_alerts() -> None:
    assert PROMETHEUS_RULE.read_text() == prometheus_rule(), "make docs"
    of_manifests = json.dumps(MANIFESTS["prometheusrule"]["spec"])
    assert json.loads(of_manifests.replace("apiserver/apiserver", "apiserver")) == yaml_documents(ALERTS)[0]


def test_the_alerts_select_the_job_of_the_service_monitor() -> None:
    """Not that of the cluster's own API server."""
    (endpoint,) = MANIFESTS["servicemonitor"]["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "apiserver/apiserver"}]
    assert jobs_in(MANIFESTS["prometheusrule"]) == {"apiserver/apiserver", "etcd"}


def test_everything_is_in_one_namespace() -> None:
    namespaces = {m["metadata"].get("namespace", "") for name, m in MANIFESTS.items() if name != "namespace"}
    assert namespaces == {MANIFESTS["namespace"]["metadata"]["name"]}


# ---- pods


# https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
PODS: Final[dict[str, Callable[[], bool]]] = {
    "does not run as root": lambda: (
        POD["securityContext"]["runAsNonRoot"] and POD["securityContext"]["runAsUser"] > 0
    ),
    "may make the default system calls only": lambda: (
        POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    ),
    "gains no privileges": lambda: CONTAINER["securityContext"]["allowPrivilegeEscalation"] is False,
    "has no capabilities": lambda: CONTAINER["securityContext"]["capabilities"] == {"drop": ["ALL"]},
    "does not write to its root": lambda: CONTAINER["securityContext"]["readOnlyRootFilesystem"] is True,
    "is no node's": lambda: not {"hostNetwork", "hostPID", "hostIPC"} & set(POD),
    "mounts no host paths": lambda: all(set(v) - {"name"} <= {"emptyDir", "secret"} for v in POD["volumes"]),
    "knows no token of the cluster": lambda: POD["automountServiceAccountToken"] is False,
    "asks for what it needs": lambda: set(CONTAINER["resources"]["requests"]) == {"cpu", "memory"},
    "has a limit of memory": lambda: "memory" in CONTAINER["resources"]["limits"],
    "has a limit to all that it writes": lambda: all(
        "sizeLimit" in volume["emptyDir"] for volume in POD["volumes"] if "emptyDir" in volume
    ),
    "reads secrets that others do not": lambda: all(
        volume["secret"]["defaultMode"] & 0o007 == 0 for volume in POD["volumes"] if "secret" in volume
    ),
    "is of one release": lambda: ":latest" not in CONTAINER["image"] and ":" in CONTAINER["image"],
}


@pytest.mark.parametrize("rule", PODS.values(), ids=PODS)
def test_a_pod(rule: Callable[[], bool]) -> None:
    assert rule()


def test_replicas_are_spread_and_replaced_one_by_one() -> None:
    spec = MANIFESTS["deployment"]["spec"]
    keys = {spread["topologyKey"] for spread in POD["topologySpreadConstraints"]}
    assert keys == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    assert spec["replicas"] >= 2
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert MANIFESTS["poddisruptionbudget"]["spec"]["maxUnavailable"] < spec["replicas"]


def selectors() -> dict[str, Any]:
    return {
        "deployment": MANIFESTS["deployment"]["spec"]["selector"]["matchLabels"],
        "service": MANIFESTS["service"]["spec"]["selector"],
        "poddisruptionbudget": MANIFESTS["poddisruptionbudget"]["spec"]["selector"]["matchLabels"],
        **{
            each["topologyKey"]: each["labelSelector"]["matchLabels"]
            for each in POD["topologySpreadConstraints"]
        },
    }


@pytest.mark.parametrize(("who", "labels"), selectors().items(), ids=selectors())
def test_the_pods_are_found_by(who: str, labels: dict[str, str]) -> None:
    assert labels
    assert labels.items() <= MANIFESTS["deployment"]["spec"]["template"]["metadata"]["labels"].items()


def test_ports_are_named_alike_from_the_monitor_to_the_container() -> None:
    (container,) = CONTAINER["ports"]
    (service,) = MANIFESTS["service"]["spec"]["ports"]
    (endpoint,) = MANIFESTS["servicemonitor"]["spec"]["endpoints"]
    assert endpoint["port"] == service["name"]
    assert service["targetPort"] == container["name"]
    assert {CONTAINER[probe]["httpGet"]["port"] for probe in PROBES} == {container["name"]}
    labels = MANIFESTS["servicemonitor"]["spec"]["selector"]["matchLabels"]
    assert labels.items() <= MANIFESTS["service"]["metadata"]["labels"].items()


def test_every_file_that_a_flag_names_comes_from_a_secret_that_has_it() -> None:
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    secrets = {
        mount["mountPath"]: volumes[mount["name"]]["secret"]["secretName"]
        for mount in CONTAINER["volumeMounts"]
        if "secret" in volumes[mount["name"]]
    }
    flags = list(file_flags(CONTAINER["args"]))
    assert flags
    for _, path in flags:
        directory, _, name = path.rpartition("/")
        assert name in example_secrets()[secrets[directory]]


def test_prometheus_gets_its_token_and_knows_the_certificate() -> None:
    endpoint = MANIFESTS["servicemonitor"]["spec"]["endpoints"][0]
    for wanted in (endpoint["authorization"]["credentials"], endpoint["tlsConfig"]["ca"]["secret"]):
        assert wanted["key"] in example_secrets()[wanted["name"]]
    metadata = MANIFESTS["service"]["metadata"]
    name = f"{metadata['name']}.{metadata['namespace']}.svc"
    assert endpoint["tlsConfig"]["serverName"] == name
    assert f"--name {name} " in (KUBERNETES.parent / "README.md").read_text()


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_asks_for_what_the_server_tells_anybody(api: Api, probe: str) -> None:
    """Rows N01, N11."""
    asked = CONTAINER[probe]["httpGet"]
    assert (asked["scheme"], asked["path"]) == ("HTTPS", "/readyz" if probe == "readinessProbe" else "/livez")
    with api.as_caller("") as nobody:
        assert nobody.get(asked["path"]).body == b"ok"


# ---- kubectl


@pytest.mark.kubectl
def test_kustomize_builds_all_but_the_monitor() -> None:
    built = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(run("kustomize", str(KUBERNETES)))}
    assert built == {manifest["kind"]: manifest for manifest in BUILT_IN.values()}


def moved(manifest: Any, namespace: str) -> str:
    """The manifest in a namespace that is there."""
    metadata = manifest["metadata"]
    if "namespace" in metadata:
        metadata = {**metadata, "namespace": namespace}
    return json.dumps({**manifest, "metadata": metadata})


@pytest.mark.kubectl
@pytest.mark.parametrize(("how", "message"), [("client", "dry run"), ("server", "server dry run")])
@pytest.mark.parametrize("name", MANIFESTS)
def test_kubectl_applies_it_to_our_own_server(
    server: ServerProcess, namespace: str, name: str, how: str, message: str
) -> None:
    access = ("--kubeconfig", str(server.kubeconfig), "apply", "--validate=strict")
    said = run(*access, f"--dry-run={how}", "-f", "-", stdin=moved(MANIFESTS[name], namespace))
    assert f" created ({message})" in said


@pytest.mark.kubectl
@pytest.mark.parametrize("name", example_secrets())
def test_kubectl_takes_an_example_secret(server: ServerProcess, namespace: str, name: str) -> None:
    (secret,) = (
        document
        for document in yaml_documents(KUBERNETES / "secrets.example.yaml")
        if document["metadata"]["name"] == name
    )
    access = ("--kubeconfig", str(server.kubeconfig), "apply", "--validate=strict")
    said = run(*access, "--dry-run=server", "-f", "-", stdin=moved(secret, namespace))
    assert "created (server dry run)" in said
