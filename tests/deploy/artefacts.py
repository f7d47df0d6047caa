"""What is in the deployment files, as data."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
KUBERNETES: Final = DEPLOY / "kubernetes"
# The manifests of types that the Prometheus operator defines.
OF_PROMETHEUS_OPERATOR: Final = ("servicemonitor", "prometheusrule")
DASHBOARD: Final = DEPLOY / "grafana" / "apiserver.json"
ALERTS: Final = DEPLOY / "prometheus" / "alerts.yml"
UNIT: Final = DEPLOY / "systemd" / "apiserver.service"
# docker-compose.yml's services that run the server.
REPLICAS: Final = ("apiserver-1", "apiserver-2")


def yaml_documents(path: Path) -> list[Any]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


def compose() -> Any:
    """docker-compose.yml with its anchors and merges resolved."""
    return yaml_documents(ROOT / "docker-compose.yml")[0]


def manifests() -> dict[str, Any]:
    """The Kubernetes manifests by file name."""
    of_operator = (KUBERNETES / f"{name}.yaml" for name in OF_PROMETHEUS_OPERATOR)
    paths = [*sorted((KUBERNETES / "server").glob("*.yaml")), *of_operator]
    found = {}
    for path in paths:
        (found[path.stem],) = yaml_documents(path)
    return found


def alert_rules() -> dict[str, Any]:
    """The rules of alerts.yml by the alert's name."""
    (document,) = yaml_documents(ALERTS)
    return {rule["alert"]: rule for group in document["groups"] for rule in group["rules"]}


def jobs_in(rules: Any) -> set[str]:
    """The jobs that the expressions of a PrometheusRule select."""
    expressions = [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    return {job for expression in expressions for job in re.findall(r'job="(.*?)"', expression)}


def dashboard_expressions() -> dict[str, str]:
    """The expressions of the dashboard by panel and legend, with values for its variables."""
    return {
        f"{panel['title']}: {target['legendFormat']}": target["expr"]
        .replace("$__rate_interval", "5m")
        .replace("$job", "apiserver")
        .replace("$instance", ".*")
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
    }


def runbook_expressions() -> list[str]:
    """The expressions on the page about alerts."""
    page = (ROOT / "docs" / "operating" / "alerts.md").read_text()
    return re.findall(r"^```promql\n(.*?)\n```$", page, re.MULTILINE | re.DOTALL)


def example_secrets() -> dict[str, Mapping[str, str]]:
    """The keys of each Secret that somebody has to make."""
    documents = yaml_documents(KUBERNETES / "secrets.example.yaml")
    return {secret["metadata"]["name"]: secret["stringData"] for secret in documents}


def dockerfile(text: str | None = None) -> list[list[tuple[str, str]]]:
    """The stages of the Dockerfile: instructions and what follows them, comments and line ends removed."""
    text = (ROOT / "Dockerfile").read_text() if text is None else text
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    stages: list[list[tuple[str, str]]] = []
    for line in re.sub(r"\\\n\s*", "", lines).splitlines():
        name, _, rest = line.strip().partition(" ")
        if name.upper() == "FROM":
            stages.append([])
        if name:
            stages[-1].append((name.upper(), rest.strip()))
    return stages


def entrypoint() -> list[str]:
    (words,) = [json.loads(rest) for name, rest in dockerfile()[-1] if name == "ENTRYPOINT"]
    return list(words)


def unit() -> dict[str, dict[str, list[str]]]:
    """The systemd unit: the values of each directive of each section."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            section.setdefault(name, []).append(value)
    return sections


def server_flags() -> dict[str, list[str]]:
    """What each deployment gives the server, by where it stands."""
    in_image = entrypoint()[1:]
    services = compose()["services"]
    deployment = manifests()["deployment"]["spec"]["template"]["spec"]["containers"][0]
    (started,) = unit()["Service"]["ExecStart"]
    config = DEPLOY / "systemd" / "config.yaml"
    in_unit = [word.replace("/etc/apiserver/config.yaml", str(config)) for word in shlex.split(started)[1:]]
    return {
        "Dockerfile": in_image,
        **{f"docker-compose.yml, {name}": [*in_image, *services[name]["command"]] for name in REPLICAS},
        "deploy/kubernetes/server/deployment.yaml": [*in_image, *deployment["args"]],
        "deploy/systemd/apiserver.service": in_unit,
    }


def file_flags(flags: list[str]) -> Iterator[tuple[str, str]]:
    """Those that name a file inside of the deployment: the flag and the path."""
    for flag in flags:
        name, _, value = flag.removeprefix("--").partition("=")
        if value.startswith("/etc/apiserver/"):
            yield name, value
