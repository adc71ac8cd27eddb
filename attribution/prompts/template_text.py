"""A template file that was read already, for processes that cannot read it themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TemplateText:
    """What a template file holds, and its name without its folder; the suffix says which kind it is."""

    name: str
    text: str

    @classmethod
    def from_file(cls, path: str | Path) -> TemplateText:
        """The file's text, not checked.

        Raises:
            ValueError: if it cannot be read.
        """
        try:
            return cls(Path(path).name, Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"prompt template {path} should be a readable text file: {error}") from error
