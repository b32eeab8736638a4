"""Texts of several systems beside one another: Markdown, plain text, or a page of HTML that needs no other file."""

import html
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Format = Literal["text", "markdown", "html"]
WIDTH = 120


@dataclass(frozen=True)
class Example:
    """What each system wrote.

    Attributes:
        title: over it; None for nothing.
        context: what the texts go on from; None for texts written from nothing.
        texts: by system, in order.
    """

    title: str | None
    context: str | None
    texts: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Examples:
    """All examples under their caption, and the notes below them."""

    caption: str
    examples: tuple[Example, ...]
    notes: tuple[str, ...]


def render(examples: Examples, *, format: Format) -> str:
    """The examples as text that ends in a line break."""
    return {"text": _text, "markdown": _markdown, "html": _html}[format](examples)


def _text(examples: Examples) -> str:
    lines = [examples.caption]
    for example in examples.examples:
        lines.append("")
        if example.title is not None:
            lines += _wrapped(f"{example.title}: ", [example.context or ""], indent=4)
        width = max(len(system) for system, _ in example.texts) + 2
        for system, texts in example.texts:
            lines += _wrapped(f"  {system}:".ljust(width + 2), texts)
    return "\n".join([*lines, "", *(line for note in examples.notes for line in _wrapped("- ", [note]))]) + "\n"


def _wrapped(lead: str, texts: Sequence[str], *, indent: int | None = None) -> Iterator[str]:
    """Texts behind a lead, each beginning a line; further lines are indented so far, by default to the first's text."""
    space = " " * (len(lead) if indent is None else indent)
    for number, text in enumerate(texts):
        start = space if number else lead
        yield from textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=space, break_on_hyphens=False)


def _markdown(examples: Examples) -> str:
    lines = [f"**{examples.caption}**"]
    for example in examples.examples:
        if example.title is not None:
            lines += ["", f"{example.title}: {_cell(example.context or '')}"]
        lines += ["", "| system | text |", "|---|---|"]
        lines += [f"| {_cell(system)} | {'<br>'.join(map(_cell, texts))} |" for system, texts in example.texts]
    return "\n".join([*lines, "", *(f"- {note}" for note in examples.notes)]) + "\n"


def _cell(text: str) -> str:
    """Text in which nothing is markup: words such as `<unk>`, `[MALE]` and `*` are data."""
    for character in "\\`*_[]|#":
        text = text.replace(character, f"\\{character}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_STYLE = """
body { font: 16px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 2rem }
th { text-align: left; white-space: nowrap; vertical-align: top; padding: .3rem 1rem .3rem 0 }
td { padding: .3rem 0 } tr { border-top: 1px solid #ddd } tr:last-child { background: #f4f4f4 }
p.note { font-size: .85rem; color: #555; margin: .2rem 0 }
"""


def _html(examples: Examples) -> str:
    caption = html.escape(examples.caption)
    lines = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{caption}</title><style>{_STYLE}</style></head><body>',
        f"<h1>{caption}</h1>",
    ]
    for example in examples.examples:
        if example.title is not None:
            lines.append(f"<h2>{html.escape(example.title)}</h2><p>{html.escape(example.context or '')}</p>")
        rows = (
            f"<tr><th>{html.escape(system)}</th><td>{'<br>'.join(map(html.escape, texts))}</td></tr>"
            for system, texts in example.texts
        )
        lines += ["<table>", *rows, "</table>"]
    lines += [f'<p class="note">{html.escape(note)}</p>' for note in examples.notes]
    return "\n".join([*lines, "</body></html>"]) + "\n"
