"""The encoders that a UNION scorer is trained on: a pretrained one, or a small one from scratch."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch

from depgen.annotation.annotator import files_digest
from depgen.errors import UserError
from depgen.evaluation.pretrained import ModelWithTokenizer, load_pretrained
from depgen.evaluation.text.outcome import NotComputed
from depgen.evaluation.union.word_vectors import word_vectors
from depgen.hub import model_folder

SENTENCES = 8
"""Sentences that a small encoder tells apart by number; later ones count as the last."""
TOLD = "2"
"""Raised when the inputs of a small encoder other than its words change."""
SENTENCE_ENDS = frozenset(".!?")
LIKENESS = 4.0
"""Attention score that a small encoder's query begins with where it meets a key from the very same state."""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@runtime_checkable
class EncoderSource(Protocol):
    """Where the encoder to be trained comes from."""

    def build(self, texts: Sequence[str], *, max_length: int) -> ModelWithTokenizer:
        """An encoder that reads `max_length` tokens; `texts` are those it is to be trained on."""
        ...

    def options(self) -> dict[str, Any]:
        """All that it depends on, with the texts."""
        ...


class PretrainedEncoder:
    """Any encoder of transformers, from a local folder or the hub.

    Args:
        name: folder or hub name.
        download: whether files that are not on this machine may be downloaded.
    """

    def __init__(self, name: str = "bert-base-uncased", *, download: bool = False) -> None:
        self.name, self.download = name, download

    def options(self) -> dict[str, Any]:
        """The name, and a digest of the files, which are fetched first where they are missing and may be.

        Raises:
            UserError: it can't be had.
        """
        if model_folder(self.name) is None:
            self._loaded()
        folder = model_folder(self.name)
        assert folder is not None, "what was fetched lies in the hub cache"
        return {"name": self.name, "files": files_digest(folder)}

    def build(self, texts: Sequence[str], *, max_length: int) -> ModelWithTokenizer:
        """The encoder with its own weights and tokeniser.

        Raises:
            UserError: it can't be had, or reads fewer tokens.
        """
        pretrained = self._loaded()
        positions = int(getattr(pretrained.model.config, "max_position_embeddings", max_length))
        if positions < max_length:
            raise UserError(f"{self.name} reads {positions} tokens, but stories of {max_length} are to be read.")
        return pretrained

    def _loaded(self) -> ModelWithTokenizer:
        pretrained = load_pretrained(self.name, "encoder", download=self.download)
        if isinstance(pretrained, NotComputed):
            raise UserError(
                f"{pretrained.reason}. Without weights, depgen.evaluation.union.encoders.SmallEncoder trains a small "
                "encoder from scratch (experiments/union_rocstories_small.yaml)."
            )
        return pretrained


class SmallEncoder:
    """A BERT of the sizes given over whole lower-cased words of the training texts.

    Three things are given to it that a large corpus would teach, and 13,000 stories do not within an hour on a CPU:
    the word embeddings begin as statistics of neighbouring words in the training texts (`word_vectors`); queries and
    keys begin alike, so that each word attends to its like in other sentences (after Trockman & Kolter, 2023); and
    BERT's segment embeddings number the sentences, and mark pairs of words that stood in the story before and words
    that say again what was just said.

    Args:
        layers: number of layers.
        width: size of a hidden state.
        attention_heads: number of heads a layer.
        feedforward: size of the feed-forward networks' inner layer.
        dropout: of hidden states; attention probabilities are not dropped, which costs more time than it is worth.
        min_count: words seen less often become `[UNK]`.
        window: words on each side that count as near; 0 = random embeddings.
    """

    def __init__(
        self,
        *,
        layers: int = 4,
        width: int = 192,
        attention_heads: int = 4,
        feedforward: int = 768,
        dropout: float = 0.1,
        min_count: int = 2,
        window: int = 10,
    ) -> None:
        self.layers, self.width, self.attention_heads = layers, width, attention_heads
        self.feedforward, self.dropout, self.min_count, self.window = feedforward, dropout, min_count, window

    def options(self) -> dict[str, Any]:
        """All arguments, and the version of its other inputs."""
        return {**vars(self), "told": TOLD}

    def build(self, texts: Sequence[str], *, max_length: int) -> ModelWithTokenizer:
        """A new encoder; torch's global generator draws its weights."""
        from transformers import AutoModel, BertConfig

        counts = Counter(word for text in texts for word in text.lower().split())
        words = sorted(
            (word for word, count in counts.items() if count >= self.min_count), key=lambda w: (-counts[w], w)
        )
        tokenizer = _word_tokenizer([*SPECIAL, *(word for word in words if word not in SPECIAL)], max_length=max_length)
        config = BertConfig(
            vocab_size=len(tokenizer), hidden_size=self.width, num_hidden_layers=self.layers,
            num_attention_heads=self.attention_heads, intermediate_size=self.feedforward,
            hidden_dropout_prob=self.dropout, attention_probs_dropout_prob=0.0,
            max_position_embeddings=max_length, pad_token_id=tokenizer.pad_token_id, type_vocab_size=3 * SENTENCES,
            sentence_ends=[index for word, index in sorted(tokenizer.get_vocab().items()) if word in SENTENCE_ENDS],
        )  # fmt: skip
        name = f"BERT of {self.layers} x {self.width}, {len(tokenizer):,} words, from scratch"
        # for texts as short as stories the eager form is the fastest on a CPU
        model = AutoModel.from_config(config, attn_implementation="eager", add_pooling_layer=False)
        compare_words(model)
        if self.window:
            ids = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
            vectors = word_vectors(ids, size=len(tokenizer), width=self.width, window=self.window)
            vectors[: len(SPECIAL)] = 0.0
            with torch.no_grad():
                model.embeddings.word_embeddings.weight.add_(torch.from_numpy(vectors))
        return ModelWithTokenizer(model, tokenizer, name)


def compare_words(bert: Any) -> None:  # noqa: ANN401
    """Let each head's keys begin as its queries, both orthogonal projections, so that like states attend to each other.

    States are normalised to a length of √width, hence q·k / √size = gain² √size for equal ones.
    """
    for layer in bert.encoder.layer:
        attention = layer.attention.self
        size = attention.attention_head_size
        gain = (LIKENESS / size**0.5) ** 0.5
        for head in range(attention.num_attention_heads):
            rows = slice(head * size, (head + 1) * size)
            with torch.no_grad():
                torch.nn.init.orthogonal_(attention.query.weight[rows], gain=gain)
                attention.key.weight[rows] = attention.query.weight[rows]


def _word_tokenizer(vocabulary: Sequence[str], *, max_length: int) -> Any:  # noqa: ANN401  (transformers' tokeniser)
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = {word: index for index, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=max_length, pad_token="[PAD]", unk_token="[UNK]",
        cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip
