"""Applying many files at once, and pruning objects that are in none of them any more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.server.kubectl_apply.applier import (
    HTTP,
    PATHS,
    SERVICE,
    Applier,
    config_map,
    container,
    deployment,
    newest,
)

pytestmark = pytest.mark.kubectl


@newest
def test_directories_and_kustomizations(kubectl: Applier, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "d.yaml").write_text(yaml.safe_dump(deployment()))
    (files / "c.json").write_text(json.dumps(config_map(x="1")))
    assert kubectl("apply", "-f", str(files)) == "configmap/a created\ndeployment.apps/web created\n"
    assert kubectl("apply", "-f", str(files), "--server-side").count("serverside-applied") == 2
    kustomization = {
        "resources": ["d.yaml"],
        "images": [{"name": "nginx", "newTag": "9"}],
        "configMapGenerator": [{"name": "settings", "literals": ["a=b"]}],
    }
    (files / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    said = kubectl("apply", "-k", str(files)).splitlines()
    assert re.fullmatch(r"configmap/settings-\w+ created", said[0])
    assert said[1:] == ["deployment.apps/web configured"]
    assert kubectl("apply", "-k", str(files)).count(" unchanged\n") == 2
    assert container(kubectl)["image"] == "nginx:9"
    assert kubectl.run("diff", "-k", str(files)).returncode == 0
    assert kubectl("delete", "-k", str(files)).count(" deleted\n") == 2


def prunes(kubectl: Applier, flags: str) -> None:
    """Prune two of three applied objects, which are no longer in the files."""
    labels = {"part": kubectl.namespace}
    service = SERVICE | {"metadata": {"name": "web", "labels": labels}, "spec": {"ports": [HTTP]}}
    files = [config_map("a", labels=labels), config_map("b", labels=labels), service]
    kubectl.api.post(PATHS["cm"].format(kubectl.namespace), config_map("not-applied")).ok()
    kubectl.apply(*files, flags=f"--prune {flags}")
    said = kubectl.apply(files[0], flags=f"--prune {flags} --dry-run=server")
    assert said.count(" pruned (server dry run)\n") == 2
    said = kubectl.apply(files[0], flags=f"--prune {flags}")
    assert sorted(re.findall(r"\S+(?= pruned\n)", said)) == ["configmap/b", "service/web"]
    left = kubectl("get", "cm,svc", "-o", "name").split()
    assert {"configmap/a", "configmap/not-applied"} <= set(left)
    assert not {"configmap/b", "service/web"} & set(left)


def test_what_is_in_no_file_any_more_is_pruned(kubectl: Applier) -> None:
    """It takes what has the label, and was applied client-side."""
    allowed = "--prune-allowlist=core/v1/ConfigMap --prune-allowlist=core/v1/Service"
    prunes(kubectl, f"-l part={kubectl.namespace} {allowed}")


SETS: Final = {
    "in a Secret": "--applyset=mine",
    "in a ConfigMap": "--applyset=configmaps/mine",
    "server-side": "--server-side --applyset=mine",
}


@newest
@pytest.mark.parametrize("flags", SETS.values(), ids=SETS.keys())
def test_sets_of_what_is_applied_together(kubectl: Applier, flags: str) -> None:
    """An ApplySet is kept in an object of its own, and its objects carry its label."""
    kubectl.variables["KUBECTL_APPLYSET"] = "true"
    prunes(kubectl, flags)
    assert "applyset.kubernetes.io/part-of" in kubectl.live()["metadata"]["labels"]
