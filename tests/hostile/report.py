"""The table of attacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.hostile.trial import Trial

HEADINGS: Final = (
    "attack",
    "finding",
    "get p50 · p99 ms",
    "write p50 · p99 ms",
    "lease p50 · p99 ms",
    "refused",
    "longest turn ms",
    "memory before · peak · after, of it data MB",
)


def heading() -> str:
    return f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}"


def counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in sorted(found.items()))


def _turn(trial: Trial) -> str:
    """The upper bound of the longest turn; turns under 10 ms are not told apart."""
    return "" if trial.turn is None else f"≤ {max(10, trial.turn.thread_cpu_s * 1e3):.0f}"


def line(trial: Trial) -> str:
    """One row: what the victims noticed."""
    memory = trial.memory
    cells = (
        f"{trial.attack}{f' x {trial.scale}' if trial.scale > 1 else ''}",
        trial.finding,
        *(
            f"{trial.delay_ms(what, 0.5):.0f} · {trial.delay_ms(what, 0.99):.0f}"
            for what in ("get", "write", "lease")
        ),
        counts(trial.refused) or "none",
        _turn(trial),
        " · ".join(f"{each / 1e6:.0f}" for each in (memory.before, memory.peak, memory.after))
        + f", {memory.data / 1e6:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def details(trial: Trial) -> str:
    """What a row leaves out: what the attackers got, and which bounds were not kept."""
    found = [f"  attackers: {counts(trial.answers) or 'no answer'}"]
    waits = trial.waits
    found.append(
        f"  /livez waited for up to {waits.wait_ms:.0f} ms; meanwhile the loop worked for up to "
        f"{waits.loop_ms:.0f} ms, all threads {waits.process_ms:.0f} ms"
    )
    found.extend(f"  {stall}" for stall in trial.stalls)
    found.extend(f"  MISSED: {how}" for how in trial.missed().values())
    return "\n".join(found)
