"""Measures of texts in files: their overlap with references, their diversity, and what models say of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from depgen.errors import UserError
from depgen.evaluation.measure import Measured
from depgen.evaluation.text.measures import DEFAULTS, NAMES, TextOptions, text_metrics
from depgen.evaluation.text_documents import PROMPT, TEXT, read_file_texts
from depgen.seeds import checked_seed


@dataclass(frozen=True, kw_only=True)
class TextFiles(TextOptions):
    """The options of `text`, beside those of the single measures.

    Attributes:
        texts: files of one text a line, UTF-8, tokens separated by spaces; or of JSON lines (`.jsonl`, as `depgen
            generate --json` writes) or tables (`.csv`, `.tsv`), in which texts are called `text` or `sentence`.
        references: as many references as each file has texts, in a file of the same kinds.
        prompts: what each text continues, for UNION, in a file of the same kinds, where they may be called `prompt`;
            without them texts count as whole stories.
    """

    texts: Sequence[Path]
    references: Path | None = None
    prompts: Path | None = None


def text(options: TextFiles) -> Measured:
    """BLEU, sacreBLEU, Distinct, Self-BLEU, BERTScore, perplexities and others of files of texts.

    An item is a text, with its scores (NaN where it has none; the reverse LM score is of test sentences, and has no
    items). A row is a measure of a file: its `value`, a 95 % bootstrap interval where single texts have a score, how
    many texts are `left_out`, the share of the texts' words that are `unknown` to the model, and what the value depends
    on, or why it is `not_computed`.

    Raises:
        UserError: a file is missing, empty or not UTF-8, or the numbers of texts differ; options that need another.
    """
    if options.reverse and options.oracle is None:
        raise UserError("--reverse trains an oracle's network on the texts: name it by --oracle.")
    checked_seed(options.seed)
    items, rows = list[pd.DataFrame](), list[dict[str, object]]()
    for file in options.texts:
        texts = read_file_texts(file)
        references = _beside(file, texts, options.references, "reference", TEXT)
        found = text_metrics(
            texts, references, options, prompts=_beside(file, texts, options.prompts, "prompt", PROMPT)
        )
        scores = {name: own for name, own in found.items.items() if name != "rlm"}
        items.append(pd.DataFrame({"file": file.name, "text": texts, **scores}))
        settings = DEFAULTS | found.settings
        for name in NAMES:
            interval = found.intervals.get(name)
            rows.append(
                {
                    "level": file.name, "name": name, "value": found.metrics.get(name, np.nan),
                    "low": np.nan if interval is None else interval.low,
                    "high": np.nan if interval is None else interval.high,
                    "texts": found.texts, "empty": found.empty, "left_out": found.excluded.get(name, 0),
                    "unknown": found.unknown.get(name, np.nan),
                    "settings": settings.get(name) if name in found.metrics else None,
                    "not_computed": found.not_computed.get(name),
                }
            )  # fmt: skip
    return Measured(pd.concat(items, ignore_index=True), pd.DataFrame(rows))


def _beside(file: Path, texts: Sequence[str], other: Path | None, what: str, names: Sequence[str]) -> list[str] | None:
    """The texts of a file that belong to the texts."""
    if other is None:
        return None
    lines = read_file_texts(other, names)
    if len(lines) != len(texts):
        raise UserError(
            f"Expected one {what} a text, but {file} has {len(texts)} texts and {other} has {len(lines)}. "
            "Text n of one belongs to text n of the other; an empty text keeps its empty line."
        )
    return lines
