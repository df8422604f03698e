"""llama.cpp's HTTP server, which tests run in an environment with xllamacpp.

python llama_server.py WEIGHTS.gguf NAME PORT CONTEXT SLOTS

The server samples SLOTS completions in parallel, each with a context of CONTEXT tokens.
"""

import signal
import sys

import xllamacpp

weights, name, port, context, slots = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path, params.model_alias = weights, {name}
params.port, params.n_parallel, params.n_ctx = int(port), int(slots), int(context) * int(slots)
params.n_gpu_layers, params.cpuparams.n_threads, params.warmup = 0, 1, False
server = xllamacpp.Server(params)  # the server stops when this object is deleted
signal.pause()
