"""A state of the past has what objects were, and says of which it does not know that."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.meta.errors import Expired
from apiserver.meta.options import ListOptions
from tests.support.served import TABLE
from tests.unit.registry.history.test_recent_changes import reading

CONFIG_MAPS: Final = next(each for each in TABLE.resources if each.resource == "configmaps")
ALL: Final = ListOptions.for_list({}, CONFIG_MAPS.known_fields, "meta.k8s.io")


async def may_see() -> bool:
    return True


async def test_what_an_object_is_now_is_never_shown_as_what_it_was() -> None:
    """Whatever hides the change that made it what it is."""
    async with reading() as made:
        await made.write(["a/same"], "old", "ann")
        await made.write(["a/one"], "old", "ann")
        revision = await made.past.complete()
        await made.write(["a/one"], "new", "ann")
        await made.past.complete()
        made.log._segments[0]._connection.execute("DELETE FROM changes")
        found = await made.past.list(CONFIG_MAPS, "a", ALL, revision, may_see)
        assert [each.key.rpartition("/")[2] for each in found.listed.objects] == ["same"]
        assert list(found.lost) == ["a/one"]
        with pytest.raises(Expired, match="has lost what configmaps/one was"):
            await made.past.get(CONFIG_MAPS, "a", "one", revision, may_see)
