"""What extension servers say that they serve, in both forms."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.endpoints.aggregation.resource_lists import (
    RESOURCES_MAX,
    NotDiscovery,
    aggregated_resources,
    listed_resources,
)
from apiserver.meta.vocabulary import GroupVersion

VERSION: Final = GroupVersion("g.io", "v1")


def test_lists_of_one_version_become_those_of_aggregated_discovery() -> None:
    """Source: k8s.io/apiserver, pkg/endpoints/groupversion_test.go."""
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    listed = {
        "kind": "APIResourceList",
        "groupVersion": "g.io/v1",
        "resources": [
            {"name": "things/scale", "singularName": "", "namespaced": True, "verbs": ["get"], **scale},
            {
                "name": "things",
                "singularName": "thing",
                "namespaced": True,
                "kind": "Thing",
                "verbs": ["get", "list"],
                "shortNames": ["th"],
                "categories": ["all"],
            },
            {"name": "worlds", "kind": "World", "verbs": ["create"]},
            {"name": "nothing/status", "kind": "Nothing", "verbs": ["get"]},
        ],
    }
    things, worlds = listed_resources(listed, VERSION)
    assert things == {
        "resource": "things",
        "responseKind": {"group": "g.io", "version": "v1", "kind": "Thing"},
        "scope": "Namespaced",
        "singularResource": "thing",
        "verbs": ["get", "list"],
        "shortNames": ["th"],
        "categories": ["all"],
        "subresources": [{"subresource": "scale", "responseKind": scale, "verbs": ["get"]}],
    }
    assert (worlds["resource"], worlds["scope"], worlds["verbs"]) == ("worlds", "Cluster", ["create"])
    group = {"metadata": {"name": "g.io"}, "versions": [{"version": "v1", "resources": [things, worlds]}]}
    assert aggregated_resources({"kind": "APIGroupDiscoveryList", "items": [group]}) == {
        VERSION: (things, worlds)
    }


def test_more_than_there_can_be_is_cut_off() -> None:
    resources = [{"resource": f"r{number}"} for number in range(RESOURCES_MAX + 1)]
    group = {"metadata": {"name": "g.io"}, "versions": [{"version": "v1", "resources": resources}]}
    found = aggregated_resources({"kind": "APIGroupDiscoveryList", "items": [group]})
    assert len(found[VERSION]) == RESOURCES_MAX


@pytest.mark.parametrize("document", [None, [], "x", {}, {"kind": "APIGroupList"}], ids=str)
def test_what_is_no_discovery(document: Any) -> None:
    with pytest.raises(NotDiscovery):
        aggregated_resources(document)
    with pytest.raises(NotDiscovery):
        listed_resources(document, VERSION)
