// Long rows in parts, a block each: a part in shared memory, and sums that the blocks of a row make together. What of a part
// has no room there is read again in each pass, from the cache.
//
// A part is a list of groups of N neighbours, which begin at multiples of 16 bytes in memory. The first and the last group
// of a row may reach beyond it: functions that take `first` (the group's first column, perhaps negative) and `columns` touch
// only what is inside. A thread only ever looks at groups that it fetched itself, so nothing waits for other threads.
//
// Up to eight blocks of a row are a cluster, where the hardware has them, and send each other what they have summed up.
// More leave it in words of memory, and take everyone's: half of a word is the value, half says that it is
// there. So no fence stands between, and one way through the cache is all that is waited for. All
// blocks of a row must be there at once: the grid begins them in order, and a row has no more than the GPU has room for.
// The last to leave clears the words for the next launch.

#ifndef FB_LONG
#define FB_LONG

// ---- PTX ----
FB_DEVICE void fb_long_copy(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
#else
    *static_cast<uint4 *>(to) = *static_cast<const uint4 *>(from); // not in the background
#endif
}

// What has no room in shared memory, into the cache.
FB_DEVICE void fb_long_ahead(const void *from)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

FB_DEVICE void fb_long_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

FB_DEVICE void fb_long_set(unsigned long long *word, unsigned long long value)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

FB_DEVICE unsigned fb_long_await(const unsigned long long *word)
{
    unsigned long long value;
    do {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    } while (!(value >> 32));
    return (unsigned)value;
}

// The blocks of a cluster: `value` into what the one with this rank has in the place of *at; all come, and then all go on.
template <class T> FB_DEVICE void fb_long_send(T *at, T value, unsigned rank)
{
    unsigned to;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"((unsigned)__cvta_generic_to_shared(at)), "r"(rank));
    union {
        T value;
        unsigned word[(sizeof(T) + 3) / 4];
    } x;
    x.value = value;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) + 3) / 4; i++)
        asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to + 4 * i), "r"(x.word[i]) : "memory");
}

FB_DEVICE void fb_long_begin()
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

FB_DEVICE void fb_long_begun()
{
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

FB_DEVICE void fb_long_meet()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
FB_DEVICE float fb_long_max(float a, float b)
{
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
// ---- end of PTX ----

// One instruction instead of three.
struct fb_long_larger {
    template <class T> static __device__ T of(T a, T b) { return fb_larger::of(a, b); }
    static __device__ float of(float a, float b) { return fb_long_max(a, b); }
};

template <int N, class T> FB_DEVICE void fb_long_fetch(T *to, const T *from)
{
#pragma unroll
    for (int i = 0; i < N; i += 16 / (int)sizeof(T)) fb_long_copy(to + i, from + i);
}

template <int N, class T, class A> FB_DEVICE void fb_long_fetch(T *to, const T *from, A first, A columns)
{
    if (first >= 0 && first + N <= columns) {
        fb_long_fetch<N>(to, from);
        return;
    }
    for (int i = 0; i < N; i++)
        if (first + i >= 0 && first + i < columns) to[i] = from[i];
}

// As fb_load and fb_store.
template <int N, class T, class A> FB_DEVICE fb_pack<T, N> fb_long_load(const T *from, A first, A columns)
{
    if (first >= 0 && first + N <= columns) return fb_load<N>(from);
    fb_pack<T, N> values;
#pragma unroll
    for (int i = 0; i < N; i++) values.at[i] = first + i >= 0 && first + i < columns ? from[i] : T();
    return values;
}

template <int N, class T, class A> FB_DEVICE void fb_long_store(T *to, const fb_pack<T, N> &values, A first, A columns)
{
    if (first >= 0 && first + N <= columns) {
        fb_store(to, values);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (first + i >= 0 && first + i < columns) to[i] = values.at[i];
}

// f for a group, with a constant `is`: is all of it inside of its row?
template <bool IS> struct fb_long_whole {
    static constexpr bool is = IS;
};

template <int N, class F, class A> FB_DEVICE void fb_long_group(F f, A first, A columns)
{
    if (first >= 0 && first + N <= columns)
        f(fb_long_whole<true>());
    else
        f(fb_long_whole<false>());
}

// A value in words.
template <class T> struct fb_long_words {
    static constexpr int N = (sizeof(T) + 3) / 4;
    unsigned long long at[N];
};

template <class T> FB_DEVICE void fb_long_give(fb_long_words<T> *to, T value)
{
    union {
        T value;
        unsigned word[fb_long_words<T>::N];
    } x;
    x.value = value;
#pragma unroll
    for (int i = 0; i < fb_long_words<T>::N; i++) fb_long_set(&to->at[i], 1ull << 32 | x.word[i]);
}

template <class T> FB_DEVICE T fb_long_take(const fb_long_words<T> *from)
{
    union {
        T value;
        unsigned word[fb_long_words<T>::N];
    } x;
#pragma unroll
    for (int i = 0; i < fb_long_words<T>::N; i++) x.word[i] = fb_long_await(&from->at[i]);
    return x.value;
}

// What all threads of a cluster's blocks have, combined: each sends what it has to all of them. NUMBER: a place of its own for each
// time, for some blocks may send already while others still look at what came the time before.
template <class OP, int THREADS, int PARTS, int NUMBER, class T> FB_DEVICE T fb_long_exchange(T x, int part)
{
    __shared__ T fb_sent[PARTS];
    x = fb_block<OP, THREADS>(x);
    if (threadIdx.x < PARTS) fb_long_send(&fb_sent[part], x, threadIdx.x);
    fb_long_meet();
    x = fb_sent[0];
#pragma unroll
    for (int i = 1; i < PARTS; i++) x = OP::of(x, fb_sent[i]);
    return x;
}

// What all threads of a row's blocks have, combined, in every one of them; `none`: what changes nothing. The order is that of
// the parts, whichever comes first. Clusters of EACH blocks have added up among themselves before.
template <class OP, int THREADS, int PARTS, int EACH, int NUMBER, class T>
FB_DEVICE T fb_long_combine(T x, typename fb_same<T>::type none, fb_long_words<T> *words, int part)
{
    if constexpr (EACH > 1)
        x = fb_long_exchange<OP, THREADS, EACH, NUMBER>(x, part % EACH);
    else
        x = fb_block<OP, THREADS>(x);
    if (part % EACH == 0 && threadIdx.x == 0) fb_long_give(&words[part / EACH], x);
    x = none;
    for (int i = threadIdx.x; i < PARTS / EACH; i += THREADS) x = OP::of(x, fb_long_take(&words[i]));
    return fb_block<OP, THREADS>(x);
}

// Of a row's blocks the last to come here hears so, in the first warp: nobody looks at the row's words any more.
template <int PARTS> FB_DEVICE bool fb_long_is_last(unsigned *left)
{
    if (threadIdx.x >= 32) return false;
    const bool last = threadIdx.x == 0 && atomicAdd(left, 1u) == PARTS - 1;
    if (last) atomicAdd(left, (unsigned)-PARTS);
    return __ballot_sync(0xffffffffu, last) != 0;
}

template <int PARTS, class T> FB_DEVICE void fb_long_clear(fb_long_words<T> *words)
{
    for (int i = threadIdx.x; i < PARTS; i += 32)
        for (int k = 0; k < fb_long_words<T>::N; k++) fb_long_set(&words[i].at[k], 0);
}

#endif
