"""PyTorch: the network of its MNIST example, with a loader, a gradient scaler and a schedule."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

EPOCHS = 5
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


OBJECTS = ("model", "optimizer", "schedule", "scaler", "shuffled")


def make(generators=None):
    torch.manual_seed(1)
    network = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(128, 10),
    ).to(memory_format=torch.channels_last)  # fmt: skip
    model = torch.compile(network, backend="eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
        ],
        [2],
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=7)
    return model, optimizer, schedule, scaler, torch.Generator().manual_seed(2)


def epoch(model, optimizer, schedule, scaler, shuffled, generators=None):
    x, y = load_digits(return_X_y=True)
    rows = torch.tensor(x[:320] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    data = torch.utils.data.TensorDataset(rows, torch.tensor(y[:320]))
    loader = torch.utils.data.DataLoader(
        data, batch_size=64, shuffle=True, num_workers=2, generator=shuffled
    )
    for images, labels in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            scores = model(images.to(memory_format=torch.channels_last))
        loss = nn.functional.cross_entropy(scores.float(), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    schedule.step()


def result(model, optimizer, schedule, scaler, shuffled):
    arrays = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    arrays["rate"] = np.array(schedule.get_last_lr())
    arrays["scale"] = np.array(scaler.get_scale())
    arrays["moments"] = np.concatenate(
        [
            moments["exp_avg_sq"].numpy().ravel()
            for moments in optimizer.state_dict()["state"].values()
        ]
    )
    return arrays
