"""The verb `evaluate-text`: text measures on files of one text a line."""

from collections.abc import Sequence
from json import dumps
from pathlib import Path

from depgen.errors import UserError
from depgen.evaluation.file_texts import PROMPT, TEXT, read_file_texts
from depgen.evaluation.text.measures import (
    CONFIDENCE,
    DEFAULTS,
    NAMES,
    ORACLE,
    TextEvaluation,
    TextOptions,
    text_metrics,
)
from depgen.evaluation.text.oracle import Average
from depgen.metrics.bleu import EmptyPolicy
from depgen.seeds import checked_seed

WIDTH = max(map(len, NAMES.values())) + 2


def evaluate_text(
    file: Path,
    *,
    references: Path | None = None,
    prompts: Path | None = None,
    json: bool = False,
    empty: EmptyPolicy = "zero",
    bertscore_model: str | None = "roberta-large",
    bertscore_layer: int | None = None,
    bertscore_baseline: Path | None = None,
    perplexity_model: str | None = "gpt2",
    mauve_model: str | None = None,
    within_texts: bool = False,
    detokenize: bool = False,
    union: str | None = None,
    oracle: str | None = None,
    reverse: bool = False,
    average: Average = "texts",
    download: bool = False,
    device: str | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> str:
    """A table, or JSON, of text measures on a file of one text a line.

    BLEU-1/2 (sentence level), sacreBLEU, Distinct-2/3, Self-BLEU-2/3, BERTScore, MAUVE and the perplexity under a
    pretrained language model, with 95 % bootstrap intervals where single texts have a score.

    Args:
        file: one text a line, UTF-8, tokens separated by spaces; or JSON lines (`.jsonl`, as `depgen generate --json`
            writes) or a table (`.csv`, `.tsv`), in which texts are called `text` or `sentence`.
        references: as many references, in a file of the same kinds.
        prompts: what each text continues, for UNION, in a file of the same kinds, where they may be called `prompt`;
            without them texts count as whole stories.
        json: print JSON instead of a table.
        empty: what an empty line is worth: `zero`, or `drop` to leave it out with its reference.
        bertscore_model: folder or hub name of an encoder, or null for no BERTScore.
        bertscore_layer: layer of that encoder; by default the BERTScore authors' choice.
        bertscore_baseline: baseline file of the bert-score package, by which BERTScore is rescaled.
        perplexity_model: folder or hub name of a causal language model, or null for no LM perplexity.
        mauve_model: folder or hub name of a model, such as gpt2-large, whose hidden states MAUVE compares texts and
            references by; `oracle` takes the language model of --oracle. By default no MAUVE.
        within_texts: Distinct-n of the n-grams inside texts, as Li et al. (2016) define it. By default n-grams over the
            border of two texts count too, as in the code of DMLM's authors and in our tables.
        detokenize: give pretrained models raw text (`did n't go .` becomes `didn't go.`) in place of tokens. By default
            they are given the tokens as they are.
        union: name or folder of a UNION scorer that `train-union` has trained; by default no UNION.
        oracle: for LM score and oracle perplexity: an experiment whose oracle `train-oracle` has trained, such as
            experiments/oracle_news.yaml, or any run folder.
        reverse: train the oracle's network on the texts too, for the reverse LM score.
        average: of nats per token in LM score and reverse LM score: over texts, or over all tokens.
        download: fetch models that are not on this machine from the hub.
        device: where models run, such as `cpu` or `cuda:0`; by default a GPU where there is one.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        UserError: a file is missing, empty or not UTF-8, or the numbers of lines differ; options that need another.
    """
    if reverse and oracle is None:
        raise UserError("--reverse trains an oracle's network on the texts: name it by --oracle.")
    if mauve_model == ORACLE and oracle is None:
        raise UserError("--mauve_model oracle takes a language model of your own: name it by --oracle.")
    options = TextOptions(
        empty=empty,
        bertscore_model=bertscore_model,
        bertscore_layer=bertscore_layer,
        bertscore_baseline=bertscore_baseline,
        perplexity_model=perplexity_model,
        mauve_model=mauve_model,
        within_texts=within_texts,
        detokenize=detokenize,
        union=union,
        oracle=oracle,
        reverse=reverse,
        average=average,
        download=download,
        device=device,
        resamples=resamples,
        seed=checked_seed(seed),
    )
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
