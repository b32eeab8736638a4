"""UDGN by scalar loops, written from the paper (Shen et al. 2022) and facts about its code; one sentence at a time.

Everything is a Python loop over numbers of a float64 tensor, so that autograd gives the gradients of the very loops.
"""

import torch


def softmax_by_loop(numbers):
    """exp(x_k) / sum_k exp(x_k) of a list of numbers, the largest subtracted from all."""
    largest = max(float(number.detach()) for number in numbers)
    powers = [torch.exp(number - largest) for number in numbers]
    total = sum(powers)
    return [power / total for power in powers]


def linear_by_loop(vector, weight, bias):
    """W x + b of one vector, a list of numbers."""
    rows = []
    for row in range(weight.shape[0]):
        total = bias[row] if bias is not None else torch.zeros((), dtype=weight.dtype)
        for column in range(weight.shape[1]):
            total = total + weight[row, column] * vector[column]
        rows.append(total)
    return rows


def lstm_by_loop(vectors, w_ih, w_hh, b_ih, b_hh):
    """States h_1..h_T of one direction of one layer, gates in the order input, forget, cell, output."""
    size = w_hh.shape[1]
    hidden = [torch.zeros((), dtype=w_hh.dtype)] * size
    cell = list(hidden)
    states = []
    for vector in vectors:
        seen = linear_by_loop(vector, w_ih, b_ih)
        kept = linear_by_loop(hidden, w_hh, b_hh)
        gates = [a + b for a, b in zip(seen, kept, strict=True)]
        for unit in range(size):
            let_in, forget = torch.sigmoid(gates[unit]), torch.sigmoid(gates[size + unit])
            cell[unit] = forget * cell[unit] + let_in * torch.tanh(gates[2 * size + unit])
        hidden = [torch.sigmoid(gates[3 * size + unit]) * torch.tanh(cell[unit]) for unit in range(size)]
        states.append(hidden)
    return states


def bilstm_by_loop(vectors, lstm):
    """Eq. 1: the states of a torch.nn.LSTM's weights, forward and backward side by side, layer over layer."""
    for layer in range(lstm.num_layers):
        both = []
        for suffix in ("", "_reverse"):
            names = [f"{kind}_l{layer}{suffix}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            order = vectors if suffix == "" else vectors[::-1]
            states = lstm_by_loop(order, *(getattr(lstm, name) for name in names))
            both.append(states if suffix == "" else states[::-1])
        vectors = [forward + backward for forward, backward in zip(*both, strict=True)]
    return vectors


def tagged_by_loop(word, word_vector, tag_logits, tag_vectors):
    """Embedding of a word with its soft tag: 1 + n weights a word, the first of the zero tag (App. A.1)."""
    weights = softmax_by_loop(list(tag_logits[word]))
    tagged = []
    for dimension in range(len(word_vector)):
        total = word_vector[dimension]
        for tag in range(1, len(weights)):
            total = total + weights[tag] * tag_vectors[tag - 1, dimension]
        tagged.append(total)
    return tagged


def head_scores_by_loop(hidden, w_head, b_head, w_dependent, b_dependent):
    """Eq. 2-4: e[dependent][head]."""
    heads = [linear_by_loop(h, w_head, b_head) for h in hidden]
    dependents = [linear_by_loop(h, w_dependent, b_dependent) for h in hidden]
    size = len(heads[0])
    return [
        [sum(dependents[i][k] * heads[j][k] for k in range(size)) / size**0.5 for j in range(len(hidden))]
        for i in range(len(hidden))
    ]


def head_probabilities_by_loop(scores):
    """Eq. 5 over all words, itself included; a word's share on itself is dropped, and nothing made up for it."""
    rows = []
    for i, row in enumerate(scores):
        shares = softmax_by_loop(row)
        rows.append([torch.zeros_like(share) if i == j else share for j, share in enumerate(shares)])
    return rows


def undirected_by_loop(p):
    """Eq. 6."""
    n = len(p)
    return [[p[i][j] + p[j][i] - p[i][j] * p[j][i] for j in range(n)] for i in range(n)]


def controller_by_loop(q, k, bias, *, competition=True):
    """Eq. 9, 10, 12, 13: a-hat[i][j][head] of q[i][head], k[j][head] and bias[side][head], side 0 of j before i."""
    words, heads, size = len(q), len(q[0]), len(q[0][0])
    shares = []
    for i in range(words):
        shares.append([])
        for j in range(words):
            scores = []
            for head in range(heads):
                product = sum(q[i][head][c] * k[j][head][c] for c in range(size))
                added = 0.0 if bias is None or i == j else bias[0 if j < i else 1, head]
                scores.append((product + added) / size**0.5)  # the bias as well, as in the authors' code
            shares[i].append(softmax_by_loop(scores) if competition else [torch.sigmoid(score) for score in scores])
    return shares


def competitive_layer_by_loop(hidden, mask, weights, *, heads, competition=True, gates=True, nonlinear=True, bias=None):
    """Eq. 7-15 of one layer: the next hidden states, as lists of numbers.

    `weights` are (w_q, b_q), (w_k, b_k), (w_v, b_v), (w_g, b_g), (w_o, b_o).
    """
    split = []
    for weight, offset in weights[:4]:
        size = weight.shape[0] // heads
        flat = [linear_by_loop(h, weight, offset) for h in hidden]
        split.append([[row[head * size : (head + 1) * size] for head in range(heads)] for row in flat])
    q, k, v, g = split
    shares = controller_by_loop(q, k, bias, competition=competition)
    outcome = []
    for i in range(len(hidden)):
        joined = []
        for head in range(heads):
            for c in range(size):
                total = torch.zeros((), dtype=torch.float64)
                for j in range(len(hidden)):
                    value = torch.tanh(v[j][head][c]) if nonlinear else v[j][head][c]
                    passed = value * torch.sigmoid(g[i][head][c]) if gates else value
                    total = total + shares[i][j][head] * mask[i][j] * passed
                joined.append(total)
        update = linear_by_loop(joined, *weights[4])
        outcome.append([old + new for old, new in zip(hidden[i], update, strict=True)])
    return outcome


def layer_norm_by_loop(vector, weight, bias, eps=1e-5):
    mean = sum(vector) / len(vector)
    variance = sum((x - mean) ** 2 for x in vector) / len(vector)
    return [(x - mean) / torch.sqrt(variance + eps) * w + b for x, w, b in zip(vector, weight, bias, strict=True)]


def masked_loss_by_loop(logits, originals, masked):
    """Mean of -log softmax at the masked words of all sentences; logits[sentence][word] is a list of numbers."""
    losses = []
    for sentence, words in enumerate(originals):
        for position, word in enumerate(words):
            if masked[sentence][position]:
                losses.append(-torch.log(softmax_by_loop(logits[sentence][position])[word]))
    return sum(losses) / len(losses)
