"""Run a small workload in a forked child for each fault of the agent; compare what it printed.

Prints the workload's own lines, then, under a faulty agent, one line for each fault that made a
difference. PyTorch is given one thread, so that children can compute.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import copy
import pickle
import sys
import threading

import keras
import numpy as np
import torch
import torch._dynamo
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, TensorDataset

sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "support"))
import forked_faults

torch.set_num_threads(1)


def workload():
    torch.manual_seed(0)
    by_hand()
    trained()
    scaled()
    evaluated()
    profiled()
    in_thread()
    by_keras()
    compiled()


def network():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))


def update(model, optimizer, x, y):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()


def total(model):
    return float(sum(parameter.detach().sum() for parameter in model.parameters()))


class Derived(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)


def by_hand():
    weight = torch.ones(8, requires_grad=True)
    for _ in range(8):
        loss = torch.exp(weight).sum()
        loss.backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
    for _ in range(8):
        weight = weight.detach() - 0.1 * torch.func.grad(lambda x: x.sin().sum())(weight)
    print("by hand", float(weight.detach().sum()))


def trained():
    data = TensorDataset(torch.randn(24, 8), torch.randn(24, 1))
    model = network()
    first, second = Derived(model.parameters(), 0.1), torch.optim.SGD(model.parameters(), 0.1)
    for number, (x, y) in enumerate(DataLoader(data, batch_size=4)):
        with record_function("update"):
            update(model, first if number % 2 else second, x, y)
        if number == 3:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
    print("trained", total(model))


def scaled():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for number in range(4):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8)).square().mean()
        scaler.scale(loss if number % 2 else loss * float("inf")).backward()
        scaler.step(optimizer)
        scaler.update()
    print("scaled", total(model))


def evaluated():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(4):
        model.train()
        update(model, optimizer, torch.ones(4, 8), torch.ones(4, 1))
        model.eval()
        with torch.no_grad():
            values = [float(model(torch.ones(2, 8)).sum()) for _ in range(7)]
    print("evaluated", values[-1], float(copy.deepcopy(model)(torch.ones(1, 8)).detach()))
    parts = copy.deepcopy(vars(model)), pickle.loads(pickle.dumps(vars(model)))
    print("copied", [part.get("_compiled_call_impl") for part in parts])
    print("replica", type(model._replicate_for_data_parallel()).__name__)
    try:
        model(torch.ones(2, 3))
    except RuntimeError:
        print("failing")


def profiled():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for number in range(5):
        if number == 2:
            with profile(activities=[ProfilerActivity.CPU]) as session:
                update(model, optimizer, torch.ones(4, 8), torch.ones(4, 1))
        else:
            update(model, optimizer, torch.ones(4, 8), torch.ones(4, 1))
    print("own trace", sum(event.name == "aten::addmm" for event in session.events()))


def in_thread():
    model = network()

    def run():
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            update(model, optimizer, torch.ones(4, 8), torch.ones(4, 1))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    print("in a thread", total(model))


def by_keras():
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile("sgd", "mse")
    inputs, labels = np.ones((6, 4), np.float32), np.zeros((6, 1), np.float32)
    history = model.fit(inputs, labels, batch_size=2, verbose=0, shuffle=False)
    print("fit", history.history["loss"])
    print("on batch", float(np.ravel(model.train_on_batch(inputs, labels))[0]))


def compiled():
    @torch.compile(backend="eager")
    def doubled(x):
        return x * 2

    with torch.no_grad():
        print("compiled", [float(doubled(torch.ones(2)).sum()) for _ in range(7)])
    model = torch.compile(network().eval(), backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        update(model, optimizer, torch.ones(4, 8), torch.ones(4, 1))
    print("compiled model", total(model))


if __name__ == "__main__":
    # What is no framework's fails in Sessions of TensorFlow.
    forked_faults.run(workload, prefix="frameworks.")
