"""Multi-head self-attention with carried keys, padding, additive scores, and its log-probabilities on request."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor, nn

from depgen.nn.rows import Growing

Scores = Callable[[Tensor, "KeyValues"], Tensor | None]
"""From queries [batch heads length size] and all keys to what is added to the scaled scores."""

Weigh = Callable[[Tensor], Tensor]
"""From scaled scores [batch heads length context], -inf at keys not seen, to the weights that values are summed by, in
place of a softmax over keys."""

_LONG_ENOUGH_FOR_BF16 = 192
"""So many queries torch's fused CPU kernel takes in blocks of 64 or more, and trains as fast in bf16 as in fp32. Fewer
go in blocks of 32, and take up to three times as long in bf16."""


def causal_mask(length: int, context: int, device: torch.device) -> Bool[Tensor, "length context"]:
    """True where a query may look: the last of `length` queries sees all `context` keys, each earlier one a key less.

    >>> causal_mask(2, 3, torch.device("cpu"))
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return torch.ones(length, context, dtype=torch.bool, device=device).tril_(context - length)


@dataclass(frozen=True)
class Visibility:
    """Which keys each query sees; the same for all layers of a network, so it is made once per pass.

    Attributes:
        mask: True where a query sees a key; every query sees at least one. None: everything that `causal` allows.
        causal: with no mask, query i sees keys 0 … i (as many keys as queries).
        padded_queries: queries that are no tokens.
    """

    mask: Bool[Tensor, "#batch 1 #length context"] | None
    causal: bool
    padded_queries: Bool[Tensor, "batch 1 length 1"] | None = None

    @classmethod
    def of(
        cls,
        length: int,
        padding: Bool[Tensor, "batch context"] | None,
        *,
        causal: bool,
        context: int,
        device: torch.device,
    ) -> "Visibility":
        """What the last `length` of `context` positions see; queries see no later keys where `causal`.

        So that no softmax is empty, a position that is `padding` sees itself too; in a network that sees both sides it
        sees every token instead, and everything where there is no token.
        """
        if padding is None:
            if not causal or length == 1:
                return cls(None, False)
            if length == context:
                return cls(None, True)
            return cls(causal_mask(length, context, device)[None, None], False)
        queries = padding[:, None, -length:, None]
        if not causal:
            return cls((~padding | padding.all(1, keepdim=True))[:, None, None], False, queries)
        before = causal_mask(length, context, device)
        itself = before & torch.ones_like(before).triu_(context - length)
        return cls(((before & ~padding[:, None]) | itself)[:, None], False, queries)

    def explicit(
        self, length: int, context: int, device: torch.device
    ) -> Bool[Tensor, "#batch 1 #length context"] | None:
        """The mask, written out where it is only implied; None if every query sees every key."""
        return causal_mask(length, context, device)[None, None] if self.causal else self.mask


class Places:
    """The slot of each column of each row, for hypotheses that share a past.

    Hypotheses of one text form a tree: most of their tokens are the same. What is kept for a token lies in one slot of
    a pool, and each hypothesis has a row of slot numbers: choosing and repeating hypotheses copies these numbers alone.
    Attention copies the keys and values of all hypotheses out of one layer's pool at a time. Attention over all slots
    of a text at once, masked, took 0.99 to 1.09 times as long (GiLT and Pushdown, 20 and 60 hypotheses, on a CPU).

    Behaves as a value; what layers derive from it alike is made once.

    >>> first = Places.of(2, 3, torch.tensor([1, 1]))
    >>> first.table.tolist(), first.extended(6, 1).table.tolist()
    ([[3, 4, 5], [3, 4, 5]], [[3, 4, 5, 6], [3, 4, 5, 7]])
    """

    def __init__(self, table: Int[Tensor, "rows context"]) -> None:
        self.table = table
        self._longer: tuple[int, int, Places] | None = None

    @classmethod
    def of(cls, rows: int, context: int, chosen: Int[Tensor, " kept"]) -> "Places":
        """The places of chosen rows of a pool that holds `rows` rows of `context` columns, one after the other."""
        slots = torch.arange(rows * context, device=chosen.device).view(rows, context)
        return cls(slots.index_select(0, chosen))

    def select(self, rows: Int[Tensor, " kept"]) -> "Places":
        """The places of some rows, in the order given."""
        return Places(self.table.index_select(0, rows))

    def extended(self, first: int, columns: int) -> "Places":
        """These and further columns, which lie from slot `first` on, a row's columns one after the other."""
        if self._longer is None or self._longer[:2] != (first, columns):
            rows = self.table.size(0)
            new = torch.arange(first, first + rows * columns, device=self.table.device).view(rows, columns)
            self._longer = first, columns, Places(torch.cat((self.table, new), 1))
        return self._longer[2]


class KeyValues:
    """Keys and values of all positions so far. Behaves as a value: the same one can be extended twice.

    At first they lie row by row. From the first time on that more rows are selected than there are, as hypotheses of a
    beam, the keys and values of a token are in one slot of a pool that all rows share: see `Places`.
    """

    def __init__(self, keys: Growing, values: Growing, places: Places | None = None) -> None:
        self._keys, self._values, self.places = keys, values, places

    @classmethod
    def of(cls, keys: Tensor, values: Tensor) -> "KeyValues":
        """The keys and values after a first pass; nothing is copied."""
        return cls(Growing.of(keys, dim=2), Growing.of(values, dim=2))

    @property
    def context(self) -> int:
        """The number of positions so far."""
        return len(self._keys) if self.places is None else self.places.table.size(1)

    @property
    def keys(self) -> Float[Tensor, "batch attention_heads context size"]:
        """All keys so far; a copy, where they lie in slots."""
        return self._of_rows(self._keys)

    @property
    def values(self) -> Float[Tensor, "batch attention_heads context size"]:
        """All values so far; a copy, where they lie in slots."""
        return self._of_rows(self._values)

    def _of_rows(self, held: Growing) -> Tensor:
        return held.tensor if self.places is None else held.tensor[self.places.table].transpose(1, 2)

    def extended(self, keys: Tensor, values: Tensor) -> "KeyValues":
        """These and further keys and values."""
        if self.places is None:
            return KeyValues(self._keys.extended(keys), self._values.extended(values))
        places = self.places.extended(len(self._keys), keys.size(2))
        return KeyValues(self._keys.extended(_in_slots(keys)), self._values.extended(_in_slots(values)), places)

    def select(self, rows: Int[Tensor, " kept"], *, like: "KeyValues | None" = None) -> "KeyValues":
        """Some rows of the batch; those that come more than once share what they have so far.

        `like` has the same rows of another layer of the network, which lie as these do; so in the other methods.
        """
        if self.places is not None:
            places = self.places.select(rows) if like is None else like.places
            return KeyValues(self._keys, self._values, places)
        if like is None:
            repeats = len(rows) > len(self.keys)
            places = Places.of(len(self.keys), len(self._keys), rows) if repeats else None
        else:
            places = like.places
        if places is None:
            return KeyValues(self._keys.select(rows), self._values.select(rows))
        keys, values = (Growing.of(_in_slots(each), dim=0) for each in (self.keys, self.values))
        return KeyValues(keys, values, places)

    def in_new_slots(self, kept: Int[Tensor, "batch kept"], *, like: "KeyValues | None" = None) -> "KeyValues":
        """Some columns of each row alone, in slots of a new pool, after a first column that holds nothing."""
        rows = torch.arange(len(kept), device=kept.device)
        places = Places.of(len(kept), 1 + kept.size(1), rows) if like is None else like.places
        held = (F.pad(_columns_of(each, kept), (0, 0, 1, 0)) for each in (self.keys, self.values))
        keys, values = (Growing.of(_in_slots(each), dim=0) for each in held)
        return KeyValues(keys, values, places)

    def with_rows(
        self, rows: Int[Tensor, " chosen"], longer: "KeyValues", *, like: "KeyValues | None" = None
    ) -> "KeyValues":
        """All rows with the columns that some have got since; others have their first column there, which none may see.

        `longer` has these rows, by `select`, and their new columns; all lie in slots.
        """
        if like is not None:
            return KeyValues(longer._keys, longer._values, like.places)
        assert self.places is not None
        assert longer.places is not None
        before = self.places.table
        table = torch.cat((before, before[:, :1].expand(-1, longer.context - before.size(1))), 1)
        table[rows, before.size(1) :] = longer.places.table[:, before.size(1) :]
        return KeyValues(longer._keys, longer._values, Places(table))


def _columns_of(entries: Tensor, kept: Int[Tensor, "batch kept"]) -> Tensor:
    return entries.gather(2, kept[:, None, :, None].expand(-1, entries.size(1), -1, entries.size(3)))


def _in_slots(
    entries: Float[Tensor, "batch attention_heads length size"],
) -> Float[Tensor, "slots attention_heads size"]:
    """Keys or values one after the other, those of a row together."""
    return entries.transpose(1, 2).flatten(0, 1)


class SelfAttention(nn.Module):
    """Multi-head scaled dot-product self-attention with one projection for queries, keys and values (in that order).

    Initialised as in fairseq: the three projections Xavier-uniform with gain 1/√2 each, the output one
    with gain 1 and a zero bias. Dropout is of attention probabilities.
    """

    def __init__(self, width: int, attention_heads: int, *, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        self.attention_heads = attention_heads
        self.dropout = dropout
        self.projection = nn.Linear(width, 3 * width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)
        for block in self.projection.weight.data.chunk(3):
            nn.init.xavier_uniform_(block, gain=2**-0.5)
        nn.init.xavier_uniform_(self.output.weight)
        if bias:
            nn.init.zeros_(self.output.bias)

    def forward(
        self,
        hidden: Float[Tensor, "batch length width"],
        visibility: Visibility,
        *,
        past: KeyValues | None = None,
        scores: Scores | None = None,
        weigh: Weigh | None = None,
        query_bias: Float[Tensor, "attention_heads size"] | None = None,
        with_attention: bool = False,
        carry: bool = False,
    ) -> tuple[
        Float[Tensor, "batch length width"],
        Float[Tensor, "batch attention_heads length context"] | None,
        KeyValues | None,
    ]:
        """Mixed values, the log-probabilities that mixed them (before dropout, fp32) on request, and the keys to carry.

        Args:
            hidden: states of the positions that come after `past`.
            visibility: which keys each query sees.
            past: keys and values of earlier positions.
            scores: what is added to the scaled dot products, before masking.
            weigh: what makes weights of scores instead of the softmax; there are no log-probabilities then.
            query_bias: added to all queries, before `scores` receives them.
            with_attention: return the log-probabilities; the softmax is then computed in the open instead of fused.
            carry: return keys and values for later positions.
        """
        batch, length, width = hidden.shape
        projected = self.projection(hidden).view(batch, length, 3, self.attention_heads, -1)
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)
        if query_bias is not None:
            queries = queries + query_bias[:, None].to(queries.dtype)
        present = KeyValues.of(keys, values) if past is None else past.extended(keys, values)
        mixed, log_probs = attend(
            queries, present, visibility, scores=scores, weigh=weigh, dropout=self.dropout if self.training else 0.0,
            with_attention=with_attention,
        )  # fmt: skip
        output = self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        return output, log_probs, present if carry else None


def attend(
    queries: Float[Tensor, "batch attention_heads length size"],
    present: KeyValues,
    visibility: Visibility,
    *,
    scores: Scores | None = None,
    weigh: Weigh | None = None,
    dropout: float = 0.0,
    with_attention: bool = False,
) -> tuple[
    Float[Tensor, "batch attention_heads length value_size"],
    Float[Tensor, "batch attention_heads length context"] | None,
]:
    """Values mixed by the dropped softmax of (queries·keys/√size + added); on request its logarithm before dropout.

    The arguments are those of `SelfAttention.forward`; several heads may share keys and values. The softmax is fused
    with the products around it unless `with_attention` returns it, or `weigh` replaces it.
    """
    heads, added = queries.size(1), None if scores is None else scores(queries, present)
    if added is not None and visibility.padded_queries is not None:
        added = added.masked_fill(visibility.padded_queries, 0.0)
    keys, values = _for_heads(present.keys, heads), _for_heads(present.values, heads)
    if weigh is not None:
        weights = weigh(attention_scores(queries, keys, visibility, added))
        return F.dropout(weights, dropout).to(values.dtype) @ values, None
    if not with_attention:
        return _fused_attention(queries, keys, values, visibility, added, dropout), None
    log_probs = F.log_softmax(attention_scores(queries, keys, visibility, added), -1)
    return F.dropout(log_probs.exp(), dropout).to(values.dtype) @ values, log_probs


def _for_heads(held: Tensor, heads: int) -> Tensor:
    """Keys or values repeated for the heads that share them."""
    return held if held.size(1) == heads else held.repeat_interleave(heads // held.size(1), 1)


def attention_scores(
    queries: Float[Tensor, "batch attention_heads length size"],
    keys: Float[Tensor, "batch attention_heads context size"],
    visibility: Visibility,
    added: Tensor | None = None,
) -> Float[Tensor, "batch attention_heads length context"]:
    """queries·keys/√size + added, at least in fp32; -inf at keys not seen."""
    precise = torch.promote_types(queries.dtype, torch.float32)
    with torch.autocast(queries.device.type, enabled=False):
        scores: Tensor = (queries.to(precise) * queries.size(-1) ** -0.5) @ keys.to(precise).transpose(-2, -1)
        if added is not None:
            scores = scores + added
        mask = visibility.explicit(queries.size(2), keys.size(2), queries.device)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
    return scores


def _fused_attention(
    queries: Tensor, keys: Tensor, values: Tensor, visibility: Visibility, added: Tensor | None, dropout: float
) -> Tensor:
    """Attention by torch's fused kernel, in fp32 where a CPU trains it faster, and more exactly, than in bf16.

    With dropout, or with trained scores in `added`, torch has no fused kernel for CPUs and computes in fp32 itself.
    """
    dtype = queries.dtype
    if added is None:
        mask, causal = visibility.mask, visibility.causal
    else:
        mask, causal = added.to(dtype), False
        seen = visibility.explicit(queries.size(2), keys.size(2), queries.device)
        if seen is not None:
            mask = torch.where(seen, mask, -torch.inf)
    trains_in_bf16_on_cpu = dtype == torch.bfloat16 and queries.device.type == "cpu" and torch.is_grad_enabled()
    if trains_in_bf16_on_cpu and added is None and not dropout and queries.size(2) < _LONG_ENOUGH_FOR_BF16:
        with torch.autocast("cpu", enabled=False):
            queries, keys, values = queries.float(), keys.float(), values.float()
            return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, is_causal=causal).to(dtype)
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal)


def coded_scores(
    queries: Float[Tensor, "batch attention_heads length size"],
    tables: Float[Tensor, "*features codes attention_heads size"],
    codes: Integer[Tensor, "batch *features length context"],
) -> Float[Tensor, "batch attention_heads length context"]:
    """Each query times the vector that its pair with a key is coded by, summed over features; not scaled.

    One product of the queries with all vectors of the tables, 2·batch·length·features·codes·width operations, and a
    look-up of its results: batch·heads·length·(features·codes + 2·context) numbers are held. The vectors themselves are
    never laid out by pair, which would take batch·length·context·width.

    >>> queries, tables = torch.tensor([[[[2.0]]]]), torch.tensor([[[1.0]], [[10.0]]])
    >>> coded_scores(queries, tables, torch.tensor([[[1, 0, 1]]]))
    tensor([[[[20.,  2., 20.]]]])
    """
    batch, heads, length, size = queries.shape
    context, count = codes.size(-1), tables.size(-3)
    vectors = tables.reshape(-1, heads, size).permute(1, 2, 0).to(queries.dtype)
    products = queries.transpose(0, 1).reshape(heads, batch * length, size) @ vectors
    by_code = products.view(heads, batch, length, -1, count)
    scores = products.new_zeros(())
    for feature, of_feature in enumerate(codes.reshape(batch, -1, length, context).unbind(1)):
        scores = scores + by_code[..., feature, :].gather(-1, of_feature.long().expand(heads, -1, -1, -1))
    return scores.transpose(0, 1)
