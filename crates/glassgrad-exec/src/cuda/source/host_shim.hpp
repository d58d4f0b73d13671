// Runs kernels on the host: blocks and threads become loops. Threads of kernels with barriers are coroutines, so that all of
// them reach a barrier before any goes on.

#include <cmath>
#include <cstring>
#include <ucontext.h>
#include <vector>

struct GgIndex { unsigned x, y, z; };
static GgIndex threadIdx, blockIdx, blockDim, gridDim;

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define GG_ARENA(name, length) alignas(16) static char name[length]

static inline double __longlong_as_double(long long bits) {
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

using std::sqrt; using std::cbrt; using std::exp; using std::exp2; using std::expm1; using std::log; using std::log2;
using std::log10; using std::log1p; using std::sin; using std::cos; using std::tan; using std::asin; using std::acos;
using std::atan; using std::sinh; using std::cosh; using std::tanh; using std::asinh; using std::acosh; using std::atanh;
using std::fabs; using std::floor; using std::ceil; using std::round; using std::pow; using std::atan2; using std::hypot;
using std::fmod; using std::fma;

struct GgCoroutine { ucontext_t context; std::vector<char> stack; bool done; };
static std::vector<GgCoroutine> gg_threads;
static ucontext_t gg_scheduler;
static unsigned gg_current;

// The blocks of a cluster run by turns, each with shared memory of its own.
static unsigned gg_rank;
static bool gg_waits_for_cluster[8];
#define GG_CLUSTER_SHARED(type, name, length) \
    alignas(16) static type name##_of[8][length]; \
    type *name = name##_of[gg_rank]
#define GG_REMOTE(name, rank, index) name##_of[rank][index]
static void (*gg_body)(void **);
static void **gg_arguments;

static void __syncthreads() { swapcontext(&gg_threads[gg_current].context, &gg_scheduler); }

static void gg_cluster_barrier() {
    gg_waits_for_cluster[gg_rank] = true;
    __syncthreads();
}

static void gg_enter() {
    gg_body(gg_arguments);
    gg_threads[gg_current].done = true;
    swapcontext(&gg_threads[gg_current].context, &gg_scheduler);
}

// Runs the threads of a block up to their next barrier; whether any of them goes on after it.
static bool gg_advance(unsigned rank) {
    bool running = false;
    for (unsigned t = 0; t < blockDim.x; t++) {
        GgCoroutine &thread = gg_threads[rank * blockDim.x + t];
        if (thread.done) continue;
        threadIdx.x = t;
        gg_current = rank * blockDim.x + t;
        gg_rank = rank;
        swapcontext(&gg_scheduler, &thread.context);
        running |= !thread.done;
    }
    return running;
}

// Runs a block, or the blocks of a cluster, which lie along the second axis of the grid.
static void gg_run_block(void (*body)(void **), void **arguments, bool barriers, unsigned cluster) {
    if (!barriers) {
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) body(arguments);
        return;
    }
    gg_body = body;
    gg_arguments = arguments;
    const unsigned first = blockIdx.y, threads = blockDim.x * cluster;
    if (gg_threads.size() < threads) gg_threads.resize(threads);
    for (unsigned t = 0; t < threads; t++) {
        GgCoroutine &thread = gg_threads[t];
        if (thread.stack.empty()) thread.stack.resize(1 << 16);
        thread.done = false;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = thread.stack.size();
        thread.context.uc_link = nullptr;
        makecontext(&thread.context, gg_enter, 0);
    }
    bool running[8] = {};
    for (unsigned rank = 0; rank < cluster; rank++) running[rank] = true;
    for (bool any = true; any;) {
        any = false;
        bool advanced = false;
        for (unsigned rank = 0; rank < cluster; rank++) {
            if (!running[rank] || gg_waits_for_cluster[rank]) continue;
            blockIdx.y = first + rank;
            running[rank] = gg_advance(rank);
            advanced = true;
        }
        if (!advanced) for (bool &waits : gg_waits_for_cluster) waits = false;
        for (unsigned rank = 0; rank < cluster; rank++) any |= running[rank];
    }
    blockIdx.y = first;
}

static void gg_run(void (*body)(void **), void **arguments, const unsigned *grid, unsigned threads, bool barriers, unsigned cluster) {
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {threads, 1, 1};
    for (blockIdx.z = 0; blockIdx.z < grid[2]; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid[1]; blockIdx.y += cluster)
            for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++) gg_run_block(body, arguments, barriers, cluster);
}
