"""Samples of texts: Moses tokens, means and deviations over samples, and the reference numbers on real text."""

import random

import numpy as np
import pytest

from depgen.data.corpora import TextLines
from depgen.errors import UserError
from depgen.evaluation.text.samples import moses_texts, sample_scores
from depgen.metrics.bleu import ReferencePool, corpus_self_bleu

TEXTS = [f"the {word} ran to the {other} today" for word in "abcd" for other in "efgh"]


def test_samples_are_consecutive_texts():
    pools = {"first": ReferencePool(TEXTS[:3]), "last": ReferencePool(TEXTS[5:])}
    scores = sample_scores(TEXTS, pools, per_sample=5)  # the last text fills no sample
    samples = [TEXTS[:5], TEXTS[5:10], TEXTS[10:15]]
    for name, pool in pools.items():
        assert scores[name].tolist() == [pool.bleu(sample) for sample in samples]
    assert scores["self_bleu"].tolist() == [corpus_self_bleu(sample) for sample in samples]
    with pytest.raises(UserError, match="at least as many"):
        sample_scores(TEXTS, {}, per_sample=17)


def test_moses_gets_raw_text_and_escapes_nothing():
    assert moses_texts(["they ' re here , & it did n't cost 50 , 000"]) == ["they 're here , & it didn 't cost 50,000"]


@pytest.mark.real_data
@pytest.mark.slow
def test_real_news_have_the_quality_that_was_measured_before():
    corpus = TextLines("emnlp_news")
    valid, test = (
        moses_texts(" ".join(sentence.words) for document in corpus.documents(split) for sentence in document.sentences)
        for split in ("valid", "test")
    )
    pool, generator = ReferencePool(test), random.Random(0)
    assert np.mean([pool.bleu(generator.sample(valid, 400)) for _ in range(20)]) == pytest.approx(20.98, abs=0.6)
