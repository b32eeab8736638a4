"""Slow and obvious versions of what GiLT computes (Huang et al. 2026), one word, pair or number at a time.

Words of a sentence are 1 to M, 0 is the root, an arc is `(head, dependent)`. A tape is `tape[feature][t, word]` after t
words, features in the order degree, depth, distance. Everything is float64; no batch, no padding.

Weights are a dict of tensors, a linear's weight [out, in] as torch has it, so that a test fills it by
`linear.weight.double()`. Wherever a bias is left out, there is none.

    scorer (`arc_logits`, `count_logits`), side = parent, child; d = width of a word's final representation
        root                                        [3d], the word vector of the root
        degree, depth, distance                     [codes, size], a table a feature; the features given are those used
        {side}.norm1, {side}.norm1.bias             [3d], gain and bias of MLP1's LayerNorm
        {side}.mlp1.in, {side}.mlp1.in.bias         [3d, 3d]; then ReLU
        {side}.mlp1.out, {side}.mlp1.out.bias       [2d, 3d]
        {side}.position                             [2d, position size], Lin_pos
        {side}.tape                                 [2d, features * size], Lin_tape over the features side by side
        {side}.norm2, {side}.norm2.bias             [2d]
        {side}.mlp2.in, {side}.mlp2.in.bias         [2d, 2d]; then ReLU
        {side}.mlp2.out, {side}.mlp2.out.bias       [d, 2d]
        arc                                         the diagonal of B, of arcs: [d]
        pair                                        the diagonal of B_s, of counts: [d]
        count, count.bias                           [C + 1, d], the classes of counts
    one attention layer (`attention`), width = heads * size
        query, key, value, output, and .bias of each    [width, width], rows = heads * size
        relative                                    [width, width], W_r on sinusoids, no bias
        content_bias, position_bias                 [heads, size], u and v
        degree, depth, distance                     [codes, feature size]
        degree.to_key, ..., and .bias of each       [width, feature size], A_f and b_f of this layer
"""

import math

import networkx
import torch

FEATURES = ("degree", "depth", "distance")
LARGEST = 150


# -- tapes (Sec. 3.3) -------------------------------------------------------------------------------------------------


def arcs_of_prefix(arcs, words):
    """The arcs with both ends among the first words."""
    return {(head, dependent) for head, dependent in arcs if head <= words and dependent <= words}


def weighted_graph(arcs, words, weights):
    """The directed graph of steps: along an arc weights[1], against it weights[0]; of two steps the cheaper."""
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(words + 1))
    for head, dependent in arcs:
        for start, end, weight in ((head, dependent, weights[1]), (dependent, head, weights[0])):
            if weight < graph.get_edge_data(start, end, {"weight": math.inf})["weight"]:
                graph.add_edge(start, end, weight=weight)
    return graph


def degree_row(arcs, words, weights=(1, 10)):
    """Degrees of the root and each word: weights[0] an incoming, weights[1] an outgoing arc."""
    ends = [[(head == word, dependent == word) for head, dependent in arcs] for word in range(words + 1)]
    return [sum(weights[1] * out + weights[0] * into for out, into in of_word) for of_word in ends]


def depth_row(arcs, words):
    """1 + the steps from the root, in any direction; 0 where no path leads."""
    steps = networkx.single_source_shortest_path_length(weighted_graph(arcs, words, (1, 1)), 0)
    return [1 + steps[word] if word in steps else 0 for word in range(words + 1)]


def distance_row(arcs, words, weights=(1, 10)):
    """The cheapest path from the last word to the root and each word; 0 where no path leads."""
    costs = networkx.single_source_dijkstra_path_length(weighted_graph(arcs, words, weights), words)
    return [min(costs.get(word, 0), LARGEST) for word in range(words + 1)]


def tapes(arcs, words, *, degree_weights=(1, 10), distance_weights=(1, 10)):
    """The tape [3, M + 1, M + 1] of every prefix, row t after t words; 0 at words still to come."""
    found = torch.zeros(3, words + 1, words + 1, dtype=torch.long)
    for t in range(words + 1):
        known = arcs_of_prefix(arcs, t)
        degrees, depths = degree_row(known, t, degree_weights), depth_row(known, t)
        distances = distance_row(known, t, distance_weights)
        for word in range(t + 1):
            found[0, t, word] = min(degrees[word], LARGEST)
            found[1, t, word] = min(depths[word], LARGEST)
            found[2, t, word] = distances[word]
    return found


def counts_of(arcs, words):
    """The number of arcs of each word to or from earlier words or the root; a self-loop is none."""
    return [sum(head != dependent and max(head, dependent) == word for head, dependent in arcs)
            for word in range(1, words + 1)]  # fmt: skip


# -- word vectors and arc scores (Sec. 3.1) ---------------------------------------------------------------------------


def word_vectors(layers, embeddings, first_tokens):
    """o_w [M, 3d]: two layers' states at the token before word w's first token, and that token's embedding.

    Args:
        layers: states [tokens, d]; `layers[0]` are the embeddings, `layers[l]` is what layer l returns.
        embeddings: raw embeddings of the tokens [tokens, d]; token 0 is the beginning of the sentence.
        first_tokens: the place of each word's first token, at least 1.
    """
    last = len(layers) - 1
    middle = last // 2 + 1  # as the authors' code; L / 2 in the paper
    return torch.stack(
        [torch.cat((layers[middle][k - 1], layers[last - 1][k - 1], embeddings[k])) for k in first_tokens]
    ).double()


def sinusoid(distance, size):
    """[sin | cos] of distance / 10000^(2i / size)."""
    angles = [distance / 10000 ** (2 * i / size) for i in range(size // 2)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)


def affine(weights, name, vector):
    """W x + b of the linear `name`."""
    product = weights[name] @ vector
    return product + weights[f"{name}.bias"] if f"{name}.bias" in weights else product


def layer_norm(weights, name, vector, epsilon=1e-5):
    """LayerNorm of one vector."""
    centred = vector - vector.mean()
    normal = centred / ((centred**2).mean() + epsilon).sqrt() * weights[name]
    return normal + weights[f"{name}.bias"] if f"{name}.bias" in weights else normal


def mlp(weights, side, number, vector):
    """MLP1 or MLP2 of a side: LayerNorm, linear, ReLU, linear."""
    inner = affine(weights, f"{side}.mlp{number}.in", layer_norm(weights, f"{side}.norm{number}", vector))
    return affine(weights, f"{side}.mlp{number}.out", torch.clamp(inner, min=0.0))


def position_term(weights, side, distance, codes):
    """pe_ij = Lin_pos(sinusoid(|i - j|)) + Lin_tape(embeddings of the codes of degree, depth and distance)."""
    term = weights[f"{side}.position"] @ sinusoid(distance, weights[f"{side}.position"].shape[1])
    used = [weights[name][int(codes[k])] for k, name in enumerate(FEATURES) if name in weights]
    return term + weights[f"{side}.tape"] @ torch.cat(used) if used else term


def representation(weights, side, vectors, tape, *, current, word):
    """õ of `word` (0 = root) on a side (Eq. 2), while the arcs of `current` are scored."""
    vector = weights["root"] if word == 0 else vectors[word - 1]
    codes = (0, 0, 0) if word == current else tape[:, current - 1, word]
    return mlp(weights, side, 2, mlp(weights, side, 1, vector) + position_term(weights, side, current - word, codes))


def scorer_weights(scorer):
    """The scorer's weights by the names above."""
    found = {"root": scorer.root[0], "arc": scorer.arc, "pair": scorer.sum}
    found |= {"count": scorer.count.weight, "count.bias": scorer.count.bias}
    names = [FEATURES[row] for row in scorer.feature_rows]
    found |= {name: each.weight for name, each in zip(names, scorer.embeddings, strict=True)}
    for side, part in (("parent", scorer.parent), ("child", scorer.child)):
        layers = {"norm1": part.of_word[0], "mlp1.in": part.of_word[1], "mlp1.out": part.of_word[3]}
        layers |= {"norm2": part.norm, "mlp2.in": part.hidden, "mlp2.out": part.output}
        for name, layer in layers.items():
            found |= {f"{side}.{name}": layer.weight, f"{side}.{name}.bias": layer.bias}
        found[f"{side}.position"] = part.position.weight
        if part.features is not None:
            found[f"{side}.tape"] = part.features.weight
    return found


def arc_scores(weights, vectors, tape, word):
    """{(head, dependent): logit} of `word` with the root, all earlier words and itself (the self-loop)."""
    pairs = [(j, word) for j in range(word + 1)] + [(word, j) for j in range(1, word)]
    found = {}
    for head, dependent in pairs:
        parent = representation(weights, "parent", vectors, tape, current=word, word=head)
        child = representation(weights, "child", vectors, tape, current=word, word=dependent)
        found[head, dependent] = (parent * weights["arc"] * child).sum()
    return found


def arc_logits(weights, vectors, tape, word):
    """`arc_scores` as numbers."""
    return {arc: float(score) for arc, score in arc_scores(weights, vectors, tape, word).items()}


# -- counts (Sec. 3.2) ------------------------------------------------------------------------------------------------


def count_scores(weights, vectors, tape, word):
    """Logits of 0 ... C arcs of `word` (Eq. 3, over sqrt(2i)); -inf for more than the 2i - 1 that there can be."""
    pairs = [(j, word) for j in range(word)] + [(word, j) for j in range(1, word + 1)]
    total = torch.zeros(weights["count"].shape[1], dtype=torch.float64)
    for head, dependent in pairs:
        parent = representation(weights, "parent", vectors, tape, current=word, word=head)
        child = representation(weights, "child", vectors, tape, current=word, word=dependent)
        total = total + parent * weights["pair"] * child
    logits = affine(weights, "count", total / math.sqrt(2 * word))
    return logits.masked_fill(torch.arange(len(logits)) > 2 * word - 1, -math.inf)


def count_logits(weights, vectors, tape, word):
    """`count_scores` as numbers."""
    return count_scores(weights, vectors, tape, word).tolist()


def log_softmax(logits):
    """Log-probabilities of a list of logits, some of which may be -inf."""
    return [logit - log_sum_exp(logits) for logit in logits]


def log_sum_exp(numbers):
    """log of the sum of exponentials of a list."""
    largest = max(numbers, default=-math.inf)
    if largest == -math.inf:
        return -math.inf
    return largest + math.log(math.fsum(math.exp(number - largest) for number in numbers))


def best_arcs(logits, count):
    """The `count` likeliest of a word's arcs, the self-loop left out."""
    candidates = [arc for arc in logits if arc[0] != arc[1]]
    return set(sorted(candidates, key=lambda arc: -logits[arc])[:count])


# -- attention (Sec. 3.4) ---------------------------------------------------------------------------------------------


def attention_scores(weights, hidden, codes):
    """Scaled scores [heads, query, key] of a layer; -inf at later keys.

    Args:
        weights: see above.
        hidden: states that the layer reads, [tokens, width].
        codes: of each token's row and column, [3, tokens, tokens]; None: no tape.
    """
    heads, size = weights["content_bias"].shape
    width, tokens = heads * size, len(hidden)
    found = torch.full((heads, tokens, tokens), -math.inf, dtype=torch.float64)
    for k in range(tokens):
        query = affine(weights, "query", hidden[k]).view(heads, size)
        content, position = query + weights["content_bias"], query + weights["position_bias"]
        for j in range(k + 1):
            key = affine(weights, "key", hidden[j]).view(heads, size)
            relative = (weights["relative"] @ sinusoid(k - j, width)).view(heads, size)
            feature = torch.zeros(width, dtype=torch.float64)
            for f, name in enumerate(FEATURES):
                if codes is not None and name in weights:
                    feature = feature + affine(weights, f"{name}.to_key", weights[name][int(codes[f, k, j])])
            tape = (weights["key"] @ feature).view(heads, size)
            for h in range(heads):
                score = content[h] @ key[h] + position[h] @ relative[h] + content[h] @ tape[h]
                found[h, k, j] = score / math.sqrt(size)
    return found


def attention(weights, hidden, codes=None):
    """What a layer's attention returns for each token, [tokens, width], before the residual sum."""
    scores = attention_scores(weights, hidden, codes)
    heads, size = weights["content_bias"].shape
    rows = []
    for k in range(len(hidden)):
        mixed = torch.zeros(heads, size, dtype=torch.float64)
        for h in range(heads):
            shares = [math.exp(log_prob) for log_prob in log_softmax(scores[h, k, : k + 1].tolist())]
            for j, share in enumerate(shares):
                mixed[h] += share * affine(weights, "value", hidden[j]).view(heads, size)[h]
        rows.append(affine(weights, "output", mixed.flatten()))
    return torch.stack(rows)


def token_codes(tape, word_of_token):
    """Codes [3, tokens, tokens] of tokens from the tape of words: token k's row is its word's, with its own arcs.

    `word_of_token`: 0 for the beginning of the sentence, whose row and column are 0, so that no token sees the root.
    """
    tokens = len(word_of_token)
    found = torch.zeros(3, tokens, tokens, dtype=torch.long)
    for k, row in enumerate(word_of_token):
        for j, column in enumerate(word_of_token[: k + 1]):
            if row and column:
                found[:, k, j] = tape[:, row, column]
    return found


# -- joint loss (Eq. 6) -----------------------------------------------------------------------------------------------


def arc_loss(arcs, logits):
    """Binary cross-entropies summed over heads 0 ... M and dependents 1 ... M.

    `logits`: {(head, dependent): logit} of all pairs, those of all words in one dict.
    """
    words = max(dependent for _, dependent in logits)
    total = 0.0
    for head in range(words + 1):
        for dependent in range(1, words + 1):
            probability = 1 / (1 + math.exp(-logits[head, dependent]))
            total -= math.log(probability if (head, dependent) in arcs else 1 - probability)
    return total


def loss_weights(alpha=1.0, beta=0.2, gamma=0.2):
    """The weights of the three sums in the authors' code: 5/3, 2/3 and 2/3 by default, in which LM : rest = 1 : 0.4."""
    s = (beta + gamma) / 2
    return 2 * alpha / (alpha + s), 4 * beta / (1 + s), 4 * gamma / (1 + s)


def joint_loss(token_log_probs, arcs, logits, count_log_probs, *, weights):
    """The loss of one sentence, sums as in the authors' code.

    Args:
        token_log_probs: of each target, the end of the sentence included.
        arcs: that are annotated.
        logits: see `arc_loss`.
        count_log_probs: a list of log-probabilities of 0 ... C for each word.
        weights: of tokens, arcs and counts.
    """
    counts = counts_of(arcs, len(count_log_probs))
    count_sum = -math.fsum(row[count] for row, count in zip(count_log_probs, counts, strict=True))
    return -weights[0] * math.fsum(token_log_probs) + weights[1] * arc_loss(arcs, logits) + weights[2] * count_sum
