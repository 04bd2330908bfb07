/* Which levels this machine can run, and the choice among them. */
#include "base/err.h"
#include "base/log.h"
#include "base/quantiles.h"
#include "model/kernels/blas.h"
#include "model/kernels/isa.h"
#include "model/kernels/rates.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const Kernels *kernels;
size_t first_level_bytes = 32 << 10;
bool reads_in_streams;
static Kernels blas;

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>

typedef struct CpuFeatures {
    bool avx2, avx2vnni, avx512, avx512vnni, avx512bf16, amx;
} CpuFeatures;

static Kernels avx2vnni, avx512vnni, avx512bf16, amx;

/* XCR0: the register states that the operating system saves. Only valid when CPUID reports OSXSAVE. */
static uint64_t saved_states(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

/* Linux lets a process use tiles, with their 8 KiB of state a thread, once it has asked. */
static bool tiles_permitted(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILE_DATA) == 0;
}

static CpuFeatures cpu_features(void) {
    enum { STATE_AVX = 0x06, STATE_AVX512 = 0xe6, STATE_TILES = 0x60000 };
    const unsigned tiles = 1u << 22 | 1u << 24 | 1u << 25; /* AMX-BF16, -TILE, -INT8: gcc and clang differ in names */
    const unsigned need1 = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
    const unsigned need7 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    unsigned a, b, c, d;
    CpuFeatures f = {0};
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & need1) != need1) return f;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
    uint64_t states = saved_states();
    f.avx2 = (b & bit_AVX2) && (states & STATE_AVX) == STATE_AVX;
    f.avx512 = f.avx2 && (b & need7) == need7 && (states & STATE_AVX512) == STATE_AVX512;
    f.avx512vnni = f.avx512 && (c & bit_AVX512VNNI);
    bool amx_bits = (d & tiles) == tiles && (states & STATE_TILES) == STATE_TILES;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d)) return f;
    f.avx2vnni = f.avx2 && (a & bit_AVXVNNI);
    f.avx512bf16 = f.avx512vnni && (a & bit_AVX512BF16);
    f.amx = f.avx512bf16 && amx_bits && tiles_permitted();
    return f;
}

static bool is_intel(void) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
}

/* vdpbf16ps has half the rate of fused multiply-adds on Intel's cores, twice theirs on AMD's. */
static bool pairs_are_slow(const Kernels *level) { return level == &avx512bf16 && is_intel(); }
#define VECTOR_LEVELS "avx2, avx2vnni, avx512, avx512vnni, avx512bf16, amx"
#elif defined(__aarch64__)
#include <sys/auxv.h>

static Kernels neondot, neonbf16;
#define VECTOR_LEVELS "neon, neondot, neonbf16"
#else
#define VECTOR_LEVELS "none of vectors"
#endif

#if !defined(__x86_64__)
static bool is_intel(void) { return false; }
static bool pairs_are_slow(const Kernels *level) { return (void)level, false; }
#endif

int kernels_available(const Kernels *out[KERNELS_LEVELS]) {
    int n = 0;
    out[n++] = &kernels_ref;
    out[n++] = &blas;
#if defined(__x86_64__)
    CpuFeatures f = cpu_features();
    if (f.avx2) out[n++] = &kernels_avx2;
    if (f.avx2vnni) {
        avx2vnni = kernels_avx2vnni();
        out[n++] = &avx2vnni;
    }
    if (f.avx512) out[n++] = &kernels_avx512;
    if (f.avx512vnni) {
        avx512vnni = kernels_avx512vnni();
        out[n++] = &avx512vnni;
    }
    if (f.avx512bf16) {
        avx512bf16 = kernels_avx512bf16();
        out[n++] = &avx512bf16;
    }
    if (f.amx) {
        amx = kernels_amx();
        out[n++] = &amx;
    }
#elif defined(__aarch64__)
    out[n++] = &kernels_neon;
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) {
        neondot = kernels_neondot();
        out[n++] = &neondot;
        const unsigned long both = HWCAP2_BF16 | HWCAP2_I8MM; /* no processor is known that has one of them */
        if ((getauxval(AT_HWCAP2) & both) == both) {
            neonbf16 = kernels_neonbf16();
            out[n++] = &neonbf16;
        }
    }
#endif
    blas = kernels_blas(out[n - 1] == &blas ? &kernels_ref : out[n - 1]);
    return n;
}

enum { FIRST_VECTOR = 2 }; /* behind ref and blas */

static const Kernels *by_rate(const Kernels *const *levels, int n) {
    static RatedKernels rated;
    if (rated.kernels.name) return &rated.kernels;
    kernels_by_rate(&rated, levels, n);
    if (pairs_are_slow(levels[n - 1])) rated.train.pairs_pay = false;
    return &rated.kernels;
}

int kernels_init(Err *err) {
    const Kernels *available[KERNELS_LEVELS] = {NULL}, *chosen = NULL;
    int n = kernels_available(available);
    long first_level = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    if (first_level > 0) first_level_bytes = (size_t)first_level;
    reads_in_streams = is_intel();
    const char *cap = getenv("NOISED_ISA");
    if (!cap) chosen = n > FIRST_VECTOR ? by_rate(available + FIRST_VECTOR, n - FIRST_VECTOR) : available[n - 1];
    for (int i = 0; cap && i < n; i++)
        if (strcmp(cap, available[i]->name) == 0) chosen = available[i];
    if (!chosen)
        return err_set(err,
                       "NOISED_ISA is \"%s\": the levels are ref, blas, " VECTOR_LEVELS ", and this machine's best "
                       "is %s",
                       cap, available[n - 1]->name);
    const char *fault = chosen == &blas ? blas_fault() : NULL;
    if (fault) {
        log_warning("%s: the slow level ref computes instead of blas", fault);
        chosen = &kernels_ref;
    }
    if (chosen == &blas) blas_map_buffers();
    gaussian_quantiles_build();
    kernels = chosen;
    return 0;
}
