"""What each release serves when all is switched on: what the table of lives says. Rows H01, S03, T01-T31."""

from __future__ import annotations

import pytest

from apiserver.releases.emulation import NEWEST_MINOR, OLDEST_MINOR
from apiserver.releases.lifecycles import known_lifecycles
from tests.unit.catalogue.removed_versions.old_kinds import table


@pytest.mark.parametrize("minor", range(OLDEST_MINOR, NEWEST_MINOR + 1))
def test_everything_that_a_release_had_can_be_switched_on(minor: int) -> None:
    had = {
        f"{life.group_version} {life.resource}"
        for life in known_lifecycles().values()
        if life.is_in(minor) and "/" not in life.resource
    }
    served = {f"{each.api_version} {each.resource}" for each in table(minor).resources}
    assert served == had
