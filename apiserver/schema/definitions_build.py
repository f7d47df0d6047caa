"""Makes the table of definitions when the package is built; nothing imports this at run time."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import sys
from pathlib import Path

from setuptools.command.build_py import build_py


class BuildWithDefinitions(build_py):
    """Copies the modules as setuptools does, and adds the table with its licence.

    An editable installation has them beside the sources, where git ignores them.
    """

    def run(self) -> None:
        super().run()
        # setuptools loads this file alone: what is beside it cannot be imported yet.
        sys.path.insert(0, str(Path(__file__).parents[2]))
        from apiserver.schema.definitions_table import TABLE, write_table

        folder = TABLE.parent if self.editable_mode else Path(self.build_lib, "apiserver", "schema")
        folder.mkdir(parents=True, exist_ok=True)
        spec = importlib.util.find_spec("kubernetes_validate")  # not imported: it would import jsonschema
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError("the build needs the package kubernetes-validate")
        write_table(Path(spec.origin).parent, folder / TABLE.name)
        for file in importlib.metadata.files("kubernetes-validate") or ():
            if file.name == "LICENSE":
                shutil.copyfile(str(file.locate()), folder / f"{TABLE.stem}.LICENSE")
