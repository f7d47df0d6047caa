"""Writes the documents that are made from tables: `make docs`, or `python -m tests.references`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from apiserver import __version__, testing
from apiserver.catalogue.gated_fields import gates_of_fields
from apiserver.cli.commands import COMMANDS, HELP, SERVERS
from apiserver.cli.conformance.conversations import RECORDED_FROM, Recordings
from apiserver.cli.conformance.results import Counts, Outcome, Result, counts_by_area
from apiserver.cli.flag import Flag
from apiserver.cli.flags import SECTIONS, default_of
from apiserver.cli.kube_apiserver_flags import LIFECYCLES, NOT_NEEDED, REFUSED
from apiserver.metrics.declarations import Metric, MetricStability, known_metrics, not_served
from apiserver.releases.emulation import NEWEST_MINOR
from apiserver.releases.gate_effects import BUILTIN, GATED, NONE, gate_effects
from apiserver.releases.gates import known_gates
from tests.support.api_pages import class_page
from tests.support.command_pages import command_page
from tests.test_conformance import expected_failures, strict_passes

ROOT: Final = Path(__file__).parent.parent
METRICS: Final = ROOT / "docs" / "reference" / "metrics.md"
COMMAND_LINE: Final = ROOT / "docs" / "reference" / "command-line.md"
FLAGS: Final = ROOT / "docs" / "reference" / "flags.md"
TESTING: Final = ROOT / "docs" / "reference" / "testing-api.md"
CONFORMANCE: Final = ROOT / "docs" / "reference" / "conformance.md"
FEATURE_GATES: Final = ROOT / "docs" / "reference" / "feature-gates.md"
_GENERATED: Final = "<!-- Made by `make docs`; tests check that it is up to date. -->"
_METRICS_HEAD: Final = f"""# Metrics

{_GENERATED}

The endpoint `/metrics` serves these metrics, with the names that Kubernetes uses. The help text of a metric
begins with its stability class:

- `[STABLE]` metrics do not change. If they are deprecated, they remain for three more releases.
- `[BETA]` metrics remain for one more release.
- `[ALPHA]` and `[INTERNAL]` metrics, and those of the process, which have no class, can change at any time.

Before a deprecated metric is removed, it is hidden for one release. `--show-hidden-metrics-for-version` shows
it again.

`--disabled-metrics` omits metrics, and `--allow-metric-labels` limits the values of their labels.
`apiserver_workers` and `apiserver_worker_restarts_total` exist with `--workers` only, and
`apiserver_audit_level_total` and `apiserver_audit_error_total` after the first audit event and the first lost
one.
"""
_MISSING_HEAD: Final = """
## Metrics that only kube-apiserver has

These are the metrics of kube-apiserver 1.36 that this server does not have, with the reasons.
"""


def metrics_reference() -> str:
    """Returns docs/reference/metrics.md."""
    lines = [_METRICS_HEAD, "## Metrics of this server\n"]
    rows = [(*_declaration(each), each.text) for each in known_metrics().values()]
    lines += _table(("metric", "type", "stability", "labels", "meaning"), rows)
    lines.append(_MISSING_HEAD)
    for reason, missing in not_served().items():
        lines += [
            f"{reason}\n",
            *_table(("metric", "type", "stability", "labels"), map(_declaration, missing)),
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


_COMMANDS_HEAD: Final = f"""# Command line

{_GENERATED}

`apiserver` starts the server, and `apiserver COMMAND` runs a command.

| command | purpose |
|---|---|
"""
_COMMANDS_TEXT: Final = """
## Help

`apiserver --help` prints the commands and the most important flags, and `apiserver --help-all` prints all
flags of the server. `apiserver COMMAND --help` and `apiserver help COMMAND` describe a command. Help fits the
width of the terminal, or the width that the variable `COLUMNS` names.

The error after a mistake suggests the nearest command or flag:

```text
$ apiserver --etcd-server=http://127.0.0.1:2379
apiserver: unknown flag: --etcd-server; did you mean --etcd-servers? See 'apiserver --help'
```

## Output

Results go to stdout; errors, warnings and logs go to stderr. When the server is ready, it prints one line on
stdout, which scripts can wait for:

```text
ready https://127.0.0.1:6443 kubeconfig=/home/me/apiserver-data/admin.kubeconfig
```

If stderr is a terminal, the server also prints a summary there: its version, the store, the data directory,
the URL, and the command that points kubectl to it. With `--logging-format=json`, all lines on both outputs
are JSON objects; the line on stdout has the keys `msg` (`ready`), `url` and `kubeconfig`.

## Exit codes

| code | meaning |
|---|---|
| 0 | The command succeeded, or SIGTERM or SIGINT stopped the server. |
| 1 | The command failed, or the server could not start. |
| 2 | The command line or a configuration file is not valid. |
| 128 + n | A second signal, number n, ended the server before it had stopped gracefully. |

The descriptions of commands below name their other exit codes.

## apiserver serve

Starts the server. The word `serve` may be omitted; [Flags](flags.md) lists the flags. `apiserver
kube-apiserver` starts the server with kube-apiserver's defaults, and so does a link to the program that is
named `kube-apiserver`.
"""


def command_line_reference() -> str:
    """Returns docs/reference/command-line.md."""
    lines = [_COMMANDS_HEAD.rstrip("\n")]
    lines += (f"| `{name}` | {each.summary} |" for name, each in COMMANDS.items())
    lines.append(_COMMANDS_TEXT)
    for name, each in COMMANDS.items():
        if name not in (*SERVERS, HELP):
            lines += command_page(name, each.summary, each.build_parser())
    return "\n".join(lines).rstrip() + "\n"


_FLAGS_HEAD: Final = f"""# Flags

{_GENERATED}

Wherever kube-apiserver has a flag for something, this server has the same flag with the same meaning. Each
flag can also be set in the YAML file that `--config` names. Flags on the command line take precedence.

A deprecated flag works, and the server logs a warning (`--flag-deprecation-warnings=false` switches it off).
The flag remains for six months or one release, whichever is longer; a beta flag for three months. After that,
the server refuses to start with the flag, and names its replacement.
"""
_IGNORED_HEAD: Final = """
## Flags of kube-apiserver without effect

The server accepts these flags, and `--insecure-port=0`, with a warning. So a script that starts
kube-apiserver can start this server instead.
"""


def flags_reference() -> str:
    """Returns docs/reference/flags.md."""
    lines = [_FLAGS_HEAD]
    for title, flags in SECTIONS.items():
        rows = [
            (_names(flag), flag.value, _code(flag.default or default_of(flag)), flag.help) for flag in flags
        ]
        lines += [f"## {title}\n", *_table(("flag", "value", "default", "meaning"), rows), ""]
    reasons: dict[str, list[str]] = {}
    for flag, reason in NOT_NEEDED.items():
        reasons.setdefault(reason, []).append(_code(f"--{flag}"))
    lines += [
        _IGNORED_HEAD.lstrip("\n"),
        *_table(("flags", "why"), [(", ".join(flags), reason) for reason, flags in reasons.items()]),
        "",
        "## Flags of kube-apiserver that are refused\n",
        "It would be unsafe to ignore these flags.\n",
        *_table(("flag", "why"), [(_code(f"--{flag}"), why) for flag, why in REFUSED.items()]),
        "",
        "## Flags that are deprecated or removed\n",
        "The releases are those of Kubernetes. 1.15, the oldest one here, includes all earlier ones.\n",
        *_table(
            ("flag", "deprecated since", "removed in", "instead"),
            [
                (
                    _code(f"--{each.flag}"),
                    f"1.{each.deprecated}",
                    "-" if each.removed is None else f"1.{each.removed}",
                    each.instead,
                )
                for each in LIFECYCLES.values()
            ],
        ),
    ]
    return "\n".join(lines) + "\n"


_GATES_HEAD: Final = f"""# Feature gates

{_GENERATED}

`--feature-gates` switches features on and off. The names, stages and defaults of gates are those of the
Kubernetes release that `--emulated-version` names. The server accepts gates without effect and logs a
warning.

## Gates that have an effect
"""
_BUILTIN_HEAD: Final = """
## Features that are always on

These gates cannot be switched off.
"""
_INEFFECTIVE_HEAD: Final = """
## Gates without effect

These gates are on by default in Kubernetes 1.36 and have no effect here, for the reasons in the table. Gates
that are off by default and not on this page have no effect, either.
"""


def feature_gates_reference() -> str:
    """Returns docs/reference/feature-gates.md."""
    effects, of_fields = gate_effects(), gates_of_fields(NEWEST_MINOR)
    gated = {name for name, effect in effects.items() if effect.kind == GATED} | of_fields
    lines = [_GATES_HEAD]
    rows = []
    for name in sorted(gated):
        where = [_module(each) for each in effects[name].modules] if name in effects else []
        if name in of_fields:
            where.append("fields: `apiserver/catalogue/gated_fields.txt`")
        rows.append((_code(name), _stages(name), ", ".join(where)))
    lines += _table(("gate", "stages", "where"), rows)
    lines.append(_BUILTIN_HEAD)
    lines += _table(
        ("gate", "stages", "where"),
        [
            (_code(name), _stages(name), ", ".join(map(_module, effect.modules)))
            for name, effect in effects.items()
            if effect.kind == BUILTIN
        ],
    )
    lines.append(_INEFFECTIVE_HEAD)
    reasons: dict[str, list[str]] = {}
    for name, effect in effects.items():
        if effect.kind == NONE:
            reasons.setdefault(effect.why, []).append(_code(name))
    lines += _table(("gates", "why"), [(", ".join(names), why) for why, names in reasons.items()])
    return "\n".join(lines) + "\n"


_TESTING_HEAD: Final = f"""# Testing API

{_GENERATED}

The Python module `apiserver.testing` starts API servers in tests. It needs neither pytest nor a client
library. All names on this page can be imported from it:

```python
from apiserver.testing import ApiServer, User
```

[Testing](../testing/index.md) shows how to use them, and describes the fixtures of the pytest plugin. The
names on this page are public: they follow the semantic version of the package.
"""
# The sections of the page. Instances of the classes without a signature there are made by the others.
TESTING_SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "Servers": ("ApiServer", "User", "Snapshot", "Clock"),
    "Records": ("RecordedRequest", "StoreWrite", "Timeline", "Version", "Change"),
    "Faults": ("Faults", "InjectedFault", "Match"),
    "Effects of faults": (
        *("Answer", "Delay", "CutConnection", "EndWatch", "HoldEvents", "HoldBookmarks", "ExpireToken"),
        *("NotReady", "RefuseTls"),
    ),
    "Exceptions": (
        *("ServerDidNotStart", "ServerStopped", "NotInThisProcess", "RequestFailed", "ManifestNotLoaded"),
        *("UnknownKind", "NotInTime", "NotQuiet", "SnapshotMismatch", "ClockNotAdvanced", "InvalidFault"),
        "TooManyFaults",
    ),
}
# A union of the classes in "Effects of faults".
TESTING_ALIASES: Final = {"Effect"}
_CONSTRUCTED: Final = {"ApiServer", "User", "Match", *TESTING_SECTIONS["Effects of faults"]}


def testing_reference() -> str:
    """Returns docs/reference/testing-api.md."""
    lines = [_TESTING_HEAD]
    for title, names in TESTING_SECTIONS.items():
        lines.append(f"## {title}\n")
        for name in names:
            lines += class_page(getattr(testing, name), is_constructed=name in _CONSTRUCTED)
    return "\n".join(lines).rstrip() + "\n"


_CONFORMANCE_HEAD: Final = f"""# Conformance

{_GENERATED}

`apiserver conformance` measures how much of Kubernetes' API a server has. It replays recorded
conversations, which are short sequences of HTTP requests, and compares the answers with those of
kube-apiserver: status codes, bodies, warnings, watch events, and the calls of webhooks. It works with any
server: this one, kube-apiserver, k3s, kcp, or a mock.

## Measure a server

```sh
apiserver conformance --kubeconfig admin.kubeconfig
apiserver conformance --server http://127.0.0.1:8080 --area watch --area rv -o html >report.html
```

The package contains the conversations and the program that replays them, in an archive of 135 kB. A package
that was built without the folder `tests/conformance` lacks them; the command says so.

- Use a server for tests. Conversations create namespaces, definitions, policies and webhooks with random
  names. They delete them at the end, also when the command is interrupted.
- The user must be a member of `system:masters`, or a cluster-admin. One conversation expects that the user
  is called `admin`. Some ask as the user `alice` of the group `dev`, who has no permissions: pass the token
  of that user with `--token-alice`; otherwise the first user impersonates alice.
- The server must be able to call webhooks on this machine. They listen at the address from which this
  machine connects to the server, or at that of `--webhook-host`. The report has a note if no conversation
  with webhooks passed.
- The conversations were recorded without controllers, a scheduler and nodes. With them, about one in ten
  fails: for example, controllers create the ConfigMap `kube-root-ca.crt` in each namespace, where
  conversations list or watch ConfigMaps. The report has a note then.
- Nine conversations need features that are off by default. Name those that are on with `--features`.
- The exit code is 0 if no conversation failed, 1 if any did, and 2 if the arguments are invalid, the server
  cannot be reached, or it refuses the credentials. `-o json`, `-o junit` and `-o html` list all differences.

## Results

Each column has the number of conversations that pass.

kube-apiserver is the reference: the conversations were recorded from release {RECORDED_FROM[1:]}, so that it
passes all of them by definition. apiserver ran with the flags of the recorded kube-apiserver:

```sh
apiserver '--controllers=-*' --service-cluster-ip-range=10.0.0.0/16 --disable-admission-plugins= \\
  --authorization-mode=Node,RBAC --service-account-signing-key-file=rsa.key --token-auth-file=tokens.csv
```

Tests replay the conversations against it, and fail when a result differs from this page.

[kmock](https://pypi.org/project/kmock/) is a mock that keeps objects as they are sent, and claims no more. It
ran on 2026-11-28 as a `KubernetesEmulator` with its bundled resources. It cannot create namespaces, but
most conversations begin with that.
"""
_FAILURES_HEAD: Final = """
## Where apiserver differs

{skipped} conversations are not replayed: they need features that are off by default. {failed} fail, because
apiserver answers differently on purpose; [Differences from kube-apiserver](differences.md) has the reasons.
"""
# The conversations that other servers pass, by area.
_OTHERS: Final[Mapping[str, Mapping[str, int]]] = {"kmock 0.8": {"discovery": 1}}
_TOTAL: Final = "**total**"


def conformance_counts() -> Mapping[str, Counts]:
    """Returns how many conversations of each area this server passes, fails and skips.

    Those are skipped that need features. `expected_failures.txt` has those that fail: tests replay all
    others.
    """
    recordings, failures = Recordings(), expected_failures()
    outcomes = [
        Result(
            each.name,
            Outcome.SKIPPED
            if each.missing_feature(frozenset())
            else Outcome.FAILED
            if each.name in failures
            else Outcome.PASSED,
        )
        for each in recordings.conversations(recordings.names, recordings.replayer())
    ]
    return counts_by_area(outcomes)


def conformance_reference() -> str:
    """Returns docs/reference/conformance.md."""
    counts = conformance_counts()
    rows = {area: (sum(each), each.passed, *_of_others(area)) for area, each in counts.items()}
    rows[_TOTAL] = tuple(map(sum, zip(*rows.values(), strict=True)))
    failed, skipped = (sum(getattr(each, name) for each in counts.values()) for name in ("failed", "skipped"))
    strict = strict_passes()
    servers = (f"kube-apiserver {RECORDED_FROM[1:]}", f"apiserver {__version__}", *_OTHERS)
    return "\n".join(
        [
            _CONFORMANCE_HEAD,
            *_table(("area", *servers), [(area, *map(str, passed)) for area, passed in rows.items()]),
            _FAILURES_HEAD.format(skipped=skipped, failed=failed),
            *_table(
                ("conversation", "with `--strict-kube-compat`"),
                [
                    (_code(name), "passes" if name in strict else "fails")
                    for name in sorted(expected_failures())
                ],
            ),
            "",
        ]
    )


def _of_others(area: str) -> Iterator[int]:
    return (passed.get(area, 0) for passed in _OTHERS.values())


def _module(name: str) -> str:
    return _code(name if name.startswith("storage.") else f"apiserver.{name}")


def _stages(name: str) -> str:
    """Returns the life of a gate."""
    gate = known_gates()[name]
    stages = [
        f"{(each.name or 'GA').lower().replace('ga', 'GA')} since 1.{each.since}"
        + (" (on, locked)" if each.is_locked and each.is_on else " (on)" if each.is_on else "")
        for each in gate.life
    ]
    return ", ".join([*stages, *([f"removed in 1.{gate.removed}"] if gate.removed else ())])


def _names(flag: Flag) -> str:
    return ", ".join(map(_code, filter(None, (flag.alias, flag.name))))


def _code(text: str) -> str:
    return f"`{text}`" if text else "-"


def _life(metric: Metric) -> str:
    stability = "-" if metric.stability is MetricStability.NONE else str(metric.stability)
    return stability if metric.deprecated is None else f"{stability}, deprecated since 1.{metric.deprecated}"


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in sorted(metric.labels)) or "-"


def _declaration(metric: Metric) -> Sequence[str]:
    return f"`{metric.name}`", metric.kind, _life(metric), _labels(metric)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def main() -> None:
    COMMAND_LINE.write_text(command_line_reference())
    FLAGS.write_text(flags_reference())
    FEATURE_GATES.write_text(feature_gates_reference())
    CONFORMANCE.write_text(conformance_reference())
    METRICS.write_text(metrics_reference())
    TESTING.write_text(testing_reference())


if __name__ == "__main__":
    main()
