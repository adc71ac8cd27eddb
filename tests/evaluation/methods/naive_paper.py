"""The paper's methods written down one loop after the other, without any of our code for them."""

import math

import numpy as np

Matrix = np.ndarray


def cosine(one, other):
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / lengths) if lengths else 0.0


def hidden_similarity(states, prompt_length):
    """S of Section 3.4: cosines of each response token's own state with the prompt's."""
    return np.array([[cosine(r, p) for p in states[:prompt_length]] for r in states[prompt_length:]])


def top_k(row, k):
    return sorted(range(len(row)), key=lambda j: (-row[j], j))[:k]


def document_columns(encoded):
    """range(d) of Algorithm 1: prompt tokens that show something of a passage."""
    seen = zip(encoded.column_passage, encoded.column_char_start, encoded.column_char_end, strict=True)
    return {j for j, (passage, start, end) in enumerate(seen) if passage >= 0 and start < end}


def algorithm_1(S, target, document, *, k, tau):  # noqa: N803
    """The basic algorithm; a token that is in ``target`` twice counts twice. Unfiltered where nothing would be left."""
    w = {}
    for i in target:
        for j in top_k(S[i], k):
            if j in document and S[i][j] > 0:
                w[j] = w.get(j, 0.0) + S[i][j]
    if math.isinf(tau):
        return w
    near = [step for step in range(-int(tau), int(tau) + 1) if step]
    return {j: score for j, score in w.items() if any(j + step in w for step in near)} or w


def summed(w, encoded, passages):
    return [sum(score for j, score in w.items() if encoded.column_passage[j] == p) for p in range(passages)]


def top5_mean(w, encoded, passages):
    document = document_columns(encoded)
    means = []
    for p in range(passages):
        scores = sorted((w.get(j, 0.0) for j in document if encoded.column_passage[j] == p), reverse=True)[:5]
        means.append(sum(scores) / len(scores) if scores else 0.0)
    return means


def hss_avg(states, target, encoded, passages, *, window):
    """The best window's cosine of every passage, 0 where it is negative."""
    span = np.mean([states[encoded.prompt_length + i] for i in target], axis=0)
    best = []
    for p in range(passages):
        tokens = [states[j] for j in range(encoded.prompt_length) if encoded.column_passage[j] == p]
        width = min(window, len(tokens))
        windows = [
            np.mean(tokens[start : start + width], axis=0) for start in range(len(tokens) - width + 1 if tokens else 0)
        ]
        best.append(max([0.0, *(cosine(span, one) for one in windows)]))
    return best


def augmented(target, elements):
    """Step 2 of Section 3.3: each r_i of the span counts as all of A(r_i)."""
    return [a for i in target for a in elements(i)]
