// Attention without stored scores, and its pullback. Tiles of queries, keys and values lie in shared memory, in lines of D elements and 16
// bytes of padding; products run on tensor cores with sums of 32 bits, which are the factors of the next product where they are. Each of four
// warps has 16 MT rows of the block's own tile; the other side is copied asynchronously, CT lines at a time, in two stages. Nothing is added
// up by atomics: queries and keys have kernels of their own in the pullback.

#define GG_ATTENTION_THREADS 128
#define GG_LOG2_E 1.4426950408889634f
#define GG_LN_2 0.6931471805599453f
#define GG_NO_SCORE gg_f32_from_bits(0xFF800000u)

#ifdef __CUDACC__
#define GG_EXCHANGE(name, length) float *name = nullptr
#else
// The emulation has no registers of other threads: they exchange numbers through memory.
#define GG_EXCHANGE(name, length) static float name[length]
#endif

GG_INLINE float gg_exp2(float x) {
#ifdef __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

// The largest, or the sum, of the numbers of the four threads that share rows of a product.
template <bool is_sum> GG_INLINE float gg_quad(float x, float *exchange) {
#ifdef __CUDACC__
#pragma unroll
    for (int other = 1; other < 4; other *= 2) {
        const float y = __shfl_xor_sync(0xFFFFFFFFu, x, other);
        x = is_sum ? x + y : (y > x ? y : x);
    }
    return x;
#else
    exchange[threadIdx.x] = x;
    __syncthreads();
    const float *four = exchange + threadIdx.x / 4 * 4;
    float all = four[0];
    for (int k = 1; k < 4; k++) all = is_sum ? all + four[k] : (four[k] > all ? four[k] : all);
    __syncthreads();
    return all;
#endif
}

#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
GG_INLINE void gg_load_matrices_transposed(u32 (&to)[4], const char *from) {
    const u32 address = (u32)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

GG_INLINE u32 gg_pair(gg_bf16, float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
GG_INLINE u32 gg_pair(gg_f16, float low, float high) {
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
#endif

// Adds A Bᵀ: A are 16 MT lines, B are 8 NT lines, of D elements each.
template <class T, int D, int MT, int NT>
GG_INLINE void gg_lines_by_lines(float (&sum)[MT][NT][4], const char *a, const char *b, int lane) {
    const int line = D * (int)sizeof(T) + 16;
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
#pragma unroll
    for (int k = 0; k < D * (int)sizeof(T); k += 32) {
        u32 x[MT][4];
#pragma unroll
        for (int i = 0; i < MT; i++) {
            gg_load_matrices(x[i], a + (16 * i + lane % 16) * line + lane / 16 * 16 + k);
        }
#pragma unroll
        for (int j = 0; j < NT; j += 2) {
            u32 y[4];
            gg_load_matrices(y, b + (8 * j + lane % 8 + lane / 16 * 8) * line + lane / 8 % 2 * 16 + k);
#pragma unroll
            for (int i = 0; i < MT; i++) {
                gg_mma(T(), sum[i][j], x[i], y[0], y[1]);
                gg_mma(T(), sum[i][j + 1], x[i], y[2], y[3]);
            }
        }
    }
#else
    for (int i = 0; i < MT; i++)
        for (int j = 0; j < NT; j++)
            for (int q = 0; q < 4; q++) {
                const T *x = (const T *)(a + (16 * i + lane / 4 + q / 2 * 8) * line);
                const T *y = (const T *)(b + (8 * j + lane % 4 * 2 + q % 2) * line);
                for (int k = 0; k < D; k++) sum[i][j][q] += (float)x[k] * (float)y[k];
            }
#endif
}

// Adds P B with P in memory: P are sums of a product with 8 KT columns, B are 8 KT lines of D elements. For the emulation; architectures
// without these tensor cores compile it and never run it.
template <class T, int D, int MT, int KT>
GG_INLINE void gg_exchanged_product(
    float (&sum)[MT][D / 8][4], const float (&p)[MT][KT][4], const char *b, int lane, float *exchange) {
    const int line = D * (int)sizeof(T) + 16;
    float *own = exchange + threadIdx.x / 32 * (16 * MT * 8 * KT);
    for (int i = 0; i < MT; i++)
        for (int j = 0; j < KT; j++)
            for (int q = 0; q < 4; q++)
                own[(16 * i + lane / 4 + q / 2 * 8) * 8 * KT + 8 * j + lane % 4 * 2 + q % 2] = (float)gg_factor((T)p[i][j][q]);
    __syncthreads();
    for (int i = 0; i < MT; i++)
        for (int j = 0; j < D / 8; j++)
            for (int q = 0; q < 4; q++)
                for (int k = 0; k < 8 * KT; k++)
                    sum[i][j][q] += own[(16 * i + lane / 4 + q / 2 * 8) * 8 * KT + k]
                        * (float)((const T *)(b + k * line))[8 * j + lane % 4 * 2 + q % 2];
    __syncthreads();
}

// Adds P B, with P in registers where there are tensor cores.
template <class T, int D, int MT, int KT> struct GgSumsByLines {
    static __device__ __forceinline__ void add(
        float (&sum)[MT][D / 8][4], const float (&p)[MT][KT][4], const char *b, int lane, float *exchange) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
        const int line = D * (int)sizeof(T) + 16;
#pragma unroll
        for (int k = 0; k < KT; k += 2) {
            u32 x[MT][4];
#pragma unroll
            for (int i = 0; i < MT; i++) {
                x[i][0] = gg_pair(T(), p[i][k][0], p[i][k][1]);
                x[i][1] = gg_pair(T(), p[i][k][2], p[i][k][3]);
                x[i][2] = gg_pair(T(), p[i][k + 1][0], p[i][k + 1][1]);
                x[i][3] = gg_pair(T(), p[i][k + 1][2], p[i][k + 1][3]);
            }
#pragma unroll
            for (int j = 0; j < D / 8; j += 2) {
                u32 y[4];
                gg_load_matrices_transposed(y, b + (8 * k + lane % 16) * line + (8 * j + lane / 16 * 8) * (int)sizeof(T));
#pragma unroll
                for (int i = 0; i < MT; i++) {
                    gg_mma(T(), sum[i][j], x[i], y[0], y[1]);
                    gg_mma(T(), sum[i][j + 1], x[i], y[2], y[3]);
                }
            }
        }
#else
        gg_exchanged_product<T, D, MT, KT>(sum, p, b, lane, exchange);
#endif
    }
};

#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
// Columns 2 t and 2 t + 1 of a sum are terms t and t + 4 of a factor: the lines of B are taken in the same order.
template <int D, int MT, int KT> struct GgSumsByLines<float, D, MT, KT> {
    static __device__ __forceinline__ void add(
        float (&sum)[MT][D / 8][4], const float (&p)[MT][KT][4], const char *b, int lane, float *) {
        const int line = D * 4 + 16;
#pragma unroll
        for (int k = 0; k < KT; k++) {
            u32 x[MT][4];
#pragma unroll
            for (int i = 0; i < MT; i++) {
                x[i][0] = gg_f32_bits(gg_factor(p[i][k][0]));
                x[i][1] = gg_f32_bits(gg_factor(p[i][k][2]));
                x[i][2] = gg_f32_bits(gg_factor(p[i][k][1]));
                x[i][3] = gg_f32_bits(gg_factor(p[i][k][3]));
            }
            const char *own = b + (8 * k + lane % 4 * 2) * line + lane / 4 * 4;
#pragma unroll
            for (int j = 0; j < D / 8; j++) {
                const u32 y0 = *(const u32 *)(own + 32 * j), y1 = *(const u32 *)(own + line + 32 * j);
#pragma unroll
                for (int i = 0; i < MT; i++) gg_mma(0.0f, sum[i][j], x[i], y0, y1);
            }
        }
    }
};
#endif

// Begins to copy lines of an array to shared memory; those beyond its end are zeros.
template <class T, int D, int LINES>
GG_INLINE void gg_copy_lines(char *to, const T *from, i64 apart, int first, int count) {
    const int units = D * (int)sizeof(T) / 16;
#pragma unroll
    for (int u = threadIdx.x; u < LINES * units; u += GG_ATTENTION_THREADS) {
        const int line = u / units, part = u % units;
        const bool inside = first + line < count;
        const char *source = (const char *)(from + (i64)(inside ? first + line : 0) * apart) + part * 16;
        char *place = to + line * (D * (int)sizeof(T) + 16) + part * 16;
        gg_copy_async<4>((float *)place, (const float *)source, (const float *)from, inside);
    }
}

// Waits for all copies but those of the last groups. Factors of 32 bits are rounded to TF32 where they lie, once: `bytes` of them.
template <int groups> GG_INLINE void gg_arrived(gg_bf16, char *, int) {
    gg_copies_wait<groups>();
    __syncthreads();
}
template <int groups> GG_INLINE void gg_arrived(gg_f16, char *, int) {
    gg_copies_wait<groups>();
    __syncthreads();
}
template <int groups> GG_INLINE void gg_arrived(float, char *tile, int bytes) {
    gg_copies_wait<groups>();
    __syncthreads();
    for (int u = threadIdx.x; u < bytes / 16; u += GG_ATTENTION_THREADS) {
        GgFour four = ((GgFour *)tile)[u];
        four = {gg_factor(four.a), gg_factor(four.b), gg_factor(four.c), gg_factor(four.d)};
        ((GgFour *)tile)[u] = four;
    }
    __syncthreads();
}

template <class T> GG_INLINE void gg_store_two(T *to, float a, float b) {
    to[0] = a;
    to[1] = b;
}
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
GG_INLINE void gg_store_two(gg_bf16 *to, float a, float b) { *(u32 *)to = gg_pair(gg_bf16(), a, b); }
GG_INLINE void gg_store_two(gg_f16 *to, float a, float b) { *(u32 *)to = gg_pair(gg_f16(), a, b); }
#endif

// Stores the rows of a product that exist, each multiplied with a factor.
template <class T, int D, int MT>
GG_INLINE void gg_store_rows(T *to, i64 apart, const float (&sum)[MT][D / 8][4], const float (&factor)[MT][2], int row, int count, int lane) {
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int own = row + 16 * i + lane / 4 + 8 * half;
            if (own >= count) continue;
#pragma unroll
            for (int j = 0; j < D / 8; j++)
                gg_store_two(
                    to + (i64)own * apart + 8 * j + lane % 4 * 2, sum[i][j][2 * half] * factor[i][half],
                    sum[i][j][2 * half + 1] * factor[i][half]);
        }
}

// Attention of the queries from `first` on, and the logarithms of their normalizers.
template <class T, int D, int MT, int CT, bool causal>
GG_INLINE void gg_attention(
    char *shared, const T *q, const T *k, const T *v, i64 apart, T *out, i64 out_apart, float *normalizers, int count, int first,
    float scale, float *exchange) {
    const int line = D * (int)sizeof(T) + 16, rows = 64 * MT, bytes = CT * line;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = first + warp * 16 * MT;
    const float scale2 = scale * GG_LOG2_E;
    const int last = causal && first + rows < count ? first + rows : count, steps = (last + CT - 1) / CT;
    char *tiles = shared + rows * line;
    gg_copy_lines<T, D, 64 * MT>(shared, q, apart, first, count);
    gg_copy_lines<T, D, CT>(tiles, k, apart, 0, count);
    gg_copy_lines<T, D, CT>(tiles + bytes, v, apart, 0, count);
    gg_copies_end_group();
    float sum[MT][D / 8][4] = {}, largest[MT][2], total[MT][2] = {};
#pragma unroll
    for (int i = 0; i < MT; i++) largest[i][0] = largest[i][1] = GG_NO_SCORE;
    for (int step = 0; step < steps; step++) {
        if (step + 1 < steps) {
            char *next = tiles + (step + 1) % 2 * 2 * bytes;
            gg_copy_lines<T, D, CT>(next, k, apart, (step + 1) * CT, count);
            gg_copy_lines<T, D, CT>(next + bytes, v, apart, (step + 1) * CT, count);
        }
        gg_copies_end_group();
        // Queries arrive with the first keys and values, right before them.
        gg_arrived<1>(T(), step == 0 ? shared : tiles + step % 2 * 2 * bytes, step == 0 ? rows * line + 2 * bytes : 2 * bytes);
        const char *keys = tiles + step % 2 * 2 * bytes;
        float s[MT][CT / 8][4] = {};
        gg_lines_by_lines<T, D, MT, CT / 8>(s, shared + warp * 16 * MT * line, keys, lane);
        if (step * CT + CT > count || (causal && step * CT + CT - 1 > row)) {
#pragma unroll
            for (int i = 0; i < MT; i++)
#pragma unroll
                for (int j = 0; j < CT / 8; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const int column = step * CT + 8 * j + lane % 4 * 2 + e % 2;
                        if (column >= count || (causal && column > row + 16 * i + lane / 4 + e / 2 * 8)) s[i][j][e] = GG_NO_SCORE;
                    }
        }
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float most = largest[i][half];
#pragma unroll
                for (int j = 0; j < CT / 8; j++)
#pragma unroll
                    for (int e = 2 * half; e < 2 * half + 2; e++) most = s[i][j][e] > most ? s[i][j][e] : most;
                most = gg_quad<false>(most, exchange);
                const float shift = most == GG_NO_SCORE ? 0.0f : most * scale2;
                const float shrunk = gg_exp2(fma(largest[i][half], scale2, -shift));
                float added = 0.0f;
#pragma unroll
                for (int j = 0; j < CT / 8; j++)
#pragma unroll
                    for (int e = 2 * half; e < 2 * half + 2; e++) {
                        s[i][j][e] = gg_exp2(fma(s[i][j][e], scale2, -shift));
                        added += s[i][j][e];
                    }
                largest[i][half] = most;
                total[i][half] = fma(total[i][half], shrunk, added);
#pragma unroll
                for (int j = 0; j < D / 8; j++)
#pragma unroll
                    for (int e = 2 * half; e < 2 * half + 2; e++) sum[i][j][e] *= shrunk;
            }
        GgSumsByLines<T, D, MT, CT / 8>::add(sum, s, keys + bytes, lane, exchange);
        __syncthreads();
    }
    float factor[MT][2];
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float all = gg_quad<true>(total[i][half], exchange);
            factor[i][half] = 1.0f / all;
            const int own = row + 16 * i + lane / 4 + 8 * half;
            if (lane % 4 == 0 && own < count) normalizers[own] = fma(largest[i][half], scale2, log2(all)) * GG_LN_2;
        }
    gg_store_rows<T, D, MT>(out, out_apart, sum, factor, row, count, lane);
}

// The cotangent of the queries from `first` on. Also stores, for each, the sum of products of the output and its cotangent.
template <class T, int D, int MT, int CT, bool causal>
GG_INLINE void gg_attention_queries(
    char *shared, const T *q, const T *k, const T *v, i64 apart, const T *out, const T *cotangent, i64 out_apart,
    const float *normalizers, float *products, T *result, int count, int first, float scale, float *exchange) {
    const int line = D * (int)sizeof(T) + 16, rows = 64 * MT, bytes = CT * line, chunk = 32;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = first + warp * 16 * MT;
    const float scale2 = scale * GG_LOG2_E;
    const int last = causal && first + rows < count ? first + rows : count, steps = (last + CT - 1) / CT;
    char *own = shared + warp * 16 * MT * line, *tiles = shared + 2 * rows * line;
    float *known = (float *)(tiles + 4 * bytes);
    gg_copy_lines<T, D, 64 * MT>(shared, q, apart, first, count);
    gg_copy_lines<T, D, 64 * MT>(shared + rows * line, cotangent, out_apart, first, count);
    gg_copy_lines<T, D, CT>(tiles, k, apart, 0, count);
    gg_copy_lines<T, D, CT>(tiles + bytes, v, apart, 0, count);
    gg_copies_end_group();
    gg_copies_wait<0>();
    __syncthreads();
    if (threadIdx.x < rows) {
        const int place = first + (int)threadIdx.x;
        float product = 0.0f;
        if (place < count) {
            const GgUnit<T> *x = (const GgUnit<T> *)(out + (i64)place * out_apart);
            const GgUnit<T> *y = (const GgUnit<T> *)(shared + (rows + (int)threadIdx.x) * line);
            for (int u = 0; u < D * (int)sizeof(T) / 16; u++) {
                const GgUnit<T> one = x[u], other = y[u];
#pragma unroll
                for (int e = 0; e < (int)(16 / sizeof(T)); e++) product = fma((float)one.v[e], (float)other.v[e], product);
            }
            products[place] = product;
        }
        known[threadIdx.x] = product;
    }
    __syncthreads();
    float sum[MT][D / 8][4] = {}, product[MT][2], normalizer[MT][2];
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int place = 16 * i + lane / 4 + 8 * half;
            product[i][half] = known[warp * 16 * MT + place];
            normalizer[i][half] = row + place < count ? normalizers[row + place] * GG_LOG2_E : 0.0f;
        }
    for (int step = 0; step < steps; step++) {
        if (step + 1 < steps) {
            char *next = tiles + (step + 1) % 2 * 2 * bytes;
            gg_copy_lines<T, D, CT>(next, k, apart, (step + 1) * CT, count);
            gg_copy_lines<T, D, CT>(next + bytes, v, apart, (step + 1) * CT, count);
        }
        gg_copies_end_group();
        gg_arrived<1>(T(), step == 0 ? shared : tiles + step % 2 * 2 * bytes, step == 0 ? 2 * rows * line + 2 * bytes : 2 * bytes);
        const char *keys = tiles + step % 2 * 2 * bytes;
#pragma unroll 1
        for (int c = 0; c < CT; c += chunk) {
            const int column0 = step * CT + c;
            float s[MT][chunk / 8][4] = {}, g[MT][chunk / 8][4] = {};
            gg_lines_by_lines<T, D, MT, chunk / 8>(s, own, keys + c * line, lane);
            gg_lines_by_lines<T, D, MT, chunk / 8>(g, own + rows * line, keys + bytes + c * line, lane);
            const bool partial = column0 + chunk > count || (causal && column0 + chunk - 1 > row);
#pragma unroll
            for (int i = 0; i < MT; i++)
#pragma unroll
                for (int j = 0; j < chunk / 8; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const float p = gg_exp2(fma(s[i][j][e], scale2, -normalizer[i][e / 2]));
                        float ds = p * (g[i][j][e] - product[i][e / 2]);
                        if (partial) {
                            const int column = column0 + 8 * j + lane % 4 * 2 + e % 2;
                            if (column >= count || (causal && column > row + 16 * i + lane / 4 + e / 2 * 8)) ds = 0.0f;
                        }
                        s[i][j][e] = ds;
                    }
            GgSumsByLines<T, D, MT, chunk / 8>::add(sum, s, keys + c * line, lane, exchange);
        }
        __syncthreads();
    }
    float factor[MT][2];
#pragma unroll
    for (int i = 0; i < MT; i++) factor[i][0] = factor[i][1] = scale;
    gg_store_rows<T, D, MT>(result, apart, sum, factor, row, count, lane);
}

// The cotangents of the keys and values from `first` on. Rows are keys, and columns queries.
template <class T, int D, int MT, int CT, bool causal>
GG_INLINE void gg_attention_keys(
    char *shared, const T *q, const T *k, const T *v, i64 apart, const T *cotangent, i64 out_apart, const float *normalizers,
    const float *products, T *key_result, T *value_result, int count, int first, float scale, float *exchange) {
    const int line = D * (int)sizeof(T) + 16, rows = 64 * MT, bytes = CT * line, stage = 2 * bytes + 2 * CT * 4, chunk = 32;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = first + warp * 16 * MT;
    const float scale2 = scale * GG_LOG2_E;
    const int begin = causal ? first / CT : 0, steps = (count + CT - 1) / CT;
    char *own = shared + warp * 16 * MT * line, *tiles = shared + 2 * rows * line;
    gg_copy_lines<T, D, 64 * MT>(shared, k, apart, first, count);
    gg_copy_lines<T, D, 64 * MT>(shared + rows * line, v, apart, first, count);
    float key_sum[MT][D / 8][4] = {}, value_sum[MT][D / 8][4] = {};
    for (int step = begin - 1; step < steps; step++) {
        if (step + 1 < steps) {
            char *next = tiles + (step + 1) % 2 * stage;
            const int query = (step + 1) * CT;
            gg_copy_lines<T, D, CT>(next, q, apart, query, count);
            gg_copy_lines<T, D, CT>(next + bytes, cotangent, out_apart, query, count);
            if (threadIdx.x < CT) {
                const int place = query + (int)threadIdx.x;
                float *numbers = (float *)(next + 2 * bytes) + threadIdx.x;
                const bool inside = place < count;
                gg_copy_async<1>(numbers, normalizers + (inside ? place : 0), normalizers, inside);
                gg_copy_async<1>(numbers + CT, products + (inside ? place : 0), products, inside);
            }
        }
        gg_copies_end_group();
        if (step < begin) continue;
        // The numbers behind queries and cotangents are no factors.
        char *arrived = tiles + step % 2 * stage;
        gg_arrived<1>(T(), arrived, 2 * bytes);
        if (sizeof(T) == 4 && step == begin) gg_arrived<1>(T(), shared, 2 * rows * line);
        const char *queries = tiles + step % 2 * stage;
        const float *numbers = (const float *)(queries + 2 * bytes);
#pragma unroll 1
        for (int c = 0; c < CT; c += chunk) {
            const int column0 = step * CT + c;
            const bool partial = column0 + chunk > count || (causal && column0 < row + 16 * MT - 1);
            float p[MT][chunk / 8][4] = {}, g[MT][chunk / 8][4] = {};
            gg_lines_by_lines<T, D, MT, chunk / 8>(p, own, queries + c * line, lane);
#pragma unroll
            for (int j = 0; j < chunk / 8; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int place = c + 8 * j + lane % 4 * 2 + e;
                    const float normalizer = numbers[place] * GG_LOG2_E;
#pragma unroll
                    for (int i = 0; i < MT; i++)
#pragma unroll
                        for (int half = 0; half < 2; half++) {
                            float &own_p = p[i][j][2 * half + e];
                            own_p = gg_exp2(fma(own_p, scale2, -normalizer));
                            if (partial) {
                                const int column = step * CT + place;
                                if (column >= count || (causal && row + 16 * i + lane / 4 + 8 * half > column)) own_p = 0.0f;
                            }
                        }
                }
            GgSumsByLines<T, D, MT, chunk / 8>::add(value_sum, p, queries + bytes + c * line, lane, exchange);
            gg_lines_by_lines<T, D, MT, chunk / 8>(g, own + rows * line, queries + bytes + c * line, lane);
#pragma unroll
            for (int j = 0; j < chunk / 8; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float product = numbers[CT + c + 8 * j + lane % 4 * 2 + e];
#pragma unroll
                    for (int i = 0; i < MT; i++)
#pragma unroll
                        for (int half = 0; half < 2; half++) {
                            const float own_p = p[i][j][2 * half + e];
                            // Zeros of the mask are strong.
                            p[i][j][2 * half + e] = own_p == 0.0f ? 0.0f : own_p * (g[i][j][2 * half + e] - product);
                        }
                }
            GgSumsByLines<T, D, MT, chunk / 8>::add(key_sum, p, queries + c * line, lane, exchange);
        }
        __syncthreads();
    }
    float factor[MT][2], one[MT][2];
#pragma unroll
    for (int i = 0; i < MT; i++) {
        factor[i][0] = factor[i][1] = scale;
        one[i][0] = one[i][1] = 1.0f;
    }
    gg_store_rows<T, D, MT>(key_result, apart, key_sum, factor, row, count, lane);
    gg_store_rows<T, D, MT>(value_result, apart, value_sum, one, row, count, lane);
}
