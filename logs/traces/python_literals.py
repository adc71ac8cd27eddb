"""Lists and objects as Python prints them, which is how ``csv`` and data frames write them into a CSV file."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize

_NAMES = {
    "None": None,
    "True": True,
    "False": False,
    "nan": None,
    "NaN": None,
    "null": None,
    "true": True,
    "false": False,
}
_MOST_CHARS = 1 << 22
_BESIDE_STRINGS = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT)
_ARRAY = re.compile(r"^\s*array\((.*?)(?:,\s*dtype=\w+)?\)\s*$", re.DOTALL)


def printed_value(text: str) -> list[object] | dict[str, object] | None:
    """The list or object that a text prints, in JSON or in Python; None where it prints none.

    Objects may be printed as calls with keywords, such as ``HumanMessage(content='...')``; the name then stands under
    ``type``. NaN is None. A text that goes on behind a list, or begins with a remark in brackets, prints none.

    Raises:
        ValueError: if it begins like a list or an object and is none, or is numpy's print, which may be cut and has no
            commas.
    """
    if text.lstrip().startswith("array("):
        text = _ARRAY.sub(r"\1", text)
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if _REMARK.match(text) or not _BEGINS.match(text) or not _GOES_ON.search(text):
            return None
        value = _of_python(text)
    return value if isinstance(value, list | dict) else None


def opened_text(value: object) -> object:
    """What a text prints, see ``printed_value``; any other value, and a text that prints nothing, as it is."""
    if not isinstance(value, str):
        return value
    try:
        found = printed_value(value)
    except ValueError:
        return value
    return value if found is None else found


_BEGINS = re.compile(r"""\s*[\[{][\s\[({]*+(?:[\]})'"]|[-+]?[0-9]|\w+\(|(?:None|True|False|nan)\b|$)""")
"""How a list or an object of Python begins: by another one, a text, a number, a call or a constant."""
_GOES_ON = re.compile(r""",\s*['"{]|[\]}]\s*$""")
"""What has a second item or an end."""
_REMARK = re.compile(r"""\s*\[(?:[^\[\]'"]*|\s*'[^'\\\n]*'\s*|\s*"[^"\\\n]*"\s*)\]\s*[^\s\],})]""")
"""Something in brackets with text behind it."""


def _of_python(text: str) -> object:
    if len(text) > _MOST_CHARS:
        raise ValueError(f"one that is no JSON and has more than {_MOST_CHARS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        if _has_neighbours(text.strip()):
            raise ValueError("a list as numpy prints it, without commas")
        return _value(tree.body)
    except (SyntaxError, MemoryError, RecursionError, tokenize.TokenError) as error:
        raise ValueError("a list that is cut off or no list of Python") from error


def _has_neighbours(text: str) -> bool:
    """True where two strings stand side by side, which Python would join without a word."""
    last = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _BESIDE_STRINGS:
            continue
        if token.type == tokenize.STRING and last == tokenize.STRING:
            return True
        last = token.type
    return False


def _value(node: ast.expr) -> object:
    match node:
        case ast.Constant(value=value):
            return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {str(_value(key)): _value(one) for key, one in zip(keys, values, strict=True) if key is not None}
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Call(func=ast.Name(id="array"), args=[ast.List() as items]):
            return _value(items)
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
            return {"type": name} | {one.arg: _value(one.value) for one in keywords if one.arg is not None}
        case _:
            raise ValueError("something that is no plain value of Python")
