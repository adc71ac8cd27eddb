"""A user's own method, ``module:Name``: import it, create it and check it."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from attribeam.attribution.evidence.union_results import MethodError, SpanResult
from attribeam.attribution.methods.method import AnswerContext, MethodSettings, Need
from attribeam.schemas import EvidencePiece, Passage, RowFault
from attribeam.schemas.errors import UsageError


class UserMethod:
    """The user's method under the name that ``--method`` gives it, with defaults for what it lacks of the protocol."""

    def __init__(self, name: str, own: object) -> None:
        """Check the protocol.

        Raises:
            UsageError: if ``own`` lacks ``needs`` or ``span_results``, or its needs are not values of ``Need``.
        """
        self.name = name
        self.needs = _needs(name, own)
        self.gives_mass = bool(getattr(own, "gives_mass", False))
        self._own = own
        self._span_results = _span_results(name, own)

    def span_results(self, context: AnswerContext) -> Sequence[SpanResult]:
        """What the user's class says.

        Raises:
            RowFault: if it refuses the row.
            MethodError: if it raises anything else.
        """
        try:
            return _checked_results(self, self._span_results(context), context)
        except (RowFault, MethodError, MemoryError):
            raise
        except Exception as error:
            where = f"row {context.record.source.source_row} of {context.record.source.source_file!r}"
            raise MethodError(
                f"method {self.name!r} raised {type(error).__name__} at {where}; it may refuse a row by raising "
                "attribeam.schemas.RowFault, --verbose shows where it failed"
            ) from error

    @property
    def code(self) -> str:
        """Identifies the method's code: its own ``identity``, else the SHA-256 of the file that defines it.

        Raises:
            UsageError: if it has neither.
        """
        identity = getattr(self._own, "identity", None)
        if isinstance(identity, str):
            return identity
        try:
            path = inspect.getsourcefile(type(self._own))
        except TypeError:
            path = None
        if path is None or not Path(path).is_file():
            raise UsageError(f"--method {self.name!r}: should stand in a file, or have an `identity`; has neither")
        return "sha256:" + hashlib.sha256(Path(path).read_bytes()).hexdigest()


def load_user_method(name: str, settings: MethodSettings) -> UserMethod:
    """The method ``module:Name``, created by calling ``Name`` with the settings.

    Modules are looked for where Python looks, and then in the working directory.

    Raises:
        UsageError: if it cannot be imported or created, or is not a method.
    """
    module_name, _, attribute = name.partition(":")
    module = _import(name, module_name)
    factory = getattr(module, attribute, None)
    if not callable(factory):
        there = ", ".join(_callables(module)) or "none"
        raise UsageError(f"--method {name!r}: module {module_name!r} has no class {attribute!r}; it has: {there}")
    try:
        own = factory(settings)
    except Exception as error:
        raise UsageError(
            f"--method {name!r}: {attribute} should take the options as its one argument, raised "
            f"{type(error).__name__}: {error}"
        ) from error
    return UserMethod(name, own)


def _import(name: str, module_name: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        return importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(
            f"--method {name!r}: module {module_name!r} could not be imported, {type(error).__name__}: {error}; it "
            f"should be installed or stand in {folder} (with --runner, ship it with --setup_file)"
        ) from error


def _callables(module: ModuleType) -> list[str]:
    """The public classes and functions that the module defines itself."""
    found = vars(module).items()
    return [name for name, one in found if callable(one) and getattr(one, "__module__", "") == module.__name__]


def _needs(name: str, own: object) -> frozenset[Need]:
    needs = getattr(own, "needs", None)
    kinds = ", ".join(repr(str(need)) for need in Need)
    try:
        if needs is None or isinstance(needs, str):
            raise TypeError
        return frozenset(Need(need) for need in needs)
    except (TypeError, ValueError) as error:
        raise UsageError(f"--method {name!r}: needs should be a set of {kinds}, was: {needs!r}") from error


def _span_results(name: str, own: object) -> Callable[[AnswerContext], Sequence[SpanResult]]:
    found = getattr(own, "span_results", None)
    if not callable(found):
        raise UsageError(f"--method {name!r}: should have span_results(context), has: {type(found).__name__}")
    method: Callable[[AnswerContext], Sequence[SpanResult]] = found
    return method


def _checked_results(method: UserMethod, given: Sequence[SpanResult], context: AnswerContext) -> tuple[SpanResult, ...]:
    """What the method says about each span.

    Raises:
        MethodError: if a result cannot become an evidence record.
    """
    results = tuple(given)
    complaint = _complaint(results, context, gives_mass=method.gives_mass)
    if complaint is not None:
        source = context.record.source
        where = f"row {source.source_row} of {source.source_file!r}"
        raise MethodError(f"method {method.name!r} gave a wrong result at {where}: {complaint}")
    return results


def _complaint(results: Sequence[SpanResult], context: AnswerContext, *, gives_mass: bool) -> str | None:
    if len(results) != len(context.spans):
        return f"there should be one result per span, {len(context.spans)}, there were {len(results)}"
    passages = context.record.passages
    found = ((index, _span_complaint(one, passages, gives_mass=gives_mass)) for index, one in enumerate(results))
    return next((f"span {index}: {text}" for index, text in found if text is not None), None)


def _span_complaint(result: SpanResult, passages: Sequence[Passage], *, gives_mass: bool) -> str | None:
    if not isinstance(result, SpanResult):
        return f"a result should be a SpanResult, was: {type(result).__name__}"
    if len(result.passage_scores) != len(passages):
        return f"passage_scores should have one score per passage, {len(passages)}, had {len(result.passage_scores)}"
    if not all(0 <= score < math.inf for score in result.passage_scores):
        return f"passage_scores should be finite and not negative, were: {result.passage_scores}"
    if (result.mass is not None) is not gives_mass:
        return f"mass should be {'given' if gives_mass else 'None, as gives_mass says'}, was: {result.mass}"
    if result.mass is not None and not 0 <= result.mass <= 1:
        return f"mass should be from 0 to 1, was: {result.mass}"
    return next(filter(None, (_piece_complaint(piece, passages) for piece in result.evidence)), None)


def _piece_complaint(piece: EvidencePiece, passages: Sequence[Passage]) -> str | None:
    if not 0 <= piece.passage_index < len(passages):
        return f"passage_index of evidence should be from 0 to {len(passages) - 1}, was: {piece.passage_index}"
    passage = passages[piece.passage_index]
    text = (passage.title or "") if piece.in_title else passage.text
    if piece.chars.char_end > len(text) or piece.chars.of(text) != piece.text:
        place = f"passage {piece.passage_index}, {piece.chars.char_start} to {piece.chars.char_end}"
        return f"the text of evidence should be what its passage has at its range, is not: {place} of {len(text)}"
    return (
        None if 0 < piece.score < math.inf else f"a score of evidence should be finite and positive, was: {piece.score}"
    )
