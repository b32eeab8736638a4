"""Texts of several systems side by side, as plain text, Markdown and HTML."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Format = Literal["text", "markdown", "html"]
ENDINGS: dict[Format, str] = {"markdown": "md", "text": "txt", "html": "html"}
_WIDTH = 120
"""Letters in a line of plain text."""


@dataclass(frozen=True)
class Example:
    """What each system wrote.

    Attributes:
        title: over it; None for nothing.
        context: what the texts continue; None for texts without a prompt.
        texts: by system, in order.
    """

    title: str | None
    context: str | None
    texts: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Examples:
    """All examples under their caption, the notes below them, and pictures of trees as SVG with their captions."""

    caption: str
    examples: tuple[Example, ...]
    notes: tuple[str, ...]
    trees: Sequence[tuple[str, str]] = ()


def render(examples: Examples, *, format: Format) -> str:
    """The examples as text that ends in a line break."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("depgen.reporting"),
        undefined=StrictUndefined,
        autoescape=format == "html",
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(wrapped=_wrapped, literal=_literal)
    return templates.get_template(f"case_study.{ENDINGS[format]}").render(vars(examples))


def _wrapped(texts: Sequence[str], lead: str, *, indent: int | None = None) -> str:
    """Lines of texts after a lead, each text on a new line; `indent` of further lines: by default as the first text."""
    space = " " * (len(lead) if indent is None else indent)
    lines = [
        textwrap.fill(
            text, _WIDTH, initial_indent=space if number else lead, subsequent_indent=space, break_on_hyphens=False
        )
        for number, text in enumerate(texts)
    ]
    return "\n".join(line for line in lines if line)


def _literal(text: str) -> str:
    """Text in which nothing is Markdown: words such as `<unk>`, `[MALE]` and `*` are data."""
    for character in "\\`*_[]|#":
        text = text.replace(character, f"\\{character}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
