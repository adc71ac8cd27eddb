"""The prompt templates that have a name; every other value of the option is a file."""

from __future__ import annotations

CHAT = "chat"
PLAIN = "plain"
PAPER = "paper"
TEMPLATE_NAMES = (CHAT, PLAIN, PAPER)
