
// What chains of kernels wait by: groups of threads within a block, and the blocks of a cluster (compute capability 9.0).

// Waits for the threads of a group.
GG_INLINE void gg_group_barrier(u32 group) { asm volatile("bar.sync %0, 256;" ::"r"(group + 1) : "memory"); }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
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
#endif
