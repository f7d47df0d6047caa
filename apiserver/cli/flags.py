"""The table of flags by the sections of `--help`, and the parser that is built from it."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from apiserver import __version__
from apiserver.cli.config import Config
from apiserver.cli.flag import Flag
from apiserver.cli.flag_sections import (
    admission,
    api,
    auditing,
    authentication,
    authorization,
    leader_election,
    logs,
    metrics,
    proxy,
    services,
    serving,
    simulation,
    storage,
)
from apiserver.releases.emulation import EmulatedRelease

_DEFAULTS: Final = Config()


class UsageError(ValueError):
    """The command line or the configuration file is not valid; the message is one line."""


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError where argparse would print the usage and exit."""

    def error(self, message: str) -> Any:
        command = self.prog.removeprefix("apiserver").strip()
        raise UsageError(f"{command}: {message}" if command else message)

    def print_help(self, file: Any = None) -> None:
        """Print the help. Raises OSError if it cannot be written, of which argparse takes no notice."""
        output = sys.stdout if file is None else file
        if output is not None:
            output.write(self.format_help())


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
        "Leader election flags": leader_election.FLAGS,
        "Metrics flags": metrics.FLAGS,
        "Logs flags": logs.FLAGS,
        "Simulation flags": simulation.FLAGS,
    }
)


class _HelpFormatter(argparse.HelpFormatter):
    """Breaks no flag or name at its hyphens."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=40, width=110)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)


class _Extend(argparse.Action):
    """Collects the values of a flag that may be given more than once. An empty one discards those before."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        before = getattr(namespace, self.dest) or () if values else ()
        setattr(namespace, self.dest, (*before, *values))


@cache
def build_parser() -> Parser:
    """Returns the parser of the server's command line, which all share. Flags that are not given are None."""
    parser = Parser(
        prog="apiserver",
        usage=(
            "apiserver [flags]\n       apiserver kube-apiserver [flags]\n"
            "       apiserver snapshot save|restore|status\n"
            "       apiserver storage rewrite\n       apiserver migrate\n"
            "       apiserver auth explain\n       apiserver audit summary\n"
            "       apiserver deprecations\n"
            "       apiserver faults add|list|clear|compact\n"
            "       apiserver convert\n"
            "       apiserver envtest-assets\n"
            "       apiserver version"
        ),
        description=(
            f"A Kubernetes-compatible resource API server. Version {__version__}, serves the API of "
            f"Kubernetes {EmulatedRelease()} unless told otherwise."
        ),
        allow_abbrev=False,
        argument_default=None,
        formatter_class=_HelpFormatter,
    )
    for title, flags in SECTIONS.items():
        section = parser.add_argument_group(title)
        for flag in flags:
            _add(section, flag)
    parser.add_argument(
        "--config",
        metavar="string",
        help="A YAML file that maps flags to their values. Flags on the command line take precedence.",
    )
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
    text = f"{flag.help} (default {default})" if default else flag.help
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
            return f"{value:g}s" if flag.value == "duration" else f"{value:.0f}"
        case str() | Path() as value:
            return str(value)
        case _:
            return ""
