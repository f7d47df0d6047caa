"""The grammar of expressions: the first tokens of rules, operators, and the tokens that can follow them.

Rules are those of cel-go's grammar (parser/gen/CEL.g4), since messages list the expected tokens by it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.cel.lexer import BYTES, END, FLOAT, IDENTIFIER, INT, QUOTED, STRING, UINT

LITERALS: Final = frozenset({FLOAT, INT, UINT, STRING, BYTES, "true", "false", "null"})
PRIMARY: Final = LITERALS | {IDENTIFIER, ".", "[", "{", "(", "-"}
OPERAND: Final = PRIMARY | {"!"}
OPTIONAL_OPERAND: Final = OPERAND | {"?"}
FIELD: Final = frozenset({IDENTIFIER, QUOTED})
OPTIONAL_FIELD: Final = FIELD | {"?"}
POSTFIX: Final = frozenset({".", "["})

_RELATIONS: Final = ("<", "<=", ">=", ">", "==", "!=")
# Precedence and function of each operator.
OPERATORS: Final = {
    "||": (1, "_||_"),
    "&&": (2, "_&&_"),
    **{symbol: (3, f"_{symbol}_") for symbol in _RELATIONS},
    "in": (3, "@in"),
    **{symbol: (4, f"_{symbol}_") for symbol in "+-"},
    **{symbol: (5, f"_{symbol}_") for symbol in "*/%"},
}
CHAINED: Final = 2  # precedences up to this are of operators whose chains are balanced
INFIX: Final = frozenset(OPERATORS)


class Context(NamedTuple):
    """The context of an expression within the grammar.

    ends: the tokens that can follow it. closers: the tokens at which recovery may continue, as in lists.
    is_choice: whether it is between `?` and `:`, where no further `?` is allowed.
    outer: the tokens that recovery adds for the expression around it.
    """

    ends: frozenset[str]
    closers: frozenset[str]
    is_choice: bool = False
    outer: frozenset[str] = INFIX | POSTFIX | {"?"}

    @property
    def behind_operand(self) -> frozenset[str]:
        return self.infix | POSTFIX | self.ends

    @property
    def infix(self) -> frozenset[str]:
        return INFIX if self.is_choice else INFIX | {"?"}


def _context(ends: str, closers: str = "") -> Context:
    return Context(frozenset(ends), frozenset(ends + closers))


def _of_member(ends: str) -> Context:
    """Returns the context of a method's arguments or an index. After an error in one, no selection
    follows.
    """
    return _context(ends)._replace(outer=INFIX | {"?"})


WHOLE: Final = Context(frozenset({END}), frozenset({END}), outer=frozenset())
PARENTHESIS: Final = _context(")")
ARGUMENT: Final = _context("),")
METHOD_ARGUMENT: Final = _of_member("),")
INDEX: Final = _of_member("]")
ITEM: Final = _context("],")
KEY: Final = _context(":", ",}")
VALUE: Final = _context("},")
CHOICE: Final = Context(frozenset(":"), frozenset(":"), is_choice=True, outer=frozenset())
NUMBERS: Final = frozenset({INT, FLOAT})
BARE: Final = PRIMARY - {"-"}
ARGUMENTS: Final = OPERAND | {")"}
ITEMS: Final = OPTIONAL_OPERAND | {",", "]"}
ENTRIES: Final = OPTIONAL_OPERAND | {",", "}"}
FIELDS: Final = OPTIONAL_FIELD | {",", "}"}
BEHIND_ENTRY: Final = frozenset({",", "}"})
