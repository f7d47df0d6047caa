"""The table of flags by the sections of `--help`, and the parser that is built from it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from apiserver import __version__
from apiserver.cli.argument_parser import HelpFormatter, Parser
from apiserver.cli.config import Config
from apiserver.cli.flag import Flag
from apiserver.cli.flag_sections import (
    admission,
    api,
    auditing,
    authentication,
    authorization,
    console,
    leader_election,
    logs,
    metrics,
    proxy,
    services,
    serving,
    simulation,
    storage,
)
from apiserver.cli.help_page import help_page
from apiserver.cli.version import version_line
from apiserver.golang.durations import short_duration
from apiserver.meta.releases.emulation import EmulatedRelease

_DEFAULTS: Final = Config()


SECTIONS: Final[Mapping[str, Sequence[Flag]]] = MappingProxyType(
    {
        "Serving flags": serving.FLAGS,
        "Storage flags": storage.FLAGS,
        "Service flags": services.FLAGS,
        "Proxy flags": proxy.FLAGS,
        "Authentication flags": authentication.FLAGS,
        "Authorization flags": authorization.FLAGS,
        "Admission flags": admission.FLAGS,
        "Auditing flags": auditing.FLAGS,
        "API flags": api.FLAGS,
        "Console flags": console.FLAGS,
        "Leader election flags": leader_election.FLAGS,
        "Metrics flags": metrics.FLAGS,
        "Logs flags": logs.FLAGS,
        "Simulation flags": simulation.FLAGS,
    }
)


class _Extend(argparse.Action):
    """Collects the values of a flag that may be given more than once. An empty one discards those before."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        before = getattr(namespace, self.dest) or () if values else ()
        setattr(namespace, self.dest, (*before, *values))


class _Print(argparse.Action):
    """Prints a text, and exits."""

    def __init__(
        self, option_strings: Sequence[str], dest: str, text: Callable[[], str], **more: Any
    ) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, **more)
        self._text = text

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        sys.stdout.write(self._text())
        parser.exit()


@cache
def build_parser(width: int | None = None) -> Parser:
    """Returns the parser of the server's command line, which all share. Flags that are not given are None.

    width: of its help; by default that of the terminal.
    """
    parser = Parser(
        prog="apiserver",
        usage="apiserver [serve] [flags]",
        description=(
            f"Serves the Kubernetes API. Version {__version__} serves Kubernetes {EmulatedRelease()} by "
            "default. --emulated-version selects another release."
        ),
        argument_default=None,
        add_help=False,
        formatter_class=partial(HelpFormatter, width=width),
    )
    general = parser.add_argument_group("General flags")
    general.add_argument(
        "-h", "--help", action=_Print, text=help_page, help="Print the commands and the most important flags."
    )
    general.add_argument("--help-all", action="help", help="Print all flags.")
    general.add_argument(
        "--version", action=_Print, text=lambda: f"{version_line()}\n", help="Print the version."
    )
    general.add_argument(
        "--config",
        metavar="string",
        help="A YAML file that maps flags to their values. Command-line flags take precedence over this "
        "file.",
    )
    for title, flags in SECTIONS.items():
        section = parser.add_argument_group(title)
        for flag in flags:
            _add(section, flag)
    return parser


def _add(section: argparse._ArgumentGroup, flag: Flag) -> None:
    more: dict[str, Any] = {}
    if flag.repeats:
        more["action"] = _Extend
    if flag.choices is not None:
        more["choices"] = flag.choices
    if not flag.needs_value:
        more |= {"nargs": "?", "const": True}
    names = (flag.alias, flag.name) if flag.alias else (flag.name,)
    default = flag.default or default_of(flag)
    text = (f"{flag.help} (default {default})" if default else flag.help).replace("%", "%%")
    section.add_argument(
        *names, dest=flag.destination, metavar=flag.value, type=flag.parse, help=text, **more
    )


def default_of(flag: Flag) -> str:
    """The default of a flag, as it would be written on the command line; empty if there is none."""
    match _DEFAULTS.option(flag.destination):
        case bool() as value:
            return str(value).lower()
        case tuple() as value:
            return ",".join(map(str, value))
        case int() | float() as value:
            return short_duration(value) if flag.value == "duration" else f"{value:.0f}"
        case str() | Path() as value:
            return str(value)
        case _:
            return ""
