"""Words a second that a spaCy parser of our size annotates; trained for a moment on generated stories."""

from depgen.annotation.spacy_parser import SpacyAnnotator
from depgen.annotation.spacy_training import SpacyTraining
from depgen.data.generated import GeneratedLanguage
from tests.benchmarks.figures import figure, seconds, write_figures


def sentences(number, split):
    corpus = GeneratedLanguage(train=number, valid=number, test=number, sentences=(5, 5))
    return [sentence for document in corpus.documents(split) for sentence in document.sentences]


def test_annotation(tmp_path):
    training = SpacyTraining(steps=40)
    trained = training.train(sentences(200, "train"), sentences(20, "valid"), seed=1)
    trained.save(tmp_path / "parser", {"kind": "spacy", "scheme": "generated", "lowercase": False})
    annotator = SpacyAnnotator(str(tmp_path / "parser"))
    annotator.annotate(sentences(1, "test"))
    texts = sentences(400, "test")
    rate = sum(map(len, texts)) / seconds(lambda: annotator.annotate(texts))
    write_figures("annotation", {"annotation, spaCy parser, one process": figure(rate, "words/s")})
    assert rate > 0
