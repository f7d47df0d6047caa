"""kubectl apply, and the documents that the tests apply."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.support.api import Api
from tests.support.kubectl import Kubectl, oldest_and_newest

Document = dict[str, Any]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
CLIENT_SIDE: Final = "kubectl-client-side-apply Update"
SERVER_SIDE: Final = "kubectl Apply"
LABELS: Final = {"app": "web"}

# What the server says of what is not of the version it should be of.
MODIFIED: Final = "the object has been modified"

PATHS: Final = {
    "cm": "/api/v1/namespaces/{}/configmaps",
    "svc": "/api/v1/namespaces/{}/services",
    "sa": "/api/v1/namespaces/{}/serviceaccounts",
    "deploy": "/apis/apps/v1/namespaces/{}/deployments",
    "job": "/apis/batch/v1/namespaces/{}/jobs",
}


def config_map(name: str = "a", *, labels: dict[str, str] | None = None, **data: str) -> Document:
    metadata = {"name": name, "labels": labels} if labels else {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def deployment(*containers: Document, name: str = "web", **spec: Any) -> Document:
    pod = {"containers": list(containers) or [{"name": "web", "image": "nginx:1"}]}
    template = {"metadata": {"labels": LABELS}, "spec": pod | spec.pop("pod", {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec},
    }


HTTP, HTTPS = {"name": "http", "port": 80}, {"name": "https", "port": 443}
SERVICE: Final = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
JOB: Final = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}}
JOB_SPEC: Final = {
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}}
}

# What concerns little but kubectl itself.
newest: Final = pytest.mark.parametrize("kubectl", oldest_and_newest()[-1:], indirect=True)


@dataclass
class Applier(Kubectl):
    """variables: of the environment, besides those that every kubectl has."""

    api: Api
    variables: dict[str, str] = field(default_factory=dict)

    def apply(self, *documents: Document, flags: str = "", server_side: bool = False) -> str:
        """Run an apply that must succeed without warnings."""
        return self(*_apply(flags, server_side), stdin=_as_one(documents))

    def tries(self, *documents: Document, flags: str = "", server_side: bool = False) -> tuple[int, str]:
        """Run an apply that may fail, and return its exit code and its errors."""
        end = self.run(*_apply(flags, server_side), stdin=_as_one(documents))
        return end.returncode, end.stderr

    def live(self, what: str = "cm/a") -> Any:
        """The live object, read over HTTP: kubectl takes twenty times as long."""
        resource, name = what.split("/")
        return self.api.get(f"{PATHS[resource].format(self.namespace)}/{name}").ok()

    def owners(self, what: str = "cm/a") -> dict[str, Any]:
        """The fields that each manager owns, by manager, operation and subresource."""
        return {
            " ".join(filter(None, (e["manager"], e["operation"], e.get("subresource")))): e["fieldsV1"]
            for e in self.live(what)["metadata"]["managedFields"]
        }

    def edits_with(self, script: str) -> None:
        """Set the editor that `edit` starts; `$1` is the file."""
        editor = self.home / "editor"
        editor.write_text(f"#!/bin/sh -e\n{script}\n")
        editor.chmod(0o755)
        self.variables["KUBE_EDITOR"] = str(editor)

    def _environment(self) -> dict[str, str]:
        # Those before 1.30 spend half their time on collecting what ends with them anyway.
        return super()._environment() | {"GOGC": "off"} | self.variables


def _apply(flags: str, server_side: bool) -> list[str]:
    return ["apply", *(["--server-side"] if server_side else []), *flags.split(), "-f", "-"]


def _as_one(documents: tuple[Document, ...]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})


def sed(expression: str) -> str:
    """What an editor does to its file."""
    return f"""sed '{expression}' "$1" > "$1.new" && mv "$1.new" "$1" """


def container(kubectl: Applier) -> Any:
    return kubectl.live("deploy/web")["spec"]["template"]["spec"]["containers"][0]
