"""Texts that a system generates: new words after a prompt, or new sentences after those of a document.

Text k of prompt i depends on the seed, i and k alone: not on the batch, nor on the other prompts.
"""

import json
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from depgen.data.vocabulary import LABELS, Vocabulary
from depgen.decoding.generation import Generated, generate
from depgen.decoding.settings import Sampling
from depgen.errors import UserError
from depgen.evaluation.parsing import constituents_over_words
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.evaluation.unit_scores import DocumentIds
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.left_to_right import GraphNetwork
from depgen.models.itexp import ExpansionOptions
from depgen.nn.rows import Rows
from depgen.nn.vocabulary import log_softmax_over_vocabulary
from depgen.training.randomness import seed_of
from depgen.trees.annotator import Structure
from depgen.trees.constituency import format_constituents
from depgen.trees.sentence import Sentence

log = logging.getLogger(__name__)
Row = dict[str, Any]


def text_seed(seed: int, prompt: int, copy: int) -> int:
    """The seed of one text."""
    return seed_of(f"{seed} {prompt} {copy}")


def json_lines(texts: pd.DataFrame, *, documents: bool = False) -> Iterator[str]:
    """A line a text, with the words that a graph or tree is over, and labelled constituents as brackets.

    Args:
        texts: as `System.generate` returns them.
        documents: prompts and texts become lists of sentences.
    """
    for row in texts.to_dict("records"):
        if documents:
            prompt = [" ".join(line.split()) for line in row["prompt"].split("\n") if line.strip()]
            row |= {"prompt": prompt, "text": row["text"].split("\n")}
        sentence, structure = row.pop("sentence", None), row.pop("structure", None)
        if sentence is not None and sentence.spans is None:
            row["words"] = sentence.words
        if structure is not None:
            row["structure"] = structure
        if sentence is not None and sentence.spans:
            row["brackets"] = format_constituents(sentence.words, sentence.spans)
        yield json.dumps(row, ensure_ascii=False)


# -- texts, token by token --------------------------------------------------------------------------------------------


def written_structure(trained: Trained) -> Structure | None:
    """What a system builds over a text's words as it writes them; None for nothing, and for brackets without labels."""
    if isinstance(trained.model, GraphNetwork):
        return "graph"
    if trained.model.generation_options is ExpansionOptions:
        return "tree"
    return "constituency" if LABELS in trained.vocabulary.tables else None


def texts_after(
    trained: Trained,
    prompts: Sequence[TextDocument],
    options: Any,  # noqa: ANN401 - of the system
    *,
    number: int,
    **how: Any,  # noqa: ANN401 - arguments of `generate`
) -> list[Row]:
    """The new words after each prompt, whose sentences are one sequence."""
    model: Any = trained.model
    vocabulary, ids = trained.vocabulary, list[list[int]]()
    for prompt in prompts:
        own: list[int] = []
        for sentence in prompt.sentences:
            own += _ids(trained, sentence, begins=not own)
        ids.append(own)
    _log_unknown(ids, vocabulary)
    texts = model.generate(ids, vocabulary=vocabulary, options=options, number=number, **how)
    rows, kind = list[Row](), written_structure(trained)
    for begun, text in zip([own for own in ids for _ in range(number)], texts, strict=True):
        row = {"text": _one_line(vocabulary, text.ids), "log_prob": text.log_prob}
        if text.structure is not None:
            row["structure"] = text.structure
            if kind is not None:
                row["sentence"] = _sentence([*begun, *text.ids], text.structure, vocabulary, kind)
        rows.append(row)
    return rows


def _ids(trained: Trained, sentence: Sentence, *, begins: bool = True) -> list[int]:
    """Token ids of a sentence in the form that the run has learnt from; none where that leaves no word."""
    words = trained.reading.words(sentence)
    ids: list[int] = trained.reading.encode(words, trained.vocabulary, begins=begins).ids.tolist()
    return ids


def _one_line(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    """The words of a text; one line, whatever the pieces hold."""
    return " ".join(vocabulary.decode(ids).split())


def _log_unknown(prompts: Sequence[Sequence[int]], vocabulary: Vocabulary) -> None:
    ids = [each for prompt in prompts for each in prompt]
    if unknown := ids.count(vocabulary.unk):
        log.info("%d of the prompts' %d tokens are unknown to the model and read as <unk>.", unknown, len(ids))


def _sentence(ids: Sequence[int], structure: Any, vocabulary: Vocabulary, kind: Structure) -> Sentence:  # noqa: ANN401
    """The words that tokens spell, as edges number them, with what was built over the tokens.

    A word without a visible character is `_`. In a tree a word has the arc of its first piece; constituents that cut a
    word of several pieces are left out.
    """
    word = vocabulary.word_of_token(ids)
    parts = np.split(np.array(ids), np.flatnonzero(np.diff(word)) + 1) if ids else []
    words = tuple("_".join(vocabulary.decode(part.tolist()).split()) or "_" for part in parts)
    if kind == "graph":
        return Sentence(words, edges=structure)
    if kind == "constituency":
        spans = constituents_over_words(structure, word - 1) if words else []
        return Sentence(words, spans=tuple(sorted(spans, key=lambda span: (span[0], -span[1]))))
    numbers = [0, *word.tolist()]
    firsts = [token for token in range(len(ids)) if numbers[token + 1] != numbers[token]]
    heads = tuple(numbers[structure["heads"][token]] for token in firsts)
    return Sentence(words, heads, tuple(structure["relations"][token] for token in firsts))


# -- documents, sentence by sentence ----------------------------------------------------------------------------------


def continuations(
    trained: Trained,
    prompts: Sequence[TextDocument],
    options: Any,  # noqa: ANN401 - of the system
    *,
    number: int,
    **how: Any,  # noqa: ANN401
) -> list[Row]:
    """The new sentences after those of each prompt, one a line.

    Where last words are read twice, those that are generated twice are written once.
    """
    model: Any = trained.model
    longest, most = trained.reading.longest, max(len(prompt.sentences) for prompt in prompts) + options.sentences
    if longest is not None and most > longest:  # a segment knows nothing of those before it
        raise UserError(
            f"{trained.run} is tested on segments of at most {longest} sentences (eval_sentences_per_segment), and a "
            f"document with its continuation would have {most}: give shorter prompts or fewer --sentences."
        )
    ids = [[own for each in prompt.sentences if (own := _ids(trained, each))] for prompt in prompts]
    _log_unknown([sentence for document in ids for sentence in document], trained.vocabulary)
    documents = continue_documents(
        model, [document for document in ids for _ in range(number)], vocabulary=trained.vocabulary, sampling=options,
        sentences=options.sentences, **how,
    )  # fmt: skip
    rows = list[Row]()
    for document in documents:
        sentences = [each.ids for each in document]
        if trained.reading.final_word_twice:  # a sentence that was cut has no last word
            sentences = [
                own[:-1] if len(own) < how["max_new_tokens"] and own[-1:] == own[-2:-1] else own for own in sentences
            ]
        text = "\n".join(_one_line(trained.vocabulary, own) for own in sentences)
        rows.append({"text": text, "log_prob": math.fsum(each.log_prob for each in document)})
    return rows


@dataclass(frozen=True)
class _Beginning(Rows):
    """The beginnings of one sentence in each of several documents.

    Attributes:
        before: what the sentences before it have left, a document a row; None where it is the first.
        tokens: `<s>` and words; None before the first step.
    """

    before: Any
    tokens: Int[Tensor, "documents length"] | None = None


def _begin(states: Sequence[Any], chosen: Sequence[int]) -> _Beginning:
    before = [states[place] for place in chosen]
    return _Beginning(None if before[0] is None else stacked(before))


@torch.inference_mode()
def continue_documents(
    model: DocumentLanguageModel,
    documents: Sequence[DocumentIds],
    *,
    vocabulary: Vocabulary,
    sampling: Sampling,
    seeds: Sequence[int],
    sentences: int,
    max_new_tokens: int,
    batch_size: int = 64,
    progress: bool = False,
) -> list[list[Generated]]:
    """New sentences of each document, without their ends; document k depends on its sentences and seed k alone.

    They are drawn from the very distribution that scores them; only `<s>`, where a vocabulary has one, is never drawn.
    For each new word its sentence is encoded again, from the state after the sentences before it. A sentence is cut at
    `max_new_tokens`, and the next one follows all the same.
    """

    def after(sentences: DocumentIds, before: Any) -> Any:  # noqa: ANN401 - a state of the system
        for ids in sentences:
            _, before = model.step(torch.tensor([[vocabulary.start, *ids]], device=model.device), before)
        return before

    def step(
        tokens: Tensor, padding: Tensor | None, state: _Beginning
    ) -> tuple[Float[Tensor, "documents vocab"], _Beginning]:
        so_far = tokens if state.tokens is None else torch.cat((state.tokens, tokens), 1)
        features, _ = model.step(so_far, state.before)
        log_probs = log_softmax_over_vocabulary(features[:, -1], model.output_weight, model.output_bias)
        if vocabulary.start != vocabulary.eos:  # no text holds it, but a softmax gives it something
            log_probs = log_probs.index_fill(1, torch.tensor([vocabulary.start], device=model.device), -torch.inf)
        return log_probs, _Beginning(state.before, so_far)

    keys = [tuple(map(tuple, document)) for document in documents]
    left = {key: after(key, None) for key in dict.fromkeys(keys)}  # a document that comes again is read once
    states = [left[key] for key in keys]
    written: list[list[Generated]] = [[] for _ in documents]
    for sentence in range(sentences):
        begun = [place for place, state in enumerate(states) if state is not None]
        others = [place for place, state in enumerate(states) if state is None]
        for places in filter(None, (begun, others)):  # a batch begins its documents or continues them
            texts = generate(
                step, [[vocabulary.start]] * len(places), eos=vocabulary.eos, unk=vocabulary.unk, options=sampling,
                seeds=[seed_of(f"{seeds[place]} sentence {sentence}") for place in places],
                max_new_tokens=max_new_tokens, batch_size=batch_size, device=model.device, progress=progress,
                begin=partial(_begin, [states[place] for place in places]),
            )  # fmt: skip
            for place, text in zip(places, texts, strict=True):
                written[place].append(text)
        if sentence + 1 < sentences:
            states = [after([text[-1].ids], state) for text, state in zip(written, states, strict=True)]
    return written


def stacked(states: Sequence[Any]) -> Any:  # noqa: ANN401
    """States of a row each as one; where they are of unequal length, zeros fill up the second axis.

    >>> stacked([(torch.ones(1, 2),), (torch.ones(1, 3),)])[0].tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    first = states[0]
    if isinstance(first, Tensor):
        longest = max(state.shape[1] for state in states)
        spare = [(0, 0) * (state.dim() - 2) + (0, longest - state.shape[1]) for state in states]
        return torch.cat([F.pad(state, pad) for state, pad in zip(states, spare, strict=True)])
    parts = [stacked(each) for each in zip(*states, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
