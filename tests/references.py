"""Writes the documents that are made from tables: `make docs`, or `python -m tests.references`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from apiserver.cli.flag import Flag
from apiserver.cli.flags import SECTIONS, default_of
from apiserver.cli.kube_apiserver_flags import LIFECYCLES, NOT_NEEDED, REFUSED
from apiserver.metrics.lifecycles import MetricLifecycle, Stability, known_metrics, not_served
from tests.support.api import Api
from tests.support.server_process import ServerProcess

ROOT: Final = Path(__file__).parent.parent
METRICS: Final = ROOT / "docs" / "metrics.md"
FLAGS: Final = ROOT / "docs" / "flags.md"
_GENERATED: Final = "<!-- Made by `make docs`; tests check that it is up to date. -->"
_METRICS_HEAD: Final = f"""# Metrics

{_GENERATED}

What `/metrics` has, under Kubernetes' names. A metric's help text begins with its stability class, as there:
`[STABLE]` ones stay as they are, and once they are deprecated for three releases more; `[BETA]` ones for one;
nothing is promised of `[ALPHA]` and `[INTERNAL]` ones, and nothing of those without a class, which tell of
the process. After that time a metric is hidden for one release, in which `--show-hidden-metrics-for-version`
brings it back, and then it is gone.

`--disabled-metrics` leaves metrics out, and `--allow-metric-labels` bounds the values of their labels.
"""
_MISSING_HEAD: Final = """
## What kube-apiserver has and this server has not

As of release 1.36.
"""


def metrics_reference(helps: Mapping[str, str]) -> str:
    """Returns docs/metrics.md. helps: the help texts of metrics, without what tells their lives."""
    lines = [_METRICS_HEAD, "## What there is\n"]
    rows = [
        (
            f"`{each.name}`",
            each.kind,
            _life(each),
            _labels(each),
            helps.get(each.name, "With `--workers` only."),
        )
        for each in known_metrics().values()
    ]
    lines += _table(("metric", "type", "stability", "labels", "meaning"), rows)
    lines.append(_MISSING_HEAD)
    for reason, missing in not_served().items():
        lines += [
            f"{reason}\n",
            *_table(("metric", "type", "stability", "labels"), map(_missing, missing)),
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


_FLAGS_HEAD: Final = f"""# Flags

{_GENERATED}

Flags are kube-apiserver's, with its names and meanings, wherever it has them. Each may also stand in the YAML
file that `--config` names; those on the command line take precedence. `--help` prints them, `--version` the
release.

A deprecated flag works, and is warned of in the log (`--flag-deprecation-warnings=false` switches that off),
for six months or one release at least, whichever is longer, a beta one for three months. Then it is removed:
the server does not start with it, and says what to use instead.
"""
_IGNORED_HEAD: Final = """
## Flags of kube-apiserver without effect

They are accepted with a warning, so that a start script can swap the binaries; so is `--insecure-port=0`.
"""


def flags_reference() -> str:
    """Returns docs/flags.md."""
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
        "To ignore them would be less safe than what they ask for.\n",
        *_table(("flag", "why"), [(_code(f"--{flag}"), why) for flag, why in REFUSED.items()]),
        "",
        "## Flags that are deprecated or removed\n",
        "1.15, the oldest release that can be emulated, stands for those before it, too.\n",
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


def _names(flag: Flag) -> str:
    return ", ".join(map(_code, filter(None, (flag.alias, flag.name))))


def _code(text: str) -> str:
    return f"`{text}`" if text else "-"


def _life(metric: MetricLifecycle) -> str:
    stability = "-" if metric.stability is Stability.NONE else str(metric.stability)
    return stability if metric.deprecated is None else f"{stability}, deprecated since 1.{metric.deprecated}"


def _labels(metric: MetricLifecycle) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels) or "-"


def _missing(metric: MetricLifecycle) -> Sequence[str]:
    return f"`{metric.name}`", metric.kind, _life(metric), _labels(metric)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def helps_of(exposition: str) -> dict[str, str]:
    """Returns the help texts of an exposition, without what tells the lives of metrics."""
    helps = {}
    for line in exposition.splitlines():
        if line.startswith("# HELP "):
            name, _, text = line.removeprefix("# HELP ").partition(" ")
            life = known_metrics().get(name)
            helps[name] = text if life is None else text.removeprefix(life.help_prefix(36))
    return helps


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        ServerProcess(Path(directory) / "data") as server,
        closing(Api(server)) as api,
    ):
        exposition = api.get("/metrics").body.decode()
    FLAGS.write_text(flags_reference())
    METRICS.write_text(metrics_reference(helps_of(exposition)))


if __name__ == "__main__":
    main()
