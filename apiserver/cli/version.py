"""`apiserver version`: the version of the product, and the Kubernetes release that it serves."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence

from apiserver import __version__
from apiserver.cli.argument_parser import add_output_option
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.meta.releases.emulation import EmulatedRelease

_ABOUT = "Prints apiserver's version and the Kubernetes release whose APIs it serves by default."


def version_line() -> str:
    return f"apiserver {__version__}, serves Kubernetes {EmulatedRelease()}"


def run(arguments: Sequence[str]) -> int:
    """Print the version. Returns the exit code. Raises UsageError; exits for --help."""
    given = parser().parse_args(arguments)
    print(version_line() if given.output == "text" else json.dumps(_document()))
    return 0


def _document() -> dict[str, str]:
    release = EmulatedRelease()
    return {
        "apiserver": __version__,
        "kubernetes": str(release),
        "gitVersion": release.git_version,
        "pythonVersion": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def parser() -> IntermixedParser:
    built = described_parser("version", _ABOUT)
    add_output_option(built, "text", "json")
    return built
