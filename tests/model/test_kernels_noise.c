/* The Gaussians of the kernels: known answers, the table of quantiles, independence of how a row is cut in pieces. */
#include "base/err.h"
#include "base/quantiles.h"
#include "base/random.h"
#include "model/kernels/kernels.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

TEST(kernels_noise_known_answers) {
    static const float first[] = {-0.65559465f, -1.1417931f,  0.85782117f, 0.65142757f,
                                  -1.1554046f,  -0.20381129f, 0.18074545f, 0.09361494f};
    float out[8];
    const Kernels *levels[KERNELS_LEVELS];
    CHECK(kernels_init(NULL) == 0);
    int n = kernels_available(levels);
    for (int l = 0; l < n; l++) {
        levels[l]->gaussians(42, 0, 3 << 16 | 1, 0, 0, 0, 8, out);
        for (int j = 0; j < 8; j++)
            CHECK_MSG(out[j] == first[j], "%s: j=%d is %.9g", levels[l]->name, j, (double)out[j]);
        levels[l]->gaussians(9007199254740991, 7, 11 << 16 | 5, 1000, 0, 1000, 2, out);
        CHECK_MSG(out[1] == -1.914612f, "%s: %.9g", levels[l]->name, (double)out[1]);
    }
}

TEST(kernels_noise_does_not_know_its_pieces) {
    enum { N = 1013 };
    static float whole[N], pieces[N];
    const Kernels *levels[KERNELS_LEVELS];
    kernels_init(NULL);
    int n = kernels_available(levels);
    for (int l = 0; l < n; l++) {
        levels[l]->gaussians(1, 2, 3, 4, 5, 64, N, whole);
        for (int step = 8; step <= 520; step += 8) {
            for (int j = 0; j < N; j += step) levels[l]->gaussians(1, 2, 3, 4, 5, 64 + j, MIN(step, N - j), pieces + j);
            CHECK_MSG(memcmp(whole, pieces, sizeof whole) == 0, "%s in steps of %d", levels[l]->name, step);
        }
        for (int j = 0; j < N; j++) {
            uint32_t word = philox4x32(5u << 16 | (uint32_t)(64 + j) / 8, 4, 3, 2, 1).v[j % 8 / 2];
            uint32_t k = word >> 16 * (j % 2) & 0xffff;
            float q = gaussian_quantiles[k >> 3 & 4095];
            CHECK(whole[j] == (k >> 15 ? -q : q));
        }
    }
}

/* Each of the two draws by itself, beside its own other one: what is made of a draw does not depend on the other.
 * FLOATS_EVERY=1 goes through all draws (minutes). */
TEST(kernels_normals_are_draw_normal) {
    enum { N = 509 };
    int64_t every = getenv("FLOATS_EVERY") ? atoll(getenv("FLOATS_EVERY")) : 4999, wrong = 0;
    REQUIRE(every > 0);
    if (every < 100) test_takes_long();
    const Kernels *levels[KERNELS_LEVELS];
    kernels_init(NULL);
    int n = kernels_available(levels);
#pragma omp parallel for reduction(+ : wrong)
    for (int64_t first = 0; first < INT64_C(1) << 32; first += every * N) {
        uint64_t draws[N];
        float want[N], got[N];
        for (int i = 0; i < N; i++) {
            uint32_t a = (uint32_t)(first + i * every), b = a * 2654435761u;
            draws[i] = a | (uint64_t)b << 32;
            Draws d = {.block = {{a, b, 0, 0}}, .filled = 1};
            want[i] = (float)(-0.25 + 0.02f * draw_normal(&d));
        }
        for (int l = 0; l < n; l++) {
            levels[l]->normals(N, draws, -0.25, 0.02f, got);
            wrong += memcmp(got, want, sizeof got) != 0;
        }
    }
    CHECK_MSG(wrong == 0, "%lld rows of %d are wrong", (long long)wrong, N);
}
