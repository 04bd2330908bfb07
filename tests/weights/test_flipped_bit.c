/* One bit of the data is not what was written: whatever reads weights says so and makes nothing of them. And weights
 * that are cut short while a program reads them end it with a message. */
#include "base/err.h"
#include "tests/support/checkpoints.h"
#include "tests/support/daemon.h"
#include "tests/trainer/test_trainer.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void flip(const char *path, long from_end) {
    char byte;
    int fd = open(path, O_RDWR);
    off_t at = lseek(fd, -from_end, SEEK_END);
    CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 4;
    CHECK(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

static const char wanted[] = "model.safetensors: the data has sha256 ";

static void check_said(int status, const char *output, const char *want, const char *what) {
    CHECK_MSG(status == 1 && strstr(output, want), "%s: %d %s", what, status, output);
}

static void check_trainer(const char *fmt, const char *a, const char *b, const char *c, const char *want) {
    const char *arguments = test_text(fmt, a, b, c);
    ChildResult r = trainer_run(arguments);
    check_said(r.status, r.output, want, arguments);
    free(r.output);
}

TEST(flipped_bit_is_served_by_none_and_written_by_none) {
    static const char *const commands[] = {"verify %s", "inspect %s", "quantize %s %s/new", "import %s %s/new",
                                           "import --dtype bf16 %s %s/new"};
    const char *dir = test_dir(), *elsewhere = test_dir(), *text = trainer_text_file(20000);
    char path[300];
    char out[4096], *errors;
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1));
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    flip(path, 777);
    for (size_t i = 0; i < COUNTOF(commands); i++) {
        check_said(test_run_tool(test_text(commands[i], dir, elsewhere), out), out, wanted, commands[i]);
    }
    snprintf(path, sizeof path, "%s/new", elsewhere);
    CHECK(access(path, F_OK));
    static const char *const options[] = {"", " --copy-weights"};
    for (size_t i = 0; i < COUNTOF(options); i++) {
        int status = daemon_run(test_text("--port 0 --model %s%s", dir, options[i]), &errors);
        check_said(status, errors, wanted, "noised");
        free(errors);
    }
    check_trainer("eval --model %s --data %s%s", dir, text, "", wanted);
    check_trainer("pretrain --init %s --data %s --out %s --steps 1", dir, text, path, wanted);
}

TEST(flipped_bit_is_not_trained_on) {
    const char *dir = test_dir(), *text = trainer_text_file(20000), *config = trainer_config_file();
    trainer_done(test_text("pretrain --config %s --data %s --out %s --steps 2 --schedule constant", config, text, dir));
    const char *path = test_text("%s/optimizer.safetensors", dir);
    flip(path, 999);
    check_trainer("pretrain --resume --out %s --steps 3%s%s", dir, "", "", ", but slices.sha256 says ");
    flip(path, 999);
    trainer_done(test_text("pretrain --resume --out %s --steps 3", dir));
}

/* ---- cut short ---- */

typedef struct Cutter {
    pthread_t thread;
    const char *path, *after; /* when this file has something in it; NULL: */
    bool mapped;              /* when a process has mapped path; false: */
    double delay;
    bool fill;         /* it keeps its size, and all but its head becomes 0xff */
    atomic_bool ended; /* the program has: it is too late */
} Cutter;

static void fill(const char *path) {
    size_t n = 0;
    char *data = test_read_file(path, &n);
    REQUIRE(data && n > 128);
    memset(data, 0xff, n);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && pwrite(fd, data + 128, n - 128, 128) == (ssize_t)(n - 128));
    close(fd);
    free(data);
}

static bool is_mapped(const char *path) { return system(test_text("grep -qs %s /proc/[0-9]*/maps", path)) == 0; }

static bool is_time(const Cutter *c) {
    size_t n = 0;
    if (c->after) free(test_read_file(c->after, &n));
    return (!c->after || n > 0) && (!c->mapped || is_mapped(c->path));
}

static void *cut(void *arg) {
    const Cutter *c = arg;
    while (!is_time(c) && !atomic_load(&c->ended)) usleep(5000 * SLOWNESS);
    usleep((useconds_t)(c->delay * 1e6));
    if (c->fill)
        fill(c->path);
    else
        CHECK(truncate(c->path, 4096) == 0);
    return NULL;
}

static ChildResult run_and_cut(const char *arguments, Cutter c) {
    pthread_create(&c.thread, NULL, cut, &c);
    ChildResult r = trainer_run(arguments);
    atomic_store(&c.ended, true);
    pthread_join(c.thread, NULL);
    return r;
}

TEST(cut_short_under_eval) {
    const char *dir = test_dir(), *text = trainer_text_file(200000);
    char arguments[800], path[300];
    bool cut = false;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    snprintf(arguments, sizeof arguments, "eval --model %s --data %s", dir, text);
    for (int try = 0; try < TRIES && !cut; try++) { /* it may be faster */
        REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1));
        ChildResult r = run_and_cut(arguments, (Cutter){.path = path, .mapped = true});
        const char *said = strstr(r.output, "model.safetensors");
        cut = r.status == 1 && said && strstr(said, "was changed while it was read");
        CHECK_MSG(cut || r.status == 0, "%d %s", r.status, r.output);
        free(r.output);
    }
    CHECK(cut);
}

static void check_pretrain(bool filled, const char *options, const char *why) {
    const char *dir = test_dir(), *text = trainer_text_file(200000), *config = trainer_config_file();
    const char *tokens = test_text("%s/tokens.bin", dir), *log = test_text("%s/log.jsonl", dir);
    ChildResult r =
        run_and_cut(test_text("pretrain --config %s --data %s --out %s --steps 100000 %s", config, text, dir, options),
                    (Cutter){.path = tokens, .after = log, .fill = filled});
    CHECK_MSG(r.status == 1 && strstr(r.output, "tokens.bin was changed while it was read") && strstr(r.output, why),
              "%d %s", r.status, r.output);
    free(r.output);
}

TEST(cut_short_under_pretrain) { check_pretrain(false, "", ""); }

/* Within a step, with ids that have no row: the rest of it would read beyond the table. */
TEST(overwritten_under_pretrain) {
    check_pretrain(true, SANITIZED ? "--batch 1 --accumulate 250" : "--batch 1 --accumulate 2000",
                   "there is a token 65535");
}

/* Whenever it comes, there is a message and no new folder, or it came too late. */
TEST(cut_short_under_a_conversion) {
    static const char *const commands[] = {"quantize", "import --dtype bf16"};
    const char *dir = test_dir();
    char arguments[800], path[300], to[300], out[4096];
    Config cfg = test_checkpoint_config();
    cfg.hidden_size = 512;
    cfg.n_layers = 8;
    snprintf(path, sizeof path, "%s/from/model.safetensors", dir);
    snprintf(to, sizeof to, "%s/to", dir);
    for (int i = 0; i < 10; i++) {
        const char *from = test_text("%s/from", dir);
        test_checkpoint_save(from, &cfg, DTYPE_F32);
        Cutter c = {.path = path, .delay = 0.01 * (i + 1)};
        pthread_create(&c.thread, NULL, cut, &c);
        snprintf(arguments, sizeof arguments, "%s %s %s", commands[i % 2], from, to);
        int status = test_run_tool(arguments, out);
        pthread_join(c.thread, NULL);
        bool left = access(to, F_OK) == 0;
        CHECK_MSG((status == 0 && left) || (status == 1 && !left && strstr(out, "noised-weights: ")), "%s: %d %s",
                  arguments, status, out);
        snprintf(arguments, sizeof arguments, "verify %s", to);
        if (left) CHECK_MSG(test_run_tool(arguments, out) == 0, "%s", out);
        test_remove(to);
    }
}
