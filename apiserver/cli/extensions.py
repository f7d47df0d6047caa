"""`apiserver extensions check`: what a server would say about an extension, without a server."""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Any, Final

from apiserver.admission.extensions.functions import AdmissionFunction
from apiserver.admission.match_conditions import CompiledCondition, worst_cost
from apiserver.catalogue.builtins import Catalogue
from apiserver.catalogue.offline_definitions import ERROR, WARNING, DefinitionChecker, NotADefinition
from apiserver.cel.costs import PER_CALL_LIMIT
from apiserver.cli.argument_parser import UsageError, add_output_option, nonempty
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser, run_subcommand
from apiserver.cli.printing import print_json, print_lines
from apiserver.extensions.errors import InvalidExtension
from apiserver.extensions.extension import Extension
from apiserver.extensions.hooks import Kind
from apiserver.extensions.host.function_metrics import require_free_names
from apiserver.extensions.host.hooks import ExtensionHook, ExtensionHooks
from apiserver.extensions.host.local_runner import LocalRunner
from apiserver.extensions.loading import load
from apiserver.extensions.outcomes import describe_error
from apiserver.extensions.resource_names import ResourceName
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Invalid
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.meta.vocabulary import Document
from apiserver.metrics.extensions import ExtensionMetrics
from apiserver.schema.builtin import BuiltinSchemas

COMMAND: Final = "extensions check"
PASSED, FAILED = 0, 1
_ABOUT: Final = "Checks extensions, without a server."
_ABOUT_CHECK: Final = """
Imports an extension and checks it as the server does when it starts: the functions and their parameters, the
conditions in `where` and their estimated costs, the definitions of custom and virtual resources, and whether
conversion functions connect all versions. The command prints the functions, and a warning for each resource
that is neither built in nor defined by the extension.

The exit code is 1 if the server would refuse the extension. With --strict, the exit code is also 1 if there
are warnings.
"""
_ADMISSION: Final = (Kind.MUTATE, Kind.VALIDATE)
# A severity and a message.
_Finding = tuple[str, str]


def run(arguments: Sequence[str]) -> int:
    """Run the subcommand that the arguments after `extensions` name. Returns its exit code.

    Raises UsageError; exits for --help.
    """
    return run_subcommand(parser(), arguments)


def parser() -> IntermixedParser:
    parser = described_parser("extensions", _ABOUT)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser("check", description=_ABOUT_CHECK, help="Check an extension.")
    check.add_argument(
        "extension",
        type=nonempty,
        metavar="MODULE[:OBJECT]",
        help="The extension, as for the --extension flag of the server.",
    )
    check.add_argument("--strict", action="store_true", help="Exit with code 1 if there are warnings.")
    add_output_option(check, "text", "json")
    check.set_defaults(command=_check)
    return parser


def _check(given: argparse.Namespace) -> int:
    """Check an extension, and print its functions and the findings. Returns the exit code.

    Raises UsageError.
    """
    extension = _loaded(given.extension)
    hooks: Sequence[ExtensionHook] = ()
    try:
        runner = LocalRunner(extension, lambda _: {})
    except InvalidExtension as error:
        findings = [(ERROR, str(error))]
    else:
        extensions = ExtensionHooks(ExtensionMetrics())
        extensions.runners.append(runner)
        hooks = tuple(each for kind in Kind for each in extensions.of_kind(kind))
        findings, sound = _about_definitions(extensions)
        findings += _about_metrics(extensions)
        findings += _about_functions(hooks, _Resources(sound))
    if given.output == "json":
        print_json(_document(extension.name, hooks, findings))
    else:
        for line in _lines(extension.name, hooks, findings):
            print_lines(line)
    failures = {ERROR, WARNING} if given.strict else {ERROR}
    return PASSED if failures.isdisjoint(severity for severity, _ in findings) else FAILED


def _loaded(spec: str) -> Extension:
    """Import an extension, which can be in the current directory. Raises UsageError."""
    if not {"", os.getcwd()} & {*sys.path}:
        sys.path.insert(0, os.getcwd())  # As `python -m` does.
    try:
        with redirect_stdout(sys.stderr):  # What the module prints is no part of the output.
            return load(spec)
    except InvalidExtension as error:
        raise UsageError(f"{COMMAND}: {error}") from error
    except (Exception, SystemExit) as error:
        described = describe_error(error)
        place = f" ({described['place']})" if "place" in described else ""
        problem = " ".join(described["message"].split())
        raise UsageError(f"{COMMAND}: cannot import {spec}: {problem}{place}") from error


# ---- checks


def _about_definitions(extensions: ExtensionHooks) -> tuple[list[_Finding], Sequence[Document]]:
    """Returns what is wrong with definitions, and those that the server accepts."""
    findings: list[_Finding] = []
    sound = []
    checker = DefinitionChecker(BuiltinSchemas(DEFAULT_RELEASE.version), DEFAULT_RELEASE)
    for _, document in (*extensions.definitions, *extensions.resources):
        name = document["metadata"]["name"]
        try:
            found = checker.check(dict(document))
        except (NotADefinition, Invalid) as error:
            findings.append((ERROR, f"{name}: {error}"))
            continue
        for each in found:
            path = f"{each.path}: " if each.path else ""
            findings.append((each.severity, f"{name}: {path}{each.message}"))
        if all(each.severity != ERROR for each in found):
            sound.append(dict(document))
    return findings, sound


def _about_metrics(extensions: ExtensionHooks) -> Iterator[_Finding]:
    try:
        require_free_names(each.info for each in extensions.runners)
    except InvalidExtension as error:
        yield ERROR, str(error)


def _about_functions(hooks: Sequence[ExtensionHook], known: _Resources) -> Iterator[_Finding]:
    for each in hooks:
        if each.info.kind in _ADMISSION:
            try:
                AdmissionFunction(each)
            except InvalidExtension as error:
                yield ERROR, str(error)
        for name in _resources(each):
            found = ResourceName.of(name)
            if "*" not in name and found.find(known.groups, known.find) is None:
                yield WARNING, f"{each}: the resource {name} is neither built in nor defined by the extension"


def _resources(hook: ExtensionHook) -> Sequence[str]:
    options = hook.info.options
    named = [*options.get("resources", ()), *options.get("owns", ())]
    return [*named, options["resource"]] if "resource" in options else named


class _Resources:
    """The built-in resources and those that an extension defines, by group and version."""

    def __init__(self, definitions: Sequence[Document]) -> None:
        schemas = BuiltinSchemas(DEFAULT_RELEASE.version)
        table = Catalogue(Brand(), schemas, release=DEFAULT_RELEASE).resources()
        self._served = {(*each.group_version, each.resource) for each in table.resources}
        for document in definitions:
            spec = document["spec"]
            for version in spec["versions"]:
                self._served.add((spec["group"], version["name"], spec["names"]["plural"]))

    @property
    def groups(self) -> Sequence[tuple[str, Sequence[str]]]:
        """The groups, the core group first, each with its versions."""
        versions: defaultdict[str, list[str]] = defaultdict(list)
        for group, version, _ in sorted(self._served):
            versions[group].append(version)
        return list(versions.items())

    def find(self, group: str, version: str, resource: str) -> bool | None:
        return (group, version, resource) in self._served or None


# ---- output


def _lines(name: str, hooks: Sequence[ExtensionHook], findings: Sequence[_Finding]) -> Iterator[str]:
    for each in hooks:
        concerned = ", ".join(_resources(each)) or each.info.options.get("metric", "")
        yield f"{each.info.kind} {each.info}{': ' if concerned else ''}{concerned}{_cost(each)}"
    for severity, message in findings:
        yield f"{severity}: {message}"
    if not findings:
        yield f"extension {name}: no problems found"


def _cost(hook: ExtensionHook) -> str:
    """Returns the estimated cost of a function's condition for people; empty if it has none."""
    match _worst_cost(hook):
        case int(cost):
            return f" (where costs at most {cost} of {PER_CALL_LIMIT})"
        case None:
            return " (the cost of where depends on the objects)"
        case _:
            return ""


def _worst_cost(hook: ExtensionHook) -> int | str | None:
    """Returns the estimated cost of a function's condition; None if it depends on the objects, and an empty
    text if there is no condition, or if it does not compile.
    """
    where = hook.info.options.get("where", "")
    return worst_cost(where) if where and not CompiledCondition.of(where).error else ""


def _document(name: str, hooks: Sequence[ExtensionHook], findings: Sequence[_Finding]) -> dict[str, Any]:
    return {
        "name": name,
        "functions": [
            {
                "kind": str(each.info.kind),
                "name": each.info.name,
                "place": each.info.place,
                "resources": list(_resources(each)),
                **({} if (cost := _worst_cost(each)) == "" else {"whereCostMax": cost}),
            }
            for each in hooks
        ],
        "findings": [{"severity": severity, "message": message} for severity, message in findings],
    }
