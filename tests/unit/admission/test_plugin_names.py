"""Which admission plugins are on, and how they are named."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.admission.plugin_names import IMPLEMENTED
from apiserver.cli.command_line import parse
from apiserver.cli.flags import UsageError


def test_implemented_plugins_are_enabled_by_default() -> None:
    config = parse([])
    assert all(config.runs_admission_plugin(name) for name in IMPLEMENTED)


def test_some_are_switched_off() -> None:
    config = parse(
        ["--disable-admission-plugins=ServiceAccount, Priority", "--disable-admission-plugins=LimitRanger"]
    )
    off = {name for name in IMPLEMENTED if not config.runs_admission_plugin(name)}
    assert off == {"ServiceAccount", "Priority", "LimitRanger"}


def test_an_empty_list_takes_back_those_before() -> None:
    config = parse(["--disable-admission-plugins=Priority", "--disable-admission-plugins="])
    assert config.runs_admission_plugin("Priority")


def test_to_name_one_that_is_on_changes_nothing() -> None:
    config = parse(["--enable-admission-plugins=ServiceAccount,NamespaceLifecycle"])
    assert config.runs_admission_plugin("ServiceAccount")
    assert config.runs_admission_plugin("Priority")
    assert config.warnings == ()


WARNED: Final = {
    "one that is not here": (
        "--enable-admission-plugins=NodeRestriction",
        "NodeRestriction is not implemented",
    ),
    "one that stays": ("--disable-admission-plugins=NamespaceLifecycle", "NamespaceLifecycle"),
}


@pytest.mark.parametrize(("flag", "text"), WARNED.values(), ids=WARNED)
def test_what_is_warned_about(flag: str, text: str) -> None:
    """A start script can swap the binaries."""
    (warning,) = parse([flag]).warnings
    assert warning.startswith(f"admission plugin {text}")


REFUSED: Final = {
    "one that nobody knows": (["--enable-admission-plugins=Garbage"], "'Garbage' is not an admission plugin"),
    "in lower case": (["--disable-admission-plugins=priority"], "'priority' is not an admission plugin"),
    "both": (
        ["--enable-admission-plugins=Priority", "--disable-admission-plugins=Priority"],
        "both contain Priority",
    ),
}


@pytest.mark.parametrize(("flags", "text"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(flags: list[str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse(flags)
