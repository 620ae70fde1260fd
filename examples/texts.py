"""
Text with garbage in it
=======================

An encoder turns texts into vectors. A sentence encoder is the usual choice (``gmmatch embed texts.jsonl --encoder
minilm``); any function from a list of texts to an array will do. Here it is TF-IDF, reduced to eight dimensions.
"""

import random

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

import gmmatch as gm

# %%
# 400 sentences on four subjects, and 100 lines of random letters.
shuffle = random.Random(0)
subjects = {
    "kitchen": ("bake", "bread", "butter", "oven", "flour", "salt"),
    "garden": ("plant", "seeds", "soil", "roses", "water", "spade"),
    "harbor": ("ships", "anchor", "sail", "harbor", "tide", "rope"),
    "music": ("violin", "play", "melody", "strings", "choir", "tune"),
}
texts, kinds = [], []
for kind, words in subjects.items():
    for _ in range(100):
        texts.append(f"we {' and '.join(shuffle.sample(words, 3))} today")
        kinds.append(kind)
for _ in range(100):
    texts.append(" ".join("".join(shuffle.choices("qxzvkj", k=5)) for _ in range(6)))
    kinds.append("garbage")

encode = make_pipeline(TfidfVectorizer(), TruncatedSVD(8, random_state=0))
X = encode.fit_transform(texts)

# %%
# No method knows what is garbage. How much of it does each keep?
garbage = np.array([kind == "garbage" for kind in kinds])
print(f"garbage in the data: {garbage.mean():.0%}")
shares = {}
for method in ("random", "easy", "moderate", "hard", "gm-matching"):
    picks = gm.select(X, k=50, method=method, random_state=0)
    shares[method] = gm.metrics.contamination(picks, garbage)
    print(f"{method:12} keeps {shares[method]:4.0%} garbage")

plt.bar(list(shares), [100 * share for share in shares.values()])
plt.ylabel("% garbage")
plt.show()

# %%
# Read some picks before you trust a method.
picks = gm.select(X, k=50, method="gm-matching", random_state=0)
for text in picks.prefix(5).apply(texts):
    print("-", text)
