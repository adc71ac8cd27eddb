"""What libraries may say on standard error: nothing, unless it is an error or somebody asked."""

from __future__ import annotations

import logging
import os
import sys
import warnings


def set_verbosity(*, verbose: bool) -> None:
    """Show the libraries' messages where ``verbose``, else only errors; worker processes inherit it.

    Must stand before the libraries are imported. Warnings that were asked for with ``-W`` or ``PYTHONWARNINGS`` and a
    ``TRANSFORMERS_VERBOSITY`` that is set already are left alone.
    """
    logging.basicConfig(level=logging.INFO if verbose else logging.ERROR)
    if verbose:
        return
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
