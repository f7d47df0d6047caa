"""Python modules in the current directory, for commands that import them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path


@contextmanager
def modules_in(directory: Path, texts: Mapping[str, str]) -> Iterator[None]:
    """Within it, the directory is the current one and has these modules; they are forgotten at the end."""
    for name, text in texts.items():
        (directory / f"{name}.py").write_text(text)
    path = list(sys.path)
    try:
        with chdir(directory):
            yield
    finally:
        sys.path[:] = path
        for name in texts:
            sys.modules.pop(name, None)
