"""`apiserver cel eval`: the value of a CEL expression of a policy or of a rule. No server is asked."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from apiserver.catalogue.offline_definitions import ERROR, DefinitionChecker
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.cel.library.authorizer import CheckAttributes, DecisionValue
from apiserver.cel.values import EvaluationError
from apiserver.cli.argument_parser import UsageError, add_output_option, nonempty
from apiserver.cli.crd.definition_sources import definitions
from apiserver.cli.flag_values import release
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser, run_subcommand
from apiserver.cli.manifest_files import manifests, require_stdin_once
from apiserver.cli.printing import print_json, print_lines
from apiserver.console.playground.answers import Answer, Effort
from apiserver.console.playground.policy_expression import described, evaluate_policy, variables_of
from apiserver.console.playground.question import Kind, Question, question_of
from apiserver.console.playground.rule_expression import evaluate_rule
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.meta.brand import Brand
from apiserver.meta.errors import BadRequest
from apiserver.meta.releases.emulation import DEFAULT_RELEASE, EmulatedRelease, InvalidEmulation
from apiserver.meta.releases.gates import gates_of
from apiserver.meta.vocabulary import Document
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.extensions import Extensions
from apiserver.wire import yaml
from apiserver.wire.yaml import InvalidYaml

COMMAND: Final = "cel eval"
IS_TRUE, IS_FALSE, HAS_NO_RESULT = 0, 1, 2
_ABOUT: Final = """
Evaluates a CEL expression as in an admission policy, or with --crd as in a validation rule of a
CustomResourceDefinition. The command prints the value of the expression, its type and its cost. For a rule,
the command also prints the estimated cost, which the server limits when you create the definition.

An expression of a policy can use object, oldObject, params, namespaceObject, request and variables. A rule
can use self and oldSelf. With --path, a rule is about a part of the object.

The exit code is 0 if the expression has a value, 1 if the value is false, and 2 if the expression does not
compile or fails.
"""
# The options that name files, with the fields of a question.
_FILES: Final = {
    "object": ("object", "The object."),
    "old-object": ("oldObject", "The object before an update or a deletion."),
    "params": ("params", "The parameters of the policy."),
    "namespace-object": ("namespaceObject", "The Namespace of the object."),
    "request": ("request", "Fields of the request."),
}
# The options that only rules have.
_OF_RULES: Final = ("path", "optional_old_self", "crd_version")
_NO_SERVER: Final = "permissions are not available without a server"


def run(arguments: Sequence[str]) -> int:
    """Run the subcommand that the arguments after `cel` name. Returns its exit code.

    Raises UsageError; exits for --help.
    """
    return run_subcommand(parser(), arguments)


def parser() -> IntermixedParser:
    parser = described_parser("cel", "Evaluates CEL expressions, without a server.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("eval", description=_ABOUT, help="Evaluate an expression.")
    command.add_argument("expression", type=nonempty, metavar="EXPRESSION", help="The expression.")
    for name, (_, about) in _FILES.items():
        command.add_argument(
            f"--{name}",
            metavar="FILE",
            help=f"{about} The file contains JSON or YAML. - stands for standard input.",
        )
    command.add_argument(
        "--variable",
        action="append",
        default=[],
        metavar="NAME=EXPRESSION",
        help="A variable of the policy. The flag can be repeated.",
    )
    command.add_argument(
        "--crd", metavar="FILE", help="The CustomResourceDefinition with the schema for the rule."
    )
    command.add_argument(
        "--crd-version", default="", metavar="VERSION", help="The version. (default the stored version)"
    )
    command.add_argument(
        "--path",
        metavar="PATH",
        help="The path to the value of the rule, for example spec.ports.0, or a list of steps as JSON.",
    )
    command.add_argument("--optional-old-self", action="store_true", help="The rule sets optionalOldSelf.")
    command.add_argument(
        "--release",
        type=release,
        default=DEFAULT_RELEASE.minor,
        metavar="1.NN",
        help=f"The Kubernetes release whose rules apply. (default {DEFAULT_RELEASE})",
    )
    add_output_option(command, "text", "json")
    command.set_defaults(command=_run)
    return parser


def _run(given: argparse.Namespace) -> int:
    """Evaluate the expression and print the answer. Returns the exit code. Raises UsageError."""
    files = [name for field in (*_FILES, "crd") if (name := getattr(given, field.replace("-", "_")))]
    require_stdin_once(COMMAND, files)
    try:
        emulated = EmulatedRelease.of(given.release)
        answer = _answer(given, question_of(_question(given)), emulated)
    except (InvalidEmulation, BadRequest) as error:
        raise UsageError(f"{COMMAND}: {error}") from None
    if given.output == "json":
        print_json(answer.body())
    else:
        for line in _lines(answer):
            print_lines(line)
    if answer.error is not None or answer.issues:
        return HAS_NO_RESULT
    return IS_FALSE if answer.result is False else IS_TRUE


# ---- the question


def _question(given: argparse.Namespace) -> Document:
    """Returns the question as a client would send it. Raises UsageError."""
    if not given.crd and (option := next((name for name in _OF_RULES if getattr(given, name)), "")):
        raise UsageError(f"{COMMAND}: --{option.replace('_', '-')} needs --crd")
    question: Document = {"expression": given.expression}
    for option, (field, _) in _FILES.items():
        if file := getattr(given, option.replace("-", "_")):
            question[field] = _document(file)
    if given.variable:
        question["variables"] = [_variable(text) for text in given.variable]
    if given.crd:
        question["kind"] = Kind.RULE.value
    if given.path:
        question["path"] = _path(given.path)
    if given.optional_old_self:
        question["optionalOldSelf"] = True
    return question


def _variable(text: str) -> Document:
    name, equals, expression = text.partition("=")
    if not equals:
        raise UsageError(f"{COMMAND}: --variable must be NAME=EXPRESSION, not {text!r}")
    return {"name": name, "expression": expression}


def _path(text: str) -> Any:
    if not text.startswith("["):
        return [int(step) if step.isdecimal() else step for step in text.removeprefix(".").split(".")]
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{COMMAND}: --path is not JSON: {error}") from None


def _document(file: str) -> Any:
    """Returns the only document in a file. Raises UsageError."""
    texts = [manifest.text for manifest in manifests(COMMAND, [file], [])]
    if len(texts) != 1:
        raise UsageError(f"{COMMAND}: {file} must contain one document, but contains {len(texts)}")
    try:
        return yaml.load(texts[0])[0]
    except InvalidYaml as error:
        raise UsageError(f"{COMMAND}: {file}: {error}") from None


# ---- the answer


class NoServer:
    """The authorizer of expressions that no server evaluates."""

    def decide(self, attributes: CheckAttributes) -> DecisionValue:
        """Refuse to decide. Raises EvaluationError."""
        raise EvaluationError(_NO_SERVER)


def _answer(given: argparse.Namespace, question: Question, emulated: EmulatedRelease) -> Answer:
    """Evaluates the expression. Raises UsageError, BadRequest."""
    version = CompatibilityVersion.of(emulated, gates_of(emulated.minor, ()))
    if question.kind is Kind.RULE:
        schema, extensions = _schema(given, emulated), Extensions(Brand().vendor)
        return evaluate_rule(question, schema, extensions, version, Effort(is_bounded=False))
    request = {**described(question, None, {}), **(question.request or {})}
    known = variables_of(question, request, NoServer())
    return evaluate_policy(question, known, None, version, Effort(is_bounded=False))


def _schema(given: argparse.Namespace, emulated: EmulatedRelease) -> JSONSchema:
    """Returns the schema of the definition's version. Raises UsageError."""
    checker = DefinitionChecker(BuiltinSchemas(emulated.version), emulated)
    found = list(definitions(COMMAND, [given.crd], checker))
    if len(found) != 1 or found[0].document is None:
        raise UsageError(f"{COMMAND}: {given.crd} must contain one CustomResourceDefinition")
    document = found[0].document
    if any(finding.severity == ERROR for finding in checker.check(document)):
        raise UsageError(f"{COMMAND}: {given.crd} is not valid; run apiserver crd check {given.crd}")
    versions = checker.read(document)[0]["spec"]["versions"]
    for version in versions:
        if version["name"] == given.crd_version or (version["storage"] and not given.crd_version):
            schema: JSONSchema = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
            return schema
    raise UsageError(f"{COMMAND}: {given.crd} has no version {given.crd_version}")


def _lines(answer: Answer) -> Iterator[str]:
    for issue in answer.issues:
        where = f"{issue.line}:{issue.column}: " if issue.line else ""
        variable = f"variable {issue.variable}: " if issue.variable else ""
        yield f"error: {variable}{where}{issue.message}"
    if answer.issues:
        return
    if answer.error is None:
        yield json.dumps(answer.result, ensure_ascii=False)
    else:
        yield f"error: {answer.error}"
    yield f"type: {answer.type}"
    if answer.cost is not None:
        yield f"cost: {answer.cost:,} of {answer.body()['costLimit']:,}"
    if answer.estimated is not None:
        costs = answer.estimated.document()
        most, per_object = (
            "unknown" if costs[name] is None else f"{costs[name]:,}" for name in ("max", "perObject")
        )
        yield f"estimated cost: {costs['min']:,} to {most}; for an object {per_object} of {costs['limit']:,}"
