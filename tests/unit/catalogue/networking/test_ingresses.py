"""Ingresses. Source: pkg/apis/networking/validation (release 1.34); row T20."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind

BACKEND: Final = {"service": {"name": "s", "port": {"number": 80}}}
PATHS: Final = "spec.rules.0.http.paths.0"
PATH: Final = "spec.rules[0].http.paths[0]"
INGRESS: Final = ServedKind(
    "ingresses.networking.k8s.io",
    {
        "spec": {
            "rules": [
                {
                    "host": "a.example.com",
                    "http": {"paths": [{"path": "/x", "pathType": "Prefix", "backend": BACKEND}]},
                }
            ]
        }
    },
)

INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "there are rules or a default backend": (
        {"spec.rules": None},
        ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
    ),
    "a path has a type": (
        {f"{PATHS}.pathType": None},
        [f"{PATH}.pathType: Required value: pathType must be specified"],
    ),
    "a type is one of three": (
        {f"{PATHS}.pathType": "Any"},
        [
            (
                f'{PATH}.pathType: Unsupported value: "Any": supported values: "Exact", '
                '"ImplementationSpecific", "Prefix"'
            )
        ],
    ),
    "an exact path is there, and absolute": (
        {f"{PATHS}.pathType": "Exact", f"{PATHS}.path": None},
        [f'{PATH}.path: Invalid value: "": must be an absolute path'],
    ),
    "a path is in its simplest form": (
        {f"{PATHS}.path": "/a//b/.."},
        [
            f"{PATH}.path: Invalid value: \"/a//b/..\": must not contain '//'",
            f"{PATH}.path: Invalid value: \"/a//b/..\": cannot end with '/..'",
        ],
    ),
    "a backend is one thing": (
        {f"{PATHS}.backend": {**BACKEND, "resource": {"kind": "K", "name": "n"}}},
        [f'{PATH}.backend: Invalid value: "": cannot set both resource and service backends'],
    ),
    "a backend is something": (
        {"spec.defaultBackend": {}},
        ['spec.defaultBackend: Invalid value: "": resource or service backend is required'],
    ),
    "a port is a name or a number": (
        {f"{PATHS}.backend.service.port.name": "web"},
        [f'{PATH}.backend: Invalid value: "": cannot set both port name & port number'],
    ),
    "a host is not an address": (
        {"spec.rules.0.host": "10.0.0.1"},
        ['spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address'],
    ),
    "a rule for HTTP has paths": (
        {"spec.rules.0.http.paths": []},
        ["spec.rules[0].http.paths: Required value"],
    ),
    "class and annotation agree": (
        {"spec.ingressClassName": "one", "metadata.annotations": {"kubernetes.io/ingress.class": "other"}},
        [
            (
                'annotations.kubernetes.io/ingress.class: Invalid value: "other": must match '
                "`ingressClassName` "
                "when both are specified"
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_ingresses_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert INGRESS.create(changes).texts == texts


VALID: Final[dict[str, Changes]] = {
    "an implementation's path may be empty": {
        f"{PATHS}.pathType": "ImplementationSpecific",
        f"{PATHS}.path": None,
    },
    "a host may stand for many": {"spec.rules.0.host": "*.example.com"},
    "a rule may have no paths of its own": {"spec.rules": [{"host": "b"}]},
    "TLS has hosts and a secret": {"spec.tls": [{"hosts": ["*.b", "c"], "secretName": "s"}]},
    "a default backend is enough": {"spec": {"defaultBackend": BACKEND}},
}


@pytest.mark.parametrize("changes", VALID.values(), ids=VALID)
def test_ingresses_that_are_right(changes: Changes) -> None:
    document, errors = INGRESS.create(changes)
    assert errors == []
    assert document["status"] == {"loadBalancer": {}}


def test_a_wildcard_stands_for_one_part_at_the_start() -> None:
    (text,) = INGRESS.create({"spec.rules.0.host": "a.*.com"}).texts
    assert "a wildcard DNS-1123 subdomain must start with '*.'" in text


def test_a_status_tells_addresses_and_names() -> None:
    """Row I13: the main endpoint leaves the status alone."""
    status = {"ingress": [{"ip": "x"}, {"hostname": "10.0.0.1"}]}
    changes = {"status.loadBalancer": status}
    assert INGRESS.update(changes, "status").texts == [
        (
            'status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address, '
            "(e.g. 10.9.8.7 or 2001:db8::ffff)"
        ),
        (
            'status.loadBalancer.ingress[1].hostname: Invalid value: "10.0.0.1": must be a DNS name, not '
            "an IP "
            "address"
        ),
    ]
    assert INGRESS.update(changes).document["status"] == {"loadBalancer": {}}


def test_the_old_annotation_is_warned_of_when_it_stands_alone() -> None:
    warn = INGRESS.resource.strategy.warn
    annotated = {"metadata.annotations": {"kubernetes.io/ingress.class": "c"}}
    document = INGRESS.create(annotated).document
    (warning,) = warn(document, None)
    assert warning.endswith("is deprecated, please use 'spec.ingressClassName' instead")
    assert warn(document, document) == []
    assert warn(INGRESS.create({**annotated, "spec.ingressClassName": "c"}).document, None) == []


ROWS: Final[dict[str, tuple[Changes, dict[str, Any]]]] = {
    "as it is": ({}, {"Class": "<none>", "Hosts": "a.example.com", "Address": "", "Ports": "80"}),
    "with everything": (
        {
            "spec.ingressClassName": "c",
            "spec.rules": [{"host": host} for host in "abcde"],
            "spec.tls": [{"hosts": ["a"]}],
            "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h"}]}},
        },
        {"Class": "c", "Hosts": "a,b,c + 2 more...", "Address": "1.2.3.4,h", "Ports": "80, 443"},
    ),
    "for any host": ({"spec.rules.0.host": None}, {"Hosts": "*"}),
}


@pytest.mark.parametrize(("changes", "cells"), ROWS.values(), ids=ROWS)
def test_rows(changes: Changes, cells: dict[str, Any]) -> None:
    assert cells.items() <= INGRESS.cells(changes).items()
