"""The network of torch-digits.yaml, and one epoch of its training."""

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

# Sums in another order have other bits; one thread adds in the same order every time.
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
BATCH = 64


class Gathered:
    """Gradients that no step has used yet: how many batches, and what stands in ``.grad``."""

    def __init__(self, model):
        self.parameters = list(model.parameters())
        self.batches = 0

    def state_dict(self):
        return {"batches": self.batches, "gradients": [one.grad for one in self.parameters]}

    def load_state_dict(self, state):
        self.batches = state["batches"]
        for one, gradient in zip(self.parameters, state["gradients"], strict=True):
            one.grad = gradient


def network(width, rate, epochs):
    model = torch.nn.Sequential(
        torch.nn.Linear(64, width),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.2),
        torch.nn.Linear(width, 10),
    )
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    return model, average, optimizer, schedule, Gathered(model)


def train(X, y, gather, model, average, optimizer, schedule, gathered, generators):
    """One epoch; every ``gather`` batches, counted on from the last epoch, make one step."""
    model.train()
    rows = TensorDataset(torch.tensor(X), torch.tensor(y))
    total = 0.0
    for inputs, digits in DataLoader(rows, batch_size=BATCH, shuffle=True):
        loss = torch.nn.functional.cross_entropy(model(inputs), digits)
        (loss / gather).backward()
        total += loss.item() * len(digits)
        gathered.batches += 1
        if gathered.batches == gather:
            optimizer.step()
            optimizer.zero_grad()
            average.update_parameters(model)
            gathered.batches = 0
    schedule.step()
    return total / len(rows)


def scores(model, X):
    model.eval()
    with torch.no_grad():
        return model(torch.tensor(X)).numpy()
