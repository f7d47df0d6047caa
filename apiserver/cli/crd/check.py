"""`apiserver crd check`: what a server would say about definitions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from apiserver.catalogue.offline_definitions import ERROR, WARNING, DefinitionChecker, DefinitionFinding
from apiserver.cel.functions import UNBOUNDED
from apiserver.cli.argument_parser import UsageError, add_output_option, nonempty
from apiserver.cli.crd.definition_sources import DefinitionSource, definitions
from apiserver.cli.flag_values import release
from apiserver.cli.printing import print_json, print_lines
from apiserver.custom_resources.definitions.validation.cost_bounds import Bound, OverBudget
from apiserver.meta.releases.emulation import DEFAULT_RELEASE, EmulatedRelease, InvalidEmulation
from apiserver.schema.builtin import BuiltinSchemas

COMMAND: Final = "crd check"
PASSED, FAILED = 0, 1
_ABOUT: Final = """
Checks CustomResourceDefinitions as the server does when you create them with kubectl: unknown fields, names,
versions, structural schemas, defaults, and the types and estimated costs of validation rules. The command
prints the errors and warnings of the server. For a rule that exceeds its cost limit, the command also prints
the estimated cost, and the largest bounds (maxItems, maxLength or maxProperties) that the server would
accept. Definitions are checked in the given order: a name that an earlier definition uses is an error. For a
Python class, the command checks the definition with all versions of the type in the class's module.

The exit code is 1 if the server would refuse a definition or not serve it. With --strict, the exit code is
also 1 if there are warnings.
"""


class _Checked(NamedTuple):
    source: DefinitionSource
    findings: Sequence[DefinitionFinding]


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("check", description=_ABOUT, help="Check definitions, without a server.")
    parser.add_argument(
        "files",
        type=nonempty,
        nargs="+",
        metavar="FILE|MODULE:CLASS",
        help="A file with definitions, a directory, - for standard input, or a Python class.",
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="Include files in subdirectories.")
    parser.add_argument(
        "--release",
        type=release,
        default=DEFAULT_RELEASE.minor,
        metavar="1.NN",
        help=f"The Kubernetes release whose rules apply. (default {DEFAULT_RELEASE})",
    )
    parser.add_argument("--strict", action="store_true", help="Exit with code 1 if there are warnings.")
    add_output_option(parser, "text", "json")
    parser.set_defaults(command=_run)


def _run(given: argparse.Namespace) -> int:
    """Check the definitions and print the findings. Returns the exit code. Raises UsageError."""
    try:
        emulated = EmulatedRelease.of(given.release)
    except InvalidEmulation as error:
        raise UsageError(f"{COMMAND}: {error}") from None
    checker = DefinitionChecker(BuiltinSchemas(emulated.version), emulated)
    checked = [
        _Checked(source, _findings(checker, source))
        for source in definitions(COMMAND, given.files, checker, recursive=given.recursive)
    ]
    if given.output == "json":
        print_json({"definitions": [_document(each) for each in checked]})
    else:
        for each in checked:
            for line in _lines(each):
                print_lines(line)
    severities = {finding.severity for each in checked for finding in each.findings}
    failures = {ERROR, WARNING} if given.strict else {ERROR}
    return PASSED if severities.isdisjoint(failures) else FAILED


def _findings(checker: DefinitionChecker, source: DefinitionSource) -> Sequence[DefinitionFinding]:
    problems = [DefinitionFinding(ERROR, "", problem) for problem in source.problems]
    return problems if source.document is None else [*problems, *checker.check(source.document)]


# ---- text


def _lines(checked: _Checked) -> Iterator[str]:
    if not checked.findings:
        yield f"{checked.source.place}: no problems found"
    for finding in checked.findings:
        path = f"{finding.path}: " if finding.path else ""
        yield f"{checked.source.place}: {finding.severity}: {path}{finding.message}"
        if finding.over is not None:
            yield from (f"  {line}" for line in _about_cost(finding.over))


def _about_cost(over: OverBudget) -> Iterator[str]:
    if over.cost >= UNBOUNDED:
        yield f"The estimated cost is too large to calculate, and the limit is {over.limit:,}."
    else:
        # With as many digits as in the server's error.
        factor = f"{over.factor:f}" if over.factor < 1.5 else f"{over.factor:,.1f}"
        yield f"The estimated cost is {over.cost:,}, {factor} times the limit of {over.limit:,}."
    if over.remedies:
        first, *others = (" and ".join(map(_shown, remedy)) for remedy in over.remedies)
        yield f"To meet the limit, set {first}{''.join(f', or set {each}' for each in others)}."
    else:
        yield "No maxItems, maxLength or maxProperties reduces the cost enough. Simplify the rule."


def _shown(bound: Bound) -> str:
    return f"{bound.keyword}: {bound.value} on {bound.field}"


# ---- JSON


def _document(checked: _Checked) -> dict[str, Any]:
    return {
        "file": checked.source.file,
        "name": checked.source.name,
        "findings": [
            {
                "severity": finding.severity,
                "path": finding.path,
                "reason": finding.reason,
                "message": finding.message,
                **({} if finding.over is None else {"cost": _cost(finding.over)}),
            }
            for finding in checked.findings
        ],
    }


def _cost(over: OverBudget) -> dict[str, Any]:
    return {
        "estimated": over.cost,
        "limit": over.limit,
        "factor": over.factor,
        "remedies": [
            [{"path": bound.field, "keyword": bound.keyword, "value": bound.value} for bound in remedy]
            for remedy in over.remedies
        ],
    }
