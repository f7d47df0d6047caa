"""What each release serves when all is switched on: what the table of lives says. Rows H01, S03, T01-T31."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.releases.emulation import NEWEST_MINOR, OLDEST_MINOR
from apiserver.releases.lifecycles import known_lifecycles
from tests.unit.catalogue.removed_versions.old_kinds import table

# What Kubernetes had, and no emulated release has here.
NOT_SERVED: Final = {
    "lifecycle.k8s.io/v1alpha1 evictionrequests",
    "lifecycle.k8s.io/v1alpha1 evictions",
    "scheduling.k8s.io/v1alpha3 compositepodgroups",
}


@pytest.mark.parametrize("minor", range(OLDEST_MINOR, NEWEST_MINOR + 1))
def test_everything_that_a_release_had_can_be_switched_on(minor: int) -> None:
    had = {
        f"{life.group_version} {life.resource}"
        for life in known_lifecycles().values()
        if life.is_in(minor) and "/" not in life.resource
    }
    served = {f"{each.api_version} {each.resource}" for each in table(minor).resources}
    assert served == had - NOT_SERVED


def test_what_is_not_served_is_in_the_table() -> None:
    all_of_them = {f"{life.group_version} {life.resource}" for life in known_lifecycles().values()}
    assert all_of_them >= NOT_SERVED
