"""`apiserver crd generate`: the definitions of Python classes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from apiserver.cli.argument_parser import add_output_option, nonempty
from apiserver.cli.crd.class_sources import definitions_of
from apiserver.cli.printing import print_error, print_json, write_output
from apiserver.meta.vocabulary import Document
from apiserver.types import DefinitionError
from apiserver.wire import yaml

COMMAND: Final = "crd generate"
DONE, FAILED = 0, 1
_ABOUT: Final = """
Prints the CustomResourceDefinitions of Python classes that have the decorator crd of apiserver.types. The
command imports the modules, which can be in the current directory. The definition of a class has all versions
of its type in the same module. If an argument is a module, the command prints the definitions of all classes
in the module.

The exit code is 1 if a structural schema cannot express a class.
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "generate", description=_ABOUT, help="Print the definitions of Python classes."
    )
    parser.add_argument(
        "sources",
        type=nonempty,
        nargs="+",
        metavar="MODULE[:CLASS]",
        help="A module, such as shop, or a class in it, such as shop:Order.",
    )
    add_output_option(parser, "yaml", "json")
    parser.set_defaults(command=_run)


def _run(given: argparse.Namespace) -> int:
    """Print the definitions, each once. Returns the exit code. Raises UsageError."""
    try:
        found = {
            document["metadata"]["name"]: document
            for source in given.sources
            for document in definitions_of(COMMAND, source)
        }
    except DefinitionError as error:
        print_error(f"{COMMAND}: {error}")
        return FAILED
    _print([*found.values()], as_json=given.output == "json")
    return DONE


def _print(documents: Sequence[Document], *, as_json: bool) -> None:
    if not as_json:
        write_output(b"---\n".join(map(yaml.dump, documents)))
    elif len(documents) == 1:
        print_json(documents[0])
    else:
        print_json({"apiVersion": "v1", "kind": "List", "items": documents})
