"""Several modules of a page as one: what runs, in which order, and what it exports."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.console.joined_modules import JOINED, UnknownSyntax, join

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
        join(["views/start.js", "main.js"], page.__getitem__)[JOINED]
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
const { html: text, signal, } = module_0;
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


def test_each_module_exports_what_the_joined_one_has() -> None:
    found = join(["views/start.js"], PAGE.__getitem__)
    assert sorted(found) == [JOINED, "state.js", "vendor/small.js", "views/start.js"]
    assert (
        found["views/start.js"]
        == """import { modules } from "../first_view.js";
const module = modules["views/start.js"];
export const { title } = module;
export default module.default;
"""
    )
    assert (
        found["state.js"]
        == """import { modules } from "./first_view.js";
const module = modules["state.js"];
export const { count, read, State } = module;
"""
    )


@pytest.mark.parametrize(
    ("text", "error"),
    {
        "an import for its effects": ('import "./a.js";\n', 'main.js: import "./a.js";'),
        "a default import": ('import Start from "./state.js";\n', "import Start"),
        "a binding that changes": ("export let a = 1;\n", "main.js: export let a = 1;"),
        "what another module exports": (
            'export { a } from "./a.js";\n',
            'main.js: export { a } from "./a.js";',
        ),
        "a circle": ('import { a } from "./main.js";\n', "main.js imports itself by way of main.js"),
    }.values(),
)
def test_what_is_not_joined(text: str, error: str) -> None:
    with pytest.raises(UnknownSyntax) as raised:
        join(["main.js"], {**PAGE, "main.js": text}.__getitem__)
    assert str(raised.value) == error


def test_a_module_below_another_directory_loads_none_later() -> None:
    """Its path would be taken for one beside the joined module."""
    text = 'const a = () => import("./b.js");\n'
    with pytest.raises(UnknownSyntax):
        join(["views/a.js"], {"views/a.js": text}.__getitem__)
    assert text in join(["a.js"], {"a.js": text}.__getitem__)[JOINED]
