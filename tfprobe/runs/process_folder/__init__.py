"""The files of one process of a run: steps.bin, and files of lines that grow."""
