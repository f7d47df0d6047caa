"""Unmodified clients that are not of this environment: see tests/support/client_programs.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.client_programs import (
    node_packages,
    python_packages,
    ruby_with,
    run_with_node,
    run_with_python,
    run_with_ruby,
)
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.slow


@pytest.mark.longest  # where its packages have to be installed
def test_kubespawner_reflectors(server: ServerProcess, namespace: str) -> None:
    """A hub learns of its pods by a list of any age, then lists no older than it, and watches."""
    said = run_with_python("kubespawner_reflector.py", python_packages(), server.kubeconfig, namespace)
    before = [f"{namespace}/before"]
    assert said == {"first": before, "annotations": {"seen": "yes"}, "last": before}


def test_kubernetes_fluent_client(server: ServerProcess, namespace: str, tmp_path: Path) -> None:
    """It applies, patches with JSON Patch, and watches from a list."""
    said = run_with_node("fluent.mjs", node_packages(), tmp_path, server.kubeconfig, namespace)
    seen = said.pop("seen")
    assert said == {
        "uids": 1,
        "applied": {"k": "applied"},
        "patched": {"k": "applied", "n": "2"},
        "listed": ["a"],
        "gone": 404,
    }
    assert (seen[0], seen[-1]) == (["ADDED", "a"], ["DELETED", "a"])


def test_kubernetes_client_of_npm(server: ServerProcess, namespace: str, tmp_path: Path) -> None:
    """It makes its methods of OpenAPI v2, and watches by the old paths below /watch."""
    said = run_with_node("godaddy.cjs", node_packages(), tmp_path, server.kubeconfig, namespace)
    assert said == {
        "statuses": [201, 200, 200, 200, 200],
        "listed": ["a"],
        "patched": {"k": "v", "n": "2"},
        "gone": 404,
        "seen": [["MODIFIED", "a"], ["DELETED", "a"]],
    }


def test_kubeclient_of_ruby(server: ServerProcess, namespace: str) -> None:
    """It lists in pages, patches in three ways, and watches from a list."""
    said = run_with_ruby("kubeclient.rb", ruby_with("kubeclient"), server.kubeconfig, namespace)
    assert said == {
        "pages": [["a", "b"], ["c"]],
        "patched": {"k": "v", "s": "strategic", "m": "merge", "j": "json"},
        "seen": [*[["MODIFIED", "a"]] * 3, ["DELETED", "a"]],
        "gone": 404,
    }
