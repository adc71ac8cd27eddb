"""What worker processes import, for the import server that they are forked from; imported there and nowhere else.

These imports take longer than loading the bundled models, so they happen once and not once per worker.
"""

import gc

from attribeam.pipeline.worker_process import end_with_parent, silence_libraries

end_with_parent()
silence_libraries()
gc.disable()  # nothing that is imported is garbage; a worker that has loaded its models enables it

import spacy  # noqa: E402, F401

import attribeam.pipeline.worker_pool  # noqa: E402, F401

gc.freeze()  # a collection would touch, and so copy, what all workers share
