"""The verb `train-parser`: a parser trained on a treebank, once, into the cache."""

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from depgen.annotation.parser_folders import DESCRIPTION, SCORES, parser_folder, read_description
from depgen.annotation.scores import summary_of
from depgen.annotation.training import CorpusTreebank, ParserTraining, TrainedParser, Treebank
from depgen.errors import UserError
from depgen.locations import folder_written_whole, lines_sha256, made_once, write_atomically
from depgen.seeds import checked_seed
from depgen.trees.annotator import Structure
from depgen.trees.sentence import Sentence

logger = logging.getLogger(__name__)

TRAININGS: Mapping[Structure, str] = {
    "tree": "depgen.annotation.supar_training.SuparTraining",
    "graph": "depgen.annotation.supar_graph_training.SuparGraphTraining",
    "constituency": "depgen.annotation.supar_constituency_training.SuparConstituencyTraining",
}
"""What trains SuPar's parser of each formalism."""

AnyTreebank = Treebank | CorpusTreebank


def train_parser(
    treebank: AnyTreebank,
    name: str,
    *,
    parser: ParserTraining | None = None,
    formalism: Structure | None = None,
    seed: int = 1,
    overwrite: bool = False,
) -> str:
    """Train a parser into `$DEPGEN_CACHE/parsers/<name>`, unless it lies there; its scores, ready to print.

    Args:
        treebank: what it is trained and tested on.
        name: of the folder; annotators name the parser by it.
        parser: what kind, with its options and step budget; by default SuPar's of the formalism.
        formalism: what it gives a sentence, a `tree`, a `graph` or `constituency`; by default what `parser` gives.
        seed: of weights and batches.
        overwrite: replace a parser of that name that was trained otherwise.

    Raises:
        UserError: a treebank file is missing or broken, or has no such structure; another parser has that name; a
            parser of another formalism; a seed is out of range.
    """
    folder = parser_folder(name)
    chosen = parser or resolve_name(TRAININGS[formalism or "tree"])()
    if formalism not in (None, chosen.structure):
        raise UserError(
            f"--formalism {formalism}: expected a parser of this formalism, found {type(chosen).__name__} "
            f"({chosen.structure}). Name {TRAININGS[formalism]}, or leave out --formalism or --parser."
        )
    fingerprint = training_fingerprint(treebank, chosen, checked_seed(seed))

    def train() -> None:
        started = time.perf_counter()
        train, valid = (treebank.sentences(part, chosen.structure) for part in ("train", "valid"))
        logger.info("Training the parser %s on %d sentences: %s.", name, len(train), treebank.scheme(chosen.kind))
        trained = chosen.train(train, valid, seed=seed)
        seconds = time.perf_counter() - started
        description = {
            "kind": chosen.kind, "scheme": treebank.scheme(chosen.kind), "lowercase": treebank.lowercase,
            "fingerprint": fingerprint, "options": chosen.options(), "seed": seed,
        }  # fmt: skip
        gold = {part: treebank.sentences(part, chosen.structure) for part in ("test", "valid")}
        save_parser(folder, trained, gold, description, seconds=seconds)

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
    folder: Path,
    trained: TrainedParser,
    gold: Mapping[str, list[Sentence]],
    description: dict[str, Any],
    *,
    seconds: float,
) -> None:
    """Test the parser and write it with its scores; the folder appears, or is replaced, all at once."""
    with folder_written_whole(folder) as part:
        trained.save(part, description)
        scores = {
            "scheme": description["scheme"],
            **{part: trained.evaluate(sentences).as_dict() for part, sentences in gold.items()},
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
    parts = (f"{part:>5}: {summary_of(scores[part])}" for part in ("valid", "test"))
    trained = f"trained in {scores['training_seconds']:,.0f} s"
    return "\n".join((f"{scores['scheme']}: {folder}", *parts, trained))
