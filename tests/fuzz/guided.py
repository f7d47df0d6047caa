"""Fuzzes one target under atheris: `python -m tests.fuzz.guided NAME [libFuzzer's arguments]`.

The process ends with the first input that fails, as libFuzzer does: its code is then not 0.
"""

from __future__ import annotations

import shlex
import sys
from random import Random
from typing import Final

import atheris

# Counting each branch takes time.
PATIENCE: Final = 3.0
# How many of a hundred mutations are our own, of values where inputs are JSON.
OWN_MUTATIONS: Final = 20
OWN_MUTATIONS_OF_JSON: Final = 70


def main() -> None:
    name = sys.argv.pop(1)
    # libFuzzer starts itself again, by a shell, when it merges.
    sys.argv[0] = f"{shlex.quote(sys.executable)} -m tests.fuzz.guided {name}"
    with atheris.instrument_imports(include=["apiserver", "storage", "jsonpatch", "jsonpointer", "jwt"]):
        from tests.fuzz import mutations
        from tests.fuzz.targets import load

        target = load(name)
    own = OWN_MUTATIONS_OF_JSON if target.is_json else OWN_MUTATIONS

    def mutate(data: bytes, bytes_max: int, seed: int) -> bytes:
        random = Random(seed)
        if random.randrange(100) < own:
            changed = mutations.mutated(target, [data], random)
            if len(changed) <= bytes_max:
                return changed
        mutated: bytes = atheris.Mutate(data, bytes_max)
        return mutated

    atheris.Setup(sys.argv, lambda data: target.check(data, patience=PATIENCE), custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
