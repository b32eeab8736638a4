"""PRPN: a network that predicts syntactic distances, and reads and predicts by attention within the open constituents.

Shen, Lin, Huang & Courville (2018), "Neural Language Modeling by Jointly Learning Syntax and Lexicon" (ICLR).

    paper                         here
    d_t, d^_{t+1}                 `Parsing`: the distance before the token just read, and a guess of the next one's
    g^t_i, g^{t+1}_i              `open_slots`: how far a constituent that ends now reaches back
    Tape of (m_i, c_i)            `Memory`: hidden and cell states of the last `slots` tokens, oldest first
    s^t_i                         `gated_softmax`

Deviations
    D1. Distances pass a sigmoid, as in the authors' code of 2018, not the paper's ReLU.
    D2. Where two distances are equal the gate between them is 1, as in the code: (d_t - d_i) / tau + 1, cut to [0, 1].
        In the paper it is one half. The soft gate is the code's: ten times as steep, centred alike.
    D3. A residual block before the prediction, off in the code's recipe, is not built.
    D4. Batch normalisation counts tokens, not padding. In training it couples the texts of a batch, as published; in
        evaluation, by its running means, it does not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.backbones.backbone import BackboneOutput, BackboneState, EmbeddingBackbone, StreamState
from depgen.errors import UserError
from depgen.nn.lengths import LeftAligned
from depgen.nn.recurrent import RecurrentProjection
from depgen.nn.vocabulary import full_precision

EPSILON = 1e-6

Memory = tuple[Tensor, Tensor]
"""Hidden and cell states of a layer, each [batch slots size], oldest first."""


@dataclass(frozen=True)
class PRPNState(StreamState):
    """The last embeddings, which the next distance looks back at, the last distances, and each layer's memory.

    Distances are infinite, hence slots closed, before a text's first token.
    """

    embedded: Float[Tensor, "batch lookback width"]
    distances: Float[Tensor, "batch slots"]
    memories: tuple[Memory, ...]


class PRPN(EmbeddingBackbone):
    """Parsing, reading and prediction.

    Args:
        vocabulary_size: number of token types; given by the system.
        layers: number of reading layers.
        embedding_size: of the embedding and of the hidden states that the output matrix reads.
        hidden_size: of the parsing network and the reading layers.
        slots: tokens that the memory holds.
        lookback: earlier tokens that a distance is computed from.
        resolution: tau, the difference of distances that closes a hard gate.
        hard: gates by a clipped line; else by a sigmoid.
        tied: predict by the embedding matrix.
        dropout: of what the first layer reads, and of the output.
        inner_dropout: everywhere else between layers.
        memory_dropout: of the neurons of what a memory returns, the same ones at all positions of all texts.
    """

    attention_layers = 0
    couples_batch = True

    def __init__(
        self,
        vocabulary_size: int,
        layers: int = 2,
        embedding_size: int = 800,
        hidden_size: int = 1200,
        slots: int = 15,
        lookback: int = 5,
        resolution: float = 0.1,
        hard: bool = True,
        tied: bool = True,
        dropout: float = 0.7,
        inner_dropout: float = 0.5,
        memory_dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if layers < 1 or slots < 1 or lookback < 1 or hidden_size % 2:
            raise UserError(
                "a PRPN needs a layer, a slot and a token to look back at, and an even hidden_size, found "
                f"layers: {layers}, slots: {slots}, lookback: {lookback}, hidden_size: {hidden_size}"
            )
        self.vocabulary_size, self.width, self.slots = vocabulary_size, embedding_size, slots
        self.dropout = nn.Dropout(dropout)
        self.open_slots = partial(open_slots, slots=slots, resolution=resolution, hard=hard)
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        self.parsing = Parsing(embedding_size, hidden_size, lookback, dropout=inner_dropout)
        self.reading = nn.ModuleList(
            ReadingLayer(
                hidden_size if index else embedding_size,
                hidden_size,
                input_dropout=inner_dropout if index else dropout,
                key_dropout=inner_dropout,
                memory_dropout=memory_dropout,
            )
            for index in range(layers)
        )
        self.prediction = Prediction(hidden_size, embedding_size, dropout=inner_dropout)
        self.make_output(tied=tied)
        for matrix in self.token_matrices:
            nn.init.uniform_(matrix, -0.01, 0.01)

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        *,
        padding: Bool[Tensor, "batch length"] | None = None,
        state: BackboneState | None = None,
        attention_layer: int | None = None,
        all_layers: bool = False,
        carry: bool = False,
    ) -> BackboneOutput:
        """Hidden states of every position, zero at padding, as `Backbone.forward`; `all_layers` before dropout.

        What is read from the memory is no attention over all positions: there is none to return.
        """
        self.check_attention(attention_layer)
        assert state is None or isinstance(state, PRPNState)
        rows = LeftAligned.of(padding, tokens.device)
        embedded = self.embedding(rows.moved(tokens))
        before = state or self._beginning(embedded)
        context = torch.cat((before.embedded, embedded), 1)
        distances, following = self.parsing(context, rows.places)
        known = torch.cat((before.distances, distances), 1)
        # g_{t,k} from d_t and g^_{t,k} from d^_{t+1}, both against the same d_{t-k}
        reading_gates, prediction_gates = (self.open_slots(each, known) for each in (distances, following))
        every, histories, hidden = [embedded], list[Memory](), embedded
        for layer, memory in zip(self.reading, before.memories, strict=True):
            hidden, history = layer(hidden, reading_gates, memory)
            every.append(hidden)
            histories.append(history)
        every.append(self.prediction(hidden, histories[-1][0], prediction_gates, rows.places))
        every = [rows.returned(each) for each in every]
        return BackboneOutput(
            hidden=self.dropout(every[-1]),
            undropped=every[-1],
            layers=tuple(every) if all_layers else None,
            state=self._after(rows, context, known, histories) if carry else None,
        )

    def state_of(self, tensors: Sequence[Tensor]) -> PRPNState:
        """The state whose `tensors` these are."""
        embedded, distances, *memories = tensors
        return PRPNState(embedded, distances, tuple(zip(memories[::2], memories[1::2], strict=True)))

    @torch.no_grad()
    def syntactic_distances(
        self, tokens: Int[Tensor, "batch length"], *, padding: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "layers batch length"]:
        """d_t at each position, of the one parsing network: high where a constituent ends before the token.

        Needs evaluation mode.
        """
        assert not self.training, "distances are those of evaluation mode"
        rows = LeftAligned.of(padding, tokens.device)
        embedded = self.embedding(rows.moved(tokens))
        context = torch.cat((self._beginning(embedded).embedded, embedded), 1)
        distances, _ = self.parsing(context, rows.places)
        return rows.returned(distances[..., None])[None, ..., 0]

    def _beginning(self, embedded: Tensor) -> PRPNState:
        """No tokens: empty memories, and distances that close every slot."""
        batch, size = embedded.size(0), self.parsing.size
        empty = embedded.new_zeros(batch, self.slots, size)
        closed = embedded.new_full((batch, self.slots), torch.inf)
        lookback = embedded.new_zeros(batch, self.parsing.lookback, self.width)
        return PRPNState(lookback, closed, tuple((empty, empty) for _ in self.reading))

    def _after(self, rows: LeftAligned, context: Tensor, known: Tensor, histories: list[Memory]) -> PRPNState:
        """The state after each row's last token."""
        lookback, slots = self.parsing.lookback, self.slots
        memories = tuple((rows.last(hidden, slots), rows.last(cell, slots)) for hidden, cell in histories)
        return PRPNState(rows.last(context, lookback), rows.last(known[..., None], slots)[..., 0], memories)


class Parsing(nn.Module):
    """Distances from a window of embeddings; half of its layer gives d_t, the other half d^_{t+1}."""

    def __init__(self, embedding_size: int, size: int, lookback: int, *, dropout: float) -> None:
        super().__init__()
        self.size, self.lookback, self.dropout = size, lookback, nn.Dropout(dropout)
        self.window = nn.Conv1d(embedding_size, size, lookback + 1)
        self.normalize = nn.BatchNorm1d(size)
        self.distance = nn.Conv1d(size, 2, 1, groups=2)

    def forward(
        self, context: Float[Tensor, "batch context width"], places: Int[Tensor, " tokens"] | None
    ) -> tuple[Float[Tensor, "batch length"], ...]:
        """d_t and d^_{t+1} of each token, from the `lookback` embeddings before the first; `places` of tokens."""
        columns = self.dropout(context).transpose(1, 2)
        convolved = self.window(columns).transpose(1, 2)  # batch length size
        units = batch_norm_of_tokens(self.normalize, convolved, places).relu()  # u_t = ReLU(BN(Conv(e_{t-5..t})))
        units = self.dropout(units)
        with torch.autocast(units.device.type, enabled=False):  # a tenth of a distance closes a gate: bf16 blurs it
            both = self.distance(full_precision(units).transpose(1, 2))  # batch 2 length
        distances: Tensor = both.sigmoid()  # d_t, d^_{t+1} = sigmoid(w u_t + b) (D1)
        return distances.unbind(1)


def open_slots(
    distances: Float[Tensor, "batch length"],
    known: Float[Tensor, "batch known"],
    *,
    slots: int,
    resolution: float,
    hard: bool,
) -> Float[Tensor, "batch length slots"]:
    """How open each memory slot is to each token, oldest slot first: g_{t,k} = prod_{j <= k} alpha_{t,j}.

    Distances are d_t, or d^_{t+1} for what predicts the next token; those known are of `slots` tokens before the first,
    and of all tokens. The resolution is tau; alpha is a clipped line if `hard`, else a sigmoid.

    >>> known = torch.tensor([[torch.inf, 0.9, 0.2, 0.5]])
    >>> open_slots(known[:, 2:], known, slots=2, resolution=0.1, hard=True).tolist()
    [[[0.0, 1.0], [1.0, 1.0]]]
    """
    nearest_first = known.unfold(1, slots, 1)[:, 1:].flip(-1)  # d_t, d_{t-1}, ...
    differences = (distances[..., None] - nearest_first) / resolution
    reach = differences + 1  # (D2)
    alpha = reach.clamp(0, 1) if hard else (10 * reach - 5).sigmoid()  # alpha_{t,k}, of (d_t - d_{t-k}) / tau
    return alpha.cumprod(-1).flip(-1)  # g_{t,k} = prod_{j <= k} alpha_{t,j}


def gated_softmax(
    scores: Float[Tensor, "*batch slots"], gates: Float[Tensor, "*batch slots"]
) -> Float[Tensor, "*batch slots"]:
    """s_k = g_k exp(e_k) / sum_j g_j exp(e_j); zero where all slots are closed.

    >>> gated_softmax(torch.zeros(3), torch.tensor([0.0, 1.0, 1.0])).tolist()
    [0.0, 0.5, 0.5]
    """
    weights = gates * (scores - scores.detach().amax(-1, keepdim=True)).exp()
    return weights / (weights.sum(-1, keepdim=True) + 1e-8)


class ReadingLayer(nn.Module):
    """One layer of an LSTM whose state is what attention finds in the open slots of its memory.

    Dropouts are of what the LSTM reads; of what the key is computed from, and of the key; of the neurons of h~.
    """

    def __init__(
        self, input_size: int, size: int, *, input_dropout: float, key_dropout: float, memory_dropout: float
    ) -> None:
        super().__init__()
        self.input_size, self.size = input_size, size
        self.input_dropout, self.key_dropout = nn.Dropout(input_dropout), nn.Dropout(key_dropout)
        self.memory_dropout = nn.Dropout(memory_dropout)
        self.key = nn.Linear(input_size + size, size)
        self.input_gates, self.input_norm = nn.Linear(input_size, 4 * size), DeviationNorm(4 * size)
        self.recurrent_gates, self.recurrent_norm = nn.Linear(size, 4 * size), DeviationNorm(4 * size)
        self.cell_norm = DeviationNorm(size)

    def forward(
        self, inputs: Float[Tensor, "batch length _"], gates: Float[Tensor, "batch length slots"], memory: Memory
    ) -> tuple[Float[Tensor, "batch length size"], Memory]:
        """Hidden states, and the memory with all that was added to it."""
        slots, steps = gates.size(-1), inputs.transpose(0, 1).contiguous()
        from_inputs = self.input_norm(self.input_gates(self.input_dropout(steps)))
        keys = self._keys(steps)
        biases = self.recurrent_gates.bias.expand(*steps.shape[:2], -1)
        recurrent = RecurrentProjection(biases, self.recurrent_gates.weight)
        drop_hidden, drop_key = self._masks(steps), self._masks(steps, scale=1 / math.sqrt(self.size))
        drop_memory = self.memory_dropout(inputs.new_ones(self.size))  # r_l
        hidden, cells = list(memory[0].unbind(1)), list(memory[1].unbind(1))
        for t, (input_t, gate) in enumerate(zip(from_inputs.unbind(0), gates.unbind(1), strict=True)):
            key = keys(hidden[-1] * drop_hidden[t]) * drop_key[t]  # drop(W drop([x_t; h_{t-1}]) + b) / sqrt(size)
            states = torch.stack(hidden[t : t + slots], 1)
            scores = torch.bmm(states, key.unsqueeze(2)).squeeze(2)  # e_k = <h_k, key>
            weights = gated_softmax(scores, gate).unsqueeze(1)  # s_k = g_k exp(e_k) / sum_j g_j exp(e_j)
            memory_state = torch.bmm(weights, states).squeeze(1)  # h~ = sum_k s_k h_k
            memory_cell = torch.bmm(weights, torch.stack(cells[t : t + slots], 1)).squeeze(1)  # c~ = sum_k s_k c_k
            # LN(W_i x + b) + LN(W_h h~ + b)
            all_gates = input_t + self.recurrent_norm(recurrent(memory_state * drop_memory))
            i_and_f, candidate, output = torch.split(all_gates, [2 * self.size, self.size, self.size], -1)
            input_gate, forget_gate = i_and_f.sigmoid().chunk(2, -1)  # i, f = sigmoid(..), as o; g = tanh(..)
            cell = torch.addcmul(forget_gate * memory_cell, input_gate, candidate.tanh())  # c_t = f c~ + i g
            hidden.append(output.sigmoid() * self.cell_norm(cell).tanh())  # h_t = o tanh(LN(c_t))
            cells.append(cell)
        history = torch.stack(hidden, 1)
        return history[:, slots:], (history, torch.stack(cells, 1))

    def _keys(self, steps: Tensor) -> RecurrentProjection:
        """W drop([x_t; h_{t-1}]) + b, the part of the inputs for all steps at once."""
        for_inputs, for_hidden = torch.split(self.key.weight, [self.input_size, self.size], 1)
        return RecurrentProjection(F.linear(self.key_dropout(steps), for_inputs, self.key.bias), for_hidden)

    def _masks(self, steps: Tensor, *, scale: float = 1.0) -> tuple[Tensor, ...]:
        """Dropout masks for vectors of the layer's size, one a step."""
        if not self.training:
            return (steps.new_tensor(scale),) * len(steps)
        return self.key_dropout(steps.new_full((*steps.shape[:2], self.size), scale)).unbind(0)  # type: ignore[no-any-return]


class Prediction(nn.Module):
    """Hidden states of the top layer and what attention finds in the slots open to the next token."""

    def __init__(self, size: int, output_size: int, *, dropout: float) -> None:
        super().__init__()
        self.size, self.dropout = size, nn.Dropout(dropout)
        self.key = nn.Linear(size, size)
        self.output = nn.Linear(2 * size, output_size)
        self.normalize = nn.BatchNorm1d(output_size)

    def forward(
        self,
        hidden: Float[Tensor, "batch length size"],
        history: Float[Tensor, "batch known size"],
        gates: Float[Tensor, "batch length slots"],
        places: Int[Tensor, " tokens"] | None,
    ) -> Float[Tensor, "batch length output_size"]:
        """The vectors from which the next tokens are predicted."""
        keys = self.dropout(self.key(self.dropout(hidden)))  # drop(W drop(h_t) + b)
        positions = torch.arange(hidden.size(1), device=hidden.device)[:, None]
        slots = (positions + torch.arange(gates.size(-1), device=hidden.device)).expand_as(gates)  # of the history
        # e_k = <h_{t-1-k}, key> / sqrt(size)
        scores = torch.bmm(keys, history.transpose(1, 2)).gather(2, slots) / math.sqrt(self.size)
        weights = gated_softmax(scores, gates)  # s_k = g^_k exp(e_k) / sum_j g^_j exp(e_j), g^ from d^_{t+1}
        band = weights.new_zeros(*hidden.shape[:2], history.size(1)).scatter(2, slots, weights)
        memory = torch.bmm(band, history)  # m_t = sum_k s_k h_{t-1-k}
        output = self.output(self.dropout(torch.cat((hidden, memory), -1)))
        return batch_norm_of_tokens(self.normalize, output, places).tanh()  # tanh(BN(W drop([h_t; m_t]) + b))


def batch_norm_of_tokens(
    normalize: nn.BatchNorm1d, values: Float[Tensor, "batch length width"], places: Int[Tensor, " tokens"] | None
) -> Float[Tensor, "batch length width"]:
    """Batch normalisation with the statistics of tokens, not of padding; zero at padding.

    `places` are those of the tokens among all positions, row by row; None: all positions are tokens.
    """
    flat = values.flatten(0, 1)
    if places is None:
        return normalize(flat).view_as(values)  # type: ignore[no-any-return]
    normalized = torch.zeros_like(flat)
    normalized[places] = normalize(flat[places])
    return normalized.view_as(values)


class DeviationNorm(nn.Module):
    """LN(x) = gain (x - mean) / (s + 1e-6) + bias, s the unbiased deviation (torch's layer norm: the biased one)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))

    def forward(self, values: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """Normalised over the last axis."""
        centred = values - values.mean(-1, keepdim=True)
        deviation = torch.linalg.vector_norm(centred, dim=-1, keepdim=True) / math.sqrt(values.size(-1) - 1)
        return torch.addcmul(self.bias, self.gain, centred / (deviation + EPSILON))
