"""Kinds of runs that the guard compares and of which no fixture is kept, and the experiments of verbs that judge."""

from pathlib import Path

import yaml

from tests.fixtures.kinds import (
    ADAGRAD,
    ADAM,
    GOLD,
    LSTM,
    STORIES,
    TRANSFORMER,
    TREEBANK,
    Settings,
    averaged,
    dependency_modeling,
    documents,
    experiment,
    named,
    stream,
    text,
)
from tests.invented_models import write_bert

SENTENCE_CONTEXTS = {
    "rnnlm": "NoContext", "drnnlm": "CarriedState", "ccdclm": "ContextToContext", "codclm": "ContextToOutput",
    "hrnnlm": "HierarchicalContext",
}  # fmt: skip
TRANSFORMER_CONTEXTS = {
    "sentence_alone": "SentenceAlone", "prefix": "PrefixContext", "context_to_output": "OutputContext",
    "previous_sentences": "PreviousSentences",
}  # fmt: skip


def recurrent_documents(context: str) -> Settings:
    """A DCLM with one of its contexts."""
    network = named(f"models.dclm.{context}", size=8)
    model = named("models.dclm.DCLM", embedding_size=8, optimizer=ADAGRAD, context=network)
    return experiment(model, documents(sentences_per_segment=5, segments_per_batch=4), 2)


def transformer_documents(context: str) -> Settings:
    """A Transformer of documents with one of its contexts."""
    network = named(f"models.document_transformer.{context}")
    path = "models.document_transformer.DocumentTransformer"
    model = named(path, backbone=TRANSFORMER, optimizer=ADAM, context=network)
    return experiment(model, documents(sentences_per_segment=5, tokens_per_batch=200), 2)


def dm_lstm() -> Settings:
    """DMLM over an LSTM of streams, with NT-ASGD in both phases and a window that validation carries."""
    model = averaged(named("backbones.awd_lstm.AWDLSTM", **LSTM))["model"]["init_args"]
    attention, window = (
        "depgen.models.dmlm.QueryKeyAttention",
        {"window": 5, "carry_window": "depgen.nn.carried_window.CarriedWindow"},
    )
    found = dependency_modeling(model.pop("backbone"), (2, 3), attention=attention, **window, **model)
    return experiment(found, stream(annotator=GOLD), 5, gradient_clip_val=0.25)


def beyond_the_paper(**more: object) -> Settings:
    """DMLM with what its paper does not have."""
    return experiment(dependency_modeling(TRANSFORMER, (1, 1), **more), text(annotator=GOLD, joining="roots"), 2)


FURTHER: dict[str, Settings] = {
    "dm_lstm": dm_lstm(),
    "dm_gate": beyond_the_paper(
        gate="depgen.nn.mixture_gate.MixtureGate",
        relation_weights={
            "class_path": "depgen.trees.relation_weights.RelationWeights",
            "init_args": {"weights": {"det": 0.25, "punct": 0.5}},
        },
    ),
    "dm_logit": beyond_the_paper(mixture_space="logit", window=4, duplicates="multiset", root_target=False),
    **{name: recurrent_documents(context) for name, context in SENTENCE_CONTEXTS.items()},
    **{name: transformer_documents(context) for name, context in TRANSFORMER_CONTEXTS.items()},
}
"""By kind, with the class paths and arguments of the earliest commit, which later ones read too."""

TREES = """
( (S (NP (DT The) (NN mother)) (, ,) (VP (VBD saw) (NP (CD 12) (JJ old) (NNS dogs))) (. .)) )
( (S (NP (PRP She)) (VP (VBD was) (ADJP (RB very) (JJ happy))) (. .)) )
( (S (NP (DT the) (JJ old) (NN dog)) (VP (VBD slept) (PP (IN at) (NP (NN home)))) (. .)) )
"""
SPACY = named("annotation.spacy_training.SpacyTraining", steps=20, evaluate_every=10, width=16, depth=1)
SUPAR: Settings = {"class_path": "depgen.annotation.supar_parser.SuparAnnotator", "init_args": {"path": "supar"}}
JUDGES: dict[str, Settings] = {
    "parsing": {"corpus": STORIES, "splits": ["train", "test"], "choose_on": ["valid"], "seeds": 2, "resamples": 50},
    "correlations": {"corpus": STORIES},
    "agreement": {"corpus": STORIES, "first": GOLD, "second": SUPAR},
    "parser_spacy": {"name": "spacy", "treebank": TREEBANK, "parser": SPACY},
    "order": {"task": "order", "shuffles": 4, "resamples": 50},
    "insertion": {"task": "insertion", "insertions": 2, "resamples": 50},
    "ending": {"task": "ending", "distractors": 2, "resamples": 50},
}
"""Configurations of verbs, by the name of their file."""


def write_further_inputs(home: Path) -> None:
    """Add the experiments of this module, bracketed trees, references and an encoder to the inputs of the fixtures."""
    for name, content in {**FURTHER, **JUDGES}.items():
        (home / "experiments" / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    (home / "data" / "brackets").mkdir()
    (home / "data" / "brackets" / "wsj_0001.mrg").write_text(TREES, encoding="utf-8")
    stories = (home / "stories.txt").read_text(encoding="utf-8")
    (home / "references.txt").write_text("".join(reversed(stories.splitlines(keepends=True))), encoding="utf-8")
    write_bert(home / "models" / "bert", sorted({*stories.split()}))
