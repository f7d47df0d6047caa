"""A release is the same, byte by byte, whoever builds it, wherever and whenever."""

from __future__ import annotations

import hashlib
import json
import os
import re
import runpy
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from apiserver import __version__
from tests.deploy.artefacts import DEPLOY, ROOT, dockerfile

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
    sbom = f"apiserver-{__version__}.cdx.json"
    assert first.keys() == {sdist, wheel, sbom, "SHA256SUMS"}
    assert first == second
    listed = first["SHA256SUMS"].decode().splitlines()
    assert listed == [f"{hashlib.sha256(first[name]).hexdigest()}  {name}" for name in (sdist, wheel, sbom)]
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


def test_the_sbom_lists_what_is_installed_into_the_image(tmp_path: Path) -> None:
    write_sbom = partial(runpy.run_path(str(DEPLOY / "release.py"))["write_sbom"], is_pinned=False)
    first = write_sbom(ROOT, tmp_path, __version__, "a" * 40, 1_700_000_000)
    found = json.loads(first.read_text())
    assert (first.name, found["bomFormat"]) == (f"apiserver-{__version__}.cdx.json", "CycloneDX")
    assert found["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert found["metadata"]["component"]["purl"] == f"pkg:pypi/apiserver@{__version__}"
    components = {each["name"]: each for each in found["components"]}
    lines = [line for line in (DEPLOY / "constraints.txt").read_text().splitlines() if line[:1] != "#"]
    pins = {pin.name: str(pin.specifier).removeprefix("==") for pin in map(Requirement, lines)}
    base, _, tag = dockerfile()[-1][0][1].partition(":")
    found_pins = {name: each["version"] for name, each in components.items()}
    assert found_pins.pop(base) == tag
    assert found_pins.items() <= pins.items()
    # The image has what the server needs, and what that needs, and nothing that only the build needs.
    direct = {Requirement(text).name.lower() for text in PYPROJECT["project"]["dependencies"]}
    assert {*direct, "multidict", "cffi"} <= found_pins.keys()
    assert {"setuptools", "kubernetes-validate"}.isdisjoint(found_pins)
    assert f'"python_full_version": "{tag.partition("-")[0]}"' in (DEPLOY / "release.py").read_text()
    references = [each["bom-ref"] for each in found["components"]]
    assert len(set(references)) == len(references)
    # Another commit is another document.
    other = write_sbom(ROOT, tmp_path, __version__, "b" * 40, 1_700_000_000)
    assert json.loads(other.read_text())["serialNumber"] != found["serialNumber"]


class Packages:
    """Packages that are installed in a directory of a test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def install(self, name: str, version: str, *requires: str) -> None:
        info = self._directory / f"{name}-{version}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        (info / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {each}" for each in requires)]))

    def find(self, name: str) -> metadata.Distribution:
        for found in metadata.distributions(name=name, path=[str(self._directory)]):
            return found
        raise metadata.PackageNotFoundError(name)


@pytest.fixture
def packages(tmp_path: Path) -> Packages:
    found = Packages(tmp_path)
    found.install("Zope.Event", "1.0", "left-pad>=1 ; sys_platform == 'linux'", "x ; sys_platform == 'win32'")
    found.install("left_pad", "2.0", "fast; extra == 'speed'", "y ; extra == 'other'")
    found.install("fast", "3.0")
    return found


def test_dependencies_with_extras_and_markers_by_canonical_names(packages: Packages, tmp_path: Path) -> None:
    module = runpy.run_path(str(DEPLOY / "release.py"))
    (tmp_path / "constraints.txt").write_text("Zope.Event==1.0\nLeft_Pad==2.0 ; x\nfast==3.0\n")
    pins = module["pins_of"](tmp_path / "constraints.txt")
    assert pins == {"zope-event": "1.0", "left-pad": "2.0", "fast": "3.0"}
    dependencies_of = partial(module["dependencies_of"], pins=pins, find=packages.find, is_pinned=True)
    assert dependencies_of(["zope.event"]) == {"zope-event", "left-pad"}
    assert dependencies_of(["zope.event", "Left.Pad[speed]"]) == {"zope-event", "left-pad", "fast"}


UNKNOWN: Final = {
    "no pin": ({"zope-event": "1.0"}, "does not pin left-pad"),
    "another version": ({"zope-event": "1.0", "left-pad": "2.1"}, "left-pad 2.1, but 2.0 is installed"),
    "not installed": ({"zope-event": "1.0", "left-pad": "2.0", "z": "1"}, "of z, which is not installed"),
}


@pytest.mark.parametrize(("pins", "reason"), UNKNOWN.values(), ids=UNKNOWN)
def test_an_sbom_that_would_be_wrong_is_refused(
    packages: Packages, pins: dict[str, str], reason: str
) -> None:
    module = runpy.run_path(str(DEPLOY / "release.py"))
    with pytest.raises(module["NotReleasable"], match=re.escape(reason)):
        module["dependencies_of"](["zope.event", *pins.keys() & {"z"}], pins, packages.find, is_pinned=True)


def test_a_version_without_a_section_in_the_changelog_is_refused(tmp_path: Path) -> None:
    module = runpy.run_path(str(DEPLOY / "release.py"))
    version_of, not_releasable = module["version_of"], module["NotReleasable"]
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "9.9.9"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [9.9.90] - 2027-01-01\n")
    with pytest.raises(not_releasable, match=re.escape("no section for version 9.9.9")):
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
