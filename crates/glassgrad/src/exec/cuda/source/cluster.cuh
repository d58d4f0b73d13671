
// Thread-block clusters, from compute capability 9.0 on.

// The number of the block within its cluster.
GG_INLINE u32 gg_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Waits for all threads of the cluster; what they wrote before is visible behind it.
GG_INLINE void gg_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
