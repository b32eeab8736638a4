"""The verb `evaluate-text`: text measures on files of one text a line."""

from collections.abc import Sequence
from json import dumps
from pathlib import Path

from depgen.errors import UserError
from depgen.evaluation.text.measures import (
    CONFIDENCE,
    DEFAULTS,
    NAMES,
    TextEvaluation,
    TextOptions,
    text_metrics,
)
from depgen.evaluation.text_documents import PROMPT, TEXT, read_file_texts
from depgen.seeds import checked_seed

WIDTH = max(map(len, NAMES.values())) + 2


def evaluate_text(
    file: Path,
    *,
    references: Path | None = None,
    prompts: Path | None = None,
    json: bool = False,
    options: TextOptions = TextOptions(),  # noqa: B008 - frozen
) -> str:
    """A table, or JSON, of text measures on a file of one text a line.

    BLEU-1/2 (sentence level), sacreBLEU, Distinct-2/3, Self-BLEU-2/3, BERTScore and the perplexity under a
    pretrained language model, with 95 % bootstrap intervals where single texts have a score.

    Args:
        file: one text a line, UTF-8, tokens separated by spaces; or JSON lines (`.jsonl`, as `depgen generate --json`
            writes) or a table (`.csv`, `.tsv`), in which texts are called `text` or `sentence`.
        references: as many references, in a file of the same kinds.
        prompts: what each text continues, for UNION, in a file of the same kinds, where they may be called `prompt`;
            without them texts count as whole stories.
        json: print JSON instead of a table.
        options: what is measured, and how.

    Raises:
        UserError: a file is missing, empty or not UTF-8, or the numbers of lines differ; options that need another.
    """
    if options.reverse and options.oracle is None:
        raise UserError("--reverse trains an oracle's network on the texts: name it by --oracle.")
    checked_seed(options.seed)
    texts = read_file_texts(file)
    evaluation = text_metrics(
        texts,
        _beside(file, texts, references, "reference", TEXT),
        options,
        prompts=_beside(file, texts, prompts, "prompt", PROMPT),
    )
    return as_json(evaluation, file, references) if json else as_table(evaluation)


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


def as_table(evaluation: TextEvaluation) -> str:
    """The evaluation for people: aligned columns, then what the figures depend on, shares of unknown words included."""
    lines = [f"{evaluation.texts} texts, {evaluation.empty} of them empty", ""]
    lines.append(f"{'measure':<{WIDTH}}{'value':>10}   {f'{100 * CONFIDENCE:.0f} % interval'}")
    for name, title in NAMES.items():
        if name in evaluation.not_computed:
            lines.append(f"{title:<{WIDTH}}{'–':>10}   not computed: {evaluation.not_computed[name]}")
            continue
        interval = evaluation.intervals.get(name)
        bounds = f"   {interval.low:.2f} to {interval.high:.2f}" if interval else ""
        excluded = f"   ({evaluation.excluded[name]} texts left out)" if name in evaluation.excluded else ""
        lines.append(f"{title:<{WIDTH}}{evaluation.metrics[name]:>10.2f}{bounds}{excluded}")
    alike: dict[str, list[str]] = {}
    for name, setting in _settings(evaluation).items():
        alike.setdefault(setting, []).append(NAMES[name])
    lines += ["", *(f"{', '.join(titles)}: {setting}" for setting, titles in alike.items())]
    lines.extend(
        f"{NAMES[name]}: {100 * share:.1f} % of the texts' words are read as <unk>"
        for name, share in evaluation.unknown.items()
    )
    return "\n".join(lines)


def _settings(evaluation: TextEvaluation) -> dict[str, str]:
    """What the figures depend on."""
    settings = DEFAULTS | evaluation.settings
    return {name: settings[name] for name in NAMES if name in evaluation.metrics and name in settings}


def as_json(evaluation: TextEvaluation, file: Path, references: Path | None) -> str:
    """The evaluation for programs, without item scores; shares of unknown words are fractions."""
    return dumps(
        {
            "file": str(file),
            "references": None if references is None else str(references),
            "texts": evaluation.texts,
            "empty": evaluation.empty,
            "metrics": evaluation.metrics,
            "intervals": {name: [interval.low, interval.high] for name, interval in evaluation.intervals.items()},
            "confidence": CONFIDENCE,
            "excluded": evaluation.excluded,
            "not_computed": evaluation.not_computed,
            "settings": _settings(evaluation),
            "unknown": evaluation.unknown,
        },
        indent=2,
        ensure_ascii=False,
        allow_nan=False,
    )
