"""The parts of the page that are the same for every audit: style, scripts, licences and the security policy."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

ROOM = Path(__file__).parent
_ASSETS = ROOM / "assets"
_VENDOR = ROOM / "vendor"
_NONE = "'none'"


@cache
def style() -> str:
    """The style sheet of an audit's page."""
    return "\n".join(_read(path) for path in sorted(_ASSETS.glob("[0-9]_*.css")))


@cache
def history_style() -> str:
    """The style sheet of the page over several audits."""
    return "\n".join(_read(_ASSETS / name) for name in ("1_base.css", "2_overview.css", "history.css"))


@cache
def scripts() -> tuple[str, ...]:
    """The libraries, then the page's own script; ``vendor/make_bundles.sh`` makes all three."""
    return _read(_VENDOR / "plot.js"), _read(_VENDOR / "parquet.js"), _read(_ASSETS / "page.js")


@cache
def licences() -> str:
    """The licences of the libraries."""
    return _read(_VENDOR / "LICENCES.txt")


def content_security_policy() -> str:
    """Load nothing, and apply only the scripts and styles with these SHA-256 hashes.

    Observable Plot adds a style element to every drawing; its text is in ``vendor/plot_style.css``.
    """
    return security_policy(styles=(style(), _read(_VENDOR / "plot_style.css").rstrip("\n")), scripts=scripts())


def template(name: str) -> Template:
    """A page's template; what is put into it is escaped."""
    environment = Environment(
        loader=FileSystemLoader(_ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def security_policy(*, styles: Iterable[str], scripts: Iterable[str] = ()) -> str:
    """Load nothing, and apply only these scripts and styles, by their SHA-256 hashes."""
    rules = (
        "default-src 'none'",
        f"script-src {_hashes(scripts) or _NONE}",
        f"style-src {_hashes(styles)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def _hashes(texts: Iterable[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
