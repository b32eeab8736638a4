"""The verb `train-parser`: a parser trained on a treebank, once, into the cache."""

import json
import logging
import time
from pathlib import Path
from typing import Any

from depgen.annotation.parser_folders import DESCRIPTION, SCORES, parser_folder, read_description
from depgen.annotation.training import CorpusTreebank, ParserTraining, TrainedParser, Treebank
from depgen.errors import UserError
from depgen.locations import folder_written_whole, lines_sha256, made_once, write_atomically
from depgen.seeds import checked_seed

logger = logging.getLogger(__name__)


AnyTreebank = Treebank | CorpusTreebank


def train_parser(
    treebank: AnyTreebank, parser: ParserTraining, name: str, seed: int = 1, overwrite: bool = False
) -> str:
    """Train a parser into `$DEPGEN_CACHE/parsers/<name>`, unless it lies there; its scores, ready to print.

    Args:
        treebank: what it is trained and tested on.
        parser: what kind, with its options and step budget.
        name: of the folder; annotators name the parser by it.
        seed: of weights and batches.
        overwrite: replace a parser of that name that was trained otherwise.

    Raises:
        UserError: a treebank file is missing or broken; another parser has that name; a seed is out of
            range.
    """
    folder = parser_folder(name)
    fingerprint = training_fingerprint(treebank, parser, checked_seed(seed))

    def train() -> None:
        started = time.perf_counter()
        trained = parser.train(treebank.sentences("train"), treebank.sentences("valid"), seed=seed)
        seconds = time.perf_counter() - started
        description = {
            "kind": parser.kind, "scheme": treebank.scheme(parser.kind), "lowercase": treebank.lowercase,
            "fingerprint": fingerprint, "options": parser.options(), "seed": seed,
        }  # fmt: skip
        save_parser(folder, trained, treebank, description, seconds=seconds)

    made = made_once(folder, train, is_made=lambda: not overwrite and _is_trained(folder, fingerprint))
    return _report(folder) if made else f"{folder} is up to date.\n{_report(folder)}"


def _is_trained(folder: Path, fingerprint: str) -> bool:
    """Whether the parser lies there.

    Raises:
        UserError: one that was trained otherwise does.
    """
    if not folder.exists():
        return False
    if read_description(folder).get("fingerprint") != fingerprint:
        raise UserError(
            f"{folder} holds a parser that was trained otherwise (other treebank, options or seed). "
            "Choose another --name, or replace it by --overwrite: its trees will be made again."
        )
    return True


def training_fingerprint(treebank: AnyTreebank, parser: ParserTraining, seed: int) -> str:
    """A digest of the treebank's content, the options and the seed."""
    options = json.dumps(parser.options(), sort_keys=True)
    return lines_sha256([treebank.fingerprint(), parser.kind, options, str(seed)])


def save_parser(
    folder: Path, trained: TrainedParser, treebank: AnyTreebank, description: dict[str, Any], *, seconds: float
) -> None:
    """Test the parser and write it with its scores; the folder appears, or is replaced, all at once."""
    with folder_written_whole(folder) as part:
        trained.save(part, description)
        scores = {
            "scheme": description["scheme"],
            "test": trained.evaluate(treebank.sentences("test")).as_dict(),
            "valid": trained.evaluate(treebank.sentences("valid")).as_dict(),
            "training_seconds": round(seconds, 1),
        }
        write_atomically(part / SCORES, json.dumps(scores, indent=2) + "\n")
        write_atomically(part / DESCRIPTION, json.dumps(description, indent=2) + "\n")


def _report(folder: Path) -> str:
    """What is known of a parser: scheme, scores with and without punctuation, speed, time of training.

    Raises:
        UserError: its scores are not there, or damaged.
    """
    path = folder / SCORES
    try:
        return _summary(folder, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} does not read as a parser's scores ({type(error).__name__}: {error}). The parser may serve all "
            "the same; for new scores train it again: --overwrite."
        ) from error


def _summary(folder: Path, scores: Any) -> str:  # noqa: ANN401 - whatever the file holds
    lines = [f"{scores['scheme']}: {folder}"]
    for part in ("valid", "test"):
        value = scores[part]
        lines.append(
            f"{part:>5}: UAS {value['uas']:.2f}, LAS {value['las']:.2f}; without punctuation "
            f"UAS {value['uas_without_punctuation']:.2f}, LAS {value['las_without_punctuation']:.2f}; "
            f"{value['sentences']} sentences, {value['words']} words, {value['words_per_second']:,.0f} words/s"
        )
    lines.append(f"trained in {scores['training_seconds']:,.0f} s")
    return "\n".join(lines)
