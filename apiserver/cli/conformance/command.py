"""`apiserver conformance`: how much of Kubernetes' API an endpoint has, by recorded conversations."""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from apiserver.cli.api_client import RequestFailed, read_access, tls_context
from apiserver.cli.argument_parser import UsageError, add_output_option, hint_for
from apiserver.cli.conformance import reports
from apiserver.cli.conformance.conversations import (
    RECORDED_FROM,
    Conversation,
    MissingConversations,
    Recordings,
    area_of,
)
from apiserver.cli.conformance.endpoint import Access, Limits, make_client
from apiserver.cli.conformance.preflight import UnusableEndpoint, check_endpoint
from apiserver.cli.conformance.results import Outcome, Result, Summary
from apiserver.cli.conformance.runner import Replay, replay_all, replay_with
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.cli.limited_connection import port_of
from apiserver.cli.printing import print_error, print_json, print_lines
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.golang.urls import redacted_urls
from apiserver.webhooks.credentials import ClientCredentials

_ABOUT: Final = f"""
Measures how much of the Kubernetes API a server implements. The command replays conversations that were
recorded with kube-apiserver. For each area of the API, the command counts the conversations in which the
server's responses match those of kube-apiserver {RECORDED_FROM}. The command works with any Kubernetes API
server:

    apiserver conformance --kubeconfig admin.kubeconfig
    apiserver conformance --server http://127.0.0.1:8080 --area watch --scenario 'rv/get-*' -o html

Run the command only against a test server. The conversations create namespaces, custom resource definitions,
policies and webhooks with random names, and delete them at the end. The conversations were recorded without
controllers, a scheduler or nodes, so a full cluster responds differently to some requests. The user must be a
member of the system:masters group or have the cluster-admin role. One conversation requires the user name
`admin`.

The exit code is 0 if no conversation failed, and 1 if at least one failed. The exit code is 2 if the
arguments are invalid, the command cannot reach the server, or the server refuses the credentials.
"""
PASSED, FAILED, UNUSABLE = 0, 1, 2
JOBS_MAX: Final = 64
SECONDS_MAX: Final = 3600.0
_DEFAULT_JOBS: Final = 4
# Policies and webhooks take up to a minute to take effect in kube-apiserver.
_DEFAULT_WAIT_S: Final = 70.0
_DEFAULT_REQUEST_S: Final = 30.0
_CHECK_WITHIN_S: Final = 10.0


def run(arguments: Sequence[str]) -> int:
    """Replay what the arguments after `conformance` ask for. Returns the exit code.

    Raises UsageError; exits for --help.
    """
    given = parser().parse_args(arguments)
    try:
        recordings = Recordings()
        names = _selected(recordings.names, given.area, given.scenario)
        summary = _replayed(given, recordings, names)
    except (MissingConversations, RequestFailed, UnusableEndpoint) as error:
        print_error(error)
        return UNUSABLE
    if given.output == "json":
        print_json(reports.json_document(summary))
    else:
        print_lines(reports.TEXTS[given.output](summary))
    return FAILED if summary.with_outcome(Outcome.FAILED) else PASSED


def parser() -> IntermixedParser:
    parser = described_parser("conformance", _ABOUT)
    parser.set_defaults(allows_http=True)
    add_server_options(parser)
    parser.add_argument(
        "--token-alice",
        metavar="TOKEN",
        default="",
        help="A bearer token for a user named alice, who is in the dev group and has no permissions. If "
        "this flag is not set, the user whose credentials the command uses impersonates alice.",
    )
    parser.add_argument(
        "--area",
        metavar="NAME",
        action="append",
        default=[],
        help="Replay the conversations in this area of the API. The flag can be repeated.",
    )
    parser.add_argument(
        "--scenario",
        metavar="PATTERN",
        action="append",
        default=[],
        help="Replay the conversations whose names match this pattern, such as 'rv/get-*'. The flag can be "
        "repeated.",
    )
    parser.add_argument(
        "--features",
        metavar="A,B",
        default="",
        help="A comma-separated list of features that are off by default but enabled on the server under "
        "test. This flag adds the conversations that need these features.",
    )
    parser.add_argument(
        "--webhook-host",
        metavar="ADDRESS",
        default="",
        help="The IPv4 address or hostname at which the server can reach the webhooks that conversations "
        "create. The default is the address from which this machine connects to the server.",
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=_jobs,
        default=_DEFAULT_JOBS,
        help=f"The number of conversations to replay at the same time. (default {_DEFAULT_JOBS})",
    )
    parser.add_argument(
        "--request-timeout",
        metavar="SECONDS",
        type=_seconds,
        default=_DEFAULT_REQUEST_S,
        help=f"The maximum number of seconds to wait for a response. (default {_DEFAULT_REQUEST_S:g})",
    )
    parser.add_argument(
        "--max-wait",
        metavar="SECONDS",
        type=_seconds,
        default=_DEFAULT_WAIT_S,
        help="The maximum number of seconds to wait for a change to take effect. (default "
        f"{_DEFAULT_WAIT_S:g})",
    )
    add_output_option(parser, "text", "html", "json", "junit")
    return parser


def _jobs(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= JOBS_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {JOBS_MAX}")
    return int(text)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) <= SECONDS_MAX:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, up to {SECONDS_MAX:g}")


def _selected(names: Sequence[str], areas: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Returns the names in one of the areas or with one of the patterns; all if neither is given.

    Raises UsageError.
    """
    known = {area_of(name) for name in names}
    for area in areas:
        if area not in known:
            raise UsageError(
                f"conformance: --area: there is no area {area!r}; areas are {', '.join(sorted(known))}"
            )
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise UsageError(
                f"conformance: --scenario: {pattern!r} matches no conversation",
                hint_for(pattern, names, "apiserver conformance"),
            )
    if not areas and not patterns:
        return list(names)
    return [
        name
        for name in names
        if area_of(name) in areas or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]


def _access(given: argparse.Namespace) -> tuple[Access, str]:
    """Returns how the endpoint is reached, and where the credentials come from.

    Raises UsageError, RequestFailed.
    """
    if not given.token_alice.isprintable():
        raise UsageError("conformance: --token-alice must not contain control characters")
    target, listed, admin_context = read_access(ServerOptions.of(given))
    # Groups of impersonation have the same name.
    headers = {name: [value for each, value in listed if each == name] for name, _ in listed}
    url = redacted_urls(target.cluster.server)  # Reports show it, and it is the same server.
    if urlsplit(url).scheme == "http":
        access = Access(url, headers, None, None, given.token_alice)
    else:
        context = tls_context(target.cluster, ClientCredentials(), is_verified=target.is_verified)
        server_name = target.cluster.tls_server_name
        access = Access(url, headers, admin_context, context, given.token_alice, server_name)
    return access, target.source


class _Webhooks(NamedTuple):
    """Where the webhooks of conversations listen. missing: why they cannot; empty if they can."""

    host: str
    missing: str = ""


def _webhooks(given: argparse.Namespace, url: str) -> _Webhooks:
    """Returns the address at which the endpoint finds webhooks. Raises UsageError."""
    if given.webhook_host:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.bind((given.webhook_host, 0))
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UsageError(
                f"conformance: --webhook-host: this machine cannot listen on {given.webhook_host!r}: {why}"
            ) from None
        return _Webhooks(given.webhook_host)
    try:
        # Nothing is sent: this asks which of the machine's addresses leads there.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((urlsplit(url).hostname or "", port_of(url)))
            host: str = probe.getsockname()[0]
            return _Webhooks(host)
    except OSError:
        return _Webhooks("", "needs --webhook-host: the server has no IPv4 address")


def _replayed(given: argparse.Namespace, recordings: Recordings, names: list[str]) -> Summary:
    """Replays the conversations that can be. Raises UsageError, RequestFailed, UnusableEndpoint."""
    access, source = _access(given)
    webhooks = _webhooks(given, access.url)
    replayer = recordings.replayer()
    arguments = argparse.Namespace(
        server=access.url,
        token_admin=None,
        token_alice=access.alice_token or None,
        ca=None,
        insecure=True,  # The client makes its own connections.
        record=False,
        verbose=False,
        max_wait=given.max_wait,
        webhook_host=webhooks.host,
    )
    url = _without_password(access.url)
    checking = Limits(min(_CHECK_WITHIN_S, given.request_timeout))
    checker = make_client(replayer, arguments, access, checking)
    try:
        checked = check_endpoint(checker, url, source)
    finally:
        checker.close()
    features = frozenset(filter(None, given.features.split(",")))
    skipped, chosen = [], []
    for conversation in recordings.conversations(names, replayer):
        reason = conversation.missing_feature(features)
        if conversation.has_webhooks:
            reason = reason or webhooks.missing
        if conversation.has_second_impersonator and not access.alice_token:
            reason = reason or "needs --token-alice: alice impersonates other users in this conversation"
        if reason:
            skipped.append(Result(conversation.name, Outcome.SKIPPED, (reason,)))
        else:
            chosen.append(conversation)
    limits = Limits(given.request_timeout)
    replay = replay_with(replayer, make_client(replayer, arguments, access, limits), arguments)
    results = _repeated(chosen, replay, given.jobs, limits)
    notes = [limits.gone] if limits.gone else []
    if checked.has_controllers:
        notes.append(
            "The server has controllers, but the recorded server had none: conversations that list or "
            "watch the"
            " objects of a namespace can fail because of objects that controllers create."
        )
    called = [results[each.name].outcome for each in chosen if each.has_webhooks]
    if called and Outcome.PASSED not in called:
        notes.append(
            f"All {len(called)} conversations with webhooks failed: the server must be able to connect to"
            f" {webhooks.host}, where the webhooks listen (--webhook-host)."
        )
    return Summary(url, checked.version, tuple(sorted([*skipped, *results.values()])), tuple(notes))


def _repeated(
    conversations: Sequence[Conversation], replay: Replay, jobs: int, limits: Limits
) -> dict[str, Result]:
    """Returns the results by name. Conversations that failed are replayed once more.

    On a busy machine conversations fail that wait for something.
    """
    count = _counter(len(conversations))
    results = {each.name: each for each in replay_all(conversations, replay, jobs, limits, on_result=count)}
    if not limits.gone:
        again = [each for each in conversations if results[each.name].outcome is Outcome.FAILED]
        count = _counter(len(again), "second attempt: ")
        for result in replay_all(again, replay, jobs, limits, on_result=count):
            results[result.name] = result
    return results


def _counter(total: int, label: str = "") -> Callable[[Result], None]:
    """Returns a function to call with each result, which shows on a terminal how many there are."""
    shows = sys.stderr is not None and sys.stderr.isatty()
    numbers = itertools.count(1)

    def count(_: Result) -> None:
        if shows:
            number = next(numbers)
            end = "\n" if number == total else ""
            print(f"\r{label}{number} of {total} conversations", file=sys.stderr, end=end, flush=True)

    return count


def _without_password(url: str) -> str:
    """Returns a URL without a user's name and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
