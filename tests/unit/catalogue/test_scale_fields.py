"""The scale of objects that have their numbers where they like. Rows A17, I13.

Source of the paths: CustomResourceSubresourceScale of apiextensions.k8s.io.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.common.workloads import SCALE_SUBRESOURCE
from apiserver.catalogue.core.replication_controllers import _SCALE
from apiserver.endpoints.handlers.subresources.scale import ScaledType
from apiserver.endpoints.handlers.virtual_kinds import virtual_kinds
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Invalid
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.meta.vocabulary import GroupVersion
from apiserver.registry.served_resource import ScaleFields, ServedResource
from apiserver.registry.subresources import SCALE, text_at
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.structural import Schema, ValueKind

META: Final = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}}
CUSTOM: Final = ScaleFields(
    text_at("status", "sel"),
    replicas=("spec", "size", "wanted"),
    status_replicas=("status", "have"),
    default=None,
    checks_replicas=False,
)
assert SCALE_SUBRESOURCE.scale is not None
assert _SCALE.scale is not None
WORKLOAD: Final = SCALE_SUBRESOURCE.scale
CONTROLLER: Final = _SCALE.scale
EXPRESSION: Final = {"key": "b", "operator": "In", "values": ["z", "y"]}

# fields, spec, status -> replicas wanted, replicas there, selector
SHOWN: Final[dict[str, tuple[ScaleFields, dict[str, Any], dict[str, Any], tuple[int, int, str]]]] = {
    "a workload": (
        WORKLOAD,
        {"replicas": 3, "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [EXPRESSION]}},
        {"replicas": 2},
        (3, 2, "a=b,b in (y,z)"),
    ),
    "a workload that does not say": (WORKLOAD, {}, {}, (1, 0, "")),
    "a selector of labels alone": (
        CONTROLLER,
        {"replicas": 0, "selector": {"b": "c", "a": "b"}},
        {},
        (0, 0, "a=b,b=c"),
    ),
    "numbers where they like": (CUSTOM, {"size": {"wanted": 5}}, {"have": 4, "sel": "a=b"}, (5, 4, "a=b")),
    "none of it there yet": (CUSTOM, {"size": {"wanted": 5}}, {}, (5, 0, "")),
    "a selector that is no text": (CUSTOM, {"size": {"wanted": 1}}, {"sel": {"a": "b"}}, (1, 0, "")),
    "a number that is none": (CUSTOM, {"size": {"wanted": 1}}, {"have": "many"}, (1, 0, "")),
}


@pytest.fixture(scope="module")
def scale() -> ServedResource:
    return virtual_kinds(BuiltinSchemas(DEFAULT_RELEASE.version), Brand())[SCALE]


WIDGETS: Final = ServedResource(
    GroupVersion("example.com", "v1"), "widgets", "Widget", True, lambda: Schema(ValueKind.ANY_OBJECT, "")
)


@pytest.mark.parametrize(("fields", "spec", "status", "expected"), SHOWN.values(), ids=SHOWN)
def test_what_a_scale_shows(
    scale: ServedResource,
    fields: ScaleFields,
    spec: dict[str, Any],
    status: dict[str, Any],
    expected: tuple[int, int, str],
) -> None:
    shown = ScaledType(WIDGETS, fields, scale).scale_of({"metadata": META, "spec": spec, "status": status})
    assert shown == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: value for key, value in META.items() if key != "labels"},
        "spec": {"replicas": expected[0]},
        "status": {"replicas": expected[1], "selector": expected[2]},
    }


@pytest.mark.parametrize("wanted", [None, "5", True, 1 << 31, 1.5, {}], ids=repr)
def test_an_object_without_its_number_has_no_scale(scale: ServedResource, wanted: Any) -> None:
    """kube-apiserver answers 500 here."""
    document = {"metadata": META, "spec": {"size": {"wanted": wanted}}}
    with pytest.raises(Invalid) as refused:
        ScaledType(WIDGETS, CUSTOM, scale).scale_of(document)
    assert 'Widget.example.com "a" is invalid: .spec.size.wanted: Required value' in refused.value.message
