/* optimizer.safetensors: a good file of a small network with bytes of it changed, and one made up altogether. An input
 * is changes, each a place (2 bytes) and a byte, after a zero; otherwise the file's bytes. What loads leaves the same
 * numbers behind as it would when saved and loaded again. */
#include "base/memory.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/save.h"
#include "trainer/run_folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3, COLUMNS = 2, VECTOR = 3, N = ROWS * COLUMNS + VECTOR };

typedef struct Toy {
    ParamSet ps;
    Weight matrix, vector;
    Optimizer o;
} Toy;

static Toy toy;
static char *good;
static size_t n_good;

static const char *path_of(void) {
    static char path[512];
    snprintf(path, sizeof path, "%s/" RUN_OPTIMIZER, fuzz_folder());
    return path;
}

static void open_toy(void) {
    Init init = {.kind = INIT_CONSTANT};
    Err err = {""};
    param_declare(&toy.ps, &toy.matrix, "matrix", 2, (int[]){ROWS, COLUMNS}, init);
    param_declare(&toy.ps, &toy.vector, "vector", 1, (int[]){VECTOR}, init);
    optimizer_init(&toy.o, &toy.ps, false, 1);
    for (int i = 0; i < N; i++) toy.o.w[i] = toy.o.m[i] = toy.o.v[i] = (float)(i + 1) / 8;
    CHECK_MSG(save_now(&(Save){0}, &toy.o, &toy.ps, fuzz_folder(), 7, &err) == 0, "%s", err.msg);
    good = test_read_file(path_of(), &n_good);
}

static void close_toy(void) {
    optimizer_free(&toy.o);
    params_free(&toy.ps);
    free(good);
}

static void write_changed(FuzzInput *in) {
    char *file = xmalloc(n_good);
    memcpy(file, good, n_good);
    while (in->left >= 3) {
        size_t place = (size_t)fuzz_byte(in) | (size_t)fuzz_byte(in) << 8;
        file[place % n_good] = (char)fuzz_byte(in);
    }
    fuzz_file(RUN_OPTIMIZER, file, n_good - MIN(in->left, n_good));
    free(file);
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    Err err = {""};
    int64_t step, again;
    float before[3 * N];
    size_t bytes = N * sizeof(float);
    if (fuzz_byte(&in))
        fuzz_file(RUN_OPTIMIZER, in.at, in.left);
    else
        write_changed(&in);
    if (optimizer_load(&toy.o, &toy.ps, fuzz_folder(), &step, &err)) {
        CHECK(strstr(err.msg, RUN_OPTIMIZER));
        return;
    }
    CHECK(step >= 0);
    memcpy(before, toy.o.w, bytes);
    memcpy(before + N, toy.o.m, bytes);
    memcpy(before + 2 * N, toy.o.v, bytes);
    for (int i = 0; i < 3 * N; i++) CHECK(isfinite(before[i]));
    CHECK_MSG(save_now(&(Save){0}, &toy.o, &toy.ps, fuzz_folder(), step, &err) == 0, "%s", err.msg);
    CHECK_MSG(optimizer_load(&toy.o, &toy.ps, fuzz_folder(), &again, &err) == 0, "%s", err.msg);
    CHECK(again == step && !memcmp(before, toy.o.w, bytes) && !memcmp(before + N, toy.o.m, bytes) &&
          !memcmp(before + 2 * N, toy.o.v, bytes));
}

TEST(fuzz_optimizer) {
    toy = (Toy){0};
    open_toy();
    fuzz_run("optimizer", look);
    close_toy();
}
