"""Kubernetes' Go types as a kubectl binary describes them, to check what `apiserver.schema` says of them.

A Go program carries descriptions of its types for reflection: the fields of each struct with their tags,
which hold the JSON name, whether the empty value is left out, and the number on the wire. Run as a
program this module brings `apiserver/schema/go_fields.json` up to date from a kubectl; what is not in the
kubectl stays:

    python -m tests.support.go_types /usr/bin/kubectl

Layouts are those of Go 1.22 to 1.25 on 64-bit Linux (internal/abi/type.go).
"""

from __future__ import annotations

import json
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from apiserver.schema.builtin import BuiltinSchemas

FACTS = Path(__file__).parents[2] / "apiserver" / "schema" / "go_fields.json"
RELEASE = (1, 36)

_POINTER, _SLICE, _STRUCT = 22, 23, 25
_HAS_UNCOMMON, _EXTRA_STAR = 1, 2
_HAS_TAG, _EMBEDDED = 2, 8


class GoField(NamedTuple):
    name: str
    tag: str
    type_address: int
    is_embedded: bool

    @property
    def json_name(self) -> str:
        return self._json[0]

    @property
    def omits_empty(self) -> bool:
        return "omitempty" in self._json[1:]

    @property
    def is_inline(self) -> bool:
        return self.is_embedded and "inline" in self._json[1:]

    @property
    def number(self) -> str:
        """The field's number on the wire, or an empty text if it has none."""
        match = re.search(r'protobuf:"\w+,(\d+),', self.tag)
        return match[1] if match else ""

    @property
    def _json(self) -> list[str]:
        match = re.search(r'json:"([^"]*)"', self.tag)
        return match[1].split(",") if match else [""]


@dataclass
class GoBinary:
    """A Go program's own description of its types. Raises ValueError for anything else."""

    path: Path
    _data: bytes = field(init=False, repr=False)
    _sections: dict[str, tuple[int, int, int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._data = self.path.read_bytes()
        if self._data[:5] != b"\x7fELF\x02":
            raise ValueError(f"{self.path} is no 64-bit ELF program")
        (table,) = struct.unpack_from("<Q", self._data, 0x28)
        size, count, names_index = struct.unpack_from("<HHH", self._data, 0x3A)
        headers = [struct.unpack_from("<IIQQQQ", self._data, table + i * size) for i in range(count)]
        names_offset = headers[names_index][4]
        self._sections = {}
        for name, _, _, address, offset, length in headers:
            start = names_offset + name
            text = self._data[start : self._data.index(b"\0", start)].decode()
            self._sections[text] = (address, offset, length)
        if ".typelink" not in self._sections:
            raise ValueError(f"{self.path} is no Go program")

    @cached_property
    def structs(self) -> dict[str, int]:
        """The addresses of all struct types that pointers are known of, by package and name."""
        base = self._sections[".rodata"][0]
        _, offset, length = self._sections[".typelink"]
        found = {}
        for (link,) in struct.iter_unpack("<i", self._data[offset : offset + length]):
            if self.kind(base + link) == _POINTER:
                pointed = self.element(base + link)
                if self.kind(pointed) == _STRUCT and (name := self.qualified_name(pointed)):
                    found[name] = pointed
        return found

    def kind(self, address: int) -> int:
        return self._data[self._at(address) + 23] & 31

    def element(self, address: int) -> int:
        """What a pointer or slice type points to."""
        (pointed,) = struct.unpack_from("<Q", self._data, self._at(address) + 48)
        assert isinstance(pointed, int)
        return pointed

    def fields(self, address: int) -> Iterator[GoField]:
        """The fields of a struct type."""
        _, first, count = struct.unpack_from("<QQQ", self._data, self._at(address) + 48)
        for index in range(count):
            name, kind, _ = struct.unpack_from("<QQQ", self._data, self._at(first) + 24 * index)
            text, tag, flags = self._name(name)
            yield GoField(text, tag, kind, bool(flags & _EMBEDDED))

    def qualified_name(self, address: int) -> str:
        """`k8s.io/api/core/v1.Pod`; empty for types without a name of their own."""
        at = self._at(address)
        if not self._data[at + 20] & _HAS_UNCOMMON:
            return ""
        base = self._sections[".rodata"][0]
        (package,) = struct.unpack_from("<i", self._data, at + 80)
        (name,) = struct.unpack_from("<i", self._data, at + 40)
        text = self._name(base + name)[0]
        if self._data[at + 20] & _EXTRA_STAR:
            text = text[1:]
        return f"{self._name(base + package)[0]}.{text.rpartition('.')[2]}"

    def _name(self, address: int) -> tuple[str, str, int]:
        at = self._at(address)
        flags = self._data[at]
        length, at = self._varint(at + 1)
        text = self._data[at : at + length].decode("utf-8", "replace")
        tag = ""
        if flags & _HAS_TAG:
            tag_length, at = self._varint(at + length)
            tag = self._data[at : at + tag_length].decode("utf-8", "replace")
        return text, tag, flags

    def _varint(self, at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = self._data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value, at

    def _at(self, address: int) -> int:
        for start, offset, length in self._sections.values():
            if start and start <= address < start + length:
                return offset + address - start
        raise ValueError(f"no section holds {address:x}")


def definition_name(go_name: str) -> str:
    """`k8s.io/api/core/v1.Pod` -> `io.k8s.api.core.v1.Pod`."""
    package, _, kind = go_name.rpartition(".")
    host, _, path = package.partition("/")
    return ".".join([*reversed(host.split(".")), *path.split("/"), kind])


def facts(binary: GoBinary) -> dict[str, dict[str, str]]:
    """For each definition its fields; see `apiserver.schema.go_fields` for the form."""
    by_definition = {definition_name(name): address for name, address in binary.structs.items()}
    wanted = [name for name in BuiltinSchemas(RELEASE).definitions() if name in by_definition]
    found: dict[str, dict[str, str]] = {}
    while wanted:
        definition = wanted.pop()
        if definition in found:
            continue
        entry = found[definition] = {}
        for each in binary.fields(by_definition[definition]):
            if each.is_inline:
                inlined = definition_name(binary.qualified_name(each.type_address))
                if each.number:
                    entry[f">{inlined}"] = each.number
                    wanted.append(inlined)
            elif each.number and each.json_name:
                is_pointer = binary.kind(each.type_address) == _POINTER
                entry[each.json_name] = (
                    each.number + ("p" if is_pointer else "") + ("" if each.omits_empty else "!")
                )
    return dict(sorted(found.items()))


if __name__ == "__main__":
    known: dict[str, dict[str, str]] = json.loads(FACTS.read_bytes())
    for name, entry in facts(GoBinary(Path(sys.argv[1]))).items():
        known[name] = known.get(name, {}) | entry
    lines = [
        f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}"
        for name, entry in sorted(known.items())
    ]
    FACTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
