"""The page about the console shows pictures of the console that there is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.console.tour import PICTURES, STOPS

PAGE = Path(__file__).parents[2] / "docs" / "operating" / "console-tour.md"


def test_each_picture_is_of_a_stop_of_the_tour() -> None:
    named = set(re.findall(r"\(console/(\w+)\.png\)", PAGE.read_text()))
    made = {path.stem for path in PICTURES.iterdir()}
    assert named <= made == set(STOPS)


def test_pictures_are_pictures() -> None:
    for path in PICTURES.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG\r\n"), path
