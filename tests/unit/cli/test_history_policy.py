"""The file of `--history-policy`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from apiserver.cli.history_policy import RULES_MAX, parse_history_policy, read_history_policy
from apiserver.meta.brand import Brand
from apiserver.registry.history.policy import ANY, HistoryAction, HistoryPolicy, HistoryRule
from apiserver.wire.configuration_fields import InvalidConfiguration

HEAD: Final = "apiVersion: apiserver.config.k8s.io/v1alpha1\nkind: HistoryPolicy\n"
DROP: Final = "rules:\n- {resources: [events, leases.coordination.k8s.io], action: drop}\n"
KEEP_ONE: Final = (
    "rules:\n- {resources: [deployments.apps], action: keep}\n- {resources: ['*'], action: drop}\n"
)


def parsed(text: str) -> tuple[HistoryRule, ...]:
    return parse_history_policy((HEAD + text).encode(), Brand())


def test_rules_are_read_in_order() -> None:
    assert parsed(KEEP_ONE) == (
        HistoryRule((("apps", "deployments"),), HistoryAction.KEEP),
        HistoryRule(((ANY, ANY),), HistoryAction.DROP),
    )


KEEP_ONE_OF_APPS: Final = "rules:\n- {resources: [deployments.apps], action: keep}\n"
DROPPED: Final = {
    "a resource of the core group": (DROP, "/r/core/events/default/a", "/r/core/events/"),
    "a resource of a group": (DROP, "/r/coordination.k8s.io/leases/a/b", "/r/coordination.k8s.io/leases/"),
    "another group": (DROP, "/r/events.k8s.io/events/default/a", ""),
    "a resource without a rule": (DROP, "/r/core/pods/default/a", ""),
    "the first rule wins": (KEEP_ONE, "/r/apps/deployments/default/a", ""),
    "everything else": (KEEP_ONE, "/r/core/pods/default/a", "/r/core/pods/"),
    "Events by default": (KEEP_ONE_OF_APPS, "/r/core/events/default/a", "/r/core/events/"),
    "Leases by default": (
        KEEP_ONE_OF_APPS,
        "/r/coordination.k8s.io/leases/a/b",
        "/r/coordination.k8s.io/leases/",
    ),
    "Events that a rule keeps": (
        "rules:\n- {resources: [events], action: keep}\n",
        "/r/core/events/default/a",
        "",
    ),
    "records that are no objects": (KEEP_ONE, "/r/-/addresses", ""),
}


@pytest.mark.parametrize(("text", "key", "dropped"), DROPPED.values(), ids=DROPPED)
def test_what_is_dropped(text: str, key: str, dropped: str) -> None:
    policy = HistoryPolicy(parsed(text), "/r")
    assert [policy.dropped_resource(key) for _ in range(2)] == [dropped] * 2


def test_what_is_thinned() -> None:
    policy = HistoryPolicy(parsed("rules:\n- {resources: [pods], action: thin}\n"), "/r")
    assert policy.thins_any
    keys = ("/r/core/pods/default/a", "/r/core/nodes/a", "/r/core/events/default/a", "/r/-/addresses")
    assert [policy.thins(key) for key in keys] == [True, False, False, False]
    assert policy.dropped_resource("/r/core/pods/default/a") == ""
    assert not HistoryPolicy(parsed(DROP), "/r").thins_any


INVALID: Final = {
    "an unknown field": (DROP + "other: 1\n", "other"),
    "an unknown field of a rule": ("rules:\n- {resources: [a], action: drop, age: 1h}\n", "age"),
    "a field twice": (DROP + DROP, "rules"),
    "a resource twice": ("rules:\n- {resources: [pods, pods], action: drop}\n", "once, unlike pods"),
    "everything twice": (KEEP_ONE + "- {resources: ['*'], action: keep}\n", "once, unlike [*]"),
    "no rules": ("rules: []\n", "rules"),
    "too many rules": ("rules:\n" + "- {resources: [a], action: keep}\n" * (RULES_MAX + 1), "1 to"),
    "no resources": ("rules:\n- {action: drop}\n", "resources"),
    "another action": ("rules:\n- {resources: [a], action: thaw}\n", "keep, drop, thin, not 'thaw'"),
    "a name that is none": ("rules:\n- {resources: [Pods], action: drop}\n", "not 'Pods'"),
    "a group that is none": ("rules:\n- {resources: ['a.b_c'], action: drop}\n", "not 'a.b_c'"),
    "text in place of a list": ("rules: keep\n", "rules"),
    "no YAML": ("{", "yaml|YAML|parsing"),
}


@pytest.mark.parametrize(("text", "why"), INVALID.values(), ids=INVALID)
def test_an_invalid_file_is_refused_and_the_field_named(text: str, why: str) -> None:
    with pytest.raises(InvalidConfiguration, match=why):
        parsed(text)


def test_another_kind_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="HistoryPolicy"):
        parse_history_policy(b"apiVersion: v1\nkind: Pod\n", Brand())


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"missing\.yaml: No such file"):
        read_history_policy(tmp_path / "missing.yaml", Brand())
