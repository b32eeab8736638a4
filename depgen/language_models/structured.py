"""The base of the systems that write a text and a structure over it together: graphs, bracketings or trees.

A system has p(x, y) of tokens x and a structure y. The hypotheses of the search are structures over the tokens so far:
p(x) is at least the sum over those that a beam holds. Its batch is a subclass of `TokenBatch` whose added fields of
default None hold structures. A system says

    joint_nll(batch)                    the nats of each text and its structure, by which it is validated
    beginning_of(batch)                 the state of hypotheses after the input that begins each text
    with_input(beam, batch, k)          the hypotheses after input k and its part of the structure
    next_log_probs(state, tokens)       the log-probability of target k, or, where something is built before the target,
    with_target(beam, batch, k, ...)    the hypotheses with target k
    structure_of(state, row)            what a hypothesis has built

and, for texts that are written choice by choice, tokens and parts of the structure in one alphabet,

    choices_of(ids, structure, vocabulary)             the choices of a prompt
    writing_step(writing, tokens, padding, state)      the distribution of the next choice
    written_structure(writing, state, row, choices)    what the choices of a text have built
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.data.batch import ItemBatch, TokenBatch, TokenItem
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.beam import Beam, search_parts
from depgen.decoding.generation import Generated, generate
from depgen.decoding.settings import StructureOptions
from depgen.errors import UserError
from depgen.language_models.base import Likelihood
from depgen.language_models.left_to_right import LeftToRight
from depgen.metrics.item_scores import ItemScores


@dataclass(frozen=True)
class Writing:
    """What the texts of one call of `generate` have in common.

    Attributes:
        vocabulary: of the texts.
        device: where the system is.
        max_new_tokens: the most tokens of a text, without its prompt.
        longest: the most tokens of a prompt and its text together.
    """

    vocabulary: Vocabulary
    device: torch.device
    max_new_tokens: int
    longest: int

    @cached_property
    def opens_word(self) -> Bool[Tensor, " vocab"]:
        """Whether each token begins a word, which not every vocabulary can say."""
        return torch.from_numpy(self.vocabulary.opens_word).to(self.device)


class StructuredLanguageModel(LeftToRight):
    """Base of the systems that write a text and a structure over it together.

    Validation scores text and structure, which all sentences must have. Scores of texts, and of the test split, are
    sums over the structures that a beam holds, hence lower bounds.

    Attributes:
        vocabulary_size: number of token types; the ids of other choices follow.
        beam_size: hypotheses about the structure of a text that is scored.
    """

    likelihood: Likelihood = "bound"
    generation_options = StructureOptions
    vocabulary_size: int
    beam_size: int

    # -- what a system provides: the search ---------------------------------------------------------------------------

    def beginning_of(self, batch: Any) -> Any:  # noqa: ANN401, the system's own
        """The state after the first input of each text; it has `select`."""
        raise NotImplementedError(f"{type(self).__name__} has no beginning_of")

    def with_input(self, beam: Beam[Any], batch: Any, k: int, *, beam_size: int) -> Beam[Any]:  # noqa: ANN401
        """The hypotheses after input k, from 1 on, and its part of the structure; as they are if they have read it."""
        return beam

    def with_target(
        self,
        beam: Beam[Any],
        batch: Any,  # noqa: ANN401
        k: int,
        *,
        beam_size: int,
        with_end: bool,
    ) -> Beam[Any]:
        """The hypotheses with target k and what is built before it: by default nothing.

        The end of a text counts if `with_end`.
        """
        counts = ((batch.lengths != k + 1) | with_end).to(self.device)[beam.items]
        log_probs = self.next_log_probs(beam.state, batch.targets[beam.items, k])
        return beam.scored(torch.where(counts, log_probs, 0), beam.state)

    def next_log_probs(self, state: Any, tokens: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:  # noqa: ANN401
        """The log-probability (nats) of a token next, where nothing is built before it."""
        raise NotImplementedError(f"{type(self).__name__} has no next_log_probs")

    def structure_of(self, state: Any, row: int) -> Sequence[Any]:  # noqa: ANN401
        """What a hypothesis has built; empty for a text without tokens."""
        raise NotImplementedError(f"{type(self).__name__} has no structure_of")

    def targets_searched(self, batch: Any, *, with_end: bool) -> Int[Tensor, " batch"]:  # noqa: ANN401
        """How many targets of each text are searched, on the CPU."""
        lengths: Tensor = batch.lengths
        return lengths

    def representatives(self, batch: Any) -> Int[Tensor, "batch length_and_one"]:  # noqa: ANN401
        """See `depgen.decoding.beam.representatives`; by default each text is searched by itself."""
        items, length = batch.inputs.shape
        return torch.arange(items, device=batch.inputs.device)[:, None].expand(-1, length + 1)

    def columns_kept(self, length: int) -> int:
        """How many positions a hypothesis keeps in its state, over a text of some inputs; see `search_parts`."""
        return length

    def joint_nll(self, batch: Any) -> Float[Tensor, " batch"]:  # noqa: ANN401
        """The nats of each item's text together with the structure that is given; all items have one."""
        raise NotImplementedError(f"{type(self).__name__} has no joint_nll")

    # -- scores -------------------------------------------------------------------------------------------------------

    def log_probs(self, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        """What each target adds to the log-probability (nats) of its text, over the structures that a beam holds."""
        return self.search(batch, beam_size=self.beam_size)[0]

    def item_scores(self, batch: TokenBatch) -> ItemScores:
        """The scores of a batch's items: of text and structure where structures are given, else the text's bound."""
        if not _has_structures(batch):
            return super().item_scores(batch)
        return self.scores_of_items(batch, self.joint_nll(batch), of_text=False)

    def validation_step(self, batch: TokenBatch, batch_idx: int) -> None:
        """The loss of text and structure together: of all sentences or of none, however they are batched.

        Raises:
            UserError: a sentence has no structure.
        """
        self.refuse_without_structures(batch)
        super().validation_step(batch, batch_idx)

    def refuse_without_structures(self, batch: TokenBatch) -> None:
        """Raises UserError where a sentence of a batch that is learnt from, or validated, has no structure."""
        if not _has_structures(batch):
            raise UserError(
                f"{type(self).__name__} reads texts and their structures, and at least one sentence of a batch of "
                f"{len(batch.items)} has none: set data.init_args.annotator to one that gives every sentence a "
                "structure, and data.init_args.trees_for to all splits that are trained on and validated."
            )

    def test_step(self, batch: TokenBatch, batch_idx: int) -> None:
        """The bound of the text, also where structures are given."""
        super().test_step(_without_structures(batch), batch_idx)

    @torch.inference_mode()
    def best_structures(
        self, sentences: Sequence[Sequence[int]], *, vocabulary: Vocabulary, beam_size: int, with_end: bool = True
    ) -> list[Sequence[Any]]:
        """The likeliest structure of each sentence of token ids, without beginning and end, as `structure_of` gives it.

        Sentences end after their last token, or may continue, without `with_end`.
        """
        if not sentences:
            return []
        items = [TokenItem(place, np.asarray(ids, np.int64)) for place, ids in enumerate(sentences)]
        batch = self.collate(ItemBatch(items, 1, vocabulary)).to(self.device)
        assert isinstance(batch, TokenBatch)
        return self.search(batch, beam_size=beam_size, with_end=with_end)[1]

    def search(
        self, batch: TokenBatch, *, beam_size: int, with_end: bool = True
    ) -> tuple[Float[Tensor, "batch length"], list[Sequence[Any]]]:
        """What each target adds to the log-probability (nats) of its text, and the likeliest structure of each text.

        What is built before a target counts at the target. A batch is searched in parts that fit into memory, without
        the structures that it holds. Texts end after their last token, or may continue, without `with_end`.
        """
        (items, length), log_probs, structures = batch.inputs.shape, list[Tensor](), list[Sequence[Any]]()
        texts, columns = _without_structures(batch), self.columns_kept(length)
        for rows in search_parts(items, length=columns, beam_size=beam_size, device=batch.inputs.device):
            fields_of = vars(texts).items()
            part: dict[str, Any] = {name: column[rows] for name, column in fields_of if isinstance(column, Tensor)}
            of_part, best = self._search(replace(texts, **part), beam_size, with_end)
            log_probs.append(F.pad(of_part, (0, length - of_part.size(1))))
            structures += best
        return torch.cat(log_probs).to(self.backbone.output_weight.dtype), structures

    def _search(self, batch: TokenBatch, beam_size: int, with_end: bool) -> tuple[Tensor, list[Sequence[Any]]]:
        items, device = len(batch.inputs), batch.inputs.device
        lengths = self.targets_searched(batch, with_end=with_end)
        longest, first = int(batch.lengths.max()), self.representatives(batch)
        beam = Beam.of(self.beginning_of(batch), items, device=device)
        beam = beam.only(first[:, 0] == torch.arange(items, device=device))
        sums, best = beam.scores.new_zeros(items, longest + 1), list[Sequence[Any]]([()] * items)
        for k in range(int(lengths.max())):
            goes_on = (lengths > k).to(device)
            if bool((lengths == k).any()):
                beam = beam.only(goes_on[beam.items])
            if k:
                beam = self.with_input(beam, batch, k, beam_size=beam_size)
            beam = beam.regrouped(first[:, k], first[:, k + 1])
            beam = self.with_target(beam, batch, k, beam_size=beam_size, with_end=with_end)
            sums[:, k + 1] = torch.where(goes_on, beam.marginals(items)[first[:, k + 1]], sums[:, k])
            ends = lengths == k + 1
            for row in beam.best().tolist() if bool(ends.any()) else ():
                item = int(beam.items[row])
                best[item] = self.structure_of(beam.state, row) if ends[item] else best[item]
        sums[:, int(lengths.max()) + 1 :] = sums[:, int(lengths.max()), None]
        of_whole = first.gather(1, lengths.to(device)[:, None])[:, 0].tolist()
        return sums.diff(dim=1), [best[item] for item in of_whole]

    # -- what a system provides: texts that are written ---------------------------------------------------------------

    def choices_of(self, ids: Sequence[int], structure: Sequence[Any], vocabulary: Vocabulary) -> list[int]:
        """The choices of a prompt after its beginning, from what `best_structures` gives."""
        raise NotImplementedError(f"{type(self).__name__} has no choices_of")

    def choices_per_token(self, longest_prompt: int, max_new_tokens: int) -> int:
        """The most choices that a token of a text takes; 2 for systems in which tokens and choices come in turn."""
        return 2

    def writing_step(
        self,
        writing: Writing,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: Any,  # noqa: ANN401
    ) -> tuple[Float[Tensor, "batch choices"], Any]:
        """Log-probabilities of the choice after some choices; see `depgen.decoding.generation.Step`."""
        raise NotImplementedError(f"{type(self).__name__} has no writing_step")

    def written_structure(self, writing: Writing, state: Any, row: int, choices: Sequence[int]) -> Any:  # noqa: ANN401
        """What a text has built, by its choices, those of its prompt included, and its row of the state before its end.

        The state of a text that is cut has not read the last choice.
        """
        raise NotImplementedError(f"{type(self).__name__} has no written_structure")

    # -- generation ---------------------------------------------------------------------------------------------------

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        vocabulary: Vocabulary,
        options: Any,  # noqa: ANN401, `StructureOptions`
        seeds: Sequence[int],
        max_new_tokens: int,
        number: int = 1,
        batch_size: int = 64,
        progress: bool = False,
    ) -> list[Generated]:
        """Texts with the structure over prompt and text as one sentence; see `LeftToRight.generate`.

        The likeliest structure of a prompt, of `options.prompt_beam_size` hypotheses, is continued.
        """
        self.refuse_longer_texts(prompts, max_new_tokens)
        prompts_size = max(map(len, prompts), default=0)
        writing = Writing(vocabulary, self.device, max_new_tokens, prompts_size + max_new_tokens)
        best = self.best_structures(prompts, vocabulary=vocabulary, beam_size=options.prompt_beam_size, with_end=False)
        begun = [self.choices_of(*prompt, vocabulary) for prompt in zip(prompts, best, strict=True)]

        def built(state: Any, row: int, choices: Sequence[int]) -> Any:  # noqa: ANN401
            return self.written_structure(writing, state, row, choices[1:])

        texts = generate(
            partial(self.writing_step, writing), [[vocabulary.eos, *prompt] for prompt in begun], eos=vocabulary.eos,
            options=options, seeds=seeds, max_new_tokens=max_new_tokens, number=number, batch_size=batch_size,
            device=self.device, progress=progress,
            choices_per_token=self.choices_per_token(prompts_size, max_new_tokens), built=built,
        )  # fmt: skip
        return [replace(text, ids=[choice for choice in text.ids if choice < self.vocabulary_size]) for text in texts]


def _structures(batch: TokenBatch) -> list[str]:
    """The fields of given structures: those that a system adds to a batch with the default None."""
    texts = {field.name for field in fields(TokenBatch)}
    return [field.name for field in fields(batch) if field.name not in texts and field.default is None]


def _has_structures(batch: TokenBatch) -> bool:
    return all(getattr(batch, name) is not None for name in _structures(batch))


def _without_structures(batch: TokenBatch) -> TokenBatch:
    nothing: dict[str, Any] = dict.fromkeys(_structures(batch))
    return replace(batch, **nothing)


def in_turn(ids: Sequence[int], choices: Sequence[int], vocabulary_size: int) -> list[int]:
    """Each token followed by its choice, whose ids follow those of tokens; in front choice 0, of the beginning.

    >>> in_turn([5, 6], [0, 2], vocabulary_size=9)
    [9, 5, 9, 6, 11]
    """
    pairs = zip(ids, choices, strict=True)
    return [vocabulary_size, *chain(*((token, vocabulary_size + choice) for token, choice in pairs))]
