"""An extension whose functions refuse all that they are called for, and show what they have got."""

from __future__ import annotations

import json
from typing import Any

from apiserver.extensions import Denied, Extension

app = Extension("rules")


def _show(**seen: Any) -> Denied:
    return Denied(json.dumps(seen, sort_keys=True))


@app.validate("deployments", on="create")
def of_the_first_group(deployment: Any) -> None:
    raise _show(apiVersion=deployment["apiVersion"])


@app.validate("horizontalpodautoscalers.autoscaling")
def in_the_version_of_the_request(autoscaler: Any, request: Any) -> None:
    raise _show(apiVersion=autoscaler["apiVersion"], resource=request.document["resource"])


@app.mutate("events.v1.events.k8s.io")
def in_its_own_version(event: Any, request: Any) -> None:
    event["note"] = f"{event['note']}, {request.document['requestResource']['group']}"


@app.validate("pods/status")
def of_a_subresource(pod: Any, request: Any) -> None:
    raise _show(name=pod["metadata"]["name"], subresource=request.subresource)


@app.mutate("replicasets/scale")
def of_a_subresource_of_another_kind(scale: Any) -> None:
    scale["spec"]["replicas"] = 7


@app.validate("services/proxy", on="connect")
def of_connections(options: Any, request: Any) -> None:
    raise _show(kind=options["kind"], operation=request.operation)


@app.validate("secrets", on="delete")
def of_deletions(secret: Any, old: Any) -> None:
    if secret["metadata"]["labels"]["keep"] == "yes":
        raise _show(name=secret["metadata"]["name"], old=old["metadata"]["name"])


@app.mutate("secrets", on="delete", on_error="warn")
def changes_a_deletion(secret: Any) -> None:
    secret["metadata"]["labels"] = {}


@app.validate("namespaces", where="object.metadata.name.startsWith('denied')")
def of_cluster_scoped_objects(namespace: Any, namespace_labels: Any) -> None:
    raise _show(labels=namespace_labels)


@app.validate("*.example.com")
def of_a_whole_group(document: Any) -> None:
    raise _show(kind=document["kind"], name=document["metadata"]["name"])


@app.validate("leases", where="object.metadata.annotations['a'] == 'b'")
def with_a_condition_that_fails(lease: Any) -> None:
    raise _show()


@app.validate("leases", where="object.metadata.annotations['a'] == 'c'", on_error="ignore")
def with_a_condition_that_is_ignored(lease: Any) -> None:
    raise _show()
