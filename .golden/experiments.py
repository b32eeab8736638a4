"""The small runs that are compared, and the configurations of verbs that judge them, in the terms of the oldest tree."""

from typing import Any

Settings = dict[str, Any]


def named(path: str, /, **arguments: Any) -> Settings:
    """A class of depgen or torch with its arguments, as YAML names it."""
    start = "" if path.startswith("torch.") else "depgen."
    return {"class_path": f"{start}{path}", "init_args": arguments}


STORIES = named(
    "data.treebank.ConlluTreebank", folder="stories", train=["train.conllu"], valid=["valid.conllu"],
    test=["test.conllu"], tags="upos", name="Stories",
)  # fmt: skip
SENTENCES = named("data.sentences.SingleSentences", corpus=STORIES)
WORDS = named("data.vocabulary.WordVocabulary", min_count=1)
MASKED_WORDS = named("data.vocabulary.WordVocabulary", min_count=1, masks=True)
DOCUMENT_WORDS = named("data.vocabulary.WordVocabulary", min_count=1, starts=True)
GOLD = named("annotation.trivial.GoldTrees")
BRANCHING = named("annotation.trivial.Branching")
ADAM = named("torch.optim.Adam", lr=5e-3)
PLATEAU = named("torch.optim.lr_scheduler.ReduceLROnPlateau", factor=0.5, patience=0, threshold=0.0)
SMALL = {"layers": 2, "width": 8, "attention_heads": 2}
TRANSFORMER = named("backbones.transformer.Transformer", **SMALL, feedforward=8, dropout=0.1)
TRANSFORMER_XL = named(
    "backbones.transformer.Transformer", **SMALL, feedforward=8, dropout=0.1, positions="relative", attention_bias=False
)
GPT2 = named("backbones.pretrained.PretrainedTransformer", pretrained="gpt2", dropout=0.1, attention_dropout=0.1)
INIT = named("backbones.transformer.StructFormerInit", bound=0.1)
ENCODER = named(
    "backbones.transformer.Transformer", **SMALL, feedforward=8, dropout=0.1, positions="learned", max_length=100,
    causal=False, output_bias=True, init=INIT,
)  # fmt: skip
BOTH_SIDES = named(
    "backbones.transformer.Transformer", **SMALL, feedforward=8, dropout=0.1, causal=False, tied=False, output_bias=True
)
LSTM = {"layers": 2, "embedding_size": 8, "hidden_size": 8}
ADAGRAD = named("training.adagrad.ClippedAdagrad", lr=0.1, clip=5.0, accumulate_clipped=True)
PIECES = named("data.vocabulary.SubwordPieces", tokenizer="gpt2", eos_token="<|endoftext|>")


def text(vocabulary: Settings = WORDS, **more: Any) -> Settings:
    """Stories in batches of some 200 tokens."""
    return named("data.text.TextData", **{"corpus": STORIES, "vocabulary": vocabulary, "tokens_per_batch": 200, **more})


def stream(**more: Any) -> Settings:
    """Stories as one stream."""
    return named("data.stream.StreamData", corpus=STORIES, columns=4, bptt=25, **more)


def documents(**more: Any) -> Settings:
    """Stories sentence by sentence."""
    return named("data.documents.DocumentData", corpus=STORIES, vocabulary=DOCUMENT_WORDS, **more)


def experiment(model: Settings, data: Settings, epochs: int = 1, **trainer: Any) -> Settings:
    """A whole experiment of three steps an epoch."""
    fixed = {
        "max_epochs": epochs, "accelerator": "cpu", "precision": "32-true", "log_every_n_steps": 1,
        "limit_train_batches": 3,
    }  # fmt: skip
    return {"seed_everything": 1, "trainer": {**fixed, **trainer}, "model": model, "data": data}


def dependency_modeling(backbone: Settings, phases: tuple[int, int] = (1, 1), **more: Any) -> Settings:
    """DMLM with so many epochs of each phase."""
    first, second = phases
    lengths = {"dependency_modeling_epochs": first, "language_modeling_epochs": second}
    return named("models.dmlm.DMLM", backbone=backbone, **{"optimizer": ADAM, **lengths, **more})


def masked(model: str, **more: Any) -> Settings:
    """A masked language model on sentences."""
    optimizing = {"optimizer": ADAM, "scheduler": PLATEAU, "evaluation_masks": 2}
    data = text(MASKED_WORDS, corpus=SENTENCES)
    return experiment(named(f"models.{model}", **optimizing, **more), data, gradient_clip_val=0.25)


def averaged(backbone: Settings, **data: Any) -> Settings:
    """A model of a stream by NT-ASGD; its rate is so large that averaging begins."""
    settings = {
        "regularizer": named("training.activation.ActivationRegularizer"),
        "optimizer": named("training.nt_asgd.NTASGD", lr=20.0, patience=1),
    }
    model = named("models.causal_lm.CausalLM", backbone=backbone, **settings)
    return experiment(model, stream(**data), 5, gradient_clip_val=0.25)


def dm_lstm() -> Settings:
    """DMLM over an LSTM of streams, with NT-ASGD in both phases."""
    model = averaged(named("backbones.awd_lstm.AWDLSTM", **LSTM))["model"]["init_args"]
    attention = "depgen.models.dmlm.QueryKeyAttention"
    model = dependency_modeling(model.pop("backbone"), (2, 2), attention=attention, window=5, **model)
    return experiment(model, stream(annotator=GOLD), 4, gradient_clip_val=0.25)


def of_sentences(model: Settings, annotator: Settings, **more: Any) -> Settings:
    """A structured language model."""
    return experiment(model, text(**{"corpus": SENTENCES, "annotator": annotator, **more}))


def recurrent_documents(context: str) -> Settings:
    """A DCLM with one of its contexts."""
    network = named(f"models.dclm.{context}", size=8)
    model = named("models.dclm.DCLM", embedding_size=8, optimizer=ADAGRAD, context=network)
    return experiment(model, documents(sentences_per_segment=5, segments_per_batch=4))


SIMILARITY = experiment(
    named("models.sentence_similarity.SentenceSimilarity", finetune="full", optimizer=ADAM, scheduler=PLATEAU),
    named(
        "data.sentence_pairs.SentencePairs", encoder="udgn/finished",
        corpus=named("data.sts.SimilarityTasks", train=["stsb"], numbers="whole"), pairs_per_batch=8,
    ),
)  # fmt: skip
PROMPTED = experiment(
    named("models.prompted.PromptedModel", selected_by="accuracy", answers_among="verbalisers", optimizer=ADAM),
    named(
        "data.prompts.Prompts", encoder="gpt2_pieces/finished", prompts_per_batch=8,
        corpus=named("data.glue.GluePrompts", task="rte", verbalisers=["the", "cat"]),
    ),
)  # fmt: skip

KINDS: dict[str, Settings] = {
    "dmlm": experiment(dependency_modeling(TRANSFORMER), text(annotator=GOLD, joining="roots"), 2),
    "gilt": of_sentences(
        named("models.gilt.GiLT", backbone=TRANSFORMER_XL, feature_size=4, beam_size=3, clip=1.0, optimizer=ADAM), GOLD
    ),
    "udgn": masked("udgn.UDGN", **SMALL, head_size=4, parser_layers=1, tags=2),
    "transformer": experiment(
        named(
            "models.causal_lm.CausalLM", backbone=TRANSFORMER, optimizer=named("torch.optim.AdamW", lr=5e-3),
            scheduler=named("training.schedules.InverseSquareRoot", warmup_steps=3),
        ),
        text(),
    ),
    "gpt2_pieces": experiment(
        named("models.causal_lm.CausalLM", backbone=GPT2, optimizer=ADAM), text(PIECES, tokens_per_batch=600)
    ),
    "dm_gpt2": experiment(
        dependency_modeling(GPT2),
        text(PIECES, annotator=GOLD, joining="roots", left_dependents="last_piece", tokens_per_batch=600), 2,
    ),
    "dm_logit": experiment(
        dependency_modeling(TRANSFORMER, mixture_space="logit", window=4),
        text(annotator=GOLD, joining="roots"), 2,
    ),
    "awd_lstm": averaged(named("backbones.awd_lstm.AWDLSTM", **LSTM)),
    "dm_lstm": dm_lstm(),
    "on_lstm": averaged(named("backbones.on_lstm.ONLSTM", **LSTM, chunk_size=4)),
    "prpn": experiment(
        named(
            "models.causal_lm.CausalLM", optimizer=ADAM, scheduler=PLATEAU,
            backbone=named("backbones.prpn.PRPN", **LSTM, slots=4, lookback=2, resolution=0.1, hard=True),
        ),
        stream(), gradient_clip_val=1.0,
    ),
    "adclm": recurrent_documents("AttentionContext"),
    "rnnlm": recurrent_documents("NoContext"),
    "drnnlm": recurrent_documents("CarriedState"),
    "ccdclm": recurrent_documents("ContextToContext"),
    "codclm": recurrent_documents("ContextToOutput"),
    "hrnnlm": recurrent_documents("HierarchicalContext"),
    "dtg": of_sentences(named("models.dtg.DTG", backbone=TRANSFORMER_XL, beam_size=3, optimizer=ADAM), GOLD),
    "pushdown": of_sentences(
        named("models.pushdown.Pushdown", backbone=TRANSFORMER_XL, beam_size=3, optimizer=ADAM), BRANCHING
    ),
    "tg": of_sentences(
        named("models.tg.TransformerGrammar", backbone=TRANSFORMER_XL, beam_size=3, word_beam_size=2, optimizer=ADAM),
        BRANCHING, vocabulary=named("data.constituent_labels.ConstituentLabels"), trees_for=["train", "valid"],
    ),
    "itexp": experiment(
        named("models.itexp.ITEXP", backbone=BOTH_SIDES, max_length=40, optimizer=ADAM),
        named(
            "data.levels.LevelData", corpus=SENTENCES, annotator=GOLD, tokens_per_batch=100, levels_per_sentence=1,
            vocabulary=named("data.levels.ExpansionVocabulary", words=WORDS),
        ),
    ),
    "tree_regularization": of_sentences(
        named(
            "models.causal_lm.CausalLM", backbone=TRANSFORMER_XL, optimizer=ADAM,
            tree_regularization=named("training.tree_regularization.TreeRegularization", layer=1, every=2),
        ),
        BRANCHING,
    ),
    "structformer": masked("structformer.StructFormer", backbone=ENCODER, calibration="sentence"),
    "masked_transformer": masked("masked_transformer.MaskedTransformer", backbone=ENCODER),
    "similarity": SIMILARITY,
    "prompted": PROMPTED,
}  # fmt: skip
"""By kind; similarity reads the run of udgn, prompted that of gpt2_pieces."""

ORACLE = experiment(
    named(
        "models.causal_lm.CausalLM", optimizer=ADAM,
        backbone=named("backbones.transformer.Transformer", **SMALL, feedforward=8, dropout=0.0),
    ),
    text(),
)  # fmt: skip
"""A judge of texts; it is trained in a process of its own, where no `in_former` holds, hence without dropout."""

RESUMED = {"dmlm": (2, 5), "gilt": (2,), "udgn": (2,), "awd_lstm": (8,), "adclm": (2,), "itexp": (2,), "similarity": (2,)}
"""By kind: the optimiser steps after which the whole form kills a run and continues it."""

UNION: Settings = {
    "seed_everything": 1,
    "trainer": {"max_epochs": 2, "accelerator": "cpu", "devices": 1, "gradient_clip_val": 1.0},
    "model": named("evaluation.union.UNION", learning_rate=3e-3),
    "data": named(
        "evaluation.union.UnionData",
        corpus=STORIES, tagger=named("annotation.tagger.SuffixTagger"), tokens_per_batch=400,
    ),
}  # fmt: skip
"""The encoder is named on the command line. Trees before `evaluation/union.py:UNION` had a verb of their own for it."""
SIZES = {
    "word_embedding": 4, "character_embedding": 4, "character_hidden": 4, "character_output": 4, "lstm_hidden": 8,
    "lstm_layers": 1, "arc_mlp": 8, "relation_mlp": 4, "dropout": 0.0,
}  # fmt: skip
SUPAR_OPTIONS = {
    "steps": 6, "words_per_batch": 80, "evaluate_every": 3, "min_frequency": 1, "learning_rate": 1e-2, "sizes": SIZES,
    "accelerator": "cpu",
}  # fmt: skip
SUPAR = named("annotation.supar_training.SuparTraining", **SUPAR_OPTIONS)
CONSTITUENCY = named("annotation.supar_constituency_training.SuparConstituencyTraining", **SUPAR_OPTIONS)
GRAPHS = named("annotation.supar_graph_training.SuparGraphTraining", **SUPAR_OPTIONS)
SPACY = named(
    "annotation.spacy_training.SpacyTraining", steps=8, words_per_batch=60, first_words_per_batch=60, warmup=2,
    evaluate_every=4, learning_rate=5e-3, width=16, depth=1, min_action_freq=1, dropout=0.0,
)  # fmt: skip
EWT_FILES = {
    split: f"ud_english_ewt/en_ewt-ud-{part}.conllu"
    for split, part in (("train", "train"), ("valid", "dev"), ("test", "test"))
}
EWT = {"name": "invented", "lowercase": True, **EWT_FILES}
WSJ = named(
    "data.bracketed.BracketedTreebank", folder="wsj", train=["0?/*.mrg"], valid=["1?/*.mrg"], test=["2?/*.mrg"],
    name="invented",
)  # fmt: skip
EWT_GRAPHS = named("data.treebank.ConlluTreebank", folder="ud_english_ewt", graphs=True, name="invented")
TREEBANK = {"name": "Stories", **{split: f"stories/{split}.conllu" for split in ("train", "valid", "test")}}
PARSERS: dict[str, Settings] = {
    "ewt": {"treebank": EWT, "parser": SPACY},
    "ewt_supar": {"treebank": EWT, "parser": SUPAR},
    "wsj_constituency": {"treebank": named("annotation.training.CorpusTreebank", corpus=WSJ), "parser": CONSTITUENCY},
    "ewt_graph": {"treebank": named("annotation.training.CorpusTreebank", corpus=EWT_GRAPHS), "parser": GRAPHS},
}
"""By the names that the experiments read; trained for some steps on invented treebanks."""
COPIES = {
    "ewt_lowercased": "ewt", "wsj_normalized": "ewt", "ewt_supar_small": "ewt_supar", "ewt_content": "ewt_graph",
}  # fmt: skip
"""Further names of the parsers."""

JUDGES: dict[str, Settings] = {
    "parsing": {"corpus": STORIES, "splits": ["train", "test"], "choose_on": ["valid"], "seeds": 2, "resamples": 50},
    "correlations": {"corpus": STORIES},
    "agreement": {
        "corpus": STORIES, "first": GOLD, "second": named("annotation.supar_parser.SuparAnnotator", path="ewt_supar"),
    },
    "order": {"task": "order", "shuffles": 4, "resamples": 50},
    "insertion": {"task": "insertion", "insertions": 2, "resamples": 50},
    "ending": {"task": "ending", "distractors": 2, "resamples": 50},
}  # fmt: skip
"""Configurations of verbs, by the name of their file."""

CORPORA: dict[str, Settings] = {
    "conllu": STORIES,
    "conllu_graphs": {**EWT_GRAPHS, "init_args": {**EWT_GRAPHS["init_args"], "without": ["punct"]}},
    "sdp": named("data.treebank.SdpTreebank", folder="sdp", train=["train.sdp"], valid=["valid.sdp"], test=["test.sdp"]),
    "brackets": WSJ,
    "wikinews": named("data.json_documents.JsonDocuments", folder="wikinews", tokens="rules", lowercase=True),
    "wikitext": named("data.wikitext.WikiText"),
    "dependency_columns": named("data.treebank.DependencyColumns"),
    "brown": named("data.tagged.TaggedDocuments"),
    "lines": named("data.text_lines.TextLines", folder="emnlp_news", lowercase=True),
    "document_lines": named("data.document_lines.DocumentLines", folder="nant", name="NANT"),
    "rocstories": named("data.rocstories.RocStories"),
    "sentences": SENTENCES,
}
"""Corpora beside those that the experiments name."""
