"""kubespawner's reflector of pods, as JupyterHub runs it.

It is a program, since the library replaces a part of kubernetes_asyncio when it is imported, and brings
all of JupyterHub.

usage: kubespawner_reflector.py NAMESPACE; KUBECONFIG is in the environment. It creates a pod, waits until the
reflector has it, changes and deletes it, and prints what the reflector held after each step.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any, Final

from kubernetes_asyncio import client
from kubespawner.clients import load_config, shared_client
from kubespawner.reflector import NamespacedResourceReflector

WITHIN_S: Final = 60.0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():
            await asyncio.sleep(0.01)


async def main(namespace: str) -> dict[str, Any]:
    core, key = shared_client("CoreV1Api"), f"{namespace}/a"
    spec = {"containers": [{"name": "c", "image": "i"}]}

    def pod(name: str, labels: dict[str, str]) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": labels}, "spec": spec}

    await core.create_namespaced_pod(namespace, pod("before", {"app": "hub"}))
    await core.create_namespaced_pod(namespace, pod("of-others", {"app": "other"}))
    pods = NamespacedResourceReflector(kind="pods", namespace=namespace, labels={"app": "hub"})
    await pods.start()
    first = sorted(pods.resources)
    await core.create_namespaced_pod(namespace, pod("a", {"app": "hub"}))
    await until(lambda: key in pods.resources)
    await core.patch_namespaced_pod("a", namespace, {"metadata": {"annotations": {"seen": "yes"}}})
    await until(lambda: "annotations" in pods.resources[key]["metadata"])
    annotations = pods.resources[key]["metadata"]["annotations"]
    await core.delete_namespaced_pod("a", namespace, body=client.V1DeleteOptions(grace_period_seconds=0))
    await until(lambda: key not in pods.resources)
    last = sorted(pods.resources)
    await pods.stop()
    return {"first": first, "annotations": annotations, "last": last}


if __name__ == "__main__":
    load_config()
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
