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
        SERVE: Command(
            "Start the server. This is the default command.", "apiserver.cli.flags", "build_parser"
        ),
        KUBE_APISERVER: Command(
            "Start the server as a replacement for kube-apiserver.", "apiserver.cli.flags", "build_parser"
        ),
        "snapshot": Command("Back up and restore the store.", "apiserver.cli.snapshot"),
        "storage": Command("Rewrite stored objects, or copy one store to another.", "apiserver.cli.storage"),
        "migrate": Command(
            "Alias for 'storage rewrite'.",
            "apiserver.cli.storage",
            "migrate_parser",
        ),
        "convert": Command(
            "Convert manifests to other API versions, without a server.", "apiserver.cli.convert"
        ),
        "crd": Command(
            "Check, compare and generate definitions of custom resources.", "apiserver.cli.crd.command"
        ),
        "cel": Command("Evaluate CEL expressions, without a server.", "apiserver.cli.cel"),
        "extensions": Command("Check extensions of the server.", "apiserver.cli.extensions"),
        "types": Command("Generate Python classes from API types.", "apiserver.cli.types_generate"),
        "doctor": Command("Find problems with a server and its environment.", "apiserver.app.doctor.command"),
        "deprecations": Command("Show which clients call deprecated APIs.", "apiserver.cli.deprecations"),
        "console": Command("Open the console of a running server.", "apiserver.cli.console"),
        "top": Command("Show which clients send the most requests.", "apiserver.cli.top"),
        "history": Command("Show, compare and undo changes of objects.", "apiserver.cli.history.command"),
        "auth": Command("Explain why a request is allowed or denied.", "apiserver.cli.auth_explain"),
        "conformance": Command(
            "Measure how much of the Kubernetes API a server implements.", "apiserver.cli.conformance.command"
        ),
        "audit": Command("Summarize audit logs.", "apiserver.cli.audit"),
        "faults": Command(
            "Inject faults into a test server to test clients.", "apiserver.testkit.faults.command"
        ),
        "envtest-assets": Command(
            "Create a directory with the programs that envtest starts.",
            "apiserver.testkit.envtest.assets",
        ),
        "completion": Command("Print a completion script for bash, zsh or fish.", "apiserver.cli.completion"),
        "version": Command("Print the version.", "apiserver.cli.version"),
        HELP: Command("Print help for a command.", "apiserver.cli.help_page"),
    }
)
# Both start the server: they take its flags, and may be left out.
SERVERS: Final = (SERVE, KUBE_APISERVER)
