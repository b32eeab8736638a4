"""Document-context language models. Ji, Cohn, Kong, Dyer & Eisenstein (2015), "Document Context Language Models".

A recurrent language model encodes a document sentence by sentence, each from a zero state, with a context from the
sentence before; the models differ in where the context enters.

    paper     here                                     context of a sentence
    RNNLM     `NoContext`                              none
    DRNNLM    `CarriedState`                           the last state of the sentence before, in all layers
    HRNNLM    `HierarchicalContext` (Lin et al. 2015)  a second network over the sentences before
    CCDCLM    `ContextToContext`, Eq. 4, 5             its last hidden state, concatenated to each input
    CODCLM    `ContextToOutput`, Eq. 6, 7              the same, concatenated to each output
    ADCLM     `AttentionContext`, Eq. 8 to 12          its hidden states, weighed at each word

    w_{t,n}   `DocumentBatch.inputs` and `targets`: <s> and words in, words and <eos> out; <eos> is never an input
    x_{t,n}   `embedded`
    h_{t,n}   `hidden`
    c_{t-1}   `context`, the last hidden state of the top layer after the last word, Eq. 3; gradients flow through it
    c_0       `first_context`, learnt; it begins every segment
    alpha_n   `weights` of ADCLM, Eq. 9

Deviations
    D1. The cell is that of `PeepholeLayer`, which the published parameter counts prove (`cell: cnn2015`): at the
        first word of a sequence that begins from zero its output gate has no peephole, as in the code.
        `cell: standard` is torch's LSTM.
    D2. The loss is the sum over the tokens of a segment, averaged over the segments of a batch (`loss_per: segment`),
        so that the published clip and rate keep their meaning; `token` is the mean per token of today's recipes.
    D3. Matrices begin uniformly within sqrt(6 / (rows + columns)), as in paper and code. The code's bound for one-row
        parameters is sqrt(6 / size), for which it takes every embedding by itself (`initialization: code2015`, the
        default); `paper` takes the embedding table as a matrix, whereby embeddings begin 15 times smaller, and biases
        as columns. `initialization` covers embeddings, attention and outputs: the cell of 2015 and c_0 begin
        as in the code either way, `cell: standard` as torch has it.
    D4. The authors' DRNNLM begins every sentence from zero, which makes it an RNNLM; ours carries hidden states and
        cells.
    D5. ADCLM as printed weighs by h_{t,n}, which depends on the outcome: the query is h_{t,n-1}, and there is none at
        the first word. `variant: code2015` is what the code does instead: the final states of all earlier sentences in
        all layers, zeros for the first sentence, an output that mixes the word's embedding in.
    D6. HRNNLM's sentence network has its own loss, the words of the next sentence as a bag, and neither network's loss
        reaches the other, as in the code, whose two optimisers touch nothing in common: one optimiser with two groups,
        each clipped by itself, is the same. `ClippedAdagrad` clips so; the trainer's `gradient_clip_val` takes one norm
        of both. The code counts the first word of a bag twice (`first_word_twice`) and leaves its output biases unused
        (`output_bias: false`), which its parameter count includes.
    D7. The paper trains by AdaGrad with a clipped norm and does not say which comes first; the code by SGD, and each
        update takes 1e-6 of every parameter away, which is left out here. `ClippedAdagrad` with `accumulate_clipped:
        true` clips first; with false, as in the toolkit, CCDCLM learns more slowly than RNNLM.
    D8. The code updates RNNLM once a sentence; here it learns by segments as all others do. `sentences_per_segment: 1`
        of the data, one segment a batch, is the code's way.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import Parameter

from depgen.data.batch import DocumentBatch
from depgen.language_models.base import SentenceContext
from depgen.language_models.document import DocumentLanguageModel, DocumentOutput
from depgen.nn.lengths import mask_of
from depgen.nn.recurrent import RecurrentProjection, call_lstm
from depgen.nn.vocabulary import word_log_probs
from depgen.training.hyper_parameters import Factory, factory

Cell = Literal["cnn2015", "standard"]
Variant = Literal["paper", "code2015"]
LAYERS = 2
"""Of every LSTM, Sec. 2.1."""
Documents = Float[Tensor, "batch sentence word embedding"]
Sentences = Float[Tensor, "batch word embedding"]
Lengths = Int[Tensor, "batch sentence"]
Step = tuple[Float[Tensor, "batch word features"], Any]
"""The features of a sentence, and a network's own state after it."""
ATTENTION_SIZE = 48
"""The paper's size of ADCLM's attention (A)."""


# -- 1. The LSTM of 2015: coupled gates and full peepholes ------------------------------------------------------------


class LayerState(NamedTuple):
    """The hidden and cell state of a layer of an LSTM."""

    hidden: Float[Tensor, "batch size"]
    cell: Float[Tensor, "batch size"]


class PeepholeLayer(nn.Module):
    """One layer: 3 I H + 5 H^2 + 3 H parameters, with C more inputs a step 3 C H more.

    The paper names an LSTM; the one of the toolkit that was used is, by its code and by the paper's count of
    H(13H + 3K + 6) parameters in two layers,

        i = sigmoid(W_xi x + W_hi h' + W_ci c' + b_i)
        w = tanh(W_xc x + W_hc h' + b_c)
        c = (1 - i) c' + i w
        o = sigmoid(W_xo x + W_ho h' + W_co c + b_o)
        h = o tanh(c)

    with W_ci and W_co whole matrices; the toolkit leaves out W_co c at the first step of a sequence that begins from
    zero. No fused kernel computes it: what depends on the inputs alone is one product for all steps, and a step has two
    more.

    Args:
        input_size: of the input that each step has (I).
        size: of hidden and cell state (H).
        constant_size: of the input that is the same at all steps, such as a context (C); 0 for none.
    """

    def __init__(self, input_size: int, size: int, *, constant_size: int = 0) -> None:
        super().__init__()
        self.size = size
        self.input_weight = nn.Parameter(torch.empty(3 * size, input_size))
        self.constant_weight = nn.Parameter(torch.empty(3 * size, constant_size)) if constant_size else None
        self.hidden_weight = nn.Parameter(torch.empty(3 * size, size))
        self.peephole = nn.Parameter(torch.empty(2 * size, size))
        self.bias = nn.Parameter(torch.empty(3 * size))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Uniform within sqrt(6 / (rows + columns)) of each gate's matrix over all it reads; biases sqrt(6 / H)."""
        inputs = self.input_weight.shape[1]
        fan_in = inputs + (0 if self.constant_weight is None else self.constant_weight.shape[1])
        matrices = [(self.input_weight, fan_in), (self.hidden_weight, self.size), (self.peephole, self.size)]
        if self.constant_weight is not None:
            matrices.append((self.constant_weight, fan_in))
        for matrix, columns in matrices:
            matrix.uniform_(-1, 1).mul_(math.sqrt(6 / (self.size + columns)))
        self.bias.uniform_(-1, 1).mul_(math.sqrt(6 / self.size))

    def forward(
        self,
        inputs: Float[Tensor, "batch length inputs"],
        *,
        constant: Float[Tensor, "batch constants"] | None = None,
        state: LayerState | None = None,
    ) -> tuple[Float[Tensor, "batch length size"], Float[Tensor, "batch length size"]]:
        """Hidden and cell states of every step, from the last state of an earlier call or from zero."""
        additive = F.linear(inputs, self.input_weight, self.bias)
        if self.constant_weight is not None:
            assert constant is not None, "a layer with a constant input reads one"
            additive = additive + F.linear(constant, self.constant_weight)[:, None]
        steps = _LayerSteps(self, additive.transpose(0, 1).contiguous(), self.hidden_weight, state)
        states = [steps() for _ in range(inputs.shape[1])]
        return torch.stack([each.hidden for each in states], 1), torch.stack([each.cell for each in states], 1)


class _LayerSteps:
    """A layer going through a sequence from a state, or from zero: each call is a step.

    `additive` is the part of the gates that is known for all steps, `weight` that of the inputs that are given at each
    step, and of the hidden states.
    """

    def __init__(
        self,
        layer: PeepholeLayer,
        additive: Float[Tensor, "length batch gates"],
        weight: Float[Tensor, "gates varying_and_size"],
        state: LayerState | None = None,
    ) -> None:
        length, batch, _ = additive.shape
        self._from_hidden = RecurrentProjection(additive, weight)
        self._from_cell = RecurrentProjection(additive.new_zeros(length, batch, 2 * layer.size), layer.peephole)
        self._output_sees_cell = state is not None
        if state is None:
            zero = additive.new_zeros(batch, layer.size)
            self._state, self._to_input = LayerState(zero, zero), zero
        else:
            self._state, self._to_input = state, F.linear(state.cell, layer.peephole[layer.size :])  # W_ci c'

    def __call__(self, varying: Float[Tensor, "batch varying"] | None = None) -> LayerState:
        """The states of the next step."""
        before, cell = self._state
        i, w, o = self._from_hidden(before if varying is None else torch.cat((varying, before), -1)).chunk(3, -1)
        i, w = (i + self._to_input).sigmoid(), w.tanh()
        cell = torch.lerp(cell, w, i)  # (1 - i) c' + i w
        to_output, self._to_input = self._from_cell(cell).chunk(2, -1)
        if self._output_sees_cell:
            o = o + to_output
        self._output_sees_cell = True
        self._state = LayerState(o.sigmoid() * cell.tanh(), cell)
        return self._state


class PeepholeLSTM(nn.Module):
    """A stack of layers; the first also has an input of `constant_size` that stays the same through a sequence."""

    def __init__(self, input_size: int, size: int, *, layers: int, constant_size: int = 0) -> None:
        super().__init__()
        first = PeepholeLayer(input_size, size, constant_size=constant_size)
        others = (PeepholeLayer(size, size) for _ in range(layers - 1))
        self.layers = nn.ModuleList([first, *others])

    def forward(
        self,
        inputs: Float[Tensor, "batch length inputs"],
        *,
        constant: Float[Tensor, "batch constants"] | None = None,
        state: Sequence[LayerState] | None = None,
    ) -> tuple[Float[Tensor, "batch length size"], tuple[LayerState, ...]]:
        """The last layer's hidden states, and every layer's state after the last step."""
        ends, below = [], inputs
        for number, layer in enumerate(self.layers):
            hidden, cell = layer(
                below, constant=None if number else constant, state=None if state is None else state[number]
            )
            ends.append(LayerState(hidden[:, -1], cell[:, -1]))
            below = hidden
        return below, tuple(ends)

    def by_steps(
        self, known: Float[Tensor, "batch length known"]
    ) -> Callable[[Float[Tensor, "batch varying"]], tuple[LayerState, ...]]:
        """Goes through a sequence from a zero state where the end of each step's input depends on the steps before.

        The beginning of each step's input is known; a call gives its end and returns the states of all layers.
        """
        length, size = known.shape[1], known.shape[2]
        first, *others = cast(Iterable[PeepholeLayer], self.layers)
        additive = F.linear(known, first.input_weight[:, :size], first.bias).transpose(0, 1).contiguous()
        steps = [_LayerSteps(first, additive, torch.cat((first.input_weight[:, size:], first.hidden_weight), 1))]
        for layer in others:
            bias = layer.bias.to(additive.dtype).expand(length, len(known), -1)
            steps.append(_LayerSteps(layer, bias, torch.cat((layer.input_weight, layer.hidden_weight), 1)))

        def step(varying: Float[Tensor, "batch varying"]) -> tuple[LayerState, ...]:
            states = []
            for layer in steps:
                states.append(layer(varying))
                varying = states[-1].hidden
            return tuple(states)

        return step


class StandardLSTM(nn.Module):
    """The interface of `PeepholeLSTM` over `torch.nn.LSTM`, which fused kernels compute."""

    def __init__(self, input_size: int, size: int, *, layers: int, constant_size: int = 0) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size + constant_size, size, layers, batch_first=True)

    def forward(
        self,
        inputs: Float[Tensor, "batch length inputs"],
        *,
        constant: Float[Tensor, "batch constants"] | None = None,
        state: Sequence[LayerState] | None = None,
    ) -> tuple[Float[Tensor, "batch length size"], tuple[LayerState, ...]]:
        """The last layer's hidden states, and every layer's state after the last step."""
        if constant is not None:
            inputs = torch.cat((inputs, constant[:, None].expand(-1, inputs.shape[1], -1)), -1)
        begun = None
        if state is not None:
            begun = torch.stack([each.hidden for each in state]), torch.stack([each.cell for each in state])
        outputs, (hidden, cell) = call_lstm(self.lstm, inputs, begun)
        return outputs, tuple(LayerState(*each) for each in zip(hidden, cell, strict=True))

    def by_steps(
        self, known: Float[Tensor, "batch length known"]
    ) -> Callable[[Float[Tensor, "batch varying"]], tuple[LayerState, ...]]:
        """See `PeepholeLSTM`; with torch's LSTM called once a step, ADCLM's training step takes 1.6 times as long."""
        batch, length, size = known.shape
        projections: list[RecurrentProjection] = []
        for of_input, of_hidden, *biases in self.lstm.all_weights:
            bias = biases[0] + biases[1]
            if projections:
                additive = bias.expand(length, batch, -1)
            else:
                additive = F.linear(known, of_input[:, :size], bias).transpose(0, 1).contiguous()
            own_input = of_input if projections else of_input[:, size:]
            projections.append(RecurrentProjection(additive, torch.cat((own_input, of_hidden), 1)))
        zero = known.new_zeros(batch, self.lstm.hidden_size)
        states = [LayerState(zero, zero)] * len(projections)

        def step(varying: Float[Tensor, "batch varying"]) -> tuple[LayerState, ...]:
            for layer, projection in enumerate(projections):
                i, f, g, o = projection(torch.cat((varying, states[layer].hidden), -1)).chunk(4, -1)
                cell = f.sigmoid() * states[layer].cell + i.sigmoid() * g.tanh()
                states[layer] = LayerState(o.sigmoid() * cell.tanh(), cell)
                varying = states[layer].hidden
            return tuple(states)

        return step


LSTMS: dict[Cell, partial[PeepholeLSTM] | partial[StandardLSTM]] = {
    "cnn2015": partial(PeepholeLSTM, layers=LAYERS), "standard": partial(StandardLSTM, layers=LAYERS),
}  # fmt: skip


# -- 2. Networks with a context, Sec. 2 and 3 -------------------------------------------------------------------------


class ContextNetwork(nn.Module):
    """Features of embedded documents.

    Attributes:
        features: their size.
        output_bias: whether the output has a bias.
        sentence_context: see `LanguageModel`.
    """

    features: int
    output_bias: bool = True
    sentence_context: SentenceContext = "document"

    def forward(self, embedded: Documents, lengths: Lengths) -> DocumentOutput:
        """Features of each position, which depend on earlier positions and sentences alone."""
        raise NotImplementedError

    def step(self, embedded: Sentences, before: Any) -> Step:  # noqa: ANN401
        """The features of one more sentence, which has no padding, and the state after it; None begins a document."""
        raise NotImplementedError


class NoContext(ContextNetwork):
    """RNNLM: encodes every sentence by itself.

    Args:
        embedding_size: of the words (K).
        size: of the LSTM (H).
        cell: which LSTM.
    """

    sentence_context: SentenceContext = "none"

    def __init__(self, embedding_size: int, size: int = 48, cell: Cell = "cnn2015") -> None:
        super().__init__()
        self.features = size
        self.core = LSTMS[cell](embedding_size, size)

    def forward(self, embedded: Documents, lengths: Lengths) -> DocumentOutput:
        """All sentences at once."""
        return DocumentOutput(encode_each(self.core, embedded, lengths))

    def step(self, embedded: Sentences, before: Any) -> Step:  # noqa: ANN401
        """See `ContextNetwork`; the state is empty."""
        return self.core(embedded)[0], ()


class CarriedState(NoContext):
    """DRNNLM: encodes a document as one sequence; every sentence begins from the last state of the one before."""

    sentence_context: SentenceContext = "document"

    def forward(self, embedded: Documents, lengths: Lengths) -> DocumentOutput:
        """One sequence a document, without the padding between sentences."""
        is_word = mask_of(lengths, embedded.shape[2])
        longest = int(lengths.sum(1).max())
        places = is_word.flatten(1).long().argsort(dim=1, descending=True, stable=True)  # words first, in their order
        places = places.to(embedded.device, non_blocking=True)
        rows = torch.arange(len(is_word), device=places.device)[:, None]
        hidden: Tensor = self.core(embedded.flatten(1, 2)[rows, places[:, :longest]])[0]
        hidden = F.pad(hidden, (0, 0, 0, places.shape[1] - longest))
        return DocumentOutput(hidden[rows, places.argsort(1)].view(*is_word.shape, -1))

    def step(self, embedded: Sentences, before: Any) -> Step:  # noqa: ANN401
        """See `ContextNetwork`; the state is that of all layers."""
        hidden, state = self.core(embedded, state=before)
        return hidden, state


class ContextToContext(ContextNetwork):
    """CCDCLM: the context is concatenated to each input of the first layer.

    The arguments are those of `NoContext`.
    """

    def __init__(self, embedding_size: int, size: int = 48, cell: Cell = "cnn2015") -> None:
        super().__init__()
        self.features = size
        self.core = LSTMS[cell](embedding_size, size, constant_size=size)
        self.first_context = nn.Parameter(_one_row(size))

    def forward(self, embedded: Documents, lengths: Lengths) -> DocumentOutput:
        """Sentence by sentence; one without words passes its context on."""
        context, features = self.first_context.expand(len(lengths), -1), []
        for sentence, longest in enumerate(lengths.amax(0).clamp_min(1).tolist()):
            # Eq. 4, 5: h_{t,n} = g(h_{t,n-1}, [x_{t,n}, c_{t-1}])
            hidden = self.core(embedded[:, sentence, :longest], constant=context)[0]
            context = last_states(hidden, lengths[:, sentence], otherwise=context)  # Eq. 3: c_t = h_{t,M}
            features.append(F.pad(hidden, (0, 0, 0, embedded.shape[2] - longest)))
        return DocumentOutput(torch.stack(features, 1))

    def step(self, embedded: Sentences, before: Any) -> Step:  # noqa: ANN401
        """See `ContextNetwork`; the state is the last hidden state."""
        context = self.first_context.expand(len(embedded), -1) if before is None else before  # c_{t-1}
        hidden, _ = self.core(embedded, constant=context)  # Eq. 4, 5
        return hidden, hidden[:, -1]  # Eq. 3: c_t = h_{t,M}


class ContextToOutput(ContextNetwork):
    """CODCLM: the context is concatenated to each hidden state before the output; sentences are encoded in parallel.

    The arguments are those of `NoContext`.
    """

    sentence_context: SentenceContext = "previous"

    def __init__(self, embedding_size: int, size: int = 48, cell: Cell = "cnn2015") -> None:
        super().__init__()
        self.features = 2 * size
        self.core = LSTMS[cell](embedding_size, size)
        self.first_context = nn.Parameter(_one_row(size))

    def forward(self, embedded: Documents, lengths: Lengths) -> DocumentOutput:
        """[h_{t,n}; c_{t-1}] of each position: the output matrix is [W_h, W_c] of Eq. 7."""
        hidden, contexts = self._encode_all(embedded, lengths)
        return DocumentOutput(torch.cat((hidden, contexts[:, :-1, None].expand_as(hidden)), -1))

    def step(self, embedded: Sentences, before: Any) -> Step:  # noqa: ANN401
        """See `ContextNetwork`; the state is the last hidden state."""
        context = self.first_context.expand(len(embedded), -1) if before is None else before
        hidden, _ = self.core(embedded)  # Eq. 6
        return torch.cat((hidden, context[:, None].expand_as(hidden)), -1), hidden[:, -1]  # Eq. 7

    def separately(
        self, embedded: Documents, lengths: Lengths
    ) -> tuple[Float[Tensor, "batch sentence word features"], Float[Tensor, "batch before features"]]:
        """The features in two summands, [h; 0] of the sentence itself and [0; c] of each context."""
        hidden, contexts = self._encode_all(embedded, lengths)
        size = hidden.shape[-1]
        return F.pad(hidden, (0, size)), F.pad(contexts, (size, 0))

    def _encode_all(
        self, embedded: Documents, lengths: Lengths
    ) -> tuple[Float[Tensor, "batch sentence word size"], Float[Tensor, "batch before size"]]:
        """Hidden states, and the contexts at the beginning and after each sentence."""
        hidden = encode_each(self.core, embedded, lengths)  # Eq. 6: h_{t,n} = g(h_{t,n-1}, x_{t,n})
        ends = last_states(hidden.flatten(0, 1), lengths.flatten()).view(*lengths.shape, -1)
        return hidden, torch.cat((self.first_context.expand(len(ends), 1, -1), ends), 1)


class AttentionContext(ContextNetwork):
    """ADCLM: at each word, attention over the hidden states of the previous sentence (`code2015`: of all previous).

    Args:
        embedding_size: of the words (K).
        size: of the LSTM (H).
        variant: see D5.
        cell: which.
        output_bias: whether the output has a bias; None: the paper has none, the code one.
    """

    def __init__(
        self,
        embedding_size: int,
        size: int = 48,
        variant: Variant = "paper",
        cell: Cell = "cnn2015",
        output_bias: bool | None = None,
    ) -> None:
        super().__init__()
        self.features, self.variant = size, variant
        paper = variant == "paper"
        context = size if paper else LAYERS * size
        self.core = LSTMS[cell](embedding_size + context, size)
        self.query = nn.Linear(context, ATTENTION_SIZE, bias=False)  # W_a1
        self.key = nn.Linear(context, ATTENTION_SIZE, bias=False)  # W_a2
        self.weigh = nn.Linear(ATTENTION_SIZE, 1, bias=False)  # w_a
        self.from_context = nn.Linear(context, size, bias=paper)  # W_c and b
        self.from_hidden = nn.Linear(size, size, bias=False) if paper else None  # W_h
        self.from_word = None if paper else nn.Linear(embedding_size, size, bias=False)
        self.first_context = nn.Parameter(_one_row(size)) if paper else None
        self.output_bias = not paper if output_bias is None else output_bias

    def forward(self, embedded: Documents, lengths: Lengths) -> DocumentOutput:
        """Word by word, since the context of each depends on the hidden state before."""
        features, memory = [], self._beginning(embedded)
        for sentence, longest in enumerate(lengths.amax(0).clamp_min(1).tolist()):
            own, states = self._encode_sentence(embedded[:, sentence, :longest], memory)
            features.append(F.pad(own, (0, 0, 0, embedded.shape[2] - longest)))
            memory = self._next_memory(memory, states, lengths[:, sentence])
        return DocumentOutput(torch.stack(features, 1))

    def step(
        self, embedded: Float[Tensor, "batch word embedding"], before: "_Memory | None"
    ) -> tuple[Float[Tensor, "batch word features"], "_Memory"]:
        """See `ContextNetwork`; the state is the memory that later sentences attend to."""
        memory = self._beginning(embedded) if before is None else before
        features, states = self._encode_sentence(embedded, memory)
        lengths = torch.full(embedded.shape[:1], embedded.shape[1], device=embedded.device)
        return features, self._next_memory(memory, states, lengths)

    def _beginning(self, embedded: Tensor) -> "_Memory":
        """The memory of the first sentence: c_0, or nothing (D5)."""
        if self.first_context is None:
            slots = embedded.new_zeros(len(embedded), 0, self.query.in_features)
        else:
            slots = self.first_context.expand(len(embedded), 1, -1)
        return self._memory(slots, torch.ones(slots.shape[:2], dtype=torch.bool, device=embedded.device))

    def _memory(self, slots: Float[Tensor, "batch slots states"], filled: Bool[Tensor, "batch slots"]) -> "_Memory":
        return _Memory(slots, self.key(slots), filled)

    def _encode_sentence(
        self, embedded: Float[Tensor, "batch word embedding"], memory: "_Memory"
    ) -> tuple[Float[Tensor, "batch word size"], Float[Tensor, "batch word states"]]:
        """Features of a sentence, and the states that later sentences attend to: Eq. 8 to 12."""
        step, summed = self.core.by_steps(embedded), memory.keys  # no query at the first word (D5)
        contexts, hidden, states = [], [], []
        for _ in range(embedded.shape[1]):
            # Eq. 10 (D5): a_{n,m} = w_a . tanh(W_a1 h_{t,n-1} + W_a2 h_{t-1,m})
            scores = self.weigh(summed.tanh())[:, :, 0]
            contexts.append(memory.mean(scores))  # Eq. 8: c_{t-1,n}
            layers = step(contexts[-1])  # Eq. 11: h_{t,n} = g(h_{t,n-1}, [c_{t-1,n}, x_{t,n}])
            hidden.append(layers[-1].hidden)
            # what queries and later keys are made from: h_{t,n}, or that of all layers (D5)
            states.append(hidden[-1] if self.variant == "paper" else torch.cat([each.hidden for each in layers], -1))
            summed = memory.keys + self.query(states[-1])[:, None]  # W_a2 h_{t-1,m} + W_a1 h_{t,n}
        own = torch.stack(hidden, 1)
        # Eq. 12: y_{t,n} = softmax(W_o tanh(W_h h_{t,n} + W_c c_{t-1,n} + b)), or the code's mixture (D5)
        mixed = own if self.from_hidden is None else self.from_hidden(own)
        mixed = mixed + self.from_context(torch.stack(contexts, 1))
        mixed = mixed if self.from_word is None else mixed + self.from_word(embedded)
        return mixed.tanh(), torch.stack(states, 1)

    def _next_memory(
        self, memory: "_Memory", states: Float[Tensor, "batch word states"], lengths: Int[Tensor, " batch"]
    ) -> "_Memory":
        """The memory of the next sentence: the states of this one, or one more final state (D5)."""
        if self.variant == "paper":
            kept = mask_of(lengths, states.shape[1], device=states.device)
            return self._memory(states, kept)
        more = self._memory(
            last_states(states, lengths)[:, None], (lengths > 0)[:, None].to(states.device, non_blocking=True)
        )
        return _Memory(*(torch.cat(parts, 1) for parts in zip(memory, more, strict=True)))


class _Memory(NamedTuple):
    """The states h_{t-1,m} that attention weighs.

    Attributes:
        slots: h_{t-1,m}.
        keys: W_a2 h_{t-1,m}.
        filled: False at padding.
    """

    slots: Float[Tensor, "batch slots states"]
    keys: Float[Tensor, "batch slots attention"]
    filled: Bool[Tensor, "batch slots"]

    def mean(self, scores: Float[Tensor, "batch slots"]) -> Float[Tensor, "batch states"]:
        """The mean of the filled slots, weighted by the softmax of their scores; zeros where none is filled."""
        lowest = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(~self.filled, lowest).softmax(-1) * self.filled  # Eq. 9: alpha_n = softmax(a_n)
        return (weights[:, None] @ self.slots)[:, 0]  # Eq. 8: c_{t-1,n} = sum_m alpha_{n,m} h_{t-1,m}


class HierarchicalContext(ContextNetwork):
    """HRNNLM: the context is the state of a second network over the sentences before, which learns their words (D6).

    Args:
        embedding_size: of the words (K).
        size: of both LSTMs (H).
        cell: which LSTM.
        output_bias: whether the outputs of both have one; the code's are unused.
    """

    def __init__(self, embedding_size: int, size: int = 48, cell: Cell = "cnn2015", output_bias: bool = True) -> None:
        super().__init__()
        self.features, self.output_bias = size, output_bias
        self.core = LSTMS[cell](embedding_size, size, constant_size=size)
        self.sentences = LSTMS[cell](embedding_size, size)
        self.first_context = nn.Parameter(_one_row(size))

    def forward(self, embedded: Documents, lengths: Lengths) -> DocumentOutput:
        """The sentences' network first, then all sentences at once."""
        is_word = mask_of(lengths, embedded.shape[2], device=embedded.device)
        is_word[:, :, 0] = False  # the beginning is no word
        bags = (embedded.detach() * is_word[..., None]).sum(2)
        states, _ = self.sentences(bags)
        first = self.first_context.expand(len(states), 1, -1)
        context = torch.cat((first, states[:, :-1].detach()), 1)  # of the sentence before
        return DocumentOutput(encode_each(self.core, embedded, lengths, constant=context), states)

    def step(self, embedded: Sentences, before: Any) -> Step:  # noqa: ANN401
        """See `ContextNetwork`; the state is that of the sentences' network."""
        context = self.first_context.expand(len(embedded), -1) if before is None else before[-1].hidden
        hidden, _ = self.core(embedded, constant=context)
        _, state = self.sentences(embedded[:, 1:].sum(1)[:, None], state=before)
        return hidden, state


# -- 3. Sentences of a batch ----------------------------------------------------------------------------------------


def encode_each(
    core: nn.Module,
    embedded: Float[Tensor, "batch sentence word embedding"],
    lengths: Int[Tensor, "batch sentence"],
    *,
    constant: Float[Tensor, "batch sentence constants"] | None = None,
) -> Float[Tensor, "batch sentence word size"]:
    """Hidden states of all sentences, each from a zero state, with its own constant input.

    Sentences are read in groups, each up to its longest; what follows that is zero. A CPU, whose time goes into rows,
    reads those together that are more than half as long as the longest of them; a GPU, whose time goes into launches
    of steps, reads all at once.
    """
    sentences, constants = embedded.flatten(0, 1), None if constant is None else constant.flatten(0, 1)
    descending, order = lengths.flatten().sort(descending=True, stable=True)
    order = order.to(embedded.device, non_blocking=True)
    states, begin, filled = [], 0, int((descending > 0).sum())
    while begin < filled:
        longest = int(descending[begin])
        end = int((2 * descending > longest).sum()) if embedded.device.type == "cpu" else filled
        rows = order[begin:end]
        own_constant = None if constants is None else constants.index_select(0, rows)
        hidden: Tensor = core(sentences[:, :longest].index_select(0, rows), constant=own_constant)[0]
        states.append(F.pad(hidden, (0, 0, 0, sentences.shape[1] - longest)))
        begin = end
    states.append(states[0].new_zeros(len(order) - filled, *states[0].shape[1:]))
    return torch.cat(states).index_select(0, order.argsort()).view(*embedded.shape[:3], -1)


def last_states(
    states: Float[Tensor, "rows word size"], lengths: Int[Tensor, " rows"], *, otherwise: Tensor | None = None
) -> Float[Tensor, "rows size"]:
    """The states at each row's last word; `otherwise`, or anything, where there is none.

    >>> last_states(torch.arange(6.0).view(2, 3, 1), torch.tensor([2, 3]))
    tensor([[1.],
            [5.]])
    """
    rows, lengths = torch.arange(len(states), device=states.device), lengths.to(states.device, non_blocking=True)
    last = states[rows, (lengths - 1).clamp_min(0)]
    return last if otherwise is None else torch.where((lengths > 0)[:, None], last, otherwise)


def _one_row(size: int) -> Float[Tensor, " size"]:
    """A vector that begins uniformly within sqrt(6 / size)."""
    return torch.empty(size).uniform_(-1, 1).mul_((6 / size) ** 0.5)


# -- 4. The system ---------------------------------------------------------------------------------------------------

ContextFactory = Factory[int, ContextNetwork]
"""From the embeddings' size to a network: in YAML, a class path with all its other arguments."""


class DCLM(DocumentLanguageModel):
    """Word embeddings, a network with some context, a softmax over the vocabulary.

    Args:
        vocabulary_size: number of token types; linked from the data.
        context: makes the network from the size of embeddings; in YAML a class path of this module.
        embedding_size: of the words (K).
        dropout: of embeddings and features; none in the paper.
        loss_per: see D2.
        initialization: see D3.
        first_word_twice: see D6.
        kwargs: see `LanguageModel`.
    """

    def __init__(
        self,
        vocabulary_size: int,
        context: ContextFactory = ContextToContext,
        embedding_size: int = 48,
        dropout: float = 0.0,
        loss_per: Literal["segment", "token"] = "segment",
        initialization: Variant = "code2015",
        first_word_twice: bool = False,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(loss_per=loss_per, **kwargs)
        self.save_hyperparameters()
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        self.context: ContextNetwork = factory(context, ContextFactory)(embedding_size)
        output = partial(nn.Linear, self.context.features, vocabulary_size, bias=self.context.output_bias)
        self.output = output()
        self.bag_output = output() if isinstance(self.context, HierarchicalContext) else None
        self.sentence_context = self.context.sentence_context
        self.dropout, self.first_word_twice = nn.Dropout(dropout), first_word_twice
        self._initialize(initialization)

    @torch.no_grad()
    def _initialize(self, initialization: Variant) -> None:
        """Uniform within the published bounds (D3); LSTMs and first contexts have begun so themselves."""
        vocabulary, size = self.embedding.weight.shape
        code = initialization == "code2015"
        self.embedding.weight.uniform_(-1, 1).mul_((6 / (size if code else vocabulary + size)) ** 0.5)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    module.bias.uniform_(-1, 1).mul_((6 / (len(module.bias) + (not code))) ** 0.5)

    def parameter_groups(self) -> list[Parameter] | list[dict[str, Any]]:
        """One group of all parameters; of HRNNLM one for each of its two networks (D6)."""
        if self.bag_output is None or not isinstance(self.context, HierarchicalContext):
            return super().parameter_groups()
        sentences = [*self.context.sentences.parameters(), *self.bag_output.parameters()]
        known = {id(parameter) for parameter in sentences}
        words = [parameter for parameter in self.parameters() if id(parameter) not in known]
        return [{"params": words}, {"params": sentences}]

    @property
    def output_biases(self) -> list[Tensor]:
        """The output biases of words and of bags."""
        bags = None if self.bag_output is None else self.bag_output.bias
        return [bias for bias in (self.output_bias, bags) if bias is not None]

    def encode(self, batch: DocumentBatch) -> DocumentOutput:
        """Features of every position."""
        embedded = self.dropout(self.embedding(batch.inputs))
        output: DocumentOutput = self.context(embedded, batch.lengths)
        return DocumentOutput(self.dropout(output.features), output.bags)

    def step(
        self,
        inputs: Int[Tensor, "batch word"],
        before: Any,  # noqa: ANN401
    ) -> tuple[Float[Tensor, "batch word features"], Any]:
        """See `DocumentLanguageModel`."""
        return self.context.step(self.embedding(inputs), before)

    def encode_separately(
        self, batch: DocumentBatch
    ) -> tuple[Float[Tensor, "batch sentence word features"], Float[Tensor, "batch before features"]]:
        """The summands of a context that a sentence takes from the one before it alone."""
        assert isinstance(self.context, ContextToOutput)
        return self.context.separately(self.embedding(batch.inputs), batch.lengths)

    def extra_nll(self, output: DocumentOutput, batch: DocumentBatch) -> Float[Tensor, ""] | None:
        """HRNNLM's: nats of every sentence's words given the sentences before it, in no order (D6)."""
        if output.bags is None or self.bag_output is None:
            return None
        is_word = mask_of(batch.lengths - 1, batch.targets.shape[2])
        is_word[:, 0] = False  # nothing precedes the first
        places = is_word.nonzero().to(output.bags.device, non_blocking=True)
        row, sentence, word = places.unbind(1)
        states = output.bags.roll(1, 1)[:, :, None].expand(*is_word.shape, -1)[row, sentence, word]
        targets = batch.targets[row, sentence, word]
        nll = -word_log_probs(states, self.bag_output.weight, self.bag_output.bias, targets)
        if self.first_word_twice:
            nll = nll * (1 + (word == 0))
        return nll.sum()
