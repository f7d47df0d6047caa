"""`apiserver` and its commands: help, versions, hints after mistakes, and completion."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from apiserver import __version__
from apiserver.__main__ import main
from apiserver.cli import help_page
from apiserver.cli.argument_parser import HELP_WIDTH_MIN
from apiserver.cli.commands import COMMANDS
from apiserver.cli.completion import SHELLS
from apiserver.cli.flags import SECTIONS, build_parser, default_of
from apiserver.meta.releases.emulation import EmulatedRelease

RELEASE: Final = EmulatedRelease()
VERSION: Final = f"apiserver {__version__}, serves Kubernetes {RELEASE}\n"


class Ended:
    """What a command has returned and printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        try:
            self.code: object = main(arguments)
        except SystemExit as end:  # argparse's, for --help
            self.code = end.code
        self.out, self.err = capsys.readouterr()


# ---- help


HELP: Final = {"a short flag": ["-h"], "a long flag": ["--help"], "a command": ["help"]}


@pytest.mark.parametrize("arguments", HELP.values(), ids=HELP)
def test_help_is_a_page(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    end = Ended(capsys, *arguments)
    assert (end.code, end.err) == (0, "")
    assert end.out == help_page.help_page()
    assert len(end.out.splitlines()) <= 50


def test_help_has_a_line_for_each_command() -> None:
    listed = help_page.help_page(110).partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == list(COMMANDS)
    assert all(line.endswith(".") for line in listed)


def test_help_shows_flags_and_defaults_as_they_are_declared() -> None:
    declared = {flag.name: flag for flags in SECTIONS.values() for flag in flags}
    shown = {names.split()[-2]: text for names, text in help_page.FLAGS}
    assert len(shown) == 10
    of_parser = {"--config"}
    # Depend on other flags.
    texts = {"--storage-backend": "etcd3 or embedded", "--emulated-version": str(RELEASE)}
    for name in shown.keys() - of_parser:
        flag = declared[name]
        default = texts.get(name) or flag.default or default_of(flag)
        assert re.findall(r"\(default ([^)]*)\)", shown[name]) == ([default] if default else []), name
    for names, _ in (*help_page.FLAGS, *help_page.GENERAL_FLAGS):
        for name in re.findall(r"--?[a-z][a-z-]*", names):
            assert name in build_parser()._option_string_actions


is_whole: Final = re.compile(r"  -| +apiserver |  (bash|zsh|fish|KUBEBUILDER_ASSETS=)| *\S+$").match


PRINTED: Final = """
import contextlib, json, sys
from apiserver.__main__ import main
for page in json.loads(sys.argv[1]):
    with contextlib.suppress(SystemExit):
        main(page)
"""


@pytest.mark.parametrize("width", [HELP_WIDTH_MIN, 38, 78, 110])
def test_help_fits_the_terminal(width: int) -> None:
    pages = [["--help"], *([name, "--help"] for name in sorted(COMMANDS))]
    pages += [["snapshot", "save", "--help"], ["storage", "rewrite", "--help"], ["auth", "explain", "--help"]]
    printed = subprocess.run(
        [sys.executable, "-c", PRINTED, json.dumps(pages)],
        env={**os.environ, "COLUMNS": str(width + 2)},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert printed.count("Usage:") == len(pages)
    # Names and what can be copied are not broken.
    assert [line for line in printed.splitlines() if len(line) > width and not is_whole(line)] == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_has_help(capsys: pytest.CaptureFixture[str], name: str) -> None:
    end = Ended(capsys, name, "--help")
    assert (end.code, end.err) == (0, "")
    assert end.out
    assert Ended(capsys, "help", name).out == end.out


def test_all_help_has_all_flags(capsys: pytest.CaptureFixture[str]) -> None:
    end = Ended(capsys, "--help-all")
    assert (end.code, end.err) == (0, "")
    for flags in SECTIONS.values():
        for flag in flags:
            assert f"{flag.name} " in end.out


# ---- versions


VERSIONS: Final = {
    "a command": ["version"],
    "a flag": ["--version"],
    "behind flags of the server": ["serve", "--v=4", "--version"],
    "of a subcommand": ["snapshot", "save", "--version"],
}


@pytest.mark.parametrize("arguments", VERSIONS.values(), ids=VERSIONS)
def test_the_version_names_product_and_release(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    end = Ended(capsys, *arguments)
    assert (end.code, end.out, end.err) == (0, VERSION, "")


def test_the_version_of_kube_apiserver_is_written_as_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert Ended(capsys, "kube-apiserver", "--version").out == f"Kubernetes {RELEASE.git_version}\n"


def test_the_version_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(Ended(capsys, "version", "-o", "json").out)
    assert document["apiserver"] == __version__
    assert document["kubernetes"] == str(RELEASE)
    assert document["gitVersion"] == RELEASE.git_version


# ---- mistakes


MISTAKES: Final = {
    "a command": (["snaphot"], "unknown command 'snaphot'; did you mean snapshot? See 'apiserver --help'"),
    "a command like no other": (["qqq"], "unknown command 'qqq'. See 'apiserver --help'"),
    "help about no command": (
        ["help", "converts"],
        "unknown command 'converts'; did you mean convert? See 'apiserver --help'",
    ),
    "a flag of the server": (
        ["--etcd-server=x"],
        "unknown flag: --etcd-server; did you mean --etcd-servers? See 'apiserver --help'",
    ),
    "a flag of a subcommand": (
        ["convert", "-f", "-", "--relase=1.34"],
        "convert: unknown flag: --relase; did you mean --release? See 'apiserver convert --help'",
    ),
    "what is no flag": (
        ["version", "now"],
        "version: unexpected argument 'now'. See 'apiserver version --help'",
    ),
    "a flag that version does not have": (
        ["version", "--outptu=json"],
        "version: unknown flag: --outptu; did you mean --output? See 'apiserver version --help'",
    ),
    "a flag nobody knows before a missing argument": (
        ["snapshot", "save", "--qqq"],
        "snapshot save: unknown flag: --qqq. See 'apiserver snapshot save --help'",
    ),
    "a flag nobody knows before a missing command": (
        ["snapshot", "--nope"],
        "snapshot: unknown flag: --nope. See 'apiserver snapshot --help'",
    ),
    "a short flag of the server": (["-o"], "unknown flag: -o. See 'apiserver --help'"),
    "two dashes": (["serve", "--", "x"], "unexpected argument '--'. See 'apiserver --help'"),
    "a flag of help": (["help", "--nope"], "help: unknown flag: --nope. See 'apiserver --help'"),
    "no command of faults": (
        ["faults"],
        "faults: the following arguments are required: add|list|clear|compact. See 'apiserver faults --help'",
    ),
    "an empty data directory": (
        ["--data-dir="],
        "argument --data-dir: the path must not be empty. See 'apiserver --help'",
    ),
    "an empty path of a kubeconfig": (
        ["deprecations", "--kubeconfig", ""],
        (
            "deprecations: argument --kubeconfig: the path must not be empty."
            " See 'apiserver deprecations --help'"
        ),
    ),
    "an empty path of a snapshot": (
        ["snapshot", "save", ""],
        "snapshot save: argument FILE: the path must not be empty. See 'apiserver snapshot save --help'",
    ),
    "an empty path of a manifest": (
        ["convert", "-f", ""],
        "convert: argument -f/--filename: the path must not be empty. See 'apiserver convert --help'",
    ),
    "an empty path of a log": (
        ["audit", "summary", ""],
        "audit summary: argument FILE: the path must not be empty. See 'apiserver audit summary --help'",
    ),
    "an empty path of a directory": (
        ["envtest-assets", ""],
        "envtest-assets: argument DIR: the path must not be empty. See 'apiserver envtest-assets --help'",
    ),
    "a missing argument": (
        ["snapshot", "save"],
        "snapshot save: the following arguments are required: FILE. See 'apiserver snapshot save --help'",
    ),
}


@pytest.mark.parametrize(("arguments", "line"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_a_line_and_a_hint(
    capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    end = Ended(capsys, *arguments)
    assert (end.code, end.out, end.err) == (2, "", f"apiserver: {line}\n")


@pytest.mark.parametrize(
    "flags", [["--logging-format=json"], ["--logging-format", "json"]], ids=["one word", "two words"]
)
def test_a_mistake_is_json_where_logs_are(capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    end = Ended(capsys, *flags, "--etcd-server=x")
    record = json.loads(end.err)
    assert (end.code, record["level"]) == (2, "error")
    assert record["msg"].startswith("unknown flag: --etcd-server;")


@pytest.mark.parametrize("line", ["logging-format: json", "logging-format: 'json'  # for the collector"])
def test_a_mistake_in_a_file_is_json_where_logs_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{line}\netcd-server: x\n")
    for flags in ([f"--config={file}"], ["--config", str(file)]):
        record = json.loads(Ended(capsys, *flags).err)
        assert record["msg"].startswith(f"{file}: unknown flag: --etcd-server; did you mean --etcd-servers?")


# ---- completion


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_commands_and_flags(
    capsys: pytest.CaptureFixture[str], shell: str, tmp_path: Path
) -> None:
    end = Ended(capsys, "completion", shell)
    assert (end.code, end.err) == (0, "")
    for word in (*COMMANDS, "etcd-servers", "all-namespaces", "recursive", "rewrite"):
        assert word in end.out
    if program := shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(end.out)
        subprocess.run([program, "-n", script], check=True)


# What is typed before Tab, and what is offered.
COMPLETIONS: Final = {
    "commands": (["apiserver", "snap"], {"snapshot"}),
    "flags of the server": (["apiserver", "--etcd-s"], {"--etcd-servers", "--etcd-start-timeout"}),
    "flags of a command": (["apiserver", "convert", "--rel"], {"--release"}),
    "subcommands": (["apiserver", "snapshot", "s"], {"save", "status"}),
    "flags of a subcommand": (["apiserver", "snapshot", "save", "--fo"], {"--force"}),
    "values": (["apiserver", "completion", ""], {"bash", "zsh", "fish"}),
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(("words", "offered"), COMPLETIONS.values(), ids=COMPLETIONS)
def test_what_bash_completes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], offered: set[str]
) -> None:
    script = tmp_path / "completion"
    script.write_text(Ended(capsys, "completion", "bash").out)
    asked = f"""
        source {script}
        COMP_WORDS=({" ".join(repr(word) for word in words)}) COMP_CWORD={len(words) - 1}
        $(complete -p apiserver | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    end = subprocess.run(["bash", "-c", asked], check=True, capture_output=True, text=True)
    assert (set(end.stdout.split()), end.stderr) == (offered, "")
