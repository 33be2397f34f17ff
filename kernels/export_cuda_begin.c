#include <cuda.h>
#if HAS_PRODUCTS
#include <cublasLt.h>
#endif

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *entry; /* NULL: a library's */
    const unsigned char *cubin, *ptx;
    int grid[3], block[3], shared;
    bool together; /* all of its blocks are there at once */
    int row;       /* so many of them, side by side, wait for each other; 0: none does */
    bool wide;     /* its clusters are of more blocks than every GPU has room for */
} kernel;

#if HAS_PRODUCTS
/* C = scale · A B + addend_scale · addend + bias, then relu; strides in elements, offsets in bytes. */
typedef struct {
    int64_t row, col, batch, offset;
} operand;
typedef struct {
    cudaDataType_t type;
    cublasComputeType_t compute;
    int64_t size, m, n, k, batch;
    operand a, b, c, addend;
    bool has_addend, has_bias, relu;
    int64_t bias_offset;
    double scale, addend_scale;
    uint32_t aligned[3];
} product;
enum { LIBRARY_BYTES = 32 << 20 };
#endif
