"""Parses expressions by precedence. Macros are expanded, and all errors of a text are reported at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from apiserver.cel import values
from apiserver.cel.declarations import MacroError, MacroRule
from apiserver.cel.escaping import RESERVED
from apiserver.cel.grammar import (
    ARGUMENT,
    ARGUMENTS,
    BARE,
    BEHIND_ENTRY,
    CHAINED,
    CHOICE,
    ENTRIES,
    FIELD,
    FIELDS,
    INDEX,
    ITEM,
    ITEMS,
    KEY,
    LITERALS,
    METHOD_ARGUMENT,
    NUMBERS,
    OPERAND,
    OPERATORS,
    OPTIONAL_FIELD,
    OPTIONAL_OPERAND,
    PARENTHESIS,
    POSTFIX,
    PRIMARY,
    VALUE,
    WHOLE,
    Context,
)
from apiserver.cel.lexer import (
    BYTES,
    END,
    FLOAT,
    IDENTIFIER,
    INT,
    STRING,
    UINT,
    BadLiteral,
    bytes_value,
    string_value,
)
from apiserver.cel.syntax import (
    ISSUES_MAX,
    Bind,
    Call,
    Comprehension,
    Constant,
    CreateList,
    CreateMap,
    CreateMessage,
    Entry,
    Ident,
    InvalidExpression,
    Issue,
    Node,
    Select,
    children,
)
from apiserver.cel.token_reader import ParsingAbandoned, TokenReader, UnexpectedToken, missing

# cel-go's limits, which Kubernetes leaves as they are.
CODE_POINTS_MAX: Final = 100_000
DEPTH_MAX: Final = 250  # of expressions in each other, and of operators and selections upon each other

# Words that are not identifiers; the others that `escape` escapes are separate tokens.
_RESERVED: Final = RESERVED - {"true", "false", "null", "in"}
_RESERVED_NAMES: Final = _RESERVED | {f".{word}" for word in _RESERVED}

Macros: TypeAlias = Mapping[tuple[str, bool], Sequence[MacroRule]]


def parse(text: str, macros: Macros, *, optional_syntax: bool = True, quoted_fields: bool = False) -> Node:
    """Returns the tree of an expression. Raises InvalidExpression.

    macros: by name and whether they are methods; see `macros.by_name`.
    optional_syntax: whether to accept `.?`, `[?` and `{?`; quoted_fields: whether to accept a.`b-c`.
    No tree is deeper than three times DEPTH_MAX, so that functions may walk it recursively.
    """
    if len(text) > CODE_POINTS_MAX:
        message = f"expression code point size exceeds limit: size: {len(text)}, limit {CODE_POINTS_MAX}"
        raise InvalidExpression(text, [Issue(message)])
    parser = _Parser(text, macros, optional_syntax, quoted_fields)
    tree = parser.parse()
    if parser.issues:
        raise InvalidExpression(text, sorted(parser.issues, key=_place)[:ISSUES_MAX])
    return tree


def _place(issue: Issue) -> tuple[int, bool]:
    return (-1 if issue.offset is None else issue.offset), not issue.is_syntax


class _PendingOperator(NamedTuple):
    """An operator, or a chain of the same one, whose last right operand has not been parsed yet."""

    precedence: int
    function: str
    lefts: list[Node]
    offsets: list[int]

    def with_right(self, right: Node) -> Node:
        if len(self.lefts) == 1:
            return Call(self.function, (self.lefts[0], right), offset=self.offsets[0])
        return _balanced(self.function, [*self.lefts, right], self.offsets)


class _Parser(TokenReader):
    __slots__ = ("_counted", "_depth", "_has_braces", "_macros", "_optional_syntax", "_quoted_fields")

    def __init__(self, text: str, macros: Macros, optional_syntax: bool, quoted_fields: bool) -> None:
        super().__init__(text)
        self._macros = macros
        self._optional_syntax, self._quoted_fields = optional_syntax, quoted_fields
        self._has_braces = "{" in text
        self._depth = 0
        self._counted = 0  # operators and selections

    def parse(self) -> Node:
        tree = missing(0)
        try:
            if self._reports > ISSUES_MAX:
                raise ParsingAbandoned
            tree = self._expression(WHOLE)
            if self._kinds[self._position] != END:
                self._match(END, "start", frozenset())
            if self._counted > DEPTH_MAX and _height(tree) > DEPTH_MAX:
                self.issues.append(Issue("max recursion depth exceeded"))
        except (UnexpectedToken, ParsingAbandoned):
            pass
        except RecursionError:
            self._report_too_deep()
        return tree

    # ---- rules; few calls per nesting of expressions, as Python's stack is limited

    def _expression(self, context: Context) -> Node:
        """Parse an expression. Chains of `||` and of `&&` become balanced trees."""
        depth = self._depth
        contexts, kinds = self._contexts, self._kinds
        contexts.append(context)
        waiting: list[_PendingOperator] = []  # those without a right side yet, by rising precedence
        condition: tuple[Node, int] | None = None
        choices: list[tuple[Node, Node, int]] = []
        self._deeper()
        while True:
            tree = self._operand()
            kind = kinds[self._position]
            operator = OPERATORS.get(kind)
            if operator is not None:
                precedence, function = operator
                is_chained = precedence <= CHAINED
                while waiting and waiting[-1].precedence >= precedence + is_chained:
                    tree = waiting.pop().with_right(tree)
                if waiting and waiting[-1].precedence == precedence:
                    waiting[-1].lefts.append(tree)
                    waiting[-1].offsets.append(self._advance())
                else:
                    waiting.append(_PendingOperator(precedence, function, [tree], [self._advance()]))
                    self._counted += not is_chained
                continue
            while waiting:
                tree = waiting.pop().with_right(tree)
            if condition is None:
                if kind != "?":
                    break
                self._counted += 1
                condition = (tree, self._advance())
                contexts.append(CHOICE)
                continue
            contexts.pop()
            choices.append((condition[0], tree, condition[1]))
            condition = None
            if kind == ":":
                self._advance()
            else:
                try:
                    self._match(":", "expr", OPERAND)
                except UnexpectedToken:
                    self._recover("expr", frozenset())
                    break
            self._deeper()
        contexts.pop()
        self._depth = depth
        for test, chosen, offset in reversed(choices):
            tree = Call("_?_:_", (test, chosen, tree), offset=offset)
        return tree

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._report_too_deep()
            raise ParsingAbandoned

    def _operand(self) -> Node:
        """Parse a primary with its selections, calls and indices, after any `!` or `-`."""
        kinds = self._kinds
        sign = ""
        offset = 0
        if kinds[self._position] not in BARE:
            try:
                offset = self._offsets[self._position]
                sign = self._signs()
            except UnexpectedToken:
                self._recover("unary", self._contexts[-1].infix)
                return missing(offset)
        tree: Node
        try:
            kind = kinds[self._position]
            if kind == IDENTIFIER or kind == ".":
                start = self._offsets[self._position]
                name = self._name()
                behind = kinds[self._position]
                if behind == "(":
                    tree = self._call(name, None)
                elif behind == "{":
                    tree = self._message(name)
                elif name in _RESERVED_NAMES:
                    tree = self._report_error(f"reserved identifier: {name.lstrip('.')}", start)
                else:
                    tree = Ident(name, offset=self._offsets[self._position - 1])
            elif kind == "[":
                tree = self._list()
            elif kind == "{":
                tree = self._map()
            elif kind == "(":
                self._advance()
                tree = self._expression(PARENTHESIS)
                self._close(")", "primary", tree)
            else:
                tree = self._literal()
        except UnexpectedToken as stop:
            tree = stop.tree or missing(self._offsets[self._position])
            self._recover("primary", self._contexts[-1].infix | POSTFIX)
        try:
            while (kind := kinds[self._position]) in POSTFIX:
                if kind == "[":
                    tree = self._index(tree)
                elif kinds[self._position + 1] == IDENTIFIER and kinds[self._position + 2] == "(":
                    self._position += 2
                    tree = self._call(self._texts[self._position - 1], tree)
                else:
                    tree = self._selection(tree)
        except UnexpectedToken as stop:
            tree = stop.tree or tree
            self._recover("member", self._contexts[-1].infix)
        return Call(f"{sign}_", (tree,), offset=offset) if sign else tree

    def _signs(self) -> str:
        """Parse signs; returns the sign if their number is odd. One `-` of a number belongs to it."""
        kinds = self._kinds
        if kinds[self._position] not in OPERAND:
            self._sync(OPERAND, "unary")
        sign = kinds[self._position]
        if sign not in ("!", "-") or (sign == "-" and kinds[self._position + 1] in NUMBERS):
            return ""
        count = 0
        while kinds[self._position] == sign:
            behind = kinds[self._position + 1]
            if sign == "-" and behind not in PRIMARY:
                self._no_alternative(self._position, self._position + 1)
            self._advance()
            count += 1
            if behind not in OPERAND:
                self._report_extraneous(OPERAND)
                self._skip_to(self._followers(self._contexts[-1].infix | OPERAND))
        return sign if count % 2 else ""

    def _name(self) -> str:
        """Parse `a` or `.a`, or all of `.a.b.C` if the `{` of a message follows."""
        kinds = self._kinds
        start = position = self._position
        if kinds[start] == ".":
            position += 1
            if kinds[position] != IDENTIFIER:
                self._no_alternative(start, position)
        end = position + 1
        if self._has_braces:
            while kinds[end] == "." and kinds[end + 1] == IDENTIFIER:
                end += 2
            if kinds[end] != "{":
                end = position + 1
        self._position = end
        self._is_recovering = False
        return self._texts[start] if end == start + 1 else "".join(self._texts[start:end])

    def _selection(self, operand: Node) -> Node:
        position = self._position
        kinds = self._kinds
        offset = self._offsets[position]
        kind = kinds[position + 1]
        self._counted += 1
        if kind == IDENTIFIER:
            self._position = position + 2
            self._is_recovering = False
            return Select(operand, self._texts[position + 1], offset=offset)
        if kind not in OPTIONAL_FIELD:
            self._no_alternative(position, position + 1)
        self._advance()
        is_optional = kind == "?"
        if is_optional:
            self._advance()
        field = self._field(self._contexts[-1].infix | POSTFIX)
        if field is None:
            return missing(offset)
        if is_optional and not self._optional_syntax:
            return self._report_error("unsupported syntax '.?'", offset)
        return Select(operand, field, is_optional=is_optional, offset=offset)

    def _field(self, level: frozenset[str]) -> str | None:
        if self._kinds[self._position] not in FIELD:
            try:
                self._sync(FIELD, "field")
            except UnexpectedToken:
                self._recover("field", level)
                return None
        position = self._position
        offset = self._advance()
        if self._kinds[position] == IDENTIFIER:
            return self._texts[position]
        if not self._quoted_fields:
            self._report_error("unsupported syntax: '`'", offset)
        return self._texts[position][1:-1]

    def _index(self, operand: Node) -> Node:
        offset = self._advance()
        self._counted += 1
        if self._kinds[self._position] not in OPTIONAL_OPERAND:
            self._sync(OPTIONAL_OPERAND, "index")
        is_optional = self._kinds[self._position] == "?"
        if is_optional:
            self._advance()
        index = self._expression(INDEX)
        tree: Node = Call("_[?_]" if is_optional else "_[_]", (operand, index), offset=offset)
        if is_optional and not self._optional_syntax:
            tree = self._report_error("unsupported syntax '[?'", offset)
        self._close("]", "member", tree)
        return tree

    def _call(self, name: str, target: Node | None) -> Node:
        known = len(self.issues)
        start = self._position - 1 - name.startswith(".")
        offset = self._advance()
        kinds = self._kinds
        self._counted += target is not None
        args: list[Node] = []
        rule, context = ("primary", ARGUMENT) if target is None else ("member", METHOD_ARGUMENT)
        failed = False
        try:
            if kinds[self._position] not in ARGUMENTS:
                self._sync(ARGUMENTS, f"{rule} arguments")
            if kinds[self._position] in OPERAND:
                args.append(self._expression(context))
                while kinds[self._position] == ",":
                    self._advance()
                    args.append(self._expression(context))
            if kinds[self._position] == ")":
                self._advance()
            else:
                self._match(")", rule, self._contexts[-1].behind_operand)
        except UnexpectedToken:
            failed = True
        if target is None and name in _RESERVED_NAMES:
            self.issues[known:] = [issue for issue in self.issues[known:] if issue.is_syntax]
            tree = self._report_error(f"reserved identifier: {name.lstrip('.')}", self._offsets[start])
        else:
            tree = self._expanded(name, target, tuple(args), offset)
        if failed:
            raise UnexpectedToken(tree)
        return tree

    def _expanded(self, name: str, target: Node | None, args: tuple[Node, ...], offset: int) -> Node:
        for rule in self._macros.get((name, target is not None), ()):
            if rule.arg_count == len(args):
                try:
                    return rule.expand(offset, target, args)
                except MacroError as error:
                    return self._report_error(error.message, error.offset)
        return Call(name, args, target, offset=offset)

    def _list(self) -> Node:
        offset = self._advance()
        kinds = self._kinds
        items: list[Node] = []
        optional: set[int] = set()
        if kinds[self._position] not in ITEMS:
            self._sync(ITEMS, "primary items")
        if kinds[self._position] in OPTIONAL_OPERAND:
            while True:
                if self._question_mark():
                    optional.add(len(items))
                items.append(self._expression(ITEM))
                if kinds[self._position] != "," or kinds[self._position + 1] not in OPTIONAL_OPERAND:
                    break
                self._advance()
        tree = CreateList(tuple(items), frozenset(optional), offset=offset)
        self._close_list("]", tree)
        return tree

    def _map(self) -> Node:
        offset = self._advance()
        kinds = self._kinds
        entries: list[Entry] = []
        if kinds[self._position] not in ENTRIES:
            self._sync(ENTRIES, "primary entries")
        if kinds[self._position] in OPTIONAL_OPERAND:
            try:
                while True:
                    is_optional = self._question_mark()
                    key = self._expression(KEY)
                    colon = self._colon()
                    entries.append(Entry(key, self._expression(VALUE), is_optional, colon))
                    if kinds[self._position] != "," or kinds[self._position + 1] not in OPTIONAL_OPERAND:
                        break
                    self._advance()
            except UnexpectedToken:
                self._recover("entries", self._contexts[-1].infix | POSTFIX | BEHIND_ENTRY)
        tree = CreateMap(tuple(entries), offset=offset)
        self._close_list("}", tree)
        return tree

    def _message(self, name: str) -> Node:
        offset = self._advance()
        kinds = self._kinds
        entries: list[Entry] = []
        if kinds[self._position] not in FIELDS:
            self._sync(FIELDS, "primary fields")
        if kinds[self._position] in OPTIONAL_FIELD:
            level = self._contexts[-1].infix | POSTFIX | BEHIND_ENTRY
            try:
                while True:
                    is_optional = self._question_mark()
                    field = self._field(level | {":"}) or ""
                    colon = self._colon()
                    entries.append(Entry(field, self._expression(VALUE), is_optional, colon))
                    if kinds[self._position] != "," or kinds[self._position + 1] not in OPTIONAL_FIELD:
                        break
                    self._advance()
            except UnexpectedToken:
                self._recover("fields", level)
        tree = CreateMessage(name, tuple(entries), offset=offset)
        self._close_list("}", tree)
        return tree

    def _colon(self) -> int:
        offset = self._offsets[self._position]
        if self._kinds[self._position] == ":":
            self._advance()
        else:
            self._match(":", "entry", OPERAND)
        return offset

    def _question_mark(self) -> bool:
        if self._kinds[self._position] != "?":
            return False
        offset = self._advance()
        if not self._optional_syntax:
            self._report_error("unsupported syntax '?'", offset)
        return True

    def _close_list(self, closer: str, tree: Node) -> None:
        if self._kinds[self._position] != closer:
            try:
                if self._kinds[self._position] != ",":
                    self._sync(frozenset({",", closer}), "primary comma")
                if self._kinds[self._position] == ",":
                    self._advance()
            except UnexpectedToken:
                raise UnexpectedToken(tree) from None
        self._close(closer, "primary", tree)

    def _close(self, closer: str, rule: str, tree: Node) -> None:
        if self._kinds[self._position] == closer:
            self._advance()
            return
        try:
            self._match(closer, rule, self._contexts[-1].behind_operand)
        except UnexpectedToken:
            raise UnexpectedToken(tree) from None

    def _literal(self) -> Node:
        position = self._position
        offset = self._offsets[position]
        kind = self._kinds[position]
        sign = ""
        if kind == "-":
            sign = "-"
            position += 1
            kind = self._kinds[position]
            if kind not in NUMBERS:
                self._no_alternative(position - 1, position)
        elif kind not in LITERALS:
            self._sync(PRIMARY, "primary")
            raise UnexpectedToken
        self._position = position + 1
        self._is_recovering = False
        text = self._texts[position]
        if kind in (STRING, BYTES):
            try:
                return Constant(string_value(text) if kind == STRING else bytes_value(text), offset=offset)
            except BadLiteral as error:
                return self._report_error(str(error), offset)
        if kind == INT:
            number = _integer(sign + text)
            if not values.INT_MIN <= number <= values.INT_MAX:
                return self._report_error("invalid int literal", offset)
            return Constant(number, offset=offset)
        if kind == UINT:
            number = _integer(text[:-1])
            if number > values.UINT_MAX:
                return self._report_error("invalid uint literal", offset)
            return Constant(values.UInt(number), offset=offset)
        if kind == FLOAT:
            double = float(sign + text)
            if math.isinf(double):
                return self._report_error("invalid double literal", offset)
            return Constant(double, offset=offset)
        return Constant(_WORDS[kind], offset=offset)

    def _report_too_deep(self) -> None:
        self.issues.append(Issue(f"expression recursion limit exceeded: {DEPTH_MAX}"))


_WORDS: Final = {"true": True, "false": False, "null": None}


def _integer(text: str) -> int:
    return int(text, 16) if "x" in text else int(text) if len(text) < 25 else _digits(text)


def _digits(text: str) -> int:
    """Parse a number that is too long for Python: without leading zeros such a number is out of range."""
    bare = text.lstrip("-0") or "0"
    return (-1 if text[0] == "-" else 1) * (int(bare) if len(bare) < 25 else values.UINT_MAX * 2)


def _balanced(function: str, terms: list[Node], offsets: list[int]) -> Node:
    def between(low: int, high: int) -> Node:
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else between(low, middle - 1)
        right = terms[middle + 1] if middle == high else between(middle + 1, high)
        return Call(function, (left, right), offset=offsets[middle])

    return between(0, len(offsets) - 1)


_COUNTED: Final = frozenset(
    {"_?_:_", "_[_]", "_[?_]", *(name for precedence, name in OPERATORS.values() if precedence > CHAINED)}
)


def _height(tree: Node) -> int:
    """Returns the height of the tree in operators, selections and methods."""
    highest = 0
    waiting: list[tuple[Node, int]] = [(tree, 0)]
    while waiting:
        node, height = waiting.pop()
        if isinstance(node, Call):
            height += node.target is not None or node.function in _COUNTED
        else:
            height += isinstance(node, Select | Comprehension | Bind)
        highest = max(highest, height)
        waiting += [(part, height) for part in children(node)]
    return highest
