"""The kubectl commands of docs/operating and docs/developing work, in their order, on one server."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.kubectl import MISSING, program, usable_versions
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.kubectl

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (
    *("operating/access", "operating/fairness"),
    *("developing/api-upgrades", "developing/proxies", "developing/aggregation"),
)
ALL: Final = "\n\n".join((ROOT / "docs" / f"{page}.md").read_text() for page in PAGES)
WITHIN_S: Final = 60
# A command with its here-document, or a line. What follows two spaces and a # is said about it.
_COMMAND_LINE: Final = re.compile(
    r"^(?:    )?(kubectl [^\n]+<<EOF\n.*?\nEOF|kubectl [^\n]+)$", re.MULTILINE | re.DOTALL
)


def commands() -> Iterator[tuple[str, str]]:
    """The commands, each with the comment behind it."""
    for found in _COMMAND_LINE.findall(ALL):
        command, _, remark = found.partition("  # ") if "<<EOF" not in found else (found, "", "")
        if "--watch" not in command:  # does not end
            yield command.strip(), remark.strip()


def test_kubectl_commands_succeed(tmp_path: Path) -> None:
    binary = program((usable_versions() or [MISSING])[-1])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(binary)
    with ServerProcess(tmp_path / "server") as server:
        environment = {
            "HOME": str(tmp_path),
            "KUBECONFIG": str(server.kubeconfig),
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        }
        run = list(commands())
        assert len(run) > 5  # README and the tutorials are run by tests/test_documented_blocks.py.
        for command, remark in run:
            end = subprocess.run(
                ["sh", "-c", command],
                capture_output=True,
                text=True,
                timeout=WITHIN_S,
                env=environment,
                check=False,
            )
            assert end.returncode == 0, f"{command}: {end.stderr}"
            if "can-i list" in command:
                assert end.stdout.strip() == remark


def test_the_fixture_for_tests_works(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As it is written, but for the program, which is not on PATH in a source tree."""
    page = (ROOT / "docs" / "testing" / "other-languages.md").read_text()
    _, _, rest = page.partition("    import subprocess, pytest\n")
    lines = itertools.takewhile(lambda line: not line or line.startswith("    "), rest.splitlines())
    block = "\n".join(line.removeprefix("    ") for line in lines)
    source = block.replace('["apiserver",', f'[*{shlex.split(sys.executable)!r}, "-m", "apiserver",')
    assert source != block
    scope = {"subprocess": subprocess, "pytest": pytest}
    exec(source, scope)
    fixture = scope["kubeconfig"].__wrapped__
    made = fixture(tmp_path_factory)
    kubeconfig = next(made)
    assert kubeconfig.exists()
    assert next(made, None) is None
