"""Writes the documents that are made from tables: `make docs`, or `python -m tests.references`."""

from __future__ import annotations

import textwrap
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
from apiserver.cli.storage import MIGRATE
from apiserver.meta.releases.emulation import NEWEST_MINOR
from apiserver.meta.releases.gate_effects import BUILTIN, GATED, NONE, gate_effects
from apiserver.meta.releases.gates import known_gates
from apiserver.metrics.declarations import Metric, MetricStability, known_metrics, not_served
from tests.support.api_pages import class_page
from tests.support.command_pages import command_page, connection_flags, marked_up
from tests.test_conformance import expected_failures, strict_passes

ROOT: Final = Path(__file__).parent.parent
METRICS: Final = ROOT / "docs" / "reference" / "metrics.md"
COMMAND_LINE: Final = ROOT / "docs" / "reference" / "command-line.md"
FLAGS: Final = ROOT / "docs" / "reference" / "flags.md"
TESTING: Final = ROOT / "docs" / "reference" / "testing-api.md"
ALERTS: Final = ROOT / "deploy" / "prometheus" / "alerts.yml"
PROMETHEUS_RULE: Final = ROOT / "deploy" / "kubernetes" / "prometheusrule.yaml"
# Charts have no files from outside.
CHART_ALERTS: Final = ROOT / "deploy" / "helm" / "apiserver" / "files" / "alerts.yml"
CONFORMANCE: Final = ROOT / "docs" / "reference" / "conformance.md"
FEATURE_GATES: Final = ROOT / "docs" / "reference" / "feature-gates.md"
_GENERATED: Final = "<!-- Made by `make docs`; tests check that it is up to date. -->"
_METRICS_HEAD: Final = f"""# Metrics

{_GENERATED}

The `/metrics` endpoint serves the metrics on this page. If kube-apiserver has an equivalent metric, this
server's metric has the same name. The help text of a metric begins with the metric's stability class:

- `[STABLE]` metrics do not change. After a `[STABLE]` metric is deprecated, the server serves it for three
  more releases.
- After a `[BETA]` metric is deprecated, the server serves it for one more release.
- `[ALPHA]` and `[INTERNAL]` metrics can change at any time.
- Metrics without a stability class describe the server process and can change at any time.

Before a deprecated metric is removed, it is hidden for one release. The server serves hidden metrics only if
`--show-hidden-metrics-for-version` is set.

The `--disabled-metrics` flag disables metrics, and the `--allow-metric-labels` flag limits the values of
metric labels. The `apiserver_workers` and `apiserver_worker_restarts_total` metrics exist only if `--workers`
is set.
"""
_MISSING_HEAD: Final = """
## Metrics that only kube-apiserver has

This server does not have the following kube-apiserver 1.36 metrics. The text above each table explains why
the metrics in the table are missing.
"""


_PROMETHEUS_RULE_HEAD: Final = """\
# The alerts in ../prometheus/alerts.yml, for the job in servicemonitor.yaml. `make docs` generates this file.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: apiserver
  namespace: apiserver
  labels:
    app.kubernetes.io/name: apiserver
spec:
"""


def prometheus_rule() -> str:
    """Returns deploy/kubernetes/prometheusrule.yaml."""
    _, groups, text = ALERTS.read_text().partition("groups:\n")
    text = (groups + text).replace('job="apiserver"', 'job="apiserver/apiserver"')
    return _PROMETHEUS_RULE_HEAD + textwrap.indent(text, "  ")


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

`apiserver --help` prints the commands and the most important flags. `apiserver --help-all` prints all server
flags. `apiserver COMMAND --help` and `apiserver help COMMAND` print help for a command. The help text is
wrapped to the width of the terminal. To use a different width, set the `COLUMNS` environment variable.

If a command or flag is unknown, the error message suggests the most similar name:

```text
$ apiserver --etcd-server=http://127.0.0.1:2379
apiserver: unknown flag: --etcd-server; did you mean --etcd-servers? See 'apiserver --help'
```

## Output

Commands print results to stdout, and errors, warnings and logs to stderr. When the server is ready, it prints
one line to stdout. Scripts can wait for this line to detect that the server is ready:

```text
ready https://127.0.0.1:6443 kubeconfig=/home/me/apiserver-data/admin.kubeconfig
```

If stderr is a terminal, the server also prints a summary to stderr. The summary contains the server's
version, store, data directory and URL, and a command that connects kubectl to the server. With
`--logging-format=json`, all lines on stdout and stderr are JSON objects. In this format, the ready line on
stdout has the keys `msg` (with the value `ready`), `url` and `kubeconfig`.

## Exit codes

| code | meaning |
|---|---|
| 0 | The command succeeded, or SIGTERM or SIGINT stopped the server. |
| 1 | The command failed, or the server could not start. |
| 2 | The command line or a configuration file is not valid. |
| 128 + n | Signal n interrupted a command or the server startup, or ended a graceful shutdown early. |

The sections for individual commands describe additional exit codes.

## apiserver serve

Starts the server. You can omit the word `serve`. The [Flags](flags.md) page lists all flags. `apiserver
kube-apiserver` starts the server with three [kube-apiserver defaults](differences.md#defaults). If you start
the program through a link named `kube-apiserver`, it also uses these defaults.
"""


_MIGRATE_TEXT: Final = """## apiserver migrate

```text
apiserver migrate [RESOURCE ...] [flags]
```

`apiserver migrate` is an alias for [`apiserver storage rewrite`](#apiserver-storage-rewrite). Both commands
take the same arguments and flags.
"""


def command_line_reference() -> str:
    """Returns docs/reference/command-line.md."""
    lines = [_COMMANDS_HEAD.rstrip("\n")]
    lines += (f"| `{name}` | {each.summary} |" for name, each in COMMANDS.items())
    lines.append(_COMMANDS_TEXT)
    for name, each in COMMANDS.items():
        if name == MIGRATE:
            lines.append(_MIGRATE_TEXT)
        elif name not in (*SERVERS, HELP):
            lines += command_page(name, each.summary, each.build_parser())
    lines += connection_flags()
    return "\n".join(lines).rstrip() + "\n"


_FLAGS_HEAD: Final = f"""# Flags

{_GENERATED}

Flags have the same names and meanings as in kube-apiserver. To set flags in a YAML file, specify the file
with `--config`. Command-line flags take precedence over flags in the `--config` file.

A deprecated flag still works, but the server logs a warning. To disable deprecation warnings, set
`--flag-deprecation-warnings=false`. A deprecated flag continues to work for at least one release and at least
six months. A deprecated beta flag continues to work for at least one release and at least three months. If
you set a removed flag, the server refuses to start, and the error message names the replacement.
"""
_IGNORED_HEAD: Final = """
## Flags of kube-apiserver without effect

The server accepts the flags in this table and `--insecure-port=0`, so that kube-apiserver startup scripts
work with this server. The server logs a warning for each of these flags that you set.
"""


def flags_reference() -> str:
    """Returns docs/reference/flags.md."""
    lines = [_FLAGS_HEAD]
    for title, flags in SECTIONS.items():
        rows = [
            (_names(flag), flag.value, _code(flag.default or default_of(flag)), marked_up(flag.help))
            for flag in flags
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
        "The server refuses to start with the flags in this table, because ignoring them would be unsafe.\n",
        *_table(("flag", "why"), [(_code(f"--{flag}"), marked_up(why)) for flag, why in REFUSED.items()]),
        "",
        "## Flags that are deprecated or removed\n",
        "The second and third columns contain Kubernetes releases, where `1.15` means 1.15 or earlier.\n",
        *_table(
            ("flag", "deprecated since", "removed in", "instead"),
            [
                (
                    _code(f"--{each.flag}"),
                    f"1.{each.deprecated}",
                    "-" if each.removed is None else f"1.{each.removed}",
                    marked_up(each.instead),
                )
                for each in LIFECYCLES.values()
            ],
        ),
    ]
    return "\n".join(lines) + "\n"


_GATES_HEAD: Final = f"""# Feature gates

{_GENERATED}

The `--feature-gates` flag switches feature gates on and off. Each gate has the same name, stage and default
as in the Kubernetes release that `--emulated-version` sets. The exceptions are `LegacyNodeRoleBehavior` and
`WindowsHostNetwork`, which are off by default in the releases in which they are alpha. If you set a gate that
has no effect, the server accepts it but logs a warning. In the tables, `on` means that the gate is on by
default, and `locked` means that you cannot change the gate.

## Gates that have an effect
"""
_BUILTIN_HEAD: Final = """
## Features that are always on

This server always behaves as if the gates in this table were on. You cannot switch these gates off.
"""
_INEFFECTIVE_HEAD: Final = """
## Gates without effect

The gates in this table are on by default in Kubernetes 1.36 but have no effect in this server. The table
explains why. If a gate is off by default and this page does not list it, the gate has no effect.
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
    lines += _table(("gate", "stages", "implemented in"), rows)
    lines.append(_BUILTIN_HEAD)
    lines += _table(
        ("gate", "stages", "implemented in"),
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

The `apiserver.testing` Python module starts API servers in tests. The module requires neither pytest nor a
client library. You can import all names on this page from the `apiserver.testing` module:

```python
from apiserver.testing import ApiServer, User
```

The [Testing](../testing/index.md) page shows how to use this module, and describes the fixtures of the
pytest plugin. The names on this page form a public API that follows semantic versioning.
"""
# The sections of the page. Instances of the classes without a signature there are made by the others.
TESTING_SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "Servers": ("ApiServer", "User", "Snapshot", "Clock", "PastServer"),
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

The `apiserver conformance` command measures how much of the Kubernetes API a server implements. The command
replays recorded conversations, which are short sequences of HTTP requests, and compares the status codes,
bodies, warnings, watch events and webhook calls with those recorded from kube-apiserver. You can test any
Kubernetes API server, such as apiserver, kube-apiserver, k3s, kcp, or a mock server.

## Measure a server

```sh
apiserver conformance --kubeconfig admin.kubeconfig
apiserver conformance --server http://127.0.0.1:8080 --area watch --area rv -o html >report.html
```

The package includes a 135 kB archive that contains the conversations and the program that replays them. If
the package was built without the `tests/conformance` folder, it does not contain the conversations, and the
command fails with an error.

- Do not test a production server. The conversations create namespaces, custom resource definitions, policies
  and webhooks with random names. Before the command exits, it deletes all objects that the conversations
  created, even if you interrupt it.
- The user whose credentials the command uses must be a member of `system:masters` or have the `cluster-admin`
  role. One conversation requires this user to be named `admin`.
- Some conversations send requests as the `alice` user, who belongs to the `dev` group and has no permissions.
  Use `--token-alice` to pass a token for `alice`. If you do not set `--token-alice`, the command impersonates
  `alice`.
- The server under test must be able to call webhooks on the machine that runs the command. By default, the
  webhooks listen on the IP address from which this machine connects to the server under test. To use another
  address, set `--webhook-host`. If all conversations with webhooks fail, a note in the report explains the
  likely cause.
- We recorded the conversations without controllers, a scheduler or nodes. On a complete cluster, about 10% of
  the conversations fail. For example, some conversations that list or watch ConfigMaps fail because a
  controller creates the `kube-root-ca.crt` ConfigMap in each namespace. The report for a complete cluster
  contains a note about the failures that controllers cause.
- Nine conversations need features that are off by default. If the server under test has any of these features
  enabled, list them in `--features`.
- The command exits with code 0 if no conversation failed, and with code 1 if any conversation failed. The
  command exits with code 2 if the arguments are invalid, if the server is unreachable, or if the server
  rejects the credentials.
- The `-o json`, `-o junit` and `-o html` outputs contain all differences between the actual and the recorded
  responses.

## Results

The table shows the number of conversations that pass on each server.

We recorded the conversations with kube-apiserver {RECORDED_FROM[1:]}, which therefore passes all
conversations by definition. We ran apiserver with the same flags that we used for kube-apiserver:

```sh
apiserver '--controllers=-*' --service-cluster-ip-range=10.0.0.0/16 --disable-admission-plugins= \\
  --authorization-mode=Node,RBAC --service-account-signing-key-file=rsa.key --token-auth-file=tokens.csv
```

This project's tests replay the conversations and fail if a result differs from the results on this page.

[kmock](https://pypi.org/project/kmock/) is a mock server that stores objects exactly as clients send them. We
tested kmock's `KubernetesEmulator` class with its bundled resources on 2026-11-28. Most conversations fail on
kmock because they first create a namespace, which kmock cannot do.
"""
_FAILURES_HEAD: Final = """
## Where apiserver differs

On apiserver, the command skipped {skipped} conversations because they need features that are off by default.
Another {failed} conversations failed because of deliberate differences between apiserver and kube-apiserver.
The [Differences from kube-apiserver](differences.md) page describes how these differences affect clients.
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
    PROMETHEUS_RULE.write_text(prometheus_rule())
    CHART_ALERTS.write_text(ALERTS.read_text())
    TESTING.write_text(testing_reference())


if __name__ == "__main__":
    main()
