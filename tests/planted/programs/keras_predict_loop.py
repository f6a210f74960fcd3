"""A Keras model predicts a table row by row."""

import numpy as np

from models import arrays, compiled
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
features = arrays(4096, 128)[0]
table = np.tile(features, (32, 1))
model = compiled(128, 256)

while watch.running():
    if options.mended:
        model.predict(table, batch_size=1024, verbose=0)
        watch.unit(len(table))
        continue
    for row in features[:20]:
        begun = now()
        model.predict(row[None], verbose=0)  # planted
        watch.took(begun)
    watch.unit(20)
watch.finish()
