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
    D9. Beam search across levels, which the paper leaves to future work, and texts around given words are ours; see
        `depgen.decoding.level_search` and `depgen.decoding.skeletons`.
    D10. Embeddings of tokens and expansions begin as N(0, 1) and are not scaled, those of heads as N(0, 1/width): the
        authors' code without `--apply-bert-init`, its default (`MaskedFairseqInit`). Neither paper nor code says
        whether that option was set, by which all begin as N(0, 0.02^2).
    D11. Positions count from 0; fairseq's count from 1.
    D12. `binarization: inside-out`, which the paper does not use, keeps all words. The authors' code loses some
        words of 98 of 300 trees that were tried.
    D13. Written positions have no expansion in scoring either (D1); the authors' code gives them the unknown one.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress, pairwise
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64, Int
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor, nn
from torchmetrics import Metric

from depgen.backbones.transformer import ScoreFunction, TransformerFactory
from depgen.data.batch import ItemBatch
from depgen.data.level_batch import LevelBatch, are_written, collate_levels
from depgen.data.level_items import PAD_EXPANSION, TreeForm
from depgen.data.levels import sentence_item
from depgen.data.sampler import budget_starts
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.generated import Generated
from depgen.decoding.level_search import searched_texts
from depgen.decoding.level_writing import Choose, LevelWriter, sampled_texts
from depgen.decoding.levels import ExpansionOptions, Growing, Patterns
from depgen.decoding.skeletons import GivenTree, given_tree, given_words, read_skeletons
from depgen.errors import UserError, check_at_least
from depgen.language_models.base import LanguageModel
from depgen.metrics.item_scores import ItemScores, WordPerplexity
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise
from depgen.nn.vocabulary import log_softmax_over_vocabulary, word_log_probs
from depgen.training.hyper_parameters import factory

log = logging.getLogger(__name__)

TOKENS_AT_ONCE = 4096
"""Tokens that are encoded together when texts are scored, padding included."""
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
    sentence_context = "none"
    generation_options = ExpansionOptions

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
        self._seed = int(torch.randint(2**31, (), device="cpu"))

    def configure_model(self) -> None:
        """Make what depends on the number of expansions.

        Its weights are drawn from a seed that the constructor drew: among several devices, Lightning goes back to the
        first random number in between.
        """
        self.take_table_sizes(expansions="expansions", placeholders="placeholders")
        if not hasattr(self, "expansion_output"):
            size, width = self.hparams["expansions"], self.backbone.width
            with isolate_rng():
                torch.manual_seed(self._seed)
                self.expansion_output = nn.Linear(width, size)
                self.expansion_embedding = nn.Embedding(size, width, padding_idx=PAD_EXPANSION)
            nn.init.zeros_(self.expansion_output.bias)

    @classmethod
    def figures(cls, passes: int = 1) -> dict[str, Metric]:
        """Those of the base, and perplexity per word."""
        return {**super().figures(passes), "word_perplexity": WordPerplexity(passes)}

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
        *,
        opened: Int[Tensor, " open"] | None = None,
    ) -> tuple[Float[Tensor, "*places width"], Float[Tensor, "*places expansions"]]:
        """States that words are predicted from, and the scores of expansions, not normalised.

        Args:
            inputs: a level of each text.
            heads: 0-based, -1 = root.
            is_word: False at padding.
            choose: from the scores of expansions to the expansion of each position.
            opened: the places of the flat batch that are predicted; None: all, [rows length].
        """
        scores: list[Tensor] = []

        def predicted(hidden: Tensor) -> Tensor:
            return hidden if opened is None else hidden.flatten(0, 1)[opened]

        def after_layer(layer: int, hidden: Tensor) -> Tensor:
            if layer != self.expansion_layer:
                return hidden
            scores.append(self.expansion_output(predicted(hidden)))
            added: Tensor = self.expansion_embedding(choose(scores[0]))
            return hidden + added

        output = self.backbone(
            inputs,
            padding=~is_word,
            added_embedding=self.head_embedding((heads + 2) * is_word),
            after_layer=after_layer,
            score_function=self._seen_alone(heads),
        )
        states: Tensor = self.transform(predicted(output.hidden))
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
        states, scores = self.encode(
            batch.inputs, batch.heads, batch.is_word, lambda _: batch.expansions, opened=batch.opened
        )
        weight, bias = self.outputs(batch.eos, restricted=restricted)
        targets, expansions = (each.flatten()[batch.opened] for each in (batch.targets, batch.expansions))
        words = word_log_probs(states, weight, bias, targets)
        patterns = self.expansion_log_probs(scores, restricted=restricted)
        joint = words + patterns.gather(1, expansions[:, None])[:, 0]
        return joint.new_zeros(batch.inputs.numel()).index_copy(0, batch.opened, joint).view(batch.inputs.shape)

    def forward(self, batch: LevelBatch) -> Float[Tensor, "rows length"]:
        """See `joint_log_probs`; rows of like length are encoded together."""
        found: Tensor | None = None
        for rows, part in batch.parts(TOKENS_AT_ONCE):
            log_probs = self.joint_log_probs(part)
            found = log_probs.new_zeros(batch.inputs.shape) if found is None else found
            found[rows.to(found.device), : log_probs.shape[1]] = log_probs
        assert found is not None, "a batch has a row"
        return found

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
                "ITEXP scores texts with their trees. Bound the probability of the words by the trees of a parser: "
                "`depgen score --trees sampled` or `k_best`, in Python `score_over_trees`. Or give structure, the "
                "heads and relations of each text."
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
        found = np.full(len(texts), -np.inf)
        items = [sentence_item(ids, _pair(tree)) for ids, tree in zip(texts, trees, strict=True)]
        views = [collate_levels.view(item.sentence, vocabulary) for item in items]
        items = [
            replace(item, sentence=replace(item.sentence, index=k, view=view))
            for k, (item, view) in enumerate(zip(items, views, strict=True))
        ]
        written = [*compress(items, are_written(items, vocabulary))]
        sizes = [len(item.sentence.ids) ** 2 for item in written]  # at most, of all levels
        for begin, end in pairwise([*budget_starts(sizes, LEVELS_AT_ONCE), len(written)]):
            self._refuse_longer(max(len(item.sentence.ids) for item in written[begin:end]))
            batch = self.collate(ItemBatch(written[begin:end], 1, vocabulary))
            rows, of_rows = batch.distinct()
            scores = torch.zeros(len(rows), dtype=torch.float64)
            for places, part in batch.select(rows).parts(tokens_per_batch):
                scores[places] = precise(self(part.to(self.device))).sum(1).double().cpu()
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
        structure: Sequence[GivenTree | None] | None = None,
    ) -> list[Generated]:
        """Texts with the heads and relations of their trees (section 3.3); see `depgen.decoding.generation.Writer`.

        Given arcs come back as they are given. The other arcs are those before binarisation where the vocabulary is
        `lossless`, else binarised, as the vocabulary's `binarization` says. `unfit_labels` of the structure says that a
        label climbs higher than its tree reaches; such words hang on the highest word reached.
        A text that would have more than `max_new_tokens` new ones gets no more dependents at that level. How many were
        cut so is logged, and how many lack what they are to have; `cut` and `lacks` of the structure say which. A text
        that is continued has the tokens after the prompt, one with other gaps all tokens; the log-probability is that
        of the whole text and its tree.

        Args:
            prompts: tokens of each; none where a text begins from nothing.
            vocabulary: the run's.
            options: see `ExpansionOptions`.
            seeds: of all texts.
            max_new_tokens: of a text.
            number: texts of each prompt.
            batch_size: texts, or hypotheses, at once.
            progress: show a progress bar.
            structure: the tree of each prompt; None without any.

        Raises:
            UserError: a prompt has no tree, an option names what the vocabulary lacks, or `min_tokens` is too large.
        """
        trees = self._given(prompts, structure, vocabulary, options)
        writer = self._writer(vocabulary, options, max_new_tokens, trees)
        if options.skeletons is not None:  # in turn
            groups = [text % len(trees) for text in range(len(seeds))]
            if (unused := len(trees) - len(seeds)) > 0:
                log.warning("%d of %d trees get no text: ask for as many texts by -n", unused, len(trees))
        else:
            groups = [text // number for text in range(len(seeds))]
        write = sampled_texts if options.beam_size is None else searched_texts
        found = write(writer, groups, seeds, batch_size=batch_size, device=self.device, progress=progress)
        self._say_what_falls_short(found, writer, options)
        if structure is None:
            return found
        given = [structure[text // number] for text in range(len(found))]
        return [
            replace(text, ids=text.ids[len(tree.tokens) :]) if tree is not None and tree.continues else text
            for text, tree in zip(found, given, strict=True)
        ]

    @staticmethod
    def _say_what_falls_short(texts: Sequence[Generated], writer: LevelWriter, options: ExpansionOptions) -> None:
        if cut := sum("cut" in each.structure for each in texts):
            log.warning(
                "%d of %d texts were cut at %d new tokens or %d levels; a text has at most %d tokens in all",
                cut, len(texts), min(writer.most, writer.longest), options.levels, writer.longest,
            )  # fmt: skip
        if lacking := sum("lacks" in each.structure for each in texts):
            log.warning(
                "%d of %d texts lack a relation, a word or tokens that they are to have, which `lacks` of their "
                "structure names: allow more levels, tokens or relations",
                lacking, len(texts),
            )  # fmt: skip
        if unfit := sum("unfit_labels" in each.structure for each in texts):
            log.warning(
                "%d of %d trees are not exactly what was written: a label climbs higher than its tree reaches "
                "(`unfit_labels` of their structure), and its word hangs on the highest word reached",
                unfit, len(texts),
            )  # fmt: skip

    def _given(
        self,
        prompts: Sequence[Sequence[int]],
        structure: Sequence[GivenTree | None] | None,
        vocabulary: Vocabulary,
        options: ExpansionOptions,
    ) -> list[GivenTree]:
        """The given trees: of prompts, or of a file; none by default.

        Raises:
            UserError: prompts have no trees, or there are skeletons too.
        """
        trees = [None] * len(prompts) if structure is None else list(structure)
        if any(len(prompt) and tree is None for prompt, tree in zip(prompts, trees, strict=True)):
            raise UserError("ITEXP continues texts with their trees: give structure, the tree of each prompt.")
        if options.skeletons is None:
            empty = GivenTree((), (), (), (), "a text from nothing")
            return [each or empty for each in trees] if any(trees) else []
        if any(trees):
            raise UserError("Prompts and skeletons both give texts their trees: leave out one of them.")
        found = [
            given_tree(each, vocabulary.pieces, unknown=vocabulary.unk, name=f"{options.skeletons}: sentence {number}")
            for number, each in enumerate(read_skeletons(options.skeletons), start=1)
        ]
        if not found:
            raise UserError(f"{options.skeletons}: expected a tree or more, found none.")
        return found

    def _writer(
        self, vocabulary: Vocabulary, options: ExpansionOptions, most: int, trees: Sequence[GivenTree]
    ) -> LevelWriter:
        """What writes texts with these options.

        Raises:
            UserError: an option names what the vocabulary lacks, or a text does not fit into its limits.
        """
        rows, labels = (
            list(map(list, vocabulary.tables["expansions"])),
            list(map(str, vocabulary.tables["placeholders"])),
        )
        patterns = Patterns.of(rows, labels, options, device=self.device)
        longest = self.longest_scored or most
        for tree in trees:
            new = 0 if options.skeletons is None else most
            if len(tree.tokens) > (new or longest):
                raise UserError(
                    f"{tree.name} has {len(tree.tokens)} tokens, but texts have at most {new or longest}: set "
                    f"{'max_new_tokens' if new else 'model.init_args.max_length when training'}."
                )
        if options.min_tokens > min(most, longest) and not trees:
            raise UserError(
                f"min_tokens: expected at most the {min(most, longest)} tokens of a text, found {options.min_tokens}."
            )
        if options.beam_size is not None and self.written_expansions == "drawn":
            raise UserError("A beam draws nothing, but this run has written_expansions: drawn: leave out beam_size.")
        form = TreeForm.of(vocabulary)
        given = given_words(
            trees, rows, (patterns.before > -torch.inf).tolist(), form.written,
            levels=options.levels, device=self.device, binarizes=form.binarization != "none",
        ) if trees else None  # fmt: skip
        return LevelWriter(
            lambda state, choose: self._scored_level(state, choose, vocabulary.eos),
            options,
            patterns,
            labels,
            lambda token: vocabulary.decode([token]),
            list(dict.fromkeys(_word_id(word, vocabulary) for word in options.words)),
            most,
            longest,
            vocabulary.unk,
            form.restored,
            given,
            trees,
            self.written_expansions == "drawn",
        )

    def _scored_level(self, state: Growing, choose: Choose, eos: int) -> Float[Tensor, "places vocab"]:
        """The log-probabilities of words at the placeholders; `choose` gets those of expansions."""
        first = len(self.backbone.output_weight) - self.hparams["placeholders"]
        inputs = torch.where(state.is_open, state.labels + first, state.tokens)

        def expansions(scores: Tensor) -> Tensor:
            chosen = choose(self.expansion_log_probs(scores, restricted=True))
            drawn = self.written_expansions == "drawn"
            return chosen if drawn else chosen.masked_fill(~state.is_open, PAD_EXPANSION)

        is_word = mask_of(state.lengths, inputs.shape[1], device=inputs.device)
        states, _ = self.encode(inputs, state.heads, is_word, expansions)
        weight, bias = self.outputs(eos, restricted=True)
        return log_softmax_over_vocabulary(states[state.is_open], weight, bias)


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
