"""Train a tiny BERT with Hugging Face's Trainer: trainer_torch.py --steps N [--profiler].

`--profiler` traces steps 20 to 29 with torch.profiler and a schedule, as one would by hand.
"""

import argparse
import contextlib
import tempfile

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from scheduled import scheduled
from stopwatch import clock, measured

THREADS = 2
TOKENS, BATCH = 64, 8


class StepCallback(TrainerCallback):
    """Ends a step of the profiler's schedule with each step of the trainer."""

    def __init__(self, session):
        self.session = session

    def on_step_end(self, *_args, **_kwargs):
        self.session.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--profiler", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    config = BertConfig(
        vocab_size=256,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=TOKENS,
        num_labels=10,
    )
    data = [
        {
            "input_ids": torch.randint(0, 256, (TOKENS,)),
            "labels": torch.randint(0, 10, ()),
        }
        for _ in range(options.steps * BATCH)
    ]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=options.steps,
            per_device_train_batch_size=BATCH,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
        )
        callbacks = []
        if options.profiler:
            session = stack.enter_context(scheduled(folder))
            callbacks.append(StepCallback(session))
        trainer = Trainer(
            BertForSequenceClassification(config),
            arguments,
            train_dataset=data,
            callbacks=callbacks,
        )
        started = clock()
        result = trainer.train()
        seconds = clock() - started
    measured(loop_s=seconds, step_us=seconds / options.steps * 1e6)
    print("loss %r" % result.training_loss)


if __name__ == "__main__":
    main()
