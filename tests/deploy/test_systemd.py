"""The systemd unit: what it confines, and what systemd itself says of it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.artefacts import UNIT, unit

# systemd.exec(5) and systemd.service(5): where a directive is needed, and why.
DIRECTIVES: Final = {
    "runs as nobody in particular": ("DynamicUser", "yes"),
    "keeps its state where systemd can find it": ("StateDirectory", "apiserver"),
    "lets nobody else read keys": ("StateDirectoryMode", "0700"),
    "can write an audit log below /var/log": ("LogsDirectory", "apiserver"),
    "lets nobody else read who did what": ("LogsDirectoryMode", "0700"),
    "writes nowhere else": ("ProtectSystem", "strict"),
    "does not see homes": ("ProtectHome", "yes"),
    "has a /tmp of its own": ("PrivateTmp", "yes"),
    "sees no devices": ("PrivateDevices", "yes"),
    "gains no privileges": ("NoNewPrivileges", "yes"),
    "has no capabilities": ("CapabilityBoundingSet", ""),
    "is started once the server is ready": ("Type", "notify"),
    "is started again when its event loop is stuck": ("WatchdogSec", "30s"),
    "waits for etcd as long as the server does": ("TimeoutStartSec", "infinity"),
    "makes no executable memory": ("MemoryDenyWriteExecute", "yes"),
    "is asked to finish": ("KillSignal", "SIGTERM"),
    "comes back after a crash": ("Restart", "on-failure"),
    "does not come back after a mistake in its flags": ("RestartPreventExitStatus", "2"),
}
EXPOSURE_MAX: Final = 1.5


@pytest.mark.parametrize(("directive", "value"), DIRECTIVES.values(), ids=DIRECTIVES)
def test_the_service(directive: str, value: str) -> None:
    assert unit()["Service"][directive] == [value]


def test_it_may_open_as_many_files_as_clients_connect() -> None:
    assert int(unit()["Service"]["LimitNOFILE"][0]) >= 65536


def systemd_analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is missing: it comes with systemd")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """Its program is not installed here: something that is stands in for it."""
    stand_in = tmp_path / UNIT.name
    stand_in.write_text(UNIT.read_text().replace("/opt/apiserver/bin/apiserver", "/bin/true"))
    verified = systemd_analyze("verify", "--man=no", str(stand_in))
    if "Failed to initialize manager" in verified.stderr:
        pytest.skip(
            f"systemd cannot work here, as in most containers: run it on a host ({verified.stderr.strip()})"
        )
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


def test_systemd_finds_it_well_confined() -> None:
    rated = systemd_analyze("security", "--offline=true", "--no-pager", str(UNIT))
    level = re.search(r"exposure level for \S+: ([\d.]+)", rated.stdout)
    if level is None:
        pytest.skip(f"systemd 250 or later is missing, which rates a file: {rated.stderr.strip()}")
    assert float(level[1]) <= EXPOSURE_MAX, rated.stdout
