"""What each release serves when all is switched on: what the table of lives says. Rows H01, S03, T01-T31."""

from __future__ import annotations

import pytest

from apiserver.meta.releases.emulation import NEWEST_MINOR, OLDEST_MINOR
from apiserver.meta.releases.lifecycles import known_lifecycles
from tests import corpus
from tests.unit.catalogue.removed_versions.old_kinds import table
from tests.unit.catalogue.served_kinds import UID


@pytest.mark.parametrize("minor", range(OLDEST_MINOR, NEWEST_MINOR + 1))
def test_everything_that_a_release_had_can_be_switched_on(minor: int) -> None:
    had = {
        f"{life.group_version} {life.resource}"
        for life in known_lifecycles().values()
        if life.is_in(minor) and "/" not in life.resource
    }
    served = {f"{each.api_version} {each.resource}" for each in table(minor).resources}
    assert served == had


@pytest.mark.parametrize("minor", range(OLDEST_MINOR, NEWEST_MINOR + 1))
def test_defaults_set_no_field_that_the_release_does_not_know(minor: int) -> None:
    served = {
        (resource.group_version, resource.kind): resource
        for resource in table(minor).resources
        if not resource.codec.converts_hub
    }
    unknown: list[tuple[str, str]] = []
    for manifest in corpus.manifests():
        resource = served.get((manifest.group_version, manifest.kind))
        if resource is None:
            continue
        document = manifest.document
        resource.check(document)
        document["metadata"]["uid"] = UID
        resource.strategy.prepare_create(document)
        unknown += [(manifest.id, field) for field in resource.check(document)]
    assert unknown == []
