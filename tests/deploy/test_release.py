"""A release is the same, byte by byte, whoever builds it, wherever and whenever."""

from __future__ import annotations

import hashlib
import os
import re
import runpy
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from apiserver import __version__
from tests.deploy.artefacts import DEPLOY, ROOT

BUILD_WITHIN_S: Final = 300
PYPROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Ours with a time zone, a umask, an order of sets and a home of their own.
OTHER_BUILDER: Final = {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7", "LC_ALL": "C", "HOME": "/nonexistent"}


def release(output: Path, variables: dict[str, str], umask: int) -> dict[str, bytes]:
    """Builds with what is installed here. Returns the files by their names."""
    command = [sys.executable, str(DEPLOY / "release.py"), "--no-image", "--no-isolation"]
    end = subprocess.run(
        [*command, "--output", str(output)],
        env={**os.environ, **variables},
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_WITHIN_S,
    )
    assert end.returncode == 0, end.stderr
    return {file.name: file.read_bytes() for file in output.iterdir()}


@pytest.mark.slow
def test_two_builds_of_a_commit_are_equal(tmp_path: Path) -> None:
    first = release(tmp_path / "first", {}, 0o022)
    second = release(tmp_path / "elsewhere" / "second", OTHER_BUILDER, 0o077)
    sdist, wheel = f"apiserver-{__version__}.tar.gz", f"apiserver-{__version__}-py3-none-any.whl"
    assert first.keys() == {sdist, wheel, "SHA256SUMS"}
    assert first == second
    listed = first["SHA256SUMS"].decode().splitlines()
    assert listed == [f"{hashlib.sha256(first[name]).hexdigest()}  {name}" for name in (sdist, wheel)]
    committed = int(
        subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    )
    with tarfile.open(tmp_path / "first" / sdist) as archive:
        assert {member.mtime for member in archive} == {committed}
    with zipfile.ZipFile(tmp_path / "first" / wheel) as archive:
        # Zip archives have times of two seconds.
        assert {member.date_time[:5] for member in archive.infolist()} >= {time.gmtime(committed)[:5]}


def test_a_version_without_a_section_in_the_changelog_is_refused(tmp_path: Path) -> None:
    module = runpy.run_path(str(DEPLOY / "release.py"))
    version_of, not_releasable = module["version_of"], module["NotReleasable"]
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "9.9.9"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [9.9.90] - 2027-01-01\n")
    with pytest.raises(not_releasable, match=re.escape("no section of the version 9.9.9")):
        version_of(tmp_path)
    assert version_of(ROOT) == __version__


def test_all_that_is_installed_is_pinned() -> None:
    lines = [line for line in (DEPLOY / "constraints.txt").read_text().splitlines() if line[:1] != "#"]
    pinned = {pin.name.lower(): pin for pin in map(Requirement, lines)}
    assert all(str(pin.specifier).startswith("==") for pin in pinned.values())
    for text in (*PYPROJECT["project"]["dependencies"], *PYPROJECT["build-system"]["requires"]):
        wanted = Requirement(text)
        (pin,) = pinned[wanted.name.lower()].specifier
        assert wanted.specifier.contains(pin.version), text


def test_a_build_of_the_image_leaves_out_the_time() -> None:
    text = (ROOT / "Dockerfile").read_text()
    stages = text.split("\nFROM ")[1:]
    assert len(stages) == 2
    for stage in stages:
        assert "\nARG SOURCE_DATE_EPOCH\n" in stage
    compiled = re.findall(r"compileall ([^\n\\&]*)", text)
    assert len(compiled) == 2
    assert all("--invalidation-mode unchecked-hash" in options for options in compiled)
    installed = re.findall(r"python install ([^\n\\&]*)", text)
    assert installed
    assert all("--no-compile" in options for options in installed)
