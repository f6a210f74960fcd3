"""Paths of files, and how a person is shown them: in a terminal and on the pages alike."""

from __future__ import annotations

SHORT_PATHS = (
    ("/home/ada/job/train.py", "job/train.py"),
    ("train.py", "train.py"),
    ("/usr/lib/python3/dist-packages/six.py", "six.py"),
    ("/venv/lib/python3.11/site-packages/keras/losses.py", "keras/losses.py"),
    ("/venv/lib/python3.11/site-packages/keras/src/losses.py", "keras/src/losses.py"),
    ("/x/site-packages/keras/src/backend/tensorflow/trainer.py", "keras/…/tensorflow/trainer.py"),
)
