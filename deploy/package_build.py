"""Adds generated files to the package when it is built; nothing imports this at run time."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import lzma
import shutil
import sys
import tarfile
from pathlib import Path

from setuptools.command.build_py import build_py


class BuildWithGeneratedFiles(build_py):
    """Copies the modules as setuptools does, and adds the generated files.

    These are the table of Kubernetes' definitions, with its license, and the archive of the recorded
    conversations. An editable installation has the table next to the sources, where git ignores it, and needs
    no archive.
    """

    def run(self) -> None:
        super().run()
        # setuptools loads this file alone: the package cannot be imported yet.
        sys.path.insert(0, str(Path(__file__).parents[1]))
        self._add_definitions()
        if not self.editable_mode:
            self._add_conversations()

    def _add_definitions(self) -> None:
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

    def _add_conversations(self) -> None:
        """Adds the archive, if there is a folder tests/conformance."""
        from apiserver.cli.conformance.conversations import ARCHIVE, CHECKOUT, files_in

        files = files_in(CHECKOUT)
        if not files:
            self.warn(
                "the directory tests/conformance does not exist: `apiserver conformance` will have nothing "
                "to replay"
            )
            return
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)  # with the time 0: the same bytes in every build
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        target = Path(self.build_lib, "apiserver", "cli", "conformance", ARCHIVE.name)
        target.write_bytes(lzma.compress(packed.getvalue(), preset=9))
