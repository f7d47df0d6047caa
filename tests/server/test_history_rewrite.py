"""`apiserver storage rewrite` of a server with a history: recorded values get the current encryption key."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.cli.rewriter import PAST_PATH
from tests.server.test_encryption import (
    ENCODED,
    PLAIN,
    SECRETS,
    Running,
    aesgcm,
    kms,
    on_disk,
    rewrite,
    running,
    secret,
)
from tests.support import forked_server
from tests.support.eventually import WITHIN_S
from tests.support.kms_plugin import KmsPlugin
from tests.support.rbac import grant, rule

FLAGS: Final = ("--history", "--controllers=-*")
IDENTITY: Final[dict[str, Any]] = {"identity": {}}
REWRITE: Final = "/history/rewrite"
_VALUES: Final = """
SELECT value FROM changes JOIN keys ON keys.id = changes.key
WHERE value IS NOT NULL AND keys.key LIKE '%/secrets/%'
"""


class Past:
    """Versions of Secrets on a server, and what each was."""

    def __init__(self, at: Running) -> None:
        self.at = at
        self.found: dict[str, Any] = {}

    def write(self, name: str, count: int) -> None:
        """Write more versions of a Secret, which is made again if it was deleted."""
        api = self.at.api
        if api.get(f"{SECRETS}/{name}").status == 404:
            api.post(SECRETS, secret(name)).ok()
        for number in range(count):
            labels = {"metadata": {"labels": {"number": f"label-{number}"}}}
            version = api.patch(f"{SECRETS}/{name}", labels).ok()["metadata"]["resourceVersion"]
            self.found[f"/at/{version}{SECRETS}/{name}"] = None
        for path in self.found:
            self.found[path] = self.found[path] or api.get(path).ok()
        api.delete(f"{SECRETS}/{name}").ok()

    def check(self) -> None:
        for path, expected in self.found.items():
            assert self.at.api.get(path).ok() == expected


def keys_of(directory: Path) -> set[str]:
    """Returns the names of the keys that recorded Secrets are encrypted with; empty of those that are not."""
    found = set()
    for file in directory.glob("*.history"):
        with closing(sqlite3.connect(file)) as history:
            values = history.execute(_VALUES).fetchall()
        found |= {bytes(value[:64]).rpartition(b":v1:")[2].partition(b":")[0] for (value,) in values}
    return {name.decode() if len(name) < 8 else "" for name in found}


def of_history(printed: str) -> str:
    (line,) = [each for each in printed.splitlines() if each.startswith("history: ")]
    return line


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, IDENTITY, flags=FLAGS) as found:
        yield found


def test_before_a_key_goes_recorded_values_get_the_new_one(recorded: Running) -> None:
    past = Past(recorded)
    past.write("plain", 5)
    recorded.reload(aesgcm("old"), IDENTITY)
    past.write("changed", 40)
    directory = recorded.server.data_dir / "history"
    assert keys_of(directory) == {"", "old"}
    recorded.reload(aesgcm("new", "old"), IDENTITY)
    past.write("new", 5)
    done = of_history(rewrite(recorded, "secrets"))
    # Each Secret was created, changed and deleted: the first of these has replaced no value.
    assert done == "history: 47 rewritten, 6 up to date"
    recorded.reload(aesgcm("new"))
    past.check()
    assert of_history(rewrite(recorded)).startswith("history: 0 rewritten, ")
    assert keys_of(directory) == {"new"}
    for _ in range(2):
        kept = on_disk(directory)
        for each in (b":v1:old:", PLAIN.encode(), ENCODED.encode()):
            assert each not in kept
        recorded.restart()
        past.check()


def test_values_of_other_resources_stay_as_they_are(recorded: Running) -> None:
    past = Past(recorded)
    past.write("one", 3)
    recorded.reload(aesgcm("new"), IDENTITY)
    assert of_history(rewrite(recorded, "configmaps")) == "history: 0 rewritten, 0 up to date"
    assert of_history(rewrite(recorded, "configmaps", "secrets")) == "history: 4 rewritten, 0 up to date"


def test_values_get_the_key_that_a_plugin_has_now(tmp_path: Path) -> None:
    with KmsPlugin(tmp_path / "kms.sock") as plugin, running(tmp_path, aesgcm("old"), flags=FLAGS) as found:
        past = Past(found)
        past.write("one", 5)
        found.reload(kms(plugin), aesgcm("old"))
        assert of_history(rewrite(found, "secrets")) == "history: 6 rewritten, 0 up to date"
        found.reload(kms(plugin))
        past.check()


def test_values_whose_key_is_gone_are_a_failure(recorded: Running) -> None:
    recorded.reload(aesgcm("old"))
    past = Past(recorded)
    past.write("one", 3)
    recorded.reload(aesgcm("new"))
    end = forked_server.run(
        ["storage", "rewrite", "secrets", f"--data-dir={recorded.server.data_dir}"], WITHIN_S
    )
    assert end.returncode == 1
    assert "history: 4 values cannot be decrypted: a key is missing" in end.stderr
    # What could not be decrypted is not changed: the key may come back.
    recorded.reload(aesgcm("new", "old"))
    past.check()
    assert of_history(rewrite(recorded, "secrets")) == "history: 4 rewritten, 0 up to date"


def test_a_server_without_a_history_has_nothing_to_rewrite(tmp_path: Path) -> None:
    with running(tmp_path, aesgcm("one")) as found:
        assert "history" not in rewrite(found, "secrets")
        # Also for users without the right, who get 403 where there is nothing.
        ann = grant(found.api, "", "ann", rule("list patch", "secrets"))
        assert found.api.get("/apis", headers=ann).status == 200
        assert found.api.get(PAST_PATH, headers=ann).status == 403


def test_users_who_may_look_up_what_is_served_see_that_there_is_a_history(recorded: Running) -> None:
    ann = grant(recorded.api, "", "ann", rule("list patch", "secrets"))
    assert recorded.api.get(PAST_PATH, headers=ann).status == 200
    assert recorded.api.send("POST", REWRITE, headers=ann).status == 403


REFUSED: Final = {
    "no position": ("?continue=x", 400),
    "an unknown parameter": ("?resource=secrets", 400),
    "no name of a resource": ("?resources=secrets,../x", 400),
    "no group": ("?resources=secrets.", 400),
}


@pytest.mark.parametrize(("query", "status"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(recorded: Running, query: str, status: int) -> None:
    assert recorded.api.send("POST", f"{REWRITE}{query}").status == status


def test_it_needs_a_right_of_its_own(recorded: Running) -> None:
    api = recorded.api
    ann = grant(api, "", "ann", {"nonResourceURLs": ["/history"], "verbs": ["*"]})
    assert api.send("POST", REWRITE, headers=ann).status == 403
    bob = grant(api, "", "bob", {"nonResourceURLs": [REWRITE], "verbs": ["post"]})
    assert api.send("POST", REWRITE, headers=bob).ok()["rewritten"] == 0
    assert api.get(REWRITE, headers=bob).status == 403
    assert api.get(REWRITE).status == 405
