"""A Transformer that reads documents with the contexts of document-context language models, or simply reads more.

Ji, Cohn, Kong, Dyer & Eisenstein (2015), "Document Context Language Models", gave recurrent networks, which forget, a
context from the sentence before. Does a network that could read that sentence itself gain by it? No paper says; here
the same Transformer reads each sentence from `<s>` on, alone or with a context from the sentence before.

    of the paper                   here                    what a sentence knows of those before it
    RNNLM                          `SentenceAlone`         nothing
    CCDCLM, context to context     `PrefixContext`         one vector, added to `<s>`: the last hidden state before
    CODCLM, context to output      `OutputContext`         the same vector, added to every last hidden state
    ADCLM, attention               `CrossAttentionContext` the hidden states of the sentence before, weighed by a query
    (a Transformer of today)       `PreviousSentences`     the words of the sentences before, read as tokens

Deviations
    D1. Where the paper concatenates a context to a vector, it is added after a matrix here: Transformers have one
        width, and the output stays tied to the embedding.
    D2. ADCLM's weights come from a small network and a hidden state one word back; ours from scaled products of a
        query and keys, and from the word's own state, which here does not depend on the weights.
    D3. `PreviousSentences` sees whole sentences in evaluation as in training: a sentence is encoded again for each one
        after it, where a document has more of them than are read.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.backbones.backbone import BackboneFactory, BackboneOutput
from depgen.backbones.transformer import Transformer
from depgen.data.documents import DocumentBatch
from depgen.errors import UserError
from depgen.language_models.document import DocumentLanguageModel, DocumentOutput, SeparateFeatures
from depgen.nn.length_groups import CALL_OVERHEAD, encode_by_length
from depgen.nn.lengths import mask_of
from depgen.nn.sentence_contexts import encode_in_turn, sentence_end_states
from depgen.training.hyper_parameters import Factory, factory

POSITIONS_AT_ONCE = 1 << 16
"""Positions of one call where sentences are encoded again for each one after them, which multiplies tokens."""


class SentenceContext(nn.Module):
    """How a Transformer reads the sentences of documents.

    Args:
        width: of the Transformer.

    Attributes:
        sentences_alone: whether there is no context at all.
    """

    sentences_alone: bool = False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(
        self,
        backbone: Transformer,
        inputs: Int[Tensor, "batch sentence word"],
        lengths: Int[Tensor, "batch sentence"],
    ) -> Float[Tensor, "batch sentence word width"]:
        """Features of each position, for the output matrix; zeros or without meaning at padding."""
        raise NotImplementedError

    def step(
        self,
        backbone: Transformer,
        inputs: Int[Tensor, "batch word"],
        before: Any,  # noqa: ANN401, the context's own
    ) -> tuple[Float[Tensor, "batch word width"], Any]:
        """The features of one more sentence, which has no padding, and the state after it.

        Args:
            backbone: the Transformer.
            inputs: the sentence from its beginning on.
            before: the state after the sentence before; None for the first.
        """
        raise NotImplementedError


class SentenceAlone(SentenceContext):
    """Every sentence by itself."""

    sentences_alone = True

    def forward(
        self,
        backbone: Transformer,
        inputs: Int[Tensor, "batch sentence word"],
        lengths: Int[Tensor, "batch sentence"],
    ) -> Float[Tensor, "batch sentence word width"]:
        """All sentences at once."""
        return _encode_each(backbone, inputs, lengths)

    def step(
        self,
        backbone: Transformer,
        inputs: Int[Tensor, "batch word"],
        before: Any,  # noqa: ANN401
    ) -> tuple[Float[Tensor, "batch word width"], Any]:
        """See `SentenceContext`; the state is empty."""
        return backbone(inputs).hidden, ()


class PrefixContext(SentenceContext):
    """Context to context: the state of the last word before a sentence is added to the `<s>` at its beginning.

    That state depends on such a beginning too, so the context reaches back to the first sentence.

    Args:
        width: of the Transformer.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.first_context = nn.Parameter(torch.zeros(width))
        self.prefix = nn.Linear(width, width)

    def forward(
        self,
        backbone: Transformer,
        inputs: Int[Tensor, "batch sentence word"],
        lengths: Int[Tensor, "batch sentence"],
    ) -> Float[Tensor, "batch sentence word width"]:
        """Sentence by sentence."""

        def encode(
            sentence: int, longest: int, context: Float[Tensor, "batch width"]
        ) -> Float[Tensor, "batch longest width"]:
            return self._encode_sentence(backbone, inputs[:, sentence, :longest], context)

        return encode_in_turn(encode, lengths, inputs.shape[2], self.first_context)

    def step(
        self,
        backbone: Transformer,
        inputs: Int[Tensor, "batch word"],
        before: Any,  # noqa: ANN401
    ) -> tuple[Float[Tensor, "batch word width"], Any]:
        """See `SentenceContext`; the state is the last hidden state."""
        context = self.first_context.expand(len(inputs), -1) if before is None else before
        hidden = self._encode_sentence(backbone, inputs, context)
        return hidden, hidden[:, -1]

    def _encode_sentence(
        self, backbone: Transformer, inputs: Int[Tensor, "batch word"], context: Float[Tensor, "batch width"]
    ) -> Float[Tensor, "batch word width"]:
        added = F.pad(self.prefix(context)[:, None], (0, 0, 0, inputs.shape[1] - 1))
        output: BackboneOutput = backbone(inputs, added_embedding=added)
        return output.hidden


class OutputContext(SentenceContext):
    """Context to output: the state of the last word before a sentence is added to each of its hidden states.

    Args:
        width: of the Transformer.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.first_context = nn.Parameter(torch.zeros(width))
        self.from_context = nn.Linear(width, width)

    def forward(
        self,
        backbone: Transformer,
        inputs: Int[Tensor, "batch sentence word"],
        lengths: Int[Tensor, "batch sentence"],
    ) -> Float[Tensor, "batch sentence word width"]:
        """All sentences at once."""
        found = self.separately(backbone, inputs, lengths)
        return found.own + found.added[:, :-1, None]

    def step(
        self,
        backbone: Transformer,
        inputs: Int[Tensor, "batch word"],
        before: Any,  # noqa: ANN401
    ) -> tuple[Float[Tensor, "batch word width"], Any]:
        """See `SentenceContext`; the state is the last hidden state."""
        context = self.first_context.expand(len(inputs), -1) if before is None else before
        output: BackboneOutput = backbone(inputs)
        return output.hidden + self.from_context(context)[:, None], output.hidden[:, -1]

    def separately(
        self,
        backbone: Transformer,
        inputs: Int[Tensor, "batch sentence word"],
        lengths: Int[Tensor, "batch sentence"],
    ) -> SeparateFeatures:
        """The two summands."""
        hidden = _encode_each(backbone, inputs, lengths)
        return SeparateFeatures(hidden, self.from_context(sentence_end_states(hidden, lengths, self.first_context)))


class CrossAttentionContext(SentenceContext):
    """Attention over the hidden states of the sentence before; what it finds is added to every hidden state.

    Args:
        width: of the Transformer.
        attention_size: of queries and keys.
    """

    def __init__(self, width: int, attention_size: int = 48) -> None:
        super().__init__(width)
        self.first_context = nn.Parameter(torch.zeros(width))
        self.query = nn.Linear(width, attention_size)
        self.key = nn.Linear(width, attention_size, bias=False)
        self.from_context = nn.Linear(width, width)

    def forward(
        self,
        backbone: Transformer,
        inputs: Int[Tensor, "batch sentence word"],
        lengths: Int[Tensor, "batch sentence"],
    ) -> Float[Tensor, "batch sentence word width"]:
        """All sentences at once; the first looks at a learnt state."""
        hidden = _encode_each(backbone, inputs, lengths)
        first = F.pad(self.first_context[None], (0, 0, 0, inputs.shape[2] - 1)).expand(len(inputs), 1, -1, -1)
        memory = torch.cat((first, hidden[:, :-1]), 1)
        filled = torch.cat((torch.ones_like(lengths[:, :1]), lengths[:, :-1]), 1)
        seen = mask_of(filled.clamp_min(1), inputs.shape[2], device=inputs.device)
        return self._attending(hidden, memory, seen)

    def step(
        self, backbone: Transformer, inputs: Int[Tensor, "batch word"], before: "_States | None"
    ) -> tuple[Float[Tensor, "batch word width"], "_States"]:
        """See `SentenceContext`; the state is all hidden states of the sentence."""
        hidden = backbone(inputs).hidden
        if before is None:
            states = self.first_context.expand(len(inputs), 1, -1)
            before = _States(states, torch.ones_like(states[..., 0], dtype=torch.bool))
        left = _States(hidden, torch.ones_like(inputs, dtype=torch.bool))
        return self._attending(hidden, before.hidden, before.filled), left

    def _attending(
        self,
        hidden: Float[Tensor, "*documents word width"],
        memory: Float[Tensor, "*documents state width"],
        seen: Bool[Tensor, "*documents state"],
    ) -> Float[Tensor, "*documents word width"]:
        """Hidden states with what they find among others."""
        scores = self.query(hidden) @ self.key(memory).transpose(-2, -1) / math.sqrt(self.query.out_features)
        weights = scores.masked_fill(~seen[..., None, :], -torch.inf).softmax(-1)
        found: Tensor = hidden + self.from_context(weights @ memory)
        return found


class _States(NamedTuple):
    """The hidden states of a sentence, and where there are any."""

    hidden: Float[Tensor, "batch state width"]
    filled: Bool[Tensor, "batch state"]


class PreviousSentences(SentenceContext):
    """Feeds the previous `sentences` sentences and the current one as one token sequence.

    Args:
        width: of the Transformer.
        sentences: how many precede each one.
    """

    def __init__(self, width: int, sentences: int = 4) -> None:
        super().__init__(width)
        if sentences < 1:
            raise UserError(f"PreviousSentences: expected sentences of at least 1, found {sentences}.")
        self.sentences = sentences

    def forward(
        self,
        backbone: Transformer,
        inputs: Int[Tensor, "batch sentence word"],
        lengths: Int[Tensor, "batch sentence"],
    ) -> Float[Tensor, "batch sentence word width"]:
        """Hidden states; from one sequence a document where it has no more sentences than are fed, else one a sentence.

        Raises:
            UserError: they are longer than the Transformer can read.
        """
        ends = lengths.cumsum(1)
        starts = ends - lengths
        row, sentence, word = mask_of(lengths, inputs.shape[2]).nonzero(as_tuple=True)
        place = starts[row, sentence] + word  # in its document
        words = _moved(inputs.device, row, sentence, word)
        documents = inputs.new_zeros(len(inputs), int(ends[:, -1].max()))
        documents[_moved(inputs.device, row, place)] = inputs[words]
        features = inputs.new_zeros(*inputs.shape, self.width, dtype=backbone.output_weight.dtype)
        if inputs.shape[1] <= self.sentences + 1:
            hidden = self._encode_sequences(backbone, documents)
            return features.to(hidden.dtype).index_put(words, hidden[_moved(inputs.device, row, place)])
        first = F.pad(starts, (self.sentences, 0))[:, : starts.shape[1]]  # where a sentence's sequence begins
        longest = int((ends - first).max())
        steps = first[:, :, None] + torch.arange(longest, device=lengths.device)
        whole = steps.clamp_max(documents.shape[1] - 1)[lengths > 0]
        document = (lengths > 0).nonzero()[:, :1]
        hidden = self._encode_sequences(backbone, documents[_moved(inputs.device, document, whole)])
        number = ((lengths > 0).flatten().cumsum(0) - 1).view(lengths.shape)  # of a sentence among those with words
        read = _moved(inputs.device, number[row, sentence], place - first[row, sentence])
        return features.to(hidden.dtype).index_put(words, hidden[read])

    def step(
        self, backbone: Transformer, inputs: Int[Tensor, "batch word"], before: "_Tokens | None"
    ) -> tuple[Float[Tensor, "batch word width"], "_Tokens"]:
        """See `SentenceContext`; the state is the tokens of the last sentences."""
        if before is None:
            before = _Tokens(inputs[:, :0], inputs.new_zeros(len(inputs), self.sentences))
        past = before.lengths.sum(1, keepdim=True)
        places = past + torch.arange(inputs.shape[1], device=inputs.device)
        tokens = before.tokens[:, : int(past.max())]  # where the rows are those of a batch that was longer
        sequences = F.pad(tokens, (0, inputs.shape[1])).scatter(1, places, inputs)
        hidden = self._encode_sequences(backbone, sequences)
        rows = torch.arange(len(inputs), device=inputs.device)[:, None]
        lengths = F.pad(before.lengths[:, 1:], (0, 1), value=inputs.shape[1])
        kept = torch.arange(int(lengths.sum(1).max()), device=inputs.device) + before.lengths[:, :1]  # not the first
        left = _Tokens(sequences[rows, kept.clamp_max(sequences.shape[1] - 1)], lengths)
        return hidden[rows, places], left

    def _encode_sequences(
        self, backbone: Transformer, tokens: Int[Tensor, "rows length"]
    ) -> Float[Tensor, "rows length width"]:
        if backbone.max_length is not None and tokens.shape[1] > backbone.max_length:
            raise UserError(
                f"{self.sentences} sentences before one make {tokens.shape[1]} tokens here, but the Transformer reads "
                f"at most {backbone.max_length}: raise its max_length, read fewer sentences, or take sinusoids."
            )
        rows = max(1, POSITIONS_AT_ONCE // tokens.shape[1])
        parts: list[BackboneOutput] = [backbone(some) for some in torch.split(tokens, rows)]
        return torch.cat([part.hidden for part in parts])


def _moved(device: torch.device, *indices: Tensor) -> tuple[Tensor, ...]:
    """Indices on a device."""
    return tuple(each.to(device, non_blocking=True) for each in indices)


class _Tokens(NamedTuple):
    """The last sentences of documents, one after the other, and the length of each; 0 before the first."""

    tokens: Int[Tensor, "batch place"]
    lengths: Int[Tensor, "batch sentences"]


def _encode_each(
    backbone: Transformer, inputs: Int[Tensor, "batch sentence word"], lengths: Int[Tensor, "batch sentence"]
) -> Float[Tensor, "batch sentence word width"]:
    """Hidden states of all sentences, each encoded by itself, as `encode_by_length` does; zeros where there is none."""
    sentences = inputs.flatten(0, 1)

    def encode(rows: Int[Tensor, " some"], longest: int) -> Float[Tensor, "some longest width"]:
        output: BackboneOutput = backbone(sentences[rows, :longest])
        return output.hidden

    states = encode_by_length(encode, lengths.flatten(), inputs.shape[2], CALL_OVERHEAD, device=inputs.device)
    return states.view(*inputs.shape, -1)


ContextFactory = Factory[int, SentenceContext]
"""From the Transformer's width to how it reads documents: in YAML, a class path with all its other arguments."""


class DocumentTransformer(DocumentLanguageModel):
    """A Transformer over the sentences of documents.

    Args:
        vocabulary_size: number of token types; linked from the data.
        context: how sentences know of those before; in YAML a class path of this module.
        backbone: the network that reads; a Transformer, in YAML `depgen.backbones.transformer.Transformer`.
        kwargs: see `DocumentLanguageModel`.

    Raises:
        UserError: the backbone is no causal Transformer.
    """

    def __init__(
        self,
        vocabulary_size: int,
        context: ContextFactory = SentenceAlone,
        backbone: BackboneFactory = Transformer,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        network = factory(backbone, BackboneFactory)(vocabulary_size)
        if not isinstance(network, Transformer) or not network.causal:
            raise UserError(
                f"DocumentTransformer: expected a Transformer with causal: true, found a {type(network).__name__}"
                f"{' with causal: false' if isinstance(network, Transformer) else ''}. Recurrent networks with a "
                "context are depgen.models.dclm.DCLM."
            )
        self.backbone = network
        self.context: SentenceContext = factory(context, ContextFactory)(network.width)
        self.sentences_alone = self.context.sentences_alone
        self.sentences_in_pairs = isinstance(self.context, OutputContext)

    def encode(self, batch: DocumentBatch) -> DocumentOutput:
        """Features of every position."""
        return DocumentOutput(self.context(self.backbone, batch.inputs, batch.lengths))

    def step(
        self,
        inputs: Int[Tensor, "batch word"],
        before: Any,  # noqa: ANN401
    ) -> tuple[Float[Tensor, "batch word width"], Any]:
        """See `DocumentLanguageModel`."""
        return self.context.step(self.backbone, inputs, before)

    def encode_separately(self, batch: DocumentBatch) -> SeparateFeatures | None:
        """The summands of a context that is added to every hidden state of a sentence."""
        if not isinstance(self.context, OutputContext):
            return None
        return self.context.separately(self.backbone, batch.inputs, batch.lengths)

    @property
    def output_weight(self) -> Float[Tensor, "vocab features"]:
        """The backbone's."""
        return self.backbone.output_weight

    @property
    def output_bias(self) -> Float[Tensor, " vocab"] | None:
        """The backbone's."""
        return self.backbone.output_bias
