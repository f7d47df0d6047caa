"""Several modules of a page as one: what runs, in which order, and what it exports."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.console.joined_modules import InvalidModule, JoinedModules

PAGE: Final = {
    "main.js": """/** Begins. */
import * as state from "./state.js";
import {
  html as text,
  signal,
} from "./vendor/small.js";
import Start from "./views/start.js";

/** @type {import("./state.js").State} */
export const now = signal(text`${state.count}`);
void import("./views/start.js").then(show);
void import("./views/other.js").then(show);
""",
    "state.js": """import { signal } from "./vendor/small.js";

export const count = signal(0);
export async function read() {}
export class State {}
const hidden = 1;
""",
    "vendor/small.js": "var a=1,b=2;export{a as signal,b as html,c};\n",
    "views/start.js": """import { count } from "../state.js";

export default function Start() {}
export function title() {}
""",
}


def test_the_joined_module_runs_each_module_once_after_those_that_it_imports() -> None:
    page = {**PAGE, "main.js": PAGE["main.js"].replace('import Start from "./views/start.js";\n', "")}
    assert (
        JoinedModules(["views/start.js", "main.js"], page.__getitem__).text
        == """// vendor/small.js
const module_0 = (() => {
var a=1,b=2;
return { signal: a, html: b, c: c };
})();
// state.js
const module_1 = (() => {
const { signal } = module_0;

const count = signal(0);
async function read() {}
class State {}
const hidden = 1;

return { count: count, read: read, State: State };
})();
// views/start.js
const module_2 = (() => {
const { count } = module_1;

function Start() {}
function title() {}

return { default: Start, title: title };
})();
// main.js
const module_3 = (() => {
const state = module_1;
const { html: text, signal } = module_0;
/** Begins. */

/** @type {import("./state.js").State} */
const now = signal(text`${state.count}`);
void Promise.resolve(module_2).then(show);
void import("./views/other.js").then(show);

return { now: now };
})();
export const modules = { "vendor/small.js": module_0, "state.js": module_1, "views/start.js": module_2, \
"main.js": module_3 };
"""
    )


def test_a_module_that_is_loaded_later_gets_its_imports_from_the_joined_one() -> None:
    found = JoinedModules(["state.js"], PAGE.__getitem__)
    assert ["state.js" in found, "vendor/small.js" in found, "views/start.js" in found] == [True, True, False]
    text = """/** A view. */
import { other } from "../other.js";
import * as state from "../state.js";
import {
  html as text,
  signal,
} from "../vendor/small.js";
"""
    assert (
        found.linked("views/later.js", text)
        == """import { modules } from "../first_view.js";
/** A view. */
import { other } from "../other.js";
const state = modules["state.js"];
const { html: text, signal } = modules["vendor/small.js"];
"""
    )
    alone = 'import { other } from "./other.js";\n'
    assert found.linked("later.js", alone) == alone


@pytest.mark.parametrize(
    ("text", "error"),
    {
        "an import for its effects": ('import "./a.js";\n', 'main.js: import "./a.js";'),
        "a default import": ('import Start from "./state.js";\n', "main.js: import Start"),
        "a name that is not exported": (
            'import { lost } from "./state.js";\n',
            "main.js: state.js does not export lost",
        ),
        "a binding that changes": ("export let a = 1;\n", "main.js: export let a = 1;"),
        "what another module exports": (
            'export { a } from "./a.js";\n',
            'main.js: export { a } from "./a.js";',
        ),
        "a circle": ('import { a } from "./main.js";\n', "main.js imports itself by way of main.js"),
    }.values(),
)
def test_what_is_not_joined(text: str, error: str) -> None:
    with pytest.raises(InvalidModule) as raised:
        JoinedModules(["main.js"], {**PAGE, "main.js": text}.__getitem__)
    assert str(raised.value) == error


@pytest.mark.parametrize(
    "text",
    [
        'import "../state.js";\n',
        'export { count } from "../state.js";\n',
        'import { count } from "../state.js"; // the same\n',
        'const later = () => import("../state.js");\n',
    ],
)
def test_a_module_that_is_loaded_later_makes_no_copy_of_one_in_the_joined_one(text: str) -> None:
    with pytest.raises(InvalidModule):
        JoinedModules(["state.js"], PAGE.__getitem__).linked("views/later.js", text)


def test_a_module_below_another_directory_loads_none_later() -> None:
    """Its path would be taken for one beside the joined module."""
    text = 'const a = () => import("./b.js");\n'
    with pytest.raises(InvalidModule):
        JoinedModules(["views/a.js"], {"views/a.js": text}.__getitem__)
    assert text in JoinedModules(["a.js"], {"a.js": text}.__getitem__).text
