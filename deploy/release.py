"""Builds the files of a release: `make release`. Every build of a commit produces the same bytes.

The files are the source distribution, the wheel, the image, a list of the image's Python packages and its
base image (SBOM), and the checksums of these files. The image is an OCI archive, and its build needs Docker
Buildx. The script uses only the files of one commit, and sets all timestamps to the time of this commit
(SOURCE_DATE_EPOCH). deploy/constraints.txt pins the packages for the build.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
CONSTRAINTS: Final = Path("deploy", "constraints.txt")
CHECKSUMS: Final = "SHA256SUMS"
# The values of environment markers in the image. They do not depend on the machine that builds the release.
IMAGE: Final = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.13.11",
    "python_version": "3.13",
    "sys_platform": "linux",
}


class NotReleasable(Exception):
    """The commit is not ready for a release. The message is for the maintainer."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make release", description="Build the files of a release.")
    parser.add_argument("--commit", default="HEAD", help="the commit or tag to build (default HEAD)")
    parser.add_argument("--output", type=Path, default=Path("dist"), help="the directory for the files")
    parser.add_argument("--no-image", action="store_true", help="do not build the image")
    parser.add_argument(
        "--no-isolation",
        action="store_true",
        help="build with the installed packages instead of the pinned packages",
    )
    given = parser.parse_args(arguments)
    os.umask(0o022)  # The modes of the files are part of the archives.
    try:
        with tempfile.TemporaryDirectory() as directory:
            source = Path(directory, "source")
            export(given.commit, source)
            version = version_of(source)
            commit, epoch = commit_of(given.commit)
            environment = {
                **os.environ,
                "PIP_CONSTRAINT": str(source / CONSTRAINTS),
                "PYTHONHASHSEED": "0",
                "SOURCE_DATE_EPOCH": str(epoch),
            }
            given.output.mkdir(parents=True, exist_ok=True)
            output = given.output.resolve()
            files = build_packages(source, output, version, environment, is_isolated=not given.no_isolation)
            files.append(write_sbom(source, output, version, commit, epoch, is_pinned=not given.no_isolation))
            if not given.no_image:
                files.append(build_image(source, output, version, commit, environment))
    except (NotReleasable, OSError, subprocess.CalledProcessError) as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (output / CHECKSUMS).write_text("".join(lines))
    print("".join(lines), end="")
    return 0


def export(commit: str, target: Path) -> None:
    """Copy only the files of a commit, without other files of the work tree."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(target, filter="tar")


def commit_of(name: str) -> tuple[str, int]:
    """Returns the hash of a commit, and its time in seconds since 1970."""
    shown = subprocess.run(
        ["git", "log", "-1", "--format=%H %ct", name], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    commit, _, time = shown.stdout.strip().partition(" ")
    return commit, int(time)


def version_of(source: Path) -> str:
    """Returns the version in pyproject.toml. Raises NotReleasable if CHANGELOG.md has no section for it."""
    version: str = tomllib.loads((source / "pyproject.toml").read_text())["project"]["version"]
    if not re.search(rf"^## \[{re.escape(version)}\]", (source / "CHANGELOG.md").read_text(), re.MULTILINE):
        raise NotReleasable(f"CHANGELOG.md has no section for version {version}")
    return version


def build_packages(
    source: Path, output: Path, version: str, environment: Mapping[str, str], *, is_isolated: bool
) -> list[Path]:
    """Returns the source distribution, and the wheel that is built from it."""
    options = [] if is_isolated else ["--no-isolation"]
    command = [sys.executable, "-m", "build", *options, "--outdir", str(output), str(source)]
    subprocess.run(command, env=environment, stdout=sys.stderr, check=True)
    sdist = output / f"apiserver-{version}.tar.gz"
    normalize(sdist, int(environment["SOURCE_DATE_EPOCH"]))
    return [sdist, output / f"apiserver-{version}-py3-none-any.whl"]


def normalize(sdist: Path, epoch: int) -> None:
    """Rewrite a source distribution without the build time and the user that setuptools records."""
    with tarfile.open(sdist) as archive:
        contents = {member.name: (member, archive.extractfile(member)) for member in archive}
        with (
            io.BytesIO() as rewritten,
            gzip.GzipFile(filename="", fileobj=rewritten, mode="wb", mtime=epoch) as compressed,
        ):
            with tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as target:
                for name in sorted(contents):
                    member, content = contents[name]
                    member.mtime = epoch
                    member.uid = member.gid = 0
                    member.uname = member.gname = ""
                    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                    target.addfile(member, content)
            compressed.close()
            data = rewritten.getvalue()
    sdist.write_bytes(data)


def write_sbom(
    source: Path, output: Path, version: str, commit: str, epoch: int, *, is_pinned: bool = True
) -> Path:
    """Returns the SBOM in the format of CycloneDX 1.6: the Python packages in the image, and the base image.

    The versions come from deploy/constraints.txt. The SBOM omits packages that only the build needs. It lists
    the base image with the tag in the Dockerfile, but without its Debian packages. Raises NotReleasable.

    is_pinned: whether the installed packages must have the pinned versions. Their metadata determines the
    packages in the image.
    """
    project = tomllib.loads((source / "pyproject.toml").read_text())
    pins = pins_of(source / CONSTRAINTS)
    installed = dependencies_of(project["project"]["dependencies"], pins, is_pinned=is_pinned)
    own = f"pkg:pypi/apiserver@{version}"
    components: list[dict[str, object]] = []
    for name in sorted(installed):
        purl = f"pkg:pypi/{name}@{pins[name]}"
        components.append(
            {"type": "library", "bom-ref": purl, "name": name, "version": pins[name], "purl": purl}
        )
    base, tag = re.findall(r"^FROM (\S+?):(\S+)", (source / "Dockerfile").read_text(), re.MULTILINE)[-1]
    components.append(
        {
            "type": "container",
            "bom-ref": f"pkg:docker/{base}@{tag}",
            "name": base,
            "version": tag,
            "purl": f"pkg:docker/{base}@{tag}",
        }
    )
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # Each build of a commit has the same serial number.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{own}?vcs_commit={commit}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "apiserver",
                "version": version,
                "licenses": [{"license": {"id": project["project"]["license"]}}],
                "purl": own,
            },
        },
        "components": components,
    }
    file = output / f"apiserver-{version}.cdx.json"
    file.write_text(json.dumps(document, indent=2) + "\n")
    return file


def pins_of(constraints: Path) -> dict[str, str]:
    """Returns the version of each pinned package, by its canonical name."""
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", constraints.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


def dependencies_of(
    requirements: Sequence[str],
    pins: Mapping[str, str],
    find: Callable[[str], metadata.Distribution] = metadata.distribution,
    *,
    is_pinned: bool,
) -> set[str]:
    """Returns the canonical names of the packages that the image needs for some requirements.

    find: returns an installed package, whose metadata contains its requirements. Raises NotReleasable if a
    package is not pinned or not installed, or, with `is_pinned`, if another version is installed.
    """
    found: set[tuple[str, frozenset[str]]] = set()
    pending = [(text, frozenset[str]()) for text in requirements]
    while pending:
        text, of_extras = pending.pop()
        requirement = Requirement(text)
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in found or not _is_required(requirement, of_extras):
            continue
        found.add((name, extras))
        if name not in pins:
            raise NotReleasable(f"{CONSTRAINTS} does not pin {name}")
        try:
            package = find(name)
        except metadata.PackageNotFoundError:
            raise NotReleasable(f"the SBOM needs the metadata of {name}, which is not installed") from None
        if is_pinned and package.version != pins[name]:
            raise NotReleasable(
                f"the SBOM needs the metadata of {name} {pins[name]}, but {package.version} is installed"
            )
        pending += [(each, extras) for each in package.requires or ()]
    return {name for name, _ in found}


def _is_required(requirement: Requirement, of_extras: Iterable[str]) -> bool:
    """Returns whether the image needs a requirement of a package that is installed with extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({**IMAGE, "extra": each}) for each in ("", *of_extras))


def build_image(
    source: Path, output: Path, version: str, commit: str, environment: Mapping[str, str]
) -> Path:
    """Returns the image as an OCI archive."""
    archive = output / f"apiserver-{version}-image.tar"
    subprocess.run(
        [
            *("docker", "buildx", "build", "--no-cache", "--provenance=false", "--sbom=false"),
            *("--build-arg", f"REVISION={commit}", "--build-arg", f"VERSION={version}"),
            *("--build-arg", f"SOURCE_DATE_EPOCH={environment['SOURCE_DATE_EPOCH']}"),
            *("--output", f"type=oci,dest={archive},rewrite-timestamp=true", str(source)),
        ],
        stdout=sys.stderr,
        check=True,
    )
    return archive


if __name__ == "__main__":
    sys.exit(main())
