#include "model/ops/train_gemm.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"

/* The wider of m and n is dealt out in blocks, each packed by the thread that multiplies it and small enough for its
 * second-level cache; the other operand is packed once for all, and some columns of it are at work at a time: rows of C
 * are then written in runs. Long k goes in chunks, so that the shared operand stays in the last-level cache. */
enum { CHUNK = 1024, BLOCK_WORDS = 128 << 10, SHARE = 128, COLUMNS = 256 };

typedef void Pack(bool pairs, const PackSource *s, uint32_t *out);

typedef struct Side {
    Matrix x; /* [n, k]: vectors are rows */
    int n, panel;
    Pack *pack;
    bool rows; /* vectors of A whose elements are neighbours: read as they lie, in bf16 from a copy */
} Side;

typedef struct Plan {
    const TrainGemm *g;
    Side a, b;
    bool share_a, bf16;
} Plan;

static int round_up(int n, int to) { return (n + to - 1) / to * to; }

/* Vectors first..first+n-1, elements k0..k0+k-1. */
static void side_pack(const Side *s, bool pairs, int first, int n, int k0, int k, uint32_t *out) {
    size_t ld = (size_t)s->x.ld;
    if (s->rows) {
        const float *x = s->x.x + (size_t)first * ld + k0;
        for (int i = 0; pairs && i < n; i++, x += ld, out += (k + 1) / 2) kernels->train->pair_row(k, x, out);
        return;
    }
    PackSource p = {.n = n, .k = k};
    if (s->x.transposed) {
        p.x = s->x.x + (size_t)k0 * ld + first;
        p.stride = 1;
        p.step = ld;
    } else {
        p.x = s->x.x + (size_t)first * ld + k0;
        p.stride = ld;
        p.step = 1;
    }
    s->pack(pairs, &p, out);
}

static Plan plan_of(const TrainGemm *g, bool bf16) {
    const TrainKernels *t = kernels->train;
    Matrix b = g->b;
    b.transposed = !b.transposed;
    return (Plan){.g = g,
                  .a = {g->a, g->m, t->tile_rows[bf16], t->pack_rows, !g->a.transposed},
                  .b = {b, g->n, t->tile_columns, t->pack_columns, false},
                  .share_a = g->m <= g->n,
                  .bf16 = bf16};
}

/* Vectors first.. from element k0 on; `packed` is what side_pack made of them. */
static Panels panels_of(const Side *s, bool pairs, int first, int k0, int units, const uint32_t *packed) {
    size_t ld = (size_t)s->x.ld, panel = (size_t)s->panel;
    if (!s->rows) return (Panels){.at = packed, .words = panel * (size_t)units};
    if (pairs) return (Panels){.at = packed, .words = panel * (size_t)units, .row = (size_t)units};
    const void *x = s->x.x + (size_t)first * ld + k0;
    return (Panels){.at = x, .words = panel * ld, .row = ld};
}

/* One block of C against all of the shared operand, whose panels are read once for the whole block. */
static void multiply_block(const Plan *p, int first, int n, int k0, int units, const uint32_t *own,
                           const uint32_t *shared, bool add) {
    const TrainKernels *t = kernels->train;
    const TrainGemm *g = p->g;
    const Side *s = p->share_a ? &p->a : &p->b, *o = p->share_a ? &p->b : &p->a;
    Panels mine = panels_of(o, p->bf16, first, k0, units, own);
    size_t ldc = (size_t)g->ldc;
    int some = p->share_a ? s->panel : COLUMNS / s->panel * s->panel;
    for (int at = 0; at < s->n; at += some) {
        int count = MIN(some, s->n - at);
        Panels all = panels_of(s, p->bf16, at, k0, units, shared + (size_t)at * (size_t)units);
        if (p->share_a)
            t->multiply(p->bf16, count, n, units, all, mine, g->c + (size_t)at * ldc + first, ldc, add);
        else
            t->multiply(p->bf16, n, count, units, mine, all, g->c + (size_t)first * ldc + at, ldc, add);
    }
}

/* At most; enough blocks to go round. */
static int most_vectors(const Side *s) { return round_up((s->n + 4 * team_size() - 1) / (4 * team_size()), s->panel); }

static int block_vectors(const Side *s, int units) {
    return MAX(s->panel, MIN(most_vectors(s), BLOCK_WORDS / units / s->panel * s->panel));
}

static void run_chunk(const Plan *p, int k0, int k, uint32_t *shared, uint32_t *own, size_t own_words, bool add) {
    const Side *s = p->share_a ? &p->a : &p->b, *o = p->share_a ? &p->b : &p->a;
    int units = train_units(p->bf16, k), share = SHARE / s->panel * s->panel, block = block_vectors(o, units);
#pragma omp parallel if (team_pays((size_t)p->g->m * (size_t)p->g->n * (size_t)k, TEAM_PRODUCTS))
    {
#pragma omp for schedule(static)
        for (int first = 0; first < s->n; first += share)
            side_pack(s, p->bf16, first, MIN(share, s->n - first), k0, k, shared + (size_t)first * (size_t)units);
#pragma omp for schedule(dynamic)
        for (int first = 0; first < o->n; first += block) {
            int n = MIN(block, o->n - first);
            uint32_t *mine = own + (size_t)team_member() * own_words;
            side_pack(o, p->bf16, first, n, k0, k, mine);
            multiply_block(p, first, n, k0, units, mine, shared, add);
        }
    }
}

void train_gemm(Tape *t, const TrainGemm *g) {
    Plan p = plan_of(g, t->bf16);
    const Side *s = p.share_a ? &p.a : &p.b, *o = p.share_a ? &p.b : &p.a;
    size_t units = (size_t)train_units(p.bf16, MIN(CHUNK, g->k));
    size_t own_words = MIN(MAX(BLOCK_WORDS, (size_t)o->panel * units), (size_t)most_vectors(o) * units);
    ArenaMark mark = arena_mark(&t->arena);
    uint32_t *shared = tape_alloc(t, (size_t)round_up(s->n, s->panel) * units * sizeof *shared);
    uint32_t *own = tape_alloc(t, (size_t)team_size() * own_words * sizeof *own);
    for (int k0 = 0; k0 < g->k; k0 += CHUNK)
        run_chunk(&p, k0, MIN(CHUNK, g->k - k0), shared, own, own_words, g->add || k0 > 0);
    arena_rewind(&t->arena, mark);
}
