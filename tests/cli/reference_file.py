"""Reads reference files (engine/measure/reference.c), for tests that hold PyTorch's values against them.

    reference_file.py FOLDER HASH    of each file of that graph: seed, node, number of elements, the first values

tests/cli/values.sh holds this reader against what `fusebox values` shows, so that it follows a change of the format."""
import glob
import os
import struct
import sys
from array import array

MAGIC = b"fbref07\0"
HEADER = struct.Struct("<8s33s7x3Q3qQ")  # magic, sources, hash twice, seed, tensors, blocks, place of the index, digest
TENSOR = struct.Struct("<3q")            # node, whether it holds integers, elements; its spreads follow
BLOCK = struct.Struct("<4qQ")            # tensor, first element, elements, place of the values, digest


def tensors(path):
    """The seed, and node → array of doubles or 64-bit integers."""
    data = open(path, "rb").read()
    magic, _, _, _, seed, n_tensors, n_blocks, index, _ = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ValueError(f"{path}: {magic} instead of {MAGIC}")
    blocks = len(data) - n_blocks * BLOCK.size
    each, rest = divmod(blocks - index, max(n_tensors, 1))
    if rest or each < TENSOR.size:
        raise ValueError(f"{path}: {blocks - index} bytes of index for {n_tensors} tensors")
    found = []
    for k in range(n_tensors):
        node, is_int, n = TENSOR.unpack_from(data, index + k * each)
        found.append((node, array("q" if is_int else "d", bytes(8 * n))))
    for k in range(n_blocks):
        tensor, first, n, at, _ = BLOCK.unpack_from(data, blocks + k * BLOCK.size)
        values = found[tensor][1]
        values[first:first + n] = array(values.typecode, data[at:at + 8 * n])
    return seed, dict(found)


def all_of(folder, graph_hash):
    return dict(tensors(path) for path in glob.glob(os.path.join(folder, graph_hash + "-*")))


if __name__ == "__main__":
    for seed, of_nodes in all_of(*sys.argv[1:]).items():
        for node, values in of_nodes.items():
            print(seed, node, len(values), *(f"{v:.6g}" for v in values[:4]))
