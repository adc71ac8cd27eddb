"""How rows cross process borders, and what Beam is told about their size.

Beam weighs a sample of all elements for its metrics. Its own coder weighs by pickling, and the few large blocks of a
chunk are all in the sample: that took a millisecond a row.
"""

from __future__ import annotations

import pickle

from apache_beam.coders import Coder, registry

from transforms.audit_row import AttributedBlock, AuditRow, TokenisedRow

_BYTES_A_TOKEN = 40


class RowCoder(Coder):
    """Pickles rows and blocks; their size is estimated from the number of tokens."""

    def encode(self, value: TokenisedRow | AuditRow | AttributedBlock) -> bytes:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    def decode(self, encoded: bytes) -> TokenisedRow | AuditRow | AttributedBlock:
        value: TokenisedRow | AuditRow | AttributedBlock = pickle.loads(encoded)
        return value

    def estimate_size(self, value: TokenisedRow | AuditRow | AttributedBlock) -> int:
        rows = value.rows if isinstance(value, AttributedBlock) else (value,)
        return _BYTES_A_TOKEN * sum(row.encoded.token_count for row in rows)

    def is_deterministic(self) -> bool:
        return False


def register_row_coders() -> None:
    """Let Beam use ``RowCoder`` wherever these types are declared."""
    for kind in (TokenisedRow, AuditRow, AttributedBlock):
        registry.register_coder(kind, RowCoder)
