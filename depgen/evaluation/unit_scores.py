"""Texts as token ids in batches, and what a system makes of them: log-probabilities, ranks among all next words."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int, Int64
from torch import Tensor, nn

from depgen.data.batch import ItemBatch, TokenBatch, TokenItem, WordBatch, collate_tokens, collate_words
from depgen.data.sampler import budget_starts
from depgen.data.tokenization import Span
from depgen.data.vocabulary import Encoding, Vocabulary, encode
from depgen.errors import UserError, check_at_least, check_one_of
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.language_models.base import LanguageModel, Masking
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.left_to_right import LeftToRight, Windows
from depgen.language_models.masked import PretrainedMaskedLM
from depgen.language_models.structured import StructuredLanguageModel
from depgen.nn.precise import precise
from depgen.nn.vocabulary import log_softmax_over_vocabulary
from depgen.progress import progress_bar
from depgen.trees.sentence import Sentence

DocumentIds = Sequence[Sequence[int]]
"""Token ids of a document's sentences, without beginning and end; none is empty."""
TOKENS_AT_ONCE, TOKENS_AT_ONCE_ON_CPU = 8192, 1024
"""Tokens of a batch, padding included, where a caller names no number."""
RANKED_AT_ONCE = 4096
"""The same where next words are ranked; the distributions of only one position are held at a time."""
D = TypeVar("D", bound=DocumentIds)
T = TypeVar("T")


def in_batches(
    model: LanguageModel,
    documents: Sequence[D],
    compute: Callable[[list[D]], Iterable[T]],
    *,
    tokens_per_batch: int,
    alike: bool = False,
    doing: str,
    progress: bool = False,
) -> list[T]:
    """What a system computes of each document, in the order of the documents, in full precision.

    Args:
        model: a system in evaluation mode.
        documents: what it reads as one each.
        compute: of some documents.
        tokens_per_batch: padding included; a longer document is a batch by itself.
        alike: whether documents that begin alike are computed together, for systems that search these once; else those
            of like length are.
        doing: what the progress bar calls it.
        progress: show a progress bar.
    """
    assert not model.training, "results are those of evaluation"
    batches = _alike if alike else batches_of
    results: dict[int, T] = {}
    with (
        torch.inference_mode(),
        torch.autocast(model.device.type, enabled=False),
        progress_bar(doing, total=len(documents), unit="documents", shown=progress) as advance,
    ):
        for places in batches(documents, tokens_per_batch=tokens_per_batch):
            results |= zip(places, compute([documents[place] for place in places]), strict=True)
            advance(len(places))
    return [results[place] for place in range(len(documents))]


def score_documents(
    model: LanguageModel,
    documents: Sequence[DocumentIds],
    *,
    vocabulary: Vocabulary,
    tokens_per_batch: int | None = None,
    progress: bool = False,
) -> list[list[Float[np.ndarray, " tokens"]]]:
    """Log-probabilities (nats) of each document's tokens, sentence by sentence, whatever the batches.

    Documents of the same tokens are read once, so that they tie exactly. What kind the scores are says
    `model.likelihood`, and which tokens there are `LanguageModel.sentence_log_probs`.

    Args:
        model: a system in evaluation mode.
        documents: what it reads as one each; sentences to be read by themselves are documents of one sentence.
        vocabulary: that it was trained with.
        tokens_per_batch: None: see `tokens_at_once`.
        progress: show a progress bar.
    """
    keys = [tuple(map(tuple, document)) for document in documents]
    different = list(dict.fromkeys(keys))
    scores = in_batches(
        model, different, partial(model.sentence_log_probs, vocabulary=vocabulary),
        tokens_per_batch=tokens_per_batch or tokens_at_once(model), alike=model.likelihood == "bound", doing="scoring",
        progress=progress,
    )  # fmt: skip
    if any(np.isnan(sentence).any() for document in scores for sentence in document):
        raise UserError(
            "Expected log-probabilities, found nan: the system's weights are damaged. Take another checkpoint of the "
            "run."
        )
    by_key = dict(zip(different, scores, strict=True))
    return [by_key[key] for key in keys]


def tokens_at_once(model: LanguageModel) -> int:
    """The tokens of a batch that a system scores fast.

    On a CPU the hidden states of a small batch stay in the caches. A system that encodes documents sentence by sentence
    needs larger batches, because each of its steps computes one word of each document.
    """
    small = model.device.type == "cpu" and not isinstance(model, DocumentLanguageModel)
    return TOKENS_AT_ONCE_ON_CPU if small else TOKENS_AT_ONCE


def batches_of(
    documents: Sequence[DocumentIds], *, tokens_per_batch: int, batch_size: int | None = None
) -> Iterator[list[int]]:
    """The places of documents of like length, which are scored at once."""
    lengths = np.array([sum(len(ids) + 1 for ids in document) for document in documents], dtype=np.int64)
    return batches_of_lengths(lengths, tokens_per_batch=tokens_per_batch, batch_size=batch_size)


def batches_of_lengths(
    lengths: Int[np.ndarray, " items"], *, tokens_per_batch: int, batch_size: int | None = None
) -> Iterator[list[int]]:
    """The places of items of like length whose padded size is within the budget; a longer item is a batch by itself.

    >>> list(batches_of_lengths(np.array([1, 7, 2, 1]), tokens_per_batch=4))
    [[0, 3], [2], [1]]
    """
    by_length = np.argsort(lengths, kind="stable")
    starts = budget_starts(lengths[by_length].tolist(), tokens_per_batch, most=batch_size)
    for start, end in pairwise([*starts, len(lengths)]):
        yield by_length[start:end].tolist()


def as_sequences(documents: Sequence[DocumentIds], vocabulary: Vocabulary) -> TokenBatch:
    """A batch in which each document is one sequence of words after `<eos>`."""
    items = [TokenItem(place, np.concatenate(document)) for place, document in enumerate(documents)]
    return collate_tokens(ItemBatch(items, sum(len(item.ids) + 1 for item in items), vocabulary))


def _alike(documents: Sequence[DocumentIds], *, tokens_per_batch: int) -> Iterator[list[int]]:
    """The places of documents that begin alike, for systems that search these once."""
    batch, tokens = list[int](), 0
    for place in sorted(range(len(documents)), key=lambda place: [*chain(*documents[place])]):
        size = sum(len(ids) + 1 for ids in documents[place])
        if batch and tokens + size > tokens_per_batch:
            yield batch
            batch, tokens = [], 0
        batch, tokens = [*batch, place], tokens + size
    if batch:
        yield batch


# -- the distribution over the next word ------------------------------------------------------------------------------


class TokenFigures(NamedTuple):
    """Figures of a sentence's tokens and, where the system predicts it, of its end.

    Attributes:
        entropy: nats, of the distribution over the vocabulary that each token was predicted from.
        rank: place of each token in it; 1 is the likeliest.
        boundary: log-probability (nats) that there a word begins or the text ends; 0 in vocabularies of words.
    """

    entropy: Float64[np.ndarray, " tokens"]
    rank: Int64[np.ndarray, " tokens"]
    boundary: Float64[np.ndarray, " tokens"]


def next_word_figures(
    model: LanguageModel,
    documents: Sequence[DocumentIds],
    *,
    vocabulary: Vocabulary,
    boundaries: bool = False,
    progress: bool = False,
) -> list[list[TokenFigures]]:
    """Figures of the tokens that `score_documents` scores, sentence by sentence; `boundary` is 0 if not asked for."""
    name = type(model).__name__
    if isinstance(model, StructuredLanguageModel):
        raise UserError(
            f"A {name} builds a structure too, and depgen does not sum the next word's probabilities over structures: "
            "leave out next_words and bow_correction."
        )
    if not isinstance(model, DocumentLanguageModel | LeftToRight):
        raise UserError(
            f"A {name} does not predict each word from those before it alone: leave out next_words and bow_correction."
        )
    bounds = None
    if boundaries and vocabulary.splits_words:
        bounds = torch.tensor(vocabulary.opens_word, device=model.device)
        bounds[vocabulary.eos] = True
    by_kind: Any = _figures_of_documents if isinstance(model, DocumentLanguageModel) else _figures_of_sequences
    figures_of = partial(by_kind, model, vocabulary, bounds)
    return in_batches(model, documents, figures_of, tokens_per_batch=RANKED_AT_ONCE, doing="ranking", progress=progress)


def _figures_of_sequences(
    model: LeftToRight, vocabulary: Vocabulary, bounds: Bool[Tensor, " vocab"] | None, documents: Sequence[DocumentIds]
) -> list[list[TokenFigures]]:
    """Each document is one sequence after `<eos>`, read a position at a time, in the model's windows."""
    batch = as_sequences(documents, vocabulary).to(model.device)
    columns, state, length = list[tuple[Tensor, ...]](), None, batch.inputs.size(1)
    windows = model.windows or Windows(None, 1)
    starts, first = windows.starts(length), windows.first
    for position in range(first, length):
        begins = position == first or starts[position] > starts[position - 1]
        tokens = batch.inputs[:, starts[position] if begins else position : position + 1]
        log_probs, state = model.generation_step(tokens, None, None if begins else state)
        columns.append(_figures(log_probs, batch.targets[:, position], bounds))
    columns = [tuple(map(torch.zeros_like, columns[0]))] * first + columns  # of a token without a score
    measured = [torch.stack(column, 1).cpu().numpy() for column in zip(*columns, strict=True)]
    figures = []
    for row, document in enumerate(documents):
        ends = np.cumsum([len(ids) for ids in document], dtype=np.int64)
        ends[-1] += vocabulary.has_end
        parts = [np.split(of_all[row, : ends[-1]], ends[:-1]) for of_all in measured]
        figures.append([TokenFigures(*part) for part in zip(*parts, strict=True)])
    return figures


def _figures_of_documents(
    model: DocumentLanguageModel,
    vocabulary: Vocabulary,
    bounds: Bool[Tensor, " vocab"] | None,
    documents: Sequence[DocumentIds],
) -> list[list[TokenFigures]]:
    """Each sentence after `<s>` and what the sentences before it have left."""
    figures = []
    for document in documents:
        before, of_sentences = None, list[TokenFigures]()
        for ids in document:
            inputs = torch.tensor([[vocabulary.start, *ids]], device=model.device)
            features, before = model.step(inputs, before)
            log_probs = log_softmax_over_vocabulary(features[0], model.output_weight, model.output_bias)
            targets = torch.tensor([*ids, vocabulary.eos], device=model.device)
            measured = _figures(log_probs, targets, bounds)
            of_sentences.append(TokenFigures(*(figure.cpu().numpy() for figure in measured)))
        figures.append(of_sentences)
    return figures


def _figures(
    log_probs: Float[Tensor, "positions vocab"],
    targets: Int[Tensor, " positions"],
    bounds: Bool[Tensor, " vocab"] | None,
) -> tuple[Float[Tensor, " positions"], Int[Tensor, " positions"], Float[Tensor, " positions"]]:
    """See `TokenFigures`; a target shares the first place of all that are as likely."""
    entropies = precise(torch.special.entr(log_probs.exp())).sum(-1)
    likelier = log_probs > log_probs.gather(1, targets[:, None])
    boundary = torch.zeros_like(entropies) if bounds is None else precise(log_probs[:, bounds]).logsumexp(-1)
    return entropies, 1 + likelier.sum(-1), boundary


# -- what measures ask -----------------------------------------------------------------------------------------------


def sequence_losses(trained: Trained, sequences: Sequence[Int[np.ndarray, " _"]]) -> list[Float[np.ndarray, " tokens"]]:
    """The negative log-likelihood (nats) of each token of sequences that are read by themselves, their ends included.

    Args:
        trained: a run's system.
        sequences: token ids, without beginning and end; none is empty.
    """
    model = trained.model
    if model.likelihood != "exact":
        raise UserError(
            f"{trained.checkpoint} holds a {type(model).__name__}, whose likelihood of a text is "
            f"{model.likelihood}, not exact: name a run of a left-to-right system."
        )
    trained.check_has_end()
    documents = [[ids.tolist()] for ids in sequences]
    scores = score_documents(model, documents, vocabulary=trained.vocabulary, tokens_per_batch=TOKENS_AT_ONCE)
    return [-found.astype(np.float64) for (found,) in scores]


@contextmanager
def beam_of(model: nn.Module, size: int | None) -> Iterator[int | None]:
    """Gives a system whose scores are bounds a beam of this size, and its own back afterwards; yields what counts."""
    check_at_least(1, beam_size=size)
    system: Any = model
    own = getattr(system, "beam_size", None) if getattr(model, "likelihood", None) == "bound" else None
    if own is None and size is not None:
        raise UserError(
            f"beam_size is of systems whose scores are bounds by a beam, and those of {type(model).__name__} are none: "
            "leave it out."
        )
    if own is not None:
        system.beam_size = size or own
    try:
        yield own and system.beam_size
    finally:
        if own is not None:
            system.beam_size = own


@contextmanager
def read_by(trained: Trained, begin: str | None, stride: int | None, masking: Masking | None) -> Iterator[Vocabulary]:
    """Lets a pretrained causal model begin texts by a token, or by `none`, and slide its window by a stride, or a
    masked one hide what `masking` says; yields the vocabulary with that token. Windows are as before afterwards.
    """
    check_one_of(masking=(masking, Masking))
    model, vocabulary = trained.model, trained.vocabulary
    if isinstance(model, PretrainedMaskedLM):
        model.masking = masking or "original"
    elif masking is not None:
        raise UserError("masking: expected with a pretrained masked model: leave it out.")
    own = getattr(model, "windows", None)
    if own is None:
        if begin is not None or stride is not None:
            raise UserError("begin, stride: expected with a pretrained causal model: leave them out.")
        yield vocabulary
        return
    assert isinstance(model, LeftToRight)
    check_at_least(1, stride=stride)
    if begin not in (None, "none"):
        specials = {**vocabulary.specials, "start": begin}
        vocabulary = Vocabulary(vocabulary.tokenizer, specials=specials, reads_specials=True)
    first = own.first if begin is None else int(begin == "none")
    model.windows = Windows(own.context, min(stride or own.stride, own.context or own.stride), first)
    try:
        yield vocabulary
    finally:
        model.windows = own


# -- sentences and documents as token ids -----------------------------------------------------------------------------


@dataclass(frozen=True)
class EncodedSentence:
    """A sentence as token ids.

    Attributes:
        sentence: its words.
        spans: the characters of each word; None for words of files.
        kept: whether the system reads each word.
        encoding: token ids of the words that it reads, and the word that each belongs to.
        unknown: whether each token is `<unk>`.
    """

    sentence: Sentence
    spans: Sequence[Span | None]
    kept: Sequence[bool]
    encoding: Encoding
    unknown: Bool[np.ndarray, " tokens"]


def encode_documents(
    trained: Trained, documents: Sequence[TextDocument], *, as_one: bool, sliding: bool = False
) -> tuple[list[list[EncodedSentence]], list[DocumentIds]]:
    """The sentences of each document, and the token ids of what a system reads at once, without empty sentences.

    Args:
        trained: the system.
        documents: of any texts.
        as_one: whether a document is read as one (or in the run's segments), or each sentence by itself.
        sliding: whether a window slides over texts that are too long.
    """
    as_sequence = as_one and not isinstance(trained.model, DocumentLanguageModel)
    encoded, units = list[list[EncodedSentence]](), list[DocumentIds]()
    for document in documents:
        sentences = _encoded(trained, document, as_sequence=as_sequence)
        filled = [
            (sentence.encoding.ids.tolist(), place)
            for sentence, place in zip(sentences, document.places, strict=True)
            if len(sentence.encoding.ids)
        ]
        for unit in trained.reading.segments(filled) if as_one else [[sentence] for sentence in filled]:
            if not sliding:
                _check_length(trained, unit, as_sequence=as_sequence)
            units.append([ids for ids, _ in unit])
        encoded.append(sentences)
    return encoded, units


def _encoded(trained: Trained, document: TextDocument, *, as_sequence: bool) -> list[EncodedSentence]:
    """The sentences of a document; the first word of each text that is read as one begins it."""
    reading, sentences, begins = trained.reading, list[EncodedSentence](), True
    for sentence, spans in zip(document.sentences, document.spans_of_sentences, strict=True):
        kept = reading.kept(sentence)
        words = reading.spelt(sentence, kept)
        encoding = reading.encode(words, trained.vocabulary, begins=begins)
        sentences.append(EncodedSentence(sentence, spans, kept, encoding, encoding.ids == trained.vocabulary.unk))
        begins = not as_sequence or (begins and not words)
    return sentences


def _check_length(trained: Trained, unit: Sequence[tuple[list[int], str]], *, as_sequence: bool) -> None:
    most, lengths = trained.model.longest_scored, [len(ids) for ids, _ in unit]
    length = sum(lengths) if as_sequence else max(lengths)
    if most is not None and length > most:
        place = unit[0 if as_sequence else lengths.index(length)][1]
        raise UserError(
            f"{place}: expected a {'document' if as_sequence else 'sentence'} of at most {most} tokens, which is what "
            f"{type(trained.model).__name__} of {trained.run} reads at once, found {length}: cut it into shorter ones"
            f"{', or leave out --reads document' if as_sequence else ''}."
        )


def sentence_batches(
    vocabulary: Vocabulary,
    sentences: Sequence[Sentence],
    *,
    tokens_per_batch: int,
    batch_size: int | None = None,
) -> Iterator[WordBatch]:
    """Sentences of like length together, with their trees where all of a batch have one; those without words are left
    out.

    Args:
        vocabulary: of whole words, with `<mask>`.
        sentences: in the form of the text that the network has learnt from; `items` of a batch are places among them.
        tokens_per_batch: padding included; a longer sentence is a batch by itself.
        batch_size: the most sentences in a batch; None: any number.
    """
    encoded = [encode(vocabulary, sentence.words).ids for sentence in sentences]
    lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
    assert lengths.tolist() == [len(sentence) for sentence in sentences], "heads are those of whole words"
    filled = np.flatnonzero(lengths)
    for batch in batches_of_lengths(lengths[filled], tokens_per_batch=tokens_per_batch, batch_size=batch_size):
        items = []
        for place in filled[batch].tolist():
            heads = sentences[place].heads
            items.append(TokenItem(place, encoded[place], None if heads is None else np.array(heads)))
        yield collate_words(ItemBatch(items, int(lengths[filled[batch]].sum()), vocabulary))
