"""From text to tree, and what is told of texts that have none.

Texts of messages: cel-go parser_test.go, and ANTLR's with cel-go's grammar.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.cel import parser
from apiserver.cel.macros import BINDINGS, OPTIONAL_MACROS, STANDARD, TWO_VARIABLES, by_name
from apiserver.cel.syntax import (
    Bind,
    Call,
    Comprehension,
    Constant,
    CreateList,
    CreateMap,
    CreateMessage,
    Ident,
    InvalidExpression,
    Node,
    Select,
)
from apiserver.cel.values import UInt

ALL_MACROS = by_name(STANDARD, TWO_VARIABLES, OPTIONAL_MACROS, BINDINGS)


def parsed(text: str) -> Node:
    return parser.parse(text, ALL_MACROS, quoted_fields=True)


def refusal(text: str) -> InvalidExpression | None:
    try:
        parsed(text)
    except InvalidExpression as refused:
        return refused
    return None


def messages(text: str) -> list[str]:
    """What is wrong with a text: `line:column: message`, without the lines that show it."""
    with pytest.raises(InvalidExpression) as failure:
        parser.parse(text, ALL_MACROS)
    return re.findall(r"^ERROR: <input>:(.*)$", str(failure.value), re.MULTILINE)


def shown(node: Node | None) -> str:
    """A tree in one line: calls by their functions' names, what loops by its macro."""
    match node:
        case None:
            return "-"
        case Constant(value=UInt()):
            return f"{int(node.value)}u"
        case Constant():
            return repr(node.value)
        case Ident():
            return node.name
        case Select():
            dot = ".?" if node.is_optional else "."
            text = f"{shown(node.operand)}{dot}{node.field}"
            return f"has({text})" if node.is_test else text
        case Call():
            target = "" if node.target is None else f"{shown(node.target)}."
            return f"{target}{node.function}({', '.join(map(shown, node.args))})"
        case CreateList():
            items = ("?" * (i in node.optional) + shown(item) for i, item in enumerate(node.items))
            return f"[{', '.join(items)}]"
        case CreateMap() | CreateMessage():
            keys = [each.key if isinstance(each.key, str) else shown(each.key) for each in node.entries]
            entries = (
                f"{'?' * each.is_optional}{key}: {shown(each.value)}"
                for key, each in zip(keys, node.entries, strict=True)
            )
            name = node.name if isinstance(node, CreateMessage) else ""
            return f"{name}{{{', '.join(entries)}}}"
        case Comprehension():
            parts = [shown(node.range), *node.variables, shown(node.condition), shown(node.result)]
            return f"{node.macro}<{', '.join(parts)}>"
        case Bind():
            return f"bind<{node.name}, {shown(node.value)}, {shown(node.body)}>"


# https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax
TREES = {
    "products bind tighter than sums": ("1 + 2 * 3 - 4", "_-_(_+_(1, _*_(2, 3)), 4)"),
    "sums tighter than relations": ("a + 1 < b", "_<_(_+_(a, 1), b)"),
    "in is a relation": ("1 in [1] == true", "_==_(@in(1, [1]), True)"),
    "relations tighter than and": ("a < b && c", "_&&_(_<_(a, b), c)"),
    "and tighter than or": ("a || b && c || d", "_||_(_||_(a, _&&_(b, c)), d)"),
    "or tighter than a conditional": ("a || b ? c : d", "_?_:_(_||_(a, b), c, d)"),
    "operators group to the left": ("1 - 2 - 3 % 4 / 5", "_-_(_-_(1, 2), _/_(_%_(3, 4), 5))"),
    "conditionals group to the right": ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
    "chains of and are balanced": ("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"),
    "chains of or, too": ("a || b || c || d || e", "_||_(_||_(_||_(a, b), c), _||_(d, e))"),
    "parentheses are not kept": ("(1 + (2)) * 3", "_*_(_+_(1, 2), 3)"),
    "an even number of signs is none": ("!!a && --b", "_&&_(a, b)"),
    "an odd one is one": ("!!!a && ---b", "_&&_(!_(a), -_(b))"),
    "a sign is of all that is selected": ("!a.b[0] || -a.f()", "_||_(!_(_[_](a.b, 0)), -_(a.f()))"),
    "but a number has its own": ("-1.f() - -2", "_-_(-1.f(), -2)"),
    "the least int is one literal": ("-9223372036854775808", "-9223372036854775808"),
    "names may be looked up at the root": (".a.b + .f(c)", "_+_(.a.b, .f(c))"),
    "calls, methods and indices": ("f()[g(1, 2)].h(x).i", "_[_](f(), g(1, 2)).h(x).i"),
    "methods of namespaces look like others": ("math.greatest(1, 2)", "math.greatest(1, 2)"),
    "lists and maps may end in a comma": ("[1, {'a': 2,},]", "[1, {'a': 2}]"),
    "even if it is all there is": ("[,] + {,}", "_+_([], {})"),
    "messages have qualified names": (".a.B{c: 1, d: C{}}.e", ".a.B{c: 1, d: C{}}.e"),
    "optional syntax": ("a.?b[?c] + [?d, e] + {?'f': g} + H{?i: j}", None),
    "fields may be quoted": ("a.`b-c`.`in` + M{`d/e`: 1}", "_+_(a.b-c.in, M{d/e: 1})"),
    "fields may be reserved words": ("a.if.package.f()", "a.if.package.f()"),
    "comments and any white space": ("a // b\n\t+\r\n\f// c\n d", "_+_(a, d)"),
    "keywords": ("[true, false, null]", "[True, False, None]"),
}


@pytest.mark.parametrize(("text", "tree"), TREES.values(), ids=TREES)
def test_trees(text: str, tree: str | None) -> None:
    assert shown(parsed(text)) == (tree or "_+_(_+_(_+_(_[?_](a.?b, c), [?d, e]), {?'f': g}), H{?i: j})")


LITERALS = {
    "decimal and hexadecimal ints": ("[0, 007, 0x1F, -0x10]", [0, 7, 31, -16]),
    "uints are of a type of their own": (
        "[1u, 0xFFU, 18446744073709551615u]",
        [UInt(1), UInt(255), UInt(2**64 - 1)],
    ),
    "doubles": ("[1.5, .5, 1e3, -1.5e-3, 1E+2]", [1.5, 0.5, 1000.0, -0.0015, 100.0]),
    "quotes of both kinds": (r"""['a"b', "a'b", '', "\"\'"]""", ['a"b', "a'b", "", "\"'"]),
    "three quotes go over lines": ("['''a'\n''b''', \"\"\"\"\"\"]", ["a'\n''b", ""]),
    "line ends are one character": ("'''a\r\nb\rc'''", "a\nb\nc"),
    "raw strings have no escapes": (r"""[r'\n', R"\\", r'''\''']""", [r"\n", r"\\", "\\"]),
    "escapes": (r"'\a\b\f\n\r\t\v\?\`\\'", "\a\b\f\n\r\t\v?`\\"),
    "escaped code points": (r"'\x41\u00e9\U0001F600\101\377'", "Aé😀Aÿ"),
    "escaped octets of bytes": (r"b'\x41\303\277\n'", b"A\xc3\xbf\n"),
    "characters of bytes are UTF-8": ("[b'ÿ', B\"é\", br'\\x']", ["ÿ".encode(), "é".encode(), b"\\x"]),
    "characters beyond the basic plane": ("'😀'", "😀"),
}


@pytest.mark.parametrize(("text", "value"), LITERALS.values(), ids=LITERALS)
def test_literals(text: str, value: object) -> None:
    node = parsed(text)
    found = (
        [item.value for item in node.items if isinstance(item, Constant)]
        if isinstance(node, CreateList)
        else None
    )
    got = found if found is not None else node.value if isinstance(node, Constant) else None
    assert got == value
    if isinstance(value, list) and isinstance(got, list):
        assert [type(each) for each in got] == [type(each) for each in value]


MAPPED = "bind<x, @target.value(), x>"
EXPANSIONS = {
    "has": ("has(a.b.c)", "has(a.b.c)"),
    "all": ("a.all(x, x > 1)", "all<a, x, _>_(x, 1), ->"),
    "exists": ("a.exists(x, x)", "exists<a, x, x, ->"),
    "exists_one": ("a.exists_one(x, x)", "existsOne<a, x, x, ->"),
    "existsOne": ("a.existsOne(x, x)", "existsOne<a, x, x, ->"),
    "filter": ("a.filter(x, x)", "filter<a, x, x, ->"),
    "map": ("a.map(x, x)", "map<a, x, -, x>"),
    "map of some": ("a.map(x, x > 1, [x])", "map<a, x, _>_(x, 1), [x]>"),
    "all of entries": ("a.all(k, v, v)", "all<a, k, v, v, ->"),
    "exists of entries": ("a.exists(k, v, v)", "exists<a, k, v, v, ->"),
    "existsOne of entries": ("a.existsOne(k, v, v)", "existsOne<a, k, v, v, ->"),
    "transformList": ("a.transformList(k, v, v)", "transformList<a, k, v, -, v>"),
    "transformList of some": ("a.transformList(k, v, k, v)", "transformList<a, k, v, k, v>"),
    "transformMap": ("a.transformMap(k, v, v)", "transformMap<a, k, v, -, v>"),
    "transformMap of some": ("a.transformMap(k, v, k, v)", "transformMap<a, k, v, k, v>"),
    "transformMapEntry": ("a.transformMapEntry(k, v, {v: k})", "transformMapEntry<a, k, v, -, {v: k}>"),
    "bind": ("cel.bind(x, 1, x + x)", "bind<x, 1, _+_(x, x)>"),
    "a method that is called bind": ("a.bind(x, 1, x)", "a.bind(x, 1, x)"),
    "optMap": (
        "a.optMap(x, x)",
        f"bind<@target, a, _?_:_(@target.hasValue(), optional.of({MAPPED}), optional.none())>",
    ),
    "optFlatMap": (
        "a.optFlatMap(x, x)",
        f"bind<@target, a, _?_:_(@target.hasValue(), {MAPPED}, optional.none())>",
    ),
    "other counts of arguments are calls": (
        "a.all(x) + has() + a.map(x)",
        "_+_(_+_(a.all(x), has()), a.map(x))",
    ),
    "so are functions of a method's name": ("all(x, y)", "all(x, y)"),
    "and methods of a function's": ("a.has(b.c)", "a.has(b.c)"),
    "macros in each other": ("a.all(x, x.exists(y, has(y.z)))", "all<a, x, exists<x, y, has(y.z), ->, ->"),
}


@pytest.mark.parametrize(("text", "tree"), EXPANSIONS.values(), ids=EXPANSIONS)
def test_macros(text: str, tree: str) -> None:
    """Row R02."""
    assert shown(parsed(text)) == tree


def test_without_macros_they_are_calls() -> None:
    assert shown(parser.parse("a.all(x, has(x.y))", {})) == "a.all(x, has(x.y))"


OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
ENTRY = OPERAND.replace("'{'", "'{', '}'").replace("'.'", "'.', ','").replace("'!'", "'!', '?'")
SYNTAX_ERRORS = {
    "nothing": ("", [f"1:1: Syntax error: mismatched input '<EOF>' expecting {OPERAND}"]),
    "a missing operand": ("1 +", [f"1:4: Syntax error: mismatched input '<EOF>' expecting {OPERAND}"]),
    "two operators": ("1 +* 2", [f"1:4: Syntax error: extraneous input '*' expecting {OPERAND}"]),
    "one more, and no operand": (
        "1 + +",
        [
            f"1:5: Syntax error: mismatched input '+' expecting {OPERAND}",
            f"1:6: Syntax error: mismatched input '<EOF>' expecting {OPERAND}",
        ],
    ),
    "two operands": ("self.s == 'a' 'b'", ["1:15: Syntax error: extraneous input ''b'' expecting <EOF>"]),
    "an operand in the next line": (
        "1 + 2\n3 +",
        ["2:1: Syntax error: mismatched input '3' expecting <EOF>"],
    ),
    "an open parenthesis": ("(1", ["1:3: Syntax error: missing ')' at '<EOF>'"]),
    "an open index": ("a[1", ["1:4: Syntax error: missing ']' at '<EOF>'"]),
    "an open list": ("[1", ["1:3: Syntax error: mismatched input '<EOF>' expecting {']', ','}"]),
    "an open map": ("{", [f"1:2: Syntax error: mismatched input '<EOF>' expecting {ENTRY}"]),
    "an open message": ("Object{zz", ["1:10: Syntax error: mismatched input '<EOF>' expecting ':'"]),
    "too many closed": ("a)", ["1:2: Syntax error: extraneous input ')' expecting <EOF>"]),
    "no key": (
        "{:a}",
        [
            f"1:2: Syntax error: extraneous input ':' expecting {ENTRY}",
            "1:4: Syntax error: mismatched input '}' expecting ':'",
        ],
    ),
    "no colon": ("{a}", ["1:3: Syntax error: mismatched input '}' expecting ':'"]),
    "messages in messages' names": (
        "func{{a}}",
        [
            "1:6: Syntax error: extraneous input '{' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}",
            "1:8: Syntax error: mismatched input '}' expecting ':'",
            "1:9: Syntax error: extraneous input '}' expecting <EOF>",
        ],
    ),
    "a conditional with one branch": ("a ? b", ["1:6: Syntax error: mismatched input '<EOF>' expecting ':'"]),
    "a conditional in a branch": ("a ? b ? c : d", ["1:7: Syntax error: mismatched input '?' expecting ':'"]),
    "no field": ("a.", ["1:3: Syntax error: no viable alternative at input '.'"]),
    "a field that is a string": ("a.'b'", ["1:3: Syntax error: no viable alternative at input '.'b''"]),
    "a field that is a keyword": (
        "self.true == 1",
        ["1:6: Syntax error: mismatched input 'true' expecting IDENTIFIER"],
    ),
    "a field that is a number": (
        "has(self.1abc)",
        ["1:5: invalid argument to has() macro", "1:9: Syntax error: mismatched input '.1' expecting ')'"],
    ),
    "a message of a call": ("T(){}", ["1:4: Syntax error: mismatched input '{' expecting <EOF>"]),
    "a call of a message": ("T{}()", ["1:4: Syntax error: mismatched input '(' expecting <EOF>"]),
    "a sign alone": (
        "--",
        [
            "1:3: Syntax error: no viable alternative at input '-'",
            f"1:3: Syntax error: mismatched input '<EOF>' expecting {OPERAND}",
        ],
    ),
    "assignment": (
        "a = b",
        [
            "1:3: Syntax error: token recognition error at: '= '",
            "1:5: Syntax error: extraneous input 'b' expecting <EOF>",
        ],
    ),
    "a string without its end": (
        "'abc",
        [
            "1:1: Syntax error: token recognition error at: ''abc'",
            f"1:5: Syntax error: mismatched input '<EOF>' expecting {OPERAND}",
        ],
    ),
    "an escape that is none": (
        r"'\q'",
        [
            r"1:1: Syntax error: token recognition error at: ''\q'",
            "1:4: Syntax error: token recognition error at: '''",
            f"1:5: Syntax error: mismatched input '<EOF>' expecting {OPERAND}",
        ],
    ),
    "a keyword as a name": (
        "in",
        [
            f"1:1: Syntax error: mismatched input 'in' expecting {OPERAND}",
            f"1:3: Syntax error: mismatched input '<EOF>' expecting {OPERAND}",
        ],
    ),
    "a quoted name": ("`b-c`", [f"1:1: Syntax error: mismatched input '`b-c`' expecting {OPERAND}"]),
    "tabs and line ends are shown as escapes": ("a =\tb", None),
}


@pytest.mark.parametrize(("text", "expected"), SYNTAX_ERRORS.values(), ids=SYNTAX_ERRORS)
def test_syntax_errors(text: str, expected: list[str] | None) -> None:
    assert messages(text) == (
        expected
        or [
            r"1:3: Syntax error: token recognition error at: '=\t'",
            "1:5: Syntax error: extraneous input 'b' expecting <EOF>",
        ]
    )


OTHER_ERRORS = {
    "reserved words": ("if + while(a)", ["1:1: reserved identifier: if", "1:6: reserved identifier: while"]),
    "reserved words at the root": ("1 + .if", ["1:5: reserved identifier: if"]),
    "a loop over a reserved word": (
        "[1].map(var, var * var)",
        [
            "1:9: reserved identifier: var",
            "1:9: argument is not an identifier",
            "1:14: reserved identifier: var",
            "1:20: reserved identifier: var",
        ],
    ),
    "ints": ("9223372036854775808", ["1:1: invalid int literal"]),
    "ints below": ("1 + -9223372036854775809", ["1:5: invalid int literal"]),
    "ints of which the sign is not the number's": ("--9223372036854775808", ["1:3: invalid int literal"]),
    "ints of many digits": ("9" * 9999, ["1:1: invalid int literal"]),
    "uints": ("18446744073709551616u", ["1:1: invalid uint literal"]),
    "doubles": ("1e999", ["1:1: invalid double literal"]),
    "surrogates": (r"'\udead'", ["1:1: invalid unicode code point"]),
    "code points that do not exist": (r"'\U00110000'", ["1:1: invalid unicode code point"]),
    "code points in bytes": (r"b'\u0041'", ["1:1: unable to unescape string"]),
    "has() of no field": ("has(a)", ["1:5: invalid argument to has() macro"]),
    "has() of an optional field": ("has(a.?b)", ["1:6: invalid argument to has() macro"]),
    "has() of an element": ("has(a['b'])", ["1:6: invalid argument to has() macro"]),
    "loops without a variable": ("1.all(2, 3)", ["1:7: argument must be a simple name"]),
    "loops over a field": ("a.exists(b.c, d)", ["1:11: argument must be a simple name"]),
    "maps without a variable": ("a.map(1, 2)", ["1:7: argument is not an identifier"]),
    "filters without a variable": ("a.filter(1, 2)", ["1:10: argument is not an identifier"]),
    "a name that is the loop's own": (
        "[].existsOne(__result__, true)",
        ["1:14: iteration variable overwrites accumulator variable"],
    ),
    "entries without a second variable": ("a.all(k, 1, k)", ["1:10: argument must be a simple name"]),
    "entries with one variable twice": ("a.all(k, k, k)", ["1:10: duplicate variable name: k"]),
    "bind without a variable": (
        "cel.bind(1, 2, 3)",
        ["1:10: cel.bind() variable names must be simple identifiers"],
    ),
    "optMap without a variable": (
        "a.optMap(b.c, d)",
        ["1:11: optMap() variable name must be a simple identifier"],
    ),
    "quoted fields, where they are not known": ("a.`b-c`", ["1:3: unsupported syntax: '`'"]),
}


@pytest.mark.parametrize(("text", "expected"), OTHER_ERRORS.values(), ids=OTHER_ERRORS)
def test_other_errors(text: str, expected: list[str]) -> None:
    assert messages(text) == expected


def test_optional_syntax_may_be_unknown() -> None:
    with pytest.raises(InvalidExpression) as failure:
        parser.parse("a.?b && a[?b] && [?c] == {?d: e}", ALL_MACROS, optional_syntax=False)
    assert re.findall(r"1:(\d+): (.*)", str(failure.value)) == [
        ("2", "unsupported syntax '.?'"),
        ("10", "unsupported syntax '[?'"),
        ("19", "unsupported syntax '?'"),
        ("27", "unsupported syntax '?'"),
    ]


TOO_DEEP = "-1:0: expression recursion limit exceeded: 250"
TOO_HIGH = "-1:0: max recursion depth exceeded"
# cel-go parser/options.go: the defaults, which Kubernetes leaves.
LIMITS = {
    "parentheses": ("(" * 249 + "1" + ")" * 249, "(" * 250 + "1" + ")" * 250, TOO_DEEP),
    "lists": ("[" * 249 + "]" * 249, "[" * 250 + "1" + "]" * 250, TOO_DEEP),
    "maps": ("{1:" * 249 + "1" + "}" * 249, "{1:" * 250 + "1" + "}" * 250, TOO_DEEP),
    "calls": ("f(" * 249 + "1" + ")" * 249, "f(" * 250 + "1" + ")" * 250, TOO_DEEP),
    "methods in methods": ("a.f(" * 249 + "1" + ")" * 249, "a.f(" * 250 + "1" + ")" * 250, TOO_DEEP),
    "conditionals": ("a?b:" * 249 + "c", "a?b:" * 250 + "c", TOO_DEEP),
    "sums": ("1" + "+1" * 250, "1" + "+1" * 251, TOO_HIGH),
    "relations": ("1" + "<1" * 250, "1" + "<1" * 251, TOO_HIGH),
    "selections": ("a" + ".a" * 250, "a" + ".a" * 251, TOO_HIGH),
    "indices": ("a" + "[0]" * 250, "a" + "[0]" * 251, TOO_HIGH),
    "methods": ("a" + ".f()" * 250, "a" + ".f()" * 251, TOO_HIGH),
    "selections in sums": ("a" + "+a.b.c" * 248, "a" + "+a.b.c" * 251, TOO_HIGH),
    "characters": ("a" + " " * 99_999, " " * 100_001, "-1:0: expression code point size exceeds limit"),
}


@pytest.mark.parametrize(("most", "more", "message"), LIMITS.values(), ids=LIMITS)
def test_limits(most: str, more: str, message: str) -> None:
    parsed(most)
    assert messages(more)[0].startswith(message)


def test_more_operators_than_the_limit_do_no_harm_beside_each_other() -> None:
    parsed("[" + ",".join(["a.b + 1"] * 1000) + "]")


HOSTILE = [
    *(
        "(",
        "[",
        "{",
        "!",
        "-",
        "a.",
        "a[",
        "f(",
        "a.f(",
        "1+",
        "a&&",
        "a?",
        "a?b:",
        "a{b:",
        "{a:",
        "x.all(y,",
    ),
    *(
        "'",
        '"',
        "'''",
        "r'''",
        "`",
        "\\",
        "'\\x",
        "$",
        "=",
        "//",
        "\ud800",
        "'''\\q",
        "b'",
        "9",
        "0x",
        "if(",
        "a.`b`",
    ),
]


@pytest.mark.parametrize("part", HOSTILE)
def test_long_texts_of_one_kind_are_refused_in_time(part: str) -> None:
    """By a message, not by a RecursionError; in no more than some ms for each of 1,000 words."""
    refused = refusal(part * (99_999 // len(part)))
    assert refused is None or len(refused.issues) <= 100


@pytest.mark.parametrize("sign", "!-")
def test_signs_are_not_limited(sign: str) -> None:
    assert shown(parsed(sign * 99_999 + "a")) == f"{sign}_(a)"


def test_chains_of_and_are_not_limited() -> None:
    assert isinstance(parsed("a" + "&&a" * 33_000), Call)


def test_at_most_a_hundred_errors_are_reported() -> None:
    assert len(messages("a " + "$ " * 200)) == 100


WORDS = [
    "a",
    "b.c",
    "f(",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    "-",
    "!",
    "?",
    ":",
    "+",
    "==",
    "in",
    "&&",
    "'s'",
]
WORDS += ["1", "1.5", "has(", ".all(x,", "$", "'q", "if", "`e`", "\n", "//", "T{", "0x", "\\", "é", "\ud800"]


@given(st.lists(st.sampled_from(WORDS), max_size=30))
def test_any_text_is_parsed_or_refused(words: list[str]) -> None:
    text = " ".join(words)
    refused = refusal(text)
    if refused is None:
        assert shown(parsed(text))
    else:
        assert refused.issues
        assert all(each.offset is None or 0 <= each.offset <= len(text) for each in refused.issues)
        assert str(refused).startswith("ERROR: <input>:")


OFFSETS = {
    "an operator's is its own": ("a.b  <= 1", 5),
    "a conditional's is the question mark's": ("a ? b : c", 2),
    "a selection's is the dot's": ("abc .d", 4),
    "a call's and a method's are the parenthesis'": ("abc.d (1)", 6),
    "a macro's, too": ("[1].all(x, true)", 7),
    "an index's is the bracket's": ("abc[1]", 3),
    "a sign's is the first one's": (" !!!a", 1),
    "a name's is behind its dot": (" .a", 2),
    "a message's is the brace's": ("a.B{}", 3),
    "a number's is its sign's": (" -1", 1),
}


@pytest.mark.parametrize(("text", "offset"), OFFSETS.values(), ids=OFFSETS)
def test_the_offsets_of_nodes(text: str, offset: int) -> None:
    assert parsed(text).offset == offset
