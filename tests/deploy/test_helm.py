"""The Helm chart: its values, and the objects that Helm makes of it, beside the Kubernetes manifests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]
import kubernetes_validate
import pytest
import yaml

from apiserver import __version__
from apiserver.cli.command_line import parse
from tests.deploy.artefacts import ALERTS, DEPLOY, entrypoint, file_flags, manifests
from tests.deploy.helm import CHART, Rendered, render
from tests.references import CHART_ALERTS

VALUES: Final[Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Final[Any] = json.loads((CHART / "values.schema.json").read_text())
README: Final = (DEPLOY / "README.md").read_text()
RELEASES: Final = ("1.32", "1.34")
BUILT_IN: Final = frozenset(
    {
        "Deployment",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
    }
)
# What `helm lint` and the server accept.
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "defaults": {},
    "monitored": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
    "cert-manager": {
        "certManager": {
            "enabled": True,
            "issuerRef": {"name": "authority", "kind": "ClusterIssuer"},
            "extraDnsNames": ["api.example.com"],
        },
        "serviceMonitor": {"enabled": True},
    },
    "the embedded store": {"replicaCount": 1, "etcd": {"endpoints": []}},
    "etcd without TLS": {
        "etcd": {"endpoints": ["http://etcd-1:2379", "http://etcd-2:2379"], "secretName": ""}
    },
    "everything else": {
        "replicaCount": 3,
        "image": {"repository": "registry.example.com/apiserver", "tag": "0.2.0"},
        "imagePullSecrets": [{"name": "registry"}],
        "fullnameOverride": "control-plane",
        "extraArgs": ["--v=3", "--event-ttl=2h"],
        "extraVolumes": [{"name": "policy", "configMap": {"name": "policy"}}],
        "extraVolumeMounts": [{"name": "policy", "mountPath": "/etc/policy"}],
        "service": {"type": "LoadBalancer", "port": 6443, "annotations": {"a": "b"}},
        "podAnnotations": {"c": "d"},
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "control-plane", "operator": "Exists"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"e": "f"}}}
                ]
            }
        },
        "topologySpread": {"whenUnsatisfiable": "DoNotSchedule"},
        "podDisruptionBudget": {"maxUnavailable": "50%"},
        "networkPolicy": {
            "from": [{"namespaceSelector": {"matchLabels": {"g": "h"}}}],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
        },
    },
    "a job": {
        "serviceMonitor": {"enabled": True, "job": "apiserver"},
        "prometheusRule": {"enabled": True, "runbookUrlPrefix": "https://git.example.com/"},
    },
    "no network policy": {"networkPolicy": {"enabled": False}},
}
INVALID: Final[dict[str, dict[str, Any]]] = {
    "several replicas on the embedded store": {"etcd": {"endpoints": []}},
    "cert-manager without an issuer": {"certManager": {"enabled": True}},
    "an unknown value": {"replicas": 3},
    "an unknown value below": {"image": {"name": "apiserver"}},
    "no replicas": {"replicaCount": 0},
    "the tag latest": {"image": {"tag": "latest"}},
    "an endpoint without a scheme": {"etcd": {"endpoints": ["etcd:2379"]}},
    "two endpoints in one": {"etcd": {"endpoints": ["https://a:2379,https://b:2379"]}},
    "a budget that blocks all drains": {"podDisruptionBudget": {"maxUnavailable": 0}},
    "a job that ends its matcher": {"serviceMonitor": {"job": 'a"} or up{job="b'}},
    "an argument without dashes": {"extraArgs": ["v=3"]},
}


@pytest.fixture(scope="module")
def rendered() -> dict[str, Rendered]:
    return render(VARIANTS | INVALID)


# ---- without Helm


def merged(values: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """As Helm merges values: maps are merged, all else is replaced."""
    both = {
        name: merged(values[name], over[name])
        for name in values.keys() & over.keys()
        if isinstance(values[name], dict) and isinstance(over[name], dict)
    }
    return values | over | both


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_values_that_the_schema_accepts(values: dict[str, Any]) -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.Draft7Validator(SCHEMA).validate(merged(VALUES, values))


@pytest.mark.parametrize("values", INVALID.values(), ids=INVALID)
def test_values_that_the_schema_refuses(values: dict[str, Any]) -> None:
    assert not jsonschema.Draft7Validator(SCHEMA).is_valid(merged(VALUES, values))


def test_the_schema_describes_each_value() -> None:
    def names(values: Any, properties: Any, path: str = "") -> Iterator[str]:
        for name in values.keys() | properties.keys():
            here = f"{path}.{name}"
            if name not in values or name not in properties:
                yield here
            elif "properties" in properties[name]:
                yield from names(values[name], properties[name]["properties"], here)

    # Helm adds `global` to the values of each chart.
    assert list(names(VALUES, SCHEMA["properties"])) == [".global"]


def test_the_readme_has_the_values_of_the_embedded_store() -> None:
    """Helm makes [""] of {}, which is an endpoint without a scheme."""
    (given,) = re.findall(r"--set (replicaCount=\d+) --set-json '(etcd\.endpoints=.*?)'", README)
    count, endpoints = (text.partition("=")[2] for text in given)
    values = {"replicaCount": int(count), "etcd": {"endpoints": json.loads(endpoints)}}
    jsonschema.Draft7Validator(SCHEMA).validate(merged(VALUES, values))
    assert "endpoints={}" not in README


def test_the_chart_has_the_version_of_the_server() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["apiVersion"], chart["name"], chart["appVersion"]) == ("v2", "apiserver", __version__)


def test_the_chart_has_the_alerts() -> None:
    assert CHART_ALERTS.read_text() == ALERTS.read_text(), "make docs"


# ---- with Helm


@pytest.mark.parametrize("name", VARIANTS)
def test_helm_has_nothing_to_complain_about(rendered: dict[str, Rendered], name: str) -> None:
    assert (rendered[name].refusal, rendered[name].findings) == ("", [])


@pytest.mark.parametrize("name", INVALID)
def test_helm_refuses_invalid_values(rendered: dict[str, Rendered], name: str) -> None:
    assert rendered[name].refusal
    assert rendered[name].objects == {}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", VARIANTS)
def test_objects_are_of_their_types_form(rendered: dict[str, Rendered], name: str, release: str) -> None:
    for kind in BUILT_IN & rendered[name].objects.keys():
        kubernetes_validate.validate(rendered[name].objects[kind], release, strict=True)


ADDED_LABELS: Final = (
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
)


def without_added(value: Any) -> Any:
    """An object without the labels that charts have and manifests have not."""
    if isinstance(value, dict):
        return {name: without_added(each) for name, each in value.items() if name not in ADDED_LABELS}
    return [without_added(each) for each in value] if isinstance(value, list) else value


def test_by_default_the_objects_are_those_of_the_manifests(rendered: dict[str, Rendered]) -> None:
    found = without_added(rendered["monitored"].objects)
    wanted = {each["kind"]: each for name, each in manifests().items() if name != "namespace"}
    wanted["Service"]["spec"]["type"] = "ClusterIP"  # the default
    del found["NetworkPolicy"]
    assert found == wanted
    assert rendered["defaults"].objects.keys() == BUILT_IN - {"PersistentVolumeClaim"}


@pytest.mark.parametrize("name", VARIANTS)
def test_flags_name_files_that_are_mounted(rendered: dict[str, Rendered], name: str, tmp_path: Path) -> None:
    pod = rendered[name].objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert sorted(mounts.values()) == sorted(volume["name"] for volume in pod["volumes"])
    flags = [*entrypoint()[1:], *container["args"]]
    for _, path in file_flags(flags):
        assert path.rpartition("/")[0] in mounts
        stand_in = tmp_path / path.lstrip("/")
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.touch()
        flags = [flag.replace(f"={path}", f"={stand_in}") for flag in flags]
    config = parse(flags)
    assert config.warnings == ()
    endpoints = VARIANTS[name].get("etcd", VALUES["etcd"])["endpoints"]
    assert list(config.storage.etcd_servers) == endpoints


@pytest.mark.parametrize("name", VARIANTS)
def test_selectors_find_the_pods_of_this_release_only(rendered: dict[str, Rendered], name: str) -> None:
    objects = rendered[name].objects
    spec = objects["Deployment"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    selectors = [spec["selector"]["matchLabels"], objects["Service"]["spec"]["selector"]]
    selectors += [
        each["labelSelector"]["matchLabels"] for each in spec["template"]["spec"]["topologySpreadConstraints"]
    ]
    for kind, field in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        if kind in objects:
            selectors.append(objects[kind]["spec"][field]["matchLabels"])
    assert all(selector == labels for selector in selectors)
    assert labels["app.kubernetes.io/instance"] == "apiserver"


def test_the_embedded_store_has_one_replica_and_a_volume_that_stays(rendered: dict[str, Rendered]) -> None:
    objects = rendered["the embedded store"].objects
    spec = objects["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert "PodDisruptionBudget" not in objects
    claim = objects["PersistentVolumeClaim"]["metadata"]
    volumes = {volume["name"]: volume for volume in spec["template"]["spec"]["volumes"]}
    assert volumes["data"] == {"name": "data", "persistentVolumeClaim": {"claimName": claim["name"]}}
    assert claim["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_cert_manager_makes_the_certificate_that_is_mounted(rendered: dict[str, Rendered]) -> None:
    objects = rendered["cert-manager"].objects
    certificate = objects["Certificate"]["spec"]
    volumes = {each["name"]: each for each in objects["Deployment"]["spec"]["template"]["spec"]["volumes"]}
    assert volumes["tls"]["secret"]["secretName"] == certificate["secretName"]
    assert certificate["issuerRef"] == {
        "name": "authority",
        "kind": "ClusterIssuer",
        "group": "cert-manager.io",
    }
    (endpoint,) = objects["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": certificate["secretName"], "key": "ca.crt"}
    assert endpoint["tlsConfig"]["serverName"] in certificate["dnsNames"]
    assert "api.example.com" in certificate["dnsNames"]


def test_the_network_policy_allows_only_the_port(rendered: dict[str, Rendered]) -> None:
    policy = rendered["defaults"].objects["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": "https"}]}]
    policy = rendered["everything else"].objects["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"][0]["from"] == VARIANTS["everything else"]["networkPolicy"]["from"]
    assert policy["egress"] == VARIANTS["everything else"]["networkPolicy"]["egress"]
    assert "NetworkPolicy" not in rendered["no network policy"].objects


def test_alerts_have_the_job_and_the_runbooks_of_the_values(rendered: dict[str, Rendered]) -> None:
    objects = rendered["a job"].objects
    (endpoint,) = objects["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "apiserver"}]
    runbooks_elsewhere = json.dumps(objects["PrometheusRule"]["spec"])
    spec = json.loads(runbooks_elsewhere.replace("https://git.example.com/docs/", "docs/"))
    assert spec == yaml.safe_load(ALERTS.read_text())
    assert "https://git.example.com/docs/operating/alerts.md#apiservergone" in runbooks_elsewhere


def test_the_notes_name_the_secrets_to_create(rendered: dict[str, Rendered]) -> None:
    assert "  apiserver-serving\n  apiserver-etcd-client\n" in rendered["defaults"].notes
    assert "apiserver-tls, which cert-manager creates" in rendered["cert-manager"].notes
    assert "apiserver-etcd-client" not in rendered["the embedded store"].notes
    assert "service/control-plane 6443:6443" in rendered["everything else"].notes


def test_two_releases_share_nothing() -> None:
    found = render({"defaults": {}}, "blue")["defaults"].objects
    assert {each["metadata"]["name"] for each in found.values()} == {"blue"}
    assert found["Service"]["spec"]["selector"]["app.kubernetes.io/instance"] == "blue"
