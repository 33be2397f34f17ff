/* The frameworks that have a worker beside fusebox (scripts/workers/NAME_worker.py). A row is the kind of its device,
 * which is also the name of its Python module: a worker is started by it (`--worker NAME`), and a recording's device
 * NAME:MACHINE is found by it. Another worker needs no row; what it measured cannot be replayed then. */
#ifndef FB_DEVICE_PEERS_H
#define FB_DEVICE_PEERS_H

#define FB_PEERS(ROW)                                                                                                  \
    ROW(torch)                                                                                                         \
    ROW(jax)                                                                                                           \
    ROW(onnxruntime)                                                                                                   \
    ROW(tinygrad)

#endif
