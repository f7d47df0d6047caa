"""Ingresses and their classes of networking/v1beta1, and ingresses of extensions/v1beta1. Rows T20, T21.

Source: pkg/apis/networking (release 1.21).
"""

from __future__ import annotations

import copy
import time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current
from tests.unit.catalogue.served_kinds import Changes

RULE: Final = {
    "host": "a.example.com",
    "http": {"paths": [{"path": "/x", "backend": {"serviceName": "web", "servicePort": 80}}]},
}
SPEC: Final = {"spec": {"rules": [RULE]}}
NETWORKING: Final = OldKind("ingresses.networking.k8s.io", "v1beta1", 21, SPEC)
KINDS: Final = {"networking": NETWORKING, "extensions": OldKind("ingresses.extensions", "v1beta1", 21, SPEC)}
V1: Final = OldKind("ingresses.networking.k8s.io", "v1", 21, {})
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)

CONVERTED: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "a number of a port": (
        {"backend": {"serviceName": "a", "servicePort": 80}},
        {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}},
    ),
    "a name of a port": (
        {"backend": {"serviceName": "a", "servicePort": "web"}},
        {"defaultBackend": {"service": {"name": "a", "port": {"name": "web"}}}},
    ),
    "a number that is a text is a name": (
        {"backend": {"serviceName": "a", "servicePort": "80"}},
        {"defaultBackend": {"service": {"name": "a", "port": {"name": "80"}}}},
    ),
    "a resource": (
        {"backend": {"resource": {"kind": "K", "name": "n"}, "servicePort": 0}},
        {"defaultBackend": {"resource": {"kind": "K", "name": "n"}}},
    ),
    "no port": (
        {"backend": {"serviceName": "a", "servicePort": 0}},
        {"defaultBackend": {"service": {"name": "a", "port": {}}}},
    ),
    "no name": (
        {"backend": {"servicePort": 80}},
        {"defaultBackend": {"service": {"name": "", "port": {"number": 80}}}},
    ),
    "nothing": ({"backend": {"servicePort": 0}}, {"defaultBackend": {}}),
    "backends of paths": (
        {"rules": [{"http": {"paths": [{"path": "/", "backend": {"serviceName": "a", "servicePort": 1}}]}}]},
        {
            "rules": [
                {
                    "http": {
                        "paths": [{"path": "/", "backend": {"service": {"name": "a", "port": {"number": 1}}}}]
                    }
                }
            ]
        },
    ),
    "rules without backends": ({"rules": [{"host": "a"}]}, {"rules": [{"host": "a"}]}),
}


@each_kind
@pytest.mark.parametrize(("beta", "stable"), CONVERTED.values(), ids=CONVERTED)
def test_t20_backends_have_another_form(kind: OldKind, beta: dict[str, Any], stable: dict[str, Any]) -> None:
    document = {**kind.valid, "spec": beta}
    current = {**kind.valid, "apiVersion": "networking.k8s.io/v1", "spec": stable}
    assert kind.to_hub(document) == current
    assert kind.from_hub(current) == document


@each_kind
def test_t20_a_path_has_a_type_by_default(kind: OldKind) -> None:
    """In v1 it is required."""
    document, errors = kind.create()
    assert errors == []
    assert document["spec"]["rules"][0]["http"]["paths"][0]["pathType"] == "ImplementationSpecific"
    assert read_by_current(kind.completed()) == kind.to_hub(kind.completed())
    untyped = OldKind("ingresses.networking.k8s.io", "v1", 21, {"spec": document["spec"]})
    assert untyped.create({"spec.rules.0.http.paths.0.pathType": None}).texts == [
        "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"
    ]


BACKEND: Final = "spec.rules.0.http.paths.0.backend"
ERRORS: Final[dict[str, tuple[Changes, list[str]]]] = {
    "there is a backend or a rule": (
        {"spec.rules": None},
        ["spec: Invalid value: null: either `backend` or `rules` must be specified"],
    ),
    "the default backend": (
        {"spec.backend": {"servicePort": 80}},
        ["spec.backend.serviceName: Required value"],
    ),
    "a port's number": (
        {f"{BACKEND}.servicePort": 70000},
        [
            (
                "spec.rules[0].http.paths[0].backend.servicePort: Invalid value: 70000: must be between "
                "1 and 65535, inclusive"
            )
        ],
    ),
    "a name that no secret has": ({"spec.tls": [{"secretName": "A"}]}, []),
    "a rule for a wildcard": ({"spec.rules.0.host": "*.example.com", "spec.rules.0.http.paths": []}, []),
}


@each_kind
@pytest.mark.parametrize(("changes", "texts"), ERRORS.values(), ids=ERRORS)
def test_t20_errors_have_the_names_of_v1beta1(kind: OldKind, changes: Changes, texts: list[str]) -> None:
    assert kind.create(changes).texts == texts


def stored(changes: Changes) -> Any:
    return NETWORKING.create(changes).document["spec"]


LEFT_AS_IT_IS: Final[dict[str, tuple[Changes, Changes, str]]] = {
    "a name of a secret": (
        {"spec.tls": [{"secretName": "A"}]},
        {"spec.tls": [{"secretName": "B"}]},
        "spec.tls[0].secretName",
    ),
    "a rule for a wildcard": (
        {"spec.rules.0.host": "*.example.com", "spec.rules.0.http.paths": []},
        {"spec.rules.0.host": "*.example.org"},
        "spec.rules[0].http.paths",
    ),
}


@pytest.mark.parametrize(("invalid", "change", "field"), LEFT_AS_IT_IS.values(), ids=LEFT_AS_IT_IS)
def test_t20_v1_leaves_what_v1beta1_has_let_in(invalid: Changes, change: Changes, field: str) -> None:
    kind = OldKind("ingresses.networking.k8s.io", "v1", 21, {"spec": stored(invalid)})
    assert [error.field for error in kind.create().errors] == [field]
    good = OldKind("ingresses.networking.k8s.io", "v1", 21, {"spec": stored({})})
    strategy, old = kind.strategy, kind.current()
    assert strategy.validate_ratcheting(kind.current(change), old) == []
    assert [error.field for error in strategy.validate_ratcheting(old, good.current())] == [field]


def test_t20_columns() -> None:
    cells = NETWORKING.resource.columns.cells(NETWORKING.completed(), 0)
    assert cells[:4] == V1.resource.columns.cells(NETWORKING.current(), 0)[:4]


def test_t21_classes_are_the_same() -> None:
    fields = {"spec": {"controller": "example.com/a", "parameters": {"kind": "K", "name": "n"}}}
    kind = OldKind("ingressclasses.networking.k8s.io", "v1beta1", 21, fields)
    document = kind.completed()
    assert document["spec"]["parameters"]["scope"] == "Cluster"
    assert kind.to_hub(document) == {**document, "apiVersion": "networking.k8s.io/v1"}
    assert kind.from_hub(kind.to_hub(document)) == document
    assert read_by_current(document) == kind.to_hub(document)


# ---- nothing is lost

NAME: Final = st.sampled_from(("a", "web"))
RESOURCE: Final = st.fixed_dictionaries({"kind": NAME, "name": NAME}, optional={"apiGroup": NAME})
PORT: Final = st.integers(1, 9) | NAME
BETA_BACKEND: Final = st.one_of(
    st.fixed_dictionaries({"serviceName": NAME, "servicePort": PORT}),
    st.fixed_dictionaries({"resource": RESOURCE, "servicePort": st.just(0)}),
)
STABLE_PORT: Final = st.one_of(
    st.fixed_dictionaries({"number": st.integers(1, 9)}), st.fixed_dictionaries({"name": NAME})
)
STABLE_BACKEND: Final = st.one_of(
    st.fixed_dictionaries({"service": st.fixed_dictionaries({"name": NAME, "port": STABLE_PORT})}),
    st.fixed_dictionaries({"resource": RESOURCE}),
)


def specs(backend: st.SearchStrategy[Any], default: str) -> st.SearchStrategy[dict[str, Any]]:
    path = st.fixed_dictionaries({"backend": backend}, optional={"path": NAME, "pathType": NAME})
    http = st.fixed_dictionaries({"paths": st.lists(path, max_size=2)})
    rule = st.fixed_dictionaries({}, optional={"host": NAME, "http": http})
    tls = st.fixed_dictionaries({}, optional={"secretName": NAME, "hosts": st.lists(NAME, max_size=2)})
    return st.fixed_dictionaries(
        {},
        optional={
            default: backend,
            "rules": st.lists(rule, max_size=2),
            "tls": st.lists(tls, max_size=2),
            "ingressClassName": NAME,
        },
    )


@each_kind
@given(spec=specs(BETA_BACKEND, "backend"))
def test_nothing_of_v1beta1_is_lost(kind: OldKind, spec: dict[str, Any]) -> None:
    document = {**kind.valid, "spec": spec}
    assert kind.from_hub(kind.to_hub(document)) == document


@each_kind
@given(spec=specs(STABLE_BACKEND, "defaultBackend"))
def test_nothing_of_v1_is_lost(kind: OldKind, spec: dict[str, Any]) -> None:
    document = {**V1.valid, "spec": spec}
    assert kind.to_hub(kind.from_hub(document)) == document


def test_a_large_ingress_is_converted_in_no_time() -> None:
    """2 KB: 100 us of processor time at most, of the best of many."""
    path = {"path": "/some/where", "pathType": "Prefix", "backend": {"serviceName": "web", "servicePort": 80}}
    document = {**NETWORKING.valid, "spec": {"rules": [{**RULE, "http": {"paths": [path] * 20}}]}}
    best = float("inf")
    for _ in range(50):
        converted = copy.deepcopy(document)
        began = time.thread_time()
        NETWORKING.resource.codec.to_hub(converted)
        best = min(best, time.thread_time() - began)
    assert best < 100e-6
