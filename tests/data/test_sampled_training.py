from depgen.data.sampled_training import SampledTraining

from depgen.data.corpus import Corpus
from depgen.data.generated import GeneratedStories


def test_only_the_training_split_is_the_samples(tmp_path):
    samples = tmp_path / "samples.txt"
    samples.write_text("a b .\n\nc .\n")
    real = GeneratedStories(train=3, valid=2, test=2)
    corpus = SampledTraining(real, str(samples))
    assert isinstance(corpus, Corpus)
    assert [tuple(document.words()) for document in corpus.documents("train")] == [("a", "b", "."), ("c", ".")]
    for split in ("valid", "test"):
        assert list(corpus.documents(split)) == list(real.documents(split))
        assert corpus.fingerprint(split) == real.fingerprint(split)
    before = corpus.fingerprint("train")
    samples.write_text("a b .\n\nd .\n")
    assert corpus.fingerprint("train") not in (before, real.fingerprint("train"))
