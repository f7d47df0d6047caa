"""The columns of Services. Source: pkg/printers/internalversion, printService."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.common.columns import labels_cell
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document


def _external_ip(document: Document, now: float) -> str:
    spec = document.get("spec", {})
    kind = spec.get("type") or "ClusterIP"
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    addresses = list(spec.get("externalIPs") or ())
    if kind == "LoadBalancer":
        ingress = document.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
        addresses = [each.get("ip") or each.get("hostname") or "" for each in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or "<none>"


def _ports(document: Document, now: float) -> str:
    texts = []
    for port in document.get("spec", {}).get("ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol') or 'TCP'}")
    return ",".join(texts) or "<none>"


COLUMNS: Final = columns(
    Column(
        "Type",
        field_cell("spec", "type", default="ClusterIP"),
        "How the service is exposed: ClusterIP, NodePort, LoadBalancer or ExternalName.",
    ),
    Column(
        "Cluster-IP",
        field_cell("spec", "clusterIP", default="<none>"),
        "The service's address inside the cluster, or None if it has no single one.",
    ),
    Column("External-IP", _external_ip, "Where the service can be reached from outside, if it can."),
    Column("Port(s)", _ports, "The ports that the service offers, and their protocols."),
    AGE,
    Column(
        "Selector",
        labels_cell("spec", "selector"),
        "The labels by which the service finds the pods that it sends traffic to.",
        priority=1,
    ),
)
