// What generated kernels are written in: element types, numbers with the methods that the operation table uses, conversions
// and random bits. The same text is compiled for a GPU and, behind the shim of the emulation, for the host.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define GG_INLINE static __device__ __forceinline__
#define GG_SHARED(type, name, length) __shared__ __align__(16) type name[length]
#ifndef GG_ARENA
#define GG_ARENA(name, length) extern __shared__ __align__(16) char name[]
#endif

// Four neighbours in memory, which one instruction moves.
struct __align__(16) GgFour { float a, b, c, d; };

#ifdef __CUDACC__
#define GG_CLUSTER_SHARED(type, name, length) __shared__ __align__(16) type name[length]
#define GG_REMOTE(name, rank, index) gg_remote(name + (index), rank)

// An element of shared memory of another block of the cluster.
GG_INLINE float gg_remote(const float *own, u32 rank) {
    float value = 0.0f;
#if __CUDA_ARCH__ >= 900
    u32 address = (u32)__cvta_generic_to_shared(own);
    asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
#endif
    return value;
}

// Waits for all blocks of the cluster.
GG_INLINE void gg_cluster_barrier() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

// Copies elements of global memory to shared memory, one or four at aligned addresses, or sets them to zero; complete after the
// wait for their group.
template <int count> GG_INLINE void gg_copy_async(float *to, const float *from, const float *anywhere, bool inside) {
#if __CUDA_ARCH__ >= 800
    const u32 address = (u32)__cvta_generic_to_shared(to);
    const float *source = inside ? from : anywhere;
    if (count == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source), "r"(inside ? 16 : 0) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(source), "r"(inside ? 4 : 0) : "memory");
#else
    for (int k = 0; k < count; k++) to[k] = inside ? from[k] : 0.0f;
#endif
}

GG_INLINE void gg_copies_end_group() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most this many groups of copies are under way.
template <int groups> GG_INLINE void gg_copies_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}
#else
template <int count> GG_INLINE void gg_copy_async(float *to, const float *from, const float *, bool inside) {
    for (int k = 0; k < count; k++) to[k] = inside ? from[k] : 0.0f;
}
GG_INLINE void gg_copies_end_group() {}
template <int groups> GG_INLINE void gg_copies_wait() {}
#endif

// Copies bytes by all threads of a block, in the longest words that both addresses allow.
template <class Word> GG_INLINE void gg_copy_words(char *to, const char *from, u32 bytes) {
    for (u32 k = threadIdx.x; k < bytes / (u32)sizeof(Word); k += blockDim.x) ((Word *)to)[k] = ((const Word *)from)[k];
}
GG_INLINE void gg_copy_by_block(char *to, const char *from, u32 bytes) {
    const u64 bits = (u64)to | (u64)from | (u64)bytes;
    if (bits % 16 == 0) gg_copy_words<GgFour>(to, from, bytes);
    else if (bits % 4 == 0) gg_copy_words<u32>(to, from, bytes);
    else gg_copy_words<u8>(to, from, bytes);
}

// The index of a block that another block stands in for.
struct GgBlock { u32 x, y; };

// The index of a thread among those that stand in for a block.
struct GgThread { u32 x; };

GG_INLINE double gg_f64_from_bits(u64 bits) { return __longlong_as_double((long long)bits); }
#define GG_INFINITY gg_f64_from_bits(0x7FF0000000000000ULL)
#define GG_NAN gg_f64_from_bits(0x7FF8000000000000ULL)

static constexpr double PI = 3.14159265358979323846264338327950288;
static constexpr double LN_2 = 0.693147180559945309417232121458176568;
static constexpr double LN_10 = 2.30258509299404568401799145468436421;
static constexpr double FRAC_1_SQRT_2 = 0.707106781186547524400844362104849039;
static constexpr double FRAC_2_SQRT_PI = 1.12837916709551257389615890312154517;
static constexpr double SQRT_2_OVER_PI = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

// Storage types of 16 bits: structures of their bits, converted to float where they are read, and rounded to the nearest, ties to
// even, where they are assigned. Headers of CUDA are not needed.

GG_INLINE u32 gg_f32_bits(float x) {
#ifdef __CUDACC__
    return __float_as_uint(x);
#else
    u32 bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

GG_INLINE float gg_f32_from_bits(u32 bits) {
#ifdef __CUDACC__
    return __uint_as_float(bits);
#else
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

GG_INLINE unsigned short gg_f16_from_f32(float x) {
#ifdef __CUDACC__
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    const u32 bits = gg_f32_bits(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return (unsigned short)(sign | 0x7E00u | ((magnitude >> 13) & 0x03FFu));
    if (magnitude >= 0x47800000u) return (unsigned short)(sign | 0x7C00u);
    // One unit in the last place of 0.5 is the smallest subnormal, so the addition rounds.
    if (magnitude < 0x38800000u) return (unsigned short)(sign | (gg_f32_bits(gg_f32_from_bits(magnitude) + 0.5f) - 0x3F000000u));
    return (unsigned short)(sign | ((magnitude + 0xC8000FFFu + ((magnitude >> 13) & 1u)) >> 13));
#endif
}

GG_INLINE float gg_f16_to_f32(unsigned short bits) {
#ifdef __CUDACC__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
#else
    const u32 sign = (bits & 0x8000u) << 16, magnitude = (bits & 0x7FFFu) << 13;
    if (magnitude >= 0x0F800000u) return gg_f32_from_bits(sign | 0x7F800000u | (magnitude & 0x007FE000u));
    return gg_f32_from_bits(sign | gg_f32_bits(gg_f32_from_bits(magnitude) * gg_f32_from_bits(0x77800000u)));
#endif
}

struct gg_f16 {
    unsigned short bits;
    gg_f16() = default;
    __device__ explicit gg_f16(float x) : bits(gg_f16_from_f32(x)) {}
    __device__ gg_f16 &operator=(float x) { bits = gg_f16_from_f32(x); return *this; }
    __device__ operator float() const { return gg_f16_to_f32(bits); }
};

GG_INLINE unsigned short gg_bf16_from_f32(float x) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
    unsigned short rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
    return rounded;
#endif
    const u32 bits = gg_f32_bits(x);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (unsigned short)((bits >> 16) | 0x0040u);
    return (unsigned short)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

struct gg_bf16 {
    unsigned short bits;
    gg_bf16() = default;
    __device__ explicit gg_bf16(float x) : bits(gg_bf16_from_f32(x)) {}
    __device__ gg_bf16 &operator=(float x) { bits = gg_bf16_from_f32(x); return *this; }
    __device__ operator float() const { return gg_f32_from_bits((u32)bits << 16); }
};

// Sixteen bytes of the terms of one row, which one instruction moves.
template <class T> struct __align__(16) GgUnit { T v[16 / sizeof(T)]; };

// Neighbouring elements that one instruction moves, or a few.
template <class T, int N> struct __align__(sizeof(T) * N < 16 ? sizeof(T) * N : 16) GgVector { T v[N]; };

// One element, with the members of a unit.
template <class T> struct GgOne { T v[1]; };

// Factors as tensor cores read them: numbers of 32 bits are rounded to TF32, 11 significant bits.
GG_INLINE float gg_factor(float x) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return gg_f32_from_bits(bits);
#else
    const u32 bits = gg_f32_bits(x);
    return (bits & 0x7F800000u) == 0x7F800000u ? x : gg_f32_from_bits((bits + 0x1000u) & 0xFFFFE000u);
#endif
}
GG_INLINE gg_f16 gg_factor(gg_f16 x) { return x; }
GG_INLINE gg_bf16 gg_factor(gg_bf16 x) { return x; }

template <class T> GG_INLINE void gg_store_unit(char *to, GgUnit<T> unit) {
#pragma unroll
    for (int e = 0; e < (int)(16 / sizeof(T)); e++) unit.v[e] = gg_factor(unit.v[e]);
    *(GgUnit<T> *)to = unit;
}

#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
GG_INLINE void gg_load_matrices(u32 (&to)[4], const char *from) {
    const u32 address = (u32)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}
#define GG_MMA(type, instruction)                                                                                                  \
    GG_INLINE void gg_mma(type, float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {                                                \
        asm volatile("mma.sync.aligned." instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"            \
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                              \
    }
GG_MMA(gg_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
GG_MMA(gg_f16, "m16n8k16.row.col.f32.f16.f16.f32")
GG_MMA(float, "m16n8k8.row.col.f32.tf32.tf32.f32")
#undef GG_MMA
#endif

// Multiplies the rows of a warp of both factors in shared memory, 64 bytes of terms in lines of 80, and adds the products to the sums of a
// thread. Sum [i][j][q] of lane l belongs to row 16 i + l / 4 + 8 (q / 2) and to column 8 j + 2 (l % 4) + q % 2.
template <class T, int height, int width>
GG_INLINE void gg_multiply_stage(float (&sum)[height / 16][width / 8][4], const char *a, const char *b, int lane) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
#pragma unroll
    for (int k = 0; k < 64; k += 32) {
        u32 x[height / 16][4], y[width / 16][4];
#pragma unroll
        for (int i = 0; i < height / 16; i++) gg_load_matrices(x[i], a + (16 * i + lane % 16) * 80 + lane / 16 * 16 + k);
#pragma unroll
        for (int j = 0; j < width / 16; j++)
            gg_load_matrices(y[j], b + (16 * j + lane % 8 + lane / 16 * 8) * 80 + lane / 8 % 2 * 16 + k);
#pragma unroll
        for (int i = 0; i < height / 16; i++)
#pragma unroll
            for (int j = 0; j < width / 8; j++) gg_mma(T(), sum[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
    }
#else
    for (int i = 0; i < height / 16; i++)
        for (int j = 0; j < width / 8; j++)
            for (int q = 0; q < 4; q++) {
                const T *x = (const T *)(a + (16 * i + lane / 4 + q / 2 * 8) * 80);
                const T *y = (const T *)(b + (8 * j + lane % 4 * 2 + q % 2) * 80);
                for (int k = 0; k < (int)(64 / sizeof(T)); k++) sum[i][j][q] += (float)x[k] * (float)y[k];
            }
#endif
}

// The float to round further to 16 bits without rounding twice: between two neighbours, the one whose last bit is 1.
GG_INLINE float gg_round_to_odd(float x) { return x; }
GG_INLINE float gg_round_to_odd(double x) {
    const float nearest = (float)x;
    if ((double)nearest == x || x != x) return nearest;
    return gg_f32_from_bits((gg_f32_bits(nearest) - (fabs((double)nearest) > fabs(x) ? 1u : 0u)) | 1u);
}
GG_INLINE float gg_round_to_odd(i64 x) { return gg_round_to_odd((double)x); }
GG_INLINE float gg_round_to_odd(u8 x) { return (float)x; }

// Numbers as narrow integers: integers wrap, floating-point numbers are truncated and saturate, and NaN is 0.
GG_INLINE i64 gg_saturated(double x, double least, double most) {
    return x != x ? 0 : (i64)(x < least ? least : x > most ? most : x);
}
GG_INLINE i64 gg_as_i32(i64 x) { return (i64)(int)(u32)(u64)x; }
GG_INLINE i64 gg_as_i32(u8 x) { return (i64)x; }
GG_INLINE i64 gg_as_i32(double x) { return gg_saturated(x, -2147483648.0, 2147483647.0); }
GG_INLINE i64 gg_as_i32(float x) { return gg_as_i32((double)x); }
GG_INLINE i64 gg_as_u8(i64 x) { return (i64)(u8)x; }
GG_INLINE i64 gg_as_u8(u8 x) { return (i64)x; }
GG_INLINE i64 gg_as_u8(double x) { return gg_saturated(x, 0.0, 255.0); }
GG_INLINE i64 gg_as_u8(float x) { return gg_as_u8((double)x); }

// Special functions of the table that no mathematics library has, in double precision.

static __device__ double gg_factorial(int n) {
    double product = 1.0;
    for (int k = 2; k <= n; k++) product *= k;
    return product;
}

GG_INLINE double gg_powi(double x, int exponent) {
    double power = 1.0;
    for (u32 n = exponent < 0 ? 0u - (u32)exponent : (u32)exponent; n; n /= 2) {
        if (n & 1) power *= x;
        x *= x;
    }
    return exponent < 0 ? 1.0 / power : power;
}

GG_INLINE float gg_powi(float x, int exponent) {
    float power = 1.0f;
    for (u32 n = exponent < 0 ? 0u - (u32)exponent : (u32)exponent; n; n /= 2) {
        if (n & 1) power *= x;
        x *= x;
    }
    return exponent < 0 ? 1.0f / power : power;
}

static __device__ double gg_polygamma_positive(int order, double x) {
    // Bernoulli numbers over factorials: the coefficients of the asymptotic series.
    const double coefficients[10] = {
        1.0 / 12.0, -1.0 / 720.0, 1.0 / 30240.0, -1.0 / 1209600.0, 1.0 / 47900160.0, -691.0 / 1307674368000.0,
        1.0 / 74724249600.0, -3617.0 / 10670622842880000.0, 43867.0 / 5109094217170944000.0,
        -174611.0 / 802857662698291200000.0};
    const double sign = order % 2 == 0 ? 1.0 : -1.0, factorial = gg_factorial(order);
    // The recurrence moves the argument to where the series holds.
    double sum = 0.0;
    while (x < 15.0 + order) {
        sum -= sign * factorial / gg_powi(x, order + 1);
        x += 1.0;
    }
    const double inverse_square = 1.0 / (x * x);
    if (order == 0) {
        double series = 0.0, scaled = 1.0;
        for (int index = 0; index < 10; index++) {
            const double k = index + 1.0;
            scaled *= index == 0 ? inverse_square : (2.0 * k - 1.0) * (2.0 * k - 2.0) * inverse_square;
            series += coefficients[index] * scaled;
        }
        return sum + (log(x) - 0.5 / x - series);
    }
    const double power = gg_powi(x, -order);
    double scaled = gg_factorial(order - 1) * power;
    double series = scaled + 0.5 * factorial * power / x;
    for (int index = 0; index < 10; index++) {
        const double k = index + 1.0;
        scaled *= (2.0 * k + order - 1.0) * (2.0 * k + order - 2.0) * inverse_square;
        series += coefficients[index] * scaled;
    }
    return sum + (order % 2 == 0 ? -series : series);
}

static __device__ double gg_polygamma(int order, double x) {
    if (order < 0 || x != x) return GG_NAN;
    if (x > 0.0) {
        if (x == GG_INFINITY) return order == 0 ? x : 0.0;
        return gg_polygamma_positive(order, x);
    }
    if (x == floor(x)) return order % 2 == 1 ? GG_INFINITY : GG_NAN;
    // Reflection. The derivatives of the cotangent are polynomials in it; orders beyond the table's highest are not exact.
    double polynomial[34] = {0.0, 1.0};
    int length = 2;
    for (int step = 0; step < order && length < 34; step++) {
        double derivative[34] = {};
        for (int degree = 1; degree < length; degree++) {
            derivative[degree - 1] -= degree * polynomial[degree];
            derivative[degree + 1] -= degree * polynomial[degree];
        }
        length++;
        for (int degree = 0; degree < length; degree++) polynomial[degree] = derivative[degree];
    }
    if (order > 32) return GG_NAN;
    const double cotangent = 1.0 / tan(PI * (x - floor(x)));
    double derivative = 0.0;
    for (int degree = length - 1; degree >= 0; degree--) derivative = derivative * cotangent + polynomial[degree];
    const double sign = order % 2 == 0 ? 1.0 : -1.0;
    return sign * gg_polygamma_positive(order, 1.0 - x) - gg_powi(PI, order + 1) * derivative;
}

static __device__ double gg_sinc_derivative(int order, double x) {
    if (order < 0) return GG_NAN;
    if (x == GG_INFINITY || x == -GG_INFINITY) return 0.0;
    const double u = PI * x;
    double value;
    if (fabs(u) < (order > 3 ? (double)order : 3.0)) {
        const int first = (order + 1) / 2;
        double power = (first % 2 == 0 ? 1.0 : -1.0) * gg_powi(u, 2 * first - order);
        value = 0.0;
        for (int k = first; k < first + 40 + order; k++) {
            const double term = power / (2 * k + 1);
            value += term;
            if (fabs(term) <= 2.220446049250313e-18 * fabs(value)) break;
            const double degree = 2 * k - order;
            power *= -u * u / ((degree + 1.0) * (degree + 2.0));
        }
    } else {
        const double sine = sin(u), cosine = cos(u);
        const double shifted[4] = {sine, cosine, -sine, -cosine};
        value = sine / u;
        for (int n = 1; n <= order; n++) value = (shifted[n % 4] - n * value) / u;
    }
    return gg_powi(PI, order) * value;
}

// A machine number with the methods by which the rows of the operation table are written.
template <class T> struct Number {
    T v;
#define GG_METHOD(name, function) __device__ Number name() const { return {(T)function(v)}; }
    GG_METHOD(sqrt, ::sqrt) GG_METHOD(cbrt, ::cbrt) GG_METHOD(exp, ::exp) GG_METHOD(exp2, ::exp2)
    GG_METHOD(expm1, ::expm1) GG_METHOD(ln, ::log) GG_METHOD(log2, ::log2) GG_METHOD(log10, ::log10)
    GG_METHOD(log1p, ::log1p) GG_METHOD(sin, ::sin) GG_METHOD(cos, ::cos) GG_METHOD(tan, ::tan)
    GG_METHOD(asin, ::asin) GG_METHOD(acos, ::acos) GG_METHOD(atan, ::atan) GG_METHOD(sinh, ::sinh)
    GG_METHOD(cosh, ::cosh) GG_METHOD(tanh, ::tanh) GG_METHOD(asinh, ::asinh) GG_METHOD(acosh, ::acosh)
    GG_METHOD(atanh, ::atanh) GG_METHOD(abs, ::fabs) GG_METHOD(floor, ::floor) GG_METHOD(ceil, ::ceil)
    GG_METHOD(round, ::round)
#undef GG_METHOD
    // In double precision also for 32-bit numbers, as on the host.
    __device__ Number erf() const { return {(T)::erf((double)v)}; }
    __device__ Number erfc() const { return {(T)::erfc((double)v)}; }
    __device__ Number lgamma() const { return {(T)::lgamma((double)v)}; }
    __device__ Number polygamma(int order) const { return {(T)gg_polygamma(order, (double)v)}; }
    __device__ Number sinc_derivative(int order) const { return {(T)gg_sinc_derivative(order, (double)v)}; }
    __device__ Number powi(int exponent) const { return {gg_powi(v, exponent)}; }
    __device__ Number powf(Number exponent) const { return {(T)::pow(v, exponent.v)}; }
    __device__ Number atan2(Number other) const { return {(T)::atan2(v, other.v)}; }
    __device__ Number hypot(Number other) const { return {(T)::hypot(v, other.v)}; }
    __device__ Number operator-() const { return {-v}; }
    __device__ Number operator+(Number other) const { return {v + other.v}; }
    __device__ Number operator-(Number other) const { return {v - other.v}; }
    __device__ Number operator*(Number other) const { return {v * other.v}; }
    __device__ Number operator/(Number other) const { return {v / other.v}; }
    __device__ Number operator%(Number other) const { return {(T)::fmod(v, other.v)}; }
    __device__ bool operator>(Number other) const { return v > other.v; }
    __device__ bool operator<(Number other) const { return v < other.v; }
    __device__ bool operator>=(Number other) const { return v >= other.v; }
    __device__ bool operator<=(Number other) const { return v <= other.v; }
};

// The literals of a row.
template <class T> struct Literal {
    __device__ Number<T> operator()(double value) const { return {(T)value}; }
};

template <class N> GG_INLINE N choose(bool condition, N taken, N otherwise) { return condition ? taken : otherwise; }

// The larger of two numbers; NaN propagates.
template <class N> GG_INLINE N larger(N a, N b) { return a > b ? a : (a <= b ? b : a + b); }

template <class T> GG_INLINE Number<T> sigmoid(Number<T> x) {
    Literal<T> c;
    const Number<T> e = (-x.abs()).exp();
    return choose(x >= c(0.0), c(1.0), e) / (c(1.0) + e);
}

template <class T> GG_INLINE Number<T> softplus(Number<T> x) {
    return larger(x, Literal<T>()(0.0)) + (-x.abs()).exp().log1p();
}

template <class T> GG_INLINE Number<T> normal_distribution(Number<T> x) {
    Literal<T> c;
    return c(0.5) * (c(-FRAC_1_SQRT_2) * x).erfc();
}

template <class T> GG_INLINE Number<T> sign(Number<T> x) {
    Literal<T> c;
    return choose(x > c(0.0), c(1.0), choose(x < c(0.0), c(-1.0), x));
}

// Conversions as on the host: integers saturate, and NaN becomes zero.
GG_INLINE i64 gg_integer(double x) {
    if (x != x) return 0;
    if (x >= 9223372036854775808.0) return 0x7FFFFFFFFFFFFFFFLL;
    if (x <= -9223372036854775808.0) return -0x7FFFFFFFFFFFFFFFLL - 1;
    return (i64)x;
}

// Reductions: the first argument is what was reduced so far.
GG_INLINE float gg_plus(float a, float b) { return a + b; }
GG_INLINE double gg_plus(double a, double b) { return a + b; }
GG_INLINE i64 gg_plus(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
GG_INLINE u8 gg_plus(u8 a, u8 b) { return a | b; }
GG_INLINE float gg_times(float a, float b) { return a * b; }
GG_INLINE double gg_times(double a, double b) { return a * b; }
GG_INLINE i64 gg_times(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
GG_INLINE u8 gg_times(u8 a, u8 b) { return a & b; }
template <class T> GG_INLINE T gg_max(T a, T b) { return a != a ? a : (b != b || b > a ? b : a); }

#ifdef __CUDACC__
template <class T> GG_INLINE T gg_shuffled(T x, int other) { return __shfl_xor_sync(0xFFFFFFFFu, x, other); }
GG_INLINE u8 gg_shuffled(u8 x, int other) { return (u8)__shfl_xor_sync(0xFFFFFFFFu, (int)x, other); }
#endif

// The numbers of the threads of a warp reduced to one, which all of them get: pairs at distances 16 to 1. The emulation has no registers of other
// threads: they exchange numbers through memory.
template <bool is_max, class T> GG_INLINE T gg_warp_reduce(T x, T *exchange, u32 thread) {
#pragma unroll
    for (int other = 16; other > 0; other /= 2) {
#ifdef __CUDACC__
        const T y = gg_shuffled(x, other);
#else
        exchange[thread] = x;
        __syncthreads();
        const T y = exchange[thread ^ other];
        __syncthreads();
#endif
        x = is_max ? gg_max(x, y) : gg_plus(x, y);
    }
    return x;
}

// Philox 4x32 with ten rounds: the counter-based generator of the library, with the same bits.
struct GgBits { u32 a, b, c, d; };

GG_INLINE GgBits gg_philox(u64 key, u32 c0, u32 c1, u32 c2, u32 c3) {
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
        const u32 n0 = (u32)(p1 >> 32) ^ c1 ^ k0, n2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c1 = (u32)p1;
        c3 = (u32)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {c0, c1, c2, c3};
}

GG_INLINE double gg_unit(u32 low, u32 high) {
    return (double)(((u64)low | (u64)high << 32) >> 11) * 1.1102230246251565e-16;
}

GG_INLINE double gg_uniform(u64 key, u64 index) {
    const GgBits bits = gg_philox(key, (u32)index, (u32)(index >> 32), 0, 0);
    return gg_unit(bits.a, bits.b);
}

GG_INLINE double gg_normal(u64 key, u64 index) {
    const GgBits bits = gg_philox(key, (u32)index, (u32)(index >> 32), 1, 0);
    return sqrt(-2.0 * log(1.0 - gg_unit(bits.a, bits.b))) * cos(2.0 * PI * gg_unit(bits.c, bits.d));
}

GG_INLINE u64 gg_fold(u64 key, u64 number) {
    const GgBits bits = gg_philox(key, (u32)number, (u32)(number >> 32), 0, 0x80000000u);
    return (u64)bits.a | (u64)bits.b << 32;
}
