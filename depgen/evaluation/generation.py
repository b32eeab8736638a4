"""`depgen generate`: texts from a trained system, the same flags for every system that writes."""

import hashlib
import json as json_format
import logging
import sys
from pathlib import Path

from depgen.data.vocabulary import AnyVocabulary, encode
from depgen.decoding.generation import Writer
from depgen.decoding.sampling import Sampling
from depgen.errors import UserError
from depgen.evaluation.trained import load_trained
from depgen.locations import write_atomically
from depgen.training.guards import check_writable
from depgen.trees.lines import read_lines

log = logging.getLogger(__name__)


def generate(
    *,
    checkpoint: str | None = None,
    prompts: Path | None = None,
    number: int = 1,
    top_p: float = 1.0,
    temperature: float = 1.0,
    top_k: int = 0,
    greedy: bool = False,
    max_new_tokens: int = 100,
    batch_size: int = 64,
    seed: int = 0,
    output: Path | None = None,
    json: bool = False,
    device: str | None = None,
) -> str | None:
    """Write texts with a trained system, from prompts or from nothing.

    Text k of prompt i depends on the seed, i and k alone: not on the batch, nor on the other prompts.

    Args:
        checkpoint: a run folder (its best checkpoint) or a checkpoint file; by default the newest run.
        prompts: a file of one prompt a line, words separated by spaces; without it texts begin from nothing.
        number: texts a prompt (`-n`).
        top_p: nucleus sampling: the smallest set of words with this much probability.
        temperature: divides the log-probabilities of the (mixed) distribution.
        top_k: only the k most likely words; 0 for all.
        greedy: always the most likely word.
        max_new_tokens: where a text is cut.
        batch_size: texts written at once; changes nothing but speed.
        seed: of the sampling.
        output: a file for the texts, one a line; without it they are printed.
        json: JSON lines with prompt, text and seed instead of bare texts.
        device: cpu, cuda, …; by default a GPU where there is one.

    Raises:
        UserError: no such run or file, an empty file of prompts, numbers out of range.
    """
    for name, value in (("-n", number), ("--max-new-tokens", max_new_tokens), ("--batch-size", batch_size)):
        if value < 1:
            raise UserError(f"{name} must be at least 1, found {value}.")
    if output is not None:
        check_writable(output.parent)
        if output.is_dir():
            raise UserError(f"--output {output} is a folder: name a file.")
    sampling = Sampling(top_p=top_p, temperature=temperature, top_k=top_k, greedy=greedy)
    lines = [""] if prompts is None else read_prompts(prompts)
    trained = load_trained(checkpoint, device=device)
    if not isinstance(trained.model, Writer):
        raise UserError(f"{trained.checkpoint} holds a {type(trained.model).__name__}, which does not write texts.")
    log.info("Writing with %s", trained.checkpoint)
    jobs = [(line, text_seed(seed, index, copy)) for index, line in enumerate(lines) for copy in range(number)]
    _log_unknown(lines, trained.vocabulary)
    texts = trained.model.generate(
        [encode(trained.vocabulary, line.split()).ids.tolist() for line, _ in jobs],
        eos=trained.vocabulary.eos,
        sampling=sampling,
        seeds=[item_seed for _, item_seed in jobs],
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
        progress=sys.stderr.isatty(),
    )
    rows = []
    for (line, item_seed), ids in zip(jobs, texts, strict=True):
        text = " ".join(trained.vocabulary.decode(ids).split())  # one line, whatever the pieces hold
        row = {"prompt": line, "text": text, "seed": item_seed}
        rows.append(json_format.dumps(row, ensure_ascii=False) if json else text)
    content = "".join(f"{row}\n" for row in rows)
    if output is None:
        return content
    write_atomically(output, content)
    log.info("%d texts written to %s", len(rows), output)
    return None


def _log_unknown(lines: list[str], vocabulary: AnyVocabulary) -> None:
    ids = [i for line in lines for i in encode(vocabulary, line.split()).ids.tolist()]
    if unknown := ids.count(vocabulary.unk):
        log.info("%d of the prompts' %d tokens are unknown to the model and read as <unk>.", unknown, len(ids))


def read_prompts(path: Path) -> list[str]:
    """The lines of a file of prompts.

    Raises:
        UserError: the file is missing, empty, not UTF-8, or has an empty line.
    """
    lines = []
    for number, line in read_lines(path):
        if not line.strip():
            raise UserError(
                f"{path}:{number}: expected a prompt, found an empty line. Leave --prompts out to begin from nothing."
            )
        lines.append(line)
    return lines


def text_seed(seed: int, prompt: int, copy: int) -> int:
    """The seed of one text, of 63 bits."""
    digest = hashlib.sha256(f"{seed} {prompt} {copy}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1
