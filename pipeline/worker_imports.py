"""What worker processes import, for the process that they are forked from; it is imported there and nowhere else.

That takes longer than to load the bundled models, and is done once instead of once a worker.
"""

import gc

from attribeam.pipeline.worker_pool import silence_libraries

silence_libraries()
gc.disable()  # nothing that is imported is garbage; a worker that has loaded its models enables it

import spacy  # noqa: E402, F401

import attribeam.pipeline.worker  # noqa: E402, F401

gc.freeze()  # a collection would touch, and so copy, what all workers share
