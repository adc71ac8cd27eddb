"""Loading something costly once per process, whichever thread asks first."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from threading import RLock
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def loaded_once(load: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a loader so that its last result stays loaded for the next call with the same, hashable arguments.

    Threads that ask meanwhile wait for the one that loads; ``lru_cache`` alone would let each load its own. A loader
    that raises is called again next time.
    """
    keep, lock = lru_cache(maxsize=1)(load), RLock()

    @wraps(load)
    def load_or_wait(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with lock:
            return keep(*args, **kwargs)  # type: ignore[arg-type]

    return load_or_wait
