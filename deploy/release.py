"""Builds the files of a release: `make release`. Whoever builds a commit again gets the same bytes.

The files are the source distribution, the wheel, the image, and their checksums. The image is an OCI
archive, and needs Docker's buildx. Everything is made from the files of one commit and dated with its
time (SOURCE_DATE_EPOCH); deploy/constraints.txt pins what is installed to build it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CONSTRAINTS: Final = Path("deploy", "constraints.txt")
CHECKSUMS: Final = "SHA256SUMS"


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
        help="build with the installed packages, and not with pinned ones",
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
    """Copy the files of a commit, and nothing else that lies in the work tree."""
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
    """Returns the version in pyproject.toml. Raises NotReleasable if the changelog has no section of it."""
    version: str = tomllib.loads((source / "pyproject.toml").read_text())["project"]["version"]
    if not re.search(rf"^## \[{re.escape(version)}\]", (source / "CHANGELOG.md").read_text(), re.MULTILINE):
        raise NotReleasable(f"CHANGELOG.md has no section of the version {version}")
    return version


def build_packages(
    source: Path, output: Path, version: str, environment: Mapping[str, str], *, is_isolated: bool
) -> list[Path]:
    """Returns the source distribution, and the wheel, which is built from it."""
    options = [] if is_isolated else ["--no-isolation"]
    command = [sys.executable, "-m", "build", *options, "--outdir", str(output), str(source)]
    subprocess.run(command, env=environment, stdout=sys.stderr, check=True)
    sdist = output / f"apiserver-{version}.tar.gz"
    normalize(sdist, int(environment["SOURCE_DATE_EPOCH"]))
    return [sdist, output / f"apiserver-{version}-py3-none-any.whl"]


def normalize(sdist: Path, epoch: int) -> None:
    """Rewrite a source distribution, into which setuptools puts the time of the build and the user."""
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


def build_image(
    source: Path, output: Path, version: str, commit: str, environment: Mapping[str, str]
) -> Path:
    """Returns the image as an archive of the Open Container Initiative's form."""
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
