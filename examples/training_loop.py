"""
Record a training loop: forgetting and margins
==============================================

Some methods judge a row by what happens to it while a model learns. :class:`gmmatch.Dynamics` records it in your own
PyTorch loop, in three lines. Here a fifth of the labels are wrong. The *area under the margin* shows which: how far
the score of the given label is above the best other one, on average over the epochs.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

import gmmatch as gm

X, y = load_digits(return_X_y=True)
random = np.random.default_rng(0)
wrong = random.permutation(len(y)) < len(y) / 5
noisy = np.where(wrong, (y + random.integers(1, 10, len(y))) % 10, y)
inputs, labels = torch.tensor(X / 16, dtype=torch.float32), torch.tensor(noisy)

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

recorder = gm.Dynamics(len(inputs))  # one
for _ in range(10):
    for rows in torch.randperm(len(inputs)).split(64):
        logits = model(inputs[rows])
        recorder.update(rows, logits, labels[rows])  # two
        loss = torch.nn.functional.cross_entropy(logits, labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    recorder.end_epoch()  # three

# %%
# ``by-score`` keeps rows by any scores. The rows that the model forgets most often include many wrong labels: they
# look difficult. The rows with the largest margin do not.
margin = recorder.area_under_margin()
events = recorder.forgetting()
forgotten = gm.select(X, noisy, k="30%", method="by-score", scores=events, keep="highest")
clear = gm.select(X, noisy, k="30%", method="by-score", scores=margin, keep="highest")
print(f"wrong labels in the data:              {wrong.mean():6.1%}")
print(f"among the rows most often forgotten:   {gm.metrics.contamination(forgotten, wrong):6.1%}")
print(f"among the rows of largest margin:      {gm.metrics.contamination(clear, wrong):6.1%}")

# %%
figure, axis = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
axis.hist([margin[~wrong], margin[wrong]], bins=40, stacked=True, label=["right label", "wrong label"])
axis.set(xlabel="area under the margin", ylabel="rows")
axis.legend()
plt.show()
