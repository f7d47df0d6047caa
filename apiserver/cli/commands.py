"""The table of commands: what each is for, and which module has its parser and runs it.

Modules are named and not imported, so that `apiserver --help` is fast.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final, NamedTuple

SERVE: Final = "serve"
KUBE_APISERVER: Final = "kube-apiserver"
HELP: Final = "help"


class Command(NamedTuple):
    """A command.

    summary: one line, for help.
    module: is imported when the command runs.
    parser: the function of the module that builds its parser.
    """

    summary: str
    module: str
    parser: str = "parser"

    def build_parser(self) -> argparse.ArgumentParser:
        built: argparse.ArgumentParser = getattr(import_module(self.module), self.parser)()
        return built


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        SERVE: Command("Start the server; the default.", "apiserver.cli.flags", "build_parser"),
        KUBE_APISERVER: Command(
            "Start the server with kube-apiserver's defaults.", "apiserver.cli.flags", "build_parser"
        ),
        "snapshot": Command("Back up and restore the store.", "apiserver.cli.snapshot"),
        "storage": Command("Rewrite stored objects in their current form.", "apiserver.cli.storage"),
        "migrate": Command(
            "Rewrite stored objects after an upgrade; short for storage rewrite.",
            "apiserver.cli.storage",
            "migrate_parser",
        ),
        "convert": Command(
            "Convert manifests to other API versions, without a server.", "apiserver.cli.convert"
        ),
        "deprecations": Command("Show who calls deprecated APIs.", "apiserver.cli.deprecations"),
        "auth": Command("Explain why a user may or may not do something.", "apiserver.cli.auth_explain"),
        "conformance": Command(
            "Measure how much of Kubernetes' API a server has.", "apiserver.cli.conformance.command"
        ),
        "audit": Command("Summarize audit logs.", "apiserver.cli.audit"),
        "faults": Command(
            "Inject faults into a test server, to test its clients.", "apiserver.testkit.faults.command"
        ),
        "envtest-assets": Command(
            "Create the programs that envtest starts.", "apiserver.testkit.envtest.assets"
        ),
        "completion": Command("Print a completion script for bash, zsh or fish.", "apiserver.cli.completion"),
        "version": Command("Print the version.", "apiserver.cli.version"),
        HELP: Command("Print help about a command.", "apiserver.cli.help_page"),
    }
)
# Both start the server: they take its flags, and may be left out.
SERVERS: Final = (SERVE, KUBE_APISERVER)
