"""Flags that only tests have a use for: what is wrong with them is said as of any flag."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from apiserver.__main__ import main
from apiserver.app.serving import exit_codes
from apiserver.cli.command_line import parse
from apiserver.testkit.flags import simulated_stages

# What the file of stages has, if there is one; the flags; what is said, and FILE for its path.
BAD_FLAGS: Final = {
    "too many nodes": (None, ["--simulate-nodes=1001"], "--simulate-nodes: 1001 is not between 0 and 1000"),
    "no file": (
        None,
        ["--simulate-nodes=1", "--simulate-stages=FILE"],
        "--simulate-stages: cannot read FILE: [Errno 2] No such file or directory: 'FILE'",
    ),
    "no list": (
        "stages: {}",
        ["--simulate-nodes=1", "--simulate-stages=FILE"],
        "--simulate-stages: FILE:1:1: stages: must be a list",
    ),
}


@pytest.mark.parametrize(("content", "flags", "why"), BAD_FLAGS.values(), ids=BAD_FLAGS)
@pytest.mark.parametrize("in_file", [False, True], ids=["flags", "config"])
def test_what_is_wrong_is_said(
    content: str | None,
    flags: Sequence[str],
    why: str,
    in_file: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stages = tmp_path / "stages.yaml"
    if content is not None:
        stages.write_text(content)
    given = [flag.replace("FILE", str(stages)) for flag in flags]
    if in_file:
        config = tmp_path / "config.yaml"
        config.write_text("".join(f"{flag.lstrip('-').replace('=', ': ')}\n" for flag in given))
        given = [f"--config={config}"]
    assert main(given) == exit_codes.USAGE
    said = capsys.readouterr().err
    assert said == f"apiserver: argument {why.replace('FILE', str(stages))}\n"


def test_an_empty_name_is_no_file() -> None:
    """As of other flags: templates leave it."""
    assert simulated_stages(parse(["--simulate-nodes=1", "--simulate-stages="])) == ()
    assert parse(["--simulate-stages="]) == parse([])
