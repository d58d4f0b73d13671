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
static void (*gg_body)(void **);
static void **gg_arguments;

static void __syncthreads() { swapcontext(&gg_threads[gg_current].context, &gg_scheduler); }

static void gg_enter() {
    gg_body(gg_arguments);
    gg_threads[gg_current].done = true;
    swapcontext(&gg_threads[gg_current].context, &gg_scheduler);
}

static void gg_run_block(void (*body)(void **), void **arguments, bool barriers) {
    if (!barriers) {
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) body(arguments);
        return;
    }
    gg_body = body;
    gg_arguments = arguments;
    if (gg_threads.size() < blockDim.x) gg_threads.resize(blockDim.x);
    for (unsigned t = 0; t < blockDim.x; t++) {
        GgCoroutine &thread = gg_threads[t];
        if (thread.stack.empty()) thread.stack.resize(1 << 16);
        thread.done = false;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = thread.stack.size();
        thread.context.uc_link = nullptr;
        makecontext(&thread.context, gg_enter, 0);
    }
    for (bool running = true; running;) {
        running = false;
        for (unsigned t = 0; t < blockDim.x; t++) {
            if (gg_threads[t].done) continue;
            gg_current = threadIdx.x = t;
            swapcontext(&gg_scheduler, &gg_threads[t].context);
            running |= !gg_threads[t].done;
        }
    }
}

static void gg_run(void (*body)(void **), void **arguments, const unsigned *grid, unsigned threads, bool barriers) {
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {threads, 1, 1};
    for (blockIdx.z = 0; blockIdx.z < grid[2]; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid[1]; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++) gg_run_block(body, arguments, barriers);
}
