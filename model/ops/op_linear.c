#include "base/arena.h"
#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"
#include "model/ops/train_gemm.h"

#include <string.h>

typedef struct LinearContext {
    Tape *tape;
    Mat *x, *y;
    const Weight *w, *b;
} LinearContext;

static void bias_forward(const Mat *y, const float *b) {
#pragma omp parallel for schedule(static) if (team_pays((size_t)y->n * (size_t)y->d, TEAM_COPIES))
    for (int i = 0; i < y->n; i++) memcpy(y->x + (size_t)i * (size_t)y->d, b, (size_t)y->d * sizeof *b);
}

/* db += sum over rows of dy. Split by column, so that the order of the sum is that of the rows on any team. */
static void bias_backward(const Mat *y, float *db) {
    enum { WIDTH = 256 };
#pragma omp parallel for if (team_pays((size_t)y->n * (size_t)y->d, TEAM_COPIES))
    for (int c = 0; c < y->d; c += WIDTH)
        for (int i = 0; i < y->n; i++)
            kernels->add_row(MIN(WIDTH, y->d - c), y->dx + (size_t)i * (size_t)y->d + c, db + c);
}

/* Of a BF16 weight in memory of the tape: in bf16, which it is trained in, the product rounds nothing off it. */
static const float *widened(Tape *t, const Weight *w) {
    if (w->dtype == DTYPE_F32) return weight_f32(w);
    BUG_ON(w->dtype != DTYPE_BF16 || !t->bf16);
    size_t rows = (size_t)w->dims[0], d = (size_t)w->dims[1];
    float *x = tape_alloc(t, rows * d * sizeof *x);
#pragma omp parallel for schedule(static) if (team_pays(rows * d, TEAM_COPIES))
    for (size_t i = 0; i < rows; i++) weight_read(w, i * d, d, x + i * d);
    return x;
}

/* dx += dy W; dW += dy^T x; db += sum dy */
static void linear_backward(void *context) {
    const LinearContext *c = context;
    Mat *x = c->x, *y = c->y;
    const float *dy = mat_gradient(y);
    bool add = !mat_first(x);
    ArenaMark mark = arena_mark(&c->tape->arena);
    train_gemm(c->tape, &(TrainGemm){.m = x->n,
                                     .n = x->d,
                                     .k = y->d,
                                     .a = {dy, y->d, false},
                                     .b = {widened(c->tape, c->w), x->d, false},
                                     .c = x->dx,
                                     .ldc = x->d,
                                     .add = add});
    arena_rewind(&c->tape->arena, mark);
    if (c->w->grad)
        train_gemm(c->tape, &(TrainGemm){.m = y->d,
                                         .n = x->d,
                                         .k = x->n,
                                         .a = {dy, y->d, true},
                                         .b = {x->x, x->d, false},
                                         .c = c->w->grad,
                                         .ldc = x->d,
                                         .add = true});
    if (c->b && c->b->grad) bias_backward(y, c->b->grad);
}

/* Output features first..first+count-1 of rows row..row+rows-1. */
typedef struct Part {
    int row, rows, first, count;
} Part;

/* Rows [n, d] as the kernel for weights of a dtype takes them: one of the three. */
typedef struct Operand {
    int n, d;
    float *f32;     /* F32, F16 */
    uint16_t *bf16; /* BF16 */
    int8_t *codes;  /* I8, I4 */
    float *scales;  /* [n, d / INT8_GROUP], with codes */
} Operand;

static Operand operand_new(Tape *t, int rows, int width, Dtype dtype) {
    size_t n = (size_t)rows, d = (size_t)width;
    Operand a = {.n = rows, .d = width};
    switch (dtype) {
    case DTYPE_F32:
    case DTYPE_F16:
        a.f32 = tape_alloc(t, n * d * sizeof *a.f32);
        break;
    case DTYPE_BF16:
        a.bf16 = tape_alloc(t, n * d * sizeof *a.bf16);
        break;
    case DTYPE_I8:
    case DTYPE_I4:
        a.codes = tape_alloc(t, n * d);
        a.scales = tape_alloc(t, n * (d / INT8_GROUP) * sizeof *a.scales);
    }
    return a;
}

/* Elements first..first+count-1 of row i, whole groups of codes. */
static void operand_write(const Operand *a, int i, int first, int count, const float *x) {
    size_t at = (size_t)i * (size_t)a->d + (size_t)first;
    if (a->f32)
        memcpy(a->f32 + at, x, (size_t)count * sizeof *x);
    else if (a->bf16)
        kernels->to_bf16(count, x, a->bf16 + at);
    else
        kernels->to_int8(count, x, a->codes + at, a->scales + at / INT8_GROUP);
}

static Operand operand_of(Tape *t, const Mat *x, Dtype dtype) {
    if (dtype == DTYPE_F32 || dtype == DTYPE_F16) return (Operand){.n = x->n, .d = x->d, .f32 = x->x};
    Operand a = operand_new(t, x->n, x->d, dtype);
#pragma omp parallel for schedule(static) if (team_pays((size_t)x->n * (size_t)x->d, TEAM_COPIES))
    for (int i = 0; i < x->n; i++) operand_write(&a, i, 0, x->d, x->x + (size_t)i * (size_t)x->d);
    return a;
}

/* out [p->rows, p->count], a row every ld elements */
static void part_product(const Operand *a, const Weight *w, const Part *p, float *out, int ld) {
    int k = a->d;
    size_t row = (size_t)p->row * (size_t)k, at = (size_t)p->first * (size_t)k;
    switch (w->dtype) {
    case DTYPE_F32:
        kernels->gemm_f32(p->rows, p->count, k, a->f32 + row, k, (const float *)w->data + at, out, ld);
        break;
    case DTYPE_BF16:
        kernels->gemm_bf16(p->rows, p->count, k, a->bf16 + row, k, (const uint16_t *)w->data + at, out, ld);
        break;
    case DTYPE_F16:
        kernels->gemm_f16(p->rows, p->count, k, a->f32 + row, k, (const uint16_t *)w->data + at, out, ld);
        break;
    case DTYPE_I8:
        kernels->gemm_i8(p->rows, p->count, k, a->codes + row, a->scales + row / INT8_GROUP,
                         (const int8_t *)w->data + at, w->scale + at / INT8_GROUP, out, ld);
        break;
    case DTYPE_I4:
        BUG_ON(p->first % INT4_OUTS || p->count % INT4_OUTS);
        kernels->gemm_i4(p->rows, p->count, k, a->codes + row, a->scales + row / INT8_GROUP,
                         (const uint8_t *)w->data + at / 2, w->scale16 + at / INT4_GROUP, out, ld);
    }
}

static float *part_row(const Mat *y, const Part *p, int i) {
    return y->x + (size_t)(p->row + i) * (size_t)y->d + p->first;
}

static void part_serve(const Operand *a, const Weight *w, const float *b, const Mat *y, const Part *p) {
    part_product(a, w, p, part_row(y, p, 0), y->d);
    for (int i = 0; b && i < p->rows; i++) kernels->add_row(p->count, b + p->first, part_row(y, p, i));
}

enum { PANEL = 64 };     /* outputs that kernels like to take together */
enum { ADD_ROWS = 512 }; /* of a piece at most; it has as many outputs as there is room for */

/* y += product */
static void part_add(const Operand *a, const Weight *w, const Mat *y, const Part *p, float *scratch) {
    int outputs = PIECE_SUMS / MIN(p->rows, ADD_ROWS) / PANEL * PANEL, end = p->first + p->count;
    for (int first = p->first; first < end; first += outputs)
        for (int done = 0; done < p->rows; done += ADD_ROWS) {
            Part some = {p->row + done, MIN(ADD_ROWS, p->rows - done), first, MIN(outputs, end - first)};
            part_product(a, w, &some, scratch, some.count);
            for (int i = 0; i < some.rows; i++)
                kernels->add_row(some.count, scratch + (size_t)i * (size_t)some.count, part_row(y, &some, i));
        }
}

/* y = x W^T + b, or y += x W^T */
typedef struct Product {
    const Weight *w, *b;
    const Mat *y;
} Product;

/* Every thread takes one stretch of all outputs, so that the kernels can fetch ahead in W and pack or convert x for it
 * once; or, where they are not enough to go round, one stretch of the rows. */
static void linear_serve(Tape *t, const Operand *a, int n, const Product *products, bool add) {
    ArenaMark mark = arena_mark(&t->arena);
    int outputs = 0;
    for (int i = 0; i < n; i++) outputs += products[i].y->d;
    int team = team_size(), panels = (outputs + PANEL - 1) / PANEL;
    bool by_rows = panels < team && a->n >= PANEL;
    int all = by_rows ? a->n : outputs, share = by_rows ? (a->n + team - 1) / team : (panels + team - 1) / team * PANEL;
    size_t sums = MIN((size_t)PIECE_SUMS, (size_t)share * (size_t)(by_rows ? outputs : a->n));
    float *scratch = add ? tape_alloc(t, (size_t)team * sums * sizeof *scratch) : NULL;
#pragma omp parallel for schedule(static) if (team_pays((size_t)a->n * (size_t)a->d * (size_t)outputs, TEAM_PRODUCTS))
    for (int first = 0; first < all; first += share) {
        int count = MIN(share, all - first);
        for (int i = 0, o = 0; i < n; o += products[i++].y->d) { /* o: its first output among all */
            const Product *p = &products[i];
            int from = MAX(first, o), end = MIN(first + count, o + p->y->d);
            Part part = by_rows ? (Part){first, count, 0, p->y->d} : (Part){0, a->n, from - o, end - from};
            if (part.count <= 0) continue;
            if (add)
                part_add(a, p->w, p->y, &part, scratch + (size_t)team_member() * sums);
            else
                part_serve(a, p->w, p->b ? weight_f32(p->b) : NULL, p->y, &part);
        }
    }
    arena_rewind(&t->arena, mark);
}

/* The same, of rows in f32. */
static void rows_serve(Tape *t, const Mat *x, int n, const Product *products, bool add) {
    ArenaMark mark = arena_mark(&t->arena);
    Operand a = operand_of(t, x, products->w->dtype);
    linear_serve(t, &a, n, products, add);
    arena_rewind(&t->arena, mark);
}

/* Rows of a piece: few, so that a level that packs rows has many outputs for them. */
enum { HIDDEN_ROWS = 128 };

/* What a feed-forward layer makes of its input x, on its way to be the operand `out`. */
typedef struct Hidden {
    const Operand *x, *out;
    const Weight *w;
    const float *b; /* or NULL */
    Activation activation;
    bool gated; /* outputs 0..out->d-1 of W are the gates of those that follow */
} Hidden;

/* Features p, which do not leave the cache on the way: scratch [1 + gated][p->rows, p->count]. */
static void hidden_piece(const Hidden *h, const Part *p, float *scratch) {
    size_t count = (size_t)p->count, sums = (size_t)p->rows * count;
    int halves = 1 + h->gated;
    for (int half = 0; half < halves; half++) {
        Part of = *p;
        of.first += half * h->out->d;
        part_product(h->x, h->w, &of, scratch + half * sums, p->count);
        for (size_t i = 0; h->b && i < (size_t)p->rows; i++)
            kernels->add_row(p->count, h->b + of.first, scratch + half * sums + i * count);
    }
    for (int i = 0; i < p->rows; i++) {
        float *row = scratch + (size_t)i * count;
        activation_row(h->activation, p->count, row, row);
        if (h->gated) kernels->train->product_row(p->count, row, row + sums, false, row);
        operand_write(h->out, p->row + i, p->first, p->count, row);
    }
}

static void hidden_serve(Tape *t, const Hidden *h) {
    ArenaMark mark = arena_mark(&t->arena);
    int n = h->x->n, width = h->out->d, team = team_size(), panels = (width + PANEL - 1) / PANEL;
    int share = (panels + team - 1) / team * PANEL, rows = MIN(n, HIDDEN_ROWS);
    int outputs = MIN(share, PIECE_SUMS / rows / (1 + h->gated) / PANEL * PANEL);
    size_t sums = (size_t)rows * (size_t)outputs * (1 + h->gated);
    float *scratch = tape_alloc(t, (size_t)team * sums * sizeof *scratch);
#pragma omp parallel for schedule(static) if (team_pays((size_t)n * (size_t)h->x->d * (size_t)width, TEAM_PRODUCTS))
    for (int begin = 0; begin < width; begin += share)
        for (int first = begin, end = MIN(width, begin + share); first < end; first += outputs)
            for (int row = 0; row < n; row += rows)
                hidden_piece(h, &(Part){row, MIN(rows, n - row), first, MIN(outputs, end - first)},
                             scratch + (size_t)team_member() * sums);
    arena_rewind(&t->arena, mark);
}

/* y (+)= x W^T */
static void linear_packed(Tape *t, Mat *x, const Weight *w, const Weight *b, Mat *y, bool add) {
    ArenaMark mark = arena_mark(&t->arena);
    train_gemm(t, &(TrainGemm){.m = x->n,
                               .n = y->d,
                               .k = x->d,
                               .a = {x->x, x->d, false},
                               .b = {widened(t, w), x->d, true},
                               .c = y->x,
                               .ldc = y->d,
                               .add = add});
    arena_rewind(&t->arena, mark);
    if (!t->recording) return;
    LinearContext *c = tape_alloc(t, sizeof *c);
    *c = (LinearContext){.tape = t, .x = x, .y = y, .w = w, .b = b};
    tape_push(t, linear_backward, c);
}

Mat *op_linear(Tape *t, Mat *x, const Weight *w, const Weight *b) {
    if (t->recording) return op_linear_packed(t, x, w, b);
    BUG_ON(w->n_dims != 2 || w->dims[1] != x->d);
    Mat *y = tape_mat(t, x->n, w->dims[0]);
    rows_serve(t, x, 1, &(Product){w, b, y}, false);
    return y;
}

void op_linears(Tape *t, Mat *x, int n, const Weight *const *w, const Weight *const *b, Mat **y) {
    Product products[LINEARS_MOST];
    bool together = !t->recording;
    BUG_ON(n > LINEARS_MOST);
    for (int i = 1; i < n; i++) together &= w[i]->dtype == w[0]->dtype;
    if (!together) {
        for (int i = 0; i < n; i++) y[i] = op_linear(t, x, w[i], b[i]);
        return;
    }
    for (int i = 0; i < n; i++) {
        BUG_ON(w[i]->n_dims != 2 || w[i]->dims[1] != x->d);
        y[i] = tape_mat(t, x->n, w[i]->dims[0]);
        products[i] = (Product){w[i], b[i], y[i]};
    }
    rows_serve(t, x, n, products, false);
}

Mat *op_linear_packed(Tape *t, Mat *x, const Weight *w, const Weight *b) {
    BUG_ON(w->n_dims != 2 || w->dims[1] != x->d);
    Mat *y = tape_mat(t, x->n, w->dims[0]);
    if (b) bias_forward(y, weight_f32(b));
    linear_packed(t, x, w, b, y, b != NULL);
    return y;
}

Mat *op_linear_add(Tape *t, Mat *x, const Weight *w, Mat *y) {
    BUG_ON(w->n_dims != 2 || w->dims[1] != x->d || w->dims[0] != y->d);
    if (t->recording)
        linear_packed(t, x, w, NULL, y, true);
    else
        rows_serve(t, x, 1, &(Product){w, NULL, y}, true);
    return y;
}

Mat *op_feed_forward(Tape *t, Mat *x, const FeedForward *m) {
    int width = m->up->dims[0] / (1 + m->gated);
    BUG_ON(m->up->dims[1] != x->d || m->down->dims[1] != width);
    if (m->gated && m->up->dtype == DTYPE_I4 && width % INT4_OUTS) { /* what is gated begins inside a block of codes */
        Mat *hidden = op_gate(t, op_linear(t, x, m->up, m->up_b), m->activation);
        return op_linear(t, hidden, m->down, m->down_b);
    }
    Mat *y = tape_mat(t, x->n, m->down->dims[0]);
    ArenaMark mark = arena_mark(&t->arena);
    Operand in = operand_of(t, x, m->up->dtype), hidden = operand_new(t, x->n, width, m->down->dtype);
    hidden_serve(t, &(Hidden){&in, &hidden, m->up, m->up_b ? weight_f32(m->up_b) : NULL, m->activation, m->gated});
    linear_serve(t, &hidden, 1, &(Product){m->down, m->down_b, y}, false);
    arena_rewind(&t->arena, mark);
    return y;
}
