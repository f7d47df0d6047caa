"""What documents, docstrings and comments name exists: links, files, modules, targets of make."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.support.pages import README, pages

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("apiserver", "storage", "tests", "benchmarks", "deploy", "docs", "examples")
DOCUMENTS: Final = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md")))
)
# The replayer comes from elsewhere; generated code names what generated it.
NOT_OURS: Final = (
    "tests/conformance/replay.py",
    "storage/etcd/etcd_subset_pb2.py",
    "storage/encryption/kms_pb2.py",
)
MODULES: Final = sorted(
    name
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if (name := str(path.relative_to(ROOT))) not in NOT_OURS
)

_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^```.*?^```|^    .*?$", re.MULTILINE | re.DOTALL)
# A block that is a file, which readers make themselves, and a command that writes one.
_SHOWN: Final = re.compile(r"(?:^```\w+\n# |^apiserver .+ > )(\S+)$", re.MULTILINE)
_PYTHON_FILE: Final = re.compile(r"(?<![\w/.-])(?:[\w-]+/)*\w+\.py\b")
_FOLDER: Final = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`")
_SYMBOL: Final = re.compile(r"`((?:[\w-]+/)+\w+)\.py:([A-Za-z_][\w.]*)`")
# A line of a docstring that maps a package: names of modules, and what they are for.
_MAPPED: Final = re.compile(r"^(?: {4})?((?:[a-z_]\w*, )*[a-z_]\w*)(?:,? {2,}|,$)", re.MULTILINE)
_TARGET: Final = re.compile(r"(?:`|^    )make (\w+)", re.MULTILINE)
_COMMENT: Final = re.compile(r"(?:^|\s)#:? .*$", re.MULTILINE)
_DOTTED: Final = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
_API_GROUP: Final = re.compile(r"\.k8s\.io$")
_FILE: Final = re.compile(r"\.(py|json|proto|crt|html)$")
# What CEL has under names that our modules have, too.
CEL_NAMES: Final = {"authorizer.requestResource", "strings.quote"}


def text_of(document: str) -> str:
    return (ROOT / document).read_text()


def anchors(document: Path) -> set[str]:
    """The anchors that a code host makes of headings."""
    headings = _HEADING.findall(_BLOCK.sub("", document.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    broken = []
    for link in _LINK.findall(text_of(document)):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (ROOT / document).parent / path if path else ROOT / document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_only_the_metadata_of_the_package_has_addresses_of_the_project() -> None:
    urls = tomllib.loads(text_of("pyproject.toml"))["project"]["urls"].values()
    others = {name: text_of(name) for name in (*DOCUMENTS, "Dockerfile", "mkdocs.yml")}
    assert {(name, url) for name, text in others.items() for url in urls if url in text} == set()
    assert {"site_url", "repo_url", "edit_uri"} & yaml.safe_load(text_of("mkdocs.yml")).keys() == set()
    assert re.findall(r"image\.(?:url|source|documentation)\b", text_of("Dockerfile")) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_targets_of_make_exist(document: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(_TARGET.findall(text_of(document)))
    assert {target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()


@cache
def prose(file: str) -> tuple[str, ...]:
    """A document as a whole; of a module its docstrings and comments."""
    return tuple(prose_of_module(file)) if file.endswith(".py") else (text_of(file),)


def prose_of_module(module: str) -> Iterator[str]:
    source = text_of(module)
    yield from _COMMENT.findall(source)
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def statements(module: ast.Module) -> Iterator[ast.AST]:
    """A module and all statements in it; not their expressions, which are most of it and define nothing."""
    found: deque[ast.AST] = deque([module])
    while found:
        node = found.popleft()
        yield node
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            found.extend(getattr(node, field, ()))


def prose_with(file: str, *patterns: re.Pattern[str]) -> tuple[str, ...]:
    """The prose of a file; none of a file where nothing matches: most are not read any further."""
    text = text_of(file)
    return prose(file) if any(pattern.search(text) for pattern in patterns) else ()


def exists(name: str, seen_from: Path) -> bool:
    """Whether there is such a file: seen from the root, from a folder of it, or from where it is named."""
    places = (ROOT, seen_from, *(ROOT / folder for folder in FOLDERS))
    return any((place / name).exists() for place in places)


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r": (\S+\.md)$", text_of("mkdocs.yml"), re.MULTILINE)
    assert sorted(f"docs/{name}" for name in named) == sorted(pages().keys() - {README})


def test_files_and_folders_exist() -> None:
    named = {
        (file, name)
        for file in (*DOCUMENTS, *MODULES)
        for text in prose_with(file, _PYTHON_FILE, _FOLDER)
        for pattern in (_PYTHON_FILE, _FOLDER)
        for name in pattern.findall(text)
    }
    missing = {(file, name) for file, name in named if not exists(name, (ROOT / file).parent)}
    assert missing - {(file, name) for file in DOCUMENTS for name in _SHOWN.findall(text_of(file))} == set()


def test_every_package_is_in_the_architecture() -> None:
    named = set(_FOLDER.findall(text_of("docs/explanation/architecture.md")))
    packages = {
        str(path.parent.relative_to(ROOT))
        for folder in ("apiserver", "storage")
        for path in (ROOT / folder).glob("*/__init__.py")
        if not path.parent.is_symlink()  # apiserver.storage is the folder storage
    }
    assert packages - named == set()


@cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def resolves(name: str) -> bool:
    """Whether a dotted name is a module or something in one."""
    parts = name.split(".")
    if parts[0] == "storage":  # the folder of the package apiserver.storage
        parts.insert(0, "apiserver")
    count = max(n for n in range(1, len(parts) + 1) if is_module(".".join(parts[:n])))
    found: object = importlib.import_module(".".join(parts[:count]))
    for part in parts[count:]:
        annotated = getattr(found, "__annotations__", {})
        if not hasattr(found, part):
            return part in annotated
        found = getattr(found, part)
    return True


def full_names(file: str, text: str) -> Iterator[str]:
    """The dotted names in backticks that begin with a package, or with a module beside the file."""
    package = ".".join(Path(file).parent.parts)
    for name in _DOTTED.findall(text):
        first = name.split(".")[0]
        if _API_GROUP.search(name) or _FILE.search(name) or name in CEL_NAMES:
            continue
        if first in FOLDERS and is_module(first):
            yield name
        elif package and is_module(f"{package}.{first}"):
            yield f"{package}.{name}"


def test_modules_and_what_is_in_them_exist() -> None:
    named = {
        (file, name)
        for file in (*DOCUMENTS, *MODULES)
        for text in prose_with(file, _DOTTED)
        for name in full_names(file, text)
    }
    assert {(file, name) for file, name in named if not resolves(name)} == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_symbols_named_after_their_file_exist(document: str) -> None:
    named = {
        f"{path.replace('/', '.').removesuffix('.__init__')}.{symbol}"
        for path, symbol in _SYMBOL.findall(text_of(document))
    }
    assert {name for name in named if not resolves(name)} == set()


# A package for each API group stands in it; `catalogue.builtins` names them all.
PACKAGES: Final = sorted(
    path.parent.relative_to(ROOT)
    for folder in ("apiserver", "storage")
    for path in (ROOT / folder).rglob("__init__.py")
    if path.parent != ROOT / "apiserver" / "catalogue"
)


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_a_package_that_maps_its_modules_leaves_none_out(package: Path) -> None:
    docstring = next(prose_of_module(str(package / "__init__.py")), "")
    modules = {
        path.stem
        for path in (ROOT / package).iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").exists()) and not path.stem.startswith("__")
    }
    mapped = {name for names in _MAPPED.findall(docstring) for name in names.split(", ")}
    if mapped & modules:
        # A name of the list may be that of a package elsewhere.
        assert {name for name in mapped - modules if not (ROOT / name).is_dir()} == set()
        assert modules - set(re.findall(r"\w+", docstring)) == set()
