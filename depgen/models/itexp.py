"""Iterative expansion: a sentence is written from the root of its dependency tree down, a level at a time.

Casas, Fonollosa & Costa-jussà (2020), "Syntax-driven Iterative Expansion Language Models for Controllable Text
Generation". A Transformer that sees the whole level gives each placeholder an expansion, which says what placeholders
come at both sides of it at the next level, and then a word. All words of a level are written in parallel.

    paper                      here
    I_tok, O_tok               `inputs`, `targets`: a level's tokens, and the words at its placeholders
    O_exp                      `expansions`: rows of the vocabulary's table of expansions
    head position embedding    `head_embedding`
    dependency placeholder     a token `[label]`, the last types of the vocabulary

A sentence's probability is that of its words and its tree together: the product over its placeholders of
p(expansion | level) p(word | level, expansions). It is at most the probability of the words: `likelihood` is `bound`.
Sums over trees are tighter bounds (`depgen.evaluation.likelihood.over_trees`).

Deviations, numbered
    D1. Written positions get no expansion, in training and in generation. The authors' code draws one there, from an
        output that is never trained (`written_expansions: drawn`).
    D2. What a loss is divided by is an argument of the data (`depgen.data.levels.LevelData.loss_per`).
    D3. The expansion layer is not given in the paper; the last one is the authors' default (`expansion_layer`).
    D4. In scoring and generation, words are normalised without placeholders and `<eos>`, and expansions without
        padding; in training, as in the authors' code, over the whole vocabulary.
    D5. `attention: ancestors` and `semi` (in the first head alone) let a position see itself and its ancestors. In the
        authors' code the matrix is transposed: a position sees its descendants. The paper's model has `full`.
    D6. Padding and unknown expansions are never drawn, as unknown words are not; the authors' code draws padding.
    D7. Subwords are byte-level BPE; the authors have subword-nmt. The dependents of a word at its left hang on its
        first piece, as in the authors' code; the paper has all on the last.
    D8. Texts end at limits of levels and tokens; the authors' code has none.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn
from torchmetrics import Metric

from depgen.backbones.transformer import ScoreFunction, TransformerFactory
from depgen.data.batch import ItemBatch, Memo
from depgen.data.level_batch import LevelBatch, are_written, collate_levels
from depgen.data.levels import PAD_EXPANSION, ROOT, TreeForm, sentence_item
from depgen.data.sampler import budget_starts
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.generated import Generated
from depgen.decoding.levels import (
    ExpansionOptions,
    Growing,
    Patterns,
    brings,
    chosen_expansions,
    chosen_words,
    drawn_expansions,
    expanded,
)
from depgen.decoding.skeletons import Skeleton, at_level, read_skeletons, skeleton_of
from depgen.errors import UserError, check_at_least
from depgen.language_models.base import LanguageModel
from depgen.metrics.item_scores import ItemScores, WordPerplexity
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise, sum_type
from depgen.nn.vocabulary import log_softmax_over_vocabulary, word_log_probs
from depgen.progress import progress_bar
from depgen.training.hyper_parameters import factory

log = logging.getLogger(__name__)

LEVELS_AT_ONCE = 2**18
"""Tokens of levels that are looked through for levels in common."""


class ITEXP(LanguageModel):
    """Writes a sentence and its dependency tree from the root down, all words of a level in parallel.

    Args:
        backbone: makes the network from the vocabulary size, with `causal: false`, `tied: false` and an output bias.
        vocabulary_size: number of token types, placeholders included; linked from the data.
        expansions: rows of the table of expansions; None: from the data's vocabulary.
        placeholders: number of placeholders, the last types; None: from the data's vocabulary.
        expansion_layer: the layer whose states predict expansions, and which their embeddings are added to; 0-based,
            negative from the top (D3).
        max_length: tokens of the longest text: rows of the head positions less 3.
        attention: what a position sees: all (`full`), itself and its ancestors (`ancestors`), or the latter in the
            first attention head alone (`semi`); see D5.
        written_expansions: what written positions get when text is written: `padding`, or `drawn` as in the authors'
            code (D1).
        kwargs: see `LanguageModel`.
    """

    likelihood = "bound"
    sentences_alone = True
    writes_trees = True
    generation_options = ExpansionOptions
    table_sizes = MappingProxyType({"expansions": "expansions", "placeholders": "placeholders"})
    figure_names = (*LanguageModel.figure_names, "word_perplexity")

    def __init__(
        self,
        backbone: TransformerFactory,
        vocabulary_size: int,
        *,
        expansions: int | None = None,
        placeholders: int | None = None,
        expansion_layer: int = -1,
        max_length: int = 1021,
        attention: Literal["full", "ancestors", "semi"] = "full",
        written_expansions: Literal["padding", "drawn"] = "padding",
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        check_at_least(1, max_length=max_length)
        self.backbone = factory(backbone, TransformerFactory)(vocabulary_size)
        if self.backbone.causal:
            raise UserError("ITEXP sees a whole level: set model.init_args.backbone.init_args.causal to false.")
        layers, width = self.backbone.attention_layers, self.backbone.width
        if not -layers <= expansion_layer < layers:
            raise UserError(f"expansion_layer: expected -{layers} to {layers - 1}, found {expansion_layer}.")
        self.expansion_layer, self.attention = expansion_layer % layers, attention
        self.written_expansions, self.longest_scored = written_expansions, max_length
        self.head_embedding = nn.Embedding(max_length + 3, width)  # padding, root, positions
        self.transform = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.LayerNorm(width))
        nn.init.normal_(self.head_embedding.weight, std=width**-0.5)

    def configure_model(self) -> None:
        """Make what depends on the number of expansions."""
        super().configure_model()
        if not hasattr(self, "expansion_output"):
            size, width = self.hparams["expansions"], self.backbone.width
            self.expansion_output = nn.Linear(width, size)
            self.expansion_embedding = nn.Embedding(size, width, padding_idx=PAD_EXPANSION)
            nn.init.normal_(self.expansion_embedding.weight[1:].data, std=width**-0.5)
            nn.init.zeros_(self.expansion_output.bias)

    def figures(self) -> dict[str, Metric]:
        """Those of the base, and perplexity per word."""
        return {**super().figures(), "word_perplexity": WordPerplexity()}

    @property
    def collate(self) -> Callable[[ItemBatch], LevelBatch]:
        """Sentences at their levels."""
        return collate_levels

    def encode(
        self,
        inputs: Int[Tensor, "rows length"],
        heads: Int[Tensor, "rows length"],
        is_word: Bool[Tensor, "rows length"],
        choose: Callable[[Tensor], Tensor],
    ) -> tuple[Float[Tensor, "rows length width"], Float[Tensor, "rows length expansions"]]:
        """States that words are predicted from, and the scores of expansions, not normalised.

        Args:
            inputs: a level of each text.
            heads: 0-based, -1 = root.
            is_word: False at padding.
            choose: from the scores of expansions to the expansion of each position.
        """
        scores: list[Tensor] = []

        def after_layer(layer: int, hidden: Tensor) -> Tensor:
            if layer != self.expansion_layer:
                return hidden
            scores.append(self.expansion_output(hidden))
            added: Tensor = self.expansion_embedding(choose(scores[0]))
            return hidden + added

        output = self.backbone(
            inputs,
            padding=~is_word,
            added_embedding=self.head_embedding((heads + 2) * is_word),
            after_layer=after_layer,
            score_function=self._seen_alone(heads),
        )
        states: Tensor = self.transform(output.hidden)
        return states, scores[0]

    def _seen_alone(self, heads: Int[Tensor, "rows length"]) -> ScoreFunction | None:
        """What hides positions that are no ancestors; None where all are seen."""
        if self.attention == "full":
            return None
        hidden = ~ancestors(heads)
        scores = torch.zeros(hidden.shape, device=heads.device).masked_fill_(hidden, -torch.inf)[:, None]
        if self.attention == "semi":
            others = scores.new_zeros(1, self.backbone.attention_heads - 1, 1, 1).expand(
                len(heads), -1, *hidden.shape[1:]
            )
            scores = torch.cat((scores, others), 1)
        return lambda layer, queries, keys: scores.to(queries.dtype)

    def joint_log_probs(self, batch: LevelBatch, *, restricted: bool = True) -> Float[Tensor, "rows length"]:
        """The log-probability (nats) of each placeholder's word and expansion together; 0 elsewhere.

        Args:
            batch: sentences at levels.
            restricted: normalise without what is never written (D4).
        """
        states, scores = self.encode(batch.inputs, batch.heads, batch.is_word, lambda _: batch.expansions)
        weight, bias = self.outputs(batch.eos, restricted=restricted)
        states, scores, targets, expansions = (
            each.flatten(0, 1)[batch.opened] for each in (states, scores, batch.targets, batch.expansions)
        )
        words = word_log_probs(states, weight, bias, targets)
        patterns = self.expansion_log_probs(scores, restricted=restricted)
        joint = words + patterns.gather(1, expansions[:, None])[:, 0]
        return joint.new_zeros(batch.inputs.numel()).index_copy(0, batch.opened, joint).view(batch.inputs.shape)

    def forward(self, batch: LevelBatch) -> Float[Tensor, "rows length"]:
        """See `joint_log_probs`."""
        return self.joint_log_probs(batch)

    def outputs(self, eos: int, *, restricted: bool) -> tuple[Tensor, Tensor]:
        """Output matrix and bias; restricted, those of words alone, `<eos>` excluded by its bias."""
        weight, bias = self.backbone.output_weight, self.backbone.output_bias
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        if not restricted:
            return weight, bias
        words = len(weight) - self.hparams["placeholders"]
        return weight[:words], bias[:words].index_fill(0, torch.tensor([eos], device=bias.device), -torch.inf)

    @staticmethod
    def expansion_log_probs(
        scores: Float[Tensor, "*places expansions"], *, restricted: bool
    ) -> Float[Tensor, "*places expansions"]:
        """The log-probabilities of expansions; restricted, padding has none."""
        scores = scores.float() if scores.dtype != torch.float64 else scores
        if restricted:
            scores = scores.index_fill(-1, torch.tensor([PAD_EXPANSION], device=scores.device), -torch.inf)
        return scores.log_softmax(-1)

    # -- training and scores ------------------------------------------------------------------------------------------

    def training_step(self, batch: LevelBatch, batch_idx: int) -> Float[Tensor, ""]:
        """Section 3.2: the sum of both cross-entropies, by what the data say that it is divided by."""
        scores = self.joint_log_probs(batch, restricted=False)
        return self.log_train(-(scores.sum(1) * batch.weights).sum(), batch.global_tokens)

    def item_scores(self, batch: LevelBatch) -> ItemScores:
        """Nats of each sentence with its tree, over the levels that the batch holds of it."""
        nll, tokens = (
            each.new_zeros(len(batch.items)).index_add_(0, batch.sentences.to(each.device), each)
            for each in (-precise(self(batch)).sum(1), batch.is_open.sum(1))
        )
        unknown = (batch.is_open & (batch.targets == batch.unk)).sum()
        return ItemScores(batch.items, nll[:, None], tokens[:, None], batch.words, unknown, tokens.sum())

    @torch.inference_mode()
    def sentence_log_probs(
        self,
        documents: Sequence[Sequence[Sequence[int]]],
        *,
        vocabulary: Vocabulary,
        structure: Sequence[Sequence[Any]] | None = None,
    ) -> list[list[Float[np.ndarray, " tokens"]]]:
        """See `LanguageModel`; a structure is heads (1-based, 0 = root) and relations of the tokens.

        Raises:
            UserError: no structure is given, or a sentence is too long.
        """
        if structure is None:
            raise UserError(
                "ITEXP scores texts with their trees: give structure, the heads and relations of each text; or, for a "
                "bound of the probability of the words, trees (k_best or sampled)."
            )
        found: list[list[Float[np.ndarray, " tokens"]]] = []
        for document, trees in zip(documents, structure, strict=True):
            items = [sentence_item(ids, _pair(tree)) for ids, tree in zip(document, trees, strict=True)]
            if not items:
                found.append([])
                continue
            self._refuse_longer(max(map(len, document)))
            batch = self.collate(ItemBatch(items, 1, vocabulary))
            scores = self(batch.to(self.device)).cpu().double().numpy()
            of_sentences = [np.zeros(len(ids)) for ids in document]
            opened = batch.is_open.numpy()
            for row, sentence in enumerate(batch.sentences.tolist()):
                of_sentences[sentence][batch.places[row].numpy()[opened[row]]] = scores[row, opened[row]]
            found.append(of_sentences)
        return found

    @torch.inference_mode()
    def tree_log_probs(
        self,
        texts: Sequence[Sequence[int]],
        trees: Sequence[Any],
        *,
        vocabulary: Vocabulary,
        tokens_per_batch: int,
    ) -> Float64[np.ndarray, " texts"]:
        """Log p of each text together with its tree, in nats; -inf of a tree with an expansion that is never written.

        Several texts or trees have levels in common, which are read once.

        Args:
            texts: token ids.
            trees: of each text; see `structure` of `sentence_log_probs`.
            vocabulary: that the system was trained with.
            tokens_per_batch: tokens of the levels that are read at once, padding included.

        Raises:
            UserError: a tree is none of its text, or a text is too long.
        """
        found, memo = np.full(len(texts), -np.inf), Memo()
        items = [sentence_item(ids, _pair(tree)) for ids, tree in zip(texts, trees, strict=True)]
        items = [replace(each, sentence=replace(each.sentence, index=k, memo=memo)) for k, each in enumerate(items)]
        written = [*compress(items, are_written(items, vocabulary))]
        sizes = [len(item.sentence.ids) ** 2 for item in written]  # at most, of all levels
        for begin, end in pairwise([*budget_starts(sizes, LEVELS_AT_ONCE), len(written)]):
            self._refuse_longer(max(len(item.sentence.ids) for item in written[begin:end]))
            batch = self.collate(ItemBatch(written[begin:end], 1, vocabulary))
            rows, of_rows = batch.distinct()
            scores = torch.zeros(len(rows), dtype=torch.float64)
            starts = budget_starts(batch.lengths[rows].tolist(), tokens_per_batch)
            for first, last in pairwise([*starts, len(rows)]):
                some = batch.select(rows[first:last]).to(self.device)
                scores[first:last] = precise(self(some)).sum(1).double().cpu()
            sums = torch.zeros(end - begin, dtype=torch.float64).index_add_(0, batch.sentences, scores[of_rows])
            found[batch.items.numpy()] = sums.numpy()
        return found

    def _refuse_longer(self, tokens: int) -> None:
        assert self.longest_scored is not None
        if tokens > self.longest_scored:
            raise UserError(
                f"A sentence of {tokens} tokens does not fit into the {self.longest_scored} head positions of this "
                "model: cut it into shorter ones."
            )

    # -- writing ------------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        vocabulary: Vocabulary,
        options: ExpansionOptions,
        seeds: Sequence[int],
        max_new_tokens: int,
        number: int = 1,
        batch_size: int = 64,
        progress: bool = False,
    ) -> list[Generated]:
        """Texts with the heads and relations of their trees (section 3.3); see `depgen.decoding.generation.Writer`.

        A text that would have more than `max_new_tokens` gets no more dependents at that level. How many were cut so is
        logged, and how many lack what they are to have.

        Raises:
            UserError: a prompt is given, an option names what the vocabulary lacks, or `min_tokens` is too large.
        """
        if any(prompts):
            raise UserError("ITEXP writes whole sentences from their root: leave out prompts.")
        patterns = Patterns.of(
            list(map(list, vocabulary.tables["expansions"])),
            list(map(str, vocabulary.tables["placeholders"])),
            options,
            device=self.device,
        )
        wanted = list(dict.fromkeys(_word_id(word, vocabulary) for word in options.words))
        most, cut, lacking = min(max_new_tokens, self.longest_scored or max_new_tokens), 0, 0
        if options.min_tokens > most:
            raise UserError(f"min_tokens: expected at most the {most} tokens of a text, found {options.min_tokens}.")
        skeletons = self._skeletons(vocabulary, options, most)
        texts: dict[int, Generated] = {}
        with progress_bar("generating", total=len(seeds), unit="texts", shown=progress) as advance:
            for first in range(0, len(seeds), batch_size):
                state = self._beginning(seeds[first : first + batch_size], first, wanted, options)
                writer = _LevelWriter(self, vocabulary, options, patterns, wanted, most, skeletons)
                for text, generated in writer.run(state):
                    texts[text] = generated
                    advance(1)
                cut, lacking = cut + len(writer.cut), lacking + writer.lacking
        if cut:
            log.warning("%d of %d texts were cut at %d tokens or %d levels", cut, len(seeds), most, options.levels)
        if lacking:
            log.warning(
                "%d of %d texts lack a relation, a word or tokens that they are to have: allow more levels, tokens or "
                "relations",
                lacking, len(seeds),
            )  # fmt: skip
        return [texts[text] for text in range(len(seeds))]

    def _skeletons(self, vocabulary: Vocabulary, options: ExpansionOptions, most: int) -> list[Skeleton]:
        """The given trees; none by default.

        Raises:
            UserError: the file has none, or one is beyond the limits of levels and tokens.
        """
        if options.skeletons is None:
            return []
        form = TreeForm.of(vocabulary)
        rows = {tuple(map(str, row)): number for number, row in enumerate(vocabulary.tables["expansions"])}
        found = [
            skeleton_of(each, rows, form.written, lambda word: _word_id(word, vocabulary))
            for each in read_skeletons(options.skeletons)
        ]
        if not found:
            raise UserError(f"{options.skeletons}: expected a tree or more, found none.")
        for number, each in enumerate(found, start=1):
            if len(each.depths) > most or each.depths.max() > options.levels:
                raise UserError(
                    f"{options.skeletons}: sentence {number} has {len(each.depths)} words and {each.depths.max()} "
                    f"levels, but texts have at most {most} and {options.levels}: set max_new_tokens and levels."
                )
        return found

    def _beginning(self, seeds: Sequence[int], first: int, wanted: Sequence[int], options: ExpansionOptions) -> Growing:
        """The placeholder of the root in each text."""
        rows, device = len(seeds), self.device
        one = torch.zeros(rows, 1, dtype=torch.int64, device=device)
        return Growing(
            texts=torch.arange(first, first + rows, device=device),
            seeds=torch.tensor(list(seeds), device=device),
            tokens=one,
            heads=one - 1,
            labels=one,  # the first placeholder is the root's
            is_open=one == 0,
            lengths=torch.ones(rows, dtype=torch.int64, device=device),
            log_probs=torch.zeros(rows, dtype=sum_type(device), device=device),
            missing=torch.ones(rows, len(wanted), dtype=torch.bool, device=device),
            lacks=torch.ones(rows, len(options.require), dtype=torch.bool, device=device),
        )


def ancestors(heads: Int[Tensor, "rows length"]) -> Bool[Tensor, "rows length length"]:
    """Whether the second position is the first or one of its ancestors; O(length^3 log length) a row.

    >>> ancestors(torch.tensor([[1, -1, 1]])).int().tolist()
    [[[1, 1, 0], [0, 1, 0], [0, 1, 1]]]
    """
    own = torch.eye(heads.shape[1], device=heads.device)
    found = own + F.one_hot(heads.clamp_min(0), heads.shape[1]) * (heads >= 0)[..., None]
    for _ in range(max(1, (heads.shape[1] - 1).bit_length())):
        found = (found @ found).clamp_max(1)
    return found > 0


def _pair(structure: Any) -> Any:  # noqa: ANN401
    """Heads and relations, of a pair or of what `ITEXP.generate` returns."""
    return (structure["heads"], structure["relations"]) if isinstance(structure, Mapping) else structure


def _word_id(word: str, vocabulary: Vocabulary) -> int:
    """The token of a word that texts are to have.

    Raises:
        UserError: the vocabulary does not have it as one token.
    """
    pieces = vocabulary.pieces(word)
    if len(pieces) != 1 or pieces[0] == vocabulary.unk:
        raise UserError(f"words: expected words that are one token of this run's vocabulary, found {word!r}.")
    return pieces[0]


@dataclass
class _LevelWriter:
    """Writes the levels of some texts."""

    model: ITEXP
    vocabulary: Vocabulary
    options: ExpansionOptions
    patterns: Patterns
    wanted: Sequence[int]
    most: int
    skeletons: Sequence[Skeleton]
    cut: set[int] = field(default_factory=set)
    lacking: int = 0
    traces: dict[int, list[str]] = field(default_factory=dict)

    def run(self, state: Growing) -> Iterator[tuple[int, Generated]]:
        """Each text when it is finished."""
        for level in range(1, self.options.levels + 1):
            if self.options.trace:
                self._trace(state)
            state, chosen = self._written(state, level)
            state = expanded(state, chosen, self.patterns)
            grows = state.is_open.any(1)
            for row in (~grows).nonzero()[:, 0].tolist():
                yield self._finished(state, row)
            state = state.select(grows.nonzero()[:, 0])
            if not len(state.texts):
                return

    def _finished(self, state: Growing, row: int) -> tuple[int, Generated]:
        text, length = int(state.texts[row]), int(state.lengths[row])
        lacks = state.missing[row].any() or state.lacks[row].any() or length < self.options.min_tokens
        self.lacking += bool(lacks)
        labels = [str(self.vocabulary.tables["placeholders"][k]) for k in state.labels[row, :length].tolist()]
        structure: dict[str, Any] = {
            "heads": tuple(head + 1 for head in state.heads[row, :length].tolist()),
            "relations": tuple("root" if each == ROOT else each for each in labels),
        }
        if self.options.trace:
            structure["levels"] = tuple(self.traces.pop(text))
        return text, Generated(state.tokens[row, :length].tolist(), structure, float(state.log_probs[row]))

    def _written(self, state: Growing, level: int) -> tuple[Growing, Tensor]:
        """The texts with words in place of their placeholders, and the expansions of these."""
        model, placeholders = self.model, self.model.hparams["placeholders"]
        first = len(model.backbone.output_weight) - placeholders
        inputs = torch.where(state.is_open, state.labels + first, state.tokens)
        is_word = mask_of(state.lengths, inputs.shape[1], device=inputs.device)
        found: list[Tensor] = []
        given = None
        if self.skeletons:
            trees = [self.skeletons[text % len(self.skeletons)] for text in state.texts.tolist()]
            given = at_level(trees, level, inputs.shape[1], device=inputs.device)

        def choose(scores: Tensor) -> Tensor:
            log_probs = model.expansion_log_probs(scores, restricted=True)
            if given is None:
                chosen, cut = chosen_expansions(
                    log_probs, state, self.patterns, self.options, level=level, most=self.most
                )
                self.cut.update(state.texts[cut].tolist())
            else:
                chosen = given[0].where(state.is_open, self.patterns.leaf)
            found.extend((log_probs, chosen))
            if model.written_expansions == "padding":
                return chosen.masked_fill(~state.is_open, PAD_EXPANSION)
            return self._drawn_everywhere(log_probs, chosen, state, level)

        states, _ = model.encode(inputs, state.heads, is_word, choose)
        patterns, chosen = found
        weight, bias = model.outputs(self.vocabulary.eos, restricted=True)
        log_probs = log_softmax_over_vocabulary(states[state.is_open], weight, bias)
        unknown = torch.tensor([self.vocabulary.unk], device=log_probs.device)
        known = log_probs.index_fill(1, unknown, -torch.inf) if self.vocabulary.unk >= 0 else log_probs
        grows = (self.patterns.left + self.patterns.right)[chosen] * state.is_open
        words, missing = chosen_words(known, state, self.options, self.wanted, level=level, last=grows.sum(1) == 0)
        if given is not None:
            fixed = given[1][state.is_open]
            words = torch.where(fixed >= 0, fixed, words)
        joint = (
            log_probs.gather(1, words[:, None])[:, 0]
            + patterns[state.is_open].gather(1, chosen[state.is_open][:, None])[:, 0]
        )
        rows = state.is_open.nonzero()[:, 0]
        log_prob = state.log_probs.index_add(0, rows, joint.to(state.log_probs.dtype))
        tokens = state.tokens.masked_scatter(state.is_open, words)
        lacks = state.lacks & ~brings(chosen, state, self.patterns)
        return replace(state, tokens=tokens, log_probs=log_prob, missing=missing, lacks=lacks), chosen

    def _drawn_everywhere(self, log_probs: Tensor, chosen: Tensor, state: Growing, level: int) -> Tensor:
        """The authors' expansions of written positions (D1), which are drawn there too."""
        everywhere = replace(state, is_open=mask_of(state.lengths, state.tokens.shape[1], device=chosen.device))
        other = drawn_expansions(log_probs, everywhere, self.patterns, self.options, level=level)
        return torch.where(state.is_open, chosen, other)

    def _trace(self, state: Growing) -> None:
        """Keep each text's level, placeholders in brackets."""
        names = self.vocabulary.tables["placeholders"]
        for row, text in enumerate(state.texts.tolist()):
            shown = [
                f"[{names[label]}]" if opened else self.vocabulary.decode([token])
                for token, label, opened in zip(
                    *(
                        each[row, : int(state.lengths[row])].tolist()
                        for each in (state.tokens, state.labels, state.is_open)
                    ),
                    strict=True,
                )
            ]
            self.traces.setdefault(text, []).append(" ".join(shown))
