// Turns matrices: line c of a result is column c of its source, with zeros behind it up to `padded` elements. For
// convolutions whose library reads channels last: pictures and weights that lie channel by channel, and back.
//
// A block has a square, which goes through shared memory, so that both sides are read and written in runs of 128 bytes and
// more. Bit 0 of `evenly`: the source's lines begin at multiples of 16 bytes; bit 1: the result's.

template <class T, int N> struct __align__(sizeof(T) * N) fb_few {
    T at[N];
};

template <class T>
__device__ static inline void fb_turn(const T *from, T *to, int matrices, int rows, int columns, int padded, long long from_step, int evenly)
{
    constexpr int SIDE = 64, FEW = 16 / sizeof(T), LINE = SIDE + 4 / sizeof(T), RUNS = SIDE / FEW;
    using few = fb_few<T, FEW>;
    __shared__ T tile[SIDE * LINE];
    const int across = (columns + SIDE - 1) / SIDE, down = (padded + SIDE - 1) / SIDE;
    const int c0 = blockIdx.x % across * SIDE, r0 = blockIdx.x / across % down * SIDE;
    const long long matrix = blockIdx.x / across / down;
    if (matrix >= matrices) return;
    from += matrix * from_step;
    to += matrix * columns * padded;
    for (int i = threadIdx.x; i < SIDE * RUNS; i += blockDim.x) {
        const int r = r0 + i / RUNS, c = c0 + i % RUNS * FEW;
        few x = {};
        if (r < rows && (evenly & 1) && c + FEW <= columns)
            x = *reinterpret_cast<const few *>(from + (long long)r * columns + c);
        else
            for (int v = 0; v < FEW; v++)
                if (r < rows && c + v < columns) x.at[v] = from[(long long)r * columns + c + v];
#pragma unroll
        for (int v = 0; v < FEW; v++) tile[(r - r0) * LINE + c - c0 + v] = x.at[v];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SIDE * RUNS; i += blockDim.x) {
        const int c = c0 + i / RUNS, r = r0 + i % RUNS * FEW;
        few x;
#pragma unroll
        for (int v = 0; v < FEW; v++) x.at[v] = tile[(r - r0 + v) * LINE + c - c0];
        if (c < columns && (evenly & 2) && r + FEW <= padded)
            *reinterpret_cast<few *>(to + (long long)c * padded + r) = x;
        else
            for (int v = 0; v < FEW; v++)
                if (c < columns && r + v < padded) to[(long long)c * padded + r + v] = x.at[v];
    }
}

extern "C" __global__ void __launch_bounds__(256)
fb_turn_2(const unsigned short *from, unsigned short *to, long long matrices, long long rows, long long columns, long long padded,
          long long from_step, long long evenly)
{
    fb_turn(from, to, (int)matrices, (int)rows, (int)columns, (int)padded, from_step, (int)evenly);
}

extern "C" __global__ void __launch_bounds__(256)
fb_turn_4(const unsigned *from, unsigned *to, long long matrices, long long rows, long long columns, long long padded,
          long long from_step, long long evenly)
{
    fb_turn(from, to, (int)matrices, (int)rows, (int)columns, (int)padded, from_step, (int)evenly);
}
