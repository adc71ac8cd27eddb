"""Reading QA logs: their files, their columns, and their rows as checked records. No Beam, no models."""

from __future__ import annotations
