"""Which versions are served: --runtime-config of kube-apiserver. Rows H01, H02, H03, H04."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.runtime_config import RuntimeConfig
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import GroupVersion
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.storage.interface import Stored

SCHEMAS: Final = BuiltinSchemas((1, 34))

CASES: Final = {
    "nothing is said of what is on by default": ({}, "batch/v1", "jobs", True, True),
    "nor of what is not": ({}, "networking.k8s.io/v1beta1", "ipaddresses", False, False),
    "all of a kind": ({"api/beta": True}, "networking.k8s.io/v1beta1", "ipaddresses", False, True),
    "all but a kind": ({"api/all": True, "api/alpha": False}, "a.k8s.io/v1alpha1", "b", False, False),
    "one version": ({"batch/v1": False}, "batch/v1", "jobs", True, False),
    "one resource of it": ({"batch/v1": False, "batch/v1/jobs": True}, "batch/v1", "jobs", True, True),
    "the core group": ({"v1": False}, "v1", "pods", True, False),
    "everything": ({"api/all": False}, "apps/v1", "deployments", True, False),
    "versions that are stable": ({"api/ga": False}, "apps/v1", "deployments", True, False),
}


@pytest.mark.parametrize(("given", "version", "resource", "by_default", "served"), CASES.values(), ids=CASES)
def test_the_most_exact_key_decides(
    given: dict[str, bool], version: str, resource: str, by_default: bool, served: bool
) -> None:
    group, _, name = version.rpartition("/")
    found = RuntimeConfig(given).serves(GroupVersion(group, name), resource, by_default=by_default)
    assert found is served


def test_versions_that_are_switched_on_share_their_objects() -> None:
    """What is created through one version is the same object through the other."""
    table = Catalogue(Brand(), SCHEMAS).resources(RuntimeConfig({"api/beta": True}))
    beta = table.find("networking.k8s.io", "v1beta1", "ipaddresses")
    stable = table.find("networking.k8s.io", "v1", "ipaddresses")
    assert beta is not None
    assert stable is not None
    assert beta.codec.stored_head == stable.head
    value = stable.head + b'{"name":"10.0.0.1"}}'
    found = StoredObject.of(Stored("/k", value, 1, 7, 0))
    shown = beta.codec.cached_view(found)
    assert shown is not None
    assert shown.json == beta.head + b'{"resourceVersion":"7","name":"10.0.0.1"}}'
    assert stable.codec.cached_view(found) is found


def test_a_version_that_is_switched_off_is_not_served() -> None:
    table = Catalogue(Brand(), SCHEMAS).resources(RuntimeConfig({"batch/v1": False}))
    assert table.find("batch", "v1", "jobs") is None
    assert "batch" not in table.groups


# k8s.io/api, zz_generated.prerelease-lifecycle.go: deprecated three releases after they came, removed six.
BETAS: Final = {
    "networking.k8s.io/v1beta1 IPAddress": "",
    "networking.k8s.io/v1beta1 ServiceCIDR": "",
    "storage.k8s.io/v1beta1 VolumeAttributesClass": "; use storage.k8s.io/v1 VolumeAttributesClass",
}


def test_beta_versions_warn_as_their_release_data_says() -> None:
    """Row S05: of 1.34 all have come in 1.31. Stable versions of the same types say nothing."""
    table = Catalogue(Brand(), SCHEMAS).resources(RuntimeConfig({"api/beta": True}))
    betas = {
        f"{each.api_version} {each.kind}": each
        for each in table.resources
        if each.group_version.version.startswith("v1beta")
    }
    assert betas.keys() >= BETAS.keys()
    for name, instead in BETAS.items():
        beta = betas[name]
        assert beta.deprecation_warning == (f"{name} is deprecated in v1.34+, unavailable in v1.37+{instead}")
        stable = table.find(beta.group_version.group, "v1", beta.resource)
        assert stable is not None
        assert stable.deprecation_warning == ""
