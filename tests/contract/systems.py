"""The list of systems that keep the contract: a new one joins by one line in `SYSTEMS`."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch

from depgen.backbones.awd_lstm import AWDLSTM
from depgen.backbones.backbone import Backbone, DistanceNetwork
from depgen.backbones.on_lstm import ONLSTM
from depgen.backbones.pretrained import PretrainedTransformer
from depgen.backbones.prpn import PRPN
from depgen.backbones.transformer import Transformer
from depgen.data.vocabulary import Vocabulary
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.left_to_right import LeftToRight
from depgen.language_models.masked import HeadNetwork, MaskedLanguageModel
from depgen.language_models.structured import StructuredLanguageModel, Writing, in_turn
from depgen.models.causal_lm import CausalLM
from depgen.models.dclm import DCLM
from depgen.models.dmlm import DMLM, QueryKeyAttention
from depgen.models.dtg import DTG
from depgen.models.finetuned import PromptedModel, SentenceSimilarity
from depgen.models.gilt import GiLT
from depgen.models.itexp import ITEXP
from depgen.models.masked_transformer import MaskedTransformer
from depgen.models.pushdown import Pushdown
from depgen.models.structformer import StructFormer
from depgen.models.tg import TransformerGrammar
from depgen.models.udgn import UDGN
from depgen.training.tree_regularization import TreeRegularization
from tests.fixtures.kinds import named
from tests.models.bracketings import all_bracketings
from tests.models.documents import CONTEXTS
from tests.models.labelled_trees import LABELS, all_trees
from tests.models.projective_trees import all_beginnings

VOCABULARY = 13
PLAIN = Vocabulary.of_words("abcdefghijk")

WRITER = frozenset({"left to right", "exact", "generates"})
BUILDER = frozenset({"left to right", "bound", "generates"})
STREAM = WRITER | {"carries state"}
BRACKETS = STREAM | {"parses"}
MASKED = frozenset({"masked", "pseudo"})
LEVELS = frozenset({"levels", "generates"})
PARSER = MASKED | {"parses"}


@dataclass(frozen=True)
class System:
    """One line of the list.

    Attributes:
        make: builds the system from the vocabulary size, as Python code does.
        claims: what it can do: its order (`left to right`, `masked`, `levels`), its scores (`exact`, `pseudo`,
            `bound`), `generates`, `parses`, `carries state`.
        structures: of a system with bounds, all structures that it may build over a sentence of a few words.
    """

    make: Callable[[int], LanguageModel]
    claims: frozenset[str] = frozenset()
    structures: Callable[[LanguageModel, Sequence[int]], Sequence[Any]] | None = None


TRANSFORMER = partial(
    Transformer, layers=2, width=8, attention_heads=2, feedforward=8, positions="learned", max_length=40
)
TRANSFORMER_XL = partial(Transformer, layers=2, width=8, attention_heads=2, feedforward=8, positions="relative")
GPT2 = partial(PretrainedTransformer, layers=2, width=8, attention_heads=2, max_length=40)
LSTM = partial(AWDLSTM, layers=2, embedding_size=8, hidden_size=6)
ON_LSTM = partial(ONLSTM, layers=2, embedding_size=8, hidden_size=8, chunk_size=2)
SMALL_PRPN = partial(PRPN, layers=2, embedding_size=8, hidden_size=8, slots=4, lookback=2)
ENCODER = partial(
    Transformer, layers=2, width=8, attention_heads=2, feedforward=8, positions="learned", max_length=40,
    causal=False, output_bias=True,
)  # fmt: skip
BOTH_SIDES = partial(
    Transformer, layers=2, width=8, attention_heads=2, feedforward=8, causal=False, tied=False, output_bias=True
)
WINDOW = {"attention": QueryKeyAttention, "window": 3}
UDGN_SIZES = {"width": 8, "layers": 2, "attention_heads": 2, "head_size": 3, "parser_layers": 1}
UDGN_OF_PAIRS = json.dumps({"_class_path": "depgen.models.udgn.UDGN", "vocabulary_size": VOCABULARY, **UDGN_SIZES})
GPT2_BLOCK = named("backbones.pretrained.PretrainedTransformer", layers=2, width=8, attention_heads=2, max_length=40)
GPT2_OF_PROMPTS = json.dumps(
    {"_class_path": "depgen.models.causal_lm.CausalLM", "vocabulary_size": VOCABULARY, "backbone": GPT2_BLOCK}
)

GILT_SIZES = {"feature_size": 4, "max_count": 7, "counts_per_hypothesis": None, "beam_size": 4}


def graphs_of_counts(model: GiLT, ids: Sequence[int]) -> list[Any]:
    """The graph that each sequence of numbers of arcs gives."""
    choices = list(product(*(range(min(2 * word, model.max_count + 1)) for word in range(1, len(ids) + 1))))
    writing = Writing(PLAIN, model.device, max_new_tokens=0, longest=len(ids))
    texts = torch.tensor([[PLAIN.eos, *in_turn(ids, each, model.vocabulary_size)] for each in choices])
    with torch.no_grad():
        _, state = model.writing_step(writing, texts, None, None)
    return model.structures_of(state, torch.arange(len(choices)))


LEVEL_SIZES = {"expansions": 6, "placeholders": 3, "max_length": 40}


def of_levels(kind: Callable[..., ITEXP], vocabulary_size: int, **options: Any) -> ITEXP:
    """A system of words and three placeholders after these; see `tests.contract.trees`."""
    return kind(BOTH_SIDES, vocabulary_size + 3, **LEVEL_SIZES, **options)


ONE_LAYER = partial(Transformer, layers=1, width=8, attention_heads=2, feedforward=8)

TREES = TreeRegularization(layer=1)
GRAMMAR = {"labels": 1, "max_openings": 1, "beam_size": 4, "word_beam_size": None}
SYSTEMS: dict[str, System] = {
    "Transformer": System(partial(CausalLM, TRANSFORMER), WRITER),
    "Transformer, trees": System(partial(CausalLM, TRANSFORMER, tree_regularization=TREES), WRITER),
    "GPT-2": System(partial(CausalLM, GPT2), WRITER),
    "AWD-LSTM": System(partial(CausalLM, LSTM), STREAM),
    "ON-LSTM": System(partial(CausalLM, ON_LSTM), BRACKETS),
    "PRPN": System(partial(CausalLM, SMALL_PRPN), BRACKETS),
    "DM-Transformer": System(partial(DMLM, TRANSFORMER), WRITER),
    "DM-Transformer, logits": System(partial(DMLM, TRANSFORMER, mixture_space="logit"), WRITER),
    "DM-Transformer, window": System(partial(DMLM, TRANSFORMER, window=3), WRITER),
    "DM-GPT-2": System(partial(DMLM, GPT2), WRITER),
    "DM-LSTM": System(partial(DMLM, LSTM, **WINDOW), STREAM),
    "DM-LSTM, logits": System(partial(DMLM, LSTM, **WINDOW, mixture_space="logit"), STREAM),
    "DM-ON-LSTM": System(partial(DMLM, ON_LSTM, **WINDOW), BRACKETS),
    "DM-PRPN": System(partial(DMLM, SMALL_PRPN, **WINDOW), BRACKETS),
    **{
        f"DCLM, {name}": System(partial(DCLM, context=partial(context, size=4), embedding_size=4), WRITER)
        for name, context in CONTEXTS.items()
    },
    "masked Transformer": System(partial(MaskedTransformer, ENCODER, parses_by=(1, 0)), PARSER),
    "StructFormer": System(partial(StructFormer, ENCODER), PARSER),
    "UDGN": System(partial(UDGN, **UDGN_SIZES), PARSER),
    "UDGN, tags, positions": System(partial(UDGN, **UDGN_SIZES, tags=2, positions=True, max_length=40), PARSER),
    "UDGN, kirchhoff": System(partial(UDGN, **UDGN_SIZES, marginals="kirchhoff"), PARSER),
    "UDGN, taught": System(partial(UDGN, **UDGN_SIZES, supervised_weight=1.0), PARSER),
    "GiLT": System(partial(GiLT, TRANSFORMER_XL, **GILT_SIZES), BUILDER, graphs_of_counts),
    "GiLT, GPT-2": System(
        partial(GiLT, GPT2, **GILT_SIZES, tape_layers=1, features=["distance"]), BUILDER, graphs_of_counts
    ),
    "Pushdown": System(
        partial(Pushdown, TRANSFORMER_XL, beam_size=3), BUILDER, lambda model, ids: all_bracketings(len(ids))
    ),
    "DTG": System(
        partial(DTG, TRANSFORMER_XL, beam_size=3, word_beam_size=None),
        BUILDER,
        lambda model, ids: all_beginnings(len(ids)),
    ),
    "TG": System(
        partial(TransformerGrammar, TRANSFORMER_XL, **GRAMMAR),
        BUILDER,
        lambda model, ids: all_trees(len(ids), labels=LABELS, max_openings=1),
    ),
    "prompts": System(partial(PromptedModel, architecture=GPT2_OF_PROMPTS, verbalisers=[], selected_by="correlation")),
    "ITEXP": System(partial(of_levels, ITEXP), LEVELS),
    "ITEXP, first layer": System(partial(of_levels, ITEXP, expansion_layer=0), LEVELS),
    "sentence similarity": System(partial(SentenceSimilarity, architecture=UDGN_OF_PAIRS)),
}


def built(system: System) -> LanguageModel:
    """The system in double precision and evaluation mode, with weights so large that each part shows."""
    torch.manual_seed(0)
    model = system.make(VOCABULARY)
    model.configure_model()
    model.double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    model.enter_phase(len(model.phases) - 1)
    model.structures = None if system.structures is None else partial(system.structures, model)
    return model.eval()


def abilities(model: LanguageModel) -> frozenset[str]:
    """What the classes of a system and its backbone say that it can do."""
    found = set()
    backbone = getattr(model, "backbone", None)
    if isinstance(model, LeftToRight | DocumentLanguageModel):
        found |= {"left to right", model.likelihood}
    if isinstance(model, MaskedLanguageModel):
        found |= {"masked", model.likelihood}
    if writes_levels(model):
        found |= {"levels", "generates"}
    if (
        isinstance(model, DocumentLanguageModel | StructuredLanguageModel)
        or overrides(model, LeftToRight, "generation_step", "drawing_step")
    ):  # fmt: skip
        found.add("generates")
    if isinstance(model, HeadNetwork) or isinstance(backbone, DistanceNetwork):
        found.add("parses")
    if isinstance(backbone, Backbone) and overrides(backbone, Backbone, "state_of"):
        found.add("carries state")
    return frozenset(found)


def writes_levels(model: LanguageModel) -> bool:
    """Whether a system writes, and in another order than from left to right."""
    return model.generation_options is not None and not isinstance(model, LeftToRight | DocumentLanguageModel)


def overrides(value: object, base: type, *methods: str) -> bool:
    """Whether an object's class has its own version of a method of a base."""
    return isinstance(value, base) and any(getattr(type(value), name) is not getattr(base, name) for name in methods)
