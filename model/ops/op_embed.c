#include "base/err.h"
#include "base/team.h"
#include "model/ops/op.h"

#include <string.h>

typedef struct RowsContext {
    const Weight *table; /* op_embed */
    Mat *x;              /* op_rows */
    const int *ids;
    Mat *y;
} RowsContext;

/* into[ids[i]] += dy[i]. Split by column: rows that share an id are added in row order on any team. */
static void scatter_rows(Mat *y, const int *ids, float *into) {
    enum { WIDTH = 64 };
    size_t d = (size_t)y->d;
    const float *dy = mat_gradient(y);
#pragma omp parallel for if (team_pays((size_t)y->n * d, TEAM_COPIES))
    for (int c0 = 0; c0 < y->d; c0 += WIDTH) {
        int c1 = MIN(c0 + WIDTH, y->d);
        for (int i = 0; i < y->n; i++)
            for (int c = c0; c < c1; c++) into[(size_t)ids[i] * d + (size_t)c] += dy[(size_t)i * d + (size_t)c];
    }
}

static void embed_backward(void *context) {
    const RowsContext *c = context;
    if (c->table->grad) scatter_rows(c->y, c->ids, c->table->grad);
}

static void rows_backward(void *context) {
    const RowsContext *c = context;
    scatter_rows(c->y, c->ids, mat_gradient(c->x));
}

Mat *op_embed(Tape *t, const Weight *table, const int *ids, int n) {
    size_t d = (size_t)table->dims[1];
    Mat *y = tape_mat(t, n, table->dims[1]);
    for (int i = 0; i < n; i++) {
        BUG_ON(ids[i] < 0 || ids[i] >= table->dims[0]);
        weight_read(table, (size_t)ids[i] * d, d, y->x + (size_t)i * d);
    }
    if (t->recording) {
        RowsContext *c = tape_alloc(t, sizeof *c);
        *c = (RowsContext){.table = table, .ids = ids, .y = y};
        tape_push(t, embed_backward, c);
    }
    return y;
}

Mat *op_rows(Tape *t, Mat *x, const int *rows, int n) {
    size_t d = (size_t)x->d;
    Mat *y = tape_mat(t, n, x->d);
    for (int i = 0; i < n; i++) {
        BUG_ON(rows[i] < 0 || rows[i] >= x->n);
        memcpy(y->x + (size_t)i * d, x->x + (size_t)rows[i] * d, d * sizeof(float));
    }
    if (t->recording) {
        RowsContext *c = tape_alloc(t, sizeof *c);
        *c = (RowsContext){.x = x, .ids = rows, .y = y};
        tape_push(t, rows_backward, c);
    }
    return y;
}
