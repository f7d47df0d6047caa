"""kubectl edit: invalid edits, and edits beside other writers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from tests.server.kubectl_apply.applier import MODIFIED, Applier, config_map, deployment, newest, sed

pytestmark = pytest.mark.kubectl


def test_edit_asks_again_if_something_is_wrong(kubectl: Applier) -> None:
    kubectl("create", "-f", "-", stdin=json.dumps(deployment(replicas=2)))
    kubectl.edits_with(
        f"if grep -q 'replicas: 2' \"$1\"; then {sed('s/replicas: 2/replicas: -1/')}\n"
        f'else cp "$1" "$HOME/again"; {sed("s/replicas: -1/replicas: 4/")}; fi'
    )
    end = kubectl.run("edit", "deploy/web")
    assert (end.returncode, end.stdout) == (0, "deployment.apps/web edited\n")
    again = (kubectl.home / "again").read_text()
    assert '# deployments.apps "web" was not valid:\n' in again
    assert "# * spec.replicas: Invalid value: -1: must be greater than or equal to 0\n" in again
    assert kubectl.live("deploy/web")["spec"]["replicas"] == 4
    assert "kubectl-edit Update" in kubectl.owners("deploy/web")
    kubectl.edits_with("true")
    assert "Edit cancelled, no changes made." in kubectl.run("edit", "deploy/web").stderr


CONCURRENT: Final[dict[str, tuple[str, int, dict[str, str]]]] = {
    # What is edited is sent as a patch.
    "another field: both changes stand": ("w", 0, {"x": "mine", "w": "theirs"}),
    "the same field: the last one wins": ("x", 0, {"x": "mine", "w": "1"}),
    "of one version: theirs stands": ("resourceVersion", 1, {"x": "1", "w": "theirs"}),
}


@newest
@pytest.mark.parametrize(("key", "code", "left"), CONCURRENT.values(), ids=CONCURRENT.keys())
def test_edit_while_others_write(kubectl: Applier, key: str, code: int, left: dict[str, str]) -> None:
    """Row L05: who leaves the resourceVersion of before in the patch wants no other."""
    kubectl("create", "-f", "-", stdin=json.dumps(config_map(x="1", w="1")))
    is_of_version = key == "resourceVersion"
    theirs = json.dumps({"data": {"w" if is_of_version else key: "theirs"}})
    mine = sed('s/x: "1"/x: mine/')
    if is_of_version:
        mine = sed('s/x: "1"/x: mine/; s/resourceVersion: .*/resourceVersion: "1"/')
    others = f"'{kubectl.binary}' -n {kubectl.namespace} patch cm a --type=merge -p '{theirs}' >&2"
    kubectl.edits_with(f"{others}\n{mine}")
    end = kubectl.run("edit", "cm/a")
    assert end.returncode == code, end
    assert kubectl.live()["data"] == left
    if is_of_version:
        assert MODIFIED in end.stderr
        kept = re.search(r"replace -f (\S+)`", end.stderr)
        assert kept is not None
        assert MODIFIED in kubectl.run("replace", "-f", kept[1]).stderr
        Path(kept[1]).unlink()
