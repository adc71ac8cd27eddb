"""What tests of several folders share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(params=[False, True], ids=["plain processor", "AVX512-BF16"])
def either_processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors without instructions for bfloat16 and with them, as bitsandbytes sees them, whichever is here.

    4-bit weights that are repacked for the kernel of the latter fail the test, before that kernel could run.
    """
    from bitsandbytes.nn import modules

    def repacked(*_: Any, **__: Any) -> None:
        pytest.fail("4-bit weights were repacked")

    monkeypatch.setattr(modules, "has_avx512bf16", lambda: request.param)
    monkeypatch.setattr(modules, "_convert_weight_packed_for_cpu", repacked)
