"""Settings of fine-tuned systems and of vocabularies in terms of one module each, from those of one file a class."""

from typing import Any

MOVED = {
    "depgen.models.prompted.PromptedModel": "depgen.models.finetuned.PromptedModel",
    "depgen.models.sentence_similarity.SentenceSimilarity": "depgen.models.finetuned.SentenceSimilarity",
    "depgen.data.prompts.Prompts": "depgen.data.tasks.TaskData",
    "depgen.data.sentence_pairs.SentencePairs": "depgen.data.tasks.TaskData",
    "depgen.data.glue.GluePrompts": "depgen.data.tasks.GluePrompts",
    "depgen.data.sts.SimilarityTasks": "depgen.data.tasks.SimilarityTasks",
    "depgen.data.corpus_vocabulary.CorpusVocabulary": "depgen.data.vocabulary.CorpusVocabulary",
    "depgen.data.ready_vocabulary.ReadyVocabulary": "depgen.data.vocabulary.ReadyVocabulary",
}
PER_BATCH = {
    "depgen.data.prompts.Prompts": ("prompts_per_batch", 64),
    "depgen.data.sentence_pairs.SentencePairs": ("pairs_per_batch", 128),
}
"""The former name of `examples_per_batch`, and its former default; the default is 64 now."""


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if not isinstance(values, dict):
        return MOVED.get(values, values) if isinstance(values, str) else values
    new = {name: renamed(value) for name, value in values.items()}
    path = values.get("class_path")
    if path in PER_BATCH:
        name, default = PER_BATCH[path]
        size = new["init_args"].pop(name, default)
        if size != 64:
            new["init_args"]["examples_per_batch"] = size
    return new
