// Pieces that tiled kernels are made of: copies into shared memory, fragments, tensor cores. kernels/gemm.cuh and
// other kernels that keep tiles on chip stand on these.
//
// A tile in shared memory is a list of lines, each padded by 16 bytes against bank conflicts. A *piece* is 16 bytes of
// one line: what a thread copies at once. Everything that is inline PTX stands between the two marks, so that a test
// can put plain functions in its place.

#ifndef FB_TILE
#define FB_TILE

// Where a piece of an operand is, if it is inside; {}: it is not. That is a flag of its own, not a null pointer: the predicate
// of the copy is then what the indices say, and never waits for an address to be selected and compared, which the
// assembler of CUDA 13.0 schedules too tightly for sm_90: copies from address 0 were seen.
template <class T> struct fb_piece {
    const T *at;
    bool inside;
    __device__ __forceinline__ fb_piece() : at(nullptr), inside(false) {}
    __device__ __forceinline__ fb_piece(const T *p, bool is_inside = true) : at(p), inside(is_inside) {}
};

// The same for a function whose pieces are all inside the operand.
template <class T> struct fb_inside {
    const T *at;
    __device__ __forceinline__ fb_inside(const T *p) : at(p)
    {
    }
};

// The place of one element, likewise.
template <class T> struct fb_word {
    const T *at;
    bool inside;
    __device__ __forceinline__ fb_word() : at(nullptr), inside(false) {}
    __device__ __forceinline__ fb_word(const T *p, bool is_inside = true) : at(p), inside(is_inside) {}
};

template <class T> struct fb_is_word {
    static constexpr bool value = false;
};
template <class T> struct fb_is_word<fb_word<T>> {
    static constexpr bool value = true;
};

// Does it return pieces, or elements?
template <class T> struct fb_is_piece {
    static constexpr bool value = false;
};
template <class T> struct fb_is_piece<fb_piece<T>> {
    static constexpr bool value = true;
};
template <class T> struct fb_is_piece<fb_inside<T>> {
    static constexpr bool value = true;
};

// ---- PTX -----------------------------------------------------------------------------------------------------------

FB_DEVICE unsigned fb_shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

// Copies 16 bytes into shared memory, in the background. GPUs before compute capability 8.0 wait for each.
FB_DEVICE void fb_copy_16(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(fb_shared_address(to)), "l"(from));
#else
    *static_cast<uint4 *>(to) = *static_cast<const uint4 *>(from);
#endif
}

// The same of 4 or 8 bytes.
template <int BYTES> FB_DEVICE void fb_copy_few(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(fb_shared_address(to)), "l"(from), "n"(BYTES));
#else
    for (int i = 0; i < BYTES / 4; i++) static_cast<unsigned *>(to)[i] = static_cast<const unsigned *>(from)[i];
#endif
}

FB_DEVICE void fb_zero_16(void *to)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(fb_shared_address(to)), "r"(0) : "memory");
}

// Copies since the last mark are one batch; waiting is for all batches but the LEFT newest.
FB_DEVICE void fb_copies_mark()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

template <int LEFT> FB_DEVICE void fb_copies_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
#endif
}

// Four 8 × 8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8, and gets of each two
// neighbours of row l / 4. Turned: the matrices are transposed on the way.
template <bool TURNED> FB_DEVICE void fb_load_fragment(unsigned (&r)[4], const void *at)
{
    if constexpr (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(fb_shared_address(at)));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(fb_shared_address(at)));
}

// c += a · b on tensor cores. The type says what the registers hold: 16-bit operands 16 × 16 by 16 × 8, f32 rounded to
// tf32 16 × 8 by 8 × 8. Lane l holds c at row l / 4 (+ 8 for the last two) and columns 2 (l % 4), + 1. Before compute
// capability 8.0 there is f16 alone, half of the depth at a time.
FB_DEVICE void fb_multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], fb_f16)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    for (int half = 0; half < 2; half++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
}

FB_DEVICE void fb_multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], fb_bf16)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

FB_DEVICE void fb_multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], float)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

FB_DEVICE unsigned fb_tf32(float x)
{
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

// All threads of the cluster's blocks meet, and see what the others wrote before.
FB_DEVICE void fb_cluster_meet()
{
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// 16 bytes of another block's memory, from where `at` is in this one's.
template <class T> FB_DEVICE void fb_take_16(T &to, const void *at, unsigned rank)
{
    unsigned *const word = reinterpret_cast<unsigned *>(&to);
    asm volatile("{\n.reg .b32 from;\nmapa.shared::cluster.u32 from, %4, %5;\n"
                 "ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [from];\n}"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(fb_shared_address(at)), "r"(rank)
                 : "memory");
}

// ---- end of PTX ----------------------------------------------------------------------------------------------------

template <class T> FB_DEVICE void fb_copy_piece(void *to, fb_inside<T> from)
{
    fb_copy_16(to, from.at);
}

// Beyond an operand are zeros, and nothing is read: a copy of size 0 would still want an address that can be
// translated.
template <class T> FB_DEVICE void fb_copy_piece(void *to, fb_piece<T> from)
{
    if (from.inside)
        fb_copy_16(to, from.at);
    else
        fb_zero_16(to);
}

template <class T> FB_DEVICE void fb_copy_word(T *to, fb_word<T> from)
{
    if (from.inside)
        fb_copy_few<sizeof(T)>(to, from.at);
    else
        *to = 0;
}

#endif
