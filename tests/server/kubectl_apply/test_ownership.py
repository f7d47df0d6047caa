"""Field ownership: conflicts, and migration from client-side to server-side apply and back."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.server.kubectl_apply.applier import (
    CLIENT_SIDE,
    LAST_APPLIED,
    SERVER_SIDE,
    Applier,
    Document,
    config_map,
    deployment,
    newest,
)

pytestmark = pytest.mark.kubectl


def test_conflicts_name_manager_and_field(kubectl: Applier) -> None:
    """Rows F10-F13."""
    kubectl.apply(config_map(x="1", w="1"), server_side=True)
    kubectl.apply(config_map(v="1"), flags="--field-manager=third", server_side=True)
    before = kubectl.live()
    two = config_map(x="2", v="2", new="2")
    code, complaint = kubectl.tries(two, flags="--field-manager=second", server_side=True)
    assert code == 1
    assert complaint.startswith(
        'error: Apply failed with 2 conflicts: conflicts with "kubectl":\n'
        '- .data.x\nconflicts with "third":\n- .data.v\n'
    )
    assert "--force-conflicts" in complaint
    assert kubectl.live() == before

    same = config_map(x="1")
    kubectl.apply(same, flags="--field-manager=second", server_side=True)
    assert kubectl.owners()["second Apply"] == {"f:data": {"f:x": {}}}
    kubectl.apply(two, flags="--field-manager=second --force-conflicts", server_side=True)
    assert kubectl.live()["data"] == {"w": "1", "x": "2", "v": "2", "new": "2"}
    assert kubectl.owners() == {
        SERVER_SIDE: {"f:data": {"f:w": {}}},
        "second Apply": {"f:data": {"f:new": {}, "f:v": {}, "f:x": {}}},
    }
    # Row F14: who still has it in the file keeps it.
    kubectl.apply(two, server_side=True)
    kubectl.apply(config_map(), flags="--field-manager=second", server_side=True)
    assert kubectl.live()["data"] == two["data"]


def test_the_scale_is_left_to_who_scales(kubectl: Applier) -> None:
    kubectl.apply(deployment(replicas=2), server_side=True)
    kubectl("scale", "deploy/web", "--replicas=5")
    scaler = Path(kubectl.binary).name  # of its User-Agent: row F05
    assert kubectl.owners("deploy/web")[f"{scaler} Update scale"] == {"f:spec": {"f:replicas": {}}}
    code, complaint = kubectl.tries(deployment(replicas=2), server_side=True)
    assert code == 1
    assert f'"{scaler}" with subresource "scale" using apps/v1: .spec.replicas' in complaint
    assert kubectl.apply(deployment(), server_side=True) == "deployment.apps/web serverside-applied\n"
    assert kubectl.live("deploy/web")["spec"]["replicas"] == 5
    kubectl.apply(deployment(replicas=2), flags="--force-conflicts", server_side=True)
    assert kubectl.live("deploy/web")["spec"]["replicas"] == 2


def test_from_client_side_to_server_side(kubectl: Applier) -> None:
    """kubectl takes over what client-side apply has set, without a conflict, and moves the ownership.

    Kubernetes' documentation, "Migrating between client-side and server-side apply".
    """
    kubectl.apply(config_map(labels={"tier": "x"}, x="1", w="1"))
    kubectl.apply(config_map(labels={"tier": "x"}, x="2", w="1"), server_side=True)
    of_annotation: Document = {"f:metadata": {"f:annotations": {f"f:{LAST_APPLIED}": {}}}}
    assert kubectl.owners() == {
        SERVER_SIDE: {"f:data": {"f:w": {}, "f:x": {}}, "f:metadata": {"f:labels": {"f:tier": {}}}},
        "kubectl-last-applied Apply": of_annotation,
    }
    kubectl.apply(config_map(x="2"), server_side=True)
    live = kubectl.live()
    assert (live["data"], live["metadata"].get("labels")) == ({"x": "2"}, None)
    assert kubectl.owners() == {
        SERVER_SIDE: {"f:data": {"f:x": {}}},
        "kubectl-last-applied Apply": of_annotation,
    }
    # Who has migrated writes no more.
    kubectl.apply(config_map(x="2"), server_side=True)
    assert kubectl.live() == live


def test_what_others_have_changed_since_is_a_conflict(kubectl: Applier) -> None:
    """Only that: what is as client-side apply has left it is kubectl's."""
    kubectl.apply(config_map(x="1", w="1"))
    kubectl("patch", "cm", "a", "--type=merge", "-p", '{"data":{"x":"theirs"}}')
    code, complaint = kubectl.tries(config_map(x="2", w="2"), server_side=True)
    assert code == 1
    assert complaint.startswith(
        'error: Apply failed with 1 conflict: conflict with "kubectl-patch" using v1: .data.x\n'
    )
    assert kubectl.live()["data"] == {"x": "theirs", "w": "1"}
    kubectl.apply(config_map(x="2", w="2"), flags="--force-conflicts", server_side=True)
    assert kubectl.live()["data"] == {"x": "2", "w": "2"}


def test_migration_under_another_name(kubectl: Applier) -> None:
    """Somebody else than kubectl has conflicts, and drops what client-side apply has remembered."""
    kubectl.apply(config_map(x="1", w="1"))
    code, complaint = kubectl.tries(config_map(x="2"), flags="--field-manager=ci", server_side=True)
    assert code == 1
    assert 'conflict with "kubectl-client-side-apply" using v1: .data.x' in complaint
    kubectl.apply(config_map(x="2"), flags="--field-manager=ci --force-conflicts", server_side=True)
    assert kubectl.owners() == {"ci Apply": {"f:data": {"f:x": {}}}}
    live = kubectl.live()
    assert (live["data"], live["metadata"].get("annotations")) == ({"x": "2"}, None)
    kubectl.apply(config_map(y="2"), flags="--field-manager=ci", server_side=True)
    assert kubectl.live()["data"] == {"y": "2"}


def test_from_server_side_to_client_side(kubectl: Applier) -> None:
    """Server-side apply keeps up what client-side apply goes by, if it is there: so the way back is open."""
    kubectl.apply(config_map(x="1"))
    kubectl.apply(config_map(x="1", added="1"), server_side=True)
    assert yaml.safe_load(kubectl("apply", "view-last-applied", "cm/a"))["data"] == {"x": "1", "added": "1"}
    kubectl.apply(config_map(x="2"))
    assert kubectl.live()["data"] == {"x": "2"}
    assert kubectl.owners()[CLIENT_SIDE]["f:data"] == {"f:x": {}}
    # Of what was never applied client-side it knows nothing, and takes nothing away.
    kubectl.apply(config_map("b", x="1", added="1"), server_side=True)
    code, complaint = kubectl.tries(config_map("b", x="2"))
    assert (code, "missing the kubectl.kubernetes.io" in complaint) == (0, True)
    assert kubectl.live("cm/b")["data"] == {"x": "2", "added": "1"}
    assert kubectl.owners("cm/b")[SERVER_SIDE] == {"f:data": {"f:added": {}}}


@newest
def test_what_is_too_long_to_be_remembered_is_not(kubectl: Applier) -> None:
    """Annotations have 256 KiB: server-side apply goes on without, where client-side apply cannot."""
    kubectl.apply(config_map(x="1"))
    long = config_map(x="x" * 300_000)
    code, complaint = kubectl.tries(long)
    assert (code, "metadata.annotations: Too long" in complaint) == (1, True)
    kubectl.apply(long, server_side=True)
    live = kubectl.live()
    assert (live["data"], live["metadata"].get("annotations")) == (long["data"], None)
